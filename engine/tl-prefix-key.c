/* engine/tl-prefix-key.c — under which circumstances a computed prefix may be used again. See tl-prefix-private.h. */
#include "tl-prefix-private.h"

static const char *const names[TL_N_KEY_PARTS] = { "model", "arithmetic-version", "loops", "kv-mode", "exact-activations",
  "state-seed", "cache-salt" };

const char *
tl_prefix_key_name (TlKeyPart part)
{
  return names[part];
}

TlPrefixKey *
tl_prefix_key_new (TlModelCore *core, const TlGenerateConfig *config)
{
  const TlDescriptor *d = tl_model_core_program (core)->descriptor;
  TlPrefixKey *key = g_new (TlPrefixKey, 1);
  *key = (TlPrefixKey) { {
    [TL_KEY_MODEL] = g_strdup (d->content_hash ? d->content_hash : ""),
    [TL_KEY_ARITHMETIC] = g_strdup_printf ("%u", d->arithmetic_version),
    [TL_KEY_LOOPS] = g_strdup_printf ("%u", config->loops ? config->loops : MAX (d->loops_default, 1)),
    [TL_KEY_KV_MODE] = g_strdup (tl_kv_mode_name (tl_model_kv_mode (core, config))),
    [TL_KEY_EXACT_ACTIVATIONS] = g_strdup (config->exact_activations ? "true" : "false"),
    [TL_KEY_STATE_SEED] = g_strdup_printf ("%" G_GUINT64_FORMAT, config->state_seed),
    [TL_KEY_SALT] = g_strdup (config->cache_salt ? config->cache_salt : ""),
  } };
  return key;
}

TlPrefixKey *
tl_prefix_key_copy (const TlPrefixKey *key)
{
  TlPrefixKey *copy = g_new (TlPrefixKey, 1);
  for (guint i = 0; i < TL_N_KEY_PARTS; i++)
    copy->parts[i] = g_strdup (key->parts[i]);
  return copy;
}

void
tl_prefix_key_free (TlPrefixKey *key)
{
  for (guint i = 0; i < TL_N_KEY_PARTS; i++)
    g_free (key->parts[i]);
  g_free (key);
}

TlKeyPart
tl_prefix_key_compare (const TlPrefixKey *a, const TlPrefixKey *b)
{
  guint i = 0;
  while (i < TL_N_KEY_PARTS && g_str_equal (a->parts[i], b->parts[i]))
    i++;
  return i;
}

/* the salt is the only part that may hold anything, and it stands last */
char *
tl_prefix_key_to_string (const TlPrefixKey *key)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < TL_N_KEY_PARTS; i++)
    g_string_append_printf (text, "%s\n", key->parts[i]);
  return g_string_free (g_steal_pointer (&text), FALSE);
}
