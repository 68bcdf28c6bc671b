/* cpu/tl-attend.c — attention of one kv head over the pages of one split: the definition of its bits.
 *
 * Inside a split: all scores (16-lane dot), the exact maximum, exponentials summed by position mod 16, the weighted values
 * as one fmaf chain per channel in order of positions. Rows and heads are independent of one another. Invisible positions
 * execute nothing. tl-attend-simd.c gives the same bits.
 */
#include "cpu/tl-tile.h"

#define MAX_DIM TL_MAX_HEAD_DIM

/* a row of K or V in F32: itself, or widened into `buffer` */
static inline const float *
row_f32 (const TlAttend *a, gboolean v, guint position, float *buffer)
{
  guint page = position / TL_PAGE_POSITIONS, at = position % TL_PAGE_POSITIONS;
  const TlAttendPages *p = page < a->first_open ? &a->closed : &a->open;
  const TlTile *tile = v ? &p->v : &p->k;
  const guint8 *data = (const guint8 *) p->pages[page] + (v ? p->v_at : p->k_at);
  if (tile->form == TL_TILE_F32)
    return (const float *) (data + at * tile->row_bytes);

  tile_row_to_f32 (tile, data, at, buffer);
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
attend_head (const TlAttend *a, guint row, const float *q, float *partial)
{
  float score[TL_SPLIT_POSITIONS], buffer[MAX_DIM];
  guint begin = a->begin[row], n = a->end[row] - begin, dim = a->head_dim;
  float maximum = -INFINITY;

  for (guint t = 0; t < n; t++)
    {
      float s = dot (q, row_f32 (a, FALSE, begin + t, buffer), dim) * a->scale;
      score[t] = a->softcap != 0.0f ? tl_softcapf (s, a->softcap) : s;
      maximum = score[t] > maximum ? score[t] : maximum;
    }
  partial[0] = maximum;
  partial[1] = exponentials (score, begin, n, maximum);

  float *restrict acc = partial + 16;
  for (guint c = 0; c < dim; c++)
    acc[c] = 0.0f;
  for (guint t = 0; t < n; t++)
    {
      const float *v = row_f32 (a, TRUE, begin + t, buffer);
      for (guint c = 0; c < dim; c++)
        acc[c] = fmaf (score[t], v[c], acc[c]);
    }
}

void
TL_FN (tl_attend_split) (const TlAttend *a, float *partial)
{
  g_assert (a->head_dim <= MAX_DIM);
  for (guint r = 0; r < a->n_rows; r++)
    for (guint h = 0; h < a->n_q && a->begin[r] < a->end[r]; h++)
      attend_head (a, r, a->q[r] + h * a->head_dim, partial + (r * a->n_q + h) * TL_PARTIAL_STRIDE (a->head_dim));
}
