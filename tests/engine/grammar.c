/* tests/engine/grammar.c — the model of the tree under a regex: every reply matches, however it is drawn and divided. */
#include <string.h>
#include <tinyloop.h>

#define INTENTS "\\{\"intent\":\"(light_on|light_off|play_music)\",\"n\":[0-9]{1,3}\\}"

static TlModel *model;

static GBytes *
command (void)
{
  return tl_tokenizer_encode_chat_bytes (tl_model_get_tokenizer (model), NULL, "turn the kitchen lights down", NULL);
}

static TlGrammar *
regex (const char *pattern)
{
  g_autoptr (GError) error = NULL;
  TlGrammar *grammar = tl_grammar_new_regex (pattern, -1, TL_REGEX_NONE, &error);
  g_assert_no_error (error);
  return grammar;
}

static TlGenerateConfig *
config_of (TlGrammar *grammar, double temperature, guint64 seed)
{
  return g_object_new (TL_TYPE_GENERATE_CONFIG, "grammar", grammar, "temperature", temperature, "seed", seed, "max-tokens",
      100, "loops", 2, NULL);
}

static TlGeneration *
generate (TlGenerateConfig *config)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) ids = command ();
  TlGeneration *reply = tl_model_generate_bytes (model, ids, config, NULL, &error);
  g_assert_no_error (error);
  return reply;
}

static gboolean
matches (TlGrammar *grammar, TlGeneration *reply)
{
  const char *text = tl_generation_get_text (reply);
  g_autoptr (GBytes) bytes = g_bytes_new (text, strlen (text));
  return tl_grammar_accepts (grammar, bytes, NULL);
}

static void
test_every_reply_matches (void)
{
  g_autoptr (TlGrammar) grammar = regex (INTENTS);
  for (guint64 seed = 0; seed < 20; seed++) {
    g_autoptr (TlGenerateConfig) config = config_of (grammar, seed ? 1.5 : 0, seed);
    g_object_set (config, "repetition-penalty", seed % 2 ? 1.3 : 1.0, "top-k", seed % 3 ? 0 : 5, "ignore-eos", seed % 2 == 0, NULL);
    g_autoptr (TlGeneration) reply = generate (config);
    g_assert_true (matches (grammar, reply));
    g_assert_cmpint (tl_generation_get_finish_reason (reply), ==, TL_FINISH_GRAMMAR_COMPLETE);
  }
}

static void
test_an_open_grammar_ends_by_the_model (void)
{
  g_autoptr (TlGrammar) grammar = regex ("(?s).*");
  g_autoptr (TlGenerateConfig) bound = config_of (grammar, 0, 0), free = config_of (NULL, 0, 0);
  g_autoptr (TlGeneration) a = generate (bound), b = generate (free);
  g_assert_cmpint (tl_generation_get_finish_reason (b), ==, TL_FINISH_EOS);
  g_assert_cmpint (tl_generation_get_finish_reason (a), ==, TL_FINISH_EOS);
  g_assert_true (g_bytes_equal (tl_generation_get_tokens_bytes (a), tl_generation_get_tokens_bytes (b)));
}

static void
test_only_the_empty_text (void)
{
  g_autoptr (TlGrammar) grammar = regex ("");
  g_autoptr (TlGenerateConfig) config = config_of (grammar, 0, 0);
  g_autoptr (TlGeneration) reply = generate (config);
  g_assert_cmpstr (tl_generation_get_text (reply), ==, "");
  g_assert_cmpint (tl_generation_get_finish_reason (reply), ==, TL_FINISH_GRAMMAR_COMPLETE);
}

static void
test_stop_strings_end_it_earlier (void)
{
  g_autoptr (TlGrammar) grammar = regex ("one two three four");
  g_autoptr (TlGenerateConfig) config = config_of (grammar, 0, 0);
  g_object_set (config, "stop", (const char *[]) { " thr", NULL }, NULL);
  g_autoptr (TlGeneration) reply = generate (config);
  g_assert_cmpstr (tl_generation_get_text (reply), ==, "one two");
  g_assert_cmpint (tl_generation_get_finish_reason (reply), ==, TL_FINISH_STOP);
}

static void
test_length_cuts_a_reply (void)
{
  g_autoptr (TlGrammar) grammar = regex ("one two three four");
  g_autoptr (TlGenerateConfig) config = config_of (grammar, 0, 0);
  g_object_set (config, "max-tokens", 2, NULL);
  g_autoptr (TlGeneration) reply = generate (config);
  g_assert_cmpint (tl_generation_get_finish_reason (reply), ==, TL_FINISH_LENGTH);
  g_assert_true (g_str_has_prefix ("one two three four", tl_generation_get_text (reply)));
}

static void
test_replies_after_a_prefill_have_grammars_of_their_own (void)
{
  const char *patterns[] = { INTENTS, "yes|no|maybe" };
  g_autoptr (TlConversation) conversation = tl_conversation_new (model);
  g_autoptr (GBytes) ids = command ();
  g_autoptr (TlGenerateConfig) plain = config_of (NULL, 0, 0);
  g_autoptr (TlSequence) sequence = tl_conversation_prefill (conversation, ids, plain, TL_HISTORY_NONE, NULL, NULL);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (TlGrammar) grammar = regex (patterns[i]);
    g_autoptr (TlGenerateConfig) config = config_of (grammar, 0.9, i);
    g_autoptr (TlGenerator) reply = tl_sequence_begin (sequence, config, TL_PROMPT_QUEUE, NULL);
    g_assert_true (tl_generator_update (reply, plain, NULL));   /* how to draw changes, what is legal does not */
    g_autoptr (TlGeneration) forked = tl_generator_run (reply, NULL, NULL);
    g_object_set (config, "temperature", 0.0, "seed", (guint64) 0, NULL);
    g_autoptr (TlGeneration) whole = generate (config);
    g_assert_true (matches (grammar, forked));
    g_assert_true (g_bytes_equal (tl_generation_get_tokens_bytes (forked), tl_generation_get_tokens_bytes (whole)));
  }
}

/* a vocabulary of @n ids, of which @id spells @text */
static TlTokenTrie *
vocabulary_of_one (guint n, guint id, const char *text)
{
  g_autofree gint32 *offsets = g_new0 (gint32, n + 1);
  for (guint i = id + 1; i <= n; i++)
    offsets[i] = strlen (text);
  g_autoptr (GBytes) bytes = g_bytes_new (text, strlen (text)), table = g_bytes_new (offsets, (n + 1) * sizeof (gint32));
  g_autoptr (GBytes) ends = g_bytes_new (NULL, 0);
  return tl_token_trie_new (bytes, table, ends, NULL);
}

static void
test_another_vocabulary (void)
{
  TlTokenizer *tokenizer = tl_model_get_tokenizer (model);
  gint32 id = tl_tokenizer_find (tokenizer, "a");
  g_autoptr (GBytes) ids = command ();
  g_autoptr (GError) wrong = NULL, dead = NULL;
  g_autoptr (TlTokenTrie) part = vocabulary_of_one (tl_model_get_vocab_size (model), id, "a");
  g_autoptr (TlTokenTrie) other = vocabulary_of_one (tl_model_get_vocab_size (model), id, "b");
  g_autoptr (TlGrammar) good = regex ("aaa"), bad = regex ("b"), gap = regex ("aab");
  g_autoptr (TlGenerateConfig) config = config_of (good, 0, 0), refused = config_of (bad, 0, 0), stuck = config_of (gap, 0, 0);

  g_assert_true (tl_grammar_set_vocabulary (good, part, NULL));
  g_autoptr (TlGeneration) reply = generate (config);
  g_assert_cmpstr (tl_generation_get_text (reply), ==, "aaa");
  g_assert_cmpint (tl_generation_get_finish_reason (reply), ==, TL_FINISH_GRAMMAR_COMPLETE);

  g_assert_true (tl_grammar_set_vocabulary (bad, other, NULL));
  g_assert_null (tl_model_generate_bytes (model, ids, refused, NULL, &wrong));
  g_assert_error (wrong, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (wrong->message, "not the model's"));

  g_assert_true (tl_grammar_set_vocabulary (gap, part, NULL));
  g_assert_null (tl_model_generate_bytes (model, ids, stuck, NULL, &dead));
  g_assert_error (dead, TL_ERROR, TL_ERROR_DEAD_END);
}

static void
test_a_pattern_is_compiled_once (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGrammar) a = tl_model_compile_regex (model, "a|b", NULL), b = tl_model_compile_regex (model, "a|b", NULL);
  g_autoptr (TlGrammar) c = tl_model_compile_regex (model, "a|c", NULL);
  g_assert_true (a == b && a != c);
  g_assert_null (tl_model_compile_regex (model, "a(b", &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  for (guint i = 0; i < 100; i++) {     /* more than are kept */
    g_autofree char *pattern = g_strdup_printf ("a{%u}", i);
    g_autoptr (TlGrammar) one = tl_model_compile_regex (model, pattern, NULL);
    g_assert_nonnull (one);
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  model = tl_model_new (g_getenv ("TL_TEST_MODEL"));
  g_assert_true (tl_model_load (model, NULL, NULL));
  g_test_add_func ("/engine/grammar/every-reply-matches", test_every_reply_matches);
  g_test_add_func ("/engine/grammar/an-open-grammar-ends-by-the-model", test_an_open_grammar_ends_by_the_model);
  g_test_add_func ("/engine/grammar/only-the-empty-text", test_only_the_empty_text);
  g_test_add_func ("/engine/grammar/stop-strings", test_stop_strings_end_it_earlier);
  g_test_add_func ("/engine/grammar/length-cuts", test_length_cuts_a_reply);
  g_test_add_func ("/engine/grammar/after-a-prefill", test_replies_after_a_prefill_have_grammars_of_their_own);
  g_test_add_func ("/engine/grammar/another-vocabulary", test_another_vocabulary);
  g_test_add_func ("/engine/grammar/compiled-once", test_a_pattern_is_compiled_once);
  int status = g_test_run ();
  g_clear_object (&model);
  return status;
}
