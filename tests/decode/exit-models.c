/* tests/decode/exit-models.c — early exit on small models: the same depths and logits as the definition in F64 and, for gates,
 * as the family's own code; whatever stands in the planes that were left out. */
#include <math.h>
#include <string.h>

#include "decode/tl-exit.h"
#include "golden.h"

#define TOLERANCE 2e-4
#define PROMPT 5
#define REPLY 14

static guint
argmax (const float *x, guint n)
{
  guint best = 0;
  for (guint i = 1; i < n; i++)
    if (x[i] > x[best])
      best = i;
  return best;
}

static Golden *
open_golden (const char *name)
{
  g_autofree char *path = g_build_filename (g_getenv ("TINYLOOP_TEST_GOLDENS"), name, NULL);
  g_autoptr (GError) error = NULL;
  Golden *g = golden_open (path, 1, TRUE, &error);
  g_assert_no_error (error);
  return g;
}

/* appends rows and lets the rule look after every loop; logits: [n][vocab], of the last row when `last` */
static void
run_rows (Golden *g, TlKvSequence *seq, const guint32 *ids, guint n, guint loops, const TlExitRule *rule, gboolean last,
  float *logits, guint *depths)
{
  g_autofree TlPassRow *rows = g_new0 (TlPassRow, n);
  g_autofree float *zeros = g_new0 (float, g->program->d_model);
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < n; i++)
    rows[i] = (TlPassRow) { .sequence = seq, .position = tl_kv_sequence_length (seq) + i, .token = ids[i], .stop = loops,
      .initial_state = g->program->has_initial_state ? zeros : NULL,
      .logits = !last ? logits + (gsize) i * g->program->vocab_size : i + 1 == n ? logits : NULL };
  g_autoptr (TlPass) pass = tl_pass_begin (g->backend, rows, n, NULL, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (TlExit) exit = rule ? tl_exit_new (rule, pass, 0, n) : NULL;
  for (guint loop = 0; loop < loops; loop++)
    {
      g_assert_true (tl_pass_loops (pass, 1, NULL, &error));
      g_assert_true (!exit || tl_exit_probe (exit, NULL, &error));
    }
  if (exit)
    tl_exit_end (exit, depths);
  g_assert_true (tl_pass_finish (pass, NULL, &error));
}

/* --- against the definition --- */

typedef struct { const char *model; TlExitFillMode fill; guint loops, window; float margin; } Case;

static float
margin_of (const float *logits, guint n)
{
  guint best = argmax (logits, n);
  float second = -INFINITY;
  for (guint i = 0; i < n; i++)
    if (i != best)
      second = MAX (second, logits[i]);
  return logits[best] - second;
}

/* the depth at which the definition would stop position t, given those before it */
static guint
defined_depth (Golden *g, const Case *c, const guint32 *ids, guint *depths, guint t, float *logits)
{
  guint vocab = g->program->vocab_size;
  TlReferenceOptions o = { .loops = c->loops, .depths = depths, .window = c->window,
    .propagate = c->fill == TL_EXIT_FILL_PROPAGATE, .mode = TL_KV_FP32 };
  for (depths[t] = 2; depths[t] < c->loops; depths[t]++)
    {
      tl_reference_logits (g->program, ids, t + 1, &o, logits);
      float margin = margin_of (logits + (gsize) t * vocab, vocab);
      g_assert_cmpfloat (fabsf (margin - c->margin), >, 10 * TOLERANCE);      /* not decided by rounding */
      if (margin > c->margin)
        return depths[t];
    }
  tl_reference_logits (g->program, ids, t + 1, &o, logits);
  return c->loops;
}

/* a reply with exits at mixed depths: each token's depth and logits are those of the definition */
static void
exits_equal_the_definition (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (Golden) g = open_golden (c->model);
  g_autoptr (TlKvStore) store = tl_kv_store_new (g->backend, 0);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, TL_KV_FP32, c->window);
  guint n, vocab = g->program->vocab_size, depths[PROMPT + REPLY], taken[PROMPT], exits[64] = { 0 }, used = 0;
  g_autofree guint32 *prompt = golden_prompt (g, "long", &n);
  g_autofree float *got = g_new0 (float, vocab), *want = g_new0 (float, (PROMPT + REPLY) * vocab);
  guint32 ids[PROMPT + REPLY];
  TlExitRule rule = { tl_exit_find_criterion ("logit-margin"), 1, 2, 1, c->margin, c->fill };
  memcpy (ids, prompt, sizeof ids[0] * PROMPT);
  for (guint i = 0; i < PROMPT; i++)
    depths[i] = c->loops;
  run_rows (g, seq, ids, PROMPT, c->loops, NULL, TRUE, got, taken);
  for (guint t = PROMPT; t < PROMPT + REPLY; t++)
    {
      ids[t] = argmax (got, vocab);
      run_rows (g, seq, &ids[t], 1, c->loops, &rule, TRUE, got, taken);
      g_assert_cmpuint (taken[0], ==, defined_depth (g, c, ids, depths, t, want));
      g_assert_cmpuint (tl_kv_sequence_depth (seq, t), ==, taken[0]);
      g_assert_cmpfloat (golden_max_diff (got, want + (gsize) t * vocab, vocab), <=, TOLERANCE);
      used += exits[taken[0]]++ == 0;
    }
  g_assert_cmpuint (used, >=, 2);       /* mixed depths */
}

/* --- a change of states, by the family's own ones --- */

static double
golden_change (const float *h, const float *before, guint n)
{
  double change = 0, size = 0;
  for (guint i = 0; i < n; i++)
    {
      change += ((double) h[i] - before[i]) * ((double) h[i] - before[i]);
      size += (double) h[i] * h[i];
    }
  return sqrt (change / size);
}

/* the last row of the short prompt, with tau between two loops' changes */
static void
changes_are_those_of_the_golden_states (void)
{
  g_autoptr (Golden) g = open_golden ("ouro");
  g_autoptr (TlKvStore) store = tl_kv_store_new (g->backend, 0);
  guint n, d = g->program->d_model, depths[7], checked = 0;
  g_autofree guint32 *ids = golden_prompt (g, "short", &n);
  g_autofree float *logits = g_new0 (float, g->program->vocab_size);
  double change[7] = { 0 };
  for (guint loop = 2; loop <= 6; loop++)
    {
      g_autofree char *name = g_strdup_printf ("short.hidden.loop%u", loop);
      g_autofree char *before = g_strdup_printf ("short.hidden.loop%u", loop - 1);
      gsize count;
      const float *h = golden_tensor (g, name, &count), *h_before = golden_tensor (g, before, &count);
      g_assert_true (h && h_before);
      change[loop] = golden_change (h + (n - 1) * d, h_before + (n - 1) * d, d);
      g_test_message ("loop %u: %g", loop, change[loop]);
    }
  for (guint loop = 2; loop <= 6; loop++)
    for (int side = -1; side <= 1; side += 2)
      {
        g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, TL_KV_FP32, 0);
        TlExitRule rule = { tl_exit_find_criterion ("hidden-l2"), 1, loop, 1, change[loop] * (1 + side * 1e-3) };
        run_rows (g, seq, ids, n, loop + 1, &rule, TRUE, logits, depths);
        g_assert_cmpuint (depths[n - 1], ==, side > 0 ? loop : loop + 1);
        g_assert_cmpuint (depths[0], ==, loop + 1);
        checked++;
      }
  g_assert_cmpuint (checked, ==, 10);
}

/* --- gates, by the family's own code: all loops run, the read-out is taken where the gate says --- */

static void
check_gate_case (Golden *g, TlKvStore *store, const char *prompt, guint loops, const char *threshold, const char *key)
{
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, TL_KV_FP32, 0);
  guint n, vocab = g->program->vocab_size, n_steps;
  g_autofree guint32 *ids = golden_prompt (g, prompt, &n);
  g_autofree guint *depths = g_new0 (guint, n);
  g_autofree float *got = g_new0 (float, (gsize) n * vocab);
  JsonObject *exits = json_object_get_object_member (g->expected, "exit"), *one = json_object_get_object_member (exits, key);
  g_autofree guint32 *steps = golden_ids (json_object_get_array_member (one, "exit_step_0based"), &n_steps);
  TlExitRule rule = { tl_exit_find_criterion ("gate"), 1, 1, 1, g_ascii_strtod (threshold, NULL), TL_EXIT_FILL_FULL };
  run_rows (g, seq, ids, n, loops, &rule, FALSE, got, depths);
  g_assert_cmpuint (n_steps, ==, n);
  for (guint i = 0; i < n; i++)
    g_assert_cmpuint (depths[i], ==, steps[i] + 1);

  g_autofree char *name = g_strdup_printf ("%s.logits", key);
  gsize count;
  const float *want = golden_tensor (g, name, &count);
  if (!want)
    return;                     /* eight loops: steps only */
  g_assert_cmpfloat (golden_max_diff (got, want, count), <=, TOLERANCE);
  g_autofree char *case_key = g_strdup_printf ("R%u.thr%s", loops, threshold);
  JsonObject *greedy = json_object_get_object_member (json_object_get_object_member (g->expected, "greedy"), prompt);
  g_autofree guint32 *reply = golden_ids (json_object_get_array_member (greedy, case_key), &n_steps);
  memcpy (got, got + (gsize) (n - 1) * vocab, vocab * sizeof (float));
  for (guint i = 0; i < n_steps; i++)
    {
      guint32 id = argmax (got, vocab);
      g_assert_cmpuint (id, ==, reply[i]);
      run_rows (g, seq, &id, 1, loops, &rule, TRUE, got, depths);
    }
}

static void
gates_equal_the_familys_code (void)
{
  static const char *const thresholds[] = { "0.3", "0.5", "0.7" }, *const prompts[] = { "short", "long" };
  g_autoptr (Golden) g = open_golden ("ouro");
  g_autoptr (TlKvStore) store = tl_kv_store_new (g->backend, 0);
  for (guint loops = 4; loops <= 8; loops += 4)
    for (guint p = 0; p < 2; p++)
      for (guint t = 0; t < 3; t++)
        {
          g_autofree char *key = g_strdup_printf ("%s.R%u.thr%s", prompts[p], loops, thresholds[t]);
          check_gate_case (g, store, prompts[p], loops, thresholds[t], key);
        }
}

int
main (int argc, char **argv)
{
  static const Case cases[] = {
    { "nanbeige", TL_EXIT_FILL_COPY, 4, 0, 1.0 }, { "nanbeige", TL_EXIT_FILL_PROPAGATE, 4, 0, 1.0 },
    { "nanbeige", TL_EXIT_FILL_COPY, 4, 6, 1.0 },
    { "huginn", TL_EXIT_FILL_COPY, 5, 0, 1.0 }, { "huginn", TL_EXIT_FILL_PROPAGATE, 5, 0, 1.0 },
    { "huginn", TL_EXIT_FILL_COPY, 5, 6, 1.0 },
    { "ouro", TL_EXIT_FILL_COPY, 4, 0, 0.8 }, { "ouro", TL_EXIT_FILL_PROPAGATE, 4, 7, 0.8 },
  };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const Case *c = &cases[i];
      g_autofree char *path = g_strdup_printf ("/exit/definition/%s-%s-window-%u", c->model,
          c->fill == TL_EXIT_FILL_COPY ? "copy" : "propagate", c->window);
      g_test_add_data_func (path, c, exits_equal_the_definition);
    }
  g_test_add_func ("/exit/changes-are-those-of-the-golden-states", changes_are_those_of_the_golden_states);
  g_test_add_func ("/exit/gates-equal-the-familys-code", gates_equal_the_familys_code);
  return g_test_run ();
}
