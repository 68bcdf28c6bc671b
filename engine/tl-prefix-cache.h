/* tl-prefix-cache.h — TlPrefixCache: a prompt's beginning, computed once, from which many replies go on.
 *
 * Immutable; any number of generations may begin from it, from any thread, and share its memory until they differ. It is bound
 * to its model and to what it was built with: loops, kv-mode, cache-window (unless it is shorter), exact-activations,
 * state-seed, cache-salt. Replies equal those to the whole prompt, bit for bit. It keeps its pages, and with them the model's
 * memory, until it is freed; after tl_model_close() everything asked of it fails with TL_ERROR_CLOSED.
 */
#pragma once

#include "tl-model.h"

G_BEGIN_DECLS

#define TL_TYPE_PREFIX_CACHE (tl_prefix_cache_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlPrefixCache, tl_prefix_cache, TL, PREFIX_CACHE, GObject)

/**
 * tl_model_build_prefix_cache_bytes:
 * @self: a loaded model
 * @ids: native int32 ids of the prefix, at least one
 * @config: (nullable): loops, kv-mode, cache-window, exact-activations, state-seed, chunk-size and cache-salt are used
 * @cancellable: (nullable): polled at least once per loop
 * @error: return location
 *
 * Runs the ids. Errors: as tl_model_begin(), CANCELLED.
 *
 * Returns: (transfer full): the cache
 */
TL_API TlPrefixCache *tl_model_build_prefix_cache_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_model_begin_from_prefix_cache_bytes:
 * @self: the model the cache was built with
 * @cache: a cache
 * @suffix: (nullable): native int32 ids that follow the prefix; none: the reply follows the prefix itself
 * @config: (nullable): parameters; loops 0 and kv-mode default mean the cache's
 * @error: return location
 *
 * Begins a generation; runs no pass. Errors: as tl_model_begin(), LOOPS_MISMATCH (other loops than the cache's),
 * INVALID_ARGUMENT naming what else differs from what the cache was built with.
 *
 * Returns: (transfer full): the generator; its prompt is prefix and suffix
 */
TL_API TlGenerator *tl_model_begin_from_prefix_cache_bytes (TlModel *self, TlPrefixCache *cache, GBytes *suffix,
    TlGenerateConfig *config, GError **error);

/**
 * tl_model_generate_from_prefix_cache_bytes:
 * @self: the model the cache was built with
 * @cache: a cache
 * @suffix: (nullable): native int32 ids that follow the prefix
 * @config: (nullable): parameters; loops 0 and kv-mode default mean the cache's
 * @cancellable: (nullable): see tl_generator_run()
 * @error: return location
 *
 * tl_model_begin_from_prefix_cache_bytes() and tl_generator_run() in one.
 *
 * Returns: (transfer full): the result; its tokens are prefix, suffix and new ids
 */
TL_API TlGeneration *tl_model_generate_from_prefix_cache_bytes (TlModel *self, TlPrefixCache *cache, GBytes *suffix,
    TlGenerateConfig *config, GCancellable *cancellable, GError **error);

/**
 * tl_prefix_cache_get_length:
 * @self: a cache
 *
 * Returns: tokens of the prefix
 */
TL_API guint tl_prefix_cache_get_length (TlPrefixCache *self);

/**
 * tl_prefix_cache_get_loops:
 * @self: a cache
 *
 * Returns: the loops it was built with
 */
TL_API guint tl_prefix_cache_get_loops (TlPrefixCache *self);

/**
 * tl_prefix_cache_get_size:
 * @self: a cache
 *
 * Returns: bytes of its pages, also of those that are shared with others
 */
TL_API guint64 tl_prefix_cache_get_size (TlPrefixCache *self);

/**
 * tl_prefix_cache_dup_tokens_bytes:
 * @self: a cache
 *
 * Returns: (transfer full): native int32 ids of the prefix
 */
TL_API GBytes *tl_prefix_cache_dup_tokens_bytes (TlPrefixCache *self);

/**
 * tl_prefix_cache_save:
 * @self: a cache
 * @path: (type filename): file to write; written beside it first and then renamed
 * @error: return location
 *
 * Errors: BAD_FILE when it cannot be written, UNSUPPORTED on a device that keeps no pages.
 *
 * Returns: %FALSE with an error
 */
TL_API gboolean tl_prefix_cache_save (TlPrefixCache *self, const char *path, GError **error);

/**
 * tl_model_load_prefix_cache:
 * @self: a loaded model
 * @path: (type filename): a file of tl_prefix_cache_save()
 * @error: return location
 *
 * Errors: BAD_FILE with file, field and reason (damaged, truncated, of another model), NO_MEMORY, CLOSED.
 *
 * Returns: (transfer full): the cache, as it was saved
 */
TL_API TlPrefixCache *tl_model_load_prefix_cache (TlModel *self, const char *path, GError **error);

G_END_DECLS
