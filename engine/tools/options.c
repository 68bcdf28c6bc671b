/* tools/options.c — options that sub-commands share, as tables of GOption entries. */
#include "options.h"

#include <stdio.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "tool.h"

void
tool_options_init (ToolOptions *o)
{
  *o = (ToolOptions) { .config = tl_generate_config_new () };
}

void
tool_options_clear (ToolOptions *o)
{
  g_free (o->device);
  g_free (o->prompt);
  g_free (o->system);
  g_free (o->tokens);
  g_strfreev (o->stop_sequences);
  g_object_unref (o->config);
}

static gboolean
check_options (const ToolOptions *o, ToolOptionSets sets, GError **error)
{
  const char *wrong = !(sets & TOOL_OPTIONS_INPUT) ? NULL
      : !o->prompt == !o->tokens ? "give either --prompt TEXT or --tokens 1,2,3"
      : o->tokens && (o->raw || o->system || o->special) ? "--raw, --system and --special belong to --prompt, not to --tokens"
      : o->raw && o->system ? "--system needs the template that --raw switches off"
      : o->special && !o->raw ? "--special belongs to --raw: a rendered prompt is plain text" : NULL;
  if (wrong) {
    g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED, wrong);
    return FALSE;
  }
  return tool_check_not_negative ("threads", o->threads, error)
      && tool_check_not_negative ("max-seq-len", o->max_seq_len, error)
      && tool_check_not_negative ("max-cache-bytes", o->max_cache_bytes, error)
      && tl_generate_config_validate (o->config, error);
}

static gboolean
add_stop_sequences (ToolOptions *o, GError **error)
{
  for (char **s = o->stop_sequences; s && *s; s++) {
    g_autoptr (GBytes) ids = tool_parse_ids (*s, error);
    if (!ids)
      return FALSE;
    tl_generate_config_add_stop_sequence (o->config, ids);
  }
  return TRUE;
}

gboolean
tool_options_parse (ToolOptions *o, const char *usage, ToolOptionSets sets, const GOptionEntry *own, int *argc,
    char ***argv)
{
  const GOptionEntry model[] = {
    { "device", 0, 0, G_OPTION_ARG_STRING, &o->device, "cpu (default), reference or cuda", "D" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &o->threads, "threads, 0 = all that are allowed", "N" },
    { "max-seq-len", 0, 0, G_OPTION_ARG_INT, &o->max_seq_len, "positions at most, 0 = the checkpoint's", "N" },
    { "max-cache-bytes", 0, 0, G_OPTION_ARG_INT64, &o->max_cache_bytes, "bytes of keys and values at most", "N" },
    TOOL_OPTION_JSON (o->json),
    G_OPTION_ENTRY_NULL };
  const GOptionEntry input[] = {
    { "prompt", 0, 0, G_OPTION_ARG_STRING, &o->prompt, "text, rendered with the model's chat template if it has one", "TEXT" },
    { "system", 0, 0, G_OPTION_ARG_STRING, &o->system, "the template's system message", "TEXT" },
    { "tokens", 0, 0, G_OPTION_ARG_STRING, &o->tokens, "token ids to begin with", "1,2,3" },
    { "special", 0, 0, G_OPTION_ARG_NONE, &o->special, "special tokens in a raw prompt are recognised", NULL },
    { "stop-sequences", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->stop_sequences, "ids that end the reply (repeatable)", "1,2" },
    { "raw", 0, 0, G_OPTION_ARG_NONE, &o->raw, "take the prompt as it is, without the model's template", NULL },
    G_OPTION_ENTRY_NULL };
  const GOptionEntry *tables[] = { sets & TOOL_OPTIONS_MODEL ? model : NULL, sets & TOOL_OPTIONS_INPUT ? input : NULL, own };
  g_autoptr (GArray) all = g_array_new (TRUE, TRUE, sizeof (GOptionEntry));
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    for (const GOptionEntry *e = tables[i]; e && e->long_name; e++)
      g_array_append_val (all, *e);

  GError *error = NULL;
  if (!tool_parse (usage, (const GOptionEntry *) (void *) all->data, tool_config_options (o->config), argc, argv))
    return FALSE;
  if (check_options (o, sets, &error) && add_stop_sequences (o, &error))
    return TRUE;
  tool_bad_usage (error);
  return FALSE;
}

TlModel *
tool_options_load (const ToolOptions *o, const char *path, GError **error)
{
  g_autoptr (TlModel) model = g_object_new (TL_TYPE_MODEL, "path", path, "device", o->device ? o->device : "cpu",
      "threads", (guint) MIN (o->threads, 4096), "max-seq-len", (guint) o->max_seq_len,
      "max-cache-bytes", (guint64) o->max_cache_bytes, NULL);
  return tl_model_load (model, NULL, error) ? g_steal_pointer (&model) : NULL;
}

GBytes *
tool_parse_ids (const char *text, GError **error)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  const char *at = text;
  for (;;) {
    at += strspn (at, ", \t\r\n[]");
    if (!*at)
      break;
    char *end;
    gint64 value = g_ascii_strtoll (at, &end, 10);
    if (end == at || value < 0 || value > G_MAXINT32) {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "'%.*s' is no token id; write ids as 1,2,3",
          (int) MIN (strcspn (at, ", \t\r\n[]"), 20), at);
      return NULL;
    }
    gint32 id = value;
    g_array_append_val (ids, id);
    at = end;
  }
  return g_bytes_new (ids->data, ids->len * sizeof (gint32));
}

GBytes *
tool_options_ids (const ToolOptions *o, TlModel *model, GError **error)
{
  TlTokenizer *tokenizer = tl_model_get_tokenizer (model);
  if (o->tokens)
    return tool_parse_ids (o->tokens, error);
  if (!tokenizer) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "%s has no tokenizer; use --tokens", tl_model_get_path (model));
    return NULL;
  }
  if (!o->raw && tl_tokenizer_has_chat (tokenizer))
    return tl_tokenizer_encode_chat_bytes (tokenizer, o->system, o->prompt, error);
  if (o->system) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "%s has no chat template that could hold --system; write it into the "
        "prompt", tl_model_get_path (model));
    return NULL;
  }
  g_autoptr (GBytes) text = g_bytes_new (o->prompt, strlen (o->prompt));
  return tl_tokenizer_encode_bytes (tokenizer, text, (o->special ? TL_ENCODE_SPECIAL : 0) | TL_ENCODE_ADD_BOS, error);
}

void
tool_append_ids (GString *out, GBytes *ids)
{
  gsize size;
  const gint32 *values = g_bytes_get_data (ids, &size);
  for (gsize i = 0; i < size / sizeof (gint32); i++)
    g_string_append_printf (out, "%s%d", i ? "," : "", values[i]);
}

void
tool_append_json_string (GString *out, const char *text)
{
  g_autoptr (JsonNode) node = json_node_init_string (json_node_alloc (), text);
  g_autofree char *quoted = json_to_string (node, FALSE);
  g_string_append (out, quoted);
}
