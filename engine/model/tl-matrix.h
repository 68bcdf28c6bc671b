/* model/tl-matrix.h — one weight matrix as stored: format, groups, scales, offsets. The currency between rooms.
 *
 * Storage is row-major [rows = outputs][cols = inputs]. Quantised values come in groups of `group` consecutive
 * inputs of one row; the last group may be short (cols = 576, group = 128). Value of element (r, c), g = c / group:
 *   F32/F16/BF16     data[r, c]
 *   INT8             scale[r, g] * (q - zero) (+ minimum[r, g]),   q: signed byte
 *   INT4             scale[r, g] * (q - zero) (+ minimum[r, g]),   q: 0..15, low nibble = even column; rows padded to whole bytes
 * zero: INT8 without offset 0; INT4 without offset 8; TL_OFFSET_ZERO: zero[r, g] (U8, 0..16);
 * TL_OFFSET_MIN: zero = 0 for both and an F16 minimum is added.
 * Does not own its memory: it points into a checkpoint (or an import source), which outlives it.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum { TL_F32, TL_F16, TL_BF16, TL_INT8, TL_INT4 } TlFormat;
typedef enum { TL_OFFSET_NONE, TL_OFFSET_ZERO, TL_OFFSET_MIN } TlOffset;

typedef struct
{
  TlFormat format;
  guint rows, cols;
  guint group;            /* 0 for float formats; cols = per channel; else 32, 64, 128 */
  TlFormat scale_format;  /* TL_F32, TL_F16 or TL_BF16 */
  TlOffset offset;
  const void *data;
  const void *scale;      /* [rows][n_groups] */
  const guint8 *zero;     /* [rows][n_groups] or NULL */
  const guint16 *minimum; /* F16 bits [rows][n_groups] or NULL */
} TlMatrix;

static inline guint
tl_matrix_n_groups (const TlMatrix *m)
{
  return m->group ? (m->cols + m->group - 1) / m->group : 0;
}

/* Groups of the *arithmetic* (DESIGN §6): 32 for float weights, else min (max (32, group), 128).
 * Weight groups larger than 128 (per channel) repeat their scale. */
static inline guint
tl_matrix_arith_group (const TlMatrix *m)
{
  return m->group == 0 ? 32 : CLAMP (m->group, 32, 128);
}

/* bytes of one row of `data` */
gsize tl_matrix_row_bytes (const TlMatrix *m);
/* dequantised row r in F32: scale * (q - zero), rounded once per operation: fmaf (scale, q - zero, minimum) */
void tl_matrix_row_to_f32 (const TlMatrix *m, guint r, float *out);

float tl_f16_to_f32 (guint16 h);
guint16 tl_f32_to_f16 (float f);     /* round to nearest even; overflow gives infinity */
guint16 tl_f32_to_f16_saturate (float f);
static inline float tl_bf16_to_f32 (guint16 h) { union { guint32 u; float f; } v = { (guint32) h << 16 }; return v.f; }
guint16 tl_f32_to_bf16 (float f);

G_END_DECLS
