/* decode/tl-reply.h — the reply while it grows: ids accepted so far, where it ends, its text, and what has left of it.
 *
 * A strategy accepts ids, one or several a pass; the reply looks for ends after each and holds ids back while a stop string
 * may still take them back. The generator lets them go. Owned by a generator, one thread at a time.
 */
#pragma once

#include "decode/tl-drawer.h"
#include "decode/tl-generate-config.h"
#include "decode/tl-generation.h"
#include "decode/tl-token-stats.h"

G_BEGIN_DECLS

typedef struct _TlReply TlReply;

/* ids: everything before it; config: kept, not copied; tokenizer: or NULL; matcher: taken, or NULL */
TlReply *tl_reply_new (TlGenerateConfig *config, TlTokenizer *tokenizer, TlMatcher *matcher, guint vocab_size,
  guint max_tokens, const guint32 *ids, guint n_ids);
void tl_reply_free (TlReply *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlReply, tl_reply_free)

/* --- growing: for strategies --- */

/* appends an id and looks whether the reply ends there. loops: those its logits took */
gboolean tl_reply_accept (TlReply *self, guint32 id, guint loops, GError **error);
/* the same with what tl_reply_measure() gave; taken */
gboolean tl_reply_accept_measured (TlReply *self, guint32 id, guint loops, TlTokenStats *stats, GError **error);
/* figures of an id under the logits it was drawn from; NULL unless the configuration asks for them */
TlTokenStats *tl_reply_measure (TlReply *self, const float *logits, guint32 id);
/* draws an id from the logits of the last one and accepts it; or the reply ends, where a grammar allows nothing else */
gboolean tl_reply_draw (TlReply *self, const float *logits, guint loops, GError **error);
/* what draws its ids; it stands behind the last accepted one */
TlDrawer *tl_reply_drawer (TlReply *self);
/* everything, accepted ids included: [n]; the first n_begin of them came before the reply */
const guint32 *tl_reply_ids (TlReply *self, guint *n);
guint tl_reply_n_ids (TlReply *self);
guint tl_reply_n_begin (TlReply *self);
/* ids that max-tokens still allows */
guint tl_reply_room (TlReply *self);
gboolean tl_reply_is_over (TlReply *self);

/* --- leaving: for the generator --- */

/* the next token that no stop string can take back; FALSE when there is none now. token: transfer full */
gboolean tl_reply_let_go (TlReply *self, TlToken **token);
guint tl_reply_n_left (TlReply *self);
/* ids that have left: [tl_reply_n_left()], valid until the next call */
const guint32 *tl_reply_left_ids (TlReply *self);
/* tokens that have left: of TlToken, transfer full */
GPtrArray *tl_reply_left_tokens (TlReply *self);
/* it is over after what may leave now */
void tl_reply_end (TlReply *self, TlFinishReason reason);
/* It is over after what has left; one that is over and has left keeps its reason. */
void tl_reply_end_now (TlReply *self, TlFinishReason reason);
/* TL_FINISH_NONE while it grows, and until everything has left */
TlFinishReason tl_reply_get_finish (TlReply *self);
/* the text of what has left; NULL without a tokenizer. transfer full */
char *tl_reply_make_text (TlReply *self);

G_END_DECLS
