/* engine/grammar/tl-token-trie.h — TlTokenTrie: the bytes of a vocabulary's tokens, in the order in which masks walk them.
 *
 * Made once per vocabulary and shared by all grammars; immutable, usable from any thread. Ids without bytes (special tokens,
 * holes, padding) never match text; the ids that end a reply are legal exactly where a grammar accepts.
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

#define TL_TYPE_TOKEN_TRIE (tl_token_trie_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlTokenTrie, tl_token_trie, TL, TOKEN_TRIE, GObject)

TL_API TlTokenTrie *tl_token_trie_new (GBytes *bytes, GBytes *offsets, GBytes *end_ids, GError **error);
TL_API guint tl_token_trie_get_vocab_size (TlTokenTrie *self);

G_END_DECLS
