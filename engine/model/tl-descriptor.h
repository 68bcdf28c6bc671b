/* model/tl-descriptor.h — what a checkpoint computes, as a set of independent axes.
 *
 * The descriptor is the JSON object `tinyloop` in a checkpoint's metadata. Every axis is one small enum; the
 * combination, never a family name, selects code. All values of DESIGN's schema exist here; a value that this version
 * does not implement is refused by name when the program is compiled (forward/tl-program.c) or the file is read.
 * Immutable after parsing, reference-counted.
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

/* stacks: pre blocks run once, loop blocks L times, coda blocks once after */
typedef enum { TL_STACK_PRE, TL_STACK_LOOP, TL_STACK_CODA, TL_N_STACKS } TlStack;

typedef enum { TL_SCHEDULE_LOOPED, TL_SCHEDULE_NESTED_HL } TlSchedule;
typedef enum { TL_STATE_INIT_EMBED, TL_STATE_INIT_PRELUDE, TL_STATE_INIT_ZEROS, TL_STATE_INIT_NORMAL,
  TL_STATE_INIT_TRUNC_NORMAL, TL_STATE_INIT_PARAM } TlStateInit;
typedef enum { TL_INJECT_NONE, TL_INJECT_ADD, TL_INJECT_LINEAR_CAT, TL_INJECT_DIAG_LTI, TL_INJECT_RESIDUAL_LTI,
  TL_INJECT_GATED, TL_INJECT_HYPERCONNECT, TL_INJECT_TOPK_EMBED_MIX } TlInjectKind;
typedef enum { TL_INJECT_STATE_FIRST, TL_INJECT_INPUT_FIRST } TlInjectOrder;
typedef enum { TL_COND_NONE, TL_COND_ADALN_TIME_DT, TL_COND_ADALN_TIME, TL_COND_LOOP_SINUSOID,
  TL_COND_LORA_PER_LOOP } TlCondKind;
typedef enum { TL_NORM_RMS, TL_NORM_LAYER } TlNormKind;
/* where the cast to the weight's dtype happens; equal in F32 */
typedef enum { TL_PLACEMENT_PRE, TL_PLACEMENT_POST_OUT, TL_PLACEMENT_SANDWICH_OUT, TL_PLACEMENT_SANDWICH_RESID,
  TL_PLACEMENT_ADALN_GATE } TlNormPlacement;
/* which weight normalises at a place: none, its own tensor, or the final norm's */
typedef enum { TL_NORM_REF_NONE, TL_NORM_REF_OWN, TL_NORM_REF_FINAL } TlNormRef;
typedef enum { TL_QK_NORM_NONE, TL_QK_NORM_HEAD, TL_QK_NORM_FULL_WIDTH } TlQkNorm;
typedef enum { TL_QK_NORM_PRE_ROPE, TL_QK_NORM_POST_ROPE } TlQkNormWhen;
typedef enum { TL_OUT_GATE_NONE, TL_OUT_GATE_SIGMOID } TlOutGate;
typedef enum { TL_MASK_CAUSAL, TL_MASK_PREFIX_BIDIR } TlMask;
typedef enum { TL_POS_ROPE, TL_POS_LEARNED, TL_POS_NONE } TlPosKind;
typedef enum { TL_ROPE_HALF, TL_ROPE_INTERLEAVED } TlRopeLayout;
typedef enum { TL_ROPE_SCALING_NONE, TL_ROPE_SCALING_LINEAR, TL_ROPE_SCALING_LLAMA3,
  TL_ROPE_SCALING_FACTORS, TL_ROPE_SCALING_YARN } TlRopeScaling;  /* FACTORS: tensor `rope.factors` divides inv_freq */
typedef enum { TL_TABLE_F32, TL_TABLE_BF16, TL_TABLE_F16 } TlTableDtype;
typedef enum { TL_MLP_SWIGLU, TL_MLP_GELU_ERF, TL_MLP_GELU_TANH, TL_MLP_RELU2, TL_MLP_GEGLU_TANH } TlMlpKind;
typedef enum { TL_EXIT_NONE, TL_EXIT_HAZARD_CDF } TlExitGate;
typedef enum { TL_READOUT_LAST, TL_READOUT_AT_EXIT, TL_READOUT_EXPECTED } TlReadout;

typedef struct
{
  gint ref_count;

  char *family;                 /* provenance only; never selects code */
  guint format_major, format_minor;
  guint arithmetic_version;
  char *content_hash;           /* hex SHA-256 over tensor names and bytes, or NULL */

  guint vocab_size;             /* rows of the embedding that are tokens */
  guint vocab_padded;           /* rows of the embedding tensor, >= vocab_size */
  guint d_model, d_state, d_ff;
  guint n_heads, n_kv_heads, head_dim;
  guint max_seq_len;
  guint n_blocks[TL_N_STACKS];

  TlSchedule schedule;
  guint loops_default, loops_min, loops_max;
  guint *loops_trained; guint n_loops_trained;  /* depths seen in training; others only warn */

  TlStateInit state_init; float state_std, state_clip, state_scale;
  TlInjectKind inject; TlInjectOrder inject_order; gboolean inject_first_step, inject_bias;
  TlCondKind cond; gboolean cond_depends_on_total;

  TlNormKind norm; float norm_eps; gboolean norm_eps_from_dtype, norm_affine, norm_bias;
  gboolean norm_unit_offset;    /* weight stored as w - 1 (Gemma) */
  TlNormPlacement placement;
  TlNormRef norm_embed, norm_prelude_out, norm_loop_end, norm_pre_coda, norm_final;
  gboolean post_loop_linear;

  gboolean q_bias, k_bias, v_bias, o_bias, qk_bias_pre_rope;
  TlQkNorm qk_norm; TlQkNormWhen qk_norm_when; gboolean qk_norm_affine; float qk_norm_eps;
  TlOutGate out_gate; gboolean value_embed; guint value_embed_gate_dims;
  TlMask mask; guint window;    /* attention window of the architecture, 0 = none */
  float attn_scale;             /* 0 = 1/sqrt(head_dim) */
  float attn_softcap;           /* 0 = none */

  TlPosKind pos; TlRopeLayout rope_layout; gint rope_sign; double rope_theta; guint rope_dims; /* rotated dims per head */
  TlRopeScaling rope_scaling; double rope_factor, rope_low_freq_factor, rope_high_freq_factor; guint rope_original_max;
  TlTableDtype rope_table_dtype;

  TlMlpKind mlp; gboolean mlp_bias; float mlp_act_scale;

  float embed_scale;            /* 1 = none */
  gboolean tie_head, head_bias; float logit_scale, logit_softcap;  /* 1, 0 = none */
  TlExitGate exit_gate; float exit_threshold;
  TlReadout readout;

  gboolean history_keep;        /* default of the conversation's `history` */
  char *json;                   /* the text it was read from */
} TlDescriptor;

TlDescriptor *tl_descriptor_new (void);   /* all fields at their neutral defaults (Llama-like, no loop) */
TlDescriptor *tl_descriptor_ref (TlDescriptor *d);
void tl_descriptor_unref (TlDescriptor *d);
/* Reads and validates: ranges, overflow of every product, unknown keys and enum values are errors that name them. */
TlDescriptor *tl_descriptor_parse (const char *json, gssize length, const char *file_name, GError **error);
char *tl_descriptor_to_json (const TlDescriptor *d);
/* checks ranges and combinations of a descriptor made in code */
gboolean tl_descriptor_validate (const TlDescriptor *d, const char *file_name, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlDescriptor, tl_descriptor_unref)

G_END_DECLS
