/* cpu/tl-tile.h — a stored row of K, V or an attention input in F32: the one reading of all forms, for tl-attend*.c and
 * tl-tile.c. Without AVX2 the plain loops remain; each vector is the same line on lanes, so the bits are the same.
 */
#pragma once

#include "forward/tl-kv-layout.h"

#ifdef __AVX2__
#include "cpu/tl-simd.h"
#else
#include "cpu/tl-kernels-private.h"
#endif

#ifdef __AVX2__
/* LANES values from LANES / 2 bytes */
INLINE Floats
load_nibbles (const guint8 *p)
{
#ifdef __AVX512F__
  __m128i bytes = _mm_loadl_epi64 ((const __m128i *) p);
#else
  guint32 four;
  memcpy (&four, p, 4);
  __m128i bytes = _mm_cvtsi32_si128 (four);
#endif
  __m128i low = _mm_and_si128 (bytes, _mm_set1_epi8 (15)), high = _mm_and_si128 (_mm_srli_epi16 (bytes, 4), _mm_set1_epi8 (15));
  return V (cvtepi32_ps) (V (cvtepu8_epi32) (_mm_unpacklo_epi8 (low, high)));
}

/* as many values from `i` on below `end` as fit whole vectors; returns where the rest begins */
INLINE guint
tile_vectors (const TlTile *t, const guint8 *row, const guint16 *scale, guint i, guint end, float *out)
{
  switch (t->form)
    {
    case TL_TILE_F16:
      for (; i + LANES <= end; i += LANES)
        V (storeu_ps) (out + i, load_f16 ((const guint16 *) row + i));
      break;
    case TL_TILE_F32:
      break;
    case TL_TILE_INT8:
      for (Floats s = V (set1_ps) (tl_f16_to_f32 (scale[0])); i + LANES <= end; i += LANES)
        V (storeu_ps) (out + i, V (mul_ps) (s, V (cvtepi32_ps) (V (cvtepi8_epi32) (LOAD_BYTES (row + i)))));
      break;
    case TL_TILE_INT4_ROWS:
      for (Floats s = V (set1_ps) (tl_f16_to_f32 (scale[0])), m = V (set1_ps) (tl_f16_to_f32 (scale[1])); i + LANES <= end;
          i += LANES)
        V (storeu_ps) (out + i, V (fmadd_ps) (s, load_nibbles (row + i / 2), m));
      break;
    case TL_TILE_INT4_COLUMNS:
      for (; i + LANES <= end; i += LANES)
        V (storeu_ps) (out + i, V (fmadd_ps) (load_f16 (scale + i), load_nibbles (row + i / 2), load_f16 (scale + t->dim + i)));
      break;
    }
  return i;
}
#else
static inline guint
tile_vectors (const TlTile *t, const guint8 *row, const guint16 *scale, guint i, guint end, float *out)
{
  return i;
}
#endif

static inline float
tile_nibble (const guint8 *row, guint i)
{
  return row[i / 2] >> (i % 2 * 4) & 15;
}

/* values i … end - 1, which share a scale (or are channels with their own) */
static inline void
tile_values (const TlTile *t, const guint8 *row, const guint16 *scale, guint i, guint end, float *out)
{
  i = tile_vectors (t, row, scale, i, end, out);
  for (; i < end; i++)
    switch (t->form)
      {
      case TL_TILE_F16: out[i] = tl_f16_to_f32 (((const guint16 *) row)[i]); break;
      case TL_TILE_F32: out[i] = ((const float *) row)[i]; break;
      case TL_TILE_INT8: out[i] = tl_f16_to_f32 (scale[0]) * (float) (gint8) row[i]; break;
      case TL_TILE_INT4_ROWS: out[i] = fmaf (tl_f16_to_f32 (scale[0]), tile_nibble (row, i), tl_f16_to_f32 (scale[1])); break;
      case TL_TILE_INT4_COLUMNS:
        out[i] = fmaf (tl_f16_to_f32 (scale[i]), tile_nibble (row, i), tl_f16_to_f32 (scale[t->dim + i]));
        break;
      }
}

/* row `at` of a tile: out [dim] */
static inline void
tile_row_to_f32 (const TlTile *t, const guint8 *tile, guint at, float *out)
{
  const guint8 *row = tile + at * t->row_bytes;
  const guint16 *scales = (const guint16 *) (tile + t->scales_at);
  switch (t->form)
    {
    case TL_TILE_F32:
      memcpy (out, row, t->row_bytes);
      break;
    case TL_TILE_INT8:
    case TL_TILE_INT4_ROWS:
      for (guint g = 0, step = t->form == TL_TILE_INT8 ? 1 : 2; g < t->n_groups; g++)
        tile_values (t, row, scales + (at * t->n_groups + g) * step, g * t->group, MIN ((g + 1) * t->group, t->dim), out);
      break;
    default:
      tile_values (t, row, scales, 0, t->dim, out);
    }
}
