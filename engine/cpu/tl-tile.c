/* cpu/tl-tile.c — rows into their stored form: the definition of what a KV mode rounds. One source, compiled once per
 * instruction set; only single operations that IEEE 754 rounds the same everywhere, so the bits are the same.
 *
 * INT8: scale = F16 of max |x| / 127 over the group, q = round-to-even (x / scale) within ±127; scale 0 gives q = 0.
 * INT4: minimum = F16 of min x, scale = F16 of (max x - min x) / 15, q = round-to-even ((x - minimum) / scale) within 0 … 15.
 * F16 saturates, scales and minima too. A value that is not a number makes its group's scale one, so that it is not lost.
 */
#include "cpu/tl-tile.h"

#include <string.h>

/* nearest even, |x| < 2^22 */
static inline float
round_even (float x)
{
  return (x + TL_ROUND) - TL_ROUND;
}

static inline float
clamp (float x, float low, float high)
{
  x = x > low ? x : low;
  return x < high ? x : high;
}

/* least and largest of n values that lie `step` apart */
typedef struct { float least, most; gboolean is_nan; } Range;

static inline Range
range_of (const float *x, guint n, gsize step)
{
  float least = x[0], most = x[0];
  int nan = 0;
  for (guint i = 0; i < n; i++)
    {
      float v = x[i * step];
      least = v < least ? v : least;
      most = v > most ? v : most;
      nan |= v != v;
    }
  return (Range) { least, most, nan };
}

static inline guint16
scale_of (float x, gboolean is_nan)
{
  return tl_f32_to_f16_saturate (is_nan ? NAN : x);
}

static void
encode_int8 (const float *x, guint n, gint8 *q, guint16 *scale)
{
  Range r = range_of (x, n, 1);
  float most = r.most > -r.least ? r.most : -r.least;
  *scale = scale_of (fabsf (most) / 127.0f, r.is_nan);
  float s = tl_f16_to_f32 (*scale);
  for (guint i = 0; i < n; i++)
    q[i] = (gint8) (s > 0.0f ? round_even (clamp (x[i] / s, -127.0f, 127.0f)) : 0.0f);
}

void
TL_FN (tl_encode_row) (const TlTile *t, gpointer tile, guint at, const float *x)
{
  guint8 *row = (guint8 *) tile + at * t->row_bytes;
  guint16 *scale = (guint16 *) ((guint8 *) tile + tl_tile_row_scales_at (t, at));
  switch (t->form)
    {
    case TL_TILE_F16:
      TL_FN (tl_to_half) (x, t->dim, (guint16 *) row);
      break;
    case TL_TILE_F32:
      memcpy (row, x, t->row_bytes);
      break;
    case TL_TILE_INT8:
      for (guint g = 0; g < t->n_groups; g++)
        encode_int8 (x + g * t->group, MIN (t->group, t->dim - g * t->group), (gint8 *) row + g * t->group, scale + g);
      break;
    default:                    /* whole tiles only */
      g_assert_not_reached ();
    }
}

void
TL_FN (tl_decode_row) (const TlTile *t, gconstpointer tile, guint at, float *out)
{
  tile_row_to_f32 (t, tile, at, out);
}

/* --- int4: a closed tile --- */

typedef struct { guint16 scale, minimum; float s, m; } Int4;

static Int4
int4_of (const float *x, guint n, gsize step)
{
  Range r = range_of (x, n, step);
  Int4 q = { .minimum = scale_of (r.least, r.is_nan), .scale = scale_of ((r.most - r.least) / 15.0f, r.is_nan) };
  q.s = tl_f16_to_f32 (q.scale);
  q.m = tl_f16_to_f32 (q.minimum);
  return q;
}

static inline guint8
int4_value (float x, float s, float m)
{
  return (guint8) (s > 0.0f ? round_even (clamp ((x - m) / s, 0.0f, 15.0f)) : 0.0f);
}

static inline void
put_nibble (guint8 *row, guint i, guint8 q)
{
  row[i / 2] |= q << (i % 2 * 4);
}

void
TL_FN (tl_close_tile) (const TlTile *t, const guint16 *half, gpointer tile)
{
  guint8 *rows = tile;
  guint16 *scales = (guint16 *) (rows + t->scales_at);
  float x[TL_PAGE_POSITIONS * TL_MAX_HEAD_DIM];
  guint dim = t->dim;
  g_assert (dim <= TL_MAX_HEAD_DIM);
  TlTile stored = { .form = TL_TILE_F16, .dim = dim, .row_bytes = dim * 2 };
  for (guint r = 0; r < TL_PAGE_POSITIONS; r++)
    tile_row_to_f32 (&stored, (const guint8 *) half, r, x + r * dim);
  memset (rows, 0, t->scales_at);
  if (t->form == TL_TILE_INT4_COLUMNS)
    for (guint c = 0; c < dim; c++)
      {
        Int4 q = int4_of (x + c, TL_PAGE_POSITIONS, dim);
        scales[c] = q.scale;
        scales[dim + c] = q.minimum;
        for (guint r = 0; r < TL_PAGE_POSITIONS; r++)
          put_nibble (rows + r * t->row_bytes, c, int4_value (x[r * dim + c], q.s, q.m));
      }
  else
    for (guint r = 0; r < TL_PAGE_POSITIONS; r++)
      for (guint g = 0; g < t->n_groups; g++)
        {
          guint from = g * t->group, to = MIN (from + t->group, dim);
          Int4 q = int4_of (x + r * dim + from, to - from, 1);
          scales[(r * t->n_groups + g) * 2] = q.scale;
          scales[(r * t->n_groups + g) * 2 + 1] = q.minimum;
          for (guint c = from; c < to; c++)
            put_nibble (rows + r * t->row_bytes, c, int4_value (x[r * dim + c], q.s, q.m));
        }
}
