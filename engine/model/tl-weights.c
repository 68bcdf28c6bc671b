/* model/tl-weights.c — the list of tensors that a descriptor asks for, and a checkpoint resolved against it.
 *
 * One table of slots per place (a block, or outside the blocks) says name, shape and the axis that asks for it. The loader
 * and the importers walk the same list, so that neither can know a tensor the other does not.
 */
#include "model/tl-weights.h"

#include <string.h>

/* sizes a slot's shape is made of */
typedef enum { ONE, D_MODEL, TWO_D, D_FF, HEADS, KV_HEADS, HEAD_DIM, QK_BIAS, VOCAB, MAX_POS, ROPE_PAIRS } Size;

/* axes that ask for a slot; ALWAYS is asked for by every descriptor */
typedef enum { ALWAYS, IF_AFFINE_PRE, IF_AFFINE_OUT, IF_NORM_BIAS_PRE, IF_NORM_BIAS_OUT, IF_Q_BIAS, IF_K_BIAS, IF_V_BIAS,
  IF_O_BIAS, IF_QK_BIAS, IF_Q_NORM_HEAD, IF_Q_NORM_FULL, IF_GATED, IF_MLP_BIAS, IF_GATED_BIAS, IF_UNTIED, IF_HEAD_BIAS,
  IF_INJECT_CAT, IF_INJECT_BIAS, IF_POST_LOOP, IF_POS, IF_ROPE_FACTORS, IF_NORM_EMBED, IF_NORM_PRELUDE, IF_NORM_LOOP,
  IF_NORM_PRE_CODA, IF_NORM_FINAL, IF_FINAL_BIAS, IF_EXIT } When;

typedef struct
{
  const char *name;
  gboolean is_matrix;
  Size rows, cols;
  When when;
  gsize place;
} Slot;

#define IN_BLOCK(member) G_STRUCT_OFFSET (TlBlockWeights, member)
#define IN_MODEL(member) G_STRUCT_OFFSET (TlWeights, member)

static const Slot block_slots[] = {
  { "attn_norm.weight", FALSE, ONE, D_MODEL, IF_AFFINE_PRE, IN_BLOCK (attn_norm) },
  { "attn_norm.bias", FALSE, ONE, D_MODEL, IF_NORM_BIAS_PRE, IN_BLOCK (attn_norm_bias) },
  { "attn.q.weight", TRUE, HEADS, D_MODEL, ALWAYS, IN_BLOCK (q) },
  { "attn.k.weight", TRUE, KV_HEADS, D_MODEL, ALWAYS, IN_BLOCK (k) },
  { "attn.v.weight", TRUE, KV_HEADS, D_MODEL, ALWAYS, IN_BLOCK (v) },
  { "attn.o.weight", TRUE, D_MODEL, HEADS, ALWAYS, IN_BLOCK (o) },
  { "attn.q.bias", FALSE, ONE, HEADS, IF_Q_BIAS, IN_BLOCK (q_bias) },
  { "attn.k.bias", FALSE, ONE, KV_HEADS, IF_K_BIAS, IN_BLOCK (k_bias) },
  { "attn.v.bias", FALSE, ONE, KV_HEADS, IF_V_BIAS, IN_BLOCK (v_bias) },
  { "attn.o.bias", FALSE, ONE, D_MODEL, IF_O_BIAS, IN_BLOCK (o_bias) },
  { "attn.qk_bias", FALSE, ONE, QK_BIAS, IF_QK_BIAS, IN_BLOCK (qk_bias) },
  { "attn.q_norm.weight", FALSE, ONE, HEAD_DIM, IF_Q_NORM_HEAD, IN_BLOCK (q_norm) },
  { "attn.k_norm.weight", FALSE, ONE, HEAD_DIM, IF_Q_NORM_HEAD, IN_BLOCK (k_norm) },
  { "attn.q_norm.weight", FALSE, ONE, HEADS, IF_Q_NORM_FULL, IN_BLOCK (q_norm) },
  { "attn.k_norm.weight", FALSE, ONE, KV_HEADS, IF_Q_NORM_FULL, IN_BLOCK (k_norm) },
  { "attn_out_norm.weight", FALSE, ONE, D_MODEL, IF_AFFINE_OUT, IN_BLOCK (attn_out_norm) },
  { "attn_out_norm.bias", FALSE, ONE, D_MODEL, IF_NORM_BIAS_OUT, IN_BLOCK (attn_out_norm_bias) },
  { "mlp_norm.weight", FALSE, ONE, D_MODEL, IF_AFFINE_PRE, IN_BLOCK (mlp_norm) },
  { "mlp_norm.bias", FALSE, ONE, D_MODEL, IF_NORM_BIAS_PRE, IN_BLOCK (mlp_norm_bias) },
  { "mlp.gate.weight", TRUE, D_FF, D_MODEL, IF_GATED, IN_BLOCK (gate) },
  { "mlp.up.weight", TRUE, D_FF, D_MODEL, ALWAYS, IN_BLOCK (up) },
  { "mlp.down.weight", TRUE, D_MODEL, D_FF, ALWAYS, IN_BLOCK (down) },
  { "mlp.gate.bias", FALSE, ONE, D_FF, IF_GATED_BIAS, IN_BLOCK (gate_bias) },
  { "mlp.up.bias", FALSE, ONE, D_FF, IF_MLP_BIAS, IN_BLOCK (up_bias) },
  { "mlp.down.bias", FALSE, ONE, D_MODEL, IF_MLP_BIAS, IN_BLOCK (down_bias) },
  { "mlp_out_norm.weight", FALSE, ONE, D_MODEL, IF_AFFINE_OUT, IN_BLOCK (mlp_out_norm) },
  { "mlp_out_norm.bias", FALSE, ONE, D_MODEL, IF_NORM_BIAS_OUT, IN_BLOCK (mlp_out_norm_bias) },
};

static const Slot model_slots[] = {
  { "embed.weight", TRUE, VOCAB, D_MODEL, ALWAYS, IN_MODEL (embed) },
  { "pos.weight", TRUE, MAX_POS, D_MODEL, IF_POS, IN_MODEL (pos) },
  { "embed_norm.weight", FALSE, ONE, D_MODEL, IF_NORM_EMBED, IN_MODEL (embed_norm) },
  { "prelude_norm.weight", FALSE, ONE, D_MODEL, IF_NORM_PRELUDE, IN_MODEL (prelude_norm) },
  { "inject.weight", TRUE, D_MODEL, TWO_D, IF_INJECT_CAT, IN_MODEL (inject) },
  { "inject.bias", FALSE, ONE, D_MODEL, IF_INJECT_BIAS, IN_MODEL (inject_bias) },
  { "loop_norm.weight", FALSE, ONE, D_MODEL, IF_NORM_LOOP, IN_MODEL (loop_norm) },
  { "exit_gate.weight", FALSE, ONE, D_MODEL, IF_EXIT, IN_MODEL (exit_gate) },
  { "exit_gate.bias", FALSE, ONE, ONE, IF_EXIT, IN_MODEL (exit_gate_bias) },
  { "post_loop.weight", TRUE, D_MODEL, D_MODEL, IF_POST_LOOP, IN_MODEL (post_loop) },
  { "pre_coda_norm.weight", FALSE, ONE, D_MODEL, IF_NORM_PRE_CODA, IN_MODEL (pre_coda_norm) },
  { "final_norm.weight", FALSE, ONE, D_MODEL, IF_NORM_FINAL, IN_MODEL (final_norm) },
  { "final_norm.bias", FALSE, ONE, D_MODEL, IF_FINAL_BIAS, IN_MODEL (final_norm_bias) },
  { "head.weight", TRUE, VOCAB, D_MODEL, IF_UNTIED, IN_MODEL (head) },
  { "head.bias", FALSE, ONE, VOCAB, IF_HEAD_BIAS, IN_MODEL (head_bias) },
  { "rope.factors", FALSE, ONE, ROPE_PAIRS, IF_ROPE_FACTORS, IN_MODEL (rope_factors) },
};

static guint
size_of (const TlDescriptor *d, Size size)
{
  switch (size)
    {
    case ONE:
      return 1;
    case D_MODEL:
      return d->d_model;
    case TWO_D:
      return 2 * d->d_model;
    case D_FF:
      return d->d_ff;
    case HEADS:
      return d->n_heads * d->head_dim;
    case KV_HEADS:
      return d->n_kv_heads * d->head_dim;
    case HEAD_DIM:
      return d->head_dim;
    case QK_BIAS:
      return 2 * d->n_heads * d->head_dim;
    case VOCAB:
      return d->vocab_padded;
    case MAX_POS:
      return d->max_seq_len;
    case ROPE_PAIRS:
      return d->rope_dims / 2;
    }
  g_assert_not_reached ();
}

static gboolean
asked_for (const TlDescriptor *d, When when)
{
  gboolean pre = d->placement != TL_PLACEMENT_POST_OUT && d->norm_affine;
  gboolean out = d->placement != TL_PLACEMENT_PRE && d->placement != TL_PLACEMENT_ADALN_GATE && d->norm_affine;
  gboolean gated = d->mlp == TL_MLP_SWIGLU || d->mlp == TL_MLP_GEGLU_TANH;

  switch (when)
    {
    case ALWAYS:
      return TRUE;
    case IF_AFFINE_PRE:
      return pre;
    case IF_AFFINE_OUT:
      return out;
    case IF_NORM_BIAS_PRE:
      return pre && d->norm_bias;
    case IF_NORM_BIAS_OUT:
      return out && d->norm_bias;
    case IF_Q_BIAS:
      return d->q_bias;
    case IF_K_BIAS:
      return d->k_bias;
    case IF_V_BIAS:
      return d->v_bias;
    case IF_O_BIAS:
      return d->o_bias;
    case IF_QK_BIAS:
      return d->qk_bias_pre_rope;
    case IF_Q_NORM_HEAD:
      return d->qk_norm == TL_QK_NORM_HEAD && d->qk_norm_affine;
    case IF_Q_NORM_FULL:
      return d->qk_norm == TL_QK_NORM_FULL_WIDTH && d->qk_norm_affine;
    case IF_GATED:
      return gated;
    case IF_MLP_BIAS:
      return d->mlp_bias;
    case IF_GATED_BIAS:
      return gated && d->mlp_bias;
    case IF_UNTIED:
      return !d->tie_head;
    case IF_HEAD_BIAS:
      return d->head_bias;
    case IF_INJECT_CAT:
      return d->inject == TL_INJECT_LINEAR_CAT;
    case IF_INJECT_BIAS:
      return d->inject == TL_INJECT_LINEAR_CAT && d->inject_bias;
    case IF_POST_LOOP:
      return d->post_loop_linear;
    case IF_POS:
      return d->pos == TL_POS_LEARNED;
    case IF_ROPE_FACTORS:
      return d->pos == TL_POS_ROPE && d->rope_scaling == TL_ROPE_SCALING_FACTORS;
    case IF_NORM_EMBED:
      return d->norm_embed == TL_NORM_REF_OWN && d->norm_affine;
    case IF_NORM_PRELUDE:
      return d->norm_prelude_out == TL_NORM_REF_OWN && d->norm_affine;
    case IF_NORM_LOOP:
      return d->norm_loop_end == TL_NORM_REF_OWN && d->norm_affine;
    case IF_NORM_PRE_CODA:
      return d->norm_pre_coda == TL_NORM_REF_OWN && d->norm_affine;
    case IF_NORM_FINAL:        /* also when only other places refer to it (a loop-end norm that is the final norm) */
      return d->norm_affine && (d->norm_final == TL_NORM_REF_OWN || d->norm_loop_end == TL_NORM_REF_FINAL
          || d->norm_pre_coda == TL_NORM_REF_FINAL || d->norm_embed == TL_NORM_REF_FINAL
          || d->norm_prelude_out == TL_NORM_REF_FINAL);
    case IF_FINAL_BIAS:
      return d->norm_affine && d->norm_bias && d->norm_final == TL_NORM_REF_OWN;
    case IF_EXIT:
      return d->exit_gate != TL_EXIT_NONE;
    }
  g_assert_not_reached ();
}

static void
slot_free (gpointer data)
{
  TlWeightSlot *slot = data;
  g_free (slot->name);
  g_free (slot);
}

static void
add_slots (GPtrArray *out, const TlDescriptor *d, const Slot *slots, guint n, const char *prefix, gint stack, guint block)
{
  for (guint i = 0; i < n; i++)
    if (asked_for (d, slots[i].when))
      {
        TlWeightSlot *slot = g_new0 (TlWeightSlot, 1);
        slot->name = g_strconcat (prefix, slots[i].name, NULL);
        slot->is_matrix = slots[i].is_matrix;
        slot->rows = size_of (d, slots[i].rows);
        slot->cols = size_of (d, slots[i].cols);
        slot->stack = stack;
        slot->block = block;
        slot->place = slots[i].place;
        g_ptr_array_add (out, slot);
      }
}

GPtrArray *
tl_weight_slots (const TlDescriptor *d, const char *file_name, GError **error)
{
  static const char *const stacks[TL_N_STACKS] = { "pre", "loop", "coda" };
  const struct { gboolean used; const char *axis; } missing[] = {
    { d->inject > TL_INJECT_LINEAR_CAT, "inject.kind" },
    { d->cond != TL_COND_NONE, "cond.kind" },
    { d->value_embed, "attn.value_embed" },
    { d->out_gate != TL_OUT_GATE_NONE, "attn.out_gate" },
    { d->schedule != TL_SCHEDULE_LOOPED, "schedule" },
    { d->state_init == TL_STATE_INIT_PARAM, "state.init" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (missing); i++)
    if (missing[i].used)
      {
        g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
            "tinyloop: %s: descriptor: this value of '%s' is not implemented in this version", file_name, missing[i].axis);
        return NULL;
      }

  GPtrArray *out = g_ptr_array_new_with_free_func (slot_free);
  add_slots (out, d, model_slots, G_N_ELEMENTS (model_slots), "", -1, 0);
  for (guint s = 0; s < TL_N_STACKS; s++)
    for (guint b = 0; b < d->n_blocks[s]; b++)
      {
        g_autofree char *prefix = g_strdup_printf ("%s.%u.", stacks[s], b);
        add_slots (out, d, block_slots, G_N_ELEMENTS (block_slots), prefix, s, b);
      }
  return out;
}

/* marks NAME and, for a quantised matrix, its companions as used */
static void
mark_used (GHashTable *used, const char *name, gboolean is_matrix)
{
  g_hash_table_add (used, g_strdup (name));
  if (!is_matrix)
    return;
  g_autofree char *stem = g_strndup (name, strlen (name) - strlen (".weight"));
  g_hash_table_add (used, g_strconcat (stem, ".scale", NULL));
  g_hash_table_add (used, g_strconcat (stem, ".zero", NULL));
  g_hash_table_add (used, g_strconcat (stem, ".min", NULL));
}

/* every tensor has a purpose: a slot, the tokenizer, or padding */
static gboolean
all_tensors_used (TlCheckpoint *c, GHashTable *used, GError **error)
{
  for (guint i = 0; i < tl_checkpoint_n_tensors (c); i++)
    {
      const char *name = tl_checkpoint_tensor_at (c, i)->name;
      if (g_str_has_prefix (name, "tokenizer.") || g_str_has_prefix (name, "_pad.") || g_hash_table_contains (used, name))
        continue;
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' is not part of the model that its "
          "descriptor describes", tl_checkpoint_name (c), name);
      return FALSE;
    }
  return TRUE;
}

static gboolean
fill_slot (TlWeights *w, const TlWeightSlot *slot, GError **error)
{
  guint8 *base = slot->stack < 0 ? (guint8 *) w : (guint8 *) &w->blocks[slot->stack][slot->block];
  if (slot->is_matrix)
    return tl_checkpoint_matrix (w->checkpoint, slot->name, slot->rows, slot->cols, (TlMatrix *) (base + slot->place),
        error);

  float *vector = tl_checkpoint_vector (w->checkpoint, slot->name, slot->cols, error);
  if (!vector)
    return FALSE;
  g_ptr_array_add (w->owned, vector);
  *(float **) (base + slot->place) = vector;
  return TRUE;
}

TlWeights *
tl_weights_new (TlCheckpoint *checkpoint, GError **error)
{
  TlDescriptor *d = tl_checkpoint_descriptor (checkpoint);
  g_autoptr (GPtrArray) slots = tl_weight_slots (d, tl_checkpoint_name (checkpoint), error);
  if (!slots)
    return NULL;

  g_autoptr (TlWeights) w = g_new0 (TlWeights, 1);
  g_autoptr (GHashTable) used = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  w->ref_count = 1;
  w->checkpoint = tl_checkpoint_ref (checkpoint);
  w->descriptor = tl_descriptor_ref (d);
  w->owned = g_ptr_array_new_with_free_func (g_free);
  for (guint s = 0; s < TL_N_STACKS; s++)
    w->blocks[s] = g_new0 (TlBlockWeights, d->n_blocks[s]);

  for (guint i = 0; i < slots->len; i++)
    {
      const TlWeightSlot *slot = g_ptr_array_index (slots, i);
      if (!fill_slot (w, slot, error))
        return NULL;
      mark_used (used, slot->name, slot->is_matrix);
    }
  if (!all_tensors_used (checkpoint, used, error))
    return NULL;
  if (d->tie_head)
    w->head = w->embed;
  return g_steal_pointer (&w);
}

TlWeights *
tl_weights_ref (TlWeights *w)
{
  g_atomic_int_inc (&w->ref_count);
  return w;
}

void
tl_weights_unref (TlWeights *w)
{
  if (!g_atomic_int_dec_and_test (&w->ref_count))
    return;
  for (guint s = 0; s < TL_N_STACKS; s++)
    g_free (w->blocks[s]);
  g_ptr_array_unref (w->owned);
  tl_descriptor_unref (w->descriptor);
  tl_checkpoint_unref (w->checkpoint);
  g_free (w);
}
