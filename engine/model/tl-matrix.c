/* model/tl-matrix.c — number formats and the dequantisation of a matrix row: the definition of what stored bits mean. */
#include "model/tl-matrix.h"

#include <math.h>

typedef union { guint32 u; float f; } Bits;

float
tl_f16_to_f32 (guint16 h)
{
  guint32 sign = (guint32) (h & 0x8000) << 16, exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
  Bits v;

  if (exponent == 0)
    {
      v.f = (float) mantissa * 0x1p-24f;        /* zero and subnormals, exact */
      v.u |= sign;
    }
  else if (exponent == 31)
    v.u = sign | 0x7f800000 | mantissa << 13;
  else
    v.u = sign | (exponent + 112) << 23 | mantissa << 13;
  return v.f;
}

guint16
tl_f32_to_f16 (float f)
{
  Bits v = { .f = f };
  guint16 sign = v.u >> 16 & 0x8000;
  guint32 a = v.u & 0x7fffffff;

  if (a > 0x7f800000)
    return sign | 0x7e00 | (a >> 13 & 0x3ff);   /* quiet NaN, payload kept */
  if (a >= 0x477ff000)
    return sign | 0x7c00;                       /* 65520 and above round to infinity */
  if (a < 0x33000001)
    return sign;                                /* at most half of the smallest subnormal */

  guint shift = 13;
  guint32 mantissa = a;
  if (a < 0x38800000)                           /* below 2^-14: subnormal */
    {
      shift = 126 - (a >> 23);
      mantissa = (a & 0x7fffff) | 0x800000;
    }
  else
    mantissa -= 112u << 23;

  guint32 kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
  if (rest > half || (rest == half && (kept & 1)))
    kept++;
  return sign | kept;
}

guint16
tl_f32_to_f16_saturate (float f)
{
  return tl_f32_to_f16 (f > 65504.0f ? 65504.0f : f < -65504.0f ? -65504.0f : f);
}

guint16
tl_f32_to_bf16 (float f)
{
  Bits v = { .f = f };
  if ((v.u & 0x7fffffff) > 0x7f800000)
    return v.u >> 16 | 0x40;
  return (v.u + 0x7fff + (v.u >> 16 & 1)) >> 16;
}

gsize
tl_matrix_row_bytes (const TlMatrix *m)
{
  switch (m->format)
    {
    case TL_F32:
      return (gsize) m->cols * 4;
    case TL_F16:
    case TL_BF16:
      return (gsize) m->cols * 2;
    case TL_INT8:
      return m->cols;
    case TL_INT4:
      return ((gsize) m->cols + 1) / 2;
    }
  g_assert_not_reached ();
}

static float
scale_at (const TlMatrix *m, gsize i)
{
  switch (m->scale_format)
    {
    case TL_F16:
      return tl_f16_to_f32 (((const guint16 *) m->scale)[i]);
    case TL_BF16:
      return tl_bf16_to_f32 (((const guint16 *) m->scale)[i]);
    default:
      return ((const float *) m->scale)[i];
    }
}

static void
quantised_row (const TlMatrix *m, guint r, float *out)
{
  const guint8 *row = (const guint8 *) m->data + r * tl_matrix_row_bytes (m);
  guint n_groups = tl_matrix_n_groups (m);

  for (guint g = 0; g < n_groups; g++)
    {
      gsize i = (gsize) r * n_groups + g;
      float scale = scale_at (m, i);
      int zero = m->offset == TL_OFFSET_ZERO ? m->zero[i] : m->offset == TL_OFFSET_NONE && m->format == TL_INT4 ? 8 : 0;
      float minimum = m->offset == TL_OFFSET_MIN ? tl_f16_to_f32 (m->minimum[i]) : 0;
      guint end = MIN (m->cols, (g + 1) * m->group);

      for (guint c = g * m->group; c < end; c++)
        {
          int q = m->format == TL_INT8 ? (gint8) row[c] : row[c / 2] >> (c % 2 * 4) & 15;
          float v = (float) (q - zero);
          out[c] = m->offset == TL_OFFSET_MIN ? fmaf (scale, v, minimum) : scale * v;
        }
    }
}

void
tl_matrix_row_to_f32 (const TlMatrix *m, guint r, float *out)
{
  gsize first = (gsize) r * m->cols;
  switch (m->format)
    {
    case TL_F32:
      for (guint c = 0; c < m->cols; c++)
        out[c] = ((const float *) m->data)[first + c];
      break;
    case TL_F16:
      for (guint c = 0; c < m->cols; c++)
        out[c] = tl_f16_to_f32 (((const guint16 *) m->data)[first + c]);
      break;
    case TL_BF16:
      for (guint c = 0; c < m->cols; c++)
        out[c] = tl_bf16_to_f32 (((const guint16 *) m->data)[first + c]);
      break;
    default:
      quantised_row (m, r, out);
    }
}
