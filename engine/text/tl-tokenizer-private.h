/* engine/text/tl-tokenizer-private.h — what the files of the tokenizer share: its parts and how it is put together. */
#pragma once

#include "text/tl-added-tokens.h"
#include "text/tl-pretokenizer.h"
#include "text/tl-tokenizer.h"
#include "text/tl-word-model.h"

G_BEGIN_DECLS

struct _TlTokenizer
{
  GObject parent;
  GPtrArray *tensors;           /* of TlTokenizerTensor: the compiled form */
  TlVocabulary *vocabulary;
  TlNormalizer *normalizer;
  TlPretokenizer *pretokenizer;
  TlAddedTokens *added;
  TlWordModel model;
  GArray *prefix, *suffix;      /* ids of the post-processor's template */
  GArray *eos, *specials;
  gint32 bos;
  gboolean strips_space;
  char *hash;
  char *chat_template;          /* NULL: none */
};

TlTokenizer *tl_tokenizer_assemble (GPtrArray *tensors, const char *name, GError **error);
GPtrArray *tl_tokenizer_tensor_list_new (void);
void tl_tokenizer_tensor_add (GPtrArray *tensors, const char *name, gboolean is_i32, GBytes *data);

G_END_DECLS
