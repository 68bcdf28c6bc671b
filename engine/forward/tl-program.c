/* forward/tl-program.c — compiles descriptor and weights into pre, body and post.
 *
 * First everything this version does not implement is refused by name; then the lists are written down in the order in
 * which the model's own forward does things. Called once per model.
 */
#include "forward/tl-program.h"

#include <math.h>
#include <string.h>

#include "forward/tl-batch.h"

/* --- what is refused --- */

static gboolean
refuse (TlProgram *p, const char *axis, const char *value, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
    "tinyloop: %s: %s = %s is not implemented by this version; convert another checkpoint or use a newer version",
    tl_checkpoint_name (p->weights->checkpoint), axis, value);
  return FALSE;
}

static gboolean
check_supported (TlProgram *p, GError **error)
{
  const TlDescriptor *d = p->descriptor;
  static const char *const injects[] = { "none", "add", "linear_cat", "diag_lti", "residual_lti", "gated",
    "hyperconnect", "topk_embed_mix" };
  static const char *const conds[] = { "none", "adaln_time_dt", "adaln_time", "loop_sinusoid", "lora_per_loop" };

  if (d->schedule != TL_SCHEDULE_LOOPED)
    return refuse (p, "schedule", "nested_hl", error);
  if (d->state_init == TL_STATE_INIT_PARAM)
    return refuse (p, "state.init", "param", error);
  if (d->state_init == TL_STATE_INIT_EMBED && d->inject != TL_INJECT_NONE && d->n_blocks[TL_STACK_PRE])
    return refuse (p, "state.init", "embed with pre blocks and injection", error);
  if (d->inject > TL_INJECT_LINEAR_CAT)
    return refuse (p, "inject.kind", injects[d->inject], error);
  if (d->cond != TL_COND_NONE)
    return refuse (p, "cond.kind", conds[d->cond], error);
  if (d->placement == TL_PLACEMENT_ADALN_GATE)
    return refuse (p, "norm.placement", "adaln_gate", error);
  if (d->post_loop_linear)
    return refuse (p, "post_loop_linear", "true", error);
  if (d->out_gate != TL_OUT_GATE_NONE)
    return refuse (p, "attn.out_gate", "sigmoid", error);
  if (d->value_embed)
    return refuse (p, "attn.value_embed", "true", error);
  if (d->mask != TL_MASK_CAUSAL)
    return refuse (p, "attn.mask", "prefix_bidir", error);
  if (d->pos == TL_POS_ROPE && d->rope_scaling == TL_ROPE_SCALING_YARN)
    return refuse (p, "rope.scaling", "yarn", error);
  if (d->mlp != TL_MLP_RELU2 && d->mlp_act_scale != 1 && d->mlp_act_scale != 0)
    return refuse (p, "mlp.act_scale", "other than 1 without relu2", error);
  if (d->d_state && d->d_state != d->d_model)
    return refuse (p, "dims.d_state", "other than d_model", error);
  if (d->head_dim > TL_MAX_HEAD_DIM)
    return refuse (p, "dims.head_dim", "more than " G_STRINGIFY (TL_MAX_HEAD_DIM), error);
  return TRUE;
}

/* --- small makers --- */

static TlOp *
add_op (GArray *list, TlOpKind kind)
{
  TlOp op = { .kind = kind, .scale = 1.0f };
  g_array_append_val (list, op);
  return &g_array_index (list, TlOp, list->len - 1);
}

static TlNorm
norm_of (TlProgram *p, const float *weight, guint n, float eps)
{
  TlNorm norm = { TRUE, TL_NORM_RMS, weight, NULL, eps };
  if (weight && p->descriptor->norm_unit_offset)
    {
      float *shifted = g_new (float, n);
      for (guint i = 0; i < n; i++)
        shifted[i] = weight[i] + 1.0f;
      g_ptr_array_add (p->vectors, shifted);
      norm.weight = shifted;
    }
  return norm;
}

static TlNorm
model_norm (TlProgram *p, const float *weight, const float *bias)
{
  const TlDescriptor *d = p->descriptor;
  TlNorm norm = norm_of (p, d->norm_affine ? weight : NULL, d->d_model,
    d->norm_eps_from_dtype ? 1.1920928955078125e-07f : d->norm_eps);
  norm.kind = d->norm;
  norm.bias = bias;
  return norm;
}

static void
add_norm (TlProgram *p, GArray *list, TlNormRef ref, const float *own)
{
  if (ref == TL_NORM_REF_NONE)
    return;
  TlOp *op = add_op (list, TL_OP_NORM);
  op->in = op->out[0] = TL_BUFFER_H;
  gboolean final = ref == TL_NORM_REF_FINAL;
  op->norm = model_norm (p, final ? p->weights->final_norm : own, final ? p->weights->final_norm_bias : NULL);
}

static void
add_tap (GArray *list, guint index)
{
  add_op (list, TL_OP_TAP)->index = index;
}

static void
add_copy (GArray *list, TlOpKind kind, TlBuffer in, TlBuffer out)
{
  TlOp *op = add_op (list, kind);
  op->in = in;
  op->out[0] = out;
}

/* a sub-layer's last product: straight onto the residual stream, or through a norm, as the placement says */
static void
add_output (TlProgram *p, GArray *list, TlBuffer in, const TlMatrix *matrix, const float *bias, const float *out_norm,
  const float *out_norm_bias)
{
  TlNormPlacement placement = p->descriptor->placement;
  gboolean through_x = placement == TL_PLACEMENT_SANDWICH_OUT || placement == TL_PLACEMENT_POST_OUT;
  TlOp *op = add_op (list, TL_OP_LINEAR);
  op->in = in;
  op->n_matrices = 1;
  op->matrix[0] = *matrix;
  op->bias[0] = bias;
  op->out[0] = through_x ? TL_BUFFER_X : TL_BUFFER_H;
  op->epilogue = through_x ? TL_EPILOGUE_STORE : TL_EPILOGUE_ADD;
  if (placement == TL_PLACEMENT_PRE)
    return;
  op = add_op (list, through_x ? TL_OP_NORM_ADD : TL_OP_NORM);
  op->in = through_x ? TL_BUFFER_X : TL_BUFFER_H;
  op->out[0] = TL_BUFFER_H;
  op->norm = model_norm (p, out_norm, out_norm_bias);
}

/* an attention up to what it stores */
static void
add_keys_and_values (TlProgram *p, GArray *list, const TlBlockWeights *w, TlPlanes planes, guint plane)
{
  const TlDescriptor *d = p->descriptor;
  TlOp *op = add_op (list, TL_OP_LINEAR);
  op->in = TL_BUFFER_H;
  if (d->placement != TL_PLACEMENT_POST_OUT)
    op->norm = model_norm (p, w->attn_norm, w->attn_norm_bias);
  op->n_matrices = 3;
  op->matrix[0] = w->q, op->bias[0] = w->q_bias, op->out[0] = TL_BUFFER_Q;
  op->matrix[1] = w->k, op->bias[1] = w->k_bias, op->out[1] = TL_BUFFER_K;
  op->matrix[2] = w->v, op->bias[2] = w->v_bias, op->out[2] = TL_BUFFER_V;

  op = add_op (list, TL_OP_APPEND_KV);
  op->planes = planes;
  op->plane = plane;
  op->qk_bias = w->qk_bias;
  if (d->qk_norm != TL_QK_NORM_NONE)
    {
      gboolean full = d->qk_norm == TL_QK_NORM_FULL_WIDTH;
      float eps = d->qk_norm_eps > 0 ? d->qk_norm_eps : d->norm_eps;
      op->q_norm = norm_of (p, w->q_norm, full ? d->n_heads * d->head_dim : d->head_dim, eps);
      op->k_norm = norm_of (p, w->k_norm, full ? d->n_kv_heads * d->head_dim : d->head_dim, eps);
      op->norm_full_width = full;
      op->norm_after_rope = d->qk_norm_when == TL_QK_NORM_POST_ROPE;
    }
}

static void
add_attention (TlProgram *p, GArray *list, const TlBlockWeights *w, TlPlanes planes, guint plane)
{
  add_keys_and_values (p, list, w, planes, plane);
  TlOp *op = add_op (list, TL_OP_ATTEND);
  op->planes = planes;
  op->plane = plane;
  op->softcap = p->descriptor->attn_softcap;
}

static void
add_activation (TlProgram *p, GArray *list, const TlBlockWeights *w)
{
  static const TlEpilogue epilogues[] = { TL_EPILOGUE_SWIGLU, TL_EPILOGUE_GELU_ERF, TL_EPILOGUE_GELU_TANH,
    TL_EPILOGUE_RELU2, TL_EPILOGUE_GEGLU_TANH };
  const TlDescriptor *d = p->descriptor;
  TlOp *op = add_op (list, TL_OP_LINEAR);
  op->in = TL_BUFFER_H;
  if (d->placement != TL_PLACEMENT_POST_OUT)
    op->norm = model_norm (p, w->mlp_norm, w->mlp_norm_bias);
  op->out[0] = TL_BUFFER_M;
  op->epilogue = epilogues[d->mlp];
  op->scale = d->mlp_act_scale != 0 ? d->mlp_act_scale : 1.0f;
  if (d->mlp == TL_MLP_SWIGLU || d->mlp == TL_MLP_GEGLU_TANH)
    {
      op->matrix[op->n_matrices] = w->gate;
      op->bias[op->n_matrices++] = w->gate_bias;
    }
  op->matrix[op->n_matrices] = w->up;
  op->bias[op->n_matrices++] = w->up_bias;
}

static void
add_block (TlProgram *p, GArray *list, TlStack stack, guint i)
{
  const TlBlockWeights *w = &p->weights->blocks[stack][i];
  static const TlPlanes planes[] = { TL_PLANES_PRE, TL_PLANES_LOOP, TL_PLANES_CODA };

  add_attention (p, list, w, planes[stack], i);
  add_output (p, list, TL_BUFFER_A, &w->o, w->o_bias, w->attn_out_norm, w->attn_out_norm_bias);

  add_activation (p, list, w);
  add_output (p, list, TL_BUFFER_M, &w->down, w->down_bias, w->mlp_out_norm, w->mlp_out_norm_bias);
}

/* --- the lists --- */

static void
compile_pre (TlProgram *p, GArray *list)
{
  const TlDescriptor *d = p->descriptor;
  TlOp *op = add_op (list, TL_OP_EMBED);
  op->matrix[0] = p->weights->embed;
  op->matrix[1] = p->weights->pos;
  op->scale = d->embed_scale;
  op->out[0] = TL_BUFFER_H;
  add_norm (p, list, d->norm_embed, p->weights->embed_norm);
  add_tap (list, 0);
  for (guint i = 0; i < d->n_blocks[TL_STACK_PRE]; i++)
    {
      add_block (p, list, TL_STACK_PRE, i);
      add_tap (list, 1 + i);
    }
  add_norm (p, list, d->norm_prelude_out, p->weights->prelude_norm);
  if (p->uses_e)
    add_copy (list, TL_OP_COPY, TL_BUFFER_H, TL_BUFFER_E);
  if (p->has_initial_state)
    add_op (list, TL_OP_ZERO)->out[0] = TL_BUFFER_H;
}

static void
compile_body (TlProgram *p, GArray *list)
{
  const TlDescriptor *d = p->descriptor;
  TlOpFlags flags = d->inject_first_step ? 0 : TL_OP_FLAG_NOT_FIRST_LOOP;
  if (d->inject == TL_INJECT_ADD)
    {
      add_copy (list, TL_OP_ADD, TL_BUFFER_E, TL_BUFFER_H);
      g_array_index (list, TlOp, list->len - 1).flags = flags;
    }
  else if (d->inject == TL_INJECT_LINEAR_CAT)
    {
      gboolean state_first = d->inject_order == TL_INJECT_STATE_FIRST;
      TlOp *op = add_op (list, TL_OP_LINEAR);
      op->flags = flags;
      op->in = state_first ? TL_BUFFER_H : TL_BUFFER_E;
      op->in2 = state_first ? TL_BUFFER_E : TL_BUFFER_H;
      op->n_matrices = 1;
      op->matrix[0] = p->weights->inject;
      op->bias[0] = p->weights->inject_bias;
      op->out[0] = TL_BUFFER_X;
      add_copy (list, TL_OP_COPY, TL_BUFFER_X, TL_BUFFER_H);
      g_array_index (list, TlOp, list->len - 1).flags = flags;
    }
  for (guint i = 0; i < d->n_blocks[TL_STACK_LOOP]; i++)
    add_block (p, list, TL_STACK_LOOP, i);
  add_norm (p, list, d->norm_loop_end, p->weights->loop_norm);
  add_tap (list, 1 + d->n_blocks[TL_STACK_PRE]);
}

static void
compile_fill (TlProgram *p, GArray *list)
{
  for (guint i = 0; i < p->descriptor->n_blocks[TL_STACK_LOOP]; i++)
    add_keys_and_values (p, list, &p->weights->blocks[TL_STACK_LOOP][i], TL_PLANES_LOOP, i);
}

static void
compile_post (TlProgram *p, GArray *list)
{
  const TlDescriptor *d = p->descriptor;
  add_norm (p, list, d->norm_pre_coda, p->weights->pre_coda_norm);
  for (guint i = 0; i < d->n_blocks[TL_STACK_CODA]; i++)
    add_block (p, list, TL_STACK_CODA, i);

  TlOp *op = add_op (list, TL_OP_HEAD);
  op->in = TL_BUFFER_H;
  if (d->norm_final != TL_NORM_REF_NONE)
    op->norm = model_norm (p, p->weights->final_norm, p->weights->final_norm_bias);
  op->n_matrices = 1;
  op->matrix[0] = p->weights->head;
  op->bias[0] = p->weights->head_bias;
  op->scale = d->logit_scale;
  op->softcap = d->logit_softcap;

  /* after the last append only the rows that deliver logits have anything left to do */
  gboolean delivering = TRUE;
  for (guint i = list->len; i-- > 0 && delivering;)
    {
      TlOp *o = &g_array_index (list, TlOp, i);
      delivering = o->kind != TL_OP_APPEND_KV;
      if (delivering)
        o->flags |= TL_OP_FLAG_DELIVERING;
    }
}

/* --- rotation --- */

/* the "llama3" rule: long wavelengths divided by factor, short ones kept, a ramp between */
static float
llama3_scaled (const TlDescriptor *d, float inv_freq)
{
  float wavelength = (float) (2.0 * G_PI) / inv_freq;
  float old = (float) d->rope_original_max;
  float low = (float) d->rope_low_freq_factor, high = (float) d->rope_high_freq_factor;
  float factor = (float) d->rope_factor;
  if (wavelength > old / low)
    return inv_freq / factor;
  if (wavelength < old / high)
    return inv_freq;
  float smooth = (old / wavelength - low) / (high - low);
  return (1.0f - smooth) * inv_freq / factor + smooth * inv_freq;
}

static void
make_inv_freq (TlProgram *p)
{
  const TlDescriptor *d = p->descriptor;
  p->rope_magnitude = 1.0f;
  p->position_divisor = 1.0f;
  if (d->pos != TL_POS_ROPE)
    return;
  p->rope_dims = d->rope_dims ? d->rope_dims : d->head_dim;
  p->rope_layout = d->rope_layout;
  p->rope_sign = d->rope_sign ? d->rope_sign : 1;
  p->inv_freq = g_new (float, p->rope_dims / 2);
  for (guint i = 0; i < p->rope_dims / 2; i++)
    {
      float exponent = (float) (2 * i) / (float) p->rope_dims;
      float f = 1.0f / (float) pow (d->rope_theta, exponent);
      if (d->rope_scaling == TL_ROPE_SCALING_LINEAR)
        f /= (float) d->rope_factor;
      else if (d->rope_scaling == TL_ROPE_SCALING_LLAMA3)
        f = llama3_scaled (d, f);
      else if (d->rope_scaling == TL_ROPE_SCALING_FACTORS && p->weights->rope_factors)
        f /= p->weights->rope_factors[i];
      p->inv_freq[i] = f;
    }
}

static float
to_table (TlTableDtype dtype, double v)
{
  if (dtype == TL_TABLE_BF16)
    return tl_bf16_to_f32 (tl_f32_to_bf16 ((float) v));
  if (dtype == TL_TABLE_F16)
    return tl_f16_to_f32 (tl_f32_to_f16 ((float) v));
  return (float) v;
}

void
tl_program_rope_row (const TlProgram *p, guint position, float *cos_out, float *sin_out)
{
  for (guint i = 0; i < p->rope_dims / 2; i++)
    {
      float angle = (float) position / p->position_divisor * p->inv_freq[i];
      cos_out[i] = to_table (p->descriptor->rope_table_dtype, cos ((double) angle)) * p->rope_magnitude;
      sin_out[i] = to_table (p->descriptor->rope_table_dtype, sin ((double) angle)) * p->rope_magnitude * p->rope_sign;
    }
}

/* --- random initial state --- */

/* a counter generator (splitmix finaliser) keyed by seed, position and channel; 53 random bits in (0, 1) */
static double
uniform (guint64 seed, guint64 position, guint64 channel, guint64 draw)
{
  guint64 z = seed * 0x9e3779b97f4a7c15u + position * 0xbf58476d1ce4e5b9u + channel * 0x94d049bb133111ebu + draw;
  for (guint i = 0; i < 2; i++)
    {
      z += 0x9e3779b97f4a7c15u;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      z ^= z >> 31;
    }
  return ((double) (z >> 11) + 0.5) * 0x1p-53;
}

void
tl_program_initial_state (const TlProgram *p, guint64 state_seed, guint position, float *out)
{
  const TlDescriptor *d = p->descriptor;
  gboolean truncated = d->state_init == TL_STATE_INIT_TRUNC_NORMAL;
  memset (out, 0, p->d_model * sizeof (float));
  if (d->state_init != TL_STATE_INIT_NORMAL && !truncated)
    return;
  for (guint c = 0; c < p->d_model; c++)
    {
      double z;
      guint64 draw = 0;
      do
        {
          z = sqrt (-2.0 * log (uniform (state_seed, position, c, draw)))
              * cos (2.0 * G_PI * uniform (state_seed, position, c, draw + 1));
          draw += 2;
        }
      while (truncated && d->state_clip > 0 && fabs (z) > d->state_clip && draw < 128);
      out[c] = (float) (z * d->state_std) * (d->state_scale != 0 ? d->state_scale : 1.0f);
    }
}

/* --- life --- */

static void
finish_list (GArray *array, TlOpList *list)
{
  list->n = array->len;
  list->ops = (TlOp *) g_array_free (array, FALSE);
}

TlProgram *
tl_program_new (TlWeights *weights, GError **error)
{
  g_autoptr (TlProgram) p = g_new0 (TlProgram, 1);
  TlDescriptor *d = weights->descriptor;
  p->ref_count = 1;
  p->weights = tl_weights_ref (weights);
  p->descriptor = d;
  p->vectors = g_ptr_array_new_with_free_func (g_free);
  if (!check_supported (p, error))
    return NULL;

  p->d_model = d->d_model;
  p->d_ff = d->d_ff;
  p->n_heads = d->n_heads;
  p->n_kv_heads = d->n_kv_heads;
  p->head_dim = d->head_dim;
  p->vocab_size = d->vocab_size;
  p->attn_scale = d->attn_scale != 0 ? d->attn_scale : (float) (1.0 / sqrt ((double) d->head_dim));
  p->uses_e = d->inject != TL_INJECT_NONE;
  p->has_initial_state = d->state_init >= TL_STATE_INIT_ZEROS;
  make_inv_freq (p);

  GArray *list = g_array_new (FALSE, TRUE, sizeof (TlOp));
  compile_pre (p, list);
  finish_list (list, &p->pre);
  list = g_array_new (FALSE, TRUE, sizeof (TlOp));
  compile_body (p, list);
  finish_list (list, &p->body);
  list = g_array_new (FALSE, TRUE, sizeof (TlOp));
  compile_post (p, list);
  finish_list (list, &p->post);
  list = g_array_new (FALSE, TRUE, sizeof (TlOp));
  compile_fill (p, list);
  finish_list (list, &p->fill);
  return g_steal_pointer (&p);
}

TlProgram *
tl_program_ref (TlProgram *p)
{
  g_atomic_int_inc (&p->ref_count);
  return p;
}

void
tl_program_unref (TlProgram *p)
{
  if (!g_atomic_int_dec_and_test (&p->ref_count))
    return;
  g_free (p->pre.ops);
  g_free (p->body.ops);
  g_free (p->post.ops);
  g_free (p->fill.ops);
  g_free (p->inv_freq);
  g_ptr_array_unref (p->vectors);
  tl_weights_unref (p->weights);
  g_free (p);
}

guint
tl_program_buffer_width (const TlProgram *p, TlBuffer b)
{
  switch (b)
    {
    case TL_BUFFER_H: case TL_BUFFER_E: case TL_BUFFER_X:
      return p->d_model;
    case TL_BUFFER_Q: case TL_BUFFER_A:
      return p->n_heads * p->head_dim;
    case TL_BUFFER_K: case TL_BUFFER_V:
      return p->n_kv_heads * p->head_dim;
    case TL_BUFFER_M:
      return p->d_ff;
    default:
      return 0;
    }
}

guint
tl_program_n_planes (const TlProgram *p, TlPlanes planes)
{
  static const TlStack stacks[] = { TL_STACK_PRE, TL_STACK_CODA, TL_STACK_LOOP };
  return p->descriptor->n_blocks[stacks[planes]];
}

guint
tl_program_trace_length (const TlProgram *p, guint loops)
{
  return 1 + p->descriptor->n_blocks[TL_STACK_PRE] + loops;
}
