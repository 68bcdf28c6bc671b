/* cache/tl-kv-store.h — all pages of one backend: a byte limit, reference counts, free lists per size.
 *
 * Sequences take pages from it and share them when forked. Pages are written only while a single sequence holds them;
 * tl-sequence.c copies first. A request reserves its worst case before it runs, so that nothing fails half way.
 * Any thread may call anything here; nothing waits for a pass.
 */
#pragma once

#include "forward/tl-backend.h"
#include "forward/tl-kv-layout.h"

G_BEGIN_DECLS

typedef struct _TlKvStore TlKvStore;
typedef struct _TlPage TlPage;
typedef struct _TlKvReservation TlKvReservation;

/* limit: bytes of all pages together, 0 = none. The backend must outlive the store. */
TlKvStore *tl_kv_store_new (TlBackend *backend, gsize limit);
TlKvStore *tl_kv_store_ref (TlKvStore *store);
void tl_kv_store_unref (TlKvStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlKvStore, tl_kv_store_unref)

TlBackend *tl_kv_store_backend (TlKvStore *store);
gsize tl_kv_store_used_bytes (TlKvStore *store);       /* pages held by sequences, and what was taken */
/* bytes that `positions` positions at `loops` loops take in a mode; for admission */
gsize tl_kv_store_estimate (TlKvStore *store, guint positions, guint loops, TlKvMode mode);
/* TL_ERROR_NO_MEMORY with needed and free bytes when `bytes` more do not fit now. reservation: on whose account, or NULL */
gboolean tl_kv_store_check (TlKvStore *store, TlKvReservation *reservation, gsize bytes, GError **error);

/* --- a request's worst case: at first only a number; between take and release the bytes are its own --- */
TlKvReservation *tl_kv_reservation_new (TlKvStore *store, gsize bytes);
TlKvReservation *tl_kv_reservation_ref (TlKvReservation *reservation);
void tl_kv_reservation_unref (TlKvReservation *reservation);
/* NO_MEMORY when it would not fit if all who have taken theirs were gone */
gboolean tl_kv_reservation_check (TlKvReservation *reservation, GError **error);
/* Waits, first come first served, until it fits. Errors: NO_MEMORY as above, CANCELLED. Taken already: does nothing. */
gboolean tl_kv_reservation_take (TlKvReservation *reservation, GCancellable *cancellable, GError **error);
void tl_kv_reservation_release (TlKvReservation *reservation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlKvReservation, tl_kv_reservation_unref)

/* Counts bytes beside pages (kept row states) against the limit; NO_MEMORY as above. give_back with what was taken. */
gboolean tl_kv_store_take (TlKvStore *store, gsize bytes, GError **error);
void tl_kv_store_give_back (TlKvStore *store, gsize bytes);

/* for tl-sequence.c */
TlPage *tl_kv_store_page_new (TlKvStore *store, TlKvReservation *reservation, gsize bytes, GError **error);
TlPage *tl_page_ref (TlPage *page);
void tl_page_unref (TlKvStore *store, TlPage *page);
gboolean tl_page_is_shared (TlPage *page);
gpointer tl_page_data (TlPage *page);
gsize tl_page_size (TlPage *page);

G_END_DECLS
