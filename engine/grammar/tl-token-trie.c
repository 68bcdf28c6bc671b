/* engine/grammar/tl-token-trie.c — tokens sorted by their bytes become one depth-first array. */
#include "grammar/tl-token-trie-private.h"

#include <string.h>

#define MAX_TOKEN_BYTES 65535

G_DEFINE_FINAL_TYPE (TlTokenTrie, tl_token_trie, G_TYPE_OBJECT)

static void
tl_token_trie_finalize (GObject *object)
{
  TlTokenTrie *self = TL_TOKEN_TRIE (object);
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_clear_pointer (&self->offsets, g_bytes_unref);
  g_clear_pointer (&self->end_ids, g_array_unref);
  g_array_unref (self->nodes);
  g_free (self->same);
  G_OBJECT_CLASS (tl_token_trie_parent_class)->finalize (object);
}

static void
tl_token_trie_class_init (TlTokenTrieClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_token_trie_finalize;
}

static void
tl_token_trie_init (TlTokenTrie *self)
{
  self->nodes = g_array_new (FALSE, FALSE, sizeof (TlTrieNode));
}

/* the bytes of token @id */
const guint8 *
tl_token_trie_bytes (const TlTokenTrie *self, gint32 id, gsize *length)
{
  const gint32 *offsets = g_bytes_get_data (self->offsets, NULL);
  *length = offsets[id + 1] - offsets[id];
  return (const guint8 *) g_bytes_get_data (self->bytes, NULL) + offsets[id];
}

gboolean
tl_token_trie_is_end (const TlTokenTrie *self, gint32 id)
{
  for (guint i = 0; i < self->end_ids->len; i++)
    if (g_array_index (self->end_ids, gint32, i) == id)
      return TRUE;
  return FALSE;
}

/* the same tokens and ends */
gboolean
tl_token_trie_equal (const TlTokenTrie *self, const TlTokenTrie *other)
{
  return self == other || (g_bytes_equal (self->bytes, other->bytes) && g_bytes_equal (self->offsets, other->offsets)
      && self->end_ids->len == other->end_ids->len
      && !memcmp (self->end_ids->data, other->end_ids->data, self->end_ids->len * sizeof (gint32)));
}

static int
compare_tokens (gconstpointer a, gconstpointer b, gpointer data)
{
  gint32 x = *(const gint32 *) a, y = *(const gint32 *) b;
  gsize n, m;
  const guint8 *p = tl_token_trie_bytes (data, x, &n), *q = tl_token_trie_bytes (data, y, &m);
  int order = memcmp (p, q, MIN (n, m));
  return order ? order : n != m ? (n < m ? -1 : 1) : x - y;
}

/* adds the nodes of @id that it does not share with the token before; @path: the nodes of that token's bytes */
static void
add_token (TlTokenTrie *self, gint32 id, gint32 before, guint32 *path)
{
  gsize n, m = 0, common = 0;
  const guint8 *p = tl_token_trie_bytes (self, id, &n);
  const guint8 *q = before >= 0 ? tl_token_trie_bytes (self, before, &m) : NULL;
  while (common < MIN (n, m) && p[common] == q[common])
    common++;
  for (gsize depth = common; depth < n; depth++) {
    TlTrieNode node = { 0, -1, depth, p[depth] };
    path[depth] = self->nodes->len;
    g_array_append_val (self->nodes, node);
  }
  TlTrieNode *last = &g_array_index (self->nodes, TlTrieNode, path[n - 1]);
  self->same[id] = last->token;
  last->token = id;
  self->max_depth = MAX (self->max_depth, n);
}

/* a node's subtree ends before the next node that is not deeper */
static void
fill_skips (TlTokenTrie *self, guint32 *path)
{
  TlTrieNode *nodes = (TlTrieNode *) self->nodes->data;
  guint open = 0;
  for (guint32 i = 0; i <= self->nodes->len; i++) {
    guint depth = i < self->nodes->len ? nodes[i].depth : 0;
    while (open > depth)
      nodes[path[--open]].skip = i;
    path[open++] = i;
  }
}

static gboolean
check_offsets (TlTokenTrie *self, GError **error)
{
  gsize size, n_bytes = g_bytes_get_size (self->bytes);
  const gint32 *offsets = g_bytes_get_data (self->offsets, &size);
  gboolean good = size >= sizeof *offsets && size % sizeof *offsets == 0 && offsets[0] == 0;
  self->vocab_size = good ? size / sizeof *offsets - 1 : 0;
  for (guint i = 0; i < self->vocab_size && good; i++)
    good = offsets[i] <= offsets[i + 1] && offsets[i + 1] <= n_bytes && offsets[i + 1] - offsets[i] <= MAX_TOKEN_BYTES;
  if (!good)
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
        "tinyloop: vocabulary: offsets must rise from 0 to at most the %" G_GSIZE_FORMAT " bytes given, %d a token",
        n_bytes, MAX_TOKEN_BYTES);
  return good;
}

/**
 * tl_token_trie_new:
 * @bytes: the bytes of all tokens, one after the other; special tokens and holes have none
 * @offsets: native int32 [vocab + 1]: where each token begins in @bytes
 * @end_ids: native int32 ids that end a reply
 * @error: return location
 *
 * Returns: (transfer full): the vocabulary as grammars need it; %NULL with INVALID_ARGUMENT when offsets or ids are out of range
 */
TlTokenTrie *
tl_token_trie_new (GBytes *bytes, GBytes *offsets, GBytes *end_ids, GError **error)
{
  g_autoptr (TlTokenTrie) self = g_object_new (TL_TYPE_TOKEN_TRIE, NULL);
  self->bytes = g_bytes_ref (bytes);
  self->offsets = g_bytes_ref (offsets);
  self->end_ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (!check_offsets (self, error))
    return NULL;

  gsize n_end;
  const gint32 *ends = g_bytes_get_data (end_ids, &n_end);
  for (gsize i = 0; i < n_end / sizeof *ends; i++) {
    if (ends[i] < 0) {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: vocabulary: end id %d is negative", ends[i]);
      return NULL;
    }
    g_array_append_val (self->end_ids, ends[i]);
  }
  g_autoptr (GArray) order = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (gint32 id = 0; id < (gint32) self->vocab_size; id++) {
    gsize n;
    tl_token_trie_bytes (self, id, &n);
    if (n && !tl_token_trie_is_end (self, id))
      g_array_append_val (order, id);
  }
  g_array_sort_with_data (order, compare_tokens, self);
  self->same = g_new (gint32, self->vocab_size + 1);
  g_autofree guint32 *path = g_new (guint32, MAX_TOKEN_BYTES + 2);
  for (guint i = 0; i < order->len; i++)
    add_token (self, g_array_index (order, gint32, i), i ? g_array_index (order, gint32, i - 1) : -1, path);
  fill_skips (self, path);
  return g_steal_pointer (&self);
}

/**
 * tl_token_trie_get_vocab_size:
 * @self: a vocabulary
 *
 * Returns: the number of ids, those without bytes included
 */
guint
tl_token_trie_get_vocab_size (TlTokenTrie *self)
{
  return self->vocab_size;
}
