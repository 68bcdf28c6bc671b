/* tests/decode/exit.c — early exit on scripted states: when probes are made, what counts as stable, what is remembered. */
#include <math.h>
#include <string.h>

#include <glib/gstdio.h>

#include "cpu/tl-backend-cpu.h"
#include "decode/tl-exit.h"
#include "tiny-model.h"

#define LOOPS 8

/* After loop d a row's state is {states[d], 0, 0, …} and its logits are logits[d][token]: a CPU backend that is overruled. */
typedef struct
{
  TlBackendClass klass;
  TlBackend *backend;
  TlProgram *program;
  TlKvStore *store;
  float states[LOOPS + 1];
  float logits[LOOPS + 1][3];
  guint n_peeks;
} Script;

static Script *script;          /* of the test that runs */

static void
write_state (TlRow *row)
{
  guint n = script->program->d_model;
  g_autofree float *h = g_new0 (float, n);
  h[0] = script->states[row->depth];
  tl_backend_cpu_class ()->state_write (script->backend, row->states, row->slot, TL_STATE_H, h);
}

static gboolean
run_script (TlBackend *backend, TlBatch *batch, TlStages stages, guint max_loops, GCancellable *cancellable, GError **error)
{
  if (!tl_backend_cpu_class ()->run (backend, batch, stages, max_loops, cancellable, error))
    return FALSE;
  for (guint r = 0; r < batch->n_rows; r++)
    {
      TlRow *row = &batch->rows[r];
      if (stages & (TL_STAGE_PRE | TL_STAGE_BODY))
        write_state (row);
      if (!(stages & TL_STAGE_POST) || !row->logits)
        continue;
      script->n_peeks++;
      for (guint i = 0; i < script->program->vocab_size; i++)
        row->logits[i] = i < 3 ? script->logits[row->depth][i] : -1000;
    }
  return TRUE;
}

static void
set_up (Script *s, gconstpointer data)
{
  static const TinyModel model = { "exit", TL_F32, TL_OFFSET_NONE, TL_F32, 0, 32, 8, 4, 2, 32, 16, 64 };
  g_autoptr (GError) error = NULL;
  g_autoptr (TlDescriptor) d = tiny_model_descriptor (&model);
  d->loops_max = LOOPS;
  d->exit_gate = TL_EXIT_HAZARD_CDF;
  g_autofree char *path = tiny_model_write_descriptor (&model, d);
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (path, &error);
  g_assert_no_error (error);
  g_unlink (path);
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, &error);
  g_assert_no_error (error);
  s->program = tl_program_new (weights, &error);
  g_assert_no_error (error);
  s->backend = tl_backend_prepare (tl_backend_cpu_class (), s->program, NULL, &error);
  g_assert_no_error (error);
  s->klass = *tl_backend_cpu_class ();
  s->klass.run = run_script;
  s->backend->klass = &s->klass;
  s->store = tl_kv_store_new (s->backend, 0);
  script = s;
}

static void
tear_down (Script *s, gconstpointer data)
{
  g_assert_cmpuint (tl_kv_store_used_bytes (s->store), ==, 0);
  tl_kv_store_unref (s->store);
  s->backend->klass = tl_backend_cpu_class ();
  tl_backend_free (s->backend);
  tl_program_unref (s->program);
}

static TlExitRule
rule_of (const char *criterion, guint patience, guint min_loops, guint peek_every, float threshold)
{
  int found = tl_exit_find_criterion (criterion);
  g_assert_cmpint (found, >=, 0);
  return (TlExitRule) { found, patience, min_loops, peek_every, threshold };
}

static void
walk (TlPass *pass, const TlExitRule *rule, guint n, guint *depths)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlExit) exit = tl_exit_new (rule, pass, 0, n);
  gboolean going = TRUE;
  while (going)
    {
      going = FALSE;
      tl_pass_loops (pass, tl_exit_loops_to_probe (exit), NULL, &error);
      g_assert_no_error (error);
      tl_exit_probe (exit, NULL, &error);
      g_assert_no_error (error);
      for (guint i = 0; i < n; i++)
        going |= tl_pass_row_is_going (pass, i);
    }
  tl_exit_end (exit, depths);
  g_assert_true (tl_pass_finish (pass, NULL, &error));
}

/* the depth a single new row takes */
static guint
depth_of_row (Script *s, const TlExitRule *rule)
{
  g_autofree float *logits = g_new0 (float, s->program->vocab_size);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (s->store, TL_KV_FP16, 0);
  TlPassRow row = { .sequence = seq, .token = 1, .stop = LOOPS, .logits = logits };
  g_autoptr (TlPass) pass = tl_pass_begin (s->backend, &row, 1, NULL, NULL, NULL);
  guint depth;
  walk (pass, rule, 1, &depth);
  g_assert_cmpuint (tl_kv_sequence_depth (seq, 0), ==, depth);
  return depth;
}

static void
probes_come_when_the_rule_says (Script *s, gconstpointer data)
{
  /* relative changes of loops 1 … 8: - .5 .01 .5 .01 .01 .01 .5 .01 (about) */
  static const float states[] = { 0, 1, 2, 2.02f, 4.04f, 4.08f, 4.12f, 4.16f, 8.32f };
  static const struct { guint patience, min_loops, peek_every; float tau; guint depth; const char *why; } cases[] = {
    { 1, 1, 1, 0.02f, 3, "the first small change" },
    { 1, 3, 1, 0.02f, 3, "min_loops is the first probe" },
    { 1, 4, 1, 0.02f, 5, "nothing before min_loops counts" },
    { 2, 1, 1, 0.02f, 6, "two in a row: the one at 3 is alone" },
    { 3, 1, 1, 0.02f, 7, "three in a row" },
    { 4, 1, 1, 0.02f, 8, "never: all loops run" },
    { 2, 3, 2, 0.02f, 5, "every second loop: 3 and 5 follow each other" },
    { 1, 2, 2, 0.02f, 6, "2, 4, 6" },
    { 3, 3, 2, 0.02f, 7, "3, 5, 7" },
    { 1, 1, 3, 0.02f, 7, "1, 4, 7" },
    { 1, 8, 1, 0.02f, 8, "no probe at the last loop: there is nothing to save" },
    { 1, 1, 1, 0.005f, 8, "strictly below tau" },
    { 1, 1, 1, 10, 1, "min_loops 1 compares with the state before the first loop" },
  };
  memcpy (s->states, states, sizeof states);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      TlExitRule rule = rule_of ("hidden-l2", cases[i].patience, cases[i].min_loops, cases[i].peek_every, cases[i].tau);
      g_test_message ("%s", cases[i].why);
      g_assert_cmpuint (depth_of_row (s, &rule), ==, cases[i].depth);
    }
}

/* h and h' are one loop apart even where probes are further apart */
static void
a_change_is_that_of_one_loop (Script *s, gconstpointer data)
{
  static const float states[] = { 1, 2, 3, 4, 5, 5, 6, 7, 8 };
  memcpy (s->states, states, sizeof states);
  TlExitRule rule = rule_of ("hidden-l2", 1, 3, 2, 1e-6f);
  g_assert_cmpuint (depth_of_row (s, &rule), ==, 5);
}

static void
criteria_of_logits (Script *s, gconstpointer data)
{
  static const float logits[][3] = { { 0 }, { 1, 0, 0 }, { 0, 1, 0 }, { 0, 3, 0 }, { 0, 3.25f, 0 }, { 0, 6, 1 }, { 0, 6, 1 },
    { 9, 6, 1 }, { 9, 6, 1 } };
  static const struct { const char *criterion; guint patience, min_loops; float threshold; guint depth; } cases[] = {
    { "logit-margin", 1, 1, 2.5f, 3 },
    { "logit-margin", 1, 1, 3, 4 },         /* strictly above */
    { "logit-margin", 1, 1, 5, 8 },
    { "logit-margin", 2, 1, 3, 5 },
    { "argmax", 1, 1, 0, 3 },               /* 0 1 1: stable at the third */
    { "argmax", 1, 3, 0, 4 },               /* the first probe has nothing to compare with */
    { "argmax", 3, 1, 0, 5 },
    { "kl", 1, 1, 1e-3f, 6 },
    { "kl", 1, 1, 1e-2f, 4 },
    { "entropy", 1, 1, 1e-4f, 2 },          /* 1 0 0 and 0 1 0 are as uncertain */
    { "entropy", 1, 2, 1e-4f, 6 },
  };
  memcpy (s->logits, logits, sizeof logits);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      TlExitRule rule = rule_of (cases[i].criterion, cases[i].patience, cases[i].min_loops, 1, cases[i].threshold);
      g_test_message ("%s, patience %u, from %u, %g", cases[i].criterion, cases[i].patience, cases[i].min_loops,
        cases[i].threshold);
      g_assert_cmpuint (depth_of_row (s, &rule), ==, cases[i].depth);
    }
}

static void
states_alone_cost_no_head (Script *s, gconstpointer data)
{
  TlExitRule rule = rule_of ("hidden-l2", 1, 1, 1, -1);
  s->n_peeks = 0;
  depth_of_row (s, &rule);
  g_assert_cmpuint (s->n_peeks, ==, 1);         /* the row's own logits */
}

/* p_i = gate_i * prod (1 - gate_j); with the state all zero but one value the gate is a function of that */
static void
the_gate_adds_up_hazards (Script *s, gconstpointer data)
{
  const TlWeights *w = s->program->weights;
  double survival = 1, cdf = 0, at[LOOPS + 1] = { 0 };
  for (guint d = 1; d <= LOOPS; d++)
    {
      s->states[d] = (d % 3) * 2.0f - 1;
      double hazard = 1 / (1 + exp (-(w->exit_gate[0] * s->states[d] + w->exit_gate_bias[0])));
      cdf += hazard * survival;
      survival *= 1 - hazard;
      at[d] = cdf;
    }
  for (guint d = 1; d < LOOPS; d++)
    {
      TlExitRule rule = rule_of ("gate", 1, 1, 1, (at[d - 1] + at[d]) / 2);
      g_assert_cmpuint (depth_of_row (s, &rule), ==, d);
    }
}

/* rows without logits run to their stops beside one that exits */
static void
rows_of_a_prompt_never_exit (Script *s, gconstpointer data)
{
  static const float states[] = { 0, 1, 1, 1, 1, 1, 1, 1, 1 };
  memcpy (s->states, states, sizeof states);
  g_autofree float *logits = g_new0 (float, s->program->vocab_size);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (s->store, TL_KV_FP16, 0);
  TlPassRow rows[3] = { 0 };
  for (guint i = 0; i < 3; i++)
    rows[i] = (TlPassRow) { .sequence = seq, .position = i, .token = i, .stop = LOOPS, .logits = i == 2 ? logits : NULL };
  g_autoptr (TlPass) pass = tl_pass_begin (s->backend, rows, 3, NULL, NULL, NULL);
  TlExitRule rule = rule_of ("hidden-l2", 1, 2, 1, 0.1f);
  guint depths[3];
  walk (pass, &rule, 3, depths);
  g_assert_cmpuint (depths[0], ==, LOOPS);
  g_assert_cmpuint (depths[1], ==, LOOPS);
  g_assert_cmpuint (depths[2], ==, 2);
  g_assert_cmpuint (tl_kv_sequence_depth (seq, 1), ==, LOOPS);
  g_assert_cmpuint (tl_kv_sequence_depth (seq, 2), ==, 2);
}

/* the same depth whether a row runs in one go or pauses at any depth with its state kept */
static void
a_row_that_pauses_is_looked_at_as_if_it_had_not (Script *s, gconstpointer data)
{
  static const float states[] = { 0, 1, 2, 2.02f, 4.04f, 4.08f, 4.12f, 4.16f, 8.32f };
  static const float logits[][3] = { { 0 }, { 1, 0, 0 }, { 0, 1, 0 }, { 0, 3, 0 }, { 0, 3.25f, 0 }, { 0, 6, 1 }, { 0, 6, 1 },
    { 9, 6, 1 }, { 9, 6, 1 } };
  static const char *const names[] = { "hidden-l2", "logit-margin", "kl", "entropy", "argmax", "gate" };
  static const float thresholds[] = { 0.02f, 3, 1e-2f, 0.2f, 0, 0.8f };
  memcpy (s->states, states, sizeof states);
  memcpy (s->logits, logits, sizeof logits);
  g_autofree float *out = g_new0 (float, s->program->vocab_size);
  for (guint c = 0; c < G_N_ELEMENTS (names); c++)
    for (guint pause = 1; pause < LOOPS; pause++)
      for (guint fill = TL_EXIT_FILL_COPY; fill <= TL_EXIT_FILL_FULL; fill++)
        {
          gboolean gate = g_str_equal (names[c], "gate");
          TlExitRule rule = rule_of (names[c], gate ? 1 : 2, 1, 1, thresholds[c]);
          guint want = 0, got = 0;
          rule.fill = TL_EXIT_FILL_COPY;
          want = depth_of_row (s, &rule);
          g_autoptr (TlExitMemory) memory = tl_exit_memory_new (s->program, 4);
          g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (s->store, TL_KV_FP16, 0);
          TlStates *kept = tl_backend_states_new (s->backend, 4, NULL);
          rule.memory = memory;
          rule.fill = fill;
          TlPassRow row = { .sequence = seq, .token = 1, .stop = pause, .slot = 3, .logits = out };
          {
            g_autoptr (TlPass) pass = tl_pass_begin (s->backend, &row, 1, kept, NULL, NULL);
            walk (pass, &rule, 1, &got);
          }
          g_assert_cmpuint (got, ==, MIN (pause, want));
          g_assert_true (tl_exit_memory_is_final (memory, 3) == (want < pause));
          row.depth = fill == TL_EXIT_FILL_FULL ? pause : got;
          row.stop = LOOPS;
          {
            g_autoptr (TlPass) pass = tl_pass_begin (s->backend, &row, 1, kept, NULL, NULL);
            walk (pass, &rule, 1, &got);
          }
          g_assert_cmpuint (got, ==, want);
          g_assert_true (tl_exit_memory_is_final (memory, 3) == (want < LOOPS));
          tl_backend_states_free (s->backend, kept);
        }
}

static void
a_model_without_a_gate_is_refused (Script *s, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TlExitRule by_gate = rule_of ("gate", 1, 1, 1, 0.5f), by_state = rule_of ("hidden-l2", 1, 1, 1, 0.5f);
  float *gate = s->program->weights->exit_gate;
  s->program->weights->exit_gate = NULL;
  g_assert_true (tl_exit_check (&by_state, s->program, &error));
  g_assert_false (tl_exit_check (&by_gate, s->program, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED);
  s->program->weights->exit_gate = gate;
}

int
main (int argc, char **argv)
{
  static const struct { const char *name; void (*test) (Script *, gconstpointer); } tests[] = {
    { "probes-come-when-the-rule-says", probes_come_when_the_rule_says },
    { "a-change-is-that-of-one-loop", a_change_is_that_of_one_loop },
    { "criteria-of-logits", criteria_of_logits },
    { "states-alone-cost-no-head", states_alone_cost_no_head },
    { "the-gate-adds-up-hazards", the_gate_adds_up_hazards },
    { "rows-of-a-prompt-never-exit", rows_of_a_prompt_never_exit },
    { "a-row-that-pauses-is-looked-at-as-if-it-had-not", a_row_that_pauses_is_looked_at_as_if_it_had_not },
    { "a-model-without-a-gate-is-refused", a_model_without_a_gate_is_refused },
  };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      g_autofree char *path = g_strconcat ("/exit/", tests[i].name, NULL);
      g_test_add (path, Script, NULL, set_up, tests[i].test, tear_down);
    }
  return g_test_run ();
}
