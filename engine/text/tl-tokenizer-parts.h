/* engine/text/tl-tokenizer-parts.h — a tokenizer from loose parts, as GGUF metadata and SentencePiece files hold them.
 *
 * Also how settings that stand outside of a tokenizer.json (end tokens, chat template) are put into a tokenizer.
 * Called by the importers.
 */
#pragma once

#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

#define TL_MAX_TOKENIZER_JSON (256u << 20)      /* bytes of a tokenizer.json */

/* GGUF's token types, which are SentencePiece's */
typedef enum
{
  TL_PIECE_NORMAL = 1,
  TL_PIECE_UNKNOWN = 2,
  TL_PIECE_CONTROL = 3,
  TL_PIECE_USER_DEFINED = 4,
  TL_PIECE_UNUSED = 5,
  TL_PIECE_BYTE = 6,
} TlPieceType;

/* nothing is kept after the call; pieces are NUL-terminated UTF-8 */
typedef struct
{
  const char *name;             /* for messages */
  const char *model;            /* `gpt2` (byte-level BPE) or `llama` (BPE by score, byte fallback) */
  const char *pre;              /* pre-tokenizer's name: smollm, gpt-2, llama-bpe, qwen2 … */
  const char *const *pieces;    /* [n_pieces] */
  const gint32 *types;          /* [n_pieces] of TlPieceType, or NULL: all normal */
  const float *scores;          /* [n_pieces], `llama` only */
  gsize n_pieces;
  const char *const *merges;    /* [n_merges] `left right`, `gpt2` only */
  gsize n_merges;
  gint32 bos, eos, unk;         /* −1: none */
  gboolean add_bos, add_eos;    /* what TL_ENCODE_ADD_BOS adds */
  gboolean no_space_prefix;     /* `llama`: put no space in front */
  const char *chat_template;    /* Jinja, or NULL */
} TlTokenizerParts;

/* what a model folder says beside its tokenizer.json */
typedef struct
{
  gint32 bos;                   /* −1: none */
  const gint32 *eos;            /* [n_eos] */
  gsize n_eos;
  const char *chat_template;    /* Jinja, or NULL */
} TlTokenizerSettings;

TlTokenizer *tl_tokenizer_new_from_vocabulary (const TlTokenizerParts *parts, GError **error);
TlTokenizer *tl_tokenizer_with_settings (TlTokenizer *self, const TlTokenizerSettings *settings, GError **error);

/* the name GGUF has for these splits, or NULL; splits: NULL-terminated */
const char *tl_tokenizer_pre_name (const char *const *splits, gboolean ignore_merges, gboolean nfc);
/* the split that a byte-level pre-tokenizer has built in */
const char *tl_tokenizer_gpt2_split (void);

/* The other way round: a tokenizer as parts, which own everything they point to, filled up with
 * unused ones to @n_pieces. UNSUPPORTED names what has no place in them. */
TlTokenizerParts *tl_tokenizer_to_parts (TlTokenizer *self, guint n_pieces, const char *name, GError **error);
void tl_tokenizer_parts_free (TlTokenizerParts *parts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlTokenizerParts, tl_tokenizer_parts_free)

G_END_DECLS
