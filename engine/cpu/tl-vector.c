/* cpu/tl-vector.c — norms, activations, rotation, quantisation of rows, argmax: element-wise work and 16-lane sums.
 *
 * One source for all instruction sets, compiled once per set (TL_SUFFIX): every line is +, *, /, sqrt or fma, in an order
 * that does not depend on the vector width, so the compiler's vectors give the same bits. Sums: element i goes to lane
 * i mod 16, lanes are joined by the neighbour tree.
 */
#include "cpu/tl-kernels-private.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

gboolean
TL_FN (tl_quantise_row) (const float *x, guint cols, guint group, gint8 *q, float *scale, gint32 *sum)
{
  guint32 worst = 0;
  for (guint g = 0, begin = 0; begin < cols; g++, begin += group)
    {
      guint n = MIN (group, cols - begin);
      const float *in = x + begin;
      gint8 *out = q + begin;
      guint32 bits = 0;
      for (guint i = 0; i < n; i++)     /* bits of |x| are ordered as |x| is; NaN and infinity are the largest */
        {
          guint32 b = tl_float_bits (in[i]) & 0x7fffffff;
          bits = b > bits ? b : bits;
        }
      worst = MAX (worst, bits);
      float a = tl_float_from_bits (bits), inverse = 127.0f / a;
      if (!(inverse < INFINITY))        /* a = 0, or so small that its inverse overflows */
        inverse = 0.0f;
      gint32 total = 0;
      for (guint i = 0; i < n; i++)
        {
          gint32 v = (gint32) ((in[i] * inverse + TL_ROUND) - TL_ROUND);
          v = v > 127 ? 127 : v < -127 ? -127 : v;
          out[i] = (gint8) v;
          total += v;
        }
      scale[g] = a / 127.0f;
      sum[g] = total;
    }
  return worst < 0x7f800000;
}

static inline float
sum_squares (const float *x, guint n, float minus)
{
  float lane[16] = { 0 };
  guint i = 0;
  for (; i + 16 <= n; i += 16)
    for (guint j = 0; j < 16; j++)
      lane[j] = fmaf (x[i + j] - minus, x[i + j] - minus, lane[j]);
  for (guint j = 0; i + j < n; j++)
    lane[j] = fmaf (x[i + j] - minus, x[i + j] - minus, lane[j]);
  return tl_tree_sum (lane, 16);
}

static inline float
sum (const float *x, guint n)
{
  float lane[16] = { 0 };
  guint i = 0;
  for (; i + 16 <= n; i += 16)
    for (guint j = 0; j < 16; j++)
      lane[j] += x[i + j];
  for (guint j = 0; i + j < n; j++)
    lane[j] += x[i + j];
  return tl_tree_sum (lane, 16);
}

void
TL_FN (tl_rms_norm) (const float *x, const float *weight, guint n, float eps, float *out)
{
  float r = tl_rsqrtf (sum_squares (x, n, 0.0f) / (float) n + eps);
  if (weight)
    for (guint i = 0; i < n; i++)
      out[i] = x[i] * r * weight[i];
  else
    for (guint i = 0; i < n; i++)
      out[i] = x[i] * r;
}

void
TL_FN (tl_layer_norm) (const float *x, const float *weight, const float *bias, guint n, float eps, float *out)
{
  float mean = sum (x, n) / (float) n;
  float r = tl_rsqrtf (sum_squares (x, n, mean) / (float) n + eps);
  for (guint i = 0; i < n; i++)
    out[i] = (x[i] - mean) * r;
  if (weight)
    for (guint i = 0; i < n; i++)
      out[i] = out[i] * weight[i];
  if (bias)
    for (guint i = 0; i < n; i++)
      out[i] = out[i] + bias[i];
}

void
TL_FN (tl_add) (float *y, const float *x, guint n)
{
  for (guint i = 0; i < n; i++)
    y[i] += x[i];
}

void
TL_FN (tl_swiglu) (const float *gate, const float *up, guint n, float *out)
{
  for (guint i = 0; i < n; i++)
    out[i] = tl_siluf (gate[i]) * up[i];
}

void
TL_FN (tl_geglu_tanh) (const float *gate, const float *up, guint n, float *out)
{
  for (guint i = 0; i < n; i++)
    out[i] = tl_gelu_tanhf (gate[i]) * up[i];
}

void
TL_FN (tl_gelu_erf) (const float *x, guint n, float *out)
{
  for (guint i = 0; i < n; i++)
    out[i] = tl_gelu_erff (x[i]);
}

void
TL_FN (tl_gelu_tanh) (const float *x, guint n, float *out)
{
  for (guint i = 0; i < n; i++)
    out[i] = tl_gelu_tanhf (x[i]);
}

void
TL_FN (tl_relu2) (const float *x, guint n, float scale, float *out)
{
  for (guint i = 0; i < n; i++)
    {
      float v = x[i] < 0.0f ? 0.0f : x[i];
      out[i] = scale * (v * v);
    }
}

void
TL_FN (tl_softcap) (float *x, guint n, float cap)
{
  for (guint i = 0; i < n; i++)
    x[i] = tl_softcapf (x[i], cap);
}

void
TL_FN (tl_rope) (float *x, const float *cosine, const float *sine, guint rope_dims, gboolean interleaved)
{
  guint half = rope_dims / 2, step = interleaved ? 2 : 1, other = interleaved ? 1 : half;
  for (guint i = 0; i < half; i++)
    {
      float a = x[i * step], b = x[i * step + other];
      x[i * step] = fmaf (a, cosine[i], -(b * sine[i]));
      x[i * step + other] = fmaf (b, cosine[i], a * sine[i]);
    }
}

void
TL_FN (tl_to_half) (const float *x, guint n, guint16 *out)
{
  guint i = 0;
#ifdef __F16C__
  const __m256 largest = _mm256_set1_ps (65504.0f), smallest = _mm256_set1_ps (-65504.0f);
  for (; i + 8 <= n; i += 8)            /* the operand order keeps NaN */
    {
      __m256 v = _mm256_max_ps (smallest, _mm256_min_ps (largest, _mm256_loadu_ps (x + i)));
      _mm_storeu_si128 ((__m128i *) (out + i), _mm256_cvtps_ph (v, _MM_FROUND_TO_NEAREST_INT));
    }
#endif
  for (; i < n; i++)
    out[i] = tl_f32_to_f16_saturate (x[i]);
}

guint
TL_FN (tl_argmax) (const float *x, guint n)
{
  float best = -INFINITY;
  for (guint i = 0; i < n; i++)
    best = x[i] > best ? x[i] : best;
  for (guint i = 0; i < n; i++)
    if (x[i] == best)
      return i;
  return 0;
}
