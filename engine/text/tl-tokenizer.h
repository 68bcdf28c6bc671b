/* engine/text/tl-tokenizer.h — TlTokenizer: text to token ids and back, immutable and usable from any thread.
 *
 * Made from a tokenizer.json or from the compiled tensors of a `.tinyloop`. Streaming decode: tl-detokenizer.h.
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

#define TL_TYPE_TOKENIZER (tl_tokenizer_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlTokenizer, tl_tokenizer, TL, TOKENIZER, GObject)

/**
 * TlEncodeFlags:
 * @TL_ENCODE_NONE: special tokens in the text are plain text, nothing is added
 * @TL_ENCODE_SPECIAL: recognise special tokens in the text
 * @TL_ENCODE_ADD_BOS: add what the post-processor's template adds
 *
 * How a text is encoded.
 */
typedef enum /*< flags >*/
{
  TL_ENCODE_NONE = 0,
  TL_ENCODE_SPECIAL = 1 << 0,
  TL_ENCODE_ADD_BOS = 1 << 1,
} TlEncodeFlags;

/**
 * TlTokenizerTensor: (skip)
 * @name: `tokenizer.*`
 * @is_i32: I32, otherwise U8
 * @data: little-endian contents
 *
 * One tensor of the compiled form; its shape is [bytes] or [bytes / 4].
 */
typedef struct
{
  char *name;
  gboolean is_i32;
  GBytes *data;
} TlTokenizerTensor;

/* gives the tensor named @name or NULL (transfer full) */
typedef GBytes *(*TlTokenizerLookup) (const char *name, gpointer data);

TL_API TlTokenizer *tl_tokenizer_new_from_json (GBytes *tokenizer_json, const char *name, GError **error);
TL_API TlTokenizer *tl_tokenizer_new_from_tensors (TlTokenizerLookup lookup, gpointer data, const char *name,
    GError **error);
TL_API GPtrArray *tl_tokenizer_to_tensors (TlTokenizer *self);
TL_API GArray *tl_tokenizer_encode (TlTokenizer *self, const char *text, gsize length, TlEncodeFlags flags,
    GError **error);
TL_API GBytes *tl_tokenizer_encode_bytes (TlTokenizer *self, GBytes *text, TlEncodeFlags flags, GError **error);
TL_API GBytes *tl_tokenizer_decode (TlTokenizer *self, const gint32 *ids, gsize n_ids);
TL_API GBytes *tl_tokenizer_token_bytes (TlTokenizer *self, gint32 id);
TL_API guint tl_tokenizer_get_vocab_size (TlTokenizer *self);
TL_API const char *tl_tokenizer_get_vocab_hash (TlTokenizer *self);
TL_API gint32 tl_tokenizer_get_bos (TlTokenizer *self);
TL_API const gint32 *tl_tokenizer_get_eos (TlTokenizer *self, gsize *n_ids);
TL_API const gint32 *tl_tokenizer_get_specials (TlTokenizer *self, gsize *n_ids);
TL_API const char *tl_tokenizer_get_chat_template (TlTokenizer *self);
TL_API gboolean tl_tokenizer_is_special (TlTokenizer *self, gint32 id);
TL_API gint32 tl_tokenizer_find (TlTokenizer *self, const char *piece);
TL_API gboolean tl_tokenizer_strips_leading_space (TlTokenizer *self);

G_END_DECLS
