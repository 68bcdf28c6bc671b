/* tests/cpu/vector.c — norms, activations, rotation, quantisation and attention: the same bits on every instruction set,
 * and the values of their definitions in F64. */
#include "matrices.h"

#include <math.h>

#include "forward/tl-math.h"

#define N 700

static void
random_values (GRand *rand, float *x, guint n, double range)
{
  for (guint i = 0; i < n; i++)
    x[i] = g_rand_double_range (rand, -range, range);
}

static void
test_element_work_is_the_same_bits (void)
{
  static const guint counts[] = { 1, 7, 15, 16, 17, 33, 64, 96, 577, N };
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  const TlKernels *ref = tl_kernels_for (TL_ISA_SCALAR);
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    for (guint isa = TL_ISA_AVX2; isa < TL_N_ISA; isa++)
      {
        const TlKernels *k = tl_kernels_for (isa);
        if (!k)
          continue;
        guint n = counts[i];
        float x[N], y[N], w[N], a[N], b[N];
        random_values (rand, x, n, 12);
        random_values (rand, y, n, 3);
        random_values (rand, w, n, 2);
        x[n / 2] = -95;                 /* exponentials that vanish */
#define SAME(call_ref, call_k) { \
          memcpy (a, x, sizeof a); memcpy (b, x, sizeof b); call_ref; call_k; g_assert_cmpmem (a, n * 4, b, n * 4); }
        SAME (ref->rms_norm (x, w, n, 1e-5f, a), k->rms_norm (x, w, n, 1e-5f, b));
        SAME (ref->rms_norm (x, NULL, n, 1e-5f, a), k->rms_norm (x, NULL, n, 1e-5f, b));
        SAME (ref->layer_norm (x, w, y, n, 1e-5f, a), k->layer_norm (x, w, y, n, 1e-5f, b));
        SAME (ref->add (a, y, n), k->add (b, y, n));
        SAME (ref->swiglu (x, y, n, a), k->swiglu (x, y, n, b));
        SAME (ref->geglu_tanh (x, y, n, a), k->geglu_tanh (x, y, n, b));
        SAME (ref->gelu_erf (x, n, a), k->gelu_erf (x, n, b));
        SAME (ref->gelu_tanh (x, n, a), k->gelu_tanh (x, n, b));
        SAME (ref->relu2 (x, n, 0.5f, a), k->relu2 (x, n, 0.5f, b));
        SAME (ref->softcap (a, n, 30), k->softcap (b, n, 30));
        SAME (ref->rope (a, w, y, n & ~1u, FALSE), k->rope (b, w, y, n & ~1u, FALSE));
        SAME (ref->rope (a, w, y, n & ~1u, TRUE), k->rope (b, w, y, n & ~1u, TRUE));
        SAME (ref->to_half (x, n, (guint16 *) a), k->to_half (x, n, (guint16 *) b));
        g_assert_cmpuint (ref->argmax (x, n), ==, k->argmax (x, n));

        gint8 q[2][N];
        float scale[2][N];
        gint32 sum[2][N];
        memset (q, 0, sizeof q);
        for (guint group = 32; group <= 128; group *= 2)
          {
            g_assert_true (ref->quantise_row (x, n, group, q[0], scale[0], sum[0]));
            g_assert_true (k->quantise_row (x, n, group, q[1], scale[1], sum[1]));
            g_assert_cmpmem (q[0], n, q[1], n);
            g_assert_cmpmem (scale[0], (n + group - 1) / group * 4, scale[1], (n + group - 1) / group * 4);
            g_assert_cmpmem (sum[0], (n + group - 1) / group * 4, sum[1], (n + group - 1) / group * 4);
          }
      }
}

static void
test_quantised_rows_follow_the_rule (void)
{
  for (guint isa = 0; isa < TL_N_ISA; isa++)
    {
      const TlKernels *k = tl_kernels_for (isa);
      if (!k)
        continue;
      float x[96], scale[3];
      gint8 q[96];
      gint32 sum[3];
      g_autoptr (GRand) rand = g_rand_new_with_seed (2);
      random_values (rand, x, 96, 5);
      memset (x + 32, 0, 32 * 4);
      for (guint i = 64; i < 96; i++)
        x[i] = 1e-41f;                  /* 127 / a overflows */
      g_assert_true (k->quantise_row (x, 96, 32, q, scale, sum));
      float a = 0;
      int total = 0;
      for (guint i = 0; i < 32; i++)
        a = fmaxf (a, fabsf (x[i]));
      for (guint i = 0; i < 32; i++)
        {
          g_assert_cmpint (q[i], ==, (int) rintf (x[i] * (127.0f / a)));
          total += q[i];
        }
      g_assert_cmpint (sum[0], ==, total);
      g_assert_cmpfloat (scale[0], ==, a / 127.0f);
      g_assert_true (q[40] == 0 && sum[1] == 0 && scale[1] == 0 && q[70] == 0 && sum[2] == 0);

      const float bad[] = { NAN, INFINITY, -INFINITY };
      for (guint i = 0; i < 3; i++)
        {
          x[77] = bad[i];
          g_assert_false (k->quantise_row (x, 96, 32, q, scale, sum));
        }
    }
}

static void
test_norm_is_the_definition (void)
{
  float x[100], w[100], out[100];
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  random_values (rand, x, 100, 4);
  random_values (rand, w, 100, 4);
  double squares = 0;
  for (guint i = 0; i < 100; i++)
    squares += (double) x[i] * x[i];
  tl_kernels_for (TL_ISA_SCALAR)->rms_norm (x, w, 100, 1e-6f, out);
  for (guint i = 0; i < 100; i++)
    g_assert_cmpfloat_with_epsilon (out[i], x[i] * w[i] / sqrt (squares / 100 + 1e-6), 1e-5);
}

static void
test_argmax_prefers_the_lowest_index (void)
{
  for (guint isa = 0; isa < TL_N_ISA; isa++)
    if (tl_kernels_for (isa))
      {
        float x[50] = { 0 };
        x[20] = x[41] = 3;
        x[5] = NAN;
        g_assert_cmpuint (tl_kernels_for (isa)->argmax (x, 50), ==, 20);
      }
}

/* --- stored rows --- */

#define PAGES 32

/* K and V of one kv head, in pages as a mode keeps them, and in F32 as they are read: open [positions][dim] where a row stands
 * in its own page, else closed */
typedef struct
{
  TlKvMode mode;
  guint dim, positions;
  TlKvLayout open_layout, closed_layout;
  gpointer open[PAGES], closed[PAGES];
  float *values[2], *closed_values[2];
} Cache;

static float
half_of (float x)
{
  return tl_f16_to_f32 (tl_f32_to_f16_saturate (x));
}

/* n values that lie `step` apart, as `form` gives them back */
static void
round_trip (TlTileForm form, const float *x, guint n, guint step, float *out)
{
  float least = INFINITY, most = -INFINITY;
  for (guint i = 0; i < n; i++)
    {
      least = fminf (least, x[i * step]);
      most = fmaxf (most, x[i * step]);
    }
  float eighth = half_of (fmaxf (most, -least) / 127), quarter = half_of ((most - least) / 15);
  least = half_of (least);
  for (guint i = 0; i < n; i++)
    {
      float v = x[i * step];
      if (form == TL_TILE_F16)
        v = half_of (v);
      else if (form == TL_TILE_INT8)
        v = eighth == 0 ? 0 : eighth * fmaxf (-127, fminf (127, rintf (v / eighth))) + 0.0f;
      else if (form != TL_TILE_F32)
        v = fmaf (quarter, quarter == 0 ? 0 : fmaxf (0, fminf (15, rintf ((v - least) / quarter))), least);
      out[i * step] = v;
    }
}

/* a page's rows by the rule */
static void
rule (const TlTile *t, const float *x, float *out)
{
  for (guint c = 0; t->form == TL_TILE_INT4_COLUMNS && c < t->dim; c++)
    round_trip (t->form, x + c, TL_PAGE_POSITIONS, t->dim, out + c);
  for (guint r = 0; t->form != TL_TILE_INT4_COLUMNS && r < TL_PAGE_POSITIONS; r++)
    for (guint c = 0; c < t->dim; c += t->group)
      round_trip (t->form, x + r * t->dim + c, MIN (t->group, t->dim - c), 1, out + r * t->dim + c);
}

/* rows as the kernels write and read them: the same bytes on every set, the values of the rule */
static void
store_page (const TlTile *t, const float *x, guint8 *tile, float *out)
{
  g_autofree float *want = g_new (float, TL_PAGE_POSITIONS * t->dim);
  rule (t, x, want);
  for (guint isa = 0; isa < TL_N_ISA; isa++)
    if (tl_kernels_for (isa))
      {
        const TlKernels *k = tl_kernels_for (isa);
        g_autofree guint8 *mine = g_malloc0 (t->bytes);
        g_autofree guint16 *half = g_new (guint16, TL_PAGE_POSITIONS * t->dim);
        gboolean closed = t->form == TL_TILE_INT4_ROWS || t->form == TL_TILE_INT4_COLUMNS;
        for (guint i = 0; i < TL_PAGE_POSITIONS * t->dim; i++)
          half[i] = tl_f32_to_f16 (x[i]);
        if (closed)
          k->close_tile (t, half, mine);
        for (guint r = 0; !closed && r < TL_PAGE_POSITIONS; r++)
          k->encode_row (t, mine, r, x + r * t->dim);
        if (isa == TL_ISA_SCALAR)
          memcpy (tile, mine, t->bytes);
        g_assert_cmpmem (mine, t->bytes, tile, t->bytes);
        for (guint r = 0; r < TL_PAGE_POSITIONS; r++)
          k->decode_row (t, tile, r, out + r * t->dim);
        g_assert_cmpmem (out, TL_PAGE_POSITIONS * t->dim * 4, want, TL_PAGE_POSITIONS * t->dim * 4);
      }
}

static Cache
cache_new (GRand *rand, guint dim, guint positions, TlKvMode mode)
{
  Cache c = { .mode = mode, .dim = dim, .positions = positions,
    .open_layout = tl_kv_layout_of_dims (tl_kv_open_mode (mode), 1, dim, dim),
    .closed_layout = tl_kv_layout_of_dims (mode, 1, dim, dim) };
  gsize page = TL_PAGE_POSITIONS * dim, n = (positions + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS;
  g_autofree float *x = g_new (float, page);
  for (guint kind = 0; kind < 2; kind++)
    {
      c.values[kind] = g_new (float, n * page);
      c.closed_values[kind] = g_new (float, n * page);
      for (guint s = 0; s < n; s++)
        {
          random_values (rand, x, page, 1);
          memset (x, 0, dim * (s % 2) * sizeof (float));        /* a row of zeros */
          if (kind == 0)
            c.open[s] = g_malloc0 (c.open_layout.plane_bytes), c.closed[s] = g_malloc0 (c.closed_layout.plane_bytes);
          store_page (&c.open_layout.tile[kind], x, (guint8 *) c.open[s] + c.open_layout.at[kind], c.values[kind] + s * page);
          store_page (&c.closed_layout.tile[kind], c.values[kind] + s * page, (guint8 *) c.closed[s] + c.closed_layout.at[kind],
            c.closed_values[kind] + s * page);
        }
    }
  return c;
}

static void
cache_clear (Cache *c)
{
  for (guint i = 0; i < PAGES; i++)
    {
      g_free (c->open[i]);
      g_free (c->closed[i]);
    }
  for (guint kind = 0; kind < 2; kind++)
    {
      g_free (c->values[kind]);
      g_free (c->closed_values[kind]);
    }
}

static TlAttendPages
pages_of (const TlKvLayout *l, gpointer const *pages)
{
  return (TlAttendPages) { pages, l->tile[0], l->tile[1], l->at[0], l->at[1] };
}

static void
test_stored_rows_keep_what_is_no_number (void)
{
  const TlKernels *k = tl_kernels_for (TL_ISA_SCALAR);
  float x[TL_PAGE_POSITIONS * 24], out[24];
  for (TlKvMode mode = 0; mode <= TL_KV_INT8; mode++)
    {
      TlTile t = tl_kv_layout_of_dims (mode, 1, 24, 24).tile[0];
      g_autofree guint8 *tile = g_malloc0 (t.bytes);
      memset (x, 0, sizeof x);
      x[7] = NAN;
      x[8] = INFINITY;
      k->encode_row (&t, tile, 3, x);
      k->decode_row (&t, tile, 3, out);
      g_assert_true (isnan (out[7]));
      x[7] = 1;
      k->encode_row (&t, tile, 3, x);
      k->decode_row (&t, tile, 3, out);
      g_assert_true (mode == TL_KV_FP32 ? isinf (out[8]) : out[8] >= 65504 && isfinite (out[8]));
    }
}

/* --- attention --- */

/* rows attend together: row r has n_q heads and sees begin … end - 1 + r; q and out are [n_rows][n_q][dim] */
static void
attend_rows (const TlKernels *k, const Cache *c, const float *q, guint n_rows, guint n_q, guint begin, guint end,
  float softcap, float *out)
{
  gsize row = n_q * TL_PARTIAL_STRIDE (c->dim), stride = n_rows * row;
  g_autofree float *partial = g_new0 (float, 4 * stride);
  TlAttend a = { .head_dim = c->dim, .n_q = n_q, .n_rows = n_rows, .scale = 0.25f, .softcap = softcap,
    .open = pages_of (&c->open_layout, c->open), .closed = pages_of (&c->closed_layout, c->closed),
    .first_open = tl_kv_open_mode (c->mode) == c->mode ? 0 : (end - 1) / TL_PAGE_POSITIONS };
  guint from = begin / 256, n_splits = (end + n_rows - 2) / 256 + 1 - from;
  for (guint s = 0; s < n_splits; s++)
    {
      for (guint r = 0; r < n_rows; r++)
        {
          a.q[r] = q + r * n_q * c->dim;
          a.begin[r] = MAX (begin, (from + s) * 256);
          a.end[r] = MIN (end + r, (from + s + 1) * 256);
        }
      k->attend_split (&a, partial + s * stride);
    }
  for (guint r = 0; r < n_rows; r++)
    k->attend_combine (partial + r * row, (end + r - 1) / 256 + 1 - from, stride, n_q, c->dim, out + r * n_q * c->dim);
}

static void
attend (const TlKernels *k, const Cache *c, const float *q, guint n_q, guint begin, guint end, float softcap, float *out)
{
  attend_rows (k, c, q, 1, n_q, begin, end, softcap, out);
}

/* softmax (q k) v in F64 */
static void
check_attention_definition (const Cache *c, const float *q, guint n_q, guint begin, guint end, const float *out)
{
  guint own = (end - 1) / TL_PAGE_POSITIONS * TL_PAGE_POSITIONS;
  for (guint h = 0; h < n_q; h++)
    {
      double total = 0, acc[128] = { 0 };
      for (guint p = begin; p < end; p++)
        {
          double s = 0;
          const float *key = (p < own ? c->closed_values : c->values)[0] + p * c->dim;
          const float *value = (p < own ? c->closed_values : c->values)[1] + p * c->dim;
          for (guint i = 0; i < c->dim; i++)
            s += (double) q[h * c->dim + i] * key[i];
          double e = exp (s * 0.25);
          total += e;
          for (guint i = 0; i < c->dim; i++)
            acc[i] += e * value[i];
        }
      for (guint i = 0; i < c->dim; i++)
        g_assert_cmpfloat_with_epsilon (out[h * c->dim + i], acc[i] / total, 2e-5);
    }
}

static void
test_attention (gconstpointer data)
{
  static const guint contexts[] = { 1, 31, 32, 33, 255, 256, 257, 700 };
  guint dim = GPOINTER_TO_UINT (data);
  for (TlKvMode mode = 0; mode <= TL_KV_INT4; mode++)
    {
      g_autoptr (GRand) rand = g_rand_new_with_seed (dim);
      Cache c = cache_new (rand, dim, N, mode);
      float q[11 * 128], expected[11 * 128], out[11 * 128], one[128], rows[30 * 128], rows_out[30 * 128];
      random_values (rand, rows, 30 * 128, 2);
      random_values (rand, q, 11 * 128, 2);
      for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
        for (guint window = 0; window < 2; window++)
          {
            guint n_q = i % 2 ? 11 : 3, end = contexts[i], begin = window && end > 20 ? end - 20 : 0;
            float softcap = i % 3 == 2 ? 20 : 0;
            attend (tl_kernels_for (TL_ISA_SCALAR), &c, q, n_q, begin, end, softcap, expected);
            if (softcap == 0)
              check_attention_definition (&c, q, n_q, begin, end, expected);
            for (guint isa = 0; isa < TL_N_ISA; isa++)
              if (tl_kernels_for (isa))
                {
                  attend (tl_kernels_for (isa), &c, q, n_q, begin, end, softcap, out);
                  g_assert_cmpmem (out, n_q * dim * 4, expected, n_q * dim * 4);
                }
            if (n_q == 3)               /* rows together, each as if alone */
              for (guint isa = 0; isa < TL_N_ISA; isa++)
                if (tl_kernels_for (isa) && end + 9 <= N && (mode != TL_KV_INT4 || (end - 1) / 32 == (end + 8) / 32))
                  {
                    attend_rows (tl_kernels_for (isa), &c, rows, 10, 3, begin, end, softcap, rows_out);
                    for (guint r = 0; r < 10; r++)
                      {
                        attend (tl_kernels_for (TL_ISA_SCALAR), &c, rows + r * 3 * dim, 3, begin, end + r, softcap, out);
                        g_assert_cmpmem (out, 3 * dim * 4, rows_out + r * 3 * dim, 3 * dim * 4);
                      }
                  }
            attend (tl_kernels_for (TL_ISA_SCALAR), &c, q + dim, 1, begin, end, softcap, one);  /* heads are independent */
            g_assert_cmpmem (one, dim * 4, expected + dim, dim * 4);
          }
      cache_clear (&c);
    }
}

int
main (int argc, char **argv)
{
  static const guint dims[] = { 12, 18, 24, 64, 96, 128 };
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cpu/vector/same-bits", test_element_work_is_the_same_bits);
  g_test_add_func ("/cpu/vector/quantise", test_quantised_rows_follow_the_rule);
  g_test_add_func ("/cpu/vector/norm", test_norm_is_the_definition);
  g_test_add_func ("/cpu/vector/argmax", test_argmax_prefers_the_lowest_index);
  g_test_add_func ("/cpu/vector/not-a-number", test_stored_rows_keep_what_is_no_number);
  for (guint i = 0; i < G_N_ELEMENTS (dims); i++)
    {
      g_autofree char *path = g_strdup_printf ("/cpu/attention/head-dim-%u", dims[i]);
      g_test_add_data_func (path, GUINT_TO_POINTER (dims[i]), test_attention);
    }
  return g_test_run ();
}
