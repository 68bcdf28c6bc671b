/* cpu/tl-simd.h — the vectors of tl-linear-simd.c: 16 lanes with AVX-512, 8 with AVX2, under one set of names. */
#pragma once

#include <immintrin.h>

#include "cpu/tl-kernels-private.h"

#ifdef __AVX512F__
#define LANES 16
#define MAX_M 8                 /* activation rows that share one reading of the weights */
typedef __m512i Ints;
typedef __m512 Floats;
#define V(name) _mm512_##name
#define VSI(name) _mm512_##name##_si512
#define LOAD_HALF(p) _mm256_loadu_si256 ((const __m256i *) (p))
#define LOAD_BYTES(p) _mm_loadu_si128 ((const __m128i *) (p))
#else
#define LANES 8
#define MAX_M 4
typedef __m256i Ints;
typedef __m256 Floats;
#define V(name) _mm256_##name
#define VSI(name) _mm256_##name##_si256
#define LOAD_HALF(p) _mm_loadu_si128 ((const __m128i *) (p))
#define LOAD_BYTES(p) _mm_loadl_epi64 ((const __m128i *) (p))
#endif

#define INLINE static inline __attribute__ ((always_inline))

/* Weights are read once and in order, but with pauses that the processor's own prefetcher does not bridge: without this a
 * model that lies beyond L2 decodes at half the speed. Past a matrix's end it does nothing. */
#define PREFETCH_BYTES 8192

INLINE void
prefetch (const guint8 *weights)
{
  _mm_prefetch ((const char *) weights + PREFETCH_BYTES, _MM_HINT_T0);
}

INLINE Ints
load_ints (const void *p)
{
  return VSI (loadu) ((const void *) p);
}

INLINE Floats
load_f16 (const guint16 *p)
{
  return V (cvtph_ps) (LOAD_HALF (p));
}

INLINE Floats
load_bf16 (const guint16 *p)
{
#ifdef __AVX512F__
  return _mm512_castsi512_ps (_mm512_slli_epi32 (_mm512_cvtepu16_epi32 (LOAD_HALF (p)), 16));
#else
  return _mm256_castsi256_ps (_mm256_slli_epi32 (_mm256_cvtepu16_epi32 (LOAD_HALF (p)), 16));
#endif
}

INLINE Ints
broadcast4 (const gint8 *q)
{
  gint32 four;
  memcpy (&four, q, 4);
  return V (set1_epi32) (four);
}

/* acc + sum of four products a lane; w unsigned, q signed */
INLINE Ints
dot4 (Ints acc, Ints w, Ints q)
{
#ifdef __AVX512VNNI__
  return _mm512_dpbusd_epi32 (acc, w, q);
#else           /* pairs of full bytes do not fit 16 bits, so even and odd bytes go apart */
  Ints even = V (madd_epi16) (VSI (and) (w, V (set1_epi16) (0xff)), V (srai_epi16) (V (slli_epi16) (q, 8), 8));
  Ints odd = V (madd_epi16) (V (srli_epi16) (w, 8), V (srai_epi16) (q, 8));
  return V (add_epi32) (acc, V (add_epi32) (even, odd));
#endif
}

/* scales of LANES rows of group g from row `lane` on */
INLINE Floats
load_scales (const TlPackedMatrix *p, const guint8 *block, guint g, guint lane, TlFormat format)
{
  const guint8 *scales = block + p->scales_at;
  guint i = g * TL_TILE_ROWS + lane;
  return format == TL_F16 ? load_f16 ((const guint16 *) scales + i)
    : format == TL_BF16 ? load_bf16 ((const guint16 *) scales + i) : V (loadu_ps) ((const float *) scales + i);
}

INLINE Floats
load_minima (const TlPackedMatrix *p, const guint8 *block, guint g, guint lane)
{
  return load_f16 ((const guint16 *) (block + p->extra_at) + g * TL_TILE_ROWS + lane);
}

/* zeros as integers, for matrices with TL_OFFSET_ZERO */
INLINE Ints
load_zeros (const TlPackedMatrix *p, const guint8 *block, guint g, guint lane)
{
  return V (cvtepu8_epi32) (LOAD_BYTES (block + p->extra_at + g * TL_TILE_ROWS + lane));
}

/* neighbour tree over n vectors that lie `step` apart; destroys them */
INLINE Floats
tree_sum (Floats *v, guint n, guint step)
{
  if (n == 16)                  /* the usual case, without loops */
    {
      for (guint i = 0; i < 8; i++)
        v[i * step] = V (add_ps) (v[2 * i * step], v[(2 * i + 1) * step]);
      for (guint i = 0; i < 4; i++)
        v[i * step] = V (add_ps) (v[2 * i * step], v[(2 * i + 1) * step]);
      return V (add_ps) (V (add_ps) (v[0], v[step]), V (add_ps) (v[2 * step], v[3 * step]));
    }
  for (; n > 1; n = (n + 1) / 2)
    {
      for (guint i = 0; i < n / 2; i++)
        v[i * step] = V (add_ps) (v[2 * i * step], v[(2 * i + 1) * step]);
      if (n % 2)
        v[n / 2 * step] = v[(n - 1) * step];
    }
  return v[0];
}

/* stores the first n of LANES results */
INLINE void
store_some (float *out, Floats v, guint n)
{
  if (n >= LANES)
    {
      V (storeu_ps) (out, v);
      return;
    }
  float all[LANES];
  V (storeu_ps) (all, v);
  for (guint i = 0; i < n; i++)
    out[i] = all[i];
}
