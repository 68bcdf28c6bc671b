/* engine/tl-prefix.c — a computed prompt under its key: built, measured, and begun from. See tl-prefix-private.h.
 *
 * What prefix caches and resume handles have in common; their files are thin.
 */
#include "tl-prefix-private.h"

gboolean
tl_prefix_build (TlPrefix *out, const char *what, TlModel *model, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error)
{
  g_autoptr (TlGenerateConfig) own = config ? tl_generate_config_copy (config) : tl_generate_config_new ();
  gsize n;
  const guint32 *prompt = tl_ids_from_bytes (ids, &n, error);
  TlBeginning on = { .ids = prompt, .n_ids = n, .n_prompt = n, .ceiling = TRUE };
  own->keep_states = g_str_equal (what, "resume handle");
  g_object_set (own, "grammar", NULL, "stop", NULL, NULL);      /* of replies */
  g_autoptr (TlGenerator) generator = prompt ? tl_model_begin_on (model, &on, own, error) : NULL;
  if (!generator || !tl_generator_prefill (generator, cancellable, error))
    return FALSE;

  TlModelRun *run = tl_generator_source_data (generator);
  *out = (TlPrefix) { what, tl_prefix_key_new (run->core, own), tl_model_run_fork (run) };
  out->run->keep = g_steal_pointer (&run->keep);
  tl_kv_sequence_set_reservation (out->run->sequence, NULL);    /* the request has ended */
  if (out->run->keep)
    tl_kv_sequence_pin (out->run->sequence, TRUE);
  return TRUE;
}

void
tl_prefix_clear (TlPrefix *prefix)
{
  g_clear_pointer (&prefix->key, tl_prefix_key_free);
  g_clear_pointer (&prefix->run, tl_model_run_free);
}

guint
tl_prefix_length (const TlPrefix *prefix)
{
  return tl_kv_sequence_length (prefix->run->sequence);
}

guint
tl_prefix_loops (const TlPrefix *prefix)
{
  return prefix->run->options.loops;
}

guint64
tl_prefix_bytes (const TlPrefix *prefix)
{
  const TlKvSequence *seq = prefix->run->sequence;
  guint n_groups = TL_GROUP_LOOP + tl_kv_sequence_max_depth (seq);
  guint64 bytes = prefix->run->keep ? prefix->run->keep->bytes : 0;
  for (guint g = 0; g < n_groups; g++)
    for (guint s = 0; s * TL_PAGE_POSITIONS < tl_kv_sequence_length (seq); s++) {
      TlPage *page = tl_kv_sequence_page (seq, g, s);
      bytes += page ? tl_page_size (page) : 0;
    }
  return bytes;
}

GBytes *
tl_prefix_dup_tokens (const TlPrefix *prefix)
{
  return g_bytes_new (tl_kv_sequence_tokens (prefix->run->sequence), tl_prefix_length (prefix) * sizeof (guint32));
}

static gboolean
check_loops (const TlPrefix *prefix, guint loops, gboolean deeper, GError **error)
{
  guint own = tl_prefix_loops (prefix);
  if (loops == own)
    return TRUE;
  gboolean of_total = tl_model_core_program (prefix->run->core)->descriptor->cond_depends_on_total;
  if (deeper && loops > own && !of_total)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_LOOPS_MISMATCH, "loops mismatch: the %s was built with %u loops, %u are asked for;"
      " build another%s", prefix->what, own, loops, !deeper ? " or ask for the same"
      : of_total ? ", because each loop of this model depends on how many there are" : ", a handle only goes deeper");
  return FALSE;
}

static gboolean
check_window (const TlPrefix *prefix, guint window, GError **error)
{
  guint own = tl_kv_sequence_window (prefix->run->sequence), n = tl_prefix_length (prefix);
  if (own == window || ((own == 0 || n <= own) && (window == 0 || n <= window)))
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "cache-window differs: the %s of %u tokens was built with %u, %u is"
      " asked for; build another or ask for the same", prefix->what, n, own, window);
  return FALSE;
}

TlGenerateConfig *
tl_prefix_config (const TlPrefix *prefix, TlModel *model, TlGenerateConfig *config, gboolean deeper, GError **error)
{
  g_autoptr (TlGenerateConfig) own = config ? tl_generate_config_copy (config) : tl_generate_config_new ();
  g_autoptr (TlModelCore) core = tl_model_get_core (model, error);
  if (!core)
    return NULL;
  if (core != prefix->run->core) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "model differs: the %s belongs to another model object; save it"
        " and load it with this one", prefix->what);
    return NULL;
  }
  if (own->loops == 0)
    own->loops = tl_prefix_loops (prefix);
  if (own->kv_mode == TL_KV_PRECISION_DEFAULT)
    tl_model_set_kv_mode (own, tl_kv_sequence_mode (prefix->run->sequence));
  if (!check_loops (prefix, own->loops, deeper, error) || !check_window (prefix, own->cache_window, error))
    return NULL;

  g_autoptr (TlPrefixKey) key = tl_prefix_key_new (core, own);
  g_free (key->parts[TL_KEY_LOOPS]);
  key->parts[TL_KEY_LOOPS] = g_strdup (prefix->key->parts[TL_KEY_LOOPS]);
  TlKeyPart part = tl_prefix_key_compare (prefix->key, key);
  if (part < TL_N_KEY_PARTS) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "%s differs: the %s was built with '%s', '%s' is asked for; build"
        " another or ask for the same", tl_prefix_key_name (part), prefix->what, prefix->key->parts[part], key->parts[part]);
    return NULL;
  }
  return g_steal_pointer (&own);
}

TlGenerator *
tl_prefix_begin (const TlPrefix *prefix, TlModel *model, GBytes *suffix, gboolean deeper, TlGenerateConfig *config,
    GError **error)
{
  g_autoptr (TlGenerateConfig) own = tl_prefix_config (prefix, model, config, deeper, error);
  if (!own)
    return NULL;
  gsize n_suffix = 0;
  const guint32 *more = suffix ? tl_ids_from_bytes (suffix, &n_suffix, error) : NULL;
  if (suffix && !more)
    return NULL;

  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_vals (ids, tl_kv_sequence_tokens (prefix->run->sequence), tl_prefix_length (prefix));
  g_array_append_vals (ids, more, n_suffix);
  TlBeginning on = { .ids = (guint32 *) ids->data, .n_ids = ids->len, .n_prompt = ids->len, .base = prefix->run };
  if (own->loops > tl_prefix_loops (prefix))
    on.resume = prefix->run->keep;
  return tl_model_begin_on (model, &on, own, error);
}
