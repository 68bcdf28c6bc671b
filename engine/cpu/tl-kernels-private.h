/* cpu/tl-kernels-private.h — what the kernel files share: reading packed weights, segments, the neighbour tree. */
#pragma once

#include <math.h>

#include "cpu/tl-kernels.h"
#include "forward/tl-math.h"

#define TL_MAX_SEGMENTS 16u

/* Functions compiled once per instruction set are named name_<suffix>. */
#define TL_PASTE2(a, b) a##_##b
#define TL_PASTE(a, b) TL_PASTE2 (a, b)
#define TL_FN(name) TL_PASTE (name, TL_SUFFIX)

static inline guint
tl_n_segments (guint n_groups)
{
  return n_groups < TL_MAX_SEGMENTS ? n_groups : TL_MAX_SEGMENTS;
}

/* first group of segment s of S; segment s ends where s + 1 begins */
static inline guint
tl_segment_begin (guint s, guint n_segments, guint n_groups)
{
  return s * n_groups / n_segments;
}

/* Neighbour tree: (0+1), (2+3), … again and again; an odd last one goes up unchanged. Destroys v. */
static inline float
tl_tree_sum (float *v, guint n)
{
  for (; n > 1; n = (n + 1) / 2)
    {
      for (guint i = 0; i < n / 2; i++)
        v[i] = v[2 * i] + v[2 * i + 1];
      if (n % 2)
        v[n / 2] = v[n - 1];
    }
  return v[0];
}

static inline float
tl_packed_scale (const TlPackedMatrix *p, const guint8 *block, guint g, guint lane)
{
  const guint8 *scales = block + p->scales_at;
  guint i = g * TL_TILE_ROWS + lane;
  return p->scale_format == TL_F32 ? ((const float *) scales)[i]
    : p->scale_format == TL_F16 ? tl_f16_to_f32 (((const guint16 *) scales)[i])
    : tl_bf16_to_f32 (((const guint16 *) scales)[i]);
}

static inline int
tl_packed_zero (const TlPackedMatrix *p, const guint8 *block, guint g, guint lane)
{
  return p->offset == TL_OFFSET_ZERO ? block[p->extra_at + g * TL_TILE_ROWS + lane]
    : p->offset == TL_OFFSET_NONE && p->format == TL_INT4 ? 8 : 0;
}

static inline float
tl_packed_minimum (const TlPackedMatrix *p, const guint8 *block, guint g, guint lane)
{
  return tl_f16_to_f32 (((const guint16 *) (block + p->extra_at))[g * TL_TILE_ROWS + lane]);
}

/* the stored integer of a quantised matrix */
static inline int
tl_packed_q (const TlPackedMatrix *p, const guint8 *block, guint lane, guint c)
{
  if (p->format == TL_INT8)
    return (gint8) (block[c / 4 * 64 + lane * 4 + c % 4] ^ 0x80);
  guint within = c % 32;
  return block[c / 32 * 256 + within % 16 / 4 * 64 + lane * 4 + within % 4] >> (within / 16 * 4) & 15;
}

/* the element in F32, the bits of tl_matrix_row_to_f32() */
static inline float
tl_packed_element (const TlPackedMatrix *p, const guint8 *block, guint lane, guint c)
{
  gsize i = (gsize) c * TL_TILE_ROWS + lane;
  switch (p->format)
    {
    case TL_F32:
      return ((const float *) block)[i];
    case TL_F16:
      return tl_f16_to_f32 (((const guint16 *) block)[i]);
    case TL_BF16:
      return tl_bf16_to_f32 (((const guint16 *) block)[i]);
    default:
      break;
    }
  guint g = c / p->group;
  float scale = tl_packed_scale (p, block, g, lane);
  float v = (float) (tl_packed_q (p, block, lane, c) - tl_packed_zero (p, block, g, lane));
  return p->offset == TL_OFFSET_MIN ? fmaf (scale, v, tl_packed_minimum (p, block, g, lane)) : scale * v;
}

#define TL_DECLARE_LINEAR(suffix) \
  void tl_linear_##suffix (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin, \
    guint row_end, float *out, gsize ld); \
  void tl_linear_exact_##suffix (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, \
    guint row_begin, guint row_end, float *out, gsize ld);

/* tl_tiles_are_right: whether tile products are those of plain C; call it only where the system lets tiles be used */
#define TL_DECLARE_AMX(suffix) \
  TL_DECLARE_LINEAR (suffix) \
  gboolean tl_tiles_are_right_##suffix (void);

#define TL_DECLARE_VECTOR(suffix) \
  gboolean tl_quantise_row_##suffix (const float *x, guint cols, guint group, gint8 *q, float *scale, gint32 *sum); \
  void tl_rms_norm_##suffix (const float *x, const float *weight, guint n, float eps, float *out); \
  void tl_layer_norm_##suffix (const float *x, const float *weight, const float *bias, guint n, float eps, float *out); \
  void tl_add_##suffix (float *y, const float *x, guint n); \
  void tl_swiglu_##suffix (const float *gate, const float *up, guint n, float *out); \
  void tl_geglu_tanh_##suffix (const float *gate, const float *up, guint n, float *out); \
  void tl_gelu_erf_##suffix (const float *x, guint n, float *out); \
  void tl_gelu_tanh_##suffix (const float *x, guint n, float *out); \
  void tl_relu2_##suffix (const float *x, guint n, float scale, float *out); \
  void tl_softcap_##suffix (float *x, guint n, float cap); \
  void tl_rope_##suffix (float *x, const float *cosine, const float *sine, guint rope_dims, gboolean interleaved); \
  void tl_to_half_##suffix (const float *x, guint n, guint16 *out); \
  void tl_encode_row_##suffix (const TlTile *t, gpointer tile, guint at, const float *x); \
  void tl_decode_row_##suffix (const TlTile *t, gconstpointer tile, guint at, float *out); \
  void tl_close_tile_##suffix (const TlTile *t, const guint16 *half, gpointer tile); \
  void tl_attend_split_##suffix (const TlAttend *a, float *partial); \
  void tl_attend_combine_##suffix (const float *partial, guint n_splits, gsize split_stride, guint n_q, guint head_dim, \
    float *out); \
  guint tl_argmax_##suffix (const float *x, guint n);

TL_DECLARE_LINEAR (scalar)
TL_DECLARE_LINEAR (avx2)
TL_DECLARE_LINEAR (avx512)
TL_DECLARE_LINEAR (vnni)
TL_DECLARE_AMX (amx)
TL_DECLARE_AMX (emulated)       /* of tests/cpu/tiles.c */
TL_DECLARE_VECTOR (scalar)
TL_DECLARE_VECTOR (avx2)
TL_DECLARE_VECTOR (avx512)
