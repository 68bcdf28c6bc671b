/* forward/tl-program.h — a checkpoint compiled into flat lists of operations: pre, body (one loop) and post; and fill, the
 * part of body that writes keys and values, for rows that skip the rest.
 *
 * The combination of the descriptor's axes selects operations; nothing below this header looks at a descriptor's
 * structural enums again. Backends walk the lists over a batch of rows; every operation reads and writes row buffers
 * [rows][width] of F32. H is the residual stream, which is also the loop's state; E is what is injected.
 * Immutable after compilation, reference-counted.
 */
#pragma once

#include "model/tl-weights.h"

G_BEGIN_DECLS

#define TL_MAX_HEAD_DIM 512     /* backends keep one head's row on the stack */

typedef enum
{
  TL_BUFFER_NONE,
  TL_BUFFER_H,                  /* residual stream [d_model] */
  TL_BUFFER_E,                  /* injected input [d_model] */
  TL_BUFFER_X,                  /* a sub-layer's output on its way to a norm [d_model] */
  TL_BUFFER_Q,                  /* [n_heads * head_dim] */
  TL_BUFFER_K,                  /* [n_kv_heads * head_dim] */
  TL_BUFFER_V,                  /* [n_kv_heads * head_dim] */
  TL_BUFFER_A,                  /* attention's output [n_heads * head_dim] */
  TL_BUFFER_M,                  /* activated MLP [d_ff] */
  TL_N_BUFFERS
} TlBuffer;

typedef enum
{
  TL_OP_EMBED,                  /* H = embed[token] * scale (+ matrix[1][position], learned positions) */
  TL_OP_TAP,                    /* copies H to the row's trace, entry `index` (pre), or by depth (body) */
  TL_OP_NORM,                   /* out = norm (in) */
  TL_OP_NORM_ADD,               /* out += norm (in) */
  TL_OP_COPY,                   /* out = in */
  TL_OP_ADD,                    /* out += in */
  TL_OP_ZERO,                   /* out = 0, or the row's given initial state */
  TL_OP_LINEAR,                 /* out[i] = epilogue (matrix[i] · input + bias[i]) */
  TL_OP_APPEND_KV,              /* q and k: bias, norm, rope; K and V to the page of (group, plane) */
  TL_OP_ATTEND,                 /* A = attention of Q over the pages of (group, plane) */
  TL_OP_HEAD,                   /* logits = softcap (scale * (head · norm (H) + bias)), rows that want them only */
} TlOpKind;

typedef enum
{
  TL_EPILOGUE_STORE,            /* out[i] = y[i], each matrix to its own buffer */
  TL_EPILOGUE_ADD,              /* out[0] += y[0] */
  TL_EPILOGUE_SWIGLU,           /* out[0] = silu (y[0]) * y[1] */
  TL_EPILOGUE_GELU_ERF,         /* out[0] = gelu (y[0]) */
  TL_EPILOGUE_GELU_TANH,
  TL_EPILOGUE_RELU2,            /* out[0] = scale * max (y[0], 0)^2 */
  TL_EPILOGUE_GEGLU_TANH,       /* out[0] = gelu_tanh (y[0]) * y[1] */
} TlEpilogue;

/* which planes an attention belongs to; LOOP is resolved by each row's depth */
typedef enum { TL_PLANES_PRE, TL_PLANES_CODA, TL_PLANES_LOOP } TlPlanes;

typedef enum
{
  TL_OP_FLAG_NOT_FIRST_LOOP = 1 << 0,   /* skipped by rows at depth 0 */
  TL_OP_FLAG_DELIVERING = 1 << 1,       /* only rows that want logits need it (after the coda's last append) */
} TlOpFlags;

/* A norm: weight NULL = without affine weight. weight already has the unit offset added. */
typedef struct { gboolean used; TlNormKind kind; const float *weight, *bias; float eps; } TlNorm;

typedef struct
{
  TlOpKind kind;
  TlOpFlags flags;
  TlBuffer in, in2;             /* in2: LINEAR reads the concatenation [in ; in2] */
  TlNorm norm;                  /* NORM*, HEAD, and LINEAR's norm of `in` before the product */
  guint n_matrices;
  TlMatrix matrix[3];           /* share the input */
  const float *bias[3];         /* or NULL */
  TlBuffer out[3];
  TlEpilogue epilogue;
  float scale;                  /* EMBED, RELU2, HEAD */
  float softcap;                /* HEAD, ATTEND; 0 = none */
  /* APPEND_KV, ATTEND */
  TlPlanes planes;
  guint plane;                  /* block index in its stack */
  TlNorm q_norm, k_norm;
  gboolean norm_full_width, norm_after_rope;
  const float *qk_bias;         /* [2][n_heads][head_dim], added before rope */
  guint index;                  /* TAP: entry of the trace */
} TlOp;

typedef struct { guint n; TlOp *ops; } TlOpList;

typedef struct
{
  gint ref_count;
  TlDescriptor *descriptor;
  TlWeights *weights;
  TlOpList pre, body, post, fill;

  guint d_model, d_ff, n_heads, n_kv_heads, head_dim, vocab_size;
  float attn_scale;
  guint rope_dims;              /* 0 = no rope */
  TlRopeLayout rope_layout;
  gint rope_sign;
  float *inv_freq;              /* [rope_dims / 2], scaling applied */
  float position_divisor;       /* linear scaling divides positions as the families do; 1 = none */
  float rope_magnitude;         /* multiplies cos and sin; 1 = none */
  gboolean uses_e;              /* rows have an injected input to keep */
  GPtrArray *vectors;           /* norm weights made here (unit offset) */
  gboolean has_initial_state;   /* the loop state is not the embedding or prelude: zeros, random or given */
} TlProgram;

/* Compiles; an axis value that is not implemented is TL_ERROR_UNSUPPORTED naming axis and value. */
TlProgram *tl_program_new (TlWeights *weights, GError **error);
TlProgram *tl_program_ref (TlProgram *p);
void tl_program_unref (TlProgram *p);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlProgram, tl_program_unref)

/* floats per row of a buffer */
guint tl_program_buffer_width (const TlProgram *p, TlBuffer b);
/* attention planes of a plane group: blocks of the pre, loop or coda stack */
guint tl_program_n_planes (const TlProgram *p, TlPlanes planes);
/* entries of a row's trace: embedding, every pre block, every loop */
guint tl_program_trace_length (const TlProgram *p, guint loops);
/* cos and sin of all rotated pairs at a position, [rope_dims / 2] each: angle in F32, sine in F64, rounded once to the
 * table's dtype. The one place where rotation tables come from; sin carries the sign. */
void tl_program_rope_row (const TlProgram *p, guint position, float *cos_out, float *sin_out);
/* The state a row starts from when the family draws it at random: keyed by (seed, position, channel). [d_model] */
void tl_program_initial_state (const TlProgram *p, guint64 state_seed, guint position, float *out);

G_END_DECLS
