/* engine/tl-prefix-pool.c — TlPrefixPool: entries in radix trees, one tree for each key, and in the order of their use.
 *
 * The lock guards everything and is held for searches only: forks, which wait for passes, and the last references of entries
 * are taken and given outside. An entry's sequence never changes, so its pages can be counted without the scheduler's lock.
 */
#include "tl-prefix-private.h"

#include "cache/tl-prefix-tree.h"

typedef struct
{
  GList link;                   /* in `used`; data: the entry */
  TlPrefixCache *cache;
  char *tree;                   /* key of its tree */
} Entry;

struct _TlPrefixPool
{
  GObject parent;
  GMutex lock;
  guint max_entries;
  guint64 max_bytes;
  gboolean learns;
  GHashTable *trees;            /* key → TlPrefixTree of Entry */
  GQueue used;                  /* Entry, the most recently used first */
  GHashTable *pages;            /* TlPage → number of entries that hold it */
  TlPrefixPoolStatistics statistics;
};

G_DEFINE_FINAL_TYPE (TlPrefixPool, tl_prefix_pool, G_TYPE_OBJECT)

enum { PROP_MAX_ENTRIES = 1, PROP_MAX_BYTES, PROP_LEARNS };

static const TlPrefix *
prefix_of (const Entry *entry)
{
  return tl_prefix_cache_get_prefix (entry->cache);
}

static const guint32 *
ids_of (const Entry *entry, guint *n)
{
  const TlPrefix *prefix = prefix_of (entry);
  *n = tl_prefix_length (prefix);
  return tl_kv_sequence_tokens (prefix->run->sequence);
}

/* --- what the lock guards --- */

/* the rows of entries in the tree of window 0 have all seen everything */
static char *
tree_key (TlModelCore *core, guint window, const TlPrefixKey *key)
{
  g_autofree char *text = tl_prefix_key_to_string (key);
  return g_strdup_printf ("%p %u\n%s", (gpointer) core, window, text);
}

static void
count_pages (TlPrefixPool *self, const Entry *entry, int step)
{
  const TlKvSequence *seq = prefix_of (entry)->run->sequence;
  guint n_groups = TL_GROUP_LOOP + tl_kv_sequence_max_depth (seq);
  for (guint g = 0; g < n_groups; g++)
    for (guint s = 0; s * TL_PAGE_POSITIONS < tl_kv_sequence_length (seq); s++) {
      TlPage *page = tl_kv_sequence_page (seq, g, s);
      if (!page)
        continue;
      guint before = GPOINTER_TO_UINT (g_hash_table_lookup (self->pages, page)), after = before + step;
      if (before == 0)
        self->statistics.bytes += tl_page_size (page);
      if (after > 0)
        g_hash_table_insert (self->pages, page, GUINT_TO_POINTER (after));
      else {
        g_hash_table_remove (self->pages, page);
        self->statistics.bytes -= tl_page_size (page);
      }
    }
}

/* out of the pool; the cache goes to `gone`, whose references are dropped without the lock */
static void
remove_entry (TlPrefixPool *self, Entry *entry, GPtrArray *gone)
{
  guint n;
  const guint32 *ids = ids_of (entry, &n);
  TlPrefixTree *tree = g_hash_table_lookup (self->trees, entry->tree);
  tl_prefix_tree_remove (tree, ids, n);
  if (tl_prefix_tree_is_empty (tree))
    g_hash_table_remove (self->trees, entry->tree);
  g_queue_unlink (&self->used, &entry->link);
  count_pages (self, entry, -1);
  self->statistics.entries--;
  g_ptr_array_add (gone, entry->cache);
  g_free (entry->tree);
  g_free (entry);
}

/* entries that nobody can ask for any more */
static void
drop_abandoned (TlPrefixPool *self, GPtrArray *gone)
{
  for (GList *l = self->used.head, *next; l; l = next) {
    next = l->next;
    if (tl_model_core_is_abandoned (prefix_of (l->data)->run->core))
      remove_entry (self, l->data, gone);
  }
}

static void
shrink (TlPrefixPool *self, GPtrArray *gone)
{
  while ((self->max_entries && self->statistics.entries > self->max_entries)
      || (self->max_bytes && self->statistics.bytes > self->max_bytes && self->statistics.entries > 1)) {
    remove_entry (self, self->used.tail->data, gone);
    self->statistics.evictions++;
  }
}

static void
insert (TlPrefixPool *self, TlPrefixCache *cache, GPtrArray *gone)
{
  Entry *entry = g_new0 (Entry, 1), *old;
  entry->link.data = entry;
  entry->cache = g_object_ref (cache);
  guint n, window = tl_kv_sequence_window (prefix_of (entry)->run->sequence), shared;
  const guint32 *ids = ids_of (entry, &n);
  entry->tree = tree_key (prefix_of (entry)->run->core, n <= window ? 0 : window, prefix_of (entry)->key);

  TlPrefixTree *tree = g_hash_table_lookup (self->trees, entry->tree);
  if (tree && (old = tl_prefix_tree_find_whole (tree, ids, n, &shared)) && shared == n)
    remove_entry (self, old, gone);
  if (!(tree = g_hash_table_lookup (self->trees, entry->tree)))
    g_hash_table_insert (self->trees, g_strdup (entry->tree), tree = tl_prefix_tree_new ());
  tl_prefix_tree_insert (tree, ids, n, entry);
  g_queue_push_head_link (&self->used, &entry->link);
  count_pages (self, entry, 1);
  self->statistics.entries++;
  shrink (self, gone);
}

/* the best entry and how much of it the ids may use */
static Entry *
find (TlPrefixPool *self, TlModelCore *core, const TlPrefixKey *key, guint window, const guint32 *ids, guint n,
    guint *length)
{
  guint partly = 0, whole = 0;
  g_autofree char *unseen = tree_key (core, 0, key), *windowed = tree_key (core, window, key);
  TlPrefixTree *tree = g_hash_table_lookup (self->trees, unseen);
  Entry *a = tree ? tl_prefix_tree_find (tree, ids, n, &partly) : NULL, *b = NULL;
  if (window) {
    partly = MIN (partly, window);
    tree = g_hash_table_lookup (self->trees, windowed);
    b = tree ? tl_prefix_tree_find_whole (tree, ids, n, &whole) : NULL;
  }
  *length = MAX (partly, whole);
  return whole > partly ? b : a;
}

/* --- the engine's side --- */

void
tl_prefix_hit_free (TlPrefixHit *hit)
{
  g_object_unref (hit->cache);
  g_free (hit);
}

static GPtrArray *
gone_new (void)
{
  return g_ptr_array_new_with_free_func (g_object_unref);
}

TlPrefixHit *
tl_prefix_pool_find (TlPrefixPool *self, TlModelCore *core, TlGenerateConfig *config, const guint32 *ids, guint n_ids,
    guint held)
{
  g_autoptr (TlPrefixKey) key = tl_prefix_key_new (core, config);
  g_autoptr (GPtrArray) gone = gone_new ();
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);       /* freed before `gone` */
  guint length;
  drop_abandoned (self, gone);
  Entry *entry = find (self, core, key, config->cache_window, ids, n_ids, &length);
  if (!entry || length <= held)
    return NULL;
  g_queue_unlink (&self->used, &entry->link);
  g_queue_push_head_link (&self->used, &entry->link);
  TlPrefixHit *hit = g_new (TlPrefixHit, 1);
  *hit = (TlPrefixHit) { g_object_ref (entry->cache), prefix_of (entry)->run, length };
  return hit;
}

void
tl_prefix_pool_count (TlPrefixPool *self, guint taken, guint n_ids)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  self->statistics.hits += taken > 0;
  self->statistics.misses += taken == 0;
  self->statistics.hit_tokens += taken;
  self->statistics.prompt_tokens += n_ids;
}

gboolean
tl_prefix_pool_evict (TlPrefixPool *self, TlModelCore *core)
{
  g_autoptr (GPtrArray) gone = gone_new ();
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  for (GList *l = self->used.tail; l; l = l->prev)
    if (prefix_of (l->data)->run->core == core) {
      remove_entry (self, l->data, gone);
      self->statistics.evictions++;
      return TRUE;
    }
  return FALSE;
}

void
tl_prefix_pool_learn (TlPrefixPool *self, TlModelRun *run, TlPrefixKey *key)
{
  TlModelRun *fork = tl_model_run_fork (run);
  tl_kv_sequence_set_reservation (fork->sequence, NULL);        /* the request's */
  g_autoptr (TlPrefixCache) cache = tl_prefix_cache_new (key, fork);
  tl_prefix_pool_register (self, cache);
}

/* --- the object --- */

static void
tl_prefix_pool_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  TlPrefixPool *self = TL_PREFIX_POOL (object);
  g_autoptr (GPtrArray) gone = gone_new ();
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  switch (id) {
    case PROP_MAX_ENTRIES: self->max_entries = g_value_get_uint (value); break;
    case PROP_MAX_BYTES: self->max_bytes = g_value_get_uint64 (value); break;
    case PROP_LEARNS: self->learns = g_value_get_boolean (value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  shrink (self, gone);
}

static void
tl_prefix_pool_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  TlPrefixPool *self = TL_PREFIX_POOL (object);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  switch (id) {
    case PROP_MAX_ENTRIES: g_value_set_uint (value, self->max_entries); break;
    case PROP_MAX_BYTES: g_value_set_uint64 (value, self->max_bytes); break;
    case PROP_LEARNS: g_value_set_boolean (value, self->learns); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
}

static void
tl_prefix_pool_finalize (GObject *object)
{
  TlPrefixPool *self = TL_PREFIX_POOL (object);
  tl_prefix_pool_clear (self);
  g_hash_table_unref (self->trees);
  g_hash_table_unref (self->pages);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (tl_prefix_pool_parent_class)->finalize (object);
}

static void
tl_prefix_pool_class_init (TlPrefixPoolClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS;
  object_class->set_property = tl_prefix_pool_set_property;
  object_class->get_property = tl_prefix_pool_get_property;
  object_class->finalize = tl_prefix_pool_finalize;
  g_object_class_install_property (object_class, PROP_MAX_ENTRIES, g_param_spec_uint ("max-entries", "max-entries",
          "Entries at most, 0 = no limit", 0, G_MAXUINT, 0, flags));
  g_object_class_install_property (object_class, PROP_MAX_BYTES, g_param_spec_uint64 ("max-bytes", "max-bytes",
          "Bytes of all entries' pages at most, 0 = no limit", 0, G_MAXUINT64, 0, flags));
  g_object_class_install_property (object_class, PROP_LEARNS, g_param_spec_boolean ("learns", "learns",
          "Every prompt that is run with the pool becomes an entry", FALSE, flags));
}

static void
tl_prefix_pool_init (TlPrefixPool *self)
{
  g_mutex_init (&self->lock);
  g_queue_init (&self->used);
  self->trees = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) tl_prefix_tree_free);
  self->pages = g_hash_table_new (NULL, NULL);
}

TlPrefixPool *
tl_prefix_pool_new (guint max_entries, guint64 max_bytes)
{
  return g_object_new (TL_TYPE_PREFIX_POOL, "max-entries", max_entries, "max-bytes", max_bytes, NULL);
}

gboolean
tl_prefix_pool_register (TlPrefixPool *self, TlPrefixCache *cache)
{
  g_return_val_if_fail (TL_IS_PREFIX_POOL (self) && TL_IS_PREFIX_CACHE (cache), FALSE);
  const TlPrefix *prefix = tl_prefix_cache_get_prefix (cache);
  g_autoptr (GPtrArray) gone = gone_new ();
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  drop_abandoned (self, gone);
  if (tl_model_core_is_abandoned (prefix->run->core) || (self->max_bytes && tl_prefix_bytes (prefix) > self->max_bytes))
    return FALSE;
  insert (self, cache, gone);
  return TRUE;
}

void
tl_prefix_pool_clear (TlPrefixPool *self)
{
  g_return_if_fail (TL_IS_PREFIX_POOL (self));
  g_autoptr (GPtrArray) gone = gone_new ();
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  while (self->used.head)
    remove_entry (self, self->used.head->data, gone);
}

gboolean
tl_prefix_pool_get_learns (TlPrefixPool *self)
{
  g_return_val_if_fail (TL_IS_PREFIX_POOL (self), FALSE);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  return self->learns;
}

void
tl_prefix_pool_get_statistics (TlPrefixPool *self, TlPrefixPoolStatistics *statistics)
{
  g_return_if_fail (TL_IS_PREFIX_POOL (self) && statistics);
  g_autoptr (GPtrArray) gone = gone_new ();
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  drop_abandoned (self, gone);
  *statistics = self->statistics;
}

TlGenerator *
tl_model_begin_with_pool_bytes (TlModel *self, TlPrefixPool *pool, GBytes *ids, TlGenerateConfig *config, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self) && TL_IS_PREFIX_POOL (pool), NULL);
  gsize n;
  const guint32 *prompt = tl_ids_from_bytes (ids, &n, error);
  TlBeginning on = { .ids = prompt, .n_ids = n, .n_prompt = n, .pool = pool };
  return prompt ? tl_model_begin_on (self, &on, config, error) : NULL;
}

TlGeneration *
tl_model_generate_with_pool_bytes (TlModel *self, TlPrefixPool *pool, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error)
{
  g_autoptr (TlGenerator) generator = tl_model_begin_with_pool_bytes (self, pool, ids, config, error);
  return generator ? tl_generator_run (generator, cancellable, error) : NULL;
}
