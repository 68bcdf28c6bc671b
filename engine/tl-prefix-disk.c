/* engine/tl-prefix-disk.c — prefix caches and resume handles saved to files and loaded from them.
 *
 * The key of tl-prefix-key.c is written as lines "name=value", the salt last, and must be this model's again.
 */
#include <string.h>

#include "cache/tl-prefix-file.h"
#include "tl-prefix-private.h"

static char *
key_text (const TlPrefixKey *key)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < TL_N_KEY_PARTS; i++)
    g_string_append_printf (text, "%s%s=%s", i ? "\n" : "", tl_prefix_key_name (i), key->parts[i]);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
read_row (gpointer data, guint i, float *out)
{
  tl_kept_rows_read (data, i, out);
}

gboolean
tl_prefix_save (const TlPrefix *prefix, const char *path, GError **error)
{
  TlKeptRows *kept = prefix->run->keep;
  if (!*prefix->key->parts[TL_KEY_MODEL] || (kept && !kept->states)) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "%s: the %s cannot be saved: %s", path, prefix->what,
        kept && !kept->states ? "no row states are kept where all is computed again"
        : "the checkpoint has no content hash; convert it again");
    return FALSE;
  }
  g_autofree char *key = key_text (prefix->key);
  return tl_prefix_file_write (path, kept != NULL, key, prefix->run->sequence,
      kept ? tl_kept_rows_width (prefix->run->backend) : 0, read_row, kept, error);
}

static gboolean
refuse (const TlPrefixFile *file, GError **error, const char *field, const char *theirs, const char *ours)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: %s: saved for '%s', this is '%s'; build it with this model", file->name,
      field, theirs, ours);
  return FALSE;
}

/* the configuration a key was made of; the key made of it again must be the same */
static TlGenerateConfig *
config_of (const TlPrefixFile *file, TlModelCore *core, GError **error)
{
  g_auto (GStrv) lines = g_strsplit (file->key, "\n", TL_N_KEY_PARTS);
  const char *values[TL_N_KEY_PARTS];
  for (guint i = 0; i < TL_N_KEY_PARTS; i++) {
    const char *name = tl_prefix_key_name (i);
    if (g_strv_length (lines) != TL_N_KEY_PARTS || !g_str_has_prefix (lines[i], name) || lines[i][strlen (name)] != '=') {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: key: line %u is not '%s=…'", file->name, i + 1, name);
      return NULL;
    }
    values[i] = lines[i] + strlen (name) + 1;
  }

  g_autoptr (TlGenerateConfig) config = tl_generate_config_new ();
  g_autoptr (GEnumClass) modes = g_type_class_ref (TL_TYPE_KV_PRECISION);
  const GEnumValue *mode = g_enum_get_value_by_nick (modes, values[TL_KEY_KV_MODE]);
  g_object_set (config, "loops", file->head.loops, "kv-mode", mode ? mode->value : TL_KV_PRECISION_DEFAULT, "cache-window",
      file->head.window, "exact-activations", g_str_equal (values[TL_KEY_EXACT_ACTIVATIONS], "true"), "state-seed",
      g_ascii_strtoull (values[TL_KEY_STATE_SEED], NULL, 10), "cache-salt", values[TL_KEY_SALT], NULL);
  g_autoptr (TlPrefixKey) ours = tl_prefix_key_new (core, config);
  for (guint i = 0; i < TL_N_KEY_PARTS; i++)
    if (!g_str_equal (ours->parts[i], values[i])) {
      refuse (file, error, tl_prefix_key_name (i), values[i], ours->parts[i]);
      return NULL;
    }
  return g_steal_pointer (&config);
}

static gboolean
restore (const TlPrefixFile *file, TlModelRun *run, GError **error)
{
  guint width = file->head.kind ? tl_kept_rows_width (run->backend) : 0;
  if (file->head.row_width != width) {
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: row width: is %u, expected %u", file->name, file->head.row_width,
        width);
    return FALSE;
  }
  tl_scheduler_lock (run->scheduler);
  gboolean ok = tl_prefix_file_restore (file, run->sequence, error);
  tl_scheduler_unlock (run->scheduler);
  if (!ok || width == 0)
    return ok;

  tl_kv_sequence_pin (run->sequence, TRUE);
  if (!(run->keep = tl_kept_rows_new (run, 0, file->head.n_tokens, run->options.loops, error)))
    return FALSE;
  g_autofree float *row = g_new (float, width);
  for (guint i = 0; run->keep->states && i < file->head.n_tokens; i++) {
    memcpy (row, file->rows + (gsize) i * width * sizeof (float), width * sizeof (float));
    tl_kept_rows_write (run->keep, i, row);
  }
  return TRUE;
}

gboolean
tl_prefix_load (TlPrefix *out, const char *what, TlModel *model, const char *path, GError **error)
{
  g_autoptr (TlModelCore) core = tl_model_get_core (model, error);
  g_autoptr (TlPrefixFile) file = core ? tl_prefix_file_read (path, error) : NULL;
  if (!file)
    return FALSE;
  gboolean handle = g_str_equal (what, "resume handle");
  if (file->head.kind != (guint32) handle)
    return refuse (file, error, "kind", file->head.kind ? "resume handle" : "prefix cache", what);
  g_autoptr (TlGenerateConfig) config = config_of (file, core, error);
  if (!config)
    return FALSE;
  config->keep_states = handle;
  if (file->head.n_tokens >= tl_model_get_max_seq_len (model)) {
    g_set_error (error, TL_ERROR, TL_ERROR_SEQUENCE_TOO_LONG, "%s: tokens: %u leave no room in max_seq_len %u", file->name,
        file->head.n_tokens, tl_model_get_max_seq_len (model));
    return FALSE;
  }
  g_autoptr (TlModelRun) run = tl_model_run_new (core, NULL, 0, config, file->head.n_tokens, error);
  if (!run || !restore (file, run, error))
    return FALSE;
  *out = (TlPrefix) { what, tl_prefix_key_new (core, config), g_steal_pointer (&run) };
  return TRUE;
}
