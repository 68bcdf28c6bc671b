/* tools/generate.c — `tinyloop generate MODEL`: continues a prompt; text as it comes, or one JSON object at the end. */
#include <math.h>
#include <stdio.h>

#include "options.h"
#include "tool.h"

static void
print_bytes (GBytes *bytes)
{
  if (bytes)
    fwrite (g_bytes_get_data (bytes, NULL), 1, g_bytes_get_size (bytes), stdout);
  g_clear_pointer (&bytes, g_bytes_unref);
  fflush (stdout);
}

static gboolean
stream (TlGenerator *generator, TlTokenizer *tokenizer, gboolean cuts_text, GError **error)
{
  g_autoptr (TlDetokenizer) detokenizer = tokenizer && !cuts_text
      ? tl_detokenizer_new (tokenizer, TL_DETOKENIZER_SKIP_SPECIAL) : NULL;
  for (;;) {
    g_autoptr (TlToken) token = NULL;
    TlStep step = tl_generator_step (generator, &token, NULL, error);
    if (step == TL_STEP_ERROR)
      return FALSE;
    if (step == TL_STEP_END)
      break;
    if (token && detokenizer)
      print_bytes (tl_detokenizer_push_cut (detokenizer, token->id, token->cut));
  }
  if (detokenizer)
    print_bytes (tl_detokenizer_flush (detokenizer));
  return TRUE;
}

/* a number; what has no form in JSON (no probability at all) is null */
static void
append_number (GString *out, const char *key, double value)
{
  if (isfinite (value))
    g_string_append_printf (out, "\"%s\": %.9g", key, value);
  else
    g_string_append_printf (out, "\"%s\": null", key);
}

static void
append_token (GString *out, const TlToken *token)
{
  g_string_append_printf (out, "{\"id\": %d, \"loops\": %u, ", token->id, token->loops);
  append_number (out, "logprob", token->logprob);
  append_number (g_string_append (out, ", "), "entropy", token->entropy);
  g_string_append (out, ", \"top\": [");
  for (guint i = 0; i < tl_token_get_n_alternatives (token); i++) {
    g_string_append_printf (out, "%s{\"id\": %d, ", i ? ", " : "", tl_token_get_alternative_id (token, i));
    append_number (out, "logprob", tl_token_get_alternative_logprob (token, i));
    g_string_append_c (out, '}');
  }
  g_string_append (out, "]}");
}

static void
append_token_stats (GString *out, TlGeneration *result)
{
  g_string_append (out, ", \"token_stats\": [");
  for (guint i = 0; i < tl_generation_get_n_tokens (result); i++) {
    g_autoptr (TlToken) token = tl_generation_get_token (result, i);
    append_token (g_string_append (out, i ? ", " : ""), token);
  }
  g_string_append_c (out, ']');
}

static void
print_json (TlGeneration *result, gboolean token_stats)
{
  TlGenerationFigures f;
  tl_generation_get_figures (result, &f);
  g_autoptr (GString) out = g_string_new ("{\"tokens\": [");
  tool_append_ids (out, tl_generation_get_tokens_bytes (result));
  g_string_append (out, "], \"text\": ");
  if (tl_generation_get_text (result))
    tool_append_json_string (out, tl_generation_get_text (result));
  else
    g_string_append (out, "null");
  g_string_append_printf (out, ", \"finish_reason\": \"%s\", \"timings\": {\"prefill_ms\": %.3f, \"first_token_ms\": %.3f, "
      "\"decode_steady_ms\": %.3f}, \"counters\": {\"prompt_tokens\": %u, \"cached_tokens\": %u, \"tokens_emitted\": %u, "
      "\"loops\": %u, \"loops_run\": %" G_GUINT64_FORMAT ", \"exact\": %s}",
      tl_finish_reason_to_string (tl_generation_get_finish_reason (result)), f.prefill_ms, f.first_token_ms,
      f.decode_steady_ms, f.prompt_tokens, f.cached_tokens, f.tokens_emitted, f.loops, f.loops_run,
      f.exact ? "true" : "false");
  if (token_stats)
    append_token_stats (out, result);
  g_string_append_c (out, '}');
  puts (out->str);
}

static gboolean
set_regex (const ToolOptions *o, const char *regex, GError **error)
{
  g_autoptr (TlGrammar) grammar = regex ? tl_grammar_new_regex (regex, -1, TL_REGEX_NONE, error) : NULL;
  if (regex && !grammar)
    return FALSE;
  g_object_set (o->config, "grammar", grammar, NULL);
  return TRUE;
}

static gboolean
generate (const ToolOptions *o, const char *path, GError **error)
{
  TlGenerateConfig *config = o->config;
  gboolean token_stats;
  g_object_get (config, "token-stats", &token_stats, NULL);
  if (token_stats && !o->json) {
    g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--token-stats is told with --json only");
    return FALSE;
  }
  g_autoptr (TlModel) model = tool_options_load (o, path, error);
  g_autoptr (GBytes) ids = model ? tool_options_ids (o, model, error) : NULL;
  g_autoptr (TlGenerator) generator = ids ? tl_model_begin (model, ids, config, error) : NULL;
  TlTokenizer *tokenizer = generator ? tl_model_get_tokenizer (model) : NULL;
  g_auto (GStrv) stop = NULL;
  g_object_get (config, "stop", &stop, NULL);
  gboolean cuts_text = stop && stop[0];
  if (!generator || !stream (generator, o->json ? NULL : tokenizer, cuts_text, error))
    return FALSE;

  g_autoptr (TlGeneration) result = tl_generator_finish (generator);
  if (o->json) {
    print_json (result, token_stats);
  } else if (!tokenizer) {
    g_autoptr (GString) out = g_string_new (NULL);
    tool_append_ids (out, tl_generation_get_tokens_bytes (result));
    puts (out->str);
  } else {
    puts (cuts_text ? tl_generation_get_text (result) : "");
  }
  return TRUE;
}

int
tool_generate (int argc, char **argv)
{
  ToolOptions o;
  GError *error = NULL;
  char *regex = NULL;
  const GOptionEntry own[] = {
    { "regex", 0, 0, G_OPTION_ARG_STRING, &regex, "what the whole reply must match", "R" }, G_OPTION_ENTRY_NULL
  };
  tool_options_init (&o);
  int status = 2;
  if (tool_options_parse (&o, "MODEL - the continuation of a prompt", TOOL_OPTIONS_MODEL | TOOL_OPTIONS_INPUT, own, &argc, &argv))
    status = set_regex (&o, regex, &error) && generate (&o, argv[1], &error) ? 0 : tool_failed (error);
  tool_options_clear (&o);
  g_free (regex);
  return status;
}
