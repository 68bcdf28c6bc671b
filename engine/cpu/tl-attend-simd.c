/* cpu/tl-attend-simd.c — tl-attend.c on vectors: one source for avx2 and avx512 (TL_SUFFIX).
 *
 * K and V of a page are widened once for all rows and heads of the call. Scores come four positions at a time, so that the
 * neighbour tree over 16 lanes works on whole vectors; weighted values keep four heads' sums in registers. Every float
 * operation is a lane of the scalar one, so the bits are the same: lanes beyond head_dim hold zeros, and an invisible position
 * in a vector of scores is minus infinity, whose exponential is an exact zero.
 */
#include "cpu/tl-tile.h"

#define PAGE ((guint) TL_PAGE_POSITIONS)
#define MAX_DIM TL_MAX_HEAD_DIM
#define ALIGNED __attribute__ ((aligned (64)))
#define PARTS (16 / LANES)      /* vectors of a position's 16 lanes */
#define SHARED (LANES == 16 ? 4u : 2u)  /* heads that share one reading of V */

/* what a page of K or V is read from */
typedef struct { const TlTile *form; const guint8 *data; } Tile;

static inline Tile
tile_of (const TlAttend *a, gboolean v, guint position)
{
  const TlAttendPages *p = position / PAGE < a->first_open ? &a->closed : &a->open;
  return (Tile) { v ? &p->v : &p->k, (const guint8 *) p->pages[position / PAGE] + (v ? p->v_at : p->k_at) };
}

/* Positions begin … end - 1 of one page in F32: out [32][width], zeros beyond head_dim. next: what will be widened after
 * it, fetched meanwhile; its data may be NULL */
static void
widen (const TlAttend *a, gboolean v, guint begin, guint end, Tile next, guint width, float *out)
{
  const Tile tile = tile_of (a, v, begin);
  for (guint t = begin % PAGE; t < begin % PAGE + (end - begin); t++)
    {
      for (guint i = 0; next.data && i < next.form->row_bytes; i += 64)
        _mm_prefetch ((const char *) next.data + t * next.form->row_bytes + i, _MM_HINT_T0);
      float *row = out + (gsize) t * width;
      tile_row_to_f32 (tile.form, tile.data, t, row);
      for (guint i = a->head_dim; i < width; i++)
        row[i] = 0.0f;
    }
}

/* neighbours of two vectors added, in every 16 bytes: a0+a1, a2+a3, b0+b1, b2+b3 */
INLINE Floats
add_neighbours (Floats a, Floats b)
{
  return V (add_ps) (V (shuffle_ps) (a, b, 0x88), V (shuffle_ps) (a, b, 0xdd));
}

INLINE __m128
add_halves (__m256 v)
{
  return _mm_add_ps (_mm256_castps256_ps128 (v), _mm256_extractf128_ps (v, 1));
}

/* q · k of four positions: k [4][width] */
INLINE __m128
four_dots (const float *q, const float *k, guint width)
{
  Floats acc[4][PARTS];
  for (guint t = 0; t < 4; t++)
    for (guint part = 0; part < PARTS; part++)
      acc[t][part] = V (setzero_ps) ();
  for (guint i = 0; i < width; i += 16)
    for (guint part = 0; part < PARTS; part++)
      {
        Floats x = V (loadu_ps) (q + i + part * LANES);
        for (guint t = 0; t < 4; t++)
          acc[t][part] = V (fmadd_ps) (x, V (loadu_ps) (k + t * width + i + part * LANES), acc[t][part]);
      }
  Floats sum[PARTS];
  for (guint part = 0; part < PARTS; part++)
    sum[part] = add_neighbours (add_neighbours (acc[0][part], acc[1][part]), add_neighbours (acc[2][part], acc[3][part]));
#ifdef __AVX512F__
  return _mm_add_ps (add_halves (_mm512_castps512_ps256 (sum[0])), add_halves (_mm512_extractf32x8_ps (sum[0], 1)));
#else
  return _mm_add_ps (add_halves (sum[0]), add_halves (sum[1]));
#endif
}

/* scores of positions begin … end - 1 (places in the split) become exponentials, the rest of their 16s zeros; partial [0]
 * is their maximum, [1] the sum */
static void
exponentials (float *score, guint begin, guint end, float softcap, float *partial)
{
  guint from = begin / 16 * 16, to = (end + 15) / 16 * 16;
  for (guint t = begin; softcap != 0.0f && t < end; t++)
    score[t] = tl_softcapf (score[t], softcap);
  for (guint t = from; t < begin; t++)
    score[t] = -INFINITY;
  for (guint t = end; t < to; t++)
    score[t] = -INFINITY;

  float most[16], lane[16] = { 0 };
  for (guint j = 0; j < 16; j++)
    most[j] = -INFINITY;
  for (guint t = from; t < to; t += LANES)
    V (storeu_ps) (most + t % 16, V (max_ps) (V (loadu_ps) (score + t), V (loadu_ps) (most + t % 16)));
  float maximum = -INFINITY;
  for (guint j = 0; j < 16; j++)
    maximum = most[j] > maximum ? most[j] : maximum;

  for (guint t = from; t < to; t++)
    score[t] = tl_expf (score[t] - maximum);
  for (guint t = from; t < to; t += 16)
    for (guint j = 0; j < 16; j++)
      lane[j] += score[t + j];
  partial[0] = maximum;
  partial[1] = tl_tree_sum (lane, 16);
}

/* acc [n_heads][stride]: adds score · V of n positions, `vectors` vectors of channels of n_heads heads */
INLINE void
weigh (float *acc, gsize stride, const float *score, const float *v, guint width, guint n, guint n_heads, guint vectors)
{
  Floats sum[4][4];
  for (guint h = 0; h < n_heads; h++)
    for (guint c = 0; c < vectors; c++)
      sum[h][c] = V (loadu_ps) (acc + h * stride + c * LANES);
  for (guint t = 0; t < n; t++, v += width)
    {
      Floats value[4];
      for (guint c = 0; c < vectors; c++)
        value[c] = V (loadu_ps) (v + c * LANES);
      for (guint h = 0; h < n_heads; h++)
        {
          Floats p = V (set1_ps) (score[h * TL_SPLIT_POSITIONS + t]);
          for (guint c = 0; c < vectors; c++)
            sum[h][c] = V (fmadd_ps) (p, value[c], sum[h][c]);
        }
    }
  for (guint h = 0; h < n_heads; h++)
    for (guint c = 0; c < vectors; c++)
      V (storeu_ps) (acc + h * stride + c * LANES, sum[h][c]);
}

INLINE void
weigh_channels (float *acc, gsize stride, const float *score, const float *v, guint width, guint n, guint n_heads)
{
  guint c = 0;
  for (; c + 4 * LANES <= width; c += 4 * LANES)
    weigh (acc + c, stride, score, v + c, width, n, n_heads, 4);
  for (; c < width; c += LANES)
    weigh (acc + c, stride, score, v + c, width, n, n_heads, 1);
}

static void
weigh_heads (float *acc, gsize stride, const float *score, const float *v, guint width, guint n, guint n_heads)
{
  for (guint h = 0; h < n_heads; h += SHARED)
    {
      float *to = acc + h * stride;
      const float *p = score + h * TL_SPLIT_POSITIONS;
      switch (MIN (SHARED, n_heads - h))
        {
        case 1: weigh_channels (to, stride, p, v, width, n, 1); break;
        case 2: weigh_channels (to, stride, p, v, width, n, 2); break;
        case 3: weigh_channels (to, stride, p, v, width, n, 3); break;
        default: weigh_channels (to, stride, p, v, width, n, 4); break;
        }
    }
}

/* heads `first` … first + n_heads - 1 of every row, at most TL_ATTEND_QUERIES together */
static void
attend_heads (const TlAttend *a, guint first, guint n_heads, float *partial)
{
  const guint width = (a->head_dim + 15) / 16 * 16;
  const gsize stride = TL_PARTIAL_STRIDE (a->head_dim);
  float score[TL_ATTEND_QUERIES][TL_SPLIT_POSITIONS] ALIGNED;
  float tile[PAGE * MAX_DIM] ALIGNED, query[TL_ATTEND_QUERIES * MAX_DIM] ALIGNED;
  guint begin = G_MAXUINT, end = 0;

  for (guint r = 0; r < a->n_rows; r++)
    {
      if (a->begin[r] < a->end[r])
        begin = MIN (begin, a->begin[r]), end = MAX (end, a->end[r]);
      for (guint h = 0; h < n_heads; h++)
        {
          float *q = query + (r * n_heads + h) * width;
          memset (q, 0, width * sizeof (float));
          memcpy (q, a->q[r] + (first + h) * a->head_dim, a->head_dim * sizeof (float));
        }
    }

  for (guint from = begin, to; from < end; from = to)
    {
      to = MIN (end, (from / PAGE + 1) * PAGE);
      widen (a, FALSE, from, to, to < end ? tile_of (a, FALSE, to) : tile_of (a, TRUE, begin), width, tile);
      for (guint r = 0; r < a->n_rows; r++)
        {
          guint last = MIN (to, a->end[r]);
          for (guint t = MAX (from, a->begin[r]) & ~3u; t < last; t += 4)
            for (guint h = 0; h < n_heads; h++)
              _mm_storeu_ps (&score[r * n_heads + h][t % TL_SPLIT_POSITIONS],
                _mm_mul_ps (four_dots (query + (r * n_heads + h) * width, tile + t % PAGE * width, width),
                  _mm_set1_ps (a->scale)));
        }
    }

  for (guint r = 0; r < a->n_rows; r++)
    for (guint h = 0; h < n_heads && a->begin[r] < a->end[r]; h++)
      {
        float *out = partial + (r * a->n_q + first + h) * stride;
        guint at = a->begin[r] % TL_SPLIT_POSITIONS;
        memset (out, 0, stride * sizeof (float));
        exponentials (score[r * n_heads + h], at, at + a->end[r] - a->begin[r], a->softcap, out);
      }

  for (guint from = begin, to; from < end; from = to)
    {
      to = MIN (end, (from / PAGE + 1) * PAGE);
      widen (a, TRUE, from, to, to < end ? tile_of (a, TRUE, to) : (Tile) { NULL, NULL }, width, tile);
      for (guint r = 0; r < a->n_rows; r++)
        {
          guint t = MAX (from, a->begin[r]), last = MIN (to, a->end[r]);
          if (t < last)
            weigh_heads (partial + (r * a->n_q + first) * stride + 16, stride,
              &score[r * n_heads][t % TL_SPLIT_POSITIONS], tile + t % PAGE * width, width, last - t, n_heads);
        }
    }
}

void
TL_FN (tl_attend_split) (const TlAttend *a, float *partial)
{
  g_assert (a->head_dim <= MAX_DIM);
  g_assert (a->n_rows == 1 || a->n_rows * a->n_q <= TL_ATTEND_QUERIES);
  for (guint h = 0; h < a->n_q; h += TL_ATTEND_QUERIES)
    attend_heads (a, h, MIN (TL_ATTEND_QUERIES, a->n_q - h), partial);
}
