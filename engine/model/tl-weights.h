/* model/tl-weights.h — the checkpoint's tensors resolved against the descriptor: what the program's operations point at.
 *
 * Pointers of absent parts are NULL (or matrix.data NULL). Owns the F32 vectors; matrices point into the checkpoint.
 */
#pragma once

#include "model/tl-checkpoint.h"

G_BEGIN_DECLS

typedef struct
{
  float *attn_norm, *attn_out_norm, *mlp_norm, *mlp_out_norm;     /* [d_model] */
  TlMatrix q, k, v, o, gate, up, down;
  float *q_bias, *k_bias, *v_bias, *o_bias, *gate_bias, *up_bias, *down_bias;
  float *q_norm, *k_norm;       /* [head_dim], or full width */
  float *qk_bias;               /* [2][n_heads][head_dim] */
} TlBlockWeights;

typedef struct
{
  gint ref_count;
  TlCheckpoint *checkpoint;
  TlDescriptor *descriptor;
  TlMatrix embed, head;         /* head.data == embed.data when tied */
  TlMatrix inject, post_loop, pos;
  float *head_bias, *inject_bias;
  float *embed_norm, *prelude_norm, *loop_norm, *pre_coda_norm, *final_norm;
  float *rope_factors;          /* [rope_dims / 2] or NULL */
  TlBlockWeights *blocks[TL_N_STACKS];
} TlWeights;

/* Unused or missing tensors, wrong shapes and dtypes are errors that name the tensor. */
TlWeights *tl_weights_new (TlCheckpoint *checkpoint, GError **error);
TlWeights *tl_weights_ref (TlWeights *w);
void tl_weights_unref (TlWeights *w);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlWeights, tl_weights_unref)

G_END_DECLS
