/* engine/text/tl-vocabulary.h — pieces, bytes, merges and scores as flat tables that can be mapped from a file.
 *
 * The look-up tables are stored ready made: opening checks them and allocates nothing. Read-only afterwards.
 * Used by the BPE and Unigram models and by the tokenizer.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TL_VOCABULARY_MAX (1 << 24)

typedef struct
{
  gint32 left, right, rank, id; /* left = −1: free slot */
} TlMerge;

typedef struct
{
  guint32 size;                 /* ids, holes included */
  const guint8 *pieces, *bytes;
  const gint32 *piece_offsets, *byte_offsets;   /* [size + 1] */
  const gint32 *slots;          /* open addressing over the model's pieces, −1 = free */
  guint32 slot_mask;
  const TlMerge *merges;
  guint32 merge_mask;
  const guint8 *scores;         /* float64 [size], unaligned; NULL unless Unigram */
  GBytes *owners[7];
} TlVocabulary;

/* gives the tensor named @name or NULL (transfer full) */
typedef GBytes *(*TlTensorLookup) (const char *name, gpointer data);

TlVocabulary *tl_vocabulary_open (TlTensorLookup lookup, gpointer data, const char *name, GError **error);
void tl_vocabulary_free (TlVocabulary *vocabulary);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlVocabulary, tl_vocabulary_free)
gint32 tl_vocabulary_find (const TlVocabulary *vocabulary, const char *piece, gsize length);
const TlMerge *tl_vocabulary_find_merge (const TlVocabulary *vocabulary, gint32 left, gint32 right);

guint32 tl_piece_hash (const char *piece, gsize length);
GBytes *tl_vocabulary_make_slots (const guint8 *pieces, const gint32 *offsets, const guint8 *in_model, guint32 size);
GBytes *tl_vocabulary_make_merges (const TlMerge *merges, guint32 count);

/* the bytes of an offset table's row */
static inline const char *
tl_table_row (const guint8 *data, const gint32 *offsets, guint32 row, gsize *length)
{
  *length = offsets[row + 1] - offsets[row];
  return (const char *) data + offsets[row];
}

G_END_DECLS
