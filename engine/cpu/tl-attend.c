/* cpu/tl-attend.c — attention of one kv head over the pages of one split, and the join of splits.
 *
 * Inside a split: all scores (16-lane dot), the exact maximum, exponentials summed by position mod 16, the weighted values
 * as one fmaf chain per channel in order of positions. K and V of a position are read once for all query heads of the kv
 * head. Invisible positions execute nothing. One source, compiled once per instruction set, as tl-vector.c.
 */
#include "cpu/tl-kernels-private.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#define PAGE 32u
#define MAX_Q 8u                /* query heads at a time */
#define MAX_DIM 512u

/* a row of K or V in F32: itself, or widened into `buffer` */
static inline const float *
row_f32 (const TlAttend *a, gsize offset, guint position, float *buffer)
{
  const guint8 *base = (const guint8 *) a->pages[position / PAGE] + offset;
  guint at = position % PAGE * a->head_dim;
  if (!a->half)
    return (const float *) base + at;

  const guint16 *row = (const guint16 *) base + at;
  guint i = 0;
#ifdef __F16C__
  for (; i + 8 <= a->head_dim; i += 8)
    _mm256_storeu_ps (buffer + i, _mm256_cvtph_ps (_mm_loadu_si128 ((const __m128i *) (row + i))));
#endif
  for (; i < a->head_dim; i++)
    buffer[i] = tl_f16_to_f32 (row[i]);
  return buffer;
}

static inline float
dot (const float *x, const float *y, guint n)
{
  float lane[16] = { 0 };
  guint i = 0;
  for (; i + 16 <= n; i += 16)
    for (guint j = 0; j < 16; j++)
      lane[j] = fmaf (x[i + j], y[i + j], lane[j]);
  for (guint j = 0; i + j < n; j++)
    lane[j] = fmaf (x[i + j], y[i + j], lane[j]);
  return tl_tree_sum (lane, 16);
}

/* scores of positions begin … end - 1 become exponentials; the sum by absolute position mod 16 */
static inline float
exponentials (float *score, guint begin, guint n, float maximum)
{
  float lane[16] = { 0 };
  for (guint t = 0; t < n; t++)
    score[t] = tl_expf (score[t] - maximum);
  for (guint t = 0; t < n; t++)
    lane[(begin + t) % 16] += score[t];
  return tl_tree_sum (lane, 16);
}

static void
attend_heads (const TlAttend *a, const float *q, guint n_q, float *partial)
{
  float score[MAX_Q][TL_SPLIT_POSITIONS] __attribute__ ((aligned (64)));
  float buffer[MAX_DIM] __attribute__ ((aligned (64)));
  guint n = a->end - a->begin, dim = a->head_dim, stride = TL_PARTIAL_STRIDE (dim);

  for (guint t = 0; t < n; t++)
    {
      const float *k = row_f32 (a, a->k_offset, a->begin + t, buffer);
      for (guint h = 0; h < n_q; h++)
        {
          float s = dot (q + h * dim, k, dim) * a->scale;
          score[h][t] = a->softcap != 0.0f ? tl_softcapf (s, a->softcap) : s;
        }
    }

  for (guint h = 0; h < n_q; h++)
    {
      float maximum = -INFINITY;
      for (guint t = 0; t < n; t++)
        maximum = score[h][t] > maximum ? score[h][t] : maximum;
      partial[h * stride] = maximum;
      partial[h * stride + 1] = exponentials (score[h], a->begin, n, maximum);
      for (guint c = 0; c < dim; c++)
        partial[h * stride + 16 + c] = 0.0f;
    }

  for (guint t = 0; t < n; t++)
    {
      const float *v = row_f32 (a, a->v_offset, a->begin + t, buffer);
      for (guint h = 0; h < n_q; h++)
        {
          float *restrict acc = partial + h * stride + 16, p = score[h][t];
          for (guint c = 0; c < dim; c++)
            acc[c] = fmaf (p, v[c], acc[c]);
        }
    }
}

void
TL_FN (tl_attend_split) (const TlAttend *a, float *partial)
{
  g_assert (a->head_dim <= MAX_DIM && a->begin < a->end
    && a->begin / TL_SPLIT_POSITIONS == (a->end - 1) / TL_SPLIT_POSITIONS);
  for (guint h = 0; h < a->n_q; h += MAX_Q)
    attend_heads (a, a->q + h * a->head_dim, MIN (MAX_Q, a->n_q - h), partial + h * TL_PARTIAL_STRIDE (a->head_dim));
}

void
TL_FN (tl_attend_combine) (const float *partial, guint n_splits, gsize split_stride, guint n_q, guint head_dim, float *out)
{
  guint stride = TL_PARTIAL_STRIDE (head_dim);
  for (guint h = 0; h < n_q; h++, partial += stride, out += head_dim)
    {
      float maximum = -INFINITY, total = 0.0f;
      for (guint s = 0; s < n_splits; s++)
        maximum = partial[s * split_stride] > maximum ? partial[s * split_stride] : maximum;
      for (guint c = 0; c < head_dim; c++)
        out[c] = 0.0f;
      for (guint s = 0; s < n_splits; s++)
        {
          const float *one = partial + s * split_stride;
          float weight = tl_expf (one[0] - maximum);
          total = fmaf (one[1], weight, total);
          for (guint c = 0; c < head_dim; c++)
            out[c] = fmaf (one[16 + c], weight, out[c]);
        }
      float inverse = 1.0f / total;
      for (guint c = 0; c < head_dim; c++)
        out[c] *= inverse;
    }
}
