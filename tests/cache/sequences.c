/* tests/cache/sequences.c — forks, truncation, exits, going deeper, windows and limits change no result they should not. */
#include "golden.h"

#include <string.h>

typedef struct
{
  Golden *g;
  TlKvStore *store;
  guint32 *ids;
  guint n, vocab, loops;
} Fixture;

static void
set_up (Fixture *f, gconstpointer name)
{
  g_autofree char *path = g_build_filename (g_getenv ("TINYLOOP_TEST_GOLDENS"), name, NULL);
  g_autoptr (GError) error = NULL;
  f->g = golden_open (path, 1, FALSE, &error);
  g_assert_no_error (error);
  f->store = tl_kv_store_new (f->g->backend, 0);
  f->ids = golden_prompt (f->g, "long", &f->n);
  f->vocab = f->g->program->vocab_size;
  f->loops = MIN (4, f->g->program->descriptor->loops_max);
}

static void
tear_down (Fixture *f, gconstpointer name)
{
  g_assert_cmpuint (tl_kv_store_used_bytes (f->store), ==, 0);
  tl_kv_store_unref (f->store);
  golden_close (f->g);
  g_free (f->ids);
}

static void
feed (Fixture *f, TlKvSequence *seq, const guint32 *ids, guint n, guint loops, float *last)
{
  g_autoptr (GError) error = NULL;
  TlPassOptions o = { .loops = loops, .deliver = TL_DELIVER_LAST, .logits = last };
  tl_pass_run (f->g->backend, seq, ids, n, &o, NULL, &error);
  g_assert_no_error (error);
}

static void
assert_same (Fixture *f, const float *a, const float *b)
{
  g_assert_cmpmem (a, f->vocab * sizeof (float), b, f->vocab * sizeof (float));
}

static void
a_fork_and_its_parent_do_not_disturb_each_other (Fixture *f, gconstpointer name)
{
  g_autofree float *want = g_new0 (float, f->vocab), *got = g_new0 (float, f->vocab);
  g_autoptr (TlKvSequence) lone = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  feed (f, lone, f->ids, f->n, f->loops, want);

  g_autoptr (TlKvSequence) parent = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  feed (f, parent, f->ids, 20, f->loops, NULL);
  gsize before = tl_kv_store_used_bytes (f->store);
  g_autoptr (TlKvSequence) fork = tl_kv_sequence_fork (parent);
  g_assert_cmpuint (tl_kv_store_used_bytes (f->store), ==, before);
  feed (f, fork, f->ids, 13, f->loops, got);            /* other tokens in the place of the parent's */
  feed (f, parent, f->ids + 20, f->n - 20, f->loops, got);
  assert_same (f, got, want);
}

static void
a_truncated_sequence_goes_on_as_if_never_longer (Fixture *f, gconstpointer name)
{
  g_autofree float *want = g_new0 (float, f->vocab), *got = g_new0 (float, f->vocab);
  g_autoptr (TlKvSequence) lone = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  feed (f, lone, f->ids, f->n, f->loops, want);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  feed (f, seq, f->ids, 12, f->loops, NULL);
  feed (f, seq, f->ids + 3, 25, f->loops, NULL);
  tl_kv_sequence_truncate (seq, 12);
  g_assert_cmpuint (tl_kv_sequence_length (seq), ==, 12);
  feed (f, seq, f->ids + 12, f->n - 12, f->loops, got);
  assert_same (f, got, want);
}

/* kept states at depth 1, then deeper: the same as having run all loops at once */
static void
rows_resumed_deeper_equal_rows_run_deep (Fixture *f, gconstpointer name)
{
  g_autofree float *want = g_new0 (float, f->vocab), *got = g_new0 (float, f->vocab);
  g_autoptr (TlKvSequence) lone = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  g_autoptr (GError) error = NULL;
  feed (f, lone, f->ids, f->n, f->loops, want);

  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  TlStates *states = tl_backend_states_new (f->g->backend, f->n, &error);
  TlPassOptions o = { .loops = 1, .keep_states = states };
  tl_pass_run (f->g->backend, seq, f->ids, f->n, &o, NULL, &error);
  g_assert_no_error (error);
  g_autofree TlPassRow *rows = g_new0 (TlPassRow, f->n);
  for (guint i = 0; i < f->n; i++)
    rows[i] = (TlPassRow) { .sequence = seq, .position = i, .token = f->ids[i], .depth = 1, .stop = f->loops,
      .slot = i, .logits = i + 1 == f->n ? got : NULL };
  {
    g_autoptr (TlPass) pass = tl_pass_begin (f->g->backend, rows, f->n, states, NULL, &error);
    g_assert_no_error (error);
    g_assert_true (tl_pass_loops (pass, 1, NULL, &error));
    g_assert_true (tl_pass_loops (pass, G_MAXUINT, NULL, &error));
    g_assert_true (tl_pass_finish (pass, NULL, &error));
  }
  assert_same (f, got, want);
  g_assert_cmpuint (tl_kv_sequence_depth (seq, 0), ==, f->loops);
  tl_backend_states_free (f->g->backend, states);
}

/* An exit at depth 1 leaves copies: the deeper planes of that position hold what plane 0 holds, whether the deeper groups
 * existed when the row stopped or came later. */
static void
a_row_that_stopped_early_is_read_at_its_own_depth (Fixture *f, gconstpointer name)
{
  g_autofree float *a = g_new0 (float, f->vocab), *b = g_new0 (float, f->vocab);
  g_autoptr (GError) error = NULL;
  g_autoptr (TlKvSequence) before = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  g_autoptr (TlKvSequence) after = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  feed (f, before, f->ids, 5, 1, NULL);
  feed (f, before, f->ids + 5, 6, f->loops, a);

  feed (f, after, f->ids, 1, 1, NULL);
  /* deep groups exist from here on: stop the next rows early, one by one */
  g_assert_true (tl_kv_sequence_reserve (after, 1, 2, f->loops, &error));
  for (guint i = 1; i < 5; i++)
    {
      TlPassRow row = { .sequence = after, .position = i, .token = f->ids[i], .stop = f->loops };
      g_autofree float *state = g_new0 (float, f->g->program->d_model);
      TlPassOptions o = { 0 };
      if (tl_pass_initial_state (f->g->program, &o, i, state))
        row.initial_state = state;
      g_autoptr (TlPass) pass = tl_pass_begin (f->g->backend, &row, 1, NULL, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (tl_pass_loops (pass, 1, NULL, &error));
      g_assert_true (tl_pass_peek (pass, 0, b, NULL, &error));
      tl_pass_stop_row (pass, 0);
      g_assert_true (tl_pass_finish (pass, NULL, &error));
    }
  g_assert_cmpuint (tl_kv_sequence_depth (after, 3), ==, 1);
  feed (f, after, f->ids + 5, 6, f->loops, b);
  assert_same (f, a, b);
}

static void
pages_outside_the_window_are_freed (Fixture *f, gconstpointer name)
{
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (f->store, TL_KV_FP16, 8);
  guint n = 300 / f->n + 1, first = n * f->n + 1 - 8 - TL_KV_ROLLBACK;
  for (guint i = 0; i < n; i++)
    feed (f, seq, f->ids, f->n, f->loops, NULL);
  g_assert_cmpuint (tl_kv_sequence_length (seq), ==, n * f->n);
  g_assert_cmpuint (tl_kv_sequence_start (seq), ==, first / 32 * 32);
  g_assert_cmpuint (tl_kv_store_used_bytes (f->store), <=,
    tl_kv_store_estimate (f->store, 8 + TL_KV_ROLLBACK + 2 * 32, f->loops, TL_KV_FP16));
}

/* rows that are taken back under a window: those that come in their place see what they would have seen */
static void
a_windowed_sequence_can_be_truncated (Fixture *f, gconstpointer name)
{
  g_autofree float *want = g_new0 (float, f->vocab), *got = g_new0 (float, f->vocab);
  for (guint length = 30; length < 34; length++)
    for (guint taken = 1; taken <= TL_KV_ROLLBACK; taken += 21)
      {
        g_autoptr (TlKvSequence) lone = tl_kv_sequence_new (f->store, TL_KV_FP16, 8);
        for (guint i = 0; i < length; i++)
          feed (f, lone, f->ids + i % f->n, 1, f->loops, NULL);
        g_autoptr (TlKvSequence) seq = tl_kv_sequence_fork (lone);
        feed (f, lone, f->ids, 1, f->loops, want);
        for (guint i = 0; i < taken; i++)
          feed (f, seq, f->ids + 1 + i % (f->n - 1), 1, f->loops, NULL);
        tl_kv_sequence_truncate (seq, length);
        g_assert_cmpuint (tl_kv_sequence_length (seq), ==, length);
        feed (f, seq, f->ids, 1, f->loops, got);
        assert_same (f, got, want);
      }
}

static void
what_a_window_has_let_go_is_not_truncated_to (Fixture *f, gconstpointer name)
{
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (f->store, TL_KV_FP16, 8);
  for (guint i = 0; i < 10; i++)
    feed (f, seq, f->ids, f->n, f->loops, NULL);
  g_assert_cmpuint (tl_kv_sequence_start (seq), >, 12);
  tl_kv_sequence_truncate (seq, 20);
  g_assert_cmpuint (tl_kv_sequence_length (seq), ==, 0);
  g_assert_cmpuint (tl_kv_store_used_bytes (f->store), ==, 0);
}

static void
a_window_may_change_while_nothing_is_hidden (Fixture *f, gconstpointer name)
{
  g_autofree float *want = g_new0 (float, f->vocab), *got = g_new0 (float, f->vocab);
  g_autoptr (TlKvSequence) lone = tl_kv_sequence_new (f->store, TL_KV_FP16, 8);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  feed (f, lone, f->ids, 16, f->loops, want);
  feed (f, seq, f->ids, 8, f->loops, got);
  g_assert_false (tl_kv_sequence_set_window (seq, 7));
  g_assert_true (tl_kv_sequence_set_window (seq, 8));
  feed (f, seq, f->ids + 8, 8, f->loops, got);
  assert_same (f, got, want);
  g_assert_false (tl_kv_sequence_set_window (seq, 0));
}

static void
a_full_store_says_what_is_missing_and_keeps_the_sequence (Fixture *f, gconstpointer name)
{
  gsize page = tl_kv_store_estimate (f->store, 1, f->loops, TL_KV_FP16);
  g_autoptr (TlKvStore) small = tl_kv_store_new (f->g->backend, page);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (small, TL_KV_FP16, 0);
  g_autoptr (GError) error = NULL;
  TlPassOptions o = { .loops = f->loops };
  g_assert_true (tl_pass_run (f->g->backend, seq, f->ids, 10, &o, NULL, &error));
  g_assert_false (tl_pass_run (f->g->backend, seq, f->ids, f->n, &o, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_NO_MEMORY);
  g_autofree char *needed = g_strdup_printf ("%" G_GSIZE_FORMAT " bytes more but 0 of", page);
  g_assert_nonnull (strstr (error->message, needed));
  g_assert_cmpuint (tl_kv_sequence_length (seq), ==, 10);
  g_assert_cmpuint (tl_kv_store_used_bytes (small), ==, page);
}

static void
a_cancelled_pass_leaves_the_sequence_as_it_was (Fixture *f, gconstpointer name)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  g_autofree float *want = g_new0 (float, f->vocab), *got = g_new0 (float, f->vocab);
  g_autoptr (GError) error = NULL;
  TlPassOptions o = { .loops = f->loops };
  g_cancellable_cancel (cancellable);
  g_assert_false (tl_pass_run (f->g->backend, seq, f->ids, f->n, &o, cancellable, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_CANCELLED);
  g_assert_cmpuint (tl_kv_sequence_length (seq), ==, 0);
  g_assert_cmpuint (tl_kv_store_used_bytes (f->store), ==, 0);
  feed (f, seq, f->ids, 3, f->loops, got);
  g_autoptr (TlKvSequence) lone = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  feed (f, lone, f->ids, 3, f->loops, want);
  assert_same (f, got, want);
}

static void
bad_rows_are_refused (Fixture *f, gconstpointer name)
{
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (f->store, TL_KV_FP16, 0);
  g_autoptr (TlKvSequence) odd = tl_kv_sequence_new (f->store, TL_KV_INT4, 0);
  g_autoptr (GError) error = NULL;
  TlPassOptions o = { .loops = 1 };
  guint32 outside = f->vocab;
  g_assert_false (tl_pass_run (f->g->backend, seq, &outside, 1, &o, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (tl_pass_run (f->g->backend, seq, f->ids, 0, &o, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (tl_pass_run (f->g->backend, odd, f->ids, 1, &o, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED);
  g_clear_error (&error);
  o.loops = 1000;
  g_assert_false (tl_pass_run (f->g->backend, seq, f->ids, 1, &o, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
}

int
main (int argc, char **argv)
{
  static const char *const models[] = { "nanbeige", "huginn" };
  static const struct { const char *name; void (*test) (Fixture *, gconstpointer); } tests[] = {
    { "fork", a_fork_and_its_parent_do_not_disturb_each_other },
    { "truncate", a_truncated_sequence_goes_on_as_if_never_longer },
    { "resume", rows_resumed_deeper_equal_rows_run_deep },
    { "early-exit", a_row_that_stopped_early_is_read_at_its_own_depth },
    { "window", pages_outside_the_window_are_freed },
    { "window-truncate", a_windowed_sequence_can_be_truncated },
    { "window-lost", what_a_window_has_let_go_is_not_truncated_to },
    { "window-change", a_window_may_change_while_nothing_is_hidden },
    { "limit", a_full_store_says_what_is_missing_and_keeps_the_sequence },
    { "cancel", a_cancelled_pass_leaves_the_sequence_as_it_was },
    { "refused", bad_rows_are_refused },
  };
  g_test_init (&argc, &argv, NULL);
  for (guint m = 0; m < G_N_ELEMENTS (models); m++)
    for (guint t = 0; t < G_N_ELEMENTS (tests); t++)
      {
        g_autofree char *path = g_strdup_printf ("/cache/sequences/%s/%s", models[m], tests[t].name);
        g_test_add (path, Fixture, models[m], set_up, tests[t].test, tear_down);
      }
  return g_test_run ();
}
