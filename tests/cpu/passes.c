/* tests/cpu/passes.c — how the CPU backend walks a pass: barriers of a block, one attention's splits among workers, where the
 * weights lie. */
#include <glib/gstdio.h>
#include <string.h>

#include "cache/tl-pass.h"
#include "cpu/tl-backend-cpu.h"
#include "cpu/tl-packed.h"
#include "cpu/tl-pool.h"
#include "tiny-model.h"

static const TinyModel model = { "int4", TL_INT4, TL_OFFSET_NONE, TL_F16, 32, 96, 18, 6, 3, 160, 48, 1024 };

/* norms, injection and biases as in the other tests, or a loop of nothing but `blocks` blocks */
static TlProgram *
program_new (guint blocks)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlDescriptor) d = tiny_model_descriptor (&model);
  if (blocks)
    {
      d->n_blocks[TL_STACK_LOOP] = blocks;
      d->inject = TL_INJECT_NONE;
      d->norm_loop_end = TL_NORM_REF_NONE;
    }
  g_autofree char *path = tiny_model_write_descriptor (&model, d);
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (path, &error);
  g_assert_no_error (error);
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, &error);
  g_assert_no_error (error);
  TlProgram *program = tl_program_new (weights, &error);
  g_assert_no_error (error);
  g_unlink (path);
  return program;
}

static TlBackend *
backend_new (TlProgram *program, guint threads)
{
  g_autoptr (GError) error = NULL;
  TlBackendOptions options = { .threads = threads };
  TlBackend *backend = tl_backend_prepare (tl_backend_cpu_class (), program, &options, &error);
  g_assert_no_error (error);
  return backend;
}

/* n more tokens; logits of the last: [vocab_size] */
static void
run_tokens (TlBackend *backend, TlKvSequence *sequence, guint n, guint loops, float *logits)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint32 *ids = g_new (guint32, n);
  for (guint i = 0; i < n; i++)
    ids[i] = tiny_model_id (&model, tl_kv_sequence_length (sequence) + i);
  TlPassOptions options = { .loops = loops, .deliver = TL_DELIVER_LAST, .logits = logits };
  tl_pass_run (backend, sequence, ids, n, &options, NULL, &error);
  g_assert_no_error (error);
}

static guint
meetings_of_a_token (TlBackend *backend, TlKvSequence *sequence, guint loops)
{
  float logits[48];
  guint before = tl_pool_meetings (tl_pool_get ());
  run_tokens (backend, sequence, 1, loops, logits);
  return tl_pool_meetings (tl_pool_get ()) - before;
}

static void
a_block_needs_five_barriers (gconstpointer data)
{
  guint blocks = GPOINTER_TO_UINT (data);
  TlProgram *program = program_new (blocks);
  TlBackend *backend = backend_new (program, 2);
  g_autoptr (TlKvStore) store = tl_kv_store_new (backend, 0);
  g_autoptr (TlKvSequence) sequence = tl_kv_sequence_new (store, TL_KV_FP16, 0);
  guint one = meetings_of_a_token (backend, sequence, 1), three = meetings_of_a_token (backend, sequence, 3);
  g_assert_cmpuint (one, >, 0);
  g_assert_cmpuint (three - one, >=, 2 * blocks);       /* they are counted at all */
  g_assert_cmpuint (three - one, <=, 2 * 5 * blocks);
  g_clear_pointer (&sequence, tl_kv_sequence_unref);
  g_clear_pointer (&store, tl_kv_store_unref);
  tl_backend_free (backend);
  tl_program_unref (program);
}

/* contexts of one, two and five splits, decoded one by one across their borders; window: the first splits are not seen */
static void
splits_among_workers_change_no_bit (gconstpointer data)
{
  static const guint lengths[] = { 250, 510, 1015 };
  guint window = GPOINTER_TO_UINT (data), n_steps = 8;
  TlProgram *program = program_new (0);
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      float want[8][48], got[8][48];
      for (guint threads = 1; threads <= 4; threads++)
        {
          TlBackend *backend = backend_new (program, threads);
          TlKvStore *store = tl_kv_store_new (backend, 0);
          TlKvSequence *sequence = tl_kv_sequence_new (store, TL_KV_FP16, window);
          run_tokens (backend, sequence, lengths[i], 2, got[0]);
          for (guint step = 0; step < n_steps; step++)
            run_tokens (backend, sequence, 1, 2, got[step]);
          if (threads == 1)
            memcpy (want, got, sizeof want);
          g_assert_cmpmem (got, sizeof got, want, sizeof want);
          tl_kv_sequence_unref (sequence);
          tl_kv_store_unref (store);
          tl_backend_free (backend);
        }
    }
  tl_program_unref (program);
}

static void
huge_page_figure_is_at_most_the_weights (void)
{
  TlProgram *program = program_new (0);
  TlBackend *backend = backend_new (program, 2);
  g_autofree char *info = backend->klass->device_info (backend);
  g_autoptr (GRegex) regex = g_regex_new ("^cpu, \\w+ kernels, 2 threads, (\\d+) of (\\d+) bytes of weights in huge pages$", 0, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  g_assert_true (g_regex_match (regex, info, 0, &match));
  g_autofree char *huge = g_match_info_fetch (match, 1), *all = g_match_info_fetch (match, 2);
  guint64 huge_bytes = g_ascii_strtoull (huge, NULL, 10), bytes = g_ascii_strtoull (all, NULL, 10);
  g_assert_cmpuint (bytes, >, 0);
  g_assert_cmpuint (huge_bytes, <=, bytes);
  g_assert_cmpuint (bytes, <=, backend->klass->weights_bytes (backend));
  tl_backend_free (backend);
  tl_program_unref (program);
}

/* three huge pages, written: all, some or none are huge, and memory that is no one's has none */
static void
huge_pages_are_counted_whole (void)
{
  const gsize page = 2u << 20, size = 3 * page;
  guint8 *memory = tl_packed_memory_new (size);
  g_assert_cmpuint (tl_packed_memory_huge_bytes (memory, size), ==, 0); /* nothing touched yet */
  memset (memory, 1, size);
  gsize huge = tl_packed_memory_huge_bytes (memory, size);
  g_test_message ("%" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes", huge, size);
  g_assert_cmpuint (huge, <=, size);
  g_assert_cmpuint (huge % page, ==, 0);
  tl_packed_memory_free (memory, size);
  g_assert_cmpuint (tl_packed_memory_huge_bytes (memory, size), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/passes/barriers/one-block", GUINT_TO_POINTER (1), a_block_needs_five_barriers);
  g_test_add_data_func ("/passes/barriers/three-blocks", GUINT_TO_POINTER (3), a_block_needs_five_barriers);
  g_test_add_data_func ("/passes/splits/all-seen", GUINT_TO_POINTER (0), splits_among_workers_change_no_bit);
  g_test_add_data_func ("/passes/splits/window", GUINT_TO_POINTER (300), splits_among_workers_change_no_bit);
  g_test_add_func ("/passes/huge-pages", huge_page_figure_is_at_most_the_weights);
  g_test_add_func ("/passes/huge-pages-whole", huge_pages_are_counted_whole);
  return g_test_run ();
}
