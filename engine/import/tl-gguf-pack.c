/* import/tl-gguf-pack.c — a matrix of ours as GGUF blocks: the smallest format that keeps every value, F32 when none does.
 *
 * The inverse of tl_gguf_split_block(). Groups longer than 32 repeat their scale; zero points go into the values.
 */
#include "import/tl-gguf.h"

#include <string.h>

enum { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_1 = 7, Q8_0 = 8, BF16 = 30 };

/* what is multiplied with the scale in row r, column c */
static int
level (const TlMatrix *m, guint r, guint c)
{
  const guint8 *row = (const guint8 *) m->data + r * tl_matrix_row_bytes (m);
  int q = m->format == TL_INT8 ? ((const gint8 *) row)[c] : row[c / 2] >> (c % 2 * 4) & 15;
  if (m->offset == TL_OFFSET_ZERO)
    return q - m->zero[(gsize) r * tl_matrix_n_groups (m) + c / m->group];
  return m->format == TL_INT4 && m->offset == TL_OFFSET_NONE ? q - 8 : q;
}

static float
scale_at (const TlMatrix *m, gsize i)
{
  const guint16 *half = m->scale;
  if (m->scale_format == TL_F32)
    return ((const float *) m->scale)[i];
  return m->scale_format == TL_F16 ? tl_f16_to_f32 (half[i]) : tl_bf16_to_f32 (half[i]);
}

static gboolean
scales_fit (const TlMatrix *m)
{
  gsize n = (gsize) m->rows * tl_matrix_n_groups (m);
  for (gsize i = 0; m->scale_format != TL_F16 && i < n; i++)
    if (tl_f16_to_f32 (tl_f32_to_f16 (scale_at (m, i))) != scale_at (m, i))
      return FALSE;
  return TRUE;
}

static gboolean
levels_within (const TlMatrix *m, int low, int high)
{
  for (guint r = 0; r < m->rows; r++)
    for (guint c = 0; c < m->cols; c++)
      if (level (m, r, c) < low || level (m, r, c) > high)
        return FALSE;
  return TRUE;
}

const TlGgufType *
tl_gguf_pack_type (const TlMatrix *m)
{
  static const guint32 floats[] = { [TL_F32] = F32, [TL_F16] = F16, [TL_BF16] = BF16 };
  if (m->format < TL_INT8)
    return tl_gguf_type (floats[m->format]);
  if (m->cols % 32 != 0 || m->group % 32 != 0 || !scales_fit (m))
    return tl_gguf_type (F32);
  if (m->offset == TL_OFFSET_MIN)
    return tl_gguf_type (m->format == TL_INT4 ? Q4_1 : levels_within (m, 0, 31) ? Q5_1 : F32);
  if (m->format == TL_INT4 && levels_within (m, -8, 7))
    return tl_gguf_type (Q4_0);
  return tl_gguf_type (levels_within (m, -128, 127) ? Q8_0 : F32);
}

static void
put_half (guint8 *out, guint16 bits)
{
  out[0] = bits & 255;
  out[1] = bits >> 8;
}

/* 32 values from column c of row r */
static void
pack_block (const TlGgufType *type, const TlMatrix *m, guint r, guint c, guint8 *out)
{
  gsize group = (gsize) r * tl_matrix_n_groups (m) + c / m->group;
  put_half (out, tl_f32_to_f16 (scale_at (m, group)));
  if (type->offset == TL_OFFSET_MIN)
    put_half (out + 2, m->minimum[group]);
  guint8 *q = out + (type->offset == TL_OFFSET_MIN ? 4 : 2), *high = q;
  if (type->id == Q5_1)
    {
      memset (high, 0, 4);
      q += 4;
    }
  for (guint i = 0; i < 32; i++)
    {
      int v = level (m, r, c + i) + (type->id == Q4_0 ? 8 : 0);
      if (type->id == Q8_0)
        q[i] = (guint8) (gint8) v;
      else if (i < 16)
        q[i] = v & 15;
      else
        q[i - 16] |= (v & 15) << 4;
      if (type->id == Q5_1)
        high[i / 8] |= (v >> 4 & 1) << i % 8;
    }
}

void
tl_gguf_pack_row (const TlGgufType *type, const TlMatrix *m, guint r, guint8 *out)
{
  if (type->values == 1 && m->format < TL_INT8)
    memcpy (out, (const guint8 *) m->data + r * tl_matrix_row_bytes (m), tl_matrix_row_bytes (m));
  else if (type->values == 1)
    {
      g_autofree float *row = g_new (float, m->cols);
      tl_matrix_row_to_f32 (m, r, row);
      memcpy (out, row, m->cols * sizeof (float));
    }
  else
    for (guint c = 0; c < m->cols; c += 32)
      pack_block (type, m, r, c, out + c / 32 * type->bytes);
}
