/* tests/grammar/matcher.c — masks against brute force, end tokens, rollback, fork, threads, memory limits, the mask suite. */
#include <json-glib/json-glib.h>
#include <string.h>

#include "grammar/tl-constraint.h"
#include "grammar/tl-grammar.h"
#include "grammar/tl-regex.h"
#include "gzip.h"
#include "text/tl-tokenizer.h"
#include "tl-model-grammar.h"

/* a vocabulary of @pieces, NULL = end of list, "" = no text; the id after the last one ends a reply */
static TlTokenTrie *
vocabulary (const char *const *pieces)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (GArray) offsets = g_array_new (FALSE, FALSE, sizeof (gint32));
  gint32 at = 0, end = 0;
  g_array_append_val (offsets, at);
  for (; pieces[end]; end++) {
    g_byte_array_append (bytes, (const guint8 *) pieces[end], strlen (pieces[end]));
    at = bytes->len;
    g_array_append_val (offsets, at);
  }
  g_autoptr (GBytes) all = g_bytes_new (bytes->data, bytes->len);
  g_autoptr (GBytes) table = g_bytes_new (offsets->data, offsets->len * 4);
  g_autoptr (GBytes) ends = g_bytes_new (&end, sizeof end);
  g_autoptr (GError) error = NULL;
  TlTokenTrie *trie = tl_token_trie_new (all, table, ends, &error);
  g_assert_no_error (error);
  return trie;
}

static TlMatcher *
matcher (const char *regex, TlTokenTrie *trie)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGrammar) grammar = tl_grammar_new_regex (regex, -1, TL_REGEX_NONE, &error);
  g_assert_no_error (error);
  g_assert_true (tl_grammar_set_vocabulary (grammar, trie, &error));
  TlMatcher *m = tl_grammar_create_matcher (grammar, &error);
  g_assert_no_error (error);
  return m;
}

/* legal ids as text: "0 2 5"; "dead" at a dead end */
static void
assert_legal (TlMatcher *m, const char *expected)
{
  guint32 words[2];
  g_autoptr (GString) ids = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  if (!tl_matcher_fill_mask (m, words, 2, &error))
    g_string_assign (ids, g_error_matches (error, TL_ERROR, TL_ERROR_DEAD_END) ? "dead" : error->message);
  for (guint i = 0; i < 64; i++)
    if (words[i / 32] >> i % 32 & 1)
      g_string_append_printf (ids, "%s%u", ids->len ? " " : "", i);
  g_assert_cmpstr (ids->str, ==, expected);
}

static gboolean
take (TlMatcher *m, gint32 id)
{
  return tl_matcher_advance (m, id, NULL);
}

static void
test_end_is_legal_where_the_text_may_end (void)
{
  const char *pieces[] = { "a", "b", "ab", "c", "", NULL };
  g_autoptr (TlTokenTrie) trie = vocabulary (pieces);
  g_autoptr (TlMatcher) m = matcher ("a(b)?", trie);
  assert_legal (m, "0 2");
  g_assert_false (take (m, 5));
  g_assert_false (take (m, 1) || take (m, 4) || take (m, -1) || take (m, 99));
  g_assert_true (take (m, 0));
  assert_legal (m, "1 5");
  g_assert_true (take (m, 5) && tl_matcher_has_ended (m));
  assert_legal (m, "");
  g_assert_false (take (m, 1) || take (m, 5));
  g_assert_true (tl_matcher_rollback (m, 2, NULL));
  assert_legal (m, "0 2");
  g_assert_false (tl_matcher_rollback (m, 1, NULL));
}

static void
test_forks_go_their_own_ways (void)
{
  const char *pieces[] = { "1", "23", ";", "4;", NULL };
  g_autoptr (TlTokenTrie) trie = vocabulary (pieces);
  g_autoptr (TlMatcher) m = matcher ("[0-9]+;", trie);
  const gint32 draft[] = { 0, 1, 2, 0 };
  g_assert_cmpuint (tl_matcher_count_legal (m, draft, 4), ==, 3);
  g_assert_true (take (m, 0));
  g_autoptr (TlMatcher) other = tl_matcher_fork (m);
  g_assert_true (take (other, 2) && tl_matcher_is_accepting (other));
  assert_legal (m, "0 1 2 3");
  assert_legal (other, "4");
  g_assert_true (tl_matcher_rollback (other, 2, NULL));
  assert_legal (other, "0 1 3");
}

static void
test_a_gap_in_the_vocabulary_is_a_dead_end (void)
{
  const char *pieces[] = { "a", "d", "ad", NULL };
  g_autoptr (TlTokenTrie) trie = vocabulary (pieces);
  g_autoptr (TlMatcher) m = matcher ("a[bc]d", trie);
  g_assert_true (take (m, 0));
  assert_legal (m, "dead");
  g_assert_false (tl_matcher_is_accepting (m));
}

static void
test_a_character_may_be_split_over_tokens (void)
{
  const char *pieces[] = { "\xf0", "\x9f", "\xf0\x9f\x98\x80", "\x98", "\x9f\x98\x80", "\xf0\x9f", "\x80", "\xc3", "a", NULL };
  g_autoptr (TlTokenTrie) trie = vocabulary (pieces);
  g_autoptr (TlMatcher) m = matcher ("[\U0001f600-\U0001f64f]+", trie);
  assert_legal (m, "0 2 5");
  g_assert_true (take (m, 0));
  assert_legal (m, "1 4");
  g_assert_true (take (m, 1));
  assert_legal (m, "3");
  g_assert_true (take (m, 3));
  assert_legal (m, "1 3 6");
  g_assert_true (take (m, 6));
  assert_legal (m, "0 2 5 9");
}

static void
test_a_grammar_is_bound_once (void)
{
  const char *pieces[] = { "a", NULL }, *others[] = { "b", NULL };
  g_autoptr (TlTokenTrie) trie = vocabulary (pieces), same = vocabulary (pieces), other = vocabulary (others);
  g_autoptr (TlGrammar) grammar = tl_grammar_new_regex ("a", -1, TL_REGEX_NONE, NULL);
  g_autoptr (GError) error = NULL;
  g_assert_null (tl_grammar_create_matcher (grammar, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  g_assert_true (tl_grammar_set_vocabulary (grammar, trie, NULL) && tl_grammar_set_vocabulary (grammar, same, NULL));
  g_assert_false (tl_grammar_set_vocabulary (grammar, other, NULL));
}

/* ---- brute force: a token is legal when advancing by it works, which knows nothing of tries, horizons and memoised masks */

static void
assert_mask_is_brute_force (TlMatcher *m, const char *regex, guint n)
{
  guint32 words[8];
  tl_matcher_fill_mask (m, words, 8, NULL);
  for (guint id = 0; id <= n; id++) {
    gint32 one = id;
    if ((words[id / 32] >> id % 32 & 1) != tl_matcher_count_legal (m, &one, 1))
      g_error ("%s: token %u", regex, id);
  }
}

static void
test_masks_equal_brute_force (void)
{
  static const char *regexes[] = { "[ab]{3,9}", "(a{2}b?){2,4}", "[a-c]{0,40}x", "(ab|ba)*c{5,}", ".*a.{4}", "((a|b){2,3}c){3,7}x",
    "(?:\\b|b)ab.*", "(\\w+\\s){1,20}\\w+\\.", "a?b?c?x{2,30}", "([ab]{2,}c){2,}", "[a-c]{1,50}|a{10}x" };
  const char *pieces[] = { "a", "b", "c", "x", "ab", "ba", "abc", "aaa", "aaaa", "aaaaaaaa", "cc", "ccc", "xx", "bx", "a b", " ",
    "a ", " a", ".", "a.", "abab", "é", "\xc3", "\xa9", "bca", "ab", NULL };
  guint n = g_strv_length ((char **) pieces);
  g_autoptr (TlTokenTrie) trie = vocabulary (pieces);
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  for (guint i = 0; i < G_N_ELEMENTS (regexes); i++) {
    g_autoptr (TlMatcher) m = matcher (regexes[i], trie);
    for (guint step = 0; step < 400; step++) {
      assert_mask_is_brute_force (m, regexes[i], n);
      if (step % 60 == 59)
        tl_matcher_rollback (m, g_rand_int_range (rand, 0, 20), NULL);
      for (guint tries = 0; tries < 40 && !take (m, g_rand_int_range (rand, 0, n)); tries++)
        ;
    }
  }
}

static void
test_little_memory_gives_the_same_masks (void)
{
  const char *pieces[] = { "a", "b", "ab", "ba", "aab", "x", NULL };
  g_autoptr (TlTokenTrie) trie = vocabulary (pieces);
  g_autoptr (TlRegexTree) tree = tl_regex_parse ("(a|b)*a(a|b){6}x", 17 - 1, 0, NULL);
  g_autoptr (TlConstraint) small = tl_constraint_new (tree, trie, 60000, NULL), large = tl_constraint_new (tree, trie, 1 << 24, NULL);
  g_autoptr (TlPosition) a = tl_constraint_begin (small, NULL), b = tl_constraint_begin (large, NULL);
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  for (guint i = 0; i < 3000; i++) {
    TlMask *x = tl_constraint_mask (small, a, NULL), *y = tl_constraint_mask (large, b, NULL);
    g_assert_cmphex (x->words[0], ==, y->words[0]);
    tl_mask_unref (x);
    tl_mask_unref (y);
    gint32 id = g_rand_int_range (rand, 0, 5);
    TlPosition *next_a = tl_constraint_advance (small, a, id, NULL), *next_b = tl_constraint_advance (large, b, id, NULL);
    tl_position_unref (a);
    tl_position_unref (b);
    a = next_a, b = next_b;
  }
  g_assert_cmpuint (small->automaton->epoch, >, 0);
}

static gpointer
walk_in_a_thread (gpointer data)
{
  TlGrammar *grammar = data;
  guint32 sum = 0;
  g_autoptr (TlMatcher) m = tl_grammar_create_matcher (grammar, NULL);
  for (guint i = 0; i < 2000; i++) {
    guint32 words[1];
    tl_matcher_fill_mask (m, words, 1, NULL);
    sum = sum * 31 + words[0];
    if (!take (m, i % 5))
      tl_matcher_rollback (m, i % 3, NULL);
  }
  return GUINT_TO_POINTER (sum);
}

static void
test_threads_share_a_grammar (void)
{
  const char *pieces[] = { "a", "b", "ab", "ba", "aab", NULL };
  g_autoptr (TlTokenTrie) trie = vocabulary (pieces);
  g_autoptr (TlGrammar) grammar = tl_grammar_new_regex ("((a|b){3,700}a)*", -1, TL_REGEX_NONE, NULL);
  g_assert_true (tl_grammar_set_vocabulary (grammar, trie, NULL));
  GThread *threads[4];
  for (guint i = 0; i < 4; i++)
    threads[i] = g_thread_new ("walk", walk_in_a_thread, grammar);
  gpointer first = g_thread_join (threads[0]);
  for (guint i = 1; i < 4; i++)
    g_assert_true (g_thread_join (threads[i]) == first);
}

/* ---- suite */

static gboolean
mask_is (TlMatcher *m, JsonObject *expected, gint32 end_id)
{
  guint32 words[49152 / 32];
  tl_matcher_fill_mask (m, words, G_N_ELEMENTS (words), NULL);
  gboolean end = words[end_id / 32] >> end_id % 32 & 1;
  words[end_id / 32] &= ~(1u << end_id % 32);
  g_autofree char *sum = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (guchar *) words, sizeof words);
  return end == json_object_get_boolean_member (expected, "eos")
      && strcmp (sum, json_object_get_string_member (expected, "sha256")) == 0;
}

static void
check_mask_case (JsonObject *c, TlTokenTrie *trie, gint32 end_id, guint *passed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGrammar) grammar = tl_grammar_new_regex (json_object_get_string_member (c, "pattern"), -1,
      TL_REGEX_ASCII_CLASSES, &error);
  g_assert_no_error (error);
  g_assert_true (tl_grammar_set_vocabulary (grammar, trie, NULL));
  g_autoptr (TlMatcher) m = tl_grammar_create_matcher (grammar, NULL);
  JsonArray *ids = json_object_get_array_member (c, "token_ids"), *masks = json_object_get_array_member (c, "masks");
  guint taken = 0;
  for (guint i = 0; i < json_array_get_length (masks); i++) {
    JsonObject *mask = json_array_get_object_element (masks, i);
    for (; taken < json_object_get_int_member (mask, "after"); taken++)
      g_assert_true (take (m, json_array_get_int_element (ids, taken)));
    if (!mask_is (m, mask, end_id)) {
      g_test_message ("%s after %u tokens", json_object_get_string_member (c, "name"), taken);
      g_test_fail ();
    } else
      ++*passed;
  }
}

static void
test_mask_suite (void)
{
  const char *shared = g_getenv ("TINYLOOP_SHARED");
  g_autofree char *path = g_strdup_printf ("%s/suites/masks_regex.json", shared ? shared : "");
  g_autofree char *vocab = g_strdup_printf ("%s/suites/tokenizers/smollm2.tokenizer.json.gz", shared ? shared : "");
  g_autoptr (JsonParser) parser = json_parser_new ();
  if (!json_parser_load_from_file (parser, path, NULL)) {
    g_test_skip ("the suite is not there");
    return;
  }
  g_autoptr (GBytes) json = read_gzip (vocab);
  g_autoptr (TlTokenizer) tokenizer = tl_tokenizer_new_from_json (json, "smollm2", NULL);
  JsonObject *root = json_node_get_object (json_parser_get_root (parser));
  JsonArray *list = json_object_get_array_member (root, "cases");
  gint32 end_id = json_object_get_int_member (root, "eos_id");
  g_autoptr (GBytes) ends = g_bytes_new (&end_id, sizeof end_id);
  g_autoptr (TlTokenTrie) plain = tl_token_trie_new_for_tokenizer (tokenizer, NULL);
  g_autoptr (TlTokenTrie) trie = tl_token_trie_new (plain->bytes, plain->offsets, ends, NULL);
  guint passed = 0;
  for (guint i = 0; i < json_array_get_length (list); i++)
    check_mask_case (json_array_get_object_element (list, i), trie, end_id, &passed);
  g_test_message ("%u masks of %u patterns", passed, json_array_get_length (list));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/grammar/matcher/end-is-legal-where-the-text-may-end", test_end_is_legal_where_the_text_may_end);
  g_test_add_func ("/grammar/matcher/forks-go-their-own-ways", test_forks_go_their_own_ways);
  g_test_add_func ("/grammar/matcher/a-gap-is-a-dead-end", test_a_gap_in_the_vocabulary_is_a_dead_end);
  g_test_add_func ("/grammar/matcher/characters-split-over-tokens", test_a_character_may_be_split_over_tokens);
  g_test_add_func ("/grammar/matcher/bound-once", test_a_grammar_is_bound_once);
  g_test_add_func ("/grammar/matcher/masks-equal-brute-force", test_masks_equal_brute_force);
  g_test_add_func ("/grammar/matcher/little-memory", test_little_memory_gives_the_same_masks);
  g_test_add_func ("/grammar/matcher/threads-share-a-grammar", test_threads_share_a_grammar);
  g_test_add_func ("/grammar/matcher/mask-suite", test_mask_suite);
  return g_test_run ();
}
