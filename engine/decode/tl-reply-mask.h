/* decode/tl-reply-mask.h — which ids the next token of a reply may have, by a grammar.
 *
 * Joins a matcher and the tokenizer's view: special tokens are never text, every id that ends a reply is legal exactly where
 * the text matches. Owned by a generator, one thread at a time.
 */
#pragma once

#include "grammar/tl-grammar.h"
#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

typedef struct _TlReplyMask TlReplyMask;

/* matcher: taken; tokenizer: or NULL, then the ends are those of the matcher's vocabulary */
TlReplyMask *tl_reply_mask_new (TlMatcher *matcher, TlTokenizer *tokenizer, guint vocab_size);
void tl_reply_mask_free (TlReplyMask *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlReplyMask, tl_reply_mask_free)

/* bitmap of [vocab_size] legal ids. DEAD_END: none is legal and the text cannot end; NO_MEMORY: a limit was passed */
const guint32 *tl_reply_mask_get (TlReplyMask *self, GError **error);
/* the text matches and nothing can follow it */
gboolean tl_reply_mask_can_only_end (TlReplyMask *self);
/* goes on behind @id, which is legal. ended: whether it was an end */
gboolean tl_reply_mask_take (TlReplyMask *self, guint32 id, gboolean *ended, GError **error);

G_END_DECLS
