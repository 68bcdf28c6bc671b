/* tl-prefix-pool.h — TlPrefixPool: prefixes of many prompts, found again by their tokens.
 *
 * A pool is shared among threads and models. What a prompt has in common with an entry, from its first token on, is taken from
 * the entry, the longest such beginning wins, and at least the prompt's last token is computed. Entries are bound to what they
 * were built with, as a #TlPrefixCache is; `cache-salt` of a configuration keeps those apart who must not share. When there
 * are too many entries or bytes, those used least recently go. Pages count once, however many entries share them, and also
 * against the model's own limit (max-cache-bytes), where a pool gives way to the requests that use it.
 *
 * Properties: max-entries (uint, 0 = no limit), max-bytes (uint64, 0 = no limit), learns (boolean, false: every prompt that
 * is run with the pool becomes an entry).
 */
#pragma once

#include "tl-prefix-cache.h"

G_BEGIN_DECLS

#define TL_TYPE_PREFIX_POOL (tl_prefix_pool_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlPrefixPool, tl_prefix_pool, TL, PREFIX_POOL, GObject)

/**
 * tl_prefix_pool_new:
 * @max_entries: entries at most, 0 = no limit
 * @max_bytes: bytes of all entries' pages at most, 0 = no limit
 *
 * Returns: (transfer full): an empty pool
 */
TL_API TlPrefixPool *tl_prefix_pool_new (guint max_entries, guint64 max_bytes);

/**
 * tl_prefix_pool_register:
 * @self: a pool
 * @cache: a prefix
 *
 * Makes it an entry, or the most recently used one if its tokens are there already under the same circumstances.
 *
 * Returns: %FALSE when it is larger than the whole pool may be, or its model was closed: nothing changed
 */
TL_API gboolean tl_prefix_pool_register (TlPrefixPool *self, TlPrefixCache *cache);

/**
 * tl_prefix_pool_clear:
 * @self: a pool
 *
 * Lets go of all entries; the counters stay.
 */
TL_API void tl_prefix_pool_clear (TlPrefixPool *self);

/**
 * tl_prefix_pool_get_learns:
 * @self: a pool
 *
 * Returns: the property `learns`
 */
TL_API gboolean tl_prefix_pool_get_learns (TlPrefixPool *self);

/**
 * TlPrefixPoolStatistics:
 * @entries: entries now
 * @bytes: bytes of their pages, each page once
 * @hits: prompts that took something from the pool
 * @misses: prompts that did not
 * @hit_tokens: positions that were taken instead of computed
 * @prompt_tokens: positions of all these prompts
 * @evictions: entries that had to go
 *
 * What a pool holds and how well it did.
 */
typedef struct
{
  guint entries;
  guint64 bytes, hits, misses, hit_tokens, prompt_tokens, evictions;
} TlPrefixPoolStatistics;

/**
 * tl_prefix_pool_get_statistics:
 * @self: a pool
 * @statistics: (out caller-allocates): filled in
 */
TL_API void tl_prefix_pool_get_statistics (TlPrefixPool *self, TlPrefixPoolStatistics *statistics);

/**
 * tl_model_begin_with_pool_bytes:
 * @self: a loaded model
 * @pool: a pool
 * @ids: native int32 ids of the whole prompt
 * @config: (nullable): parameters
 * @error: return location
 *
 * tl_model_begin() with what the pool has of the prompt; figures' cached-tokens says how much that was.
 *
 * Returns: (transfer full): the generator
 */
TL_API TlGenerator *tl_model_begin_with_pool_bytes (TlModel *self, TlPrefixPool *pool, GBytes *ids, TlGenerateConfig *config,
    GError **error);

/**
 * tl_model_generate_with_pool_bytes:
 * @self: a loaded model
 * @pool: a pool
 * @ids: native int32 ids of the whole prompt
 * @config: (nullable): parameters
 * @cancellable: (nullable): see tl_generator_run()
 * @error: return location
 *
 * tl_model_begin_with_pool_bytes() and tl_generator_run() in one.
 *
 * Returns: (transfer full): the result
 */
TL_API TlGeneration *tl_model_generate_with_pool_bytes (TlModel *self, TlPrefixPool *pool, GBytes *ids,
    TlGenerateConfig *config, GCancellable *cancellable, GError **error);

G_END_DECLS
