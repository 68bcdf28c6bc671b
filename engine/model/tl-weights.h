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
  float *attn_norm_bias, *attn_out_norm_bias, *mlp_norm_bias, *mlp_out_norm_bias;       /* layer norms with bias */
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
  float *exit_gate, *exit_gate_bias;    /* [d_model], [1] */
  float *final_norm_bias;
  GPtrArray *owned;             /* the vectors */
} TlWeights;

/* One tensor that a descriptor asks for. The list is the definition of a checkpoint's contents: the loader and the
 * importers walk it. */
typedef struct
{
  char *name;                   /* canonical; NAME.weight for a matrix */
  gboolean is_matrix;
  guint rows, cols;             /* a vector has cols elements and rows = 1 */
  gint stack;                   /* TlStack, or -1 outside the blocks */
  guint block;
  gsize place;                  /* where it goes: offset in TlBlockWeights, or in TlWeights when stack is -1 */
} TlWeightSlot;

/* (element-type TlWeightSlot); axes without tensors in this version are errors that name them */
GPtrArray *tl_weight_slots (const TlDescriptor *d, const char *file_name, GError **error);

/* Unused or missing tensors, wrong shapes and dtypes are errors that name the tensor. */
TlWeights *tl_weights_new (TlCheckpoint *checkpoint, GError **error);
TlWeights *tl_weights_ref (TlWeights *w);
void tl_weights_unref (TlWeights *w);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlWeights, tl_weights_unref)

G_END_DECLS
