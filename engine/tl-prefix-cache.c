/* engine/tl-prefix-cache.c — TlPrefixCache: a computed prefix as an object. See tl-prefix-cache.h; the work: tl-prefix.c. */
#include "tl-prefix-private.h"

struct _TlPrefixCache
{
  GObject parent;
  TlPrefix prefix;
};

G_DEFINE_FINAL_TYPE (TlPrefixCache, tl_prefix_cache, G_TYPE_OBJECT)

static void
tl_prefix_cache_finalize (GObject *object)
{
  tl_prefix_clear (&TL_PREFIX_CACHE (object)->prefix);
  G_OBJECT_CLASS (tl_prefix_cache_parent_class)->finalize (object);
}

static void
tl_prefix_cache_class_init (TlPrefixCacheClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_prefix_cache_finalize;
}

static void
tl_prefix_cache_init (TlPrefixCache *self)
{
}

static TlPrefixCache *
cache_of (TlPrefix prefix)
{
  TlPrefixCache *self = g_object_new (TL_TYPE_PREFIX_CACHE, NULL);
  self->prefix = prefix;
  return self;
}

TlPrefixCache *
tl_prefix_cache_new (TlPrefixKey *key, TlModelRun *run)
{
  return cache_of ((TlPrefix) { "prefix cache", key, run });
}

const TlPrefix *
tl_prefix_cache_get_prefix (TlPrefixCache *self)
{
  return &self->prefix;
}

TlPrefixCache *
tl_model_build_prefix_cache_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  TlPrefix prefix;
  return tl_prefix_build (&prefix, "prefix cache", self, ids, config, cancellable, error) ? cache_of (prefix) : NULL;
}

TlGenerator *
tl_model_begin_from_prefix_cache_bytes (TlModel *self, TlPrefixCache *cache, GBytes *suffix, TlGenerateConfig *config,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self) && TL_IS_PREFIX_CACHE (cache), NULL);
  return tl_prefix_begin (&cache->prefix, self, suffix, FALSE, config, error);
}

TlGeneration *
tl_model_generate_from_prefix_cache_bytes (TlModel *self, TlPrefixCache *cache, GBytes *suffix, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error)
{
  g_autoptr (TlGenerator) generator = tl_model_begin_from_prefix_cache_bytes (self, cache, suffix, config, error);
  return generator ? tl_generator_run (generator, cancellable, error) : NULL;
}

guint
tl_prefix_cache_get_length (TlPrefixCache *self)
{
  g_return_val_if_fail (TL_IS_PREFIX_CACHE (self), 0);
  return tl_prefix_length (&self->prefix);
}

guint
tl_prefix_cache_get_loops (TlPrefixCache *self)
{
  g_return_val_if_fail (TL_IS_PREFIX_CACHE (self), 0);
  return tl_prefix_loops (&self->prefix);
}

guint64
tl_prefix_cache_get_size (TlPrefixCache *self)
{
  g_return_val_if_fail (TL_IS_PREFIX_CACHE (self), 0);
  return tl_prefix_bytes (&self->prefix);
}

GBytes *
tl_prefix_cache_dup_tokens_bytes (TlPrefixCache *self)
{
  g_return_val_if_fail (TL_IS_PREFIX_CACHE (self), NULL);
  return tl_prefix_dup_tokens (&self->prefix);
}

gboolean
tl_prefix_cache_save (TlPrefixCache *self, const char *path, GError **error)
{
  g_return_val_if_fail (TL_IS_PREFIX_CACHE (self) && path, FALSE);
  return tl_prefix_save (&self->prefix, path, error);
}

TlPrefixCache *
tl_model_load_prefix_cache (TlModel *self, const char *path, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self) && path, NULL);
  TlPrefix prefix;
  return tl_prefix_load (&prefix, "prefix cache", self, path, error) ? cache_of (prefix) : NULL;
}
