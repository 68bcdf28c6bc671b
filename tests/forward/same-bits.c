/* tests/forward/same-bits.c — a row's result depends on nothing but what it sees: chunks, threads, batches, the cache. */
#include "golden.h"

#include <string.h>

static char *
folder (const char *name)
{
  return g_build_filename (g_getenv ("TINYLOOP_TEST_GOLDENS"), name, NULL);
}

/* all logits of the long prompt under these options */
static float *
run_long (Golden *g, TlPassOptions o, guint loops, TlKvMode mode, guint window)
{
  g_autoptr (TlKvStore) store = tl_kv_store_new (g->backend, 0);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, mode, window);
  g_autoptr (GError) error = NULL;
  guint n;
  g_autofree guint32 *ids = golden_prompt (g, "long", &n);
  float *logits = g_new0 (float, (gsize) n * g->program->vocab_size);
  o.loops = loops;
  o.deliver = TL_DELIVER_ALL;
  o.logits = logits;
  tl_pass_run (g->backend, seq, ids, n, &o, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tl_kv_sequence_length (seq), ==, n);
  return logits;
}

static void
chunks_threads_and_cache_change_no_bit (gconstpointer name)
{
  static const guint chunks[] = { 1, 7, 32, 0 };
  static const guint windows[] = { 0, 5 };
  g_autofree char *path = folder (name);
  g_autoptr (GError) error = NULL;
  g_autoptr (Golden) one = golden_open (path, 1, FALSE, &error);
  g_assert_no_error (error);
  g_autoptr (Golden) two = golden_open (path, 2, FALSE, &error);
  g_assert_no_error (error);
  guint loops = MIN (3, one->program->descriptor->loops_max);
  gsize bytes = (gsize) 33 * one->program->vocab_size * sizeof (float);
  for (guint w = 0; w < G_N_ELEMENTS (windows); w++)
    for (TlKvMode mode = TL_KV_FP16; mode < GOLDEN_MODES; mode++)
      {
        TlPassOptions uncached = { .uncached = TRUE };
        g_autofree float *want = run_long (one, uncached, loops, mode, windows[w]);
        for (guint i = 0; i < G_N_ELEMENTS (chunks); i++)
          {
            TlPassOptions o = { .chunk = chunks[i] };
            g_autofree float *a = run_long (one, o, loops, mode, windows[w]);
            g_autofree float *b = run_long (two, o, loops, mode, windows[w]);
            g_assert_cmpmem (a, bytes, want, bytes);
            g_assert_cmpmem (b, bytes, want, bytes);
          }
      }
}

/* two sequences at different depths in one pass give what each gives alone */
static void
a_batch_of_streams_equals_lone_runs (gconstpointer name)
{
  g_autofree char *path = folder (name);
  g_autoptr (GError) error = NULL;
  g_autoptr (Golden) g = golden_open (path, 1, FALSE, &error);
  g_assert_no_error (error);
  g_autoptr (TlKvStore) store = tl_kv_store_new (g->backend, 0);
  guint vocab = g->program->vocab_size, n;
  guint stops[2] = { 1, MIN (3, g->program->descriptor->loops_max) };
  g_autofree guint32 *ids = golden_prompt (g, "short", &n);
  g_autofree float *alone = g_new0 (float, 2 * vocab), *together = g_new0 (float, 2 * vocab);
  TlPassRow rows[2];
  for (guint s = 0; s < 2; s++)
    {
      g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, TL_KV_FP16, 0);
      TlPassOptions o = { .loops = stops[s], .deliver = TL_DELIVER_LAST, .logits = alone + s * vocab };
      tl_pass_run (g->backend, seq, ids + s, n - s, &o, NULL, &error);
      g_assert_no_error (error);
      rows[s] = (TlPassRow) { .sequence = tl_kv_sequence_new (store, TL_KV_FP16, 0), .token = ids[n - 1],
        .position = n - 1 - s, .stop = stops[s], .logits = together + s * vocab };
      o.deliver = TL_DELIVER_NONE;
      tl_pass_run (g->backend, rows[s].sequence, ids + s, n - 1 - s, &o, NULL, &error);
      g_assert_no_error (error);
    }
  g_autofree float *state = g_new0 (float, 2 * g->program->d_model);
  for (guint s = 0; s < 2; s++)
    {
      TlPassOptions o = { 0 };
      if (tl_pass_initial_state (g->program, &o, rows[s].position, state + s * g->program->d_model))
        rows[s].initial_state = state + s * g->program->d_model;
    }
  {
    g_autoptr (TlPass) pass = tl_pass_begin (g->backend, rows, 2, NULL, NULL, &error);
    g_assert_no_error (error);
    g_assert_true (tl_pass_loops (pass, G_MAXUINT, NULL, &error));
    g_assert_true (tl_pass_finish (pass, NULL, &error));
  }
  g_assert_cmpmem (alone, 2 * vocab * sizeof (float), together, 2 * vocab * sizeof (float));
  for (guint s = 0; s < 2; s++)
    tl_kv_sequence_unref (rows[s].sequence);
}

int
main (int argc, char **argv)
{
  static const char *const names[] = { "qwen3", "nanbeige", "huginn" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *a = g_strdup_printf ("/forward/same-bits/%s/chunks-threads-cache", names[i]);
      g_autofree char *b = g_strdup_printf ("/forward/same-bits/%s/streams", names[i]);
      g_test_add_data_func (a, names[i], chunks_threads_and_cache_change_no_bit);
      g_test_add_data_func (b, names[i], a_batch_of_streams_equals_lone_runs);
    }
  return g_test_run ();
}
