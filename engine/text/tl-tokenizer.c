/* engine/text/tl-tokenizer.c — the tokenizer's way: added tokens, normalizer, words, model, template; and decoding.
 *
 * Bytes that are not UTF-8 skip normalizer and split: they become the tokens of those bytes.
 */
#include "text/tl-tokenizer-private.h"

#include "text/tl-characters.h"

#include <string.h>

G_DEFINE_FINAL_TYPE (TlTokenizer, tl_tokenizer, G_TYPE_OBJECT)

static void
tl_tokenizer_finalize (GObject *object)
{
  TlTokenizer *self = TL_TOKENIZER (object);
  g_clear_pointer (&self->vocabulary, tl_vocabulary_free);
  g_clear_pointer (&self->normalizer, tl_normalizer_free);
  g_clear_pointer (&self->pretokenizer, tl_pretokenizer_free);
  g_clear_pointer (&self->added, tl_added_tokens_free);
  g_clear_pointer (&self->tensors, g_ptr_array_unref);
  g_array_unref (self->prefix);
  g_array_unref (self->suffix);
  g_array_unref (self->eos);
  g_array_unref (self->specials);
  g_free (self->chat_template);
  g_free (self->hash);
  G_OBJECT_CLASS (tl_tokenizer_parent_class)->finalize (object);
}

static void
tl_tokenizer_class_init (TlTokenizerClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_tokenizer_finalize;
}

static void
tl_tokenizer_init (TlTokenizer *self)
{
  self->prefix = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->suffix = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->eos = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->specials = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->bos = -1;
}

typedef struct
{
  TlTokenizer *self;
  const char *text;
  gsize offset;                 /* of `text` in the caller's text */
  TlEncodeFlags flags;
  TlWordScratch scratch;
  GArray *ids;
  GError *error;
} Encoding;

static void
encode_words (Encoding *e, GString *text, gboolean at_start)
{
  TlTokenizer *self = e->self;
  TlWords words = { text, g_array_new (FALSE, FALSE, sizeof (TlSpan)), at_start };
  TlSpan whole = { 0, text->len };
  g_array_append_val (words.words, whole);
  if (tl_pretokenizer_apply (self->pretokenizer, &words, &e->error)) {
    for (guint i = 0; i < words.words->len; i++) {
      TlSpan span = g_array_index (words.words, TlSpan, i);
      (self->model.unigram ? tl_unigram_encode : tl_bpe_encode) (&self->model, &e->scratch,
          words.text->str + span.start, span.end - span.start, e->ids);
    }
  }
  g_string_free (words.text, TRUE);
  g_array_unref (words.words);
}

static void
encode_normalized (gsize start, gsize end, const TlAddedToken *token, gpointer data)
{
  Encoding *e = data;
  if (e->error)
    return;
  if (token)
    g_array_append_val (e->ids, token->id);
  else
    encode_words (e, g_string_new_len (e->text + start, end - start), e->offset + start == 0);
}

static void
encode_raw (gsize start, gsize end, const TlAddedToken *token, gpointer data)
{
  Encoding *e = data;
  if (e->error)
    return;
  if (token) {
    g_array_append_val (e->ids, token->id);
    return;
  }
  g_autoptr (GString) text = g_string_new_len (e->text + start, end - start);
  if (!tl_normalizer_apply (e->self->normalizer, text, &e->error))
    return;
  Encoding inner = *e;
  inner.text = text->str;
  inner.offset = e->offset + start;
  tl_added_tokens_split (e->self->added, TRUE, e->flags & TL_ENCODE_SPECIAL, text->str, text->len, encode_normalized,
      &inner);
  e->scratch = inner.scratch;
  e->error = inner.error;
}

/* the tokens of bytes that are no characters */
static void
encode_invalid (Encoding *e, const char *bytes, gsize length)
{
  TlTokenizer *self = e->self;
  g_autoptr (GString) word = g_string_new (NULL);
  if (tl_pretokenizer_is_byte_level (self->pretokenizer)) {
    tl_append_byte_level (word, bytes, length);
    tl_bpe_encode (&self->model, &e->scratch, word->str, word->len, e->ids);
    return;
  }
  for (gsize i = 0; i < length; i++) {
    gint32 id = self->model.byte_fallback ? self->model.byte_ids[(guint8) bytes[i]] : -1;
    id = id < 0 ? self->model.unk : id;
    if (id >= 0)
      g_array_append_val (e->ids, id);
  }
}

/**
 * tl_tokenizer_encode: (skip)
 * @self: a tokenizer
 * @text: (array length=length): bytes; those that are not UTF-8 become the tokens of the bytes
 * @length: number of bytes
 * @flags: how to treat special tokens and the template
 * @error: TL_ERROR_INVALID_ARGUMENT when the split pattern exceeds its limits
 *
 * Returns: (transfer full): int32 ids [n]
 */
GArray *
tl_tokenizer_encode (TlTokenizer *self, const char *text, gsize length, TlEncodeFlags flags, GError **error)
{
  g_return_val_if_fail (TL_IS_TOKENIZER (self), NULL);
  if (length > G_MAXINT32 / 4) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: text of %" G_GSIZE_FORMAT
        " bytes is too long to encode at once; pass at most 512 MiB", length);
    return NULL;
  }
  Encoding e = { .self = self, .flags = flags, .ids = g_array_new (FALSE, FALSE, sizeof (gint32)) };
  gboolean template = flags & TL_ENCODE_ADD_BOS;
  if (template)
    g_array_append_vals (e.ids, self->prefix->data, self->prefix->len);
  for (gsize at = 0; at < length && !e.error;) {
    gsize invalid, valid = tl_utf8_valid_prefix (text + at, length - at, &invalid);
    e.text = text + at;
    e.offset = at;
    tl_added_tokens_split (self->added, FALSE, flags & TL_ENCODE_SPECIAL, e.text, valid, encode_raw, &e);
    if (invalid && !e.error)
      encode_invalid (&e, text + at + valid, invalid);
    at += valid + invalid;
  }
  tl_word_scratch_clear (&e.scratch);
  if (e.error) {
    g_propagate_error (error, e.error);
    g_array_unref (e.ids);
    return NULL;
  }
  if (template)
    g_array_append_vals (e.ids, self->suffix->data, self->suffix->len);
  return e.ids;
}

/**
 * tl_tokenizer_encode_bytes:
 * @self: a tokenizer
 * @text: the text's bytes
 * @flags: how to treat special tokens and the template
 * @error: as tl_tokenizer_encode()
 *
 * Returns: (transfer full): int32 ids in native byte order
 */
GBytes *
tl_tokenizer_encode_bytes (TlTokenizer *self, GBytes *text, TlEncodeFlags flags, GError **error)
{
  gsize length;
  const char *data = g_bytes_get_data (text, &length);
  GArray *ids = tl_tokenizer_encode (self, data ? data : "", length, flags, error);
  if (!ids)
    return NULL;
  gsize n = ids->len * sizeof (gint32);
  return g_bytes_new_take (g_array_free (ids, FALSE), n);
}

/**
 * tl_tokenizer_token_bytes:
 * @self: a tokenizer
 * @id: a token id
 *
 * Returns: (transfer full): the bytes the token stands for; of special tokens their text; empty for unused ids
 */
GBytes *
tl_tokenizer_token_bytes (TlTokenizer *self, gint32 id)
{
  gsize length = 0;
  if (id < 0 || (guint32) id >= self->vocabulary->size)
    return g_bytes_new_static ("", 0);
  const char *bytes = tl_table_row (self->vocabulary->bytes, self->vocabulary->byte_offsets, id, &length);
  return g_bytes_new (bytes, length);
}

/**
 * tl_tokenizer_decode:
 * @self: a tokenizer
 * @ids: (array length=n_ids): token ids
 * @n_ids: how many
 *
 * Returns: (transfer full): the bytes of the ids, without the space that encoding put in front
 */
GBytes *
tl_tokenizer_decode (TlTokenizer *self, const gint32 *ids, gsize n_ids)
{
  GByteArray *out = g_byte_array_new ();
  for (gsize i = 0; i < n_ids; i++) {
    gsize length;
    if (ids[i] < 0 || (guint32) ids[i] >= self->vocabulary->size)
      continue;
    const char *bytes = tl_table_row (self->vocabulary->bytes, self->vocabulary->byte_offsets, ids[i], &length);
    g_byte_array_append (out, (const guint8 *) bytes, length);
  }
  if (self->strips_space && out->len && out->data[0] == ' ')
    g_byte_array_remove_index (out, 0);
  return g_byte_array_free_to_bytes (out);
}

/**
 * tl_tokenizer_get_vocab_size:
 * @self: a tokenizer
 *
 * Returns: the largest id + 1
 */
guint
tl_tokenizer_get_vocab_size (TlTokenizer *self)
{
  return self->vocabulary->size;
}

/**
 * tl_tokenizer_get_vocab_hash:
 * @self: a tokenizer
 *
 * Returns: 16 hex digits, equal for equal bytes of every id
 */
const char *
tl_tokenizer_get_vocab_hash (TlTokenizer *self)
{
  return self->hash;
}

/**
 * tl_tokenizer_get_bos:
 * @self: a tokenizer
 *
 * Returns: the id that begins a text, −1 when there is none
 */
gint32
tl_tokenizer_get_bos (TlTokenizer *self)
{
  return self->bos;
}

/**
 * tl_tokenizer_get_eos:
 * @self: a tokenizer
 * @n_ids: (out): how many
 *
 * Returns: (array length=n_ids) (transfer none): the ids that end a reply
 */
const gint32 *
tl_tokenizer_get_eos (TlTokenizer *self, gsize *n_ids)
{
  *n_ids = self->eos->len;
  return (const gint32 *) self->eos->data;
}

/**
 * tl_tokenizer_get_specials:
 * @self: a tokenizer
 * @n_ids: (out): how many
 *
 * Returns: (array length=n_ids) (transfer none): the ids of all special tokens
 */
const gint32 *
tl_tokenizer_get_specials (TlTokenizer *self, gsize *n_ids)
{
  *n_ids = self->specials->len;
  return (const gint32 *) self->specials->data;
}

/**
 * tl_tokenizer_get_chat_template:
 * @self: a tokenizer
 *
 * Returns: (nullable) (transfer none): the model's own chat template (Jinja)
 */
const char *
tl_tokenizer_get_chat_template (TlTokenizer *self)
{
  return self->chat_template;
}

/**
 * tl_tokenizer_is_special:
 * @self: a tokenizer
 * @id: a token id
 *
 * Returns: %TRUE for special tokens
 */
gboolean
tl_tokenizer_is_special (TlTokenizer *self, gint32 id)
{
  const TlAddedToken *token = tl_added_tokens_get (self->added, id);
  return token && token->special;
}

/**
 * tl_tokenizer_find:
 * @self: a tokenizer
 * @piece: a piece as the vocabulary spells it
 *
 * Returns: its id, −1 when there is none
 */
gint32
tl_tokenizer_find (TlTokenizer *self, const char *piece)
{
  for (guint i = 0; i < self->added->tokens->len; i++) {
    const TlAddedToken *token = &g_array_index (self->added->tokens, TlAddedToken, i);
    if (strcmp (token->content, piece) == 0)
      return token->id;
  }
  return tl_vocabulary_find (self->vocabulary, piece, strlen (piece));
}

/**
 * tl_tokenizer_strips_leading_space:
 * @self: a tokenizer
 *
 * Returns: %TRUE when decoding drops one space at the beginning of the text
 */
gboolean
tl_tokenizer_strips_leading_space (TlTokenizer *self)
{
  return self->strips_space;
}
