/* tests/text/pipeline.c — single parts of a tokenizer.json against the reference: normalizers, pre-tokenizers, added tokens.
 *
 * Reads $TINYLOOP_SHARED/suites/tokenizers when it is there. A configuration that is refused counts as refused, by name;
 * the few cases written here run everywhere.
 */
#include <gio/gio.h>
#include <string.h>

#include "gzip.h"
#include "text/tl-normalizer.h"
#include "text/tl-pretokenizer.h"
#include "text/tl-tokenizer.h"

typedef struct
{
  char *text;
  TlJsonTree *tree;
} Suite;

static char *
suite_path (const char *name)
{
  return g_build_filename (g_getenv ("TINYLOOP_SHARED"), "suites", "tokenizers", name, NULL);
}

static gboolean
open_suite (const char *name, Suite *suite)
{
  g_autofree char *path = suite_path (name);
  g_autoptr (GError) error = NULL;
  gsize length;
  if (!g_file_get_contents (path, &suite->text, &length, NULL)) {
    g_test_skip ("the suites are not there");
    return FALSE;
  }
  suite->tree = tl_json_tree_new (suite->text, length, name, &error);
  g_assert_no_error (error);
  return TRUE;
}

static void
close_suite (Suite *suite)
{
  tl_json_tree_free (suite->tree);
  g_free (suite->text);
}

/* a text field, plain or under NAME_b64 */
static GString *
text_of (const TlJsonTree *tree, guint32 node, const char *field)
{
  g_autofree char *base64 = g_strconcat (field, "_b64", NULL);
  guint32 plain = tl_json_get (tree, node, field), coded = tl_json_get (tree, node, base64);
  gsize length;
  g_assert_true (plain || coded);
  g_autofree char *text = tl_json_dup_string (tree, plain ? plain : coded, &length);
  if (plain)
    return g_string_new_len (text, length);
  g_autofree guchar *bytes = g_base64_decode (text, &length);
  return g_string_new_len ((char *) bytes, length);
}

typedef enum { PASSED, FAILED, REFUSED } Verdict;

typedef Verdict (*CheckFunc) (const TlJsonTree *tree, guint32 node, guint32 config, GString *said);

static Verdict
verdict_of_error (GError *error, GString *said)
{
  g_string_append (said, error->message);
  return g_error_matches (error, TL_ERROR, TL_ERROR_UNSUPPORTED) ? REFUSED : FAILED;
}

static void
run_suite (const char *name, CheckFunc check)
{
  Suite suite;
  if (!open_suite (name, &suite))
    return;
  const TlJsonTree *tree = suite.tree;
  guint32 cases = tl_json_get (tree, 0, "cases"), configs = tl_json_get (tree, 0, "configs");
  guint32 node = tl_json_first (tree, cases), counts[3] = { 0, 0, 0 };
  for (guint32 i = 0; i < tl_json_node (tree, cases)->count; i++) {
    g_autofree char *config = configs ? tl_json_get_string (tree, node, "config") : NULL;
    g_autofree char *case_name = tl_json_get_string (tree, node, "name");
    g_autoptr (GString) said = g_string_new (NULL);
    Verdict verdict = check (tree, node, config ? tl_json_get (tree, configs, config) : 0, said);
    counts[verdict]++;
    if (verdict == FAILED && counts[FAILED] <= 12)
      g_test_message ("%s: %s", case_name, said->str);
    else if (verdict == REFUSED && counts[REFUSED] == 1)
      g_test_message ("refused: %s", said->str);
    node = tl_json_node (tree, node)->next;
  }
  g_test_message ("%s: %u passed, %u failed, %u refused", name, counts[PASSED], counts[FAILED], counts[REFUSED]);
  g_assert_cmpuint (counts[PASSED], >, 0);
  if (counts[FAILED])
    g_test_fail ();
  close_suite (&suite);
}

static Verdict
check_normalizer (const TlJsonTree *tree, guint32 node, guint32 config, GString *said)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) text = text_of (tree, node, "text"), expected = text_of (tree, node, "normalized");
  g_autoptr (TlNormalizer) normalizer = tl_normalizer_new (tree, config, "suite", &error);
  if (!normalizer || !tl_normalizer_apply (normalizer, text, &error))
    return verdict_of_error (error, said);
  g_string_append_printf (said, "got \"%s\", expected \"%s\"", text->str, expected->str);
  return g_string_equal (text, expected) ? PASSED : FAILED;
}

static Verdict
check_pretokenizer (const TlJsonTree *tree, guint32 node, guint32 config, GString *said)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlPretokenizer) pretokenizer = tl_pretokenizer_new (tree, config, "suite", &error);
  if (!pretokenizer)
    return verdict_of_error (error, said);
  g_autoptr (GString) original = text_of (tree, node, "text");
  TlWords words = { g_string_new_len (original->str, original->len), g_array_new (FALSE, FALSE, sizeof (TlSpan)), TRUE };
  TlSpan whole = { 0, original->len };
  if (original->len)
    g_array_append_val (words.words, whole);
  g_assert_true (tl_pretokenizer_apply (pretokenizer, &words, &error));
  guint32 pieces = tl_json_get (tree, node, "pieces"), spans = tl_json_get (tree, node, "byte_spans");
  guint32 piece = tl_json_first (tree, pieces), span = tl_json_first (tree, spans);
  gboolean same = words.words->len == tl_json_node (tree, pieces)->count;
  gboolean in_place = g_string_equal (words.text, original);
  for (guint i = 0; i < words.words->len; i++) {
    TlSpan word = g_array_index (words.words, TlSpan, i);
    g_string_append_printf (said, "|%.*s", (int) (word.end - word.start), words.text->str + word.start);
    if (!same)
      continue;
    gsize length;
    g_autofree char *want = tl_json_dup_string (tree, piece, &length);
    same = length == word.end - word.start && memcmp (want, words.text->str + word.start, length) == 0;
    if (in_place)
      same &= tl_json_int (tree, span + 1, -1) == (gint64) word.start && tl_json_int (tree, span + 2, -1) == (gint64) word.end;
    piece = tl_json_node (tree, piece)->next;
    span = tl_json_node (tree, span)->next;
  }
  g_string_append (said, " expected ");
  tl_json_append_raw (tree, pieces, said);
  g_string_free (words.text, TRUE);
  g_array_unref (words.words);
  return same ? PASSED : FAILED;
}

static const char *base_json;
static TlJsonTree *base_tree;

/* the base vocabulary with another normalizer and more added tokens */
static GBytes *
with_tokens (const TlJsonTree *tree, guint32 node)
{
  static const char *const kept[] = { "pre_tokenizer", "model", "decoder" };
  g_autoptr (GString) added = g_string_new (NULL);
  GString *json = g_string_new ("{\"normalizer\":");
  guint32 normalizer = tl_json_get (tree, node, "normalizer");
  if (normalizer)
    tl_json_append_raw (tree, normalizer, json);
  else
    g_string_append (json, "null");
  g_string_append (json, ",\"added_tokens\":");
  tl_json_append_raw (base_tree, tl_json_get (base_tree, 0, "added_tokens"), added);
  g_string_truncate (added, added->len - 1);
  g_string_append (json, added->str);
  g_string_truncate (added, 0);
  tl_json_append_raw (tree, tl_json_get (tree, node, "added_tokens"), added);
  g_string_append_printf (json, ",%s", added->str + 1);
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++) {
    g_string_append_printf (json, ",\"%s\":", kept[i]);
    tl_json_append_raw (base_tree, tl_json_get (base_tree, 0, kept[i]), json);
  }
  g_string_append_c (json, '}');
  return g_string_free_to_bytes (json);
}

static gboolean
same_ids (const TlJsonTree *tree, guint32 list, const GArray *ids, GString *said)
{
  guint32 child = tl_json_first (tree, list);
  gboolean same = ids->len == tl_json_node (tree, list)->count;
  for (guint i = 0; i < ids->len; i++) {
    g_string_append_printf (said, " %d", g_array_index (ids, gint32, i));
    if (same) {
      same = tl_json_int (tree, child, -1) == g_array_index (ids, gint32, i);
      child = tl_json_node (tree, child)->next;
    }
  }
  g_string_append (said, ", expected ");
  tl_json_append_raw (tree, list, said);
  return same;
}

static Verdict
check_added (const TlJsonTree *tree, guint32 node, guint32 config, GString *said)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) json = with_tokens (tree, node);
  g_autoptr (GString) text = text_of (tree, node, "text");
  g_autoptr (TlTokenizer) tokenizer = tl_tokenizer_new_from_json (json, "suite", &error);
  if (!tokenizer)
    return verdict_of_error (error, said);
  g_autoptr (GArray) special = tl_tokenizer_encode (tokenizer, text->str, text->len, TL_ENCODE_SPECIAL, &error);
  g_autoptr (GArray) plain = tl_tokenizer_encode (tokenizer, text->str, text->len, TL_ENCODE_NONE, &error);
  guint32 ids = tl_json_get (tree, node, "ids"), as_text = tl_json_get (tree, node, "ids_special_as_text");
  gboolean fine = same_ids (tree, ids, special, said);
  fine &= same_ids (tree, as_text ? as_text : ids, plain, said);
  return fine ? PASSED : FAILED;
}

static void
test_normalizers (void)
{
  run_suite ("normalizers.json", check_normalizer);
}

static void
test_pretokenizers (void)
{
  run_suite ("pretokenizers.json", check_pretokenizer);
}

static void
test_added_tokens (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("TINYLOOP_TEST_DATA"), "parcae_small.tokenizer.json.gz", NULL);
  g_autoptr (GBytes) bytes = read_gzip (path);
  g_autoptr (GError) error = NULL;
  g_assert_nonnull (bytes);
  gsize length;
  base_json = g_bytes_get_data (bytes, &length);
  base_tree = tl_json_tree_new (base_json, length, "parcae_small", &error);
  g_assert_no_error (error);
  run_suite ("added_tokens.json", check_added);
  tl_json_tree_free (base_tree);
}

/* what is not implemented is refused by its name */
static void
test_unknown_kinds_are_refused (void)
{
  g_autoptr (GError) first = NULL;
  g_autoptr (GError) second = NULL;
  /* node 0 is the root and means "none", so the kind stands inside a list */
  static const char list[] = "[{\"type\":\"Imaginary\"}]";
  g_autoptr (TlJsonTree) inner = tl_json_tree_new (list, strlen (list), "x", NULL);
  g_assert_null (tl_normalizer_new (inner, 1, "x.json", &first));
  g_assert_null (tl_pretokenizer_new (inner, 1, "x.json", &second));
  g_assert_error (first, TL_ERROR, TL_ERROR_UNSUPPORTED);
  g_assert_error (second, TL_ERROR, TL_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (first->message, "Imaginary"));
  g_assert_nonnull (strstr (second->message, "Imaginary"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/text/unknown-kinds-are-refused", test_unknown_kinds_are_refused);
  g_test_add_func ("/text/suite/normalizers", test_normalizers);
  g_test_add_func ("/text/suite/pretokenizers", test_pretokenizers);
  g_test_add_func ("/text/suite/added-tokens", test_added_tokens);
  return g_test_run ();
}
