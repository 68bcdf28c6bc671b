/* cpu/tl-linear-scalar.c — matrix times rows: the definition of the bits of every linear.
 *
 * Groups of inputs are cut into at most 16 segments; one fmaf chain runs in order inside a segment; segments are joined by
 * the neighbour tree. Quantised weights: one link of the chain per group (two with minima). Float weights and exact
 * activations: one link per input.
 */
#include "cpu/tl-kernels-private.h"

static inline const guint8 *
block_of_row (const TlPackedMatrix *p, guint r)
{
  return p->blocks + r / TL_TILE_ROWS * p->block_bytes;
}

static float
segment_quantised (const TlPackedMatrix *p, const guint8 *block, guint lane, const gint8 *q, const float *scale,
  const gint32 *sum, guint g, guint end)
{
  float acc = 0.0f;
  for (; g < end; g++)
    {
      gint32 dot = 0;
      for (guint c = g * p->group; c < MIN (p->cols, (g + 1) * p->group); c++)
        dot += tl_packed_q (p, block, lane, c) * q[c];
      dot -= tl_packed_zero (p, block, g, lane) * sum[g];
      acc = fmaf (tl_packed_scale (p, block, g, lane) * scale[g], (float) dot, acc);
      if (p->offset == TL_OFFSET_MIN)
        acc = fmaf (tl_packed_minimum (p, block, g, lane) * scale[g], (float) sum[g], acc);
    }
  return acc;
}

static float
segment_exact (const TlPackedMatrix *p, const guint8 *block, guint lane, const float *x, guint g, guint end)
{
  float acc = 0.0f;
  for (guint c = g * p->group; c < MIN (p->cols, end * p->group); c++)
    acc = fmaf (tl_packed_element (p, block, lane, c), x[c], acc);
  return acc;
}

static void
linear (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin, guint row_end,
  float *out, gsize ld, gboolean exact)
{
  guint n_segments = tl_n_segments (p->n_groups);
  for (guint m = 0; m < n_rows; m++)
    for (guint r = row_begin; r < row_end; r++)
      {
        float segment[TL_MAX_SEGMENTS];
        gsize i = (gsize) (first + m) * a->n_groups;
        for (guint s = 0; s < n_segments; s++)
          {
            guint g = tl_segment_begin (s, n_segments, p->n_groups), end = tl_segment_begin (s + 1, n_segments, p->n_groups);
            segment[s] = exact
              ? segment_exact (p, block_of_row (p, r), r % TL_TILE_ROWS, a->x + (first + m) * a->stride, g, end)
              : segment_quantised (p, block_of_row (p, r), r % TL_TILE_ROWS, a->q + (first + m) * a->stride,
                  a->scale + i, a->sum + i, g, end);
          }
        out[m * ld + r] = tl_tree_sum (segment, n_segments);
      }
}

void
tl_linear_exact_scalar (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin,
  guint row_end, float *out, gsize ld)
{
  linear (p, a, first, n_rows, row_begin, row_end, out, ld, TRUE);
}

void
tl_linear_scalar (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin, guint row_end,
  float *out, gsize ld)
{
  linear (p, a, first, n_rows, row_begin, row_end, out, ld, p->format != TL_INT8 && p->format != TL_INT4);
}
