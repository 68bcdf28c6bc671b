/* cache/tl-kv-store.c — pages under one byte limit, counted by reference. */
#include "cache/tl-kv-store.h"

struct _TlPage
{
  guint ref_count;
  gsize size;
  gpointer data;
};

struct _TlKvStore
{
  gint ref_count;
  TlBackend *backend;
  gsize limit, used;
};

TlKvStore *
tl_kv_store_new (TlBackend *backend, gsize limit)
{
  TlKvStore *store = g_new0 (TlKvStore, 1);
  store->ref_count = 1;
  store->backend = backend;
  store->limit = limit;
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
  if (g_atomic_int_dec_and_test (&store->ref_count))
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
  return store->used;
}

gsize
tl_kv_store_estimate (TlKvStore *store, guint positions, guint loops, TlKvMode mode)
{
  const TlProgram *p = store->backend->program;
  gsize pages = (positions + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS;
  return pages * (tl_kv_page_bytes (p, TL_GROUP_PRE, mode) + tl_kv_page_bytes (p, TL_GROUP_CODA, mode)
                  + loops * tl_kv_page_bytes (p, TL_GROUP_LOOP, mode));
}

gboolean
tl_kv_store_check (TlKvStore *store, gsize bytes, GError **error)
{
  gsize left = store->limit > store->used ? store->limit - store->used : 0;
  if (store->limit == 0 || bytes <= left)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_NO_MEMORY,
    "tinyloop: the cache needs %" G_GSIZE_FORMAT " bytes more but %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT
    " are free; raise max-cache-bytes, shorten the prompt or set a window", bytes, left, store->limit);
  return FALSE;
}

TlPage *
tl_kv_store_page_new (TlKvStore *store, gsize bytes, GError **error)
{
  if (!tl_kv_store_check (store, bytes, error))
    return NULL;
  gpointer data = store->backend->klass->memory_alloc (store->backend, bytes);
  if (!data)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_NO_MEMORY,
        "tinyloop: the device has no %" G_GSIZE_FORMAT " bytes for a cache page, 0 bytes are free", bytes);
      return NULL;
    }
  TlPage *page = g_new (TlPage, 1);
  *page = (TlPage) { 1, bytes, data };
  store->used += bytes;
  return page;
}

TlPage *
tl_page_ref (TlPage *page)
{
  page->ref_count++;
  return page;
}

void
tl_page_unref (TlKvStore *store, TlPage *page)
{
  if (!page || --page->ref_count > 0)
    return;
  store->used -= page->size;
  store->backend->klass->memory_free (store->backend, page->data, page->size);
  g_free (page);
}

gboolean
tl_page_is_shared (TlPage *page)
{
  return page->ref_count > 1;
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
