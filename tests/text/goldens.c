/* tests/text/goldens.c — tokenizers against the reference's ids, decoded text and streamed text, file by file.
 *
 * Each NAME.golden.json and NAME.detok.json is one subtest per kind. Reads the committed selection beside this file and,
 * when there, the whole suite under $TINYLOOP_SHARED/suites/tokenizers. A vocabulary that must be refused is a skip.
 */
#include <gio/gio.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "gzip.h"
#include "text/tl-detokenizer.h"

typedef struct { char *folder, *name; } Suite;

static JsonObject *
read_json (const Suite *suite, const char *ending, JsonParser *parser)
{
  g_autofree char *path = g_strdup_printf ("%s/%s.%s.json", suite->folder, suite->name, ending);
  g_autoptr (GError) error = NULL;
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return NULL;
  json_parser_load_from_file (parser, path, &error);
  g_assert_no_error (error);
  return json_node_get_object (json_parser_get_root (parser));
}

static TlTokenizer *
load (const Suite *suite)
{
  g_autofree char *path = g_strdup_printf ("%s/%s.tokenizer.json.gz", suite->folder, suite->name);
  g_autoptr (GBytes) json = read_gzip (path);
  g_autoptr (GError) error = NULL;
  g_assert_nonnull (json);
  TlTokenizer *tokenizer = tl_tokenizer_new_from_json (json, suite->name, &error);
  if (!tokenizer && g_error_matches (error, TL_ERROR, TL_ERROR_UNSUPPORTED))
    {
      g_test_skip (error->message);
      return NULL;
    }
  g_assert_no_error (error);
  return tokenizer;
}

/* a byte field: plain string, or base64 under NAME_b64 */
static GBytes *
bytes_of (JsonObject *o, const char *field)
{
  g_autofree char *base64 = g_strconcat (field, "_b64", NULL);
  if (json_object_has_member (o, base64))
    {
      gsize n;
      guchar *data = g_base64_decode (json_object_get_string_member (o, base64), &n);
      return g_bytes_new_take (data, n);
    }
  const char *s = json_object_get_string_member (o, field);
  return g_bytes_new (s, strlen (s));
}

static GArray *
ids_of (JsonObject *o, const char *field)
{
  JsonArray *a = json_object_get_array_member (o, field);
  GArray *ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (guint i = 0; i < json_array_get_length (a); i++)
    {
      gint32 id = json_array_get_int_element (a, i);
      g_array_append_val (ids, id);
    }
  return ids;
}

static gboolean
same_bytes (gconstpointer a, gsize a_size, gconstpointer b, gsize b_size)
{
  return a_size == b_size && (a_size == 0 || memcmp (a, b, a_size) == 0);
}

static char *
ids_text (const gint32 *ids, gsize n)
{
  GString *s = g_string_new (NULL);
  for (gsize i = 0; i < n; i++)
    g_string_append_printf (s, "%s%d", i ? " " : "", ids[i]);
  return g_string_free (s, FALSE);
}

static gboolean
encodes_to (TlTokenizer *tokenizer, JsonObject *c, TlEncodeFlags flags, const char *field)
{
  g_autoptr (GBytes) text = bytes_of (c, "text");
  g_autoptr (GArray) expected = ids_of (c, field);
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) ids = tl_tokenizer_encode (tokenizer, g_bytes_get_data (text, NULL), g_bytes_get_size (text), flags,
      &error);
  g_assert_no_error (error);
  if (same_bytes (ids->data, ids->len * sizeof (gint32), expected->data, expected->len * sizeof (gint32)))
    return TRUE;
  g_autofree char *got = ids_text ((gint32 *) ids->data, ids->len);
  g_autofree char *want = ids_text ((gint32 *) expected->data, expected->len);
  g_test_message ("%s: %s: got %s, expected %s", json_object_get_string_member (c, "name"), field, got, want);
  return FALSE;
}

/* text of `ids` as a detokenizer gives it piece by piece equals `stream`, the rest equals `stream_flush` */
static gboolean
streams_to (TlTokenizer *tokenizer, JsonObject *c)
{
  g_autoptr (GArray) ids = ids_of (c, "ids");
  g_autoptr (TlDetokenizer) detokenizer = tl_detokenizer_new (tokenizer, TL_DETOKENIZER_NONE);
  g_autoptr (GByteArray) all = g_byte_array_new ();
  gboolean with_nul = json_object_has_member (c, "decoded_b64");
  JsonArray *stream = json_object_get_array_member (c, "stream");
  for (guint i = 0; i < ids->len; i++)
    {
      g_autoptr (GBytes) piece = tl_detokenizer_push (detokenizer, g_array_index (ids, gint32, i));
      const char *want = json_array_get_string_element (stream, i);
      gsize n;
      const char *got = g_bytes_get_data (piece, &n);
      if (n)
        g_byte_array_append (all, (const guint8 *) got, n);
      /* a text with NUL: json-glib ends strings there, so the whole is compared below instead */
      if (!with_nul && !same_bytes (got, n, want, strlen (want)))
        {
          g_test_message ("%s: after id %u: got \"%.*s\", expected \"%s\"", json_object_get_string_member (c, "name"), i,
              (int) n, got, want);
          return FALSE;
        }
    }
  g_autoptr (GBytes) rest = tl_detokenizer_flush (detokenizer);
  const char *want = json_object_has_member (c, "stream_flush") ? json_object_get_string_member (c, "stream_flush") : "";
  gsize n;
  const char *got = g_bytes_get_data (rest, &n);
  if (with_nul)
    {
      g_autoptr (GBytes) decoded = bytes_of (c, "decoded");
      if (n)
        g_byte_array_append (all, (const guint8 *) got, n);
      return same_bytes (all->data, all->len, g_bytes_get_data (decoded, NULL), g_bytes_get_size (decoded));
    }
  return same_bytes (got, n, want, strlen (want));
}

static void
run_cases (const Suite *suite, const char *ending, gboolean (*check) (TlTokenizer *, JsonObject *))
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root = read_json (suite, ending, parser);
  if (!root)
    {
      g_test_skip ("no such file");
      return;
    }
  g_autoptr (TlTokenizer) tokenizer = load (suite);
  if (!tokenizer)
    return;
  JsonArray *cases = json_object_get_array_member (root, "cases");
  guint failed = 0, n = json_array_get_length (cases);
  for (guint i = 0; i < n; i++)
    failed += !check (tokenizer, json_array_get_object_element (cases, i));
  g_test_message ("%s.%s: %u cases, %u failed", suite->name, ending, n, failed);
  g_assert_cmpuint (n, >, 0);
  if (failed)
    g_test_fail ();
}

static gboolean
check_ids (TlTokenizer *tokenizer, JsonObject *c)
{
  gboolean ok = encodes_to (tokenizer, c, TL_ENCODE_SPECIAL, "ids");
  gboolean plain = json_object_has_member (c, "ids_special_as_text");
  ok &= encodes_to (tokenizer, c, TL_ENCODE_NONE, plain ? "ids_special_as_text" : "ids");
  if (json_object_has_member (c, "ids_with_template"))
    ok &= encodes_to (tokenizer, c, TL_ENCODE_SPECIAL | TL_ENCODE_ADD_BOS, "ids_with_template");
  return ok;
}

static void
test_ids (gconstpointer suite)
{
  run_cases (suite, "golden", check_ids);
}

static void
test_stream (gconstpointer suite)
{
  run_cases (suite, "golden", streams_to);
}

static void
test_invalid_stream (gconstpointer suite)
{
  run_cases (suite, "detok", streams_to);
}

static GBytes *
find_tensor (const char *name, gpointer tensors)
{
  GPtrArray *array = tensors;
  for (guint i = 0; i < array->len; i++)
    {
      TlTokenizerTensor *t = g_ptr_array_index (array, i);
      if (g_str_equal (t->name, name))
        return g_bytes_ref (t->data);
    }
  return NULL;
}

/* the compiled form in a checkpoint is the same tokenizer */
static void
test_compiled_form (gconstpointer data)
{
  const Suite *suite = data;
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root = read_json (suite, "golden", parser);
  g_autoptr (TlTokenizer) source = load (suite);
  if (!root || !source)
    return;
  g_autoptr (GPtrArray) tensors = tl_tokenizer_to_tensors (source);
  g_autoptr (GError) error = NULL;
  g_autoptr (TlTokenizer) compiled = tl_tokenizer_new_from_tensors (find_tensor, tensors, suite->name, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (tl_tokenizer_get_vocab_hash (compiled), ==, tl_tokenizer_get_vocab_hash (source));
  JsonArray *cases = json_object_get_array_member (root, "cases");
  for (guint i = 0; i < json_array_get_length (cases); i++)
    g_assert_true (check_ids (compiled, json_array_get_object_element (cases, i)) ==
        check_ids (source, json_array_get_object_element (cases, i)));
}

static void
suite_free (gpointer data)
{
  Suite *suite = data;
  g_free (suite->folder);
  g_free (suite->name);
  g_free (suite);
}

static gint
by_name (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

static void
add_folder (const char *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const char *entry;
  while (dir && (entry = g_dir_read_name (dir)))
    if (g_str_has_suffix (entry, ".tokenizer.json.gz"))
      g_ptr_array_add (names, g_strndup (entry, strlen (entry) - strlen (".tokenizer.json.gz")));
  g_ptr_array_sort (names, by_name);

  static const struct { const char *what; GTestDataFunc run; } kinds[] = {
    { "ids", test_ids }, { "stream", test_stream }, { "invalid-stream", test_invalid_stream },
    { "compiled-form", test_compiled_form },
  };
  for (guint i = 0; i < names->len; i++)
    {
      const char *name = g_ptr_array_index (names, i);
      for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
        {
          g_autofree char *base = g_path_get_basename (folder);
          g_autofree char *path = g_strdup_printf ("/text/%s/%s/%s", base, name, kinds[k].what);
          Suite *suite = g_new (Suite, 1);
          *suite = (Suite) { g_strdup (folder), g_strdup (name) };
          g_test_add_data_func_full (path, suite, kinds[k].run, suite_free);
        }
    }
}

static void
test_bad_files_are_refused (void)
{
  static const char *bad[] = { "", "{", "[]", "{}", "{\"model\":1}", "{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":{}}}",
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}",
    "{\"model\":{\"type\":\"Nonsense\",\"vocab\":{\"a\":0}}}" };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GBytes) json = g_bytes_new_static (bad[i], strlen (bad[i]));
      g_autoptr (GError) error = NULL;
      g_autoptr (TlTokenizer) tokenizer = tl_tokenizer_new_from_json (json, "bad.json", &error);
      g_test_message ("%s -> %s", bad[i], error ? error->message : "accepted");
      g_assert_null (tokenizer);
      g_assert_true (error && error->domain == TL_ERROR);
      g_assert_nonnull (strstr (error->message, "bad.json"));
    }
}

static void
test_deep_nesting_is_refused (void)
{
  g_autoptr (GString) s = g_string_new ("{\"model\":");
  for (guint i = 0; i < 100000; i++)
    g_string_append_c (s, '[');
  g_autoptr (GBytes) json = g_bytes_new (s->str, s->len);
  g_autoptr (GError) error = NULL;
  g_assert_null (tl_tokenizer_new_from_json (json, "deep.json", &error));
  g_assert_true (error && error->domain == TL_ERROR);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/text/bad-files-are-refused", test_bad_files_are_refused);
  g_test_add_func ("/text/deep-nesting-is-refused", test_deep_nesting_is_refused);
  add_folder (g_getenv ("TINYLOOP_TEST_DATA"));
  g_autofree char *suites = g_build_filename (g_getenv ("TINYLOOP_SHARED"), "suites", "tokenizers", NULL);
  if (g_file_test (suites, G_FILE_TEST_IS_DIR))
    add_folder (suites);
  return g_test_run ();
}
