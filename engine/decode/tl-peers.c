/* decode/tl-peers.c — a small table of callers. See tl-peers.h. */
#include "decode/tl-peers.h"

static TlPeer *
find (TlPeers *peers, gconstpointer thread)
{
  for (guint i = 0; i < TL_PEERS; i++)
    if (peers->peer[i].thread == thread)
      return &peers->peer[i];
  return NULL;
}

static void
expect (TlPeers *peers, TlPeer *peer, gboolean expected)
{
  peers->n_expected += expected - peer->expected;
  peer->expected = expected;
}

void
tl_peers_arrive (TlPeers *peers, gconstpointer thread, gint64 now)
{
  TlPeer *peer = find (peers, thread);
  if (!peer)
    return;
  peer->thinks = (peer->thinks + now - peer->left) / 2;
  expect (peers, peer, FALSE);
}

static TlPeer *
longest_away (TlPeers *peers)
{
  TlPeer *oldest = &peers->peer[0];
  for (guint i = 1; i < TL_PEERS; i++)
    if (peers->peer[i].left < oldest->left)
      oldest = &peers->peer[i];
  return oldest;
}

void
tl_peers_leave (TlPeers *peers, gconstpointer thread, gint64 now, gint64 patience)
{
  TlPeer *peer = find (peers, thread);
  if (!peer)
    {
      peer = longest_away (peers);
      expect (peers, peer, FALSE);
      *peer = (TlPeer) { .thread = thread };
    }
  peer->left = now;
  expect (peers, peer, peer->thinks <= patience);
}

void
tl_peers_give_up (TlPeers *peers)
{
  for (guint i = 0; peers->n_expected && i < TL_PEERS; i++)
    expect (peers, &peers->peer[i], FALSE);
}
