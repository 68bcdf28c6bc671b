/* engine/text/tl-bpe.c — byte pair encoding of one word by a heap of merges, O(n log n).
 *
 * Sennrich et al. 2016. The lowest rank merges first, then the leftmost; a heap entry whose pair has changed is skipped.
 * Unknown characters: byte fallback, else the unknown token (fused when asked), else they vanish.
 */
#include "text/tl-word-model.h"

#include "text/tl-characters.h"

#include <string.h>

typedef struct
{
  gint32 id;
  gint32 previous, next;        /* −1 at the ends */
  gboolean dead;
} Symbol;

typedef struct
{
  gint32 rank, at, id;
} Entry;

void
tl_word_model_init (TlWordModel *model, const TlVocabulary *v)
{
  model->vocabulary = v;
  for (int byte = 0; byte < 256; byte++) {
    char piece[8];
    g_snprintf (piece, sizeof piece, "<0x%02X>", byte);
    model->byte_ids[byte] = tl_vocabulary_find (v, piece, 6);
  }
  double lowest = 0;
  for (guint32 i = 0; v->scores && i < v->size; i++) {
    double score;
    memcpy (&score, v->scores + i * sizeof score, sizeof score);
    lowest = MIN (lowest, score);
  }
  model->unk_score = lowest - 10.0;
  for (guint32 i = 0; i < v->size; i++)
    model->longest = MAX (model->longest, (gsize) (v->piece_offsets[i + 1] - v->piece_offsets[i]));
}

void
tl_word_scratch_clear (TlWordScratch *scratch)
{
  g_clear_pointer (&scratch->symbols, g_array_unref);
  g_clear_pointer (&scratch->heap, g_array_unref);
}

static inline gboolean
entry_before (const Entry *a, const Entry *b)
{
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void
heap_push (GArray *heap, Entry entry)
{
  g_array_append_val (heap, entry);
  Entry *e = (Entry *) heap->data;
  guint at = heap->len - 1;
  while (at && entry_before (&entry, &e[(at - 1) / 2])) {
    e[at] = e[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  e[at] = entry;
}

static Entry
heap_pop (GArray *heap)
{
  Entry *e = (Entry *) heap->data, top = e[0], last = e[heap->len - 1];
  guint n = heap->len - 1, at = 0;
  while (2 * at + 1 < n) {
    guint child = 2 * at + 1;
    if (child + 1 < n && entry_before (&e[child + 1], &e[child]))
      child++;
    if (!entry_before (&e[child], &last))
      break;
    e[at] = e[child];
    at = child;
  }
  e[at] = last;
  g_array_set_size (heap, n);
  return top;
}

static void
add_symbol (GArray *symbols, gint32 id)
{
  Symbol symbol = { id, (gint32) symbols->len - 1, -1, FALSE };
  if (symbols->len)
    g_array_index (symbols, Symbol, symbols->len - 1).next = symbols->len;
  g_array_append_val (symbols, symbol);
}

static gboolean
add_bytes (const TlWordModel *model, GArray *symbols, const char *p, gsize length)
{
  for (gsize i = 0; i < length; i++)
    if (model->byte_ids[(guint8) p[i]] < 0)
      return FALSE;
  for (gsize i = 0; i < length; i++)
    add_symbol (symbols, model->byte_ids[(guint8) p[i]]);
  return TRUE;
}

static void
split_characters (const TlWordModel *model, GArray *symbols, const char *word, gsize length)
{
  gboolean after_unk = FALSE;
  for (const char *p = word; p < word + length;) {
    gsize n = MIN (TL_CHAR_LENGTH (p), (gsize) (word + length - p));
    gint32 id = tl_vocabulary_find (model->vocabulary, p, n);
    gboolean unknown = FALSE;
    if (id >= 0)
      add_symbol (symbols, id);
    else if (!(model->byte_fallback && add_bytes (model, symbols, p, n)) && model->unk >= 0) {
      unknown = TRUE;
      if (!(after_unk && model->fuse_unk))
        add_symbol (symbols, model->unk);
    }
    after_unk = unknown;
    p += n;
  }
}

static void
offer (const TlWordModel *model, GArray *heap, const Symbol *symbols, gint32 at)
{
  if (at < 0 || symbols[at].next < 0)
    return;
  const TlMerge *merge = tl_vocabulary_find_merge (model->vocabulary, symbols[at].id, symbols[symbols[at].next].id);
  if (merge)
    heap_push (heap, (Entry) { merge->rank, at, merge->id });
}

/* appends the ids of @word (valid UTF-8) to @ids */
void
tl_bpe_encode (const TlWordModel *model, TlWordScratch *scratch, const char *word, gsize length, GArray *ids)
{
  if (model->ignore_merges) {
    gint32 whole = tl_vocabulary_find (model->vocabulary, word, length);
    if (whole >= 0) {
      g_array_append_val (ids, whole);
      return;
    }
  }
  if (!scratch->symbols) {
    scratch->symbols = g_array_new (FALSE, FALSE, sizeof (Symbol));
    scratch->heap = g_array_new (FALSE, FALSE, sizeof (Entry));
  }
  g_array_set_size (scratch->symbols, 0);
  g_array_set_size (scratch->heap, 0);
  split_characters (model, scratch->symbols, word, length);

  Symbol *symbols = (Symbol *) scratch->symbols->data;
  gint32 count = scratch->symbols->len;
  for (gint32 i = 0; i + 1 < count; i++)
    offer (model, scratch->heap, symbols, i);
  while (scratch->heap->len) {
    Entry top = heap_pop (scratch->heap);
    Symbol *left = &symbols[top.at];
    if (left->dead || left->next < 0)
      continue;
    Symbol *right = &symbols[left->next];
    const TlMerge *merge = tl_vocabulary_find_merge (model->vocabulary, left->id, right->id);
    if (!merge || merge->id != top.id)
      continue;
    left->id = top.id;
    right->dead = TRUE;
    left->next = right->next;
    if (right->next >= 0)
      symbols[right->next].previous = top.at;
    offer (model, scratch->heap, symbols, left->previous);
    offer (model, scratch->heap, symbols, top.at);
  }
  for (gint32 at = count ? 0 : -1; at >= 0; at = symbols[at].next)
    g_array_append_val (ids, symbols[at].id);
}
