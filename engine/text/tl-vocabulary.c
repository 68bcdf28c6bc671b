/* engine/text/tl-vocabulary.c — opens, checks and searches the vocabulary's flat tables; makes the hash tables.
 *
 * Every size and id is checked before use, so a damaged file is an error that names the tensor.
 */
#include "text/tl-vocabulary.h"

#include "tl-error.h"

#include <string.h>

guint32
tl_piece_hash (const char *piece, gsize length)
{
  guint32 hash = 2166136261u;
  for (gsize i = 0; i < length; i++)
    hash = (hash ^ (guint8) piece[i]) * 16777619u;
  hash ^= hash >> 15;
  return hash * 2654435761u >> 3 ^ hash;
}

static guint32
pair_hash (gint32 left, gint32 right)
{
  guint64 key = (guint64) (guint32) left << 32 | (guint32) right;
  key *= G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  return (guint32) (key >> 32) ^ (guint32) (key >> 13);
}

static gboolean
bad (const char *name, const char *tensor, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' %s; convert the model again",
      name, tensor, what);
  return FALSE;
}

typedef struct
{
  TlTensorLookup lookup;
  gpointer data;
  const char *name;
  TlVocabulary *vocabulary;
  guint owners;
} Opening;

static gconstpointer
take (Opening *opening, const char *tensor, gsize *size, GError **error)
{
  GBytes *bytes = opening->lookup (tensor, opening->data);
  if (!bytes) {
    bad (opening->name, tensor, "is missing", error);
    return NULL;
  }
  opening->vocabulary->owners[opening->owners++] = bytes;
  gconstpointer data = g_bytes_get_data (bytes, size);
  return data ? data : "";
}

/* an I32 table with a power of two of rows of @width bytes */
static gconstpointer
take_table (Opening *opening, const char *tensor, gsize width, guint32 *mask, GError **error)
{
  gsize size = 0;
  gconstpointer data = take (opening, tensor, &size, error);
  if (!data)
    return NULL;
  gsize rows = size / width;
  if (size % width || rows == 0 || (rows & (rows - 1)) || rows > 4u * TL_VOCABULARY_MAX
      || GPOINTER_TO_SIZE (data) % sizeof (gint32)) {
    bad (opening->name, tensor, "has a wrong size", error);
    return NULL;
  }
  *mask = rows - 1;
  return data;
}

static gboolean
take_rows (Opening *opening, const char *tensor, const char *offsets_tensor, const guint8 **rows,
    const gint32 **offsets, guint32 *count, GError **error)
{
  gsize size = 0, offsets_size = 0;
  if (!(*rows = take (opening, tensor, &size, error)) || !(*offsets = take (opening, offsets_tensor, &offsets_size, error)))
    return FALSE;
  gsize n = offsets_size / sizeof (gint32);
  if (offsets_size % sizeof (gint32) || n < 1 || n - 1 > TL_VOCABULARY_MAX || GPOINTER_TO_SIZE (*offsets) % sizeof (gint32))
    return bad (opening->name, offsets_tensor, "has a wrong size", error);
  if ((*offsets)[0] != 0 || (*offsets)[n - 1] < 0 || (gsize) (*offsets)[n - 1] != size)
    return bad (opening->name, offsets_tensor, "does not span its bytes", error);
  for (gsize i = 1; i < n; i++)
    if ((*offsets)[i] < (*offsets)[i - 1])
      return bad (opening->name, offsets_tensor, "is not increasing", error);
  *count = n - 1;
  return TRUE;
}

static gboolean
check_ids (const TlVocabulary *v, const char *name, GError **error)
{
  gint32 size = v->size;
  for (guint32 i = 0; i <= v->slot_mask; i++)
    if (v->slots[i] < -1 || v->slots[i] >= size)
      return bad (name, "tokenizer.slots", "holds an id outside the vocabulary", error);
  for (guint32 i = 0; i <= v->merge_mask; i++) {
    const TlMerge *merge = &v->merges[i];
    if (merge->left < -1 || merge->left >= size
        || (merge->left >= 0 && (merge->right < 0 || merge->right >= size || merge->id < 0 || merge->id >= size)))
      return bad (name, "tokenizer.merges", "holds an id outside the vocabulary", error);
  }
  return TRUE;
}

/* takes the tables from @lookup and checks them. Errors: TL_ERROR_BAD_FILE naming the tensor */
TlVocabulary *
tl_vocabulary_open (TlTensorLookup lookup, gpointer data, const char *name, GError **error)
{
  g_autoptr (TlVocabulary) v = g_new0 (TlVocabulary, 1);
  Opening opening = { lookup, data, name, v, 0 };
  guint32 rows = 0;
  if (!take_rows (&opening, "tokenizer.pieces", "tokenizer.piece_offsets", &v->pieces, &v->piece_offsets, &v->size, error)
      || !take_rows (&opening, "tokenizer.bytes", "tokenizer.byte_offsets", &v->bytes, &v->byte_offsets, &rows, error))
    return NULL;
  if (rows != v->size) {
    bad (name, "tokenizer.byte_offsets", "has another count than tokenizer.piece_offsets", error);
    return NULL;
  }
  if (!(v->slots = take_table (&opening, "tokenizer.slots", sizeof (gint32), &v->slot_mask, error))
      || !(v->merges = take_table (&opening, "tokenizer.merges", sizeof (TlMerge), &v->merge_mask, error))
      || !check_ids (v, name, error))
    return NULL;
  GBytes *scores = lookup ("tokenizer.scores", data);
  if (scores) {
    v->owners[opening.owners++] = scores;
    if (g_bytes_get_size (scores) != (gsize) v->size * sizeof (double)) {
      bad (name, "tokenizer.scores", "has a wrong size", error);
      return NULL;
    }
    v->scores = g_bytes_get_data (scores, NULL);
  }
  return g_steal_pointer (&v);
}

void
tl_vocabulary_free (TlVocabulary *vocabulary)
{
  for (guint i = 0; i < G_N_ELEMENTS (vocabulary->owners); i++)
    g_clear_pointer (&vocabulary->owners[i], g_bytes_unref);
  g_free (vocabulary);
}

/* the id of the model's piece, −1 when there is none */
gint32
tl_vocabulary_find (const TlVocabulary *v, const char *piece, gsize length)
{
  guint32 at = tl_piece_hash (piece, length);
  for (guint32 probes = 0; probes <= v->slot_mask; probes++, at++) {
    gint32 id = v->slots[at & v->slot_mask];
    if (id < 0)
      return -1;
    gsize row_length;
    const char *row = tl_table_row (v->pieces, v->piece_offsets, id, &row_length);
    if (row_length == length && memcmp (row, piece, length) == 0)
      return id;
  }
  return -1;
}

const TlMerge *
tl_vocabulary_find_merge (const TlVocabulary *v, gint32 left, gint32 right)
{
  guint32 at = pair_hash (left, right);
  for (guint32 probes = 0; probes <= v->merge_mask; probes++, at++) {
    const TlMerge *merge = &v->merges[at & v->merge_mask];
    if (merge->left < 0)
      return NULL;
    if (merge->left == left && merge->right == right)
      return merge;
  }
  return NULL;
}

static guint32
table_rows (guint32 count)
{
  guint32 rows = 16;
  while (rows < 2 * (guint64) count)
    rows *= 2;
  return rows;
}

/* hash table of the rows marked in @in_model; of equal pieces the larger id wins, as when a map is filled in order */
GBytes *
tl_vocabulary_make_slots (const guint8 *pieces, const gint32 *offsets, const guint8 *in_model, guint32 size)
{
  guint32 rows = table_rows (size);
  gint32 *slots = g_new (gint32, rows);
  memset (slots, 0xff, rows * sizeof (gint32));
  for (guint32 id = 0; id < size; id++) {
    gsize length, other_length;
    if (!in_model[id])
      continue;
    const char *piece = tl_table_row (pieces, offsets, id, &length);
    guint32 at = tl_piece_hash (piece, length);
    for (;; at++) {
      gint32 *slot = &slots[at & (rows - 1)];
      const char *other = *slot < 0 ? NULL : tl_table_row (pieces, offsets, *slot, &other_length);
      if (other && !(other_length == length && memcmp (piece, other, length) == 0))
        continue;
      *slot = id;
      break;
    }
  }
  return g_bytes_new_take (slots, rows * sizeof (gint32));
}

/* hash table of merges; of equal pairs the last wins */
GBytes *
tl_vocabulary_make_merges (const TlMerge *merges, guint32 count)
{
  guint32 rows = table_rows (count);
  TlMerge *table = g_new (TlMerge, rows);
  memset (table, 0xff, rows * sizeof (TlMerge));
  for (guint32 i = 0; i < count; i++) {
    guint32 at = pair_hash (merges[i].left, merges[i].right);
    while (table[at & (rows - 1)].left >= 0
        && (table[at & (rows - 1)].left != merges[i].left || table[at & (rows - 1)].right != merges[i].right))
      at++;
    table[at & (rows - 1)] = merges[i];
  }
  return g_bytes_new_take (table, rows * sizeof (TlMerge));
}
