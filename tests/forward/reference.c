/* tests/forward/reference.c — the backend against the definition in F64: windows, depths per position, 300 positions,
 * quantised weights; and the same bits from every instruction set, chunk and thread count on those. */
#include "golden.h"

#include <math.h>
#include <string.h>

#define N 300

typedef struct { const char *name, *quantize; guint group; } Model;

static Golden *
open_model (const Model *m, guint threads, gboolean exact)
{
  g_autofree char *path = g_build_filename (g_getenv ("TINYLOOP_TEST_GOLDENS"), m->name, NULL);
  g_autoptr (GError) error = NULL;
  Golden *g = golden_open_quantised (path, m->quantize, m->group, threads, exact, &error);
  g_assert_no_error (error);
  return g;
}

static guint32 *
many_ids (Golden *g)
{
  guint n;
  g_autofree guint32 *ids = golden_prompt (g, "long", &n);
  guint32 *all = g_new (guint32, N);
  for (guint i = 0; i < N; i++)
    all[i] = (ids[i % n] + i / n * 5) % g->program->vocab_size;
  return all;
}

static float *
run (Golden *g, const guint32 *ids, guint n, guint loops, TlKvMode mode, guint window, guint chunk)
{
  g_autoptr (TlKvStore) store = tl_kv_store_new (g->backend, 0);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, mode, window);
  g_autoptr (GError) error = NULL;
  float *logits = g_new0 (float, (gsize) n * g->program->vocab_size);
  TlPassOptions o = { .loops = loops, .zero_state = TRUE, .chunk = chunk, .deliver = TL_DELIVER_ALL, .logits = logits };
  tl_pass_run (g->backend, seq, ids, n, &o, NULL, &error);
  g_assert_no_error (error);
  return logits;
}

static guint
loops_of (Golden *g)
{
  return MIN (3, g->program->descriptor->loops_max);
}

static void
logits_equal_the_definition (gconstpointer data)
{
  static const guint windows[] = { 0, 40 };
  g_autoptr (Golden) g = open_model (data, 1, TRUE);
  g_autofree guint32 *ids = many_ids (g);
  gsize count = (gsize) N * g->program->vocab_size;
  g_autofree float *want = g_new0 (float, count);
  for (guint w = 0; w < G_N_ELEMENTS (windows); w++)
    {
      TlReferenceOptions o = { .loops = loops_of (g), .window = windows[w], .mode = TL_KV_FP32 };
      tl_reference_logits (g->program, ids, N, &o, want);
      g_autofree float *got = run (g, ids, N, o.loops, TL_KV_FP32, windows[w], 64);
      float worst = golden_max_diff (got, want, count);
      g_test_message ("window %u: max |dlogit| = %.2e", windows[w], worst);
      g_assert_cmpfloat (worst, <=, 2e-4);
    }
}

/* root mean square of a - b */
static double
deviation (const float *a, const float *b, gsize n)
{
  double sum = 0;
  for (gsize i = 0; i < n; i++)
    sum += ((double) a[i] - b[i]) * ((double) a[i] - b[i]);
  return sqrt (sum / n);
}

/* A value near a rounding border may fall on the other side in F32; such steps are few, so that what is left is small
 * against what the mode changes. */
static void
stored_modes_equal_their_definitions (gconstpointer data)
{
  static const guint windows[] = { 0, 40 };
  g_autoptr (Golden) g = open_model (data, 1, TRUE);
  g_autofree guint32 *ids = many_ids (g);
  gsize count = (gsize) N * g->program->vocab_size;
  g_autofree float *want = g_new0 (float, count), *exact = g_new0 (float, count);
  for (TlKvMode mode = TL_KV_INT8; mode < GOLDEN_MODES; mode++)
    for (guint w = 0; w < G_N_ELEMENTS (windows); w++)
      {
        TlReferenceOptions o = { .loops = loops_of (g), .window = windows[w], .mode = TL_KV_FP32 };
        tl_reference_logits (g->program, ids, N, &o, exact);
        o.mode = mode;
        tl_reference_logits (g->program, ids, N, &o, want);
        g_autofree float *got = run (g, ids, N, o.loops, mode, windows[w], 64);
        double error = deviation (got, want, count), effect = deviation (exact, want, count);
        g_test_message ("%s, window %u: %.2e from its definition, which lies %.2e from fp32", tl_kv_mode_name (mode), windows[w],
          error, effect);
        g_assert_cmpfloat (error, <=, effect / 4);
      }
}

/* positions at depths 1, 2, 3, 1, … in one pass: each reads plane min (d, e) of those before it */
static void
mixed_depths_follow_the_min_rule (gconstpointer data)
{
  g_autoptr (Golden) g = open_model (data, 1, TRUE);
  g_autoptr (TlKvStore) store = tl_kv_store_new (g->backend, 0);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, TL_KV_FP32, 0);
  g_autoptr (GError) error = NULL;
  guint n = 50, vocab = g->program->vocab_size, top = loops_of (g), depths[50];
  g_autofree guint32 *ids = many_ids (g);
  g_autofree float *want = g_new0 (float, n * vocab), *got = g_new0 (float, n * vocab);
  g_autofree TlPassRow *rows = g_new0 (TlPassRow, n);
  for (guint i = 0; i < n; i++)
    {
      depths[i] = 1 + i % top;
      rows[i] = (TlPassRow) { .sequence = seq, .position = i, .token = ids[i], .stop = depths[i],
        .logits = got + (gsize) i * vocab };
    }
  TlReferenceOptions o = { .loops = top, .depths = depths, .mode = TL_KV_FP32 };
  tl_reference_logits (g->program, ids, n, &o, want);
  for (guint part = 0; part < 2; part++)
    {
      g_autoptr (TlPass) pass = tl_pass_begin (g->backend, rows + part * 25, 25, NULL, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (tl_pass_loops (pass, G_MAXUINT, NULL, &error));
      g_assert_true (tl_pass_finish (pass, NULL, &error));
    }
  g_assert_cmpfloat (golden_max_diff (got, want, n * vocab), <=, 2e-4);
}

static void
every_way_of_computing_gives_the_same_bits (gconstpointer data)
{
  static const char *const sets[] = { "scalar", "avx2", "avx512", "vnni", "amx" };
  g_autoptr (Golden) g = open_model (data, 1, FALSE);
  g_autofree guint32 *ids = many_ids (g);
  gsize bytes = (gsize) N * g->program->vocab_size * sizeof (float);
  g_autofree float *want = run (g, ids, N, loops_of (g), TL_KV_FP16, 0, 128);
  static const guint chunks[] = { 1, 7, 16, 33, N };
  g_autoptr (Golden) two = open_model (data, 2, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (chunks); i++)
    {
      g_autofree float *got = run (i % 2 ? two : g, ids, N, loops_of (g), TL_KV_FP16, 0, chunks[i]);
      g_assert_cmpmem (got, bytes, want, bytes);
    }
  for (guint i = 0; i < G_N_ELEMENTS (sets); i++)
    {
      if (!tl_isa_present ((TlIsa) i))
        continue;
      g_setenv ("TINYLOOP_CPU", sets[i], TRUE);
      g_autoptr (Golden) other = open_model (data, 2, FALSE);
      g_unsetenv ("TINYLOOP_CPU");
      g_autofree float *got = run (other, ids, N, loops_of (g), TL_KV_FP16, 0, 0);
      g_assert_cmpmem (got, bytes, want, bytes);
    }
}

int
main (int argc, char **argv)
{
  static const Model models[] = {
    { "qwen3", "none", 0 }, { "nanbeige", "none", 0 }, { "huginn", "none", 0 },
    { "qwen3", "int8", 32 }, { "nanbeige", "int4", 32 }, { "nanbeige", "int8", 0 }, { "qwen3", "int4", 64 },
  };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      const Model *m = &models[i];
      g_autofree char *base = g_strdup_printf ("/forward/reference/%s-%s-%u", m->name, m->quantize, m->group);
      g_autofree char *a = g_strconcat (base, "/logits", NULL), *b = g_strconcat (base, "/depths", NULL);
      g_autofree char *c = g_strconcat (base, "/bits", NULL);
      g_test_add_data_func (a, m, logits_equal_the_definition);
      g_autofree char *d = g_strconcat (base, "/modes", NULL);
      g_test_add_data_func (d, m, stored_modes_equal_their_definitions);
      g_test_add_data_func (b, m, mixed_depths_follow_the_min_rule);
      g_test_add_data_func (c, m, every_way_of_computing_gives_the_same_bits);
    }
  return g_test_run ();
}
