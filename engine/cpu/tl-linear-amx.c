/* cpu/tl-linear-amx.c — quantised matrices times 16 and more rows, on tiles; the rest goes to the vnni kernels.
 *
 * A tile product is 16 activation rows × 16 output rows × 64 inputs (32 where a group ends), integers and so exact; what
 * follows per group is tl-linear-scalar.c's fmaf in its order: the same bits. Packed INT8 is a tile as it lies there, INT4
 * becomes one a group at a time. A strip of two row tiles shares one reading of the weights. Tiles are released before a
 * call returns, so no other code of the thread carries their state.
 */
#include "cpu/tl-tiles.h"
#include "cpu/tl-simd.h"

#define TILE 16u                /* rows of a tile */
#define STRIP (2 * TILE)        /* activation rows at once */
#define MAX_GROUP 128u

/* A strip's tiles: dots of its two row tiles, and for products over 64 and over 32 inputs the rows and the weights. The
 * second row tile is used when the strip has more than TILE rows. */
#define DOTS 0
#define DOTS_2 1
#define ROWS_64 2
#define ROWS_64_2 3
#define WEIGHTS_64 4
#define ROWS_32 5
#define ROWS_32_2 6
#define WEIGHTS_32 7

static void
configure (guint n)
{
  guint8 one = MIN (n, TILE), two = n - one;
  TlTileShapes shapes = { .palette = 1, .rows = { one, two, one, two, 16, one, two, 8 } };
  static const guint8 row_bytes[] = { 64, 64, 64, 64, 64, 32, 32, 64 };
  for (guint t = 0; t < G_N_ELEMENTS (row_bytes); t++)
    shapes.row_bytes[t] = shapes.rows[t] ? row_bytes[t] : 0;
  tl_tile_configure (&shapes);
}

/* n rows of q times weights over `chunks` times 32 inputs; dots [n rounded up to TILE][TILE] */
static void
dot_group (const guint8 *weights, const gint8 *q, gsize stride, guint chunks, guint n, gint32 *dots)
{
  const gint8 *q2 = q + TILE * stride;
  tl_tile_zero (DOTS);
  if (n > TILE)
    tl_tile_zero (DOTS_2);
  for (; chunks >= 2; chunks -= 2, weights += 64 * TILE, q += 64, q2 += 64)
    {
      tl_tile_load (WEIGHTS_64, weights, 64);
      tl_tile_load (ROWS_64, q, stride);
      tl_tile_dot (DOTS, ROWS_64, WEIGHTS_64);
      if (n > TILE)
        {
          tl_tile_load (ROWS_64_2, q2, stride);
          tl_tile_dot (DOTS_2, ROWS_64_2, WEIGHTS_64);
        }
    }
  if (chunks)
    {
      tl_tile_load (WEIGHTS_32, weights, 64);
      tl_tile_load (ROWS_32, q, stride);
      tl_tile_dot (DOTS, ROWS_32, WEIGHTS_32);
      if (n > TILE)
        {
          tl_tile_load (ROWS_32_2, q2, stride);
          tl_tile_dot (DOTS_2, ROWS_32_2, WEIGHTS_32);
        }
    }
  tl_tile_store (DOTS, dots, 64);
  if (n > TILE)
    tl_tile_store (DOTS_2, dots + TILE * TILE, 64);
}

/* `chunks` times 32 inputs of INT4 in the order of INT8: nibbles 0 … 15 as bytes */
static void
unpack_int4 (const guint8 *lines, guint chunks, guint8 *bytes)
{
  const Ints nibble = V (set1_epi8) (15);
  for (; chunks; chunks--, bytes += 512)
    for (guint j = 0; j < 4; j++, lines += 64)
      {
        Ints line = load_ints (lines);
        VSI (storeu) ((void *) (bytes + j * 64), VSI (and) (line, nibble));
        VSI (storeu) ((void *) (bytes + 256 + j * 64), VSI (and) (V (srli_epi16) (line, 4), nibble));
      }
}

/* one link of the chain, for n rows of 16 lanes; scale and sum: of the first row and group g */
INLINE void
add_group (const TlPackedMatrix *p, const guint8 *block, guint g, TlOffset offset, const gint32 *dots, const float *scale,
  const gint32 *sum, guint n, Floats *acc)
{
  gint32 stored_zero = p->format == TL_INT8 ? 128 : offset == TL_OFFSET_NONE ? 8 : 0;
  Floats weight_scale = load_scales (p, block, g, 0, p->scale_format), minimum = V (setzero_ps) ();
  Ints zero = V (set1_epi32) (stored_zero);
  if (offset == TL_OFFSET_ZERO)
    zero = V (add_epi32) (zero, load_zeros (p, block, g, 0));
  if (offset == TL_OFFSET_MIN)
    minimum = load_minima (p, block, g, 0);

  for (guint m = 0; m < n; m++, dots += TILE, scale += p->n_groups, sum += p->n_groups)
    {
      Floats activation_scale = V (set1_ps) (*scale);
      Ints rest = offset == TL_OFFSET_ZERO ? V (mullo_epi32) (zero, V (set1_epi32) (*sum))
        : V (set1_epi32) (stored_zero * *sum);
      acc[m] = V (fmadd_ps) (V (mul_ps) (weight_scale, activation_scale),
        V (cvtepi32_ps) (V (sub_epi32) (load_ints (dots), rest)), acc[m]);
      if (offset == TL_OFFSET_MIN)
        acc[m] = V (fmadd_ps) (V (mul_ps) (minimum, activation_scale), V (set1_ps) ((float) *sum), acc[m]);
    }
}

/* 16 output rows × n activation rows from `first` on, the first `wanted` outputs stored; offset: a constant of the caller */
INLINE void
block_times_strip (const TlPackedMatrix *p, const guint8 *block, const TlActivations *a, guint first, guint n,
  TlOffset offset, guint wanted, float *out, gsize ld)
{
  __attribute__ ((aligned (64))) guint8 bytes[MAX_GROUP * TILE];
  __attribute__ ((aligned (64))) gint32 dots[STRIP * TILE];
  Floats segment[TL_MAX_SEGMENTS * STRIP];
  const gint8 *q = a->q + first * a->stride;
  const guint8 *weights = block;
  gsize at = (gsize) first * p->n_groups;
  guint n_segments = tl_n_segments (p->n_groups), left = p->padded_cols / 32, g = 0;

  for (guint s = 0; s < n_segments; s++)
    {
      Floats *acc = segment + s * STRIP;
      for (guint m = 0; m < n; m++)
        acc[m] = V (setzero_ps) ();
      for (guint end = tl_segment_begin (s + 1, n_segments, p->n_groups); g < end; g++)
        {
          guint chunks = MIN ((p->group + 31) / 32, left);
          if (p->format == TL_INT4)
            unpack_int4 (weights, chunks, bytes);
          dot_group (p->format == TL_INT4 ? bytes : weights, q, a->stride, chunks, n, dots);
          add_group (p, block, g, offset, dots, a->scale + at + g, a->sum + at + g, n, acc);
          weights += chunks * (p->format == TL_INT4 ? 256 : 512);
          q += chunks * 32;
          left -= chunks;
        }
    }
  for (guint m = 0; m < n; m++)
    store_some (out + m * ld, tree_sum (segment + m, n_segments, STRIP), wanted);
}

typedef void (*Block) (const TlPackedMatrix *p, const guint8 *block, const TlActivations *a, guint first, guint n,
  guint wanted, float *out, gsize ld);

#define BLOCK(name, offset) \
  static void name (const TlPackedMatrix *p, const guint8 *block, const TlActivations *a, guint first, guint n, guint wanted, \
    float *out, gsize ld) { block_times_strip (p, block, a, first, n, offset, wanted, out, ld); }
BLOCK (symmetric, TL_OFFSET_NONE)
BLOCK (with_zeros, TL_OFFSET_ZERO)
BLOCK (with_minima, TL_OFFSET_MIN)

void
TL_FN (tl_linear) (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin,
  guint row_end, float *out, gsize ld)
{
  if (n_rows < TILE || (p->format != TL_INT8 && p->format != TL_INT4))
    {
      tl_linear_vnni (p, a, first, n_rows, row_begin, row_end, out, ld);
      return;
    }
  Block times_strip = p->offset == TL_OFFSET_ZERO ? with_zeros : p->offset == TL_OFFSET_MIN ? with_minima : symmetric;
  for (guint m = 0; m < n_rows; m += STRIP)
    {
      guint n = MIN (STRIP, n_rows - m);
      configure (n);
      for (guint r = row_begin; r < row_end; r += TL_TILE_ROWS)
        times_strip (p, p->blocks + r / TL_TILE_ROWS * p->block_bytes, a, first + m, n, row_end - r, out + m * ld + r, ld);
    }
  tl_tile_release ();
}

void
TL_FN (tl_linear_exact) (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin,
  guint row_end, float *out, gsize ld)
{
  tl_linear_exact_vnni (p, a, first, n_rows, row_begin, row_end, out, ld);
}

/* n rows of every kind of product that linears are made of, against plain C */
static gboolean
strip_is_right (guint n)
{
  enum { CHUNKS = 3, INPUTS = 32 * CHUNKS };    /* a product over 64 inputs, then one over 32 */
  __attribute__ ((aligned (64))) guint8 weights[INPUTS * TILE];
  gint8 q[STRIP * INPUTS];
  gint32 dots[STRIP * TILE];
  for (guint i = 0; i < G_N_ELEMENTS (weights); i++)
    weights[i] = i * 167 + i / 64 * 29 + 200;
  for (guint i = 0; i < G_N_ELEMENTS (q); i++)
    q[i] = (gint) (i * 89 + i / INPUTS * 31) % 255 - 127;

  configure (n);
  dot_group (weights, q, INPUTS, CHUNKS, n, dots);
  tl_tile_release ();
  for (guint m = 0; m < n; m++)
    for (guint r = 0; r < TILE; r++)
      {
        gint32 dot = 0;
        for (guint c = 0; c < INPUTS; c++)
          dot += q[m * INPUTS + c] * weights[c / 4 * 64 + r * 4 + c % 4];
        if (dot != dots[m * TILE + r])
          return FALSE;
      }
  return TRUE;
}

gboolean
TL_FN (tl_tiles_are_right) (void)
{
  return strip_is_right (STRIP) && strip_is_right (TILE + 1) && strip_is_right (TILE);
}
