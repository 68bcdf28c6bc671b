/* decode/tl-peers.h — who is likely to be back soon: callers that took part in the last passes and think briefly between two.
 *
 * A pass that waits a moment for them is shared by all. Known by thread, because a thread waits for one pass at a time.
 * Used by tl-scheduler.c under its lock; times in µs of the monotonic clock.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TL_PEERS 64             /* remembered; the one that was away longest is forgotten */

typedef struct
{
  gconstpointer thread;         /* NULL: a free place */
  gint64 left;                  /* when its last pass was done */
  gint64 thinks;                /* how long it usually stays away; doubles weight of the latest */
  gboolean expected;
} TlPeer;

typedef struct
{
  TlPeer peer[TL_PEERS];
  guint n_expected;
} TlPeers;

/* it is back, or new */
void tl_peers_arrive (TlPeers *peers, gconstpointer thread, gint64 now);
/* Its pass is done. Expected back if it usually thinks for at most `patience`. */
void tl_peers_leave (TlPeers *peers, gconstpointer thread, gint64 now, gint64 patience);
/* those who are expected did not come in time: nobody waits for them until they have come by themselves */
void tl_peers_give_up (TlPeers *peers);

G_END_DECLS
