/* cpu/tl-scalar.c — the scalar kernels: the executable form of the arithmetic rules.
 *
 * Compiled once plainly and once for processors with fused multiply-add (the same operations, so the same bits; without
 * the instruction fmaf is a slow exact library call). Called by tl-backend-cpu.c.
 */
#include "cpu/tl-scalar.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define CLONES __attribute__ ((target_clones ("arch=haswell", "default")))
#else
#define CLONES
#endif

#define LANES 16
#define SPLIT 256

/* exp in F64 by 2^n * polynomial, rounded once; no libm, so the same everywhere */
float
tl_scalar_exp (float x)
{
  if (x > 88.8f)
    return INFINITY;
  if (x < -104.0f)
    return 0.0f;
  double t = (double) x * 1.4426950408889634074;
  double n = (double) (gint64) (t + (t < 0 ? -0.5 : 0.5));
  double r = ((double) x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double p = 1.0;
  for (int i = 13; i >= 1; i--)
    p = 1.0 + p * r / i;
  union { guint64 u; double d; } power = { (guint64) (1023 + (gint64) n) << 52 };
  return (float) (p * power.d);
}

float
tl_scalar_tanh (float x)
{
  if (x > 10.0f)
    return 1.0f;
  if (x < -10.0f)
    return -1.0f;
  float e = tl_scalar_exp (2.0f * x);
  return (e - 1.0f) / (e + 1.0f);
}

float
tl_scalar_silu (float x)
{
  return x / (1.0f + tl_scalar_exp (-x));
}

float
tl_scalar_tree (float *v, guint n)
{
  while (n > 1)
    {
      for (guint i = 0; i < n / 2; i++)
        v[i] = v[2 * i] + v[2 * i + 1];
      if (n & 1)
        v[n / 2] = v[n - 1];
      n = (n + 1) / 2;
    }
  return v[0];
}

/* --- rows --- */

CLONES gboolean
tl_scalar_norm (const TlNorm *norm, const float *in, guint n, float *out)
{
  float lanes[LANES] = { 0 };
  for (guint i = 0; i < n; i++)
    lanes[i % LANES] = fmaf (in[i], in[i], lanes[i % LANES]);
  float sum = tl_scalar_tree (lanes, MIN (n, LANES));
  float r = 1.0f / sqrtf (sum / (float) n + norm->eps);
  for (guint i = 0; i < n; i++)
    out[i] = norm->weight ? in[i] * r * norm->weight[i] : in[i] * r;
  return isfinite (sum);
}

void
tl_scalar_rope (TlRopeLayout layout, guint dims, const float *c, const float *s, float *head)
{
  guint half = dims / 2;
  for (guint i = 0; i < half; i++)
    {
      float *a = layout == TL_ROPE_HALF ? head + i : head + 2 * i;
      float *b = layout == TL_ROPE_HALF ? head + i + half : head + 2 * i + 1;
      float x = *a, y = *b;
      *a = x * c[i] - y * s[i];
      *b = y * c[i] + x * s[i];
    }
}

gboolean
tl_scalar_quantise (TlPanel *p)
{
  guint n_groups = (p->k + p->group - 1) / p->group;
  for (guint i = 0; i < p->m; i++)
    for (guint g = 0; g < n_groups; g++)
      {
        guint from = g * p->group, to = MIN (from + p->group, p->k);
        const float *x = p->x + (gsize) i * p->k;
        float a = 0.0f;
        for (guint c = from; c < to; c++)
          {
            if (!isfinite (x[c]))
              return FALSE;
            a = MAX (a, fabsf (x[c]));
          }
        float inverse = a > 0.0f ? 127.0f / a : 0.0f;
        gint32 sum = 0;
        for (guint c = from; c < to; c++)
          {
            float q = rintf (x[c] * inverse);
            gint8 v = (gint8) (gint32) CLAMP (q, -127.0f, 127.0f);
            p->q[(gsize) i * p->k + c] = v;
            sum += v;
          }
        p->scale[(gsize) i * n_groups + g] = a / 127.0f;
        p->sum[(gsize) i * n_groups + g] = sum;
      }
  return TRUE;
}

/* --- linear --- */

static inline float
scale_at (const TlMatrix *w, gsize i)
{
  if (w->scale_format == TL_F32)
    return ((const float *) w->scale)[i];
  guint16 h = ((const guint16 *) w->scale)[i];
  return w->scale_format == TL_F16 ? tl_f16_to_f32 (h) : tl_bf16_to_f32 (h);
}

/* one row's values as signed bytes (INT4: 0 … 15) */
static void
unpack_row (const TlMatrix *w, guint r, gint8 *out)
{
  const guint8 *data = (const guint8 *) w->data + (gsize) r * tl_matrix_row_bytes (w);
  if (w->format == TL_INT8)
    memcpy (out, data, w->cols);
  else
    for (guint c = 0; c < w->cols; c++)
      out[c] = (gint8) (c & 1 ? data[c / 2] >> 4 : data[c / 2] & 15);
}

CLONES static float
dot_f32 (const float *w, const float *x, guint k, guint group)
{
  guint n_groups = (k + group - 1) / group, segments = MIN (16, n_groups);
  float acc[16] = { 0 };
  for (guint s = 0; s < segments; s++)
    {
      guint from = s * n_groups / segments * group, to = MIN ((s + 1) * n_groups / segments * group, k);
      float a = 0.0f;
      for (guint c = from; c < to; c++)
        a = fmaf (w[c], x[c], a);
      acc[s] = a;
    }
  return tl_scalar_tree (acc, segments);
}

/* what one row of a quantised matrix brings to each arithmetic group */
typedef struct { float scale, minimum; gint32 zero; } RowGroup;

CLONES static float
dot_quantised (const gint8 *w, const RowGroup *groups, gboolean has_minimum, const TlPanel *p, guint i)
{
  guint n_groups = (p->k + p->group - 1) / p->group, segments = MIN (16, n_groups);
  const gint8 *q = p->q + (gsize) i * p->k;
  float total[16] = { 0 };
  for (guint s = 0; s < segments; s++)
    {
      float acc = 0.0f;
      for (guint g = s * n_groups / segments; g < (s + 1) * n_groups / segments; g++)
        {
          guint to = MIN ((g + 1) * p->group, p->k);
          gint32 dot = 0;
          for (guint c = g * p->group; c < to; c++)
            dot += (gint32) w[c] * q[c];
          float sa = p->scale[(gsize) i * n_groups + g];
          gint32 sum = p->sum[(gsize) i * n_groups + g];
          acc = fmaf (groups[g].scale * sa, (float) (dot - groups[g].zero * sum), acc);
          if (has_minimum)
            acc = fmaf (groups[g].minimum * sa, (float) sum, acc);
        }
      total[s] = acc;
    }
  return tl_scalar_tree (total, segments);
}

void
tl_scalar_linear (const TlMatrix *w, guint r, const TlPanel *p, gboolean exact, float *row, float *y)
{
  guint group = tl_matrix_arith_group (w);
  if (w->group == 0 || exact)
    {
      const float *values = row;
      if (w->format == TL_F32)
        values = (const float *) w->data + (gsize) r * w->cols;
      else
        tl_matrix_row_to_f32 (w, r, row);
      for (guint i = 0; i < p->m; i++)
        y[i] = dot_f32 (values, p->x + (gsize) i * p->k, p->k, group);
      return;
    }
  guint n_groups = (p->k + group - 1) / group, stored = tl_matrix_n_groups (w);
  gint8 *bytes = (gint8 *) row;
  RowGroup *groups = (RowGroup *) (row + (p->k + 3) / 4);
  unpack_row (w, r, bytes);
  for (guint g = 0; g < n_groups; g++)
    {
      gsize at = (gsize) r * stored + MIN (g * group / w->group, stored - 1);
      groups[g].scale = scale_at (w, at);
      groups[g].zero = w->offset == TL_OFFSET_ZERO ? w->zero[at]
                       : w->offset == TL_OFFSET_NONE && w->format == TL_INT4 ? 8 : 0;
      groups[g].minimum = w->offset == TL_OFFSET_MIN ? tl_f16_to_f32 (w->minimum[at]) : 0.0f;
    }
  for (guint i = 0; i < p->m; i++)
    y[i] = dot_quantised (bytes, groups, w->offset == TL_OFFSET_MIN, p, i);
}

/* --- attention --- */

static const float *
kv_row (const TlAttention *a, gsize offset, guint position, float *converted)
{
  gsize at = offset + (gsize) (position % 32) * a->head_dim;
  gpointer page = a->pages[position / 32];
  if (a->fp32)
    return (const float *) page + at;
  const guint16 *h = (const guint16 *) page + at;
  for (guint c = 0; c < a->head_dim; c++)
    converted[c] = tl_f16_to_f32 (h[c]);
  return converted;
}

/* positions [from, to] of one split: exact maximum, sum of exponentials by position mod 16, V in position order */
CLONES static void
attend_split (const TlAttention *a, const float *q, guint from, guint to, float *scores, float *row, float *o,
  float *max_out, float *sum_out)
{
  float max = -INFINITY, lanes[LANES] = { 0 };
  for (guint t = from; t <= to; t++)
    {
      const float *k = kv_row (a, a->k_offset, t, row);
      float dot[LANES] = { 0 };
      for (guint c = 0; c < a->head_dim; c++)
        dot[c % LANES] = fmaf (q[c], k[c], dot[c % LANES]);
      float s = tl_scalar_tree (dot, MIN (a->head_dim, LANES)) * a->scale;
      if (a->softcap > 0)
        s = a->softcap * tl_scalar_tanh (s / a->softcap);
      scores[t - from] = s;
      max = MAX (max, s);
    }
  memset (o, 0, a->head_dim * sizeof (float));
  for (guint t = from; t <= to; t++)
    {
      float e = tl_scalar_exp (scores[t - from] - max);
      const float *v = kv_row (a, a->v_offset, t, row);
      lanes[t % LANES] += e;
      for (guint c = 0; c < a->head_dim; c++)
        o[c] = fmaf (e, v[c], o[c]);
    }
  *max_out = max;
  *sum_out = tl_scalar_tree (lanes, LANES);
}

void
tl_scalar_attend (const TlAttention *a, const float *q, float *scratch, float *out)
{
  float *scores = scratch, *row = scratch + SPLIT, *o = row + a->head_dim;
  float max = -INFINITY, sum = 0.0f;
  memset (out, 0, a->head_dim * sizeof (float));
  for (guint from = a->first; from <= a->last; from = (from / SPLIT + 1) * SPLIT)
    {
      float m, s;
      attend_split (a, q, from, MIN (a->last, (from / SPLIT + 1) * SPLIT - 1), scores, row, o, &m, &s);
      float both = MAX (max, m);
      float old = sum > 0.0f ? tl_scalar_exp (max - both) : 0.0f, add = tl_scalar_exp (m - both);
      sum = fmaf (sum, old, s * add);
      for (guint c = 0; c < a->head_dim; c++)
        out[c] = fmaf (out[c], old, o[c] * add);
      max = both;
    }
  for (guint c = 0; c < a->head_dim; c++)
    out[c] = out[c] / sum;
}
