/* decode/tl-drawer.h — draws the ids of one sample one behind the other: sampler, penalties, place in a grammar.
 *
 * Knows how many ids there are, because a draw depends on the absolute position. Drawing changes nothing: an id counts from
 * tl_drawer_take() on. Owned by a reply, one thread at a time.
 */
#pragma once

#include "decode/tl-reply-mask.h"
#include "decode/tl-sampler.h"

G_BEGIN_DECLS

typedef struct _TlDrawer TlDrawer;

/* ids: everything before the first draw; mask: of a grammar, taken, or NULL */
TlDrawer *tl_drawer_new (guint vocab_size, const TlSamplerParams *params, TlReplyMask *mask, const guint32 *ids, guint n_ids);
void tl_drawer_free (TlDrawer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlDrawer, tl_drawer_free)

void tl_drawer_set_params (TlDrawer *self, const TlSamplerParams *params);
/* the grammar allows nothing but the end here */
gboolean tl_drawer_can_only_end (TlDrawer *self);
/* logits: [vocab_size] of the last id. Errors: NUMERIC, DEAD_END, NO_MEMORY */
gboolean tl_drawer_draw (TlDrawer *self, const float *logits, guint32 *id, GError **error);
/* the next draw is the one behind `id`. ended: whether it ends a text of the grammar; FALSE without one */
gboolean tl_drawer_take (TlDrawer *self, guint32 id, gboolean *ended, GError **error);

G_END_DECLS
