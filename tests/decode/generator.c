/* tests/decode/generator.c — the step interface on a scripted source of logits: chunks, stops, cancel, errors. */
#include <math.h>
#include <string.h>

#include "decode/tl-generator-private.h"

#define VOCAB 16

/* the next id is the sum of all ids before it, mod VOCAB, by a clear margin; sampled runs see a soft distribution */
typedef struct { guint32 sum; guint n_runs, fail_at; GArray *chunks; gboolean soft; } Script;

static gboolean
run_script (gpointer data, const guint32 *tokens, guint n, float *logits, GCancellable *cancellable, GError **error)
{
  Script *s = data;
  s->n_runs++;
  for (guint i = 0; i < n; i++)
    s->sum += tokens[i] + 1;
  if (logits) {
    for (guint i = 0; i < VOCAB; i++)
      logits[i] = s->soft ? sinf (s->sum * 1.7f + i * 2.3f) : (i == s->sum % VOCAB ? 5 : 0);
    if (s->fail_at && s->n_runs >= s->fail_at)
      logits[3] = NAN;
  }
  return TRUE;
}

static TlGenerator *
generator (Script *s, const guint32 *prompt, guint n, TlGenerateConfig *config, guint chunk)
{
  TlGeneratorSource source = { .run = run_script, .data = s, .vocab_size = VOCAB, .loops = 2, .chunk = chunk };
  guint max_tokens;
  g_object_get (config, "max-tokens", &max_tokens, NULL);
  g_assert_true (tl_generate_config_validate (config, NULL));
  return tl_generator_new (&source, prompt, n, 0, n, config, max_tokens);
}

static GBytes *
generate (TlGenerateConfig *config, guint chunk, gboolean soft, TlFinishReason *finish)
{
  const guint32 prompt[] = { 1, 2, 3, 4, 5, 6, 7 };
  Script s = { .soft = soft };
  g_autoptr (TlGenerator) g = generator (&s, prompt, 7, config, chunk);
  g_autoptr (TlGeneration) result = tl_generator_run (g, NULL, NULL);
  g_assert_nonnull (result);
  if (finish)
    *finish = tl_generation_get_finish_reason (result);
  return g_bytes_ref (tl_generation_get_tokens_bytes (result));
}

static TlGenerateConfig *
config_of (guint max_tokens)
{
  return g_object_new (TL_TYPE_GENERATE_CONFIG, "max-tokens", max_tokens, NULL);
}

static void
test_chunks_change_nothing (void)
{
  for (guint64 seed = 0; seed < 20; seed++) {
    g_autoptr (TlGenerateConfig) config = config_of (12);
    g_object_set (config, "temperature", seed ? 0.9 : 0.0, "seed", seed, NULL);
    g_autoptr (GBytes) whole = generate (config, 0, TRUE, NULL);
    for (guint chunk = 1; chunk < 8; chunk++) {
      g_autoptr (GBytes) other = generate (config, chunk, TRUE, NULL);
      g_assert_true (g_bytes_equal (whole, other));
    }
  }
}

static void
test_seeds_differ (void)
{
  g_autoptr (TlGenerateConfig) a = config_of (16), b = config_of (16);
  g_object_set (a, "temperature", 1.5, "seed", (guint64) 1, NULL);
  g_object_set (b, "temperature", 1.5, "seed", (guint64) 1 << 40, NULL);
  g_autoptr (GBytes) x = generate (a, 0, TRUE, NULL), y = generate (b, 0, TRUE, NULL);
  g_assert_false (g_bytes_equal (x, y));
}

static void
test_every_pass_is_a_step (void)
{
  const guint32 prompt[] = { 1, 2, 3, 4, 5 };
  Script s = { 0 };
  g_autoptr (TlGenerateConfig) config = config_of (2);
  g_autoptr (TlGenerator) g = generator (&s, prompt, 5, config, 2);
  g_autoptr (TlToken) first = NULL, second = NULL;

  g_assert_cmpint (tl_generator_step (g, NULL, NULL, NULL), ==, TL_STEP_PASS);
  g_assert_cmpint (tl_generator_step (g, NULL, NULL, NULL), ==, TL_STEP_PASS);
  g_assert_cmpint (tl_generator_step (g, &first, NULL, NULL), ==, TL_STEP_TOKEN);
  g_assert_cmpint (first->finish, ==, TL_FINISH_NONE);
  g_assert_cmpuint (first->position, ==, 5);
  g_assert_cmpint (tl_generator_step (g, &second, NULL, NULL), ==, TL_STEP_TOKEN);
  g_assert_cmpint (second->finish, ==, TL_FINISH_LENGTH);
  g_assert_cmpint (tl_generator_step (g, NULL, NULL, NULL), ==, TL_STEP_END);
  g_assert_cmpuint (s.n_runs, ==, 4);
}

static void
test_statistics_come_only_when_asked_for (void)
{
  const guint32 prompt[] = { 1, 2, 3 };
  for (guint top = 0; top <= 3; top++) {
    Script s = { 0 };
    g_autoptr (TlGenerateConfig) config = config_of (2);
    g_object_set (config, "token-stats", top > 0, "top-logprobs", top, NULL);
    g_autoptr (TlGenerator) g = generator (&s, prompt, 3, config, 0);
    g_autoptr (TlToken) token = NULL;
    g_assert_cmpint (tl_generator_step (g, &token, NULL, NULL), ==, TL_STEP_TOKEN);
    g_clear_object (&g);        /* a token knows its figures without its generator, and so does a copy */
    g_autoptr (TlToken) copy = tl_token_copy (token);
    g_clear_pointer (&token, tl_token_free);

    double sum = exp (5) + VOCAB - 1, other = -log (sum), best = 5 - log (sum);
    g_assert_cmpint (copy->measured, ==, top > 0);
    g_assert_cmpuint (tl_token_get_n_alternatives (copy), ==, top);
    g_assert_cmpfloat_with_epsilon (copy->logprob, top ? best : 0, 1e-9);
    g_assert_cmpfloat_with_epsilon (copy->entropy, top ? -(exp (best) * best + (VOCAB - 1) * exp (other) * other) : 0, 1e-9);
    for (guint i = 0; i < top; i++) {
      g_assert_cmpint (tl_token_get_alternative_id (copy, i), ==, i == 0 ? copy->id : (gint) i - (i - 1 < copy->id));
      g_assert_cmpfloat_with_epsilon (tl_token_get_alternative_logprob (copy, i), i == 0 ? best : other, 1e-9);
    }
  }
}

static void
test_a_result_has_the_tokens_that_have_left (void)
{
  const guint32 prompt[] = { 1, 2, 3 };
  Script s = { 0 };
  g_autoptr (TlGenerateConfig) config = config_of (4);
  g_object_set (config, "token-stats", TRUE, NULL);
  g_autoptr (TlGenerator) g = generator (&s, prompt, 3, config, 0);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (tl_generator_step (g, NULL, NULL, NULL), ==, TL_STEP_TOKEN);
  g_autoptr (TlGeneration) result = tl_generator_finish (g);
  const gint32 *ids = g_bytes_get_data (tl_generation_get_tokens_bytes (result), NULL);
  g_assert_cmpuint (tl_generation_get_n_tokens (result), ==, 3);
  for (guint i = 0; i < 3; i++) {
    g_autoptr (TlToken) token = tl_generation_get_token (result, i);
    g_assert_cmpint (token->id, ==, ids[3 + i]);
    g_assert_cmpuint (token->index, ==, i);
    g_assert_cmpuint (token->loops, ==, 2);
    g_assert_true (token->measured && token->logprob < 0);
  }
}

static void
test_a_stop_never_reaches_into_the_prompt (void)
{
  TlFinishReason finish;
  g_autoptr (TlGenerateConfig) plain = config_of (8), stopped = config_of (8), both = config_of (8);
  g_autoptr (GBytes) all = generate (plain, 0, FALSE, NULL);
  const gint32 *ids = g_bytes_get_data (all, NULL);

  /* the prompt's last id with the first generated one: no match */
  g_autoptr (GBytes) across = g_bytes_new (ids + 6, 8), two = g_bytes_new (ids + 8, 8), one = g_bytes_new (ids + 8, 4);
  tl_generate_config_add_stop_sequence (stopped, across);
  g_autoptr (GBytes) same = generate (stopped, 0, FALSE, &finish);
  g_assert_true (g_bytes_equal (same, all));
  g_assert_cmpint (finish, ==, TL_FINISH_LENGTH);

  /* the shorter of two wins, and stays in the output */
  tl_generate_config_add_stop_sequence (both, two);
  tl_generate_config_add_stop_sequence (both, one);
  g_autoptr (GBytes) cut = generate (both, 0, FALSE, &finish);
  g_assert_cmpint (finish, ==, TL_FINISH_STOP);
  g_assert_cmpmem (g_bytes_get_data (cut, NULL), g_bytes_get_size (cut), ids, (ids[7] == ids[8] ? 8 : 9) * 4);
}

static void
test_cancel_ends_between_passes (void)
{
  const guint32 prompt[] = { 1 };
  Script s = { 0 }, t = { 0 };
  g_autoptr (TlGenerateConfig) config = config_of (100);
  g_autoptr (TlGenerator) g = generator (&s, prompt, 1, config, 0), early = generator (&t, prompt, 1, config, 0);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (tl_generator_step (g, NULL, cancellable, NULL), ==, TL_STEP_TOKEN);
  g_cancellable_cancel (cancellable);
  g_assert_cmpint (tl_generator_step (g, NULL, cancellable, NULL), ==, TL_STEP_END);
  g_assert_cmpint (tl_generator_get_finish_reason (g), ==, TL_FINISH_CANCELLED);
  g_autoptr (TlGeneration) partial = tl_generator_finish (g);
  g_assert_cmpuint (g_bytes_get_size (tl_generation_get_tokens_bytes (partial)), ==, 8);

  g_assert_null (tl_generator_run (early, cancellable, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_CANCELLED);
}

static void
test_an_error_stays (void)
{
  const guint32 prompt[] = { 1 };
  Script s = { .fail_at = 2 };
  g_autoptr (TlGenerateConfig) config = config_of (4);
  g_autoptr (TlGenerator) g = generator (&s, prompt, 1, config, 0);
  g_assert_cmpint (tl_generator_step (g, NULL, NULL, NULL), ==, TL_STEP_TOKEN);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (GError) error = NULL;
    g_assert_cmpint (tl_generator_step (g, NULL, NULL, &error), ==, TL_STEP_ERROR);
    g_assert_error (error, TL_ERROR, TL_ERROR_NUMERIC);
  }
  g_assert_cmpuint (s.n_runs, ==, 2);
}

/* id i < 14 spells 'a' + i, 14 ends a reply, 15 spells nothing */
static TlMatcher *
matcher_of (const char *regex)
{
  const gint32 end = 14;
  gint32 table[VOCAB + 1];
  for (guint i = 0; i <= VOCAB; i++)
    table[i] = MIN (i, 14);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("abcdefghijklmn", 14), offsets = g_bytes_new (table, sizeof table);
  g_autoptr (GBytes) ends = g_bytes_new (&end, sizeof end);
  g_autoptr (TlTokenTrie) trie = tl_token_trie_new (bytes, offsets, ends, NULL);
  g_autoptr (TlGrammar) grammar = tl_grammar_new_regex (regex, -1, TL_REGEX_NONE, NULL);
  g_assert_true (tl_grammar_set_vocabulary (grammar, trie, NULL));
  return tl_grammar_create_matcher (grammar, NULL);
}

static TlGeneration *
generate_by (const char *regex, guint max_tokens, gboolean ignore_eos, GError **error)
{
  const guint32 prompt[] = { 1, 2, 3 };
  Script s = { .soft = TRUE };
  TlGeneratorSource source = { .run = run_script, .data = &s, .vocab_size = VOCAB, .loops = 2, .matcher = matcher_of (regex) };
  g_autoptr (TlGenerateConfig) config = config_of (max_tokens);
  g_object_set (config, "ignore-eos", ignore_eos, "temperature", 1.0, NULL);
  g_autoptr (TlGenerator) g = tl_generator_new (&source, prompt, 3, 0, 3, config, max_tokens);
  return tl_generator_run (g, NULL, error);
}

static void
test_a_grammar_without_a_tokenizer (void)
{
  static const struct { const char *regex; guint max_tokens; TlFinishReason finish; gint32 first, last; } cases[] = {
    { "[c-e]{4}", 9, TL_FINISH_GRAMMAR_COMPLETE, 2, 4 },
    { "[c-e]{4}", 4, TL_FINISH_GRAMMAR_COMPLETE, 2, 4 },        /* complete comes before length */
    { "[c-e]{4}", 3, TL_FINISH_LENGTH, 2, 4 },
    { "b*", 200, TL_FINISH_EOS, 1, 1 },
  };
  for (guint i = 0; i < 2 * G_N_ELEMENTS (cases); i++) {
    guint n = i / 2;
    g_autoptr (TlGeneration) result = generate_by (cases[n].regex, cases[n].max_tokens, i % 2, NULL);
    gsize size;
    const gint32 *ids = g_bytes_get_data (tl_generation_get_tokens_bytes (result), &size);
    g_assert_cmpint (tl_generation_get_finish_reason (result), ==, cases[n].finish);
    for (gsize k = 3; k < size / sizeof *ids; k++)
      g_assert_true ((ids[k] >= cases[n].first && ids[k] <= cases[n].last)
          || (cases[n].finish == TL_FINISH_EOS && ids[k] == 14 && k + 1 == size / sizeof *ids));
  }
}

static void
test_a_dead_end_is_an_error (void)
{
  g_autoptr (GError) error = NULL;
  g_assert_null (generate_by ("abz", 9, FALSE, &error));        /* no token spells z */
  g_assert_error (error, TL_ERROR, TL_ERROR_DEAD_END);
  g_autoptr (TlGeneration) cut = generate_by ("abz", 2, FALSE, NULL);
  g_assert_cmpint (tl_generation_get_finish_reason (cut), ==, TL_FINISH_LENGTH);
}

static void
test_ranges_are_checked (void)
{
  static const struct { const char *name; double bad; } cases[] = {
    { "temperature", -0.1 }, { "temperature", NAN }, { "top-p", 0 }, { "top-p", 1.1 }, { "top-p", NAN }, { "min-p", 1 },
    { "min-p", -1 }, { "repetition-penalty", 0 }, { "repetition-penalty", INFINITY }, { "presence-penalty", NAN },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    if (!isfinite (cases[i].bad))
      continue;                 /* GObject replaces these itself */
    g_autoptr (TlGenerateConfig) config = tl_generate_config_new ();
    g_autoptr (GError) error = NULL;
    g_assert_true (tl_generate_config_validate (config, NULL));
    g_object_set (config, cases[i].name, cases[i].bad, NULL);
    g_assert_false (tl_generate_config_validate (config, &error));
    g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
    g_assert_nonnull (strstr (error->message, cases[i].name));
  }
  g_autoptr (TlGenerateConfig) none = config_of (0), empty = config_of (1);
  g_autoptr (GBytes) nothing = g_bytes_new (NULL, 0);
  tl_generate_config_add_stop_sequence (empty, nothing);
  g_assert_false (tl_generate_config_validate (none, NULL));
  g_assert_false (tl_generate_config_validate (empty, NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/generator/chunks-change-nothing", test_chunks_change_nothing);
  g_test_add_func ("/generator/seeds-differ", test_seeds_differ);
  g_test_add_func ("/generator/every-pass-is-a-step", test_every_pass_is_a_step);
  g_test_add_func ("/generator/statistics-come-only-when-asked-for", test_statistics_come_only_when_asked_for);
  g_test_add_func ("/generator/a-result-has-the-tokens-that-have-left", test_a_result_has_the_tokens_that_have_left);
  g_test_add_func ("/generator/a-stop-never-reaches-into-the-prompt", test_a_stop_never_reaches_into_the_prompt);
  g_test_add_func ("/generator/cancel-ends-between-passes", test_cancel_ends_between_passes);
  g_test_add_func ("/generator/an-error-stays", test_an_error_stays);
  g_test_add_func ("/generator/a-grammar-without-a-tokenizer", test_a_grammar_without_a_tokenizer);
  g_test_add_func ("/generator/a-dead-end-is-an-error", test_a_dead_end_is_an_error);
  g_test_add_func ("/config/ranges-are-checked", test_ranges_are_checked);
  return g_test_run ();
}
