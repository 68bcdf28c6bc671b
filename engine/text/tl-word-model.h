/* engine/text/tl-word-model.h — the models that turn one word into ids: BPE and Unigram.
 *
 * Stateless over a vocabulary; the scratch belongs to one encode call. Called by the tokenizer word by word.
 */
#pragma once

#include "text/tl-vocabulary.h"

G_BEGIN_DECLS

typedef struct
{
  const TlVocabulary *vocabulary;
  gboolean unigram, fuse_unk, byte_fallback, ignore_merges;
  gint32 unk;                   /* −1: unknown characters vanish */
  gint32 byte_ids[256];         /* of `<0xNN>`, −1 = absent */
  double unk_score;             /* Unigram: lowest score − 10 */
  gsize longest;                /* bytes of the longest piece */
} TlWordModel;

typedef struct
{
  GArray *symbols, *heap;
} TlWordScratch;

void tl_word_model_init (TlWordModel *model, const TlVocabulary *vocabulary);
void tl_bpe_encode (const TlWordModel *model, TlWordScratch *scratch, const char *word, gsize length, GArray *ids);
void tl_unigram_encode (const TlWordModel *model, TlWordScratch *scratch, const char *word, gsize length, GArray *ids);
void tl_word_scratch_clear (TlWordScratch *scratch);

G_END_DECLS
