/* tests/engine/prefixes.c — prefix caches, pools and resume handles give what the whole prompt gives, and refuse by name. */
#include <glib/gstdio.h>
#include <string.h>

#include "tiny-model.h"
#include "tinyloop.h"

static const TinyModel tiny = { "tiny", TL_F32, TL_OFFSET_NONE, TL_F32, 0, 64, 16, 4, 2, 96, 40, 512 };

static char *path;
static TlModel *model;

static TlModel *
load (guint64 max_cache_bytes)
{
  g_autoptr (GError) error = NULL;
  TlModel *m = g_object_new (TL_TYPE_MODEL, "path", path, "max-cache-bytes", max_cache_bytes, NULL);
  tl_model_load (m, NULL, &error);
  g_assert_no_error (error);
  return m;
}

/* ids [from, to) of text number `text`; all texts share their first `common` ids, and differ in the next */
static GBytes *
ids_of (guint text, guint common, guint from, guint to)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint i = from; i < to; i++) {
    guint32 id = (tiny_model_id (&tiny, i) + (i < common ? 0 : text)) % tiny.vocab_size;
    g_array_append_val (ids, id);
  }
  return g_bytes_new (ids->data, ids->len * sizeof (guint32));
}

static TlGenerateConfig *
config_new (guint loops, const char *first, ...)
{
  TlGenerateConfig *config = tl_generate_config_new ();
  va_list args;
  g_object_set (config, "max-tokens", 12, "loops", loops, NULL);
  va_start (args, first);
  if (first)
    g_object_set_valist (G_OBJECT (config), first, args);
  va_end (args);
  return config;
}

static void
assert_same (TlGeneration *a, TlGeneration *b)
{
  g_assert_true (a && b);
  g_assert_true (g_bytes_equal (tl_generation_get_tokens_bytes (a), tl_generation_get_tokens_bytes (b)));
}

static guint
cached_of (TlGeneration *generation)
{
  TlGenerationFigures figures;
  tl_generation_get_figures (generation, &figures);
  return figures.cached_tokens;
}

static TlGeneration *
plain (GBytes *ids, TlGenerateConfig *config)
{
  g_autoptr (GError) error = NULL;
  TlGeneration *generation = tl_model_generate_bytes (model, ids, config, NULL, &error);
  g_assert_no_error (error);
  return generation;
}

static TlPrefixCache *
build (TlModel *m, guint text, guint n, TlGenerateConfig *config)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) ids = ids_of (text, 0, 0, n);
  TlPrefixCache *cache = tl_model_build_prefix_cache_bytes (m, ids, config, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tl_prefix_cache_get_length (cache), ==, n);
  return cache;
}

/* --- caches --- */

static void
test_a_reply_from_a_cache_is_that_of_the_whole_prompt (void)
{
  static const guint lengths[] = { 1, 31, 32, 33, 100 };
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    for (guint extra = 0; extra <= 40; extra += 20) {
      g_autoptr (TlGenerateConfig) config = config_new (3, "temperature", 0.8, "seed", (guint64) 5, "chunk-size", 16, NULL);
      g_autoptr (TlGenerateConfig) other = config_new (3, "temperature", 1.5, "seed", (guint64) 6, NULL);
      g_autoptr (TlPrefixCache) cache = build (model, 1, lengths[i], other);     /* another sampling seed */
      g_autoptr (GBytes) all = ids_of (1, 0, 0, lengths[i] + extra), rest = ids_of (1, 0, lengths[i], lengths[i] + extra);
      g_autoptr (TlGeneration) want = plain (all, config);
      for (guint again = 0; again < 2; again++) {
        g_autoptr (TlGeneration) got = tl_model_generate_from_prefix_cache_bytes (model, cache, extra ? rest : NULL, config,
            NULL, NULL);
        assert_same (got, want);
        g_assert_cmpuint (cached_of (got), ==, extra ? lengths[i] : lengths[i] - 1);
      }
    }
}

static void
assert_refused (TlPrefixCache *cache, int code, const char *word, TlGenerateConfig *taken)
{
  g_autoptr (TlGenerateConfig) config = taken;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) suffix = ids_of (1, 0, 40, 44);
  g_assert_null (tl_model_begin_from_prefix_cache_bytes (model, cache, suffix, config, &error));
  g_assert_error (error, TL_ERROR, code);
  g_assert_nonnull (strstr (error->message, word));
}

static void
test_what_differs_is_named (void)
{
  g_autoptr (TlGenerateConfig) config = config_new (2, NULL);
  g_autoptr (TlPrefixCache) cache = build (model, 1, 40, config);
  assert_refused (cache, TL_ERROR_LOOPS_MISMATCH, "loops mismatch", config_new (3, NULL));
  assert_refused (cache, TL_ERROR_INVALID_ARGUMENT, "kv-mode", config_new (2, "kv-mode", TL_KV_PRECISION_FP32, NULL));
  assert_refused (cache, TL_ERROR_INVALID_ARGUMENT, "cache-window", config_new (2, "cache-window", 39, NULL));
  assert_refused (cache, TL_ERROR_INVALID_ARGUMENT, "state-seed", config_new (2, "state-seed", (guint64) 1, NULL));
  assert_refused (cache, TL_ERROR_INVALID_ARGUMENT, "cache-salt", config_new (2, "cache-salt", "mine", NULL));
  assert_refused (cache, TL_ERROR_INVALID_ARGUMENT, "exact-activations", config_new (2, "exact-activations", TRUE, NULL));

  g_autoptr (TlModel) twin = load (0);
  g_autoptr (GError) error = NULL;
  g_assert_null (tl_model_begin_from_prefix_cache_bytes (twin, cache, NULL, config, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  g_autoptr (TlGenerateConfig) unset = config_new (0, NULL);
  g_autoptr (TlGenerator) ours = tl_model_begin_from_prefix_cache_bytes (model, cache, NULL, unset, NULL);
  g_assert_nonnull (ours);      /* loops 0: the cache's */
}

static void
test_a_window_counts_only_once_it_hides_something (void)
{
  g_autoptr (TlGenerateConfig) open = config_new (2, NULL), windowed = config_new (2, "cache-window", 40, NULL);
  g_autoptr (TlPrefixCache) a = build (model, 1, 40, open), b = build (model, 1, 70, windowed);
  g_autoptr (GBytes) all = ids_of (1, 0, 0, 90), from_40 = ids_of (1, 0, 40, 90), from_70 = ids_of (1, 0, 70, 90);
  g_autoptr (TlGeneration) want = plain (all, windowed);
  g_autoptr (TlGeneration) got_a = tl_model_generate_from_prefix_cache_bytes (model, a, from_40, windowed, NULL, NULL);
  g_autoptr (TlGeneration) got_b = tl_model_generate_from_prefix_cache_bytes (model, b, from_70, windowed, NULL, NULL);
  assert_same (got_a, want);
  assert_same (got_b, want);
}

static void
test_a_closed_model_is_closed_for_its_caches (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlPrefixPool) pool = tl_prefix_pool_new (0, 0);
  TlModel *other = load (0);
  TlPrefixCache *cache = build (other, 1, 20, NULL);
  TlPrefixPoolStatistics s;
  g_assert_true (tl_prefix_pool_register (pool, cache));
  tl_model_close (other);
  g_assert_null (tl_model_begin_from_prefix_cache_bytes (other, cache, NULL, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_CLOSED);
  g_assert_false (tl_prefix_pool_register (pool, cache));
  tl_prefix_pool_get_statistics (pool, &s);
  g_assert_cmpuint (s.entries, ==, 0);
  g_object_unref (other);
  g_assert_cmpuint (tl_prefix_cache_get_length (cache), ==, 20);        /* outlives its model */
  g_object_unref (cache);
}

/* --- pools --- */

static TlGeneration *
pooled (TlPrefixPool *pool, GBytes *ids, TlGenerateConfig *config)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGeneration) want = plain (ids, config);
  TlGeneration *got = tl_model_generate_with_pool_bytes (model, pool, ids, config, NULL, &error);
  g_assert_no_error (error);
  assert_same (got, want);
  return got;
}

static guint
pooled_hit (TlPrefixPool *pool, guint text, guint common, guint n, TlGenerateConfig *config)
{
  g_autoptr (GBytes) ids = ids_of (text, common, 0, n);
  g_autoptr (TlGeneration) got = pooled (pool, ids, config);
  return cached_of (got);
}

static void
test_the_longest_beginning_wins (void)
{
  g_autoptr (TlPrefixPool) pool = tl_prefix_pool_new (0, 0);
  g_autoptr (TlGenerateConfig) config = config_new (2, "temperature", 0.7, NULL), deep = config_new (3, NULL);
  g_autoptr (TlPrefixCache) a = build (model, 0, 20, config), b = build (model, 0, 50, config);
  tl_prefix_pool_register (pool, a);
  tl_prefix_pool_register (pool, b);
  g_assert_cmpuint (pooled_hit (pool, 0, 0, 60, config), ==, 50);
  g_assert_cmpuint (pooled_hit (pool, 0, 0, 50, config), ==, 49);
  g_assert_cmpuint (pooled_hit (pool, 0, 0, 33, config), ==, 32);
  g_assert_cmpuint (pooled_hit (pool, 1, 37, 60, config), ==, 37);      /* parts mid-page */
  g_assert_cmpuint (pooled_hit (pool, 2, 0, 60, config), ==, 0);
  g_assert_cmpuint (pooled_hit (pool, 0, 0, 60, deep), ==, 0);

  TlPrefixPoolStatistics s;
  tl_prefix_pool_get_statistics (pool, &s);
  g_assert_cmpuint (s.hits, ==, 4);
  g_assert_cmpuint (s.misses, ==, 2);
  g_assert_cmpuint (s.hit_tokens, ==, 50 + 49 + 32 + 37);
  g_assert_cmpuint (s.entries, ==, 2);
  g_assert_cmpuint (s.bytes, ==, tl_prefix_cache_get_size (a) + tl_prefix_cache_get_size (b));
}

static void
test_a_prefix_hit_mid_page_with_a_window (void)
{
  for (guint window = 5; window <= 69; window += 16) {
    g_autoptr (TlPrefixPool) pool = tl_prefix_pool_new (0, 0);
    g_autoptr (TlGenerateConfig) open = config_new (2, NULL), windowed = config_new (2, "cache-window", window, NULL);
    g_autoptr (TlPrefixCache) a = build (model, 0, 150, open);
    tl_prefix_pool_register (pool, a);
    g_assert_cmpuint (pooled_hit (pool, 1, 45, 170, windowed), ==, MIN (45, window));
    g_autoptr (TlPrefixCache) b = build (model, 0, 83, windowed);
    tl_prefix_pool_register (pool, b);
    g_assert_cmpuint (pooled_hit (pool, 0, 0, 170, windowed), ==, 83);
    g_assert_cmpuint (pooled_hit (pool, 0, 0, 83, windowed), ==, 82 >= window ? MIN (window, 82) : 82);
    g_assert_cmpuint (pooled_hit (pool, 0, 0, 170, open), ==, 150);
  }
}

static void
test_salts_do_not_share (void)
{
  g_autoptr (TlPrefixPool) pool = g_object_new (TL_TYPE_PREFIX_POOL, "learns", TRUE, NULL);
  g_autoptr (TlGenerateConfig) a = config_new (2, "cache-salt", "a", NULL), b = config_new (2, "cache-salt", "b", NULL);
  g_assert_cmpuint (pooled_hit (pool, 0, 0, 40, a), ==, 0);
  g_assert_cmpuint (pooled_hit (pool, 0, 0, 40, b), ==, 0);
  g_assert_cmpuint (pooled_hit (pool, 1, 30, 40, a), ==, 30);
}

static void
test_a_pool_that_learns_shares_pages (void)
{
  g_autoptr (TlPrefixPool) pool = g_object_new (TL_TYPE_PREFIX_POOL, "learns", TRUE, NULL);
  g_autoptr (TlGenerateConfig) config = config_new (2, "seed", (guint64) 3, "temperature", 1.0, NULL);
  TlPrefixPoolStatistics one, many;
  g_assert_cmpuint (pooled_hit (pool, 0, 64, 70, config), ==, 0);
  tl_prefix_pool_get_statistics (pool, &one);
  for (guint text = 1; text < 5; text++)
    g_assert_cmpuint (pooled_hit (pool, text, 64, 70, config), ==, 64);
  g_assert_cmpuint (pooled_hit (pool, 1, 64, 70, config), ==, 69);
  tl_prefix_pool_get_statistics (pool, &many);
  g_assert_cmpuint (many.entries, ==, 5);
  g_assert_cmpuint (many.bytes, ==, one.bytes / 3 * (2 + 5));   /* two pages in common, one each */
}

static void
test_the_least_recently_used_entry_goes (void)
{
  g_autoptr (TlPrefixPool) pool = tl_prefix_pool_new (2, 0);
  g_autoptr (TlGenerateConfig) config = config_new (2, NULL);
  g_autoptr (TlPrefixCache) a = build (model, 1, 20, config), b = build (model, 2, 20, config), c = build (model, 3, 20,
      config);
  TlPrefixPoolStatistics s;
  tl_prefix_pool_register (pool, a);
  tl_prefix_pool_register (pool, b);
  g_assert_cmpuint (pooled_hit (pool, 1, 0, 30, config), ==, 20);
  tl_prefix_pool_register (pool, c);
  g_assert_cmpuint (pooled_hit (pool, 1, 0, 30, config), ==, 20);
  g_assert_cmpuint (pooled_hit (pool, 2, 0, 30, config), ==, 0);
  g_assert_cmpuint (pooled_hit (pool, 3, 0, 30, config), ==, 20);
  tl_prefix_pool_get_statistics (pool, &s);
  g_assert_cmpuint (s.evictions, ==, 1);

  g_object_set (pool, "max-bytes", tl_prefix_cache_get_size (a), NULL);
  tl_prefix_pool_get_statistics (pool, &s);
  g_assert_cmpuint (s.entries, ==, 1);
  g_autoptr (TlPrefixCache) large = build (model, 4, 90, config);
  g_assert_false (tl_prefix_pool_register (pool, large));
  tl_prefix_pool_clear (pool);
  tl_prefix_pool_get_statistics (pool, &s);
  g_assert_cmpuint (s.entries + s.bytes, ==, 0);
}

static void
test_a_pool_gives_way_to_requests (void)
{
  g_autoptr (TlGenerateConfig) config = config_new (2, NULL);
  g_autoptr (TlPrefixCache) measured = build (model, 1, 64, config);
  g_autoptr (TlModel) small = load (tl_prefix_cache_get_size (measured) * 2);
  g_autoptr (TlPrefixPool) pool = g_object_new (TL_TYPE_PREFIX_POOL, "learns", TRUE, NULL);
  TlPrefixPoolStatistics s;
  for (guint text = 1; text < 6; text++) {
    g_autoptr (GBytes) ids = ids_of (text, 0, 0, 64);
    g_autoptr (GError) error = NULL;
    g_autoptr (TlGeneration) want = plain (ids, config);
    g_autoptr (TlGeneration) got = tl_model_generate_with_pool_bytes (small, pool, ids, config, NULL, &error);
    g_assert_no_error (error);
    assert_same (got, want);
  }
  tl_prefix_pool_get_statistics (pool, &s);
  g_assert_cmpuint (s.evictions, >, 0);
}

typedef struct { TlPrefixPool *pool; guint number; } Worker;

static gpointer
work (gpointer data)
{
  Worker *worker = data;
  g_autoptr (TlGenerateConfig) config = config_new (2, "temperature", 0.9, NULL);
  for (guint i = 0; i < 12; i++)
    pooled_hit (worker->pool, (worker->number + i) % 5, 40, 60 + i % 3, config);
  return NULL;
}

static void
test_threads_share_a_pool (void)
{
  g_autoptr (TlPrefixPool) pool = g_object_new (TL_TYPE_PREFIX_POOL, "learns", TRUE, "max-entries", 4, NULL);
  GThread *threads[4];
  Worker workers[4];
  TlPrefixPoolStatistics s;
  for (guint i = 0; i < 4; i++) {
    workers[i] = (Worker) { pool, i };
    threads[i] = g_thread_new ("pool", work, &workers[i]);
  }
  for (guint i = 0; i < 4; i++)
    g_thread_join (threads[i]);
  tl_prefix_pool_get_statistics (pool, &s);
  g_assert_cmpuint (s.hits + s.misses, ==, 48);
  g_assert_cmpuint (s.entries, <=, 4);
  g_assert_cmpuint (s.hits, >, 30);
}

/* --- handles --- */

static TlResumeHandle *
build_handle (guint n, TlGenerateConfig *config)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) ids = ids_of (1, 0, 0, n);
  TlResumeHandle *handle = tl_model_build_resume_handle_bytes (model, ids, config, NULL, &error);
  g_assert_no_error (error);
  return handle;
}

static void
test_a_resumed_prompt_equals_a_deep_one (void)
{
  static const struct { guint n, from, to, window, build_chunk, chunk; } cases[] = {
    { 1, 1, 4, 0, 0, 0 }, { 33, 1, 2, 0, 7, 32 }, { 100, 2, 4, 0, 0, 16 }, { 100, 2, 2, 0, 0, 0 }, { 40, 1, 3, 9, 0, 0 },
    { 300, 1, 3, 9, 0, 64 }, { 300, 1, 3, 40, 100, 7 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint sampled = 0; sampled < 2; sampled++) {
      g_autoptr (TlGenerateConfig) shallow = config_new (cases[i].from, "cache-window", cases[i].window, "chunk-size",
          cases[i].build_chunk, NULL);
      g_autoptr (TlGenerateConfig) deep = config_new (cases[i].to, "cache-window", cases[i].window, "chunk-size",
          cases[i].chunk, "temperature", sampled * 0.9, NULL);
      g_autoptr (GBytes) ids = ids_of (1, 0, 0, cases[i].n);
      g_autoptr (TlResumeHandle) handle = build_handle (cases[i].n, shallow);
      g_autoptr (TlGeneration) want = plain (ids, deep);
      for (guint again = 0; again < 2; again++) {
        g_autoptr (TlGeneration) got = tl_model_resume_generate_bytes (model, handle, deep, NULL, NULL);
        assert_same (got, want);
      }
      g_autoptr (TlGeneration) as_built = tl_model_resume_generate_bytes (model, handle, shallow, NULL, NULL);
      g_autoptr (TlGeneration) want_as_built = plain (ids, shallow);
      assert_same (as_built, want_as_built);
    }
}

static void
test_a_handle_only_goes_deeper (void)
{
  g_autoptr (TlGenerateConfig) three = config_new (3, NULL), two = config_new (2, NULL);
  g_autoptr (TlResumeHandle) handle = build_handle (20, three);
  g_autoptr (GError) error = NULL;
  g_assert_cmpuint (tl_resume_handle_get_loops (handle), ==, 3);
  g_assert_null (tl_model_begin_resumed (model, handle, two, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_LOOPS_MISMATCH);
  g_assert_nonnull (strstr (error->message, "loops mismatch"));
}

static void
test_handles_count_and_give_back (void)
{
  g_autoptr (TlGenerateConfig) config = config_new (1, NULL), deep = config_new (4, NULL);
  guint64 before = tl_model_get_memory_usage (model);
  {
    g_autoptr (TlResumeHandle) handle = build_handle (100, config);
    g_assert_cmpuint (tl_model_get_memory_usage (model), ==, before + tl_resume_handle_get_size (handle));
    g_autoptr (TlGenerator) half = tl_model_begin_resumed (model, handle, deep, NULL);
    g_assert_cmpint (tl_generator_step (half, NULL, NULL, NULL), !=, TL_STEP_ERROR);
  }
  g_assert_cmpuint (tl_model_get_memory_usage (model), ==, before);

  g_autoptr (TlModel) small = load (100 * 64 * 4);      /* less than the states of 100 rows */
  g_autoptr (GBytes) ids = ids_of (1, 0, 0, 100);
  g_autoptr (GError) error = NULL;
  g_assert_null (tl_model_build_resume_handle_bytes (small, ids, config, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_NO_MEMORY);
}

/* --- disk --- */

static char *
temporary (void)
{
  return g_strdup_printf ("%s.prefix", path);
}

static void
test_saved_and_loaded_is_the_same (void)
{
  static const guint windows[] = { 0, 9, 60 };
  g_autofree char *file = temporary ();
  g_autoptr (TlModel) twin = load (0);
  for (guint i = 0; i < G_N_ELEMENTS (windows); i++)
    for (guint n = 31; n < 250; n += 101) {
      g_autoptr (TlGenerateConfig) config = config_new (2, "temperature", 0.8, "cache-window", windows[i], "kv-mode",
          n == 132 ? TL_KV_PRECISION_FP32 : TL_KV_PRECISION_DEFAULT, "cache-salt", "a\nb", NULL);
      g_autoptr (GError) error = NULL;
      g_autoptr (TlPrefixCache) cache = build (model, 1, n, config);
      g_autoptr (GBytes) all = ids_of (1, 0, 0, n + 5), rest = ids_of (1, 0, n, n + 5);
      g_autoptr (TlGeneration) want = plain (all, config);
      g_assert_true (tl_prefix_cache_save (cache, file, &error));
      g_autoptr (TlPrefixCache) loaded = tl_model_load_prefix_cache (twin, file, &error);
      g_assert_no_error (error);
      g_autoptr (TlGeneration) got = tl_model_generate_from_prefix_cache_bytes (twin, loaded, rest, config, NULL, &error);
      g_assert_no_error (error);
      assert_same (got, want);
      g_assert_cmpuint (cached_of (got), ==, n);

      g_autoptr (GBytes) prompt = ids_of (1, 0, 0, n);
      g_autoptr (TlResumeHandle) handle = build_handle (n, config);
      g_object_set (config, "loops", 4, NULL);
      g_autoptr (TlGeneration) deep = plain (prompt, config);
      g_assert_true (tl_resume_handle_save (handle, file, &error));
      g_autoptr (TlResumeHandle) again = tl_model_load_resume_handle (twin, file, &error);
      g_assert_no_error (error);
      g_autoptr (TlGeneration) resumed = tl_model_resume_generate_bytes (twin, again, config, NULL, &error);
      g_assert_no_error (error);
      assert_same (resumed, deep);
    }
  g_unlink (file);
}

static void
assert_not_loaded (TlModel *m, const char *file, const char *word)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_path_get_basename (file);
  g_assert_null (tl_model_load_prefix_cache (m, file, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
  g_assert_nonnull (strstr (error->message, word));
  g_assert_nonnull (strstr (error->message, name));
}

static void
test_damaged_and_foreign_files_are_refused (void)
{
  TinyModel larger = tiny;
  larger.d_ff = 128;
  g_autofree char *file = temporary (), *foreign = tiny_model_write (&larger);
  g_autoptr (TlModel) other = tl_model_new (foreign);
  g_autoptr (TlPrefixCache) cache = build (model, 1, 40, NULL);
  g_autoptr (TlResumeHandle) handle = build_handle (40, NULL);
  g_autofree char *data = NULL;
  gsize size;
  g_assert_true (tl_model_load (other, NULL, NULL) && tl_prefix_cache_save (cache, file, NULL));
  assert_not_loaded (other, file, "model");
  g_assert_true (g_file_get_contents (file, &data, &size, NULL));
  g_assert_true (g_file_set_contents (file, data, size - 1, NULL));
  assert_not_loaded (model, file, "checksum");
  g_assert_true (g_file_set_contents (file, data, size / 2, NULL));
  assert_not_loaded (model, file, "page");
  data[size / 2] ^= 1;
  g_assert_true (g_file_set_contents (file, data, size, NULL));
  assert_not_loaded (model, file, "damaged");
  g_assert_true (g_file_set_contents (file, "{}", 2, NULL));
  assert_not_loaded (model, file, "no saved prefix");
  g_assert_true (tl_resume_handle_save (handle, file, NULL));
  assert_not_loaded (model, file, "kind");
  assert_not_loaded (model, "/nowhere/prefix", "prefix");
  g_autoptr (GError) error = NULL;
  g_assert_false (tl_prefix_cache_save (cache, "/nowhere/prefix", &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
  g_unlink (file);
  g_unlink (foreign);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  path = tiny_model_write (&tiny);
  model = load (0);
  g_test_add_func ("/prefixes/a-reply-from-a-cache-is-that-of-the-whole-prompt",
      test_a_reply_from_a_cache_is_that_of_the_whole_prompt);
  g_test_add_func ("/prefixes/what-differs-is-named", test_what_differs_is_named);
  g_test_add_func ("/prefixes/a-window-counts-only-once-it-hides-something",
      test_a_window_counts_only_once_it_hides_something);
  g_test_add_func ("/prefixes/a-closed-model-is-closed-for-its-caches", test_a_closed_model_is_closed_for_its_caches);
  g_test_add_func ("/prefixes/the-longest-beginning-wins", test_the_longest_beginning_wins);
  g_test_add_func ("/prefixes/a-prefix-hit-mid-page-with-a-window", test_a_prefix_hit_mid_page_with_a_window);
  g_test_add_func ("/prefixes/salts-do-not-share", test_salts_do_not_share);
  g_test_add_func ("/prefixes/a-pool-that-learns-shares-pages", test_a_pool_that_learns_shares_pages);
  g_test_add_func ("/prefixes/the-least-recently-used-entry-goes", test_the_least_recently_used_entry_goes);
  g_test_add_func ("/prefixes/a-pool-gives-way-to-requests", test_a_pool_gives_way_to_requests);
  g_test_add_func ("/prefixes/threads-share-a-pool", test_threads_share_a_pool);
  g_test_add_func ("/prefixes/a-resumed-prompt-equals-a-deep-one", test_a_resumed_prompt_equals_a_deep_one);
  g_test_add_func ("/prefixes/a-handle-only-goes-deeper", test_a_handle_only_goes_deeper);
  g_test_add_func ("/prefixes/handles-count-and-give-back", test_handles_count_and_give_back);
  g_test_add_func ("/prefixes/saved-and-loaded-is-the-same", test_saved_and_loaded_is_the_same);
  g_test_add_func ("/prefixes/damaged-and-foreign-files-are-refused", test_damaged_and_foreign_files_are_refused);
  int status = g_test_run ();
  g_object_unref (model);
  g_unlink (path);
  g_free (path);
  return status;
}
