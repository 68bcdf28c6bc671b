/* engine/grammar/tl-token-trie-private.h — the trie as flat arrays, for the mask walk and the matcher. */
#pragma once

#include "grammar/tl-token-trie.h"

G_BEGIN_DECLS

typedef struct
{
  guint32 skip;                 /* the next node that is not below this one */
  gint32 token;                 /* whose bytes end here, or −1; others of the same bytes follow in `same` */
  guint16 depth;                /* bytes before this one */
  guint8 byte;
} TlTrieNode;

struct _TlTokenTrie
{
  GObject parent;
  GBytes *bytes, *offsets;      /* uint8; int32 [vocab_size + 1] */
  guint vocab_size;
  GArray *nodes;                /* TlTrieNode, depth first */
  gint32 *same;                 /* next token with the same bytes, or −1 */
  GArray *end_ids;              /* gint32 */
  guint max_depth;              /* bytes of the longest token */
};

const guint8 *tl_token_trie_bytes (const TlTokenTrie *self, gint32 id, gsize *length);
gboolean tl_token_trie_equal (const TlTokenTrie *self, const TlTokenTrie *other);
gboolean tl_token_trie_is_end (const TlTokenTrie *self, gint32 id);

G_END_DECLS
