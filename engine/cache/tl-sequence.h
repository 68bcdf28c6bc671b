/* cache/tl-sequence.h — the tokens so far and their pages: what a conversation, a beam or a prefix keeps.
 *
 * A sequence grows by passes (tl-pass.h), is forked in O(pages) by sharing, and is truncated at any position. Each cached
 * position stores the depth it reached; a row at depth d reads plane min (d, e), kept true by physical copies.
 * With a window, pages are freed whole once neither a later row nor one that was taken back sees them; positions stay
 * absolute.
 * Not locked: one owner at a time, and a pass counts as one. An immutable snapshot is a fork that nobody runs; any number of
 * threads may fork it at once.
 * (The public object TlSequence in engine/ wraps one of these.)
 */
#pragma once

#include "cache/tl-kv-store.h"

G_BEGIN_DECLS

typedef struct _TlKvSequence TlKvSequence;

/* positions kept behind what a window shows, so that drafts can be taken back */
#define TL_KV_ROLLBACK 64

/* An empty sequence. window: 0 = a row sees everything before it, else W: the row at p sees max (0, p - W + 1) … p.
 * A mode that is not implemented is TL_ERROR_UNSUPPORTED when the first pass runs. */
TlKvSequence *tl_kv_sequence_new (TlKvStore *store, TlKvMode mode, guint window);
TlKvSequence *tl_kv_sequence_ref (TlKvSequence *seq);
void tl_kv_sequence_unref (TlKvSequence *seq);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlKvSequence, tl_kv_sequence_unref)

/* On whose account pages are taken from now on; NULL: nobody's. Forks inherit it. */
void tl_kv_sequence_set_reservation (TlKvSequence *seq, TlKvReservation *reservation);
TlKvReservation *tl_kv_sequence_reservation (const TlKvSequence *seq);  /* transfer none */

/* a second sequence with the same past; pages are shared until one of the two writes. transfer full */
TlKvSequence *tl_kv_sequence_fork (TlKvSequence *seq);
/* Forgets positions >= length; larger lengths change nothing. Where a window has let go of what the next row would see, all
 * is forgotten: read the length afterwards and run again what is missing. Up to TL_KV_ROLLBACK positions never cost that. */
void tl_kv_sequence_truncate (TlKvSequence *seq, guint length);
/* While pinned no page is let go: rows that are to be resumed need those of every position before them. Not forked. */
void tl_kv_sequence_pin (TlKvSequence *seq, gboolean pinned);
/* FALSE: a row of it has seen more or less than it would have through that window */
gboolean tl_kv_sequence_set_window (TlKvSequence *seq, guint window);

TlKvStore *tl_kv_sequence_store (const TlKvSequence *seq);
TlKvMode tl_kv_sequence_mode (const TlKvSequence *seq);
guint tl_kv_sequence_window (const TlKvSequence *seq);
guint tl_kv_sequence_length (const TlKvSequence *seq);          /* positions committed */
guint tl_kv_sequence_start (const TlKvSequence *seq);           /* first position whose pages are still held */
const guint32 *tl_kv_sequence_tokens (const TlKvSequence *seq); /* [length], transfer none, valid until the next pass */
guint tl_kv_sequence_depth (const TlKvSequence *seq, guint position);   /* loops this position reached */
guint tl_kv_sequence_max_depth (const TlKvSequence *seq);       /* loop groups that exist */

/* --- for prefixes --- */
/* the page of a slot (position / TL_PAGE_POSITIONS), or NULL where there is none; groups: pre, coda, loops */
TlPage *tl_kv_sequence_page (const TlKvSequence *seq, guint group, guint slot);
/* Fills an empty sequence: n tokens, all at depth `loops`, held from `start` on. table: [groups][slots] numbers of pages, from
 * 1, 0 = none; their references stay the caller's. */
void tl_kv_sequence_restore (TlKvSequence *seq, const guint32 *tokens, guint n, guint start, guint loops, const guint32 *table,
  TlPage *const *pages);

/* --- for tl-pass.c --- */
TlPageTable *tl_kv_sequence_table (TlKvSequence *seq);
/* Makes pages of positions [from, to) of groups pre, coda and loops below `loops` exist and be this sequence's own, and
 * fills loop groups that older positions lack (min rule). TL_ERROR_NO_MEMORY changes nothing that is visible. */
gboolean tl_kv_sequence_reserve (TlKvSequence *seq, guint from, guint to, guint loops, GError **error);
/* appends (or, below length, overwrites) the position's token and depth; the row's planes are written */
void tl_kv_sequence_commit (TlKvSequence *seq, guint position, guint32 token, guint depth);
/* copies plane group `depth - 1` of a position to all deeper loop groups: the row stopped at `depth` */
void tl_kv_sequence_fill_deeper (TlKvSequence *seq, guint position, guint depth);
/* takes over what `other` holds; other is empty afterwards */
void tl_kv_sequence_replace (TlKvSequence *seq, TlKvSequence *other);
/* frees pages that lie TL_KV_ROLLBACK positions and more before what the next row sees */
void tl_kv_sequence_trim (TlKvSequence *seq);

G_END_DECLS
