/* engine/tl-export.c — a checkpoint as a GGUF file with the loop unrolled: what `tinyloop export-gguf` calls.
 *
 * The architecture is `llama`, or `qwen3` for models that normalise queries and keys. An axis that neither has is refused by
 * name: the file would load elsewhere and compute something else.
 */
#include <math.h>
#include <string.h>

#include "forward/tl-program.h"
#include "import/tl-gguf-names.h"
#include "import/tl-gguf-writer.h"
#include "import/tl-gguf.h"
#include "model/tl-file.h"
#include "text/tl-tokenizer-parts.h"
#include "tl-convert.h"
#include "tl-model-private.h"

typedef struct
{
  TlWeights *weights;
  const TlDescriptor *d;
  GPtrArray *slots;
  const char *name, *arch;
  guint loops;
  TlGgufWriter *writer;
  TlProgressFunc progress;
  gpointer progress_data;
  GCancellable *cancellable;
} Export;

/* one slot as it stands in the file: a block of the loop comes once per loop */
typedef struct { const TlWeightSlot *slot; guint block; } Entry;

static gboolean
check_axes (const Export *x, GError **error)
{
  const TlDescriptor *d = x->d;
  gboolean once = x->loops == 1;
  const struct { gboolean used; const char *axis; } rows[] = {
    { d->schedule != TL_SCHEDULE_LOOPED, "schedule" },
    { d->state_init != TL_STATE_INIT_EMBED && d->state_init != TL_STATE_INIT_PRELUDE, "state.init" },
    { d->inject != TL_INJECT_NONE && !(d->inject == TL_INJECT_ADD && !d->inject_first_step && once), "inject.kind" },
    { d->cond != TL_COND_NONE, "cond.kind" }, { d->norm != TL_NORM_RMS, "norm.kind" },
    { d->norm_eps_from_dtype, "norm.eps_from_dtype" }, { !d->norm_affine, "norm.affine" }, { d->norm_bias, "norm.bias" },
    { d->placement != TL_PLACEMENT_PRE, "block.norm_placement" }, { d->norm_embed != TL_NORM_REF_NONE, "norms.embed" },
    { d->norm_prelude_out != TL_NORM_REF_NONE, "norms.prelude_out" }, { d->norm_loop_end != TL_NORM_REF_NONE, "norms.loop_end" },
    { d->norm_pre_coda != TL_NORM_REF_NONE, "norms.pre_coda" }, { d->norm_final != TL_NORM_REF_OWN, "norms.final" },
    { d->post_loop_linear, "post_loop_linear" }, { d->qk_bias_pre_rope, "attn.qk_bias_pre_rope" },
    { d->qk_norm == TL_QK_NORM_FULL_WIDTH || (d->qk_norm && (!d->qk_norm_affine || d->qk_norm_eps != d->norm_eps
          || d->qk_norm_when != TL_QK_NORM_PRE_ROPE || d->rope_layout != TL_ROPE_HALF || d->q_bias || d->k_bias
          || d->v_bias || d->o_bias || d->mlp_bias)), "attn.qk_norm" },
    { d->out_gate != TL_OUT_GATE_NONE, "attn.out_gate" }, { d->value_embed, "attn.value_embed" },
    { d->mask != TL_MASK_CAUSAL, "attn.mask" }, { d->window != 0, "attn.window" },
    { d->attn_scale != 0 && d->attn_scale != 1 / sqrtf (d->head_dim), "attn.scale" },
    { d->attn_softcap != 0, "attn.softcap" }, { d->pos != TL_POS_ROPE, "pos.kind" },
    { d->rope_sign != 1, "rope.sign" }, { d->rope_dims && d->rope_dims != d->head_dim, "rope.dims" },
    { d->rope_scaling == TL_ROPE_SCALING_YARN, "rope.scaling" }, { d->rope_table_dtype != TL_TABLE_F32, "rope.table_dtype" },
    { d->mlp != TL_MLP_SWIGLU, "mlp.kind" }, { d->mlp_act_scale != 1, "mlp.act_scale" }, { d->head_bias, "head_bias" },
    { d->logit_scale != 1, "logit_scale" }, { d->logit_softcap != 0, "logit_softcap" },
    { d->exit_gate != TL_EXIT_NONE, "exit.kind" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].used)
      {
        g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: descriptor: this value of '%s' has no form in a "
            "GGUF file of the llama or qwen3 architecture; such a model runs here only", x->name, rows[i].axis);
        return FALSE;
      }
  return TRUE;
}

/* --- metadata --- */

static char *
key (const Export *x, const char *tail)
{
  return g_strdup_printf ("%s.%s", x->arch, tail);
}

static void
add_shape (Export *x)
{
  const TlDescriptor *d = x->d;
  guint blocks = d->n_blocks[TL_STACK_PRE] + x->loops * d->n_blocks[TL_STACK_LOOP] + d->n_blocks[TL_STACK_CODA];
  const struct { const char *key; guint value; } counts[] = {
    { "block_count", blocks }, { "context_length", d->max_seq_len }, { "embedding_length", d->d_model },
    { "feed_forward_length", d->d_ff }, { "attention.head_count", d->n_heads },
    { "attention.head_count_kv", d->n_kv_heads }, { "attention.key_length", d->head_dim },
    { "attention.value_length", d->head_dim }, { "rope.dimension_count", d->head_dim }, { "vocab_size", d->vocab_size },
  };
  tl_gguf_writer_add_text (x->writer, "general.architecture", x->arch);
  tl_gguf_writer_add_text (x->writer, "general.name", x->name);
  tl_gguf_writer_add_count (x->writer, "general.alignment", 32);
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    {
      g_autofree char *full = key (x, counts[i].key);
      tl_gguf_writer_add_count (x->writer, full, counts[i].value);
    }
  g_autofree char *eps = key (x, "attention.layer_norm_rms_epsilon"), *base = key (x, "rope.freq_base");
  tl_gguf_writer_add_float (x->writer, eps, d->norm_eps);
  tl_gguf_writer_add_float (x->writer, base, d->rope_theta);
  if (d->rope_scaling == TL_ROPE_SCALING_LINEAR)
    {
      g_autofree char *type = key (x, "rope.scaling.type"), *factor = key (x, "rope.scaling.factor");
      tl_gguf_writer_add_text (x->writer, type, "linear");
      tl_gguf_writer_add_float (x->writer, factor, d->rope_factor);
    }
}

static void
add_id (Export *x, const char *name, gint32 id)
{
  if (id >= 0)
    tl_gguf_writer_add_count (x->writer, name, id);
}

static void
add_tokenizer (Export *x, const TlTokenizerParts *t)
{
  TlGgufWriter *w = x->writer;
  tl_gguf_writer_add_text (w, "tokenizer.ggml.model", t ? t->model : "none");
  if (!t)
    return;
  if (t->pre)
    tl_gguf_writer_add_text (w, "tokenizer.ggml.pre", t->pre);
  tl_gguf_writer_add_texts (w, "tokenizer.ggml.tokens", t->pieces, t->n_pieces);
  tl_gguf_writer_add_ids (w, "tokenizer.ggml.token_type", t->types, t->n_pieces);
  if (t->scores)
    tl_gguf_writer_add_floats (w, "tokenizer.ggml.scores", t->scores, t->n_pieces);
  else
    tl_gguf_writer_add_texts (w, "tokenizer.ggml.merges", t->merges, t->n_merges);
  add_id (x, "tokenizer.ggml.bos_token_id", t->bos);
  add_id (x, "tokenizer.ggml.eos_token_id", t->eos);
  add_id (x, "tokenizer.ggml.unknown_token_id", t->unk);
  tl_gguf_writer_add_flag (w, "tokenizer.ggml.add_bos_token", t->add_bos);
  tl_gguf_writer_add_flag (w, "tokenizer.ggml.add_eos_token", t->add_eos);
  tl_gguf_writer_add_flag (w, "tokenizer.ggml.add_space_prefix", !t->no_space_prefix);
  if (t->chat_template)
    tl_gguf_writer_add_text (w, "tokenizer.chat_template", t->chat_template);
}

/* --- tensors --- */

static gconstpointer
place_of (const Export *x, const TlWeightSlot *slot)
{
  const guint8 *base = slot->stack < 0 ? (const guint8 *) x->weights : (const guint8 *) &x->weights->blocks[slot->stack][slot->block];
  return base + slot->place;
}

static gboolean
is_embedding (const TlWeightSlot *slot)
{
  return g_str_equal (slot->name, "embed.weight");
}

/* rows beyond the vocabulary are padding; other programs count tokens by rows */
static TlMatrix
matrix_of (const Export *x, const TlWeightSlot *slot)
{
  TlMatrix m = *(const TlMatrix *) place_of (x, slot);
  if (is_embedding (slot) || g_str_equal (slot->name, "head.weight"))
    m.rows = x->d->vocab_size;
  return m;
}

/* a scaled embedding is written multiplied out, in F32: exactly what is computed from the two */
static const TlGgufType *
type_of (const Export *x, const TlWeightSlot *slot, const TlMatrix *m)
{
  return is_embedding (slot) && x->d->embed_scale != 1 ? tl_gguf_type (0) : tl_gguf_pack_type (m);
}

static void
declare (Export *x, const char *name, const TlWeightSlot *slot)
{
  if (!slot->is_matrix)
    {
      tl_gguf_writer_add_tensor (x->writer, name, 0, 0, slot->cols, slot->cols * sizeof (float));
      return;
    }
  TlMatrix m = matrix_of (x, slot);
  const TlGgufType *type = type_of (x, slot, &m);
  tl_gguf_writer_add_tensor (x->writer, name, type->id, m.rows, m.cols, (guint64) m.rows * (m.cols / type->values) * type->bytes);
}

static gboolean
interleaves (const Export *x)
{
  return g_str_equal (x->arch, "llama") && x->d->rope_layout == TL_ROPE_HALF;
}

static gboolean
write_vector (Export *x, const TlWeightSlot *slot, GError **error)
{
  const float *values = *(float *const *) place_of (x, slot);
  gboolean norm = strstr (slot->name, "norm.weight") != NULL;
  g_autofree float *out = g_new (float, slot->cols);
  for (guint i = 0; i < slot->cols; i++)
    out[tl_gguf_row (slot, interleaves (x), x->d->head_dim, i)] = values[i] + (norm && x->d->norm_unit_offset ? 1 : 0);
  return tl_gguf_writer_write (x->writer, out, slot->cols * sizeof (float), error);
}

static gboolean
write_matrix (Export *x, const TlWeightSlot *slot, const TlMatrix *m, GError **error)
{
  const TlGgufType *type = type_of (x, slot, m);
  gsize row_bytes = m->cols / type->values * type->bytes;
  float scale = is_embedding (slot) ? x->d->embed_scale : 1;
  g_autofree guint8 *out = g_malloc (m->rows * row_bytes);
  for (guint r = 0; r < m->rows; r++)
    {
      guint8 *to = out + tl_gguf_row (slot, interleaves (x), x->d->head_dim, r) * row_bytes;
      if (scale != 1)
        {
          tl_matrix_row_to_f32 (m, r, (float *) to);
          for (guint c = 0; c < m->cols; c++)
            ((float *) to)[c] *= scale;
        }
      else
        tl_gguf_pack_row (type, m, r, to);
    }
  return tl_gguf_writer_write (x->writer, out, m->rows * row_bytes, error);
}

/* every block in the order in which it runs */
static GArray *
list_entries (const Export *x)
{
  GArray *entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  guint done = 0;
  for (gint stack = -1; stack < TL_N_STACKS; stack++)
    {
      guint n = stack < 0 ? 1 : x->d->n_blocks[stack], times = stack == TL_STACK_LOOP ? x->loops : 1;
      for (guint t = 0; t < times; t++)
        for (guint i = 0; i < x->slots->len; i++)
          {
            Entry entry = { x->slots->pdata[i], done + t * n };
            entry.block += entry.slot->block;
            if (entry.slot->stack == stack)
              g_array_append_val (entries, entry);
          }
      done += stack < 0 ? 0 : times * n;
    }
  return entries;
}

/* the factors that divide the frequencies; other programs know this rule by its result only */
static float *
rope_factors (const Export *x, GError **error)
{
  g_autoptr (TlProgram) program = tl_program_new (x->weights, error);
  if (!program)
    return NULL;
  guint n = x->d->head_dim / 2;
  float *factors = g_new (float, n);
  for (guint i = 0; i < n; i++)
    factors[i] = 1.0f / (float) pow (x->d->rope_theta, 2.0 * i / x->d->head_dim) / program->inv_freq[i];
  return factors;
}

static gboolean
write_entries (Export *x, GArray *entries, GError **error)
{
  for (guint i = 0; i < entries->len; i++)
    {
      const TlWeightSlot *slot = g_array_index (entries, Entry, i).slot;
      TlMatrix m = { 0 };
      if (g_cancellable_is_cancelled (x->cancellable))
        {
          g_set_error_literal (error, TL_ERROR, TL_ERROR_CANCELLED, "tinyloop: the export was cancelled");
          return FALSE;
        }
      if (slot->is_matrix)
        m = matrix_of (x, slot);
      if (!(slot->is_matrix ? write_matrix (x, slot, &m, error) : write_vector (x, slot, error)))
        return FALSE;
      if (x->progress)
        x->progress ((i + 1.0) / entries->len, x->progress_data);
    }
  return TRUE;
}

static gboolean
write_file (Export *x, const TlTokenizerParts *tokenizer, GError **error)
{
  g_autoptr (GArray) entries = list_entries (x);
  gboolean ramp = x->d->rope_scaling == TL_ROPE_SCALING_LLAMA3;
  g_autofree float *factors = ramp ? rope_factors (x, error) : NULL;
  gsize factor_bytes = x->d->head_dim / 2 * sizeof (float);
  if (ramp && !factors)
    return FALSE;
  add_shape (x);
  add_tokenizer (x, tokenizer);
  if (factors)
    tl_gguf_writer_add_tensor (x->writer, "rope_freqs.weight", 0, 0, x->d->head_dim / 2, factor_bytes);
  for (guint i = 0; i < entries->len; i++)
    {
      const Entry *entry = &g_array_index (entries, Entry, i);
      g_autofree char *name = tl_gguf_tensor_name (entry->slot, entry->block);
      declare (x, name, entry->slot);
    }
  /* a head tied to an embedding that is written scaled has to be written on its own */
  const TlWeightSlot *embed = g_array_index (entries, Entry, 0).slot;
  TlMatrix head = matrix_of (x, embed);
  const TlGgufType *type = tl_gguf_pack_type (&head);
  gboolean own_head = x->d->tie_head && x->d->embed_scale != 1;
  gsize row_bytes = head.cols / type->values * type->bytes;
  if (own_head)
    tl_gguf_writer_add_tensor (x->writer, "output.weight", type->id, head.rows, head.cols, head.rows * row_bytes);
  if (!tl_gguf_writer_begin (x->writer, error)
      || (factors && !tl_gguf_writer_write (x->writer, factors, factor_bytes, error)) || !write_entries (x, entries, error))
    return FALSE;
  if (own_head)
    {
      g_autofree guint8 *rows = g_malloc (head.rows * row_bytes);
      for (guint r = 0; r < head.rows; r++)
        tl_gguf_pack_row (type, &head, r, rows + r * row_bytes);
      if (!tl_gguf_writer_write (x->writer, rows, head.rows * row_bytes, error))
        return FALSE;
    }
  return tl_gguf_writer_finish (x->writer, error);
}

/* FALSE after an error; a checkpoint without a tokenizer leaves `out` NULL */
static gboolean
read_tokenizer (const Export *x, TlTokenizerParts **out, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (TlTokenizer) tokenizer = tl_tokenizer_from_checkpoint (x->weights->checkpoint, &local);
  if (!tokenizer && g_error_matches (local, TL_ERROR, TL_ERROR_UNSUPPORTED))
    return TRUE;
  if (!tokenizer)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  *out = tl_tokenizer_to_parts (tokenizer, x->d->vocab_size, x->name, error);
  if (*out && (*out)->n_pieces != x->d->vocab_size)
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: the tokenizer has %" G_GSIZE_FORMAT " ids, the model "
        "%u; export without the tokenizer", x->name, (*out)->n_pieces, x->d->vocab_size);
  return *out && (*out)->n_pieces == x->d->vocab_size;
}

gboolean
tl_export_gguf (const char *src, const char *dst, guint loops, TlExportFlags flags, TlProgressFunc progress, gpointer data,
    GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (src && dst, FALSE);
  g_autoptr (TlCheckpoint) checkpoint = tl_file_check_apart (src, dst, error) ? tl_checkpoint_open (src, error) : NULL;
  g_autoptr (TlWeights) weights = checkpoint ? tl_weights_new (checkpoint, error) : NULL;
  if (!weights)
    return FALSE;
  const TlDescriptor *d = weights->descriptor;
  const char *name = tl_checkpoint_name (checkpoint);
  if (loops && (loops < d->loops_min || loops > d->loops_max))
    {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: %s: loops %u: the model allows %u to %u", name, loops,
          d->loops_min, d->loops_max);
      return FALSE;
    }
  g_autoptr (GPtrArray) slots = tl_weight_slots (d, name, error);
  g_autoptr (TlGgufWriter) writer = tl_gguf_writer_new (dst);
  g_autoptr (TlTokenizerParts) tokenizer = NULL;
  Export x = { weights, d, slots, name, d->qk_norm == TL_QK_NORM_NONE ? "llama" : "qwen3", loops ? loops : d->loops_default,
    writer, progress, data, cancellable };
  return slots && check_axes (&x, error)
      && (flags & TL_EXPORT_WITHOUT_TOKENIZER || read_tokenizer (&x, &tokenizer, error)) && write_file (&x, tokenizer, error);
}
