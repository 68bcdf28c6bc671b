/* tools/generate.c — `tinyloop generate MODEL`: a prompt's continuation, shown as it is decoded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "text/tl-detokenizer.h"
#include "tl-model.h"
#include "tool.h"

/* "1,2,3" to native int32 ids */
GBytes *
tool_parse_ids (const char *text, GError **error)
{
  g_auto (GStrv) parts = g_strsplit_set (text, ", ", -1);
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (char **p = parts; *p; p++)
    {
      gint64 n;
      if (**p == '\0')
        continue;
      if (!g_ascii_string_to_signed (*p, 10, 0, G_MAXINT32, &n, NULL))
        {
          g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: '%s' is no token id", *p);
          return NULL;
        }
      gint32 id = n;
      g_array_append_val (ids, id);
    }
  return g_bytes_new (ids->data, ids->len * sizeof (gint32));
}

static GBytes *
prompt_ids (TlModel *model, const char *prompt, const char *tokens, gboolean special, GError **error)
{
  TlTokenizer *tokenizer = tl_model_get_tokenizer (model);
  if (tokens)
    return tool_parse_ids (tokens, error);
  if (!tokenizer)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s has no tokenizer; give ids with --tokens",
          tl_model_get_path (model));
      return NULL;
    }
  g_autoptr (GBytes) text = g_bytes_new (prompt, strlen (prompt));
  return tl_tokenizer_encode_bytes (tokenizer, text, special ? TL_ENCODE_SPECIAL : TL_ENCODE_NONE, error);
}

static void
show (GBytes *text)
{
  gsize n;
  const char *data = g_bytes_get_data (text, &n);
  fwrite (data, 1, n, stdout);
  fflush (stdout);
  g_bytes_unref (text);
}

/* runs to the end; text appears as it becomes final unless `quiet` */
static gboolean
run (TlGenerator *generator, TlTokenizer *tokenizer, gboolean quiet, GError **error)
{
  g_autoptr (TlDetokenizer) text = tokenizer && !quiet ? tl_detokenizer_new (tokenizer, TL_DETOKENIZER_SKIP_SPECIAL) : NULL;
  for (;;)
    {
      g_autoptr (TlToken) token = NULL;
      TlStep step = tl_generator_step (generator, &token, NULL, error);
      if (step == TL_STEP_ERROR)
        return FALSE;
      if (step == TL_STEP_TOKEN && text)
        show (tl_detokenizer_push (text, token->id));
      else if (step == TL_STEP_TOKEN && !quiet)
        {
          printf ("%d ", token->id);
          fflush (stdout);
        }
      if (step == TL_STEP_END)
        break;
    }
  if (text)
    show (tl_detokenizer_flush (text));
  if (!quiet)
    putchar ('\n');
  return TRUE;
}

static void
print_json (TlGeneration *generation)
{
  TlGenerationFigures f;
  GBytes *ids = tl_generation_get_tokens_bytes (generation);
  g_autoptr (JsonBuilder) b = json_builder_new ();
  gsize size;
  const gint32 *id = g_bytes_get_data (ids, &size);
  tl_generation_get_figures (generation, &f);

  json_builder_begin_object (b);
  json_builder_set_member_name (b, "tokens");
  json_builder_begin_array (b);
  for (gsize i = 0; i < size / sizeof (gint32); i++)
    json_builder_add_int_value (b, id[i]);
  json_builder_end_array (b);
  json_builder_set_member_name (b, "text");
  if (tl_generation_get_text (generation))
    json_builder_add_string_value (b, tl_generation_get_text (generation));
  else
    json_builder_add_null_value (b);
  json_builder_set_member_name (b, "finish_reason");
  json_builder_add_string_value (b, tl_finish_reason_to_string (tl_generation_get_finish_reason (generation)));
  json_builder_set_member_name (b, "timings");
  json_builder_begin_object (b);
  const struct { const char *name; double ms; } times[] = {
    { "prefill_ms", f.prefill_ms }, { "first_token_ms", f.first_token_ms }, { "decode_steady_ms", f.decode_steady_ms },
  };
  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      json_builder_set_member_name (b, times[i].name);
      json_builder_add_double_value (b, times[i].ms);
    }
  json_builder_end_object (b);
  json_builder_set_member_name (b, "counters");
  json_builder_begin_object (b);
  const struct { const char *name; gint64 n; } counters[] = {
    { "prompt_tokens", f.prompt_tokens }, { "cached_tokens", f.cached_tokens }, { "tokens_emitted", f.tokens_emitted },
    { "loops", f.loops }, { "loops_run", f.loops_run },
  };
  for (guint i = 0; i < G_N_ELEMENTS (counters); i++)
    {
      json_builder_set_member_name (b, counters[i].name);
      json_builder_add_int_value (b, counters[i].n);
    }
  json_builder_set_member_name (b, "exact");
  json_builder_add_boolean_value (b, f.exact);
  json_builder_end_object (b);
  json_builder_end_object (b);
  g_autoptr (JsonNode) root = json_builder_get_root (b);
  g_autofree char *text = json_to_string (root, FALSE);
  puts (text);
}

static gboolean
generate (const char *path, const char *prompt, const char *tokens, gboolean special, gboolean json, TlGenerateConfig *config,
    GError **error)
{
  g_autoptr (TlModel) model = tl_model_new (path);
  if (!tl_model_load (model, NULL, error))
    return FALSE;
  g_autoptr (GBytes) ids = prompt_ids (model, prompt, tokens, special, error);
  g_autoptr (TlGenerator) generator = ids ? tl_model_begin (model, ids, config, error) : NULL;
  if (!generator || !run (generator, tl_model_get_tokenizer (model), json, error))
    return FALSE;
  g_autoptr (TlGeneration) generation = tl_generator_finish (generator);
  if (json)
    print_json (generation);
  return TRUE;
}

int
tool_generate (int argc, char **argv)
{
  g_autofree char *prompt = NULL, *tokens = NULL;
  gboolean special = FALSE, json = FALSE;
  GError *error = NULL;
  g_autoptr (TlGenerateConfig) config = tl_generate_config_new ();
  const GOptionEntry entries[] = {
    { "prompt", 0, 0, G_OPTION_ARG_STRING, &prompt, "the text to continue", "TEXT" },
    { "tokens", 0, 0, G_OPTION_ARG_STRING, &tokens, "the ids to continue, instead of a text", "1,2,3" },
    { "special", 0, 0, G_OPTION_ARG_NONE, &special, "special tokens in the text are recognised", NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "the result as one JSON object", NULL },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("MODEL");
  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_add_group (context, tool_config_options (config));
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      tool_failed (error);
      return 2;
    }
  if (argc != 2 || !prompt == !tokens)
    {
      fputs ("tinyloop: one MODEL and either --prompt or --tokens are expected; see 'tinyloop generate --help'\n", stderr);
      return 2;
    }
  return generate (argv[1], prompt, tokens, special, json, config, &error) ? 0 : tool_failed (error);
}
