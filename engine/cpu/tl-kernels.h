/* cpu/tl-kernels.h — the table of kernels: what the CPU backend computes with, one table per instruction set.
 *
 * The scalar kernels (tl-kernels-scalar.c, tl-linear-scalar.c, tl-attend-scalar.c) define the bits; every other table
 * gives the same ones. A kernel works on the caller's thread; splitting work is the backend's business. Kernels expect the
 * default floating-point environment (tl_pool_run() sets it).
 */
#pragma once

#include "cpu/tl-isa.h"
#include "cpu/tl-packed.h"
#include "forward/tl-kv-layout.h"

G_BEGIN_DECLS

#define TL_SPLIT_POSITIONS 256
/* floats of one head's partial result of a split: maximum, sum, 14 unused, then head_dim weighted sums */
#define TL_PARTIAL_STRIDE(head_dim) (16u + (((head_dim) + 15u) & ~15u))

/* rows times query heads of one call; a single row may have more heads */
#define TL_ATTEND_QUERIES 32

/* Tiles of K and V of one plane and kv head: of position p in pages[p / 32], at bytes from the page's start */
typedef struct { gpointer const *pages; TlTile k, v; gsize k_at, v_at; } TlAttendPages;

/* One split of one kv head, for rows of one sequence: row r sees positions begin[r] … end[r] - 1, all in the same split of
 * 256; a row with begin >= end takes no part. */
typedef struct
{
  guint head_dim;
  guint n_q;                    /* query heads that share this kv head */
  guint n_rows;
  const float *q[TL_ATTEND_QUERIES];    /* by row: [n_q][head_dim] */
  guint begin[TL_ATTEND_QUERIES], end[TL_ATTEND_QUERIES];
  float scale, softcap;         /* score = softcap (q·k * scale); softcap 0 = none */
  TlAttendPages open, closed;   /* closed: read before page `first_open`, unused when that is 0 */
  guint first_open;
} TlAttend;

typedef struct
{
  TlIsa isa;
  const char *name;

  /* q [cols padded to 64, padding untouched], scale and sum [ceil (cols / group)]. FALSE: x holds inf or NaN. */
  gboolean (*quantise_row) (const float *x, guint cols, guint group, gint8 *q, float *scale, gint32 *sum);
  /* out[m * ld + r] = row r · activation row (first + m), rows row_begin … row_end - 1, m < n_rows. row_begin is a multiple
   * of 16; so is row_end, or it is the last. Quantised weights meet a->q, float weights a->x. */
  void (*linear) (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin, guint row_end,
    float *out, gsize ld);
  /* the same with a->x against dequantised weights (`exact-activations`) */
  void (*linear_exact) (const TlPackedMatrix *p, const TlActivations *a, guint first, guint n_rows, guint row_begin,
    guint row_end, float *out, gsize ld);

  /* Norms; weight and bias may be NULL; out may be x. */
  void (*rms_norm) (const float *x, const float *weight, guint n, float eps, float *out);
  void (*layer_norm) (const float *x, const float *weight, const float *bias, guint n, float eps, float *out);

  /* y[i] += x[i] */
  void (*add) (float *y, const float *x, guint n);
  /* Activations; out may be an input. relu2: scale * max (x, 0)^2 */
  void (*swiglu) (const float *gate, const float *up, guint n, float *out);
  void (*geglu_tanh) (const float *gate, const float *up, guint n, float *out);
  void (*gelu_erf) (const float *x, guint n, float *out);
  void (*gelu_tanh) (const float *x, guint n, float *out);
  void (*relu2) (const float *x, guint n, float scale, float *out);
  /* x[i] = cap * tanh (x[i] / cap) */
  void (*softcap) (float *x, guint n, float cap);

  /* Rotates the first rope_dims of one head in place: pairs (i, i + rope_dims / 2), or (2i, 2i + 1) when interleaved.
   * a' = a * cos - b * sin, b' = b * cos + a * sin, each as fmaf (a, cos, -(b * sin)), fmaf (b, cos, a * sin).
   * cos, sin: [rope_dims / 2] of tl_program_rope_row(). */
  void (*rope) (float *x, const float *cos, const float *sin, guint rope_dims, gboolean interleaved);

  /* F32 to F16, nearest even, overflow saturates (a row of K or V into a page) */
  void (*to_half) (const float *x, guint n, guint16 *out);
  /* row `at` of a tile: stored (all forms but INT4), read back; and a whole INT4 tile from F16 rows. x, out: [dim] */
  void (*encode_row) (const TlTile *t, gpointer tile, guint at, const float *x);
  void (*decode_row) (const TlTile *t, gconstpointer tile, guint at, float *out);
  void (*close_tile) (const TlTile *t, const guint16 *half, gpointer tile);

  /* partial [n_rows][n_q][TL_PARTIAL_STRIDE (head_dim)] */
  void (*attend_split) (const TlAttend *a, float *partial);
  /* joins n_splits partials in order: partial [n_splits][split_stride floats], heads at TL_PARTIAL_STRIDE; out [n_q][head_dim] */
  void (*attend_combine) (const float *partial, guint n_splits, gsize split_stride, guint n_q, guint head_dim, float *out);

  /* index of the largest; the lowest index among equals; NaN never wins */
  guint (*argmax) (const float *x, guint n);
} TlKernels;

/* The table of an instruction set; NULL when this processor lacks it. */
const TlKernels *tl_kernels_for (TlIsa isa);
/* The table to use (tl_isa_choose()). */
const TlKernels *tl_kernels_get (GError **error);

G_END_DECLS
