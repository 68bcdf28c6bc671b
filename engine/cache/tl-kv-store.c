/* cache/tl-kv-store.c — pages under one byte limit, counted by reference, and what requests have been promised of it.
 *
 * An active reservation counts as its worst case, or as what its pages take when that is more; all other bytes count as they
 * are. So a request that was let in finds its pages, and what it frees stays its own until it ends.
 */
#include "cache/tl-kv-store.h"

#include "tl-error.h"

struct _TlPage
{
  gint ref_count;
  gsize size;
  gpointer data;
  TlKvReservation *reservation; /* under which it was taken; or NULL */
};

struct _TlKvReservation
{
  gint ref_count;
  TlKvStore *store;
  gsize total;                  /* the worst case */
  gsize held;                   /* bytes of pages taken under it and not freed */
  gboolean active;
  GList waiting;                /* its place in the store's queue */
};

struct _TlKvStore
{
  gint ref_count;
  TlBackend *backend;
  gsize limit;
  GMutex lock;                  /* guards what follows, and the reservations' numbers */
  GCond freed;
  gsize used;                   /* bytes in use */
  gsize promised;               /* active reservations: what they may still take */
  gsize active;                 /* active reservations: worst cases or what they hold */
  GQueue queue;                 /* reservations that wait, oldest first */
};

TlKvStore *
tl_kv_store_new (TlBackend *backend, gsize limit)
{
  TlKvStore *store = g_new0 (TlKvStore, 1);
  store->ref_count = 1;
  store->backend = backend;
  store->limit = limit;
  g_mutex_init (&store->lock);
  g_cond_init (&store->freed);
  return store;
}

TlKvStore *
tl_kv_store_ref (TlKvStore *store)
{
  g_atomic_int_inc (&store->ref_count);
  return store;
}

void
tl_kv_store_unref (TlKvStore *store)
{
  if (!g_atomic_int_dec_and_test (&store->ref_count))
    return;
  g_mutex_clear (&store->lock);
  g_cond_clear (&store->freed);
  g_free (store);
}

TlBackend *
tl_kv_store_backend (TlKvStore *store)
{
  return store->backend;
}

gsize
tl_kv_store_used_bytes (TlKvStore *store)
{
  g_mutex_lock (&store->lock);
  gsize used = store->used;
  g_mutex_unlock (&store->lock);
  return used;
}

gsize
tl_kv_store_estimate (TlKvStore *store, guint positions, guint loops, TlKvMode mode)
{
  const TlProgram *p = store->backend->program;
  gsize pages = (positions + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS;
  return pages * (tl_kv_page_bytes (p, TL_GROUP_PRE, mode) + tl_kv_page_bytes (p, TL_GROUP_CODA, mode)
                  + loops * tl_kv_page_bytes (p, TL_GROUP_LOOP, mode));
}

/* --- under the lock --- */

/* what a reservation may still take of what it was promised */
static gsize
promise_of (const TlKvReservation *r)
{
  return r && r->active && r->total > r->held ? r->total - r->held : 0;
}

static gsize
charge_of (const TlKvReservation *r)
{
  return r->active ? MAX (r->total, r->held) : 0;
}

/* bytes that nobody has and nobody was promised, and those promised to r */
static gsize
free_bytes (TlKvStore *store, const TlKvReservation *r)
{
  gsize taken = store->used + store->promised - promise_of (r);
  return store->limit == 0 ? G_MAXSIZE : store->limit > taken ? store->limit - taken : 0;
}

/* pages come (bytes > 0) or go under a reservation, or it begins or ends */
static void
change (TlKvStore *store, TlKvReservation *r, gssize bytes, gboolean active)
{
  store->used += bytes;
  if (!r)
    return;
  store->promised -= promise_of (r);
  store->active -= charge_of (r);
  r->held += bytes;
  r->active = active;
  store->promised += promise_of (r);
  store->active += charge_of (r);
}

static gboolean
refuse (TlKvStore *store, gsize bytes, gsize left, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_NO_MEMORY,
    "tinyloop: the cache needs %" G_GSIZE_FORMAT " bytes more but %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT
    " are free; raise max-cache-bytes, shorten the prompt or set a window", bytes, left, store->limit);
  return FALSE;
}

/* --- bytes beside pages --- */

gboolean
tl_kv_store_take (TlKvStore *store, gsize bytes, GError **error)
{
  g_mutex_lock (&store->lock);
  gsize left = free_bytes (store, NULL);
  if (bytes <= left)
    store->used += bytes;
  g_mutex_unlock (&store->lock);
  return bytes <= left || refuse (store, bytes, left, error);
}

void
tl_kv_store_give_back (TlKvStore *store, gsize bytes)
{
  g_mutex_lock (&store->lock);
  store->used -= bytes;
  g_cond_broadcast (&store->freed);
  g_mutex_unlock (&store->lock);
}

/* --- pages --- */

gboolean
tl_kv_store_check (TlKvStore *store, TlKvReservation *reservation, gsize bytes, GError **error)
{
  g_mutex_lock (&store->lock);
  gsize left = free_bytes (store, reservation);
  g_mutex_unlock (&store->lock);
  return bytes <= left || refuse (store, bytes, left, error);
}

TlPage *
tl_kv_store_page_new (TlKvStore *store, TlKvReservation *reservation, gsize bytes, GError **error)
{
  g_mutex_lock (&store->lock);
  gsize left = free_bytes (store, reservation);
  if (bytes <= left)
    change (store, reservation, bytes, reservation && reservation->active);
  g_mutex_unlock (&store->lock);
  if (bytes > left)
    {
      refuse (store, bytes, left, error);
      return NULL;
    }

  TlPage *page = g_new (TlPage, 1);
  *page = (TlPage) { 1, bytes, store->backend->klass->memory_alloc (store->backend, bytes),
    reservation ? tl_kv_reservation_ref (reservation) : NULL };
  if (page->data)
    return page;
  tl_page_unref (store, page);
  g_set_error (error, TL_ERROR, TL_ERROR_NO_MEMORY,
    "tinyloop: the device has no %" G_GSIZE_FORMAT " bytes for a cache page, 0 bytes are free", bytes);
  return NULL;
}

TlPage *
tl_page_ref (TlPage *page)
{
  g_atomic_int_inc (&page->ref_count);
  return page;
}

void
tl_page_unref (TlKvStore *store, TlPage *page)
{
  if (!page || !g_atomic_int_dec_and_test (&page->ref_count))
    return;
  if (page->data)
    store->backend->klass->memory_free (store->backend, page->data, page->size);
  g_mutex_lock (&store->lock);
  change (store, page->reservation, -(gssize) page->size, page->reservation && page->reservation->active);
  if (store->queue.length)
    g_cond_broadcast (&store->freed);
  g_mutex_unlock (&store->lock);
  if (page->reservation)
    tl_kv_reservation_unref (page->reservation);
  g_free (page);
}

gboolean
tl_page_is_shared (TlPage *page)
{
  return g_atomic_int_get (&page->ref_count) > 1;
}

gpointer
tl_page_data (TlPage *page)
{
  return page->data;
}

gsize
tl_page_size (TlPage *page)
{
  return page->size;
}

/* --- reservations --- */

TlKvReservation *
tl_kv_reservation_new (TlKvStore *store, gsize bytes)
{
  TlKvReservation *r = g_new0 (TlKvReservation, 1);
  r->ref_count = 1;
  r->store = tl_kv_store_ref (store);
  r->total = bytes;
  r->waiting.data = r;
  return r;
}

TlKvReservation *
tl_kv_reservation_ref (TlKvReservation *r)
{
  g_atomic_int_inc (&r->ref_count);
  return r;
}

void
tl_kv_reservation_unref (TlKvReservation *r)
{
  if (!g_atomic_int_dec_and_test (&r->ref_count))
    return;
  tl_kv_reservation_release (r);
  tl_kv_store_unref (r->store);
  g_free (r);
}

/* what would be free for r if every request that is in now had ended and freed all its pages */
static gsize
free_some_day (TlKvStore *store, const TlKvReservation *r)
{
  gsize others = store->used + store->promised - store->active;
  return store->limit == 0 ? G_MAXSIZE : store->limit > others ? store->limit - others : 0;
}

gboolean
tl_kv_reservation_check (TlKvReservation *r, GError **error)
{
  g_mutex_lock (&r->store->lock);
  gsize needed = r->total > r->held ? r->total - r->held : 0, left = free_some_day (r->store, r);
  g_mutex_unlock (&r->store->lock);
  return needed <= left || refuse (r->store, needed, left, error);
}

static void
wake (GCancellable *cancellable, gpointer data)
{
  TlKvStore *store = data;
  g_mutex_lock (&store->lock);
  g_cond_broadcast (&store->freed);
  g_mutex_unlock (&store->lock);
}

/* its turn and room for it; under the lock */
static gboolean
wait_for_room (TlKvReservation *r, GCancellable *cancellable, GError **error)
{
  TlKvStore *store = r->store;
  gboolean ok = FALSE;
  g_queue_push_tail_link (&store->queue, &r->waiting);
  while (!ok)
    {
      gsize needed = r->total > r->held ? r->total - r->held : 0;
      if (cancellable && g_cancellable_is_cancelled (cancellable))
        {
          g_set_error (error, TL_ERROR, TL_ERROR_CANCELLED, "tinyloop: cancelled while waiting for cache memory");
          break;
        }
      if (needed > free_some_day (store, r))
        {
          refuse (store, needed, free_some_day (store, r), error);
          break;
        }
      ok = store->queue.head == &r->waiting && needed <= free_bytes (store, NULL);
      if (!ok)
        g_cond_wait (&store->freed, &store->lock);
    }
  g_queue_unlink (&store->queue, &r->waiting);
  g_cond_broadcast (&store->freed);
  return ok;
}

gboolean
tl_kv_reservation_take (TlKvReservation *r, GCancellable *cancellable, GError **error)
{
  TlKvStore *store = r->store;
  g_mutex_lock (&store->lock);
  gboolean ok = r->active;
  g_mutex_unlock (&store->lock);
  if (ok)
    return TRUE;

  gulong link = cancellable ? g_cancellable_connect (cancellable, G_CALLBACK (wake), store, NULL) : 0;
  g_mutex_lock (&store->lock);
  ok = wait_for_room (r, cancellable, error);
  if (ok)
    change (store, r, 0, TRUE);
  g_mutex_unlock (&store->lock);
  if (link)
    g_cancellable_disconnect (cancellable, link);
  return ok;
}

void
tl_kv_reservation_release (TlKvReservation *r)
{
  g_mutex_lock (&r->store->lock);
  change (r->store, r, 0, FALSE);
  g_cond_broadcast (&r->store->freed);
  g_mutex_unlock (&r->store->lock);
}
