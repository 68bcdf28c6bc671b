/* tests/engine/sequence.c — a prompt prefilled apart from its reply gives what the undivided reply gives, however often. */
#include <string.h>
#include <tinyloop.h>

static TlModel *model;

static GBytes *
encode (const char *text)
{
  g_autoptr (GArray) ids = tl_tokenizer_encode (tl_model_get_tokenizer (model), text, strlen (text), TL_ENCODE_SPECIAL,
      NULL);
  return g_bytes_new (ids->data, ids->len * sizeof (gint32));
}

static GBytes *
command (void)
{
  return encode ("<|cmd|>turn the kitchen lights down to thirty percent<|json|>");
}

static TlGenerateConfig *
config_of (double temperature, guint loops)
{
  TlGenerateConfig *config = tl_generate_config_new ();
  g_object_set (config, "temperature", temperature, "loops", loops, "max-tokens", 24, "seed", (guint64) 7, NULL);
  return config;
}

static GBytes *
tokens_of (TlGenerator *generator)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGeneration) result = tl_generator_run (generator, NULL, &error);
  g_assert_no_error (error);
  return g_bytes_ref (tl_generation_get_tokens_bytes (result));
}

static GBytes *
undivided (TlGenerateConfig *config)
{
  g_autoptr (GBytes) ids = command ();
  g_autoptr (TlGenerator) generator = tl_model_begin (model, ids, config, NULL);
  return tokens_of (generator);
}

static TlSequence *
prefill (TlConversation *conversation, GBytes *ids, guint loops)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGenerateConfig) config = config_of (0, loops);
  TlSequence *sequence = tl_conversation_prefill (conversation, ids, config, TL_HISTORY_KEEP, NULL, &error);
  g_assert_no_error (error);
  return sequence;
}

static TlGenerator *
begin (TlSequence *sequence, TlGenerateConfig *config)
{
  g_autoptr (GError) error = NULL;
  TlGenerator *reply = tl_sequence_begin (sequence, config, TL_PROMPT_QUEUE, &error);
  g_assert_no_error (error);
  return reply;
}

static void
test_every_reply_is_the_undivided_one (void)
{
  g_autoptr (TlConversation) conversation = tl_conversation_new (model);
  g_autoptr (GBytes) ids = command ();
  g_autoptr (TlSequence) sequence = prefill (conversation, ids, 4);

  for (guint i = 0; i < 4; i++) {       /* greedy, sampled, other depths */
    g_autoptr (TlGenerateConfig) config = config_of (i == 1 ? 0.8 : 0, i == 2 ? 2 : 4);
    g_autoptr (TlGenerator) reply = begin (sequence, config);
    g_autoptr (GBytes) got = tokens_of (reply), expected = undivided (config);
    if (i != 2)                 /* a prompt at four loops is no prompt at two */
      g_assert_true (g_bytes_equal (got, expected));
    else
      g_assert_cmpuint (g_bytes_get_size (got), >, g_bytes_get_size (ids));
  }
}

static void
test_forks_do_not_see_each_other (void)
{
  g_autoptr (TlConversation) conversation = tl_conversation_new (model);
  g_autoptr (GBytes) ids = command ();
  g_autoptr (TlSequence) sequence = prefill (conversation, ids, 0);
  g_autoptr (TlGenerateConfig) greedy = config_of (0, 0), sampled = config_of (1.2, 0);
  g_autoptr (TlGenerator) a = begin (sequence, greedy), b = begin (sequence, sampled);

  for (TlStep x = TL_STEP_PASS, y = TL_STEP_PASS; x != TL_STEP_END || y != TL_STEP_END;) {      /* token by token */
    x = tl_generator_step (a, NULL, NULL, NULL);
    y = tl_generator_step (b, NULL, NULL, NULL);
    g_assert_true (x != TL_STEP_ERROR && y != TL_STEP_ERROR);
  }
  g_autoptr (TlGeneration) got_a = tl_generator_finish (a), got_b = tl_generator_finish (b);
  g_autoptr (GBytes) want_a = undivided (greedy), want_b = undivided (sampled);
  g_assert_true (g_bytes_equal (tl_generation_get_tokens_bytes (got_a), want_a));
  g_assert_true (g_bytes_equal (tl_generation_get_tokens_bytes (got_b), want_b));
}

static guint
head_length (TlConversation *conversation)
{
  g_autoptr (GBytes) head = tl_conversation_dup_tokens (conversation);
  return g_bytes_get_size (head) / sizeof (gint32);
}

static void
test_only_the_first_reply_is_written_back (void)
{
  g_autoptr (TlConversation) conversation = tl_conversation_new (model);
  g_autoptr (TlGenerateConfig) config = config_of (0, 0);
  g_autoptr (GBytes) ids = command ();
  g_autoptr (TlSequence) sequence = prefill (conversation, ids, 0);
  g_assert_cmpint (tl_conversation_get_state (conversation), !=, TL_CONVERSATION_IDLE);
  g_autoptr (TlGenerator) first = begin (sequence, config), second = begin (sequence, config);
  g_autoptr (GBytes) a = tokens_of (first), b = tokens_of (second);
  guint n = g_bytes_get_size (ids) / 4;

  g_assert_false (tl_conversation_commit (conversation, second, 5));
  g_assert_cmpuint (head_length (conversation), ==, 0);
  g_assert_true (tl_conversation_commit (conversation, first, 3));
  g_assert_cmpuint (head_length (conversation), ==, n + 3);
  tl_conversation_commit (conversation, second, 5);
  g_assert_cmpuint (head_length (conversation), ==, n + 3);
  g_assert_cmpint (tl_conversation_get_state (conversation), ==, TL_CONVERSATION_IDLE);

  /* the next turn sees it, and costs only what is new */
  g_autoptr (TlSequence) next = prefill (conversation, ids, 0);
  g_autoptr (TlGenerator) reply = begin (next, config);
  TlGenerationFigures figures;
  tl_generator_get_figures (reply, &figures);
  g_assert_cmpuint (figures.cached_tokens, ==, n + 3);
  tl_conversation_abort (conversation, reply);
  g_assert_cmpuint (head_length (conversation), ==, n + 3);
}

static void
test_dropped_leaves_no_trace (void)
{
  g_autoptr (TlConversation) conversation = tl_conversation_new (model);
  g_autoptr (GBytes) ids = command ();
  TlSequence *sequence = prefill (conversation, ids, 0);

  g_object_unref (sequence);
  g_assert_cmpint (tl_conversation_get_state (conversation), ==, TL_CONVERSATION_IDLE);
  g_assert_cmpuint (head_length (conversation), ==, 0);

  g_autoptr (GCancellable) cancelled = g_cancellable_new ();
  g_autoptr (GError) error = NULL;
  g_cancellable_cancel (cancelled);
  g_assert_null (tl_conversation_prefill (conversation, ids, NULL, TL_HISTORY_KEEP, cancelled, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_CANCELLED);
  g_assert_cmpint (tl_conversation_get_state (conversation), ==, TL_CONVERSATION_IDLE);
}

static gpointer
prefill_thread (gpointer data)
{
  g_autoptr (GBytes) ids = command ();
  g_autoptr (GError) error = NULL;
  g_autoptr (TlSequence) sequence = tl_conversation_prefill (data, ids, NULL, TL_HISTORY_KEEP, NULL, &error);
  return GINT_TO_POINTER (sequence ? 0 : error->code);
}

/* a reply under `policy`, and another thread's prompt that meets it; gives that prompt's error code, 0 = it got through */
static gint
meet (TlPromptPolicy policy, TlFinishReason *reason)
{
  g_autoptr (TlConversation) conversation = tl_conversation_new (model);
  g_autoptr (TlGenerateConfig) config = config_of (0, 0);
  g_autoptr (GBytes) ids = command ();
  g_autoptr (TlSequence) sequence = prefill (conversation, ids, 0);
  g_object_set (config, "ignore-eos", TRUE, "max-tokens", policy == TL_PROMPT_INTERRUPT ? 900 : 8, NULL);
  g_autoptr (TlGenerator) reply = tl_sequence_begin (sequence, config, policy, NULL);
  GThread *other = g_thread_new ("other", prefill_thread, conversation);
  gpointer code = NULL;

  if (policy == TL_PROMPT_DROP)
    code = g_thread_join (other);
  while (tl_generator_step (reply, NULL, NULL, NULL) != TL_STEP_END)
    continue;
  *reason = tl_generator_get_finish_reason (reply);
  tl_conversation_commit (conversation, reply, 0);
  if (policy != TL_PROMPT_DROP)
    code = g_thread_join (other);
  return GPOINTER_TO_INT (code);
}

static void
test_the_reply_names_the_policy (void)
{
  TlFinishReason reason;
  g_assert_cmpint (meet (TL_PROMPT_QUEUE, &reason), ==, 0);
  g_assert_cmpint (reason, ==, TL_FINISH_LENGTH);
  g_assert_cmpint (meet (TL_PROMPT_INTERRUPT, &reason), ==, 0);
  g_assert_cmpint (reason, ==, TL_FINISH_CANCELLED);
  g_assert_cmpint (meet (TL_PROMPT_DROP, &reason), ==, TL_ERROR_CANCELLED);
  g_assert_cmpint (reason, ==, TL_FINISH_LENGTH);
}

/* what is drawn may change between two tokens, and only from there on */
static void
test_update_counts_from_the_next_token (void)
{
  g_autoptr (TlGenerateConfig) cold = config_of (0, 0), hot = config_of (50, 0), wrong = config_of (0, 0);
  g_object_set (cold, "ignore-eos", TRUE, NULL);
  g_object_set (hot, "ignore-eos", TRUE, NULL);
  g_object_set (wrong, "temperature", -1.0, NULL);
  g_autoptr (GBytes) all_cold = undivided (cold), all_hot = undivided (hot), ids = command ();
  g_autoptr (TlGenerator) reply = tl_model_begin (model, ids, cold, NULL);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 6; i++)
    g_assert_cmpint (tl_generator_step (reply, NULL, NULL, NULL), ==, TL_STEP_TOKEN);
  g_assert_false (tl_generator_update (reply, wrong, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  g_assert_true (tl_generator_update (reply, hot, NULL));
  g_autoptr (GBytes) mixed = tokens_of (reply);
  gsize six = g_bytes_get_size (ids) + 6 * 4, n = g_bytes_get_size (all_cold);
  g_assert_cmpuint (g_bytes_get_size (mixed), ==, n);
  g_assert_cmpmem (g_bytes_get_data (mixed, NULL), six, g_bytes_get_data (all_cold, NULL), six);
  g_assert_cmpint (memcmp (g_bytes_get_data (mixed, NULL), g_bytes_get_data (all_cold, NULL), n), !=, 0);
  g_assert_cmpint (memcmp (g_bytes_get_data (mixed, NULL), g_bytes_get_data (all_hot, NULL), n), !=, 0);
}

/* loops too, each token's own; 0 goes back to what the reply began with */
static void
test_loops_change_in_the_middle_of_a_reply (void)
{
  static const guint asked[] = { 0, 2, 7, 0, 9, 1 }, taken[] = { 4, 2, 7, 4, 4, 1 };
  g_autoptr (TlGenerateConfig) config = config_of (0, 0);
  g_object_set (config, "loops", 4, "ignore-eos", TRUE, NULL);
  g_autoptr (GBytes) ids = command ();
  g_autoptr (TlGenerator) reply = tl_model_begin (model, ids, config, NULL);
  g_autoptr (TlToken) first = NULL;
  g_assert_cmpint (tl_generator_step (reply, &first, NULL, NULL), ==, TL_STEP_TOKEN);
  g_assert_cmpuint (first->loops, ==, 4);
  for (guint i = 0; i < G_N_ELEMENTS (asked); i++) {
    g_autoptr (TlToken) token = NULL;
    g_autoptr (GError) error = NULL;
    g_object_set (config, "loops", asked[i], NULL);
    g_assert_cmpint (tl_generator_update (reply, config, &error), ==, asked[i] <= 8);
    g_assert_cmpint (error != NULL, ==, asked[i] > 8);  /* the demo model's most; what held before still holds */
    g_assert_cmpint (tl_generator_step (reply, &token, NULL, NULL), ==, TL_STEP_TOKEN);
    g_assert_cmpuint (token->loops, ==, taken[i]);
  }
}

/* every stop string that the text offers: what leaves as tokens is, decoded, exactly the text before it */
static void
test_tokens_and_text_end_at_the_stop_string (void)
{
  g_autoptr (TlGenerateConfig) plain = config_of (0, 0);
  g_autoptr (GBytes) ids = command ();
  g_autoptr (TlGenerator) generator = tl_model_begin (model, ids, plain, NULL);
  g_autoptr (TlGeneration) whole = tl_generator_run (generator, NULL, NULL);
  const char *text = tl_generation_get_text (whole);
  guint inside = 0;

  for (gsize at = 1; at + 2 <= strlen (text); at++) {
    g_autofree char *stop = g_strndup (text + at, 2), *expected = g_strndup (text, strstr (text, stop) - text);
    const char *stops[] = { stop, NULL };
    g_autoptr (TlGenerateConfig) config = config_of (0, 0);
    g_object_set (config, "stop", stops, NULL);
    g_autoptr (TlGenerator) stopped = tl_model_begin (model, ids, config, NULL);
    g_autoptr (TlDetokenizer) detokenizer = tl_detokenizer_new (tl_model_get_tokenizer (model),
        TL_DETOKENIZER_SKIP_SPECIAL);
    g_autoptr (GString) streamed = g_string_new (NULL);

    for (TlStep step = TL_STEP_PASS; step != TL_STEP_END;) {
      g_autoptr (TlToken) token = NULL;
      step = tl_generator_step (stopped, &token, NULL, NULL);
      if (!token)
        continue;
      g_autoptr (GBytes) piece = tl_detokenizer_push_cut (detokenizer, token->id, token->cut);
      g_string_append_len (streamed, g_bytes_get_data (piece, NULL), g_bytes_get_size (piece));
      inside += token->cut > 0;
    }
    g_autoptr (GBytes) rest = tl_detokenizer_flush (detokenizer);
    g_assert_cmpuint (g_bytes_get_size (rest), ==, 0);
    g_autoptr (TlGeneration) result = tl_generator_finish (stopped);
    g_assert_cmpstr (streamed->str, ==, expected);
    g_assert_cmpstr (tl_generation_get_text (result), ==, expected);
  }
  g_assert_cmpuint (inside, >, 0);      /* the model has tokens of several bytes */
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  model = g_object_new (TL_TYPE_MODEL, "path", g_getenv ("TL_TEST_MODEL"), NULL);
  g_assert_true (tl_model_load (model, NULL, NULL));
  g_test_add_func ("/sequence/every-reply-is-the-undivided-one", test_every_reply_is_the_undivided_one);
  g_test_add_func ("/sequence/forks-do-not-see-each-other", test_forks_do_not_see_each_other);
  g_test_add_func ("/sequence/only-the-first-reply-is-written-back", test_only_the_first_reply_is_written_back);
  g_test_add_func ("/sequence/dropped-leaves-no-trace", test_dropped_leaves_no_trace);
  g_test_add_func ("/sequence/the-reply-names-the-policy", test_the_reply_names_the_policy);
  g_test_add_func ("/generator/update-counts-from-the-next-token", test_update_counts_from_the_next_token);
  g_test_add_func ("/generator/loops-change-in-the-middle-of-a-reply", test_loops_change_in_the_middle_of_a_reply);
  g_test_add_func ("/generator/tokens-and-text-end-at-the-stop-string", test_tokens_and_text_end_at_the_stop_string);
  int status = g_test_run ();
  g_object_unref (model);
  return status;
}
