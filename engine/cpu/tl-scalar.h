/* cpu/tl-scalar.h — the operations of a pass on one row or one output, written from the arithmetic rules.
 *
 * They define the bits: sums by lanes (element i to lane i mod 16) and segments, combined by a neighbour tree; fmaf where
 * written and nowhere else. Called by tl-backend-cpu.c; every faster kernel is compared with these.
 */
#pragma once

#include "forward/tl-program.h"

G_BEGIN_DECLS

/* One linear's input: M rows of K values, as the weights' arithmetic wants them. */
typedef struct
{
  guint m, k;
  guint group;                  /* of the activation quantisation; 0: F32 only */
  float *x;                     /* [m][k] */
  gint8 *q;                     /* [m][k] */
  float *scale;                 /* [m][groups] */
  gint32 *sum;                  /* [m][groups]: sum of q */
} TlPanel;

float tl_scalar_exp (float x);
float tl_scalar_tanh (float x);
float tl_scalar_silu (float x);
/* neighbour tree over n values, destroyed */
float tl_scalar_tree (float *v, guint n);
/* out may be in; FALSE when the row holds a value that is not finite */
gboolean tl_scalar_norm (const TlNorm *norm, const float *in, guint n, float *out);
/* rotates one head in place */
void tl_scalar_rope (TlRopeLayout layout, guint dims, const float *c, const float *s, float *head);
/* fills q, scale and sum from x; FALSE when a value is not finite */
gboolean tl_scalar_quantise (TlPanel *panel);
/* y[i] = row `r` of the matrix times panel row i; row_f32: [k] scratch. Bits do not depend on m. */
void tl_scalar_linear (const TlMatrix *w, guint r, const TlPanel *panel, gboolean exact, float *row_f32, float *y);

/* attention of one query head over positions [first, last]: pages of one group; scratch: 256 floats + 2 * head_dim */
typedef struct
{
  gpointer *pages;              /* by position / 32 */
  gsize k_offset, v_offset;     /* elements from a page's start to this plane's and head's [32][head_dim] */
  gboolean fp32;
  guint first, last, head_dim;
  float scale, softcap;
} TlAttention;
void tl_scalar_attend (const TlAttention *a, const float *q, float *scratch, float *out);

G_END_DECLS
