/* import/tl-gguf-types.c — GGUF's block formats: what their bits mean, and the split of those that have a lossless form here.
 *
 * Blocks of 32: F16 scale (and minimum), nibble i beside nibble i + 16. Super-blocks of 256 ("K"): six-bit scales per 32
 * or eight-bit per 16; they become F32, exactly. Called by tl-gguf-source.c and tests.
 */
#include "import/tl-gguf.h"

#include <string.h>

static guint16
half_at (const guint8 *p)
{
  return p[0] | p[1] << 8;
}

static float
f16_at (const guint8 *p)
{
  return tl_f16_to_f32 (half_at (p));
}

static void
f32_block (const guint8 *b, float *out)
{
  memcpy (out, b, 4);
}

static void
f16_block (const guint8 *b, float *out)
{
  *out = f16_at (b);
}

static void
bf16_block (const guint8 *b, float *out)
{
  *out = tl_bf16_to_f32 (half_at (b));
}

/* --- blocks of 32 --- */

enum { Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8 };

/* the quantised values, centred where the format has no minimum */
static void
block_values (guint32 id, const guint8 *b, gint8 *q)
{
  gboolean has_min = id == Q4_1 || id == Q5_1, five = id == Q5_0 || id == Q5_1;
  const guint8 *p = b + (has_min ? 4 : 2);
  guint32 high = 0;

  if (id == Q8_0)
    {
      memcpy (q, p, 32);
      return;
    }
  if (five)
    {
      high = p[0] | p[1] << 8 | p[2] << 16 | (guint32) p[3] << 24;
      p += 4;
    }
  for (guint i = 0; i < 32; i++)
    {
      int v = (p[i % 16] >> (i / 16 * 4) & 15) | (int) (high >> i & 1) << 4;
      q[i] = has_min ? v : v - (five ? 16 : 8);
    }
}

static void
block_to_f32 (guint32 id, const guint8 *b, float *out)
{
  gint8 q[32];
  float scale = f16_at (b), minimum = id == Q4_1 || id == Q5_1 ? f16_at (b + 2) : 0;
  block_values (id, b, q);
  for (guint i = 0; i < 32; i++)
    out[i] = id == Q4_1 || id == Q5_1 ? scale * q[i] + minimum : scale * q[i];
}

#define BLOCK_OF_32(name) \
  static void name##_block (const guint8 *b, float *out) { block_to_f32 (name, b, out); }
BLOCK_OF_32 (Q4_0)
BLOCK_OF_32 (Q4_1)
BLOCK_OF_32 (Q5_0)
BLOCK_OF_32 (Q5_1)
BLOCK_OF_32 (Q8_0)

void
tl_gguf_split_block (const TlGgufType *type, const guint8 *block, guint8 *values, guint16 *scale, guint16 *minimum)
{
  gint8 q[32];
  block_values (type->id, block, q);
  *scale = half_at (block);
  if (type->offset == TL_OFFSET_MIN)
    *minimum = half_at (block + 2);
  if (type->format == TL_INT8)
    {
      memcpy (values, q, 32);
      return;
    }
  int zero = type->offset == TL_OFFSET_NONE ? 8 : 0;
  for (guint i = 0; i < 16; i++)
    values[i] = (guint8) ((q[2 * i] + zero) | (q[2 * i + 1] + zero) << 4);
}

/* --- super-blocks of 256 --- */

/* eight six-bit scales and minima packed in twelve bytes */
static void
scale_and_min (const guint8 *s, guint j, guint *scale, guint *minimum)
{
  *scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
  *minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
}

static void
k45_block (const guint8 *b, const guint8 *high, const guint8 *low, float *out)
{
  float d = f16_at (b), dmin = f16_at (b + 2);
  for (guint j = 0; j < 8; j++)
    {
      guint scale, minimum;
      scale_and_min (b + 4, j, &scale, &minimum);
      float step = d * scale, least = dmin * minimum;
      for (guint i = 0; i < 32; i++)
        {
          guint q = low[j / 2 * 32 + i] >> (j % 2 * 4) & 15;
          if (high)
            q |= (high[i] >> j & 1) << 4;
          out[j * 32 + i] = step * q - least;
        }
    }
}

static void
q4_k_block (const guint8 *b, float *out)
{
  k45_block (b, NULL, b + 16, out);
}

static void
q5_k_block (const guint8 *b, float *out)
{
  k45_block (b, b + 16, b + 48, out);
}

static void
q6_k_block (const guint8 *b, float *out)
{
  const guint8 *low = b, *high = b + 128;
  const gint8 *scales = (const gint8 *) b + 192;
  float d = f16_at (b + 208);
  for (guint i = 0; i < 256; i++)
    {
      guint half = i / 128, quarter = i % 128 / 32, k = i % 32;
      guint nibble = low[half * 64 + quarter % 2 * 32 + k] >> (quarter / 2 * 4) & 15;
      int q = (int) (nibble | (high[half * 32 + k] >> (quarter * 2) & 3) << 4) - 32;
      out[i] = d * scales[i / 16] * q;
    }
}

static const TlGgufType types[] = {
  { 0, "F32", 1, 4, f32_block, TL_F32, TL_OFFSET_NONE },
  { 1, "F16", 1, 2, f16_block, TL_F16, TL_OFFSET_NONE },
  { 30, "BF16", 1, 2, bf16_block, TL_BF16, TL_OFFSET_NONE },
  { Q4_0, "Q4_0", 32, 18, Q4_0_block, TL_INT4, TL_OFFSET_NONE },
  { Q4_1, "Q4_1", 32, 20, Q4_1_block, TL_INT4, TL_OFFSET_MIN },
  { Q5_0, "Q5_0", 32, 22, Q5_0_block, TL_INT8, TL_OFFSET_NONE },
  { Q5_1, "Q5_1", 32, 24, Q5_1_block, TL_INT8, TL_OFFSET_MIN },
  { Q8_0, "Q8_0", 32, 34, Q8_0_block, TL_INT8, TL_OFFSET_NONE },
  { 12, "Q4_K", 256, 144, q4_k_block, TL_F32, TL_OFFSET_NONE },
  { 13, "Q5_K", 256, 176, q5_k_block, TL_F32, TL_OFFSET_NONE },
  { 14, "Q6_K", 256, 210, q6_k_block, TL_F32, TL_OFFSET_NONE },
  { 9, "Q8_1", 0 }, { 10, "Q2_K", 0 }, { 11, "Q3_K", 0 }, { 15, "Q8_K", 0 }, { 16, "IQ2_XXS", 0 }, { 17, "IQ2_XS", 0 },
  { 18, "IQ3_XXS", 0 }, { 19, "IQ1_S", 0 }, { 20, "IQ4_NL", 0 }, { 21, "IQ3_S", 0 }, { 22, "IQ2_S", 0 },
  { 23, "IQ4_XS", 0 }, { 24, "I8", 0 }, { 25, "I16", 0 }, { 26, "I32", 0 }, { 27, "I64", 0 }, { 28, "F64", 0 },
  { 29, "IQ1_M", 0 }, { 34, "TQ1_0", 0 }, { 35, "TQ2_0", 0 }, { 39, "MXFP4", 0 },
};

const TlGgufType *
tl_gguf_type (guint32 id)
{
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (types[i].id == id)
      return &types[i];
  return NULL;
}
