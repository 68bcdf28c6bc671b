/* cpu/tl-linear-simd.c — tl-linear-scalar.c on vectors: one source for avx2, avx512 and vnni (TL_SUFFIX).
 *
 * LANES output rows side by side, up to MAX_M activation rows share one reading of the weights. Integer dots are exact and
 * every float operation is a lane of the scalar one, so the bits are the same.
 */
#include "cpu/tl-simd.h"

/* One call's constants, the same for all blocks */
typedef struct
{
  const TlPackedMatrix *p;
  const TlActivations *a;
  guint n_segments;
  guint bound[TL_MAX_SEGMENTS + 1];     /* first group of each segment */
} Job;

static Job
job_new (const TlPackedMatrix *p, const TlActivations *a)
{
  Job job = { p, a, tl_n_segments (p->n_groups), { 0 } };
  for (guint s = 0; s <= job.n_segments; s++)
    job.bound[s] = tl_segment_begin (s, job.n_segments, p->n_groups);
  return job;
}

/* Stored weights times q over `chunks` times 32 inputs, added to acc[M] */
INLINE void
dot_int4 (Ints *acc, const guint8 *lines, const gint8 *q, gsize stride, guint chunks, guint M)
{
  const Ints low_nibble = V (set1_epi8) (15);
#ifdef __AVX512VNNI__
  const Ints high_nibble = V (set1_epi8) ((char) 0xf0);
  Ints high[MAX_M];             /* 16 times too large, a multiple of 16: no shift per line */
  for (guint m = 0; m < M; m++)
    high[m] = VSI (setzero) ();
  for (guint c = 0; c < chunks; c++, q += 32)
    for (guint j = 0; j < 4; j++, lines += 64)
      {
        prefetch (lines);
        Ints low_w = VSI (and) (load_ints (lines), low_nibble), high_w = VSI (and) (load_ints (lines), high_nibble);
        for (guint m = 0; m < M; m++)
          {
            acc[m] = dot4 (acc[m], low_w, broadcast4 (q + m * stride + 4 * j));
            high[m] = dot4 (high[m], high_w, broadcast4 (q + m * stride + 16 + 4 * j));
          }
      }
  for (guint m = 0; m < M; m++)
    acc[m] = V (add_epi32) (acc[m], V (srai_epi32) (high[m], 4));
#else
  for (guint c = 0; c < chunks; c++, q += 32)
    {
      Ints pairs[MAX_M];        /* 8 terms of at most 2 * 15 * 127 fit 16 bits */
      for (guint m = 0; m < M; m++)
        pairs[m] = VSI (setzero) ();
      for (guint j = 0; j < 4; j++, lines += 64)
        {
          prefetch (lines);
          Ints line = load_ints (lines);
          Ints low_w = VSI (and) (line, low_nibble), high_w = VSI (and) (V (srli_epi16) (line, 4), low_nibble);
          for (guint m = 0; m < M; m++)
            {
              pairs[m] = V (add_epi16) (pairs[m], V (maddubs_epi16) (low_w, broadcast4 (q + m * stride + 4 * j)));
              pairs[m] = V (add_epi16) (pairs[m], V (maddubs_epi16) (high_w, broadcast4 (q + m * stride + 16 + 4 * j)));
            }
        }
      for (guint m = 0; m < M; m++)
        acc[m] = V (add_epi32) (acc[m], V (madd_epi16) (pairs[m], V (set1_epi16) (1)));
    }
#endif
}

INLINE void
dot_int8 (Ints *acc, const guint8 *lines, const gint8 *q, gsize stride, guint chunks, guint M)
{
  for (guint c = 0; c < chunks; c++, q += 32)
    for (guint j = 0; j < 8; j++, lines += 64)
      {
        prefetch (lines);
        Ints line = load_ints (lines);
        for (guint m = 0; m < M; m++)
          acc[m] = dot4 (acc[m], line, broadcast4 (q + m * stride + 4 * j));
      }
}

/* LANES rows × M activation rows of a quantised matrix; out [M] vectors. chunks: inputs of a group / 32, 0 = any.
 * Everything but job, block and first is a constant of the caller. */
INLINE void
tile_quantised (const Job *job, const guint8 *block, guint lane, guint first, guint M, gboolean int4, TlOffset offset,
  TlFormat scale_format, guint chunks, Floats *out)
{
  const TlPackedMatrix *p = job->p;
  const gsize stride = job->a->stride, n_groups = p->n_groups;
  const gint8 *q = job->a->q + first * stride;
  const float *scale = job->a->scale + first * n_groups;
  const gint32 *sum = job->a->sum + first * n_groups;
  const guint8 *lines = block + lane * 4;
  const guint per_group = chunks ? chunks : (p->group + 31) / 32;
  guint left = p->padded_cols / 32, g = 0;
  Floats segment[TL_MAX_SEGMENTS * MAX_M];

  for (guint s = 0; s < job->n_segments; s++)
    {
      Floats acc[MAX_M];
      for (guint m = 0; m < M; m++)
        acc[m] = V (setzero_ps) ();
      for (guint end = job->bound[s + 1]; g < end; g++, scale++, sum++)
        {
          guint n = chunks == 1 ? 1 : MIN (per_group, left);
          Ints dot[MAX_M];
          for (guint m = 0; m < M; m++)
            dot[m] = VSI (setzero) ();
          if (int4)
            dot_int4 (dot, lines, q, stride, n, M);
          else
            dot_int8 (dot, lines, q, stride, n, M);
          lines += n * (int4 ? 256 : 512);
          q += n * 32;
          left -= n;

          Floats weight_scale = load_scales (p, block, g, lane, scale_format);
          Ints zeros = offset == TL_OFFSET_ZERO ? load_zeros (p, block, g, lane) : VSI (setzero) ();
          for (guint m = 0; m < M; m++)
            {
              Ints total = V (set1_epi32) (sum[m * n_groups]);
              if (!int4)                /* stored as q + 128 */
                dot[m] = V (sub_epi32) (dot[m], V (slli_epi32) (total, 7));
              else if (offset == TL_OFFSET_NONE)
                dot[m] = V (sub_epi32) (dot[m], V (slli_epi32) (total, 3));
              if (offset == TL_OFFSET_ZERO)
                dot[m] = V (sub_epi32) (dot[m], V (mullo_epi32) (zeros, total));
              acc[m] = V (fmadd_ps) (V (mul_ps) (weight_scale, V (set1_ps) (scale[m * n_groups])),
                V (cvtepi32_ps) (dot[m]), acc[m]);
              if (offset == TL_OFFSET_MIN)
                acc[m] = V (fmadd_ps) (V (mul_ps) (load_minima (p, block, g, lane), V (set1_ps) (scale[m * n_groups])),
                  V (cvtepi32_ps) (total), acc[m]);
            }
        }
      for (guint m = 0; m < M; m++)
        segment[s * M + m] = acc[m];
    }
  for (guint m = 0; m < M; m++)
    out[m] = tree_sum (segment + m, job->n_segments, M);
}

/* LANES weights of input c in F32 */
INLINE Floats
column (const TlPackedMatrix *p, const guint8 *block, guint lane, guint c, TlFormat format, Floats scale, Floats minimum,
  Ints zero)
{
  gsize i = (gsize) c * TL_TILE_ROWS + lane;
  if (format == TL_F32)
    return V (loadu_ps) ((const float *) block + i);
  if (format == TL_F16)
    return load_f16 ((const guint16 *) block + i);
  if (format == TL_BF16)
    return load_bf16 ((const guint16 *) block + i);

  guint within = c % 32;
  const guint8 *line = format == TL_INT8 ? block + c / 4 * 64 : block + c / 32 * 256 + within % 16 / 4 * 64;
  guint shift = c % 4 * 8 + (format == TL_INT4 ? within / 16 * 4 : 0);
  Ints q = VSI (and) (V (srl_epi32) (load_ints (line + lane * 4), _mm_cvtsi32_si128 (shift)),
    V (set1_epi32) (format == TL_INT8 ? 255 : 15));
  Floats v = V (cvtepi32_ps) (V (sub_epi32) (q, zero));
  return p->offset == TL_OFFSET_MIN ? V (fmadd_ps) (scale, v, minimum) : V (mul_ps) (scale, v);
}

/* LANES rows × M activation rows in F32; out [M] vectors */
INLINE void
tile_float (const Job *job, const guint8 *block, guint lane, guint first, guint M, TlFormat format, Floats *out)
{
  const TlPackedMatrix *p = job->p;
  gsize stride = job->a->stride;
  const float *x = job->a->x + first * stride;
  gboolean quantised = format == TL_INT8 || format == TL_INT4;
  Floats segment[TL_MAX_SEGMENTS * MAX_M], scale = V (setzero_ps) (), minimum = V (setzero_ps) ();
  Ints zero = VSI (setzero) ();

  for (guint s = 0; s < job->n_segments; s++)
    {
      Floats acc[MAX_M];
      for (guint m = 0; m < M; m++)
        acc[m] = V (setzero_ps) ();
      for (guint g = job->bound[s]; g < job->bound[s + 1]; g++)
        {
          if (quantised)
            {
              scale = load_scales (p, block, g, lane, p->scale_format);
              zero = V (set1_epi32) (format == TL_INT8 ? 128 : p->offset == TL_OFFSET_NONE ? 8 : 0);
              if (p->offset == TL_OFFSET_ZERO)
                zero = V (add_epi32) (zero, load_zeros (p, block, g, lane));
              else if (p->offset == TL_OFFSET_MIN)
                minimum = load_minima (p, block, g, lane);
            }
          guint end = MIN (p->cols, (g + 1) * p->group);
          for (guint c = g * p->group; c < end; c++)
            {
              Floats w = column (p, block, lane, c, format, scale, minimum, zero);
              for (guint m = 0; m < M; m++)
                acc[m] = V (fmadd_ps) (w, V (set1_ps) (x[m * stride + c]), acc[m]);
            }
        }
      for (guint m = 0; m < M; m++)
        segment[s * M + m] = acc[m];
    }
  for (guint m = 0; m < M; m++)
    out[m] = tree_sum (segment + m, job->n_segments, M);
}

typedef void (*Tile) (const Job *job, const guint8 *block, guint lane, guint first, Floats *out);

/* One function per number of activation rows, and per case for the cases that decoding lives on. */
#define TILE(name, M, call) \
  static void name##_##M (const Job *job, const guint8 *block, guint lane, guint first, Floats *out) { call; }
#define TILE_Q(name, M, int4, offset, scale, chunks) \
  TILE (name, M, tile_quantised (job, block, lane, first, M, int4, offset, scale, chunks, out))
#define TILE_F(name, M, format) TILE (name, M, tile_float (job, block, lane, first, M, format, out))
#if MAX_M == 8
#define EACH(T, name, ...) T (name, 1, __VA_ARGS__) T (name, 2, __VA_ARGS__) T (name, 3, __VA_ARGS__) \
  T (name, 4, __VA_ARGS__) T (name, 5, __VA_ARGS__) T (name, 6, __VA_ARGS__) T (name, 7, __VA_ARGS__) T (name, 8, __VA_ARGS__) \
  static const Tile name[] = { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8 };
#else
#define EACH(T, name, ...) T (name, 1, __VA_ARGS__) T (name, 2, __VA_ARGS__) T (name, 3, __VA_ARGS__) T (name, 4, __VA_ARGS__) \
  static const Tile name[] = { name##_1, name##_2, name##_3, name##_4 };
#endif

EACH (TILE_Q, int4_32, TRUE, TL_OFFSET_NONE, TL_F16, 1)
EACH (TILE_Q, int4_64, TRUE, TL_OFFSET_NONE, TL_F16, 2)
EACH (TILE_Q, int4_128, TRUE, TL_OFFSET_NONE, TL_F16, 4)
EACH (TILE_Q, int4_any, TRUE, job->p->offset, job->p->scale_format, 0)
EACH (TILE_Q, int8_32, FALSE, TL_OFFSET_NONE, TL_F16, 1)
EACH (TILE_Q, int8_any, FALSE, job->p->offset, job->p->scale_format, 0)
EACH (TILE_F, f32, TL_F32)
EACH (TILE_F, f16, TL_F16)
EACH (TILE_F, bf16, TL_BF16)
EACH (TILE_F, int8_exact, TL_INT8)
EACH (TILE_F, int4_exact, TL_INT4)

static void
run (const Tile *tiles, const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin,
  guint row_end, float *out, gsize ld)
{
  Job job = job_new (p, a);
  for (guint r = row_begin; r < row_end; r += LANES)
    {
      const guint8 *block = p->blocks + r / TL_TILE_ROWS * p->block_bytes;
      for (guint m = 0; m < n_rows; m += MAX_M)
        {
          Floats result[MAX_M];
          guint n = MIN (MAX_M, n_rows - m);
          tiles[n - 1] (&job, block, r % TL_TILE_ROWS, first + m, result);
          for (guint i = 0; i < n; i++)
            store_some (out + (m + i) * ld + r, result[i], row_end - r);
        }
    }
}

void
TL_FN (tl_linear_exact) (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin,
  guint row_end, float *out, gsize ld)
{
  static const Tile *const tiles[] = { f32, f16, bf16, int8_exact, int4_exact };        /* by TlFormat */
  run (tiles[p->format], p, a, first, n_rows, row_begin, row_end, out, ld);
}

void
TL_FN (tl_linear) (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin,
  guint row_end, float *out, gsize ld)
{
  gboolean usual = p->offset == TL_OFFSET_NONE && p->scale_format == TL_F16;
  const Tile *tiles = p->format == TL_INT8 ? (usual && p->group == 32 ? int8_32 : int8_any)
    : !usual ? int4_any : p->group == 32 ? int4_32 : p->group == 64 ? int4_64 : p->group == 128 ? int4_128 : int4_any;
  if (p->format != TL_INT4 && p->format != TL_INT8)
    TL_FN (tl_linear_exact) (p, a, first, n_rows, row_begin, row_end, out, ld);
  else
    run (tiles, p, a, first, n_rows, row_begin, row_end, out, ld);
}
