/* tests/grammar/regex.c — which texts a regex matches: own cases, refusals, and the conformance suites when they are there. */
#include <json-glib/json-glib.h>
#include <string.h>

#include "grammar/tl-grammar.h"

typedef struct { const char *pattern, *yes[6], *no[6]; TlRegexFlags flags; } Case;

static const Case cases[] = {
  { "", { "" }, { "a" } },
  { "abc", { "abc" }, { "", "ab", "abcd" } },
  { "a|bc|", { "", "a", "bc" }, { "b", "abc" } },
  { "[a-cx]+", { "a", "abcx" }, { "", "d", "abd" } },
  { "[^a]", { "b", "\n", "é", "😀" }, { "a", "", "bb" } },
  { "[]a-]", { "]", "a", "-" }, { "b" } },
  { ".", { "a", "é", "😀" }, { "\n", "", "\xff", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80" } },
  { "(?s).", { "\n" }, { "" } },
  { "a{2}", { "aa" }, { "a", "aaa" } },
  { "a{2,}", { "aa", "aaaaaa" }, { "", "a" } },
  { "a{0,2}?b", { "b", "ab", "aab" }, { "aaab", "a" } },
  { "(a?){2,3}", { "", "a", "aaa" }, { "aaaa" } },
  { "(a{2}|a{3}b){2}", { "aaaa", "aaaaab", "aaabaa" }, { "aaaaa", "aa" } },
  { "((ab){2}c){2,3}", { "ababcababc" }, { "ababc", "abcabc" } },
  { "x{0,3}y{0}z{2}", { "zz", "xxxzz" }, { "z", "xxxxzz", "yzz" } },
  { ".*a.{3}", { "axyz", "aaaaa", "bacccaccc", "abcd" }, { "axy", "abcde" } },
  { "^a$", { "a" }, { "", "a\n" } },
  { "^$|^https.*", { "", "https://" }, { "http", "x" } },
  { "a^b|c", { "c" }, { "ab", "a" } },
  { "(?m)^a$\\n^b$", { "a\nb" }, { "ab" } },
  { "\\bfoo\\b.*", { "foo", "foo bar" }, { "foobar", "fooé" } },
  { "(a\\b){2}|z", { "z" }, { "aa", "a" } },
  { "(xa|y ){2}\\b!", { "y xa!", "xaxa!" }, { "xay !", "xa!" } },
  { "\\B.*", { "", "!x" }, { "x" } },
  { "\\d\\w\\s", { "1a ", "٣é\xc2\xa0" }, { "aa " } },
  { "\\d\\w\\s", { "1a " }, { "٣a ", "1é ", "1a\xc2\xa0" }, TL_REGEX_ASCII_CLASSES },
  { "[\\w--\\d]+", { "ab_" }, { "a1" } },
  { "[a-z&&[^aeiou]]", { "b" }, { "a", "B" } },
  { "[a-c~~b-d]", { "a", "d" }, { "b", "c" } },
  { "[[:alpha:]_[:^ascii:]]", { "a", "_", "é" }, { "1" } },
  { "\\p{Lu}\\p{Greek}\\pN\\P{L}", { "AΩ1!" }, { "aΩ1!", "AΩ1a" } },
  { "\\p{Script=Cyrillic}+", { "Привет" }, { "Hi" } },
  { "(?i)straße|k", { "STRAẞE", "k", "K", "\xe2\x84\xaa" }, { "x" } },
  { "(?i:a)b(?-i)c", { "Abc" }, { "aBc" } },
  { "(?x) a b # no\n c", { "abc" }, { "a b c" } },
  { "\\x41\\u0042\\x{43}\\u{44}\\ud83d\\ude00", { "ABCD😀" }, { "ABC" } },
  { "(?P<a>x)(?<b>y)(?:z)", { "xyz" }, { "x" } },
  { "a{b}|\\{\"n\": ?[0-9]{1,3}}", { "a{b}", "{\"n\": 123}" }, { "{\"n\":1234}" } },
  { "(?-u:[\\x80-\\xff])", { "\xff" }, { "a" } },
  { "[^\\s\\S]x|y", { "y" }, { "x", "" } },
};

static gboolean
accepts (TlGrammar *grammar, const char *text)
{
  g_autoptr (GBytes) bytes = g_bytes_new (text, strlen (text));
  g_autoptr (GError) error = NULL;
  gboolean accepted = tl_grammar_accepts (grammar, bytes, &error);
  g_assert_no_error (error);
  return accepted;
}

static void
test_whole_texts_match (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (TlGrammar) grammar = tl_grammar_new_regex (cases[i].pattern, -1, cases[i].flags, &error);
    g_assert_no_error (error);
    for (guint j = 0; j < 6 && cases[i].yes[j]; j++)
      if (!accepts (grammar, cases[i].yes[j]))
        g_error ("%s must match \"%s\"", cases[i].pattern, cases[i].yes[j]);
    for (guint j = 0; j < 6 && cases[i].no[j]; j++)
      if (accepts (grammar, cases[i].no[j]))
        g_error ("%s must not match \"%s\"", cases[i].pattern, cases[i].no[j]);
  }
}

static void
test_refusals_name_the_construct_and_the_place (void)
{
  static const struct { const char *pattern, *words; int code; } refused[] = {
    { "(", "byte 0: the group is not closed", TL_ERROR_INVALID_ARGUMENT },
    { "a)", "byte 1: ')'", TL_ERROR_INVALID_ARGUMENT },
    { "*a", "byte 0: nothing to repeat", TL_ERROR_INVALID_ARGUMENT },
    { "(?:?)", "byte 3: nothing to repeat", TL_ERROR_INVALID_ARGUMENT },
    { "(?m){1,1}", "byte 4: nothing to repeat", TL_ERROR_INVALID_ARGUMENT },
    { "a{2,1}", "byte 1: the count", TL_ERROR_INVALID_ARGUMENT },
    { "[b-a]", "byte 1: the range", TL_ERROR_INVALID_ARGUMENT },
    { "[a", "byte 0: the bracket", TL_ERROR_INVALID_ARGUMENT },
    { "a\\", "byte 1: the pattern ends", TL_ERROR_INVALID_ARGUMENT },
    { "\\ud800", "byte 0: the escape is half", TL_ERROR_INVALID_ARGUMENT },
    { "é(a|b)\\1", "byte 7: back-references", TL_ERROR_UNSUPPORTED },
    { "(?<n>a)\\k<n>", "byte 7: back-references", TL_ERROR_UNSUPPORTED },
    { "a(?=b)", "byte 1: look-ahead", TL_ERROR_UNSUPPORTED },
    { "(?<!b)a", "byte 0: look-behind", TL_ERROR_UNSUPPORTED },
    { "(?>a)", "byte 0: atomic", TL_ERROR_UNSUPPORTED },
    { "a*+", "byte 2: possessive", TL_ERROR_UNSUPPORTED },
    { "\\p{Emoji}", "byte 0: the property Emoji", TL_ERROR_UNSUPPORTED },
    { "a{1000000}", "byte 1: a count above", TL_ERROR_INVALID_ARGUMENT },
    { "\xff", "byte 0: the pattern is not valid UTF-8", TL_ERROR_INVALID_ARGUMENT },
  };
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++) {
    g_autoptr (GError) error = NULL;
    g_assert_null (tl_grammar_new_regex (refused[i].pattern, -1, TL_REGEX_NONE, &error));
    g_assert_error (error, TL_ERROR, refused[i].code);
    if (!strstr (error->message, refused[i].words))
      g_error ("%s: \"%s\" lacks \"%s\"", refused[i].pattern, error->message, refused[i].words);
  }
}

/* built patterns that have stopped other engines: each is served or refused, within the limits */
static void
test_hostile_patterns_are_served_or_refused (void)
{
  static const struct { const char *unit; guint times; const char *tail; } hostile[] = {
    { "(", 60000, "" }, { "[", 60000, "" }, { "(a|", 5000, "" }, { "(a{50}){50}\\b", 4, "" }, { "x?", 5000, "" },
    { "(a*)*", 2000, "" }, { "[\\w\\W\\d]", 20000, "" }, { "\\p{L}", 40000, "" }, { "(?i)[k-s]", 10000, "" },
    { "a{1,9}", 5000, "" }, { "a?", 1, "{99999}{99999}{99999}" }, { "(.*a.{4000}){2}", 1, "" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (hostile); i++) {
    g_autoptr (GString) pattern = g_string_new (NULL);
    g_autoptr (GString) text = g_string_new (NULL);
    for (guint j = 0; j < hostile[i].times; j++)
      g_string_append (pattern, hostile[i].unit);
    g_string_append (pattern, hostile[i].tail);
    for (guint j = 0; j < 9000; j++)
      g_string_append_c (text, 'a');
    g_autoptr (GError) error = NULL;
    gint64 began = g_get_monotonic_time ();
    g_autoptr (TlGrammar) grammar = tl_grammar_new_regex (pattern->str, pattern->len, TL_REGEX_NONE, &error);
    g_assert_true (grammar || error);
    gint64 compiled = g_get_monotonic_time ();
    g_autoptr (GBytes) bytes = g_bytes_new (text->str, text->len);
    if (grammar)
      tl_grammar_accepts (grammar, bytes, NULL);
    g_test_message ("%.20s: %.1f ms, match %.1f ms %s", pattern->str, (compiled - began) / 1e3,
        (g_get_monotonic_time () - compiled) / 1e3, error ? error->message : "");
  }
}

static void
test_large_counts_are_exact (void)
{
  g_autoptr (TlGrammar) grammar = tl_grammar_new_regex ("[a-z]{2,20000}", -1, TL_REGEX_NONE, NULL);
  g_autofree char *text = g_malloc (20002);
  memset (text, 'q', 20001);
  text[20001] = '\0';
  g_assert_false (accepts (grammar, text));
  text[20000] = '\0';
  g_assert_true (accepts (grammar, text));
  text[2] = '\0';
  g_assert_true (accepts (grammar, text));
  text[1] = '\0';
  g_assert_false (accepts (grammar, text));
}

/* ---- suites */

static JsonArray *
suite_cases (const char *name, JsonParser *parser)
{
  g_autofree char *path = g_strdup_printf ("%s/suites/%s.json", g_getenv ("TINYLOOP_SHARED"), name);
  if (!g_getenv ("TINYLOOP_SHARED") || !g_file_test (path, G_FILE_TEST_EXISTS)) {
    g_test_skip ("the suite is not there");
    return NULL;
  }
  g_assert_true (json_parser_load_from_file (parser, path, NULL));
  return json_object_get_array_member (json_node_get_object (json_parser_get_root (parser)), "cases");
}

static GBytes *
bytes_of (JsonObject *o, const char *field)
{
  g_autofree char *base64 = g_strconcat (field, "_b64", NULL);
  gsize n;
  if (json_object_has_member (o, base64)) {
    guchar *data = g_base64_decode (json_object_get_string_member (o, base64), &n);
    return g_bytes_new_take (data, n);
  }
  const char *s = json_object_get_string_member (o, field);
  return g_bytes_new (s, strlen (s));
}

static TlGrammar *
grammar_of (JsonObject *c, GError **error)
{
  g_autoptr (GBytes) pattern = bytes_of (c, "pattern");
  gboolean bytes = json_object_has_member (c, "unicode") && !json_object_get_boolean_member (c, "unicode");
  gboolean caseless = json_object_has_member (c, "case_insensitive") && json_object_get_boolean_member (c, "case_insensitive");
  return tl_grammar_new_regex (g_bytes_get_data (pattern, NULL) ?: "", g_bytes_get_size (pattern),
      (bytes ? TL_REGEX_BYTES : 0) | (caseless ? TL_REGEX_CASELESS : 0), error);
}

static void
test_full_match_suite (void)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonArray *list = suite_cases ("regex_full_match", parser);
  guint passed = 0, refused = 0, wrong = 0;
  for (guint i = 0; list && i < json_array_get_length (list); i++) {
    JsonObject *c = json_array_get_object_element (list, i);
    g_autoptr (GError) error = NULL;
    g_autoptr (TlGrammar) grammar = grammar_of (c, &error);
    g_autoptr (GBytes) text = bytes_of (c, "haystack");
    if (!grammar) {
      refused++;
      g_test_message ("%s: %s", json_object_get_string_member (c, "name"), error->message);
      if (error->code != TL_ERROR_UNSUPPORTED)
        g_test_fail ();
    } else if (tl_grammar_accepts (grammar, text, NULL) == json_object_get_boolean_member (c, "full_match"))
      passed++;
    else {
      wrong++;
      g_test_message ("WRONG %s", json_object_get_string_member (c, "name"));
    }
  }
  g_test_message ("%u passed, %u refused by name, %u wrong", passed, refused, wrong);
  g_assert_cmpuint (wrong, ==, 0);
}

static void
test_exhaustive_suite (void)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonArray *list = suite_cases ("regex_exhaustive_ab", parser);
  JsonArray *texts = list ? json_object_get_array_member (json_node_get_object (json_parser_get_root (parser)), "haystacks") : NULL;
  for (guint i = 0; list && i < json_array_get_length (list); i++) {
    JsonObject *c = json_array_get_object_element (list, i);
    JsonArray *accept = json_object_get_array_member (c, "accept");
    g_autoptr (GError) error = NULL;
    g_autoptr (TlGrammar) grammar = grammar_of (c, &error);
    g_assert_no_error (error);
    for (guint j = 0; j < json_array_get_length (texts); j++) {
      const char *text = json_array_get_string_element (texts, j);
      gboolean expected = FALSE;
      for (guint k = 0; k < json_array_get_length (accept) && !expected; k++)
        expected = strcmp (json_array_get_string_element (accept, k), text) == 0;
      if (accepts (grammar, text) != expected)
        g_error ("%s: \"%s\"", json_object_get_string_member (c, "pattern"), text);
    }
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/grammar/regex/whole-texts-match", test_whole_texts_match);
  g_test_add_func ("/grammar/regex/refusals-name-the-construct", test_refusals_name_the_construct_and_the_place);
  g_test_add_func ("/grammar/regex/hostile-patterns", test_hostile_patterns_are_served_or_refused);
  g_test_add_func ("/grammar/regex/large-counts", test_large_counts_are_exact);
  g_test_add_func ("/grammar/regex/suite-full-match", test_full_match_suite);
  g_test_add_func ("/grammar/regex/suite-exhaustive", test_exhaustive_suite);
  return g_test_run ();
}
