/* engine/text/tl-tokenizer-tensors.c — the compiled form: puts a tokenizer together from its tensors.
 *
 * `tokenizer.config` is the tokenizer.json without vocabulary and merges; the tables are used where they lie.
 */
#include "text/tl-tokenizer-private.h"

#include <string.h>

static const struct { const char *name; gboolean is_i32; } tensor_names[] = {
  { "tokenizer.config", FALSE }, { "tokenizer.pieces", FALSE }, { "tokenizer.piece_offsets", TRUE },
  { "tokenizer.bytes", FALSE }, { "tokenizer.byte_offsets", TRUE }, { "tokenizer.slots", TRUE },
  { "tokenizer.merges", TRUE }, { "tokenizer.scores", FALSE }, { "tokenizer.json", FALSE },
};

static void
tensor_free (gpointer data)
{
  TlTokenizerTensor *tensor = data;
  g_free (tensor->name);
  g_bytes_unref (tensor->data);
  g_free (tensor);
}

GPtrArray *
tl_tokenizer_tensor_list_new (void)
{
  return g_ptr_array_new_with_free_func (tensor_free);
}

/* takes @data */
void
tl_tokenizer_tensor_add (GPtrArray *tensors, const char *name, gboolean is_i32, GBytes *data)
{
  TlTokenizerTensor *tensor = g_new0 (TlTokenizerTensor, 1);
  tensor->name = g_strdup (name);
  tensor->is_i32 = is_i32;
  tensor->data = data;
  g_ptr_array_add (tensors, tensor);
}

static GBytes *
find_tensor (const char *name, gpointer data)
{
  GPtrArray *tensors = data;
  for (guint i = 0; i < tensors->len; i++) {
    TlTokenizerTensor *tensor = g_ptr_array_index (tensors, i);
    if (strcmp (tensor->name, name) == 0)
      return g_bytes_ref (tensor->data);
  }
  return NULL;
}

static gboolean
bad (const char *name, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor 'tokenizer.config': %s", name, what);
  return FALSE;
}

/* the ids that TemplateProcessing puts before and after a single text */
static gboolean
read_template (TlTokenizer *self, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  g_autofree char *type = node ? tl_json_get_string (tree, node, "type") : NULL;
  if (!node || g_strcmp0 (type, "ByteLevel") == 0)
    return TRUE;
  if (g_strcmp0 (type, "Sequence") == 0) {
    guint32 list = tl_json_get (tree, node, "processors");
    guint32 child = list ? tl_json_first (tree, list) : TL_JSON_NONE;
    for (guint32 i = 0; child && i < tl_json_node (tree, list)->count; i++) {
      if (!read_template (self, tree, child, name, error))
        return FALSE;
      child = tl_json_node (tree, child)->next;
    }
    return TRUE;
  }
  if (g_strcmp0 (type, "TemplateProcessing") != 0) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: post_processor '%s' is not supported", name,
        type ? type : "(no type)");
    return FALSE;
  }
  guint32 single = tl_json_get (tree, node, "single"), known = tl_json_get (tree, node, "special_tokens");
  guint32 child = single ? tl_json_first (tree, single) : TL_JSON_NONE;
  GArray *side = self->prefix;
  for (guint32 i = 0; child && i < tl_json_node (tree, single)->count; i++) {
    guint32 special = tl_json_get (tree, child, "SpecialToken");
    g_autofree char *id = special ? tl_json_get_string (tree, special, "id") : NULL;
    guint32 entry = id && known ? tl_json_get (tree, known, id) : TL_JSON_NONE;
    guint32 ids = entry ? tl_json_get (tree, entry, "ids") : TL_JSON_NONE;
    guint32 element = ids ? tl_json_first (tree, ids) : TL_JSON_NONE;
    if (!special)
      side = self->suffix;
    else if (!element)
      return bad (name, "post_processor names an unknown special token", error);
    for (guint32 j = 0; element && j < tl_json_node (tree, ids)->count; j++) {
      gint64 value = tl_json_int (tree, element, -1);
      if (value < 0 || value >= self->vocabulary->size)
        return bad (name, "post_processor has an id outside the vocabulary", error);
      gint32 token = (gint32) value;
      g_array_append_val (side, token);
      element = tl_json_node (tree, element)->next;
    }
    child = tl_json_node (tree, child)->next;
  }
  return TRUE;
}

/* without a generation config the usual names decide what begins and ends a text */
static void
guess_ends (TlTokenizer *self)
{
  static const char *const begins[] = { "<s>", "<bos>", "<|bos|>", "<|begin_of_text|>", "<|begin_text|>" };
  static const char *const ends[] = { "</s>", "<eos>", "<|eos|>", "<|endoftext|>", "<|end_of_text|>", "<|end_text|>",
    "<|im_end|>", "<|end|>", "<|eot_id|>", "<|eom_id|>", "<|end_turn|>", "<end_of_turn>", "<｜end▁of▁sentence｜>" };
  for (guint i = 0; i < self->added->tokens->len; i++) {
    const TlAddedToken *token = &g_array_index (self->added->tokens, TlAddedToken, i);
    for (guint j = 0; j < G_N_ELEMENTS (begins); j++)
      if (strcmp (token->content, begins[j]) == 0 && self->bos < 0)
        self->bos = token->id;
    for (guint j = 0; j < G_N_ELEMENTS (ends); j++)
      if (strcmp (token->content, ends[j]) == 0)
        g_array_append_val (self->eos, token->id);
  }
}

/* begin, end and template as the settings say, or as the names of the tokens suggest */
static gboolean
read_settings (TlTokenizer *self, const TlJsonTree *tree, const char *name, GError **error)
{
  guint32 eos = tl_json_get (tree, 0, "eos");
  self->chat_template = tl_json_get_string (tree, 0, "chat_template");
  if (!eos) {
    guess_ends (self);
    return TRUE;
  }
  gint64 bos = tl_json_get_int (tree, 0, "bos", -1);
  guint32 child = tl_json_first (tree, eos);
  gboolean fine = bos >= -1 && bos < self->vocabulary->size;
  self->bos = (gint32) bos;
  for (guint32 i = 0; child && i < tl_json_node (tree, eos)->count; i++) {
    gint64 value = tl_json_int (tree, child, -1);
    gint32 id = (gint32) value;
    fine &= value >= 0 && value < self->vocabulary->size;
    g_array_append_val (self->eos, id);
    child = tl_json_node (tree, child)->next;
  }
  return fine || bad (name, "'bos' or 'eos' is outside the vocabulary", error);
}

static gboolean
collect_specials (TlTokenizer *self, const char *name, GError **error)
{
  for (guint i = 0; i < self->added->tokens->len; i++) {
    const TlAddedToken *token = &g_array_index (self->added->tokens, TlAddedToken, i);
    if ((guint32) token->id >= self->vocabulary->size)
      return bad (name, "an added token is outside the vocabulary", error);
    if (token->special)
      g_array_append_val (self->specials, token->id);
  }
  return TRUE;
}

static gboolean
read_config (TlTokenizer *self, const TlJsonTree *tree, const char *name, GError **error)
{
  guint32 model = tl_json_get (tree, 0, "model");
  g_autofree char *type = model ? tl_json_get_string (tree, model, "type") : NULL;
  gint64 unk = model ? tl_json_get_int (tree, model, "unk", -1) : -1;
  self->hash = tl_json_get_string (tree, 0, "hash");
  self->strips_space = tl_json_get_bool (tree, 0, "strips_space", FALSE);
  if (!type || !self->hash || unk < -1 || unk >= self->vocabulary->size)
    return bad (name, "'model' or 'hash' is missing or wrong", error);
  self->model.unigram = strcmp (type, "Unigram") == 0;
  if (self->model.unigram && (!self->vocabulary->scores || unk < 0))
    return bad (name, "a Unigram model needs scores and an unknown token", error);
  self->model.unk = (gint32) unk;
  self->model.fuse_unk = tl_json_get_bool (tree, model, "fuse_unk", FALSE);
  self->model.byte_fallback = tl_json_get_bool (tree, model, "byte_fallback", FALSE);
  self->model.ignore_merges = tl_json_get_bool (tree, model, "ignore_merges", FALSE);
  tl_word_model_init (&self->model, self->vocabulary);
  if (!(self->normalizer = tl_normalizer_new (tree, tl_json_get (tree, 0, "normalizer"), name, error))
      || !(self->pretokenizer = tl_pretokenizer_new (tree, tl_json_get (tree, 0, "pre_tokenizer"), name, error))
      || !(self->added = tl_added_tokens_new (tree, tl_json_get (tree, 0, "added_tokens"), self->normalizer, name, error)))
    return FALSE;
  return collect_specials (self, name, error) && read_settings (self, tree, name, error)
      && read_template (self, tree, tl_json_get (tree, 0, "post_processor"), name, error);
}

/* makes the tokenizer over @tensors (taken) */
TlTokenizer *
tl_tokenizer_assemble (GPtrArray *tensors, const char *name, GError **error)
{
  g_autoptr (TlTokenizer) self = g_object_new (TL_TYPE_TOKENIZER, NULL);
  self->tensors = tensors;
  g_autoptr (GBytes) config = find_tensor ("tokenizer.config", tensors);
  if (!config) {
    bad (name, "is missing", error);
    return NULL;
  }
  gsize size;
  const char *text = g_bytes_get_data (config, &size);
  g_autoptr (TlJsonTree) tree = tl_json_tree_new (text ? text : "", size, name, error);
  if (!tree || !(self->vocabulary = tl_vocabulary_open (find_tensor, tensors, name, error))
      || !read_config (self, tree, name, error))
    return NULL;
  return g_steal_pointer (&self);
}

/**
 * tl_tokenizer_new_from_tensors: (skip)
 * @lookup: gives a tensor by name
 * @data: for @lookup
 * @name: the file's name, for messages
 * @error: TL_ERROR_BAD_FILE naming the tensor, TL_ERROR_UNSUPPORTED
 *
 * Opens the compiled form; the tables are referenced, not copied.
 *
 * Returns: (transfer full): a tokenizer
 */
TlTokenizer *
tl_tokenizer_new_from_tensors (TlTokenizerLookup lookup, gpointer data, const char *name, GError **error)
{
  GPtrArray *tensors = tl_tokenizer_tensor_list_new ();
  for (guint i = 0; i < G_N_ELEMENTS (tensor_names); i++) {
    GBytes *bytes = lookup (tensor_names[i].name, data);
    if (bytes)
      tl_tokenizer_tensor_add (tensors, tensor_names[i].name, tensor_names[i].is_i32, bytes);
  }
  return tl_tokenizer_assemble (tensors, name, error);
}

/**
 * tl_tokenizer_to_tensors: (skip)
 * @self: a tokenizer
 *
 * Returns: (transfer container): the compiled form, an array of #TlTokenizerTensor
 */
GPtrArray *
tl_tokenizer_to_tensors (TlTokenizer *self)
{
  return g_ptr_array_ref (self->tensors);
}
