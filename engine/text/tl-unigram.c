/* engine/text/tl-unigram.c — Unigram: the most likely cut of one word, found by Viterbi.
 *
 * Kudo 2018. An unknown character costs the lowest score − 10; neighbouring unknowns are one unknown. Ties keep the
 * first path found (the longer last step comes from the earlier start).
 */
#include "text/tl-word-model.h"

#include "text/tl-characters.h"

#include <string.h>

typedef struct
{
  double score;
  gssize start;                 /* −1: not reached */
  gint32 id;
} Node;

static void
reach (Node *node, gssize start, double score, gint32 id)
{
  if (node->start < 0 || score > node->score)
    *node = (Node) { score, start, id };
}

static void
fill_lattice (const TlWordModel *model, Node *nodes, const char *word, gsize length)
{
  const TlVocabulary *v = model->vocabulary;
  for (gsize start = 0; start < length;) {
    gsize step = MIN (TL_CHAR_LENGTH (word + start), length - start);
    gboolean single = FALSE;
    for (gsize end = start + step; end <= length && end - start <= model->longest;) {
      gint32 id = tl_vocabulary_find (v, word + start, end - start);
      if (id >= 0) {
        double score;
        memcpy (&score, v->scores + id * sizeof score, sizeof score);
        reach (&nodes[end], start, nodes[start].score + score, id);
        single |= end == start + step;
      }
      if (end == length)
        break;
      end = MIN (end + TL_CHAR_LENGTH (word + end), length);
    }
    if (!single)
      reach (&nodes[start + step], start, nodes[start].score + model->unk_score, model->unk);
    start += step;
  }
}

static void
append_piece (const TlWordModel *model, const char *piece, gsize length, GArray *ids)
{
  gint32 id = tl_vocabulary_find (model->vocabulary, piece, length);
  gboolean bytes = id < 0 && model->byte_fallback;
  for (gsize i = 0; bytes && i < length; i++)
    bytes = model->byte_ids[(guint8) piece[i]] >= 0;
  if (bytes) {
    for (gsize i = 0; i < length; i++)
      g_array_append_val (ids, model->byte_ids[(guint8) piece[i]]);
    return;
  }
  if (id < 0)
    id = model->unk;
  if (id >= 0)
    g_array_append_val (ids, id);
}

/* appends the ids of @word (valid UTF-8) to @ids */
void
tl_unigram_encode (const TlWordModel *model, TlWordScratch *scratch, const char *word, gsize length, GArray *ids)
{
  if (!scratch->symbols) {
    scratch->symbols = g_array_new (FALSE, FALSE, sizeof (Node));
    scratch->heap = g_array_new (FALSE, FALSE, sizeof (gsize));
  }
  g_array_set_size (scratch->symbols, length + 1);
  g_array_set_size (scratch->heap, 0);
  Node *nodes = (Node *) scratch->symbols->data;
  for (gsize i = 0; i <= length; i++)
    nodes[i] = (Node) { 0, -1, -1 };
  fill_lattice (model, nodes, word, length);

  for (gsize end = length; end > 0; end = nodes[end].start)
    g_array_append_val (scratch->heap, end);
  gsize start = 0;
  for (guint i = scratch->heap->len; i-- > 0;) {
    gsize end = g_array_index (scratch->heap, gsize, i);
    gboolean unknown = nodes[end].id == model->unk;
    while (unknown && i && nodes[g_array_index (scratch->heap, gsize, i - 1)].id == model->unk)
      end = g_array_index (scratch->heap, gsize, --i);
    append_piece (model, word + start, end - start, ids);
    start = end;
  }
}
