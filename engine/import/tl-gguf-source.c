/* import/tl-gguf-source.c — a GGUF file of a Llama-like model as a source of slots.
 *
 * Blocks of 32 are taken over as they are; "K" formats become F32. A llama file stores rows of q and k in the order of
 * interleaved rotation pairs; they are put back in the half order, so that one rotation serves all.
 */
#include <math.h>
#include <string.h>

#include "import/tl-gguf-names.h"
#include "import/tl-gguf.h"
#include "import/tl-import.h"
#include "text/tl-tokenizer-parts.h"

typedef struct
{
  TlImportSource source;
  TlGguf *gguf;
  const char *arch;
  gboolean pairs;               /* q and k rows are interleaved */
} GgufSource;

static const struct { const char *name; gboolean pairs; } architectures[] = {
  { "llama", TRUE }, { "qwen2", FALSE }, { "qwen3", FALSE },
};

/* keys below the architecture's name that change the result and have no axis here */
static const char *const refused[] = {
  "expert_count", "attention.sliding_window", "attention.max_alibi_bias", "attention.clamp_kqv", "logit_scale",
  "attn_logit_softcapping", "final_logit_softcapping", "embedding_scale", "residual_scale", "attention.scale",
};

static const TlGgufTensor *
find (GgufSource *s, const TlWeightSlot *slot)
{
  g_autofree char *name = tl_gguf_tensor_name (slot, slot->block);
  return g_hash_table_lookup (s->gguf->tensors, name);
}

/* --- values --- */

static guint
row_in_file (GgufSource *s, const TlWeightSlot *slot, guint r)
{
  return tl_gguf_row (slot, s->pairs, s->source.descriptor->head_dim, r);
}

/* the slot's tensor, its shape checked */
static const TlGgufTensor *
find_fitting (GgufSource *s, const TlWeightSlot *slot, GError **error)
{
  const TlGgufTensor *t = find (s, slot);
  g_autofree char *name = tl_gguf_tensor_name (slot, slot->block);
  if (!t)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' is missing", s->gguf->file->name, name);
      return NULL;
    }
  guint64 rows = t->n_dims > 1 ? t->dims[1] : 1;
  if (t->n_dims <= 2 && t->dims[0] == slot->cols && rows == slot->rows)
    return t;
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' has %" G_GUINT64_FORMAT " rows of %"
      G_GUINT64_FORMAT " values, expected %u of %u", s->gguf->file->name, name, rows, t->dims[0], slot->rows, slot->cols);
  return NULL;
}

static guint8 *
load (GgufSource *s, const TlWeightSlot *slot, const TlGgufTensor **tensor, GError **error)
{
  const TlGgufTensor *t = *tensor = find_fitting (s, slot, error);
  g_autofree guint8 *bytes = t ? g_malloc (t->size) : NULL;
  return t && tl_file_read (s->gguf->file, t->offset, bytes, t->size, error) ? g_steal_pointer (&bytes) : NULL;
}

static gboolean
source_read (TlImportSource *source, const TlWeightSlot *slot, float *out, GError **error)
{
  GgufSource *s = (GgufSource *) source;
  const TlGgufTensor *t;
  g_autofree guint8 *bytes = load (s, slot, &t, error);
  if (!bytes)
    return FALSE;

  gsize blocks = slot->cols / t->type->values;
  g_autofree float *row = g_new (float, slot->cols);
  for (guint r = 0; r < slot->rows; r++)
    {
      const guint8 *from = bytes + row_in_file (s, slot, slot->is_matrix ? r : 0) * blocks * t->type->bytes;
      float *to = slot->is_matrix ? out + (gsize) r * slot->cols : row;
      for (gsize b = 0; b < blocks; b++)
        t->type->to_f32 (from + b * t->type->bytes, to + b * t->type->values);
    }
  for (guint i = 0; !slot->is_matrix && i < slot->cols; i++)
    out[i] = row[row_in_file (s, slot, i)];
  return TRUE;
}

static TlFormat
source_format (TlImportSource *source, const TlWeightSlot *slot)
{
  const TlGgufTensor *t = find ((GgufSource *) source, slot);
  return t && t->type->format < TL_INT8 ? t->type->format : TL_F32;
}

static gboolean
source_stored (TlImportSource *source, const TlWeightSlot *slot, TlMatrix *shape)
{
  const TlGgufTensor *t = find ((GgufSource *) source, slot);
  if (!t || !slot->is_matrix || t->type->format < TL_INT8)
    return FALSE;
  *shape = (TlMatrix) { .format = t->type->format, .rows = slot->rows, .cols = slot->cols, .group = 32,
    .scale_format = TL_F16, .offset = t->type->offset };
  return TRUE;
}

static const char *
source_origin (TlImportSource *source, const TlWeightSlot *slot)
{
  const TlGgufTensor *t = find ((GgufSource *) source, slot);
  return t && t->type->values > 1 ? t->type->name : NULL;
}

static gboolean
source_read_stored (TlImportSource *source, const TlWeightSlot *slot, TlMatrix *m, GError **error)
{
  guint8 *data = (guint8 *) m->data;
  guint16 *scale = (guint16 *) m->scale, *minimum = (guint16 *) m->minimum;
  GgufSource *s = (GgufSource *) source;
  const TlGgufTensor *t;
  g_autofree guint8 *bytes = load (s, slot, &t, error);
  if (!bytes)
    return FALSE;

  gsize blocks = slot->cols / 32, step = t->type->format == TL_INT8 ? 32 : 16;
  for (guint r = 0; r < slot->rows; r++)
    {
      const guint8 *from = bytes + row_in_file (s, slot, r) * blocks * t->type->bytes;
      for (gsize b = 0; b < blocks; b++)
        {
          gsize i = r * blocks + b;
          guint16 ignored;
          tl_gguf_split_block (t->type, from + b * t->type->bytes, data + i * step, &scale[i],
              minimum ? &minimum[i] : &ignored);
        }
    }
  return TRUE;
}

static void
source_free (TlImportSource *source)
{
  g_clear_pointer (&source->descriptor, tl_descriptor_unref);
  g_clear_object (&source->tokenizer);
  tl_gguf_free (((GgufSource *) source)->gguf);
  g_free (source);
}

/* --- metadata to descriptor --- */

static const double *
number (GgufSource *s, const char *key)
{
  g_autofree char *full = g_strdup_printf ("%s.%s", s->arch, key);
  return g_hash_table_lookup (s->gguf->numbers, full);
}

static gboolean
bad_key (GgufSource *s, const char *key, TlError code, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, code, "tinyloop: %s: metadata '%s.%s' %s", s->gguf->file->name, s->arch, key, what);
  return FALSE;
}

static gboolean
read_count (GgufSource *s, const char *key, guint fallback, guint *out, GError **error)
{
  const double *value = number (s, key);
  if (!value && fallback == 0)
    return bad_key (s, key, TL_ERROR_BAD_FILE, "is missing", error);
  if (value && !(*value >= 1 && *value <= G_MAXINT32 && *value == floor (*value)))
    return bad_key (s, key, TL_ERROR_BAD_FILE, "is no usable number", error);
  *out = value ? (guint) *value : fallback;
  return TRUE;
}

static gboolean
has (GgufSource *s, const char *tensor)
{
  return g_hash_table_contains (s->gguf->tensors, tensor);
}

static gboolean
read_rope (GgufSource *s, TlDescriptor *d, GError **error)
{
  const double *theta = number (s, "rope.freq_base"), *factor = number (s, "rope.scaling.factor");
  g_autofree char *key = g_strdup_printf ("%s.rope.scaling.type", s->arch);
  const char *scaling = g_hash_table_lookup (s->gguf->texts, key);

  if (!read_count (s, "rope.dimension_count", d->head_dim, &d->rope_dims, error))
    return FALSE;
  d->rope_theta = theta ? *theta : 10000;
  if (!factor)
    factor = number (s, "rope.scale_linear");
  if (scaling && !g_str_equal (scaling, "none") && !g_str_equal (scaling, "linear"))
    return bad_key (s, "rope.scaling.type", TL_ERROR_UNSUPPORTED, "is neither none nor linear", error);
  if (factor && *factor > 0 && *factor != 1 && (!scaling || g_str_equal (scaling, "linear")))
    {
      d->rope_scaling = TL_ROPE_SCALING_LINEAR;
      d->rope_factor = *factor;
    }
  if (has (s, "rope_freqs.weight"))
    {
      if (d->rope_scaling != TL_ROPE_SCALING_NONE)
        return bad_key (s, "rope.scaling.factor", TL_ERROR_UNSUPPORTED, "and rope_freqs.weight together are not implemented",
            error);
      d->rope_scaling = TL_ROPE_SCALING_FACTORS;
    }
  return TRUE;
}

static gboolean
read_dims (GgufSource *s, TlDescriptor *d, GError **error)
{
  const TlGgufTensor *embed = g_hash_table_lookup (s->gguf->tensors, "token_embd.weight");
  guint value_dim;

  if (!embed || embed->n_dims != 2)
    return g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor 'token_embd.weight' is missing or no matrix",
        s->gguf->file->name), FALSE;
  d->vocab_size = d->vocab_padded = embed->dims[1];
  if (!read_count (s, "block_count", 0, &d->n_blocks[TL_STACK_LOOP], error)
      || !read_count (s, "context_length", 0, &d->max_seq_len, error)
      || !read_count (s, "embedding_length", 0, &d->d_model, error)
      || !read_count (s, "feed_forward_length", 0, &d->d_ff, error)
      || !read_count (s, "attention.head_count", 0, &d->n_heads, error)
      || !read_count (s, "attention.head_count_kv", d->n_heads, &d->n_kv_heads, error)
      || !read_count (s, "attention.key_length", MAX (1, d->d_model / d->n_heads), &d->head_dim, error)
      || !read_count (s, "attention.value_length", d->head_dim, &value_dim, error))
    return FALSE;
  if (value_dim != d->head_dim)
    return bad_key (s, "attention.value_length", TL_ERROR_UNSUPPORTED, "differs from attention.key_length", error);
  if (d->head_dim % 2 != 0)
    return bad_key (s, "attention.key_length", TL_ERROR_UNSUPPORTED, "is odd", error);
  d->d_state = d->d_model;
  return TRUE;
}

static gboolean
read_descriptor (GgufSource *s, GError **error)
{
  TlDescriptor *d = s->source.descriptor = tl_descriptor_new ();
  const double *eps = number (s, "attention.layer_norm_rms_epsilon");

  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    if (number (s, refused[i]) && *number (s, refused[i]) != 0)
      return bad_key (s, refused[i], TL_ERROR_UNSUPPORTED, "is set; what it asks for is not implemented", error);
  if (!eps)
    return bad_key (s, "attention.layer_norm_rms_epsilon", TL_ERROR_BAD_FILE, "is missing", error);
  if (!read_dims (s, d, error) || !read_rope (s, d, error))
    return FALSE;

  d->family = g_strdup (s->arch);
  d->norm_eps = d->qk_norm_eps = *eps;
  d->loops_default = d->loops_min = 1;
  d->loops_max = 64;
  d->loops_trained = g_new (guint, 1);
  d->loops_trained[0] = d->n_loops_trained = 1;
  d->q_bias = has (s, "blk.0.attn_q.bias");
  d->k_bias = has (s, "blk.0.attn_k.bias");
  d->v_bias = has (s, "blk.0.attn_v.bias");
  d->o_bias = has (s, "blk.0.attn_output.bias");
  d->mlp_bias = has (s, "blk.0.ffn_down.bias");
  d->qk_norm = has (s, "blk.0.attn_q_norm.weight") ? TL_QK_NORM_HEAD : TL_QK_NORM_NONE;
  d->tie_head = !has (s, "output.weight");
  d->history_keep = TRUE;
  return tl_descriptor_validate (d, s->gguf->file->name, error);
}

/* Every slot has its tensor, of the size that the metadata claims (before anything of that size is allocated); a tensor that no
 * slot asks for would be silently dropped: refuse the file instead. */
static gboolean
check_tensors (GgufSource *s, GError **error)
{
  g_autoptr (GPtrArray) slots = tl_weight_slots (s->source.descriptor, s->gguf->file->name, error);
  g_autoptr (GHashTable) wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  if (!slots)
    return FALSE;
  for (guint i = 0; i < slots->len; i++)
    {
      const TlWeightSlot *slot = slots->pdata[i];
      if (!find_fitting (s, slot, error))
        return FALSE;
      g_hash_table_add (wanted, tl_gguf_tensor_name (slot, slot->block));
    }
  GHashTableIter iter;
  const char *name;
  g_hash_table_iter_init (&iter, s->gguf->tensors);
  while (g_hash_table_iter_next (&iter, (gpointer *) &name, NULL))
    if (!g_hash_table_contains (wanted, name))
      {
        g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: tensor '%s' is not used by a %s model of this "
            "version", s->gguf->file->name, name, s->arch);
        return FALSE;
      }
  return TRUE;
}

static double
tokenizer_number (GgufSource *s, const char *key, double fallback)
{
  g_autofree char *full = g_strconcat ("tokenizer.ggml.", key, NULL);
  const double *value = g_hash_table_lookup (s->gguf->numbers, full);
  return value ? *value : fallback;
}

static gint32
tokenizer_id (GgufSource *s, const char *key)
{
  double id = tokenizer_number (s, key, -1);
  return id >= 0 && id < s->gguf->tokens->len ? (gint32) id : -1;
}

/* the metadata's vocabulary; a kind of tokenizer that is not known leaves the model without one */
static gboolean
read_tokenizer (GgufSource *s, GError **error)
{
  TlGguf *g = s->gguf;
  g_autoptr (GError) local = NULL;
  if (!g->tokens)
    return TRUE;
  gboolean fit = (!g->scores || g->scores->len / 4 == g->tokens->len) && (!g->types || g->types->len / 4 == g->tokens->len);
  if (!fit)
    return g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tokenizer.ggml.scores or token_type has another "
        "length than tokenizer.ggml.tokens", g->file->name), FALSE;

  const char *model = g_hash_table_lookup (g->texts, "tokenizer.ggml.model");
  gboolean sentencepiece = g_strcmp0 (model, "llama") == 0;
  TlTokenizerParts parts = {
    .name = g->file->name, .model = model, .pre = g_hash_table_lookup (g->texts, "tokenizer.ggml.pre"),
    .pieces = (const char *const *) g->tokens->pdata, .n_pieces = g->tokens->len,
    .types = g->types ? (const gint32 *) g->types->data : NULL, .scores = g->scores ? (const float *) g->scores->data : NULL,
    .merges = g->merges ? (const char *const *) g->merges->pdata : NULL, .n_merges = g->merges ? g->merges->len : 0,
    .bos = tokenizer_id (s, "bos_token_id"), .eos = tokenizer_id (s, "eos_token_id"),
    .unk = tokenizer_id (s, "unknown_token_id"), .add_bos = tokenizer_number (s, "add_bos_token", sentencepiece) != 0,
    .add_eos = tokenizer_number (s, "add_eos_token", 0) != 0,
    .no_space_prefix = tokenizer_number (s, "add_space_prefix", 1) == 0,
    .chat_template = g_hash_table_lookup (g->texts, "tokenizer.chat_template"),
  };
  s->source.tokenizer = tl_tokenizer_new_from_vocabulary (&parts, &local);
  if (s->source.tokenizer || g_error_matches (local, TL_ERROR, TL_ERROR_UNSUPPORTED))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

static gboolean
find_architecture (GgufSource *s, GError **error)
{
  const char *arch = g_hash_table_lookup (s->gguf->texts, "general.architecture");
  for (guint i = 0; arch && i < G_N_ELEMENTS (architectures); i++)
    if (g_str_equal (arch, architectures[i].name))
      {
        s->arch = architectures[i].name;
        s->pairs = architectures[i].pairs;
        return TRUE;
      }
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: the GGUF architecture '%s' is not implemented; llama, "
      "qwen2 and qwen3 are", s->gguf->file->name, arch ? arch : "(none)");
  return FALSE;
}

TlImportSource *
tl_gguf_source_open (const char *path, GError **error)
{
  TlGguf *gguf = tl_gguf_open (path, error);
  if (!gguf)
    return NULL;
  GgufSource *s = g_new0 (GgufSource, 1);
  s->gguf = gguf;
  s->source.read = source_read;
  s->source.format = source_format;
  s->source.stored = source_stored;
  s->source.read_stored = source_read_stored;
  s->source.origin = source_origin;
  s->source.free = source_free;
  if (find_architecture (s, error) && read_descriptor (s, error) && check_tensors (s, error)
      && read_tokenizer (s, error))
    return &s->source;
  source_free (&s->source);
  return NULL;
}
