/* tools/score.c — `tinyloop score MODEL`: logits of given ids, as a safetensors file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "tool.h"

/* one float32 tensor named @name */
static gboolean
write_safetensors (const char *path, const char *name, TlTensor *t, GError **error)
{
  g_autoptr (GString) header = g_string_new (NULL);
  gsize n = 1;
  g_string_append_printf (header, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[", name);
  for (guint i = 0; i < tl_tensor_get_n_dims (t); i++) {
    n *= tl_tensor_get_dim (t, i);
    g_string_append_printf (header, "%s%" G_GUINT64_FORMAT, i ? "," : "", tl_tensor_get_dim (t, i));
  }
  g_string_append_printf (header, "],\"data_offsets\":[0,%" G_GSIZE_FORMAT "]}}", n * sizeof (float));
  while (header->len % 8)
    g_string_append_c (header, ' ');

  guint64 length = GUINT64_TO_LE (header->len);
  FILE *f = fopen (path, "wb");
  gboolean ok = f && fwrite (&length, 8, 1, f) == 1 && fwrite (header->str, header->len, 1, f) == 1
      && fwrite (tl_tensor_get_data (t), sizeof (float), n, f) == n;
  if (f && fclose (f) != 0)
    ok = FALSE;
  if (!ok)
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: cannot be written; check the folder and the space left", path);
  return ok;
}

/* the likeliest next id at the last position */
static void
print_summary (TlTensor *t, const char *what, const char *output, gboolean json)
{
  guint n_dims = tl_tensor_get_n_dims (t);
  guint64 vocab = tl_tensor_get_dim (t, n_dims - 1), rows = n_dims == 2 ? tl_tensor_get_dim (t, 0) : 1;
  const float *last = tl_tensor_get_data (t) + (rows - 1) * vocab;
  guint64 best = 0;
  for (guint64 i = 1; i < vocab; i++)
    if (last[i] > last[best])
      best = i;
  g_autoptr (GString) out = g_string_new (NULL);
  if (json) {
    g_string_append_printf (out, "{\"what\": \"%s\", \"rows\": %" G_GUINT64_FORMAT ", \"vocab\": %" G_GUINT64_FORMAT
        ", \"argmax_last\": %" G_GUINT64_FORMAT ", \"output\": ", what, rows, vocab, best);
    if (output)
      tool_append_json_string (out, output);
    else
      g_string_append (out, "null");
    g_string_append_c (out, '}');
  } else {
    g_string_append_printf (out, "%s: %" G_GUINT64_FORMAT " rows of %" G_GUINT64_FORMAT "; likeliest next id %"
        G_GUINT64_FORMAT " (%g)", what, rows, vocab, best, last[best]);
  }
  puts (out->str);
}

static gboolean
score (const ToolOptions *o, const char *path, const char *what, const char *output, GError **error)
{
  gboolean last = g_str_equal (what, "last");
  if (!last && !g_str_equal (what, "logits")) {
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--what '%s' is not one of logits, last", what);
    return FALSE;
  }
  TlGenerateConfig *config = o->config;
  g_autoptr (TlModel) model = tool_options_load (o, path, error);
  g_autoptr (GBytes) ids = model ? tool_options_ids (o, model, error) : NULL;
  if (!ids)
    return FALSE;
  g_autoptr (TlTensor) t = last ? tl_model_score_last_bytes (model, ids, config, NULL, error)
      : tl_model_score_bytes (model, ids, config, NULL, error);
  if (!t || (output && !write_safetensors (output, what, t, error)))
    return FALSE;
  print_summary (t, what, output, o->json);
  return TRUE;
}

int
tool_score (int argc, char **argv)
{
  ToolOptions o;
  GError *error = NULL;
  g_autofree char *what = g_strdup ("logits"), *output = NULL;
  const GOptionEntry own[] = {
    { "what", 0, 0, G_OPTION_ARG_STRING, &what, "logits (default) or last", "W" },
    { "output", 0, 0, G_OPTION_ARG_FILENAME, &output, "safetensors file to write", "F" },
    G_OPTION_ENTRY_NULL };
  tool_options_init (&o);
  int status = 2;
  if (tool_options_parse (&o, "MODEL - logits of given ids", TOOL_OPTIONS_MODEL | TOOL_OPTIONS_INPUT, own, &argc, &argv))
    status = score (&o, argv[1], what, output, &error) ? 0 : tool_failed (error);
  tool_options_clear (&o);
  return status;
}
