/* tools/score.c — `tinyloop score MODEL`: what is known about given ids, as a safetensors file. */
#include <stdio.h>

#include "options.h"
#include "tool.h"

typedef TlTensor *(*ScoreOne) (TlModel *, GBytes *, TlGenerateConfig *, GCancellable *, GError **);
typedef TlScores *(*ScoreMany) (TlModel *, GBytes *, TlGenerateConfig *, GCancellable *, GError **);

typedef char *(*Draw) (TlTensor *, GBytes *, TlTokenizer *, GError **);

/* what --what takes; one: a single tensor, named after it; drawn: the tensor that `draw` takes */
static const struct { const char *what; ScoreOne one; ScoreMany many; const char *drawn; Draw draw; } kinds[] = {
  { "logits", tl_model_score_bytes },
  { "last", tl_model_score_last_bytes },
  { "logit-lens", tl_model_score_logit_lens_bytes, NULL, "logit-lens", tl_draw_logit_lens },
  { "trajectory", tl_model_score_trajectory_bytes },
  { "uncertainty", NULL, tl_model_score_with_uncertainty_bytes, "kl", tl_draw_uncertainty },
  { "consistency", NULL, tl_model_score_with_consistency_bytes },
};

typedef struct { const char *name; TlTensor *tensor; } Named;

static void
named_clear (gpointer data)
{
  g_clear_pointer (&((Named *) data)->tensor, tl_tensor_unref);
}

/* of Named; NULL and error when scoring fails */
static GArray *
run (TlModel *model, GBytes *ids, TlGenerateConfig *config, guint kind, GError **error)
{
  g_autoptr (TlScores) many = kinds[kind].many ? kinds[kind].many (model, ids, config, NULL, error) : NULL;
  TlTensor *one = kinds[kind].one ? kinds[kind].one (model, ids, config, NULL, error) : NULL;
  if (!many && !one)
    return NULL;
  GArray *out = g_array_new (FALSE, FALSE, sizeof (Named));
  g_array_set_clear_func (out, named_clear);
  if (one)
    g_array_append_val (out, ((Named) { kinds[kind].what, one }));
  for (guint i = 0; many && i < tl_scores_get_n (many); i++)
    g_array_append_val (out, ((Named) { tl_scores_get_name (many, i), tl_scores_get_tensor (many, i) }));
  return out;
}

/* "[2, 3]" */
static void
append_shape (GString *out, TlTensor *t)
{
  g_string_append_c (out, '[');
  for (guint i = 0; i < tl_tensor_get_n_dims (t); i++)
    g_string_append_printf (out, "%s%" G_GUINT64_FORMAT, i ? ", " : "", tl_tensor_get_dim (t, i));
  g_string_append_c (out, ']');
}

static const char *
safetensors_dtype (TlTensor *t)
{
  const char *dtype = tl_tensor_get_dtype (t);
  return g_str_equal (dtype, "int32") ? "I32" : g_str_equal (dtype, "bool") ? "BOOL" : "F32";
}

static gboolean
write_safetensors (const char *path, GArray *tensors, GError **error)
{
  g_autoptr (GString) header = g_string_new ("{");
  guint64 at = 0;
  for (guint i = 0; i < tensors->len; i++) {
    const Named *t = &g_array_index (tensors, Named, i);
    guint64 end = at + tl_tensor_get_n_bytes (t->tensor);
    g_string_append_printf (header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":", i ? "," : "", t->name,
        safetensors_dtype (t->tensor));
    append_shape (header, t->tensor);
    g_string_append_printf (header, ",\"data_offsets\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]}", at, end);
    at = end;
  }
  g_string_append_c (header, '}');
  while (header->len % 8)
    g_string_append_c (header, ' ');

  guint64 length = GUINT64_TO_LE (header->len);
  FILE *f = fopen (path, "wb");
  gboolean ok = f && fwrite (&length, 8, 1, f) == 1 && fwrite (header->str, header->len, 1, f) == 1;
  for (guint i = 0; ok && i < tensors->len; i++) {
    TlTensor *t = g_array_index (tensors, Named, i).tensor;
    ok = fwrite (tl_tensor_get_data (t), 1, tl_tensor_get_n_bytes (t), f) == tl_tensor_get_n_bytes (t);
  }
  if (f && fclose (f) != 0)
    ok = FALSE;
  if (!ok)
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: cannot be written; check the folder and the space left", path);
  return ok;
}

/* the likeliest next id at the last position; a trajectory has none (-1) */
static gint64
likeliest (const char *what, TlTensor *first)
{
  if (g_str_equal (what, "trajectory"))
    return -1;
  guint64 vocab = tl_tensor_get_dim (first, tl_tensor_get_n_dims (first) - 1), best = 0;
  const float *data = tl_tensor_get_data (first), *last = data + tl_tensor_get_n_bytes (first) / sizeof (float) - vocab;
  for (guint64 i = 1; i < vocab; i++)
    if (last[i] > last[best])
      best = i;
  return best;
}

static void
print_json (const char *what, GArray *tensors, const char *output)
{
  TlTensor *first = g_array_index (tensors, Named, 0).tensor;
  guint n_dims = tl_tensor_get_n_dims (first);
  gint64 best = likeliest (what, first);
  g_autoptr (GString) out = g_string_new (NULL);
  g_string_append_printf (out, "{\"what\": \"%s\", \"rows\": %" G_GUINT64_FORMAT, what,
      n_dims > 1 ? tl_tensor_get_dim (first, n_dims - 2) : 1);
  if (best >= 0)
    g_string_append_printf (out, ", \"vocab\": %" G_GUINT64_FORMAT ", \"argmax_last\": %" G_GINT64_FORMAT,
        tl_tensor_get_dim (first, n_dims - 1), best);
  g_string_append (out, ", \"tensors\": {");
  for (guint i = 0; i < tensors->len; i++) {
    const Named *t = &g_array_index (tensors, Named, i);
    g_string_append_printf (out, "%s\"%s\": ", i ? ", " : "", t->name);
    append_shape (out, t->tensor);
  }
  g_string_append (out, "}, \"output\": ");
  if (output)
    tool_append_json_string (out, output);
  else
    g_string_append (out, "null");
  g_string_append_c (out, '}');
  puts (out->str);
}

static void
print_text (const char *what, GArray *tensors)
{
  gint64 best = likeliest (what, g_array_index (tensors, Named, 0).tensor);
  g_autoptr (GString) out = g_string_new (NULL);
  for (guint i = 0; i < tensors->len; i++) {
    const Named *t = &g_array_index (tensors, Named, i);
    g_string_append_printf (out, "%s%s ", i ? ", " : "", t->name);
    append_shape (out, t->tensor);
  }
  if (best >= 0)
    g_string_append_printf (out, "; likeliest next id %" G_GINT64_FORMAT, best);
  puts (out->str);
}

/* index into kinds, or -1 and error */
static int
kind_of (const char *what, GError **error)
{
  g_autoptr (GString) known = g_string_new (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    if (g_str_equal (what, kinds[i].what))
      return i;
    g_string_append_printf (known, "%s%s", i ? ", " : "", kinds[i].what);
  }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--what '%s' is not one of %s", what, known->str);
  return -1;
}

static gboolean
check_drawing (guint kind, const char *svg, GError **error)
{
  if (!svg || kinds[kind].draw)
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--svg draws --what logit-lens or uncertainty, not %s",
      kinds[kind].what);
  return FALSE;
}

static gboolean
draw (const char *path, guint kind, GArray *tensors, GBytes *ids, TlTokenizer *tokenizer, GError **error)
{
  g_autofree char *drawing = NULL;
  for (guint i = 0; i < tensors->len; i++) {
    const Named *t = &g_array_index (tensors, Named, i);
    if (g_str_equal (t->name, kinds[kind].drawn))
      drawing = kinds[kind].draw (t->tensor, ids, tokenizer, error);
  }
  return drawing && g_file_set_contents (path, drawing, -1, error);
}

static gboolean
score (const ToolOptions *o, const char *path, const char *what, const char *output, const char *svg, GError **error)
{
  int kind = kind_of (what, error);
  gboolean sane = kind >= 0 && check_drawing (kind, svg, error);
  g_autoptr (TlModel) model = sane ? tool_options_load (o, path, error) : NULL;
  g_autoptr (GBytes) ids = model ? tool_options_ids (o, model, error) : NULL;
  g_autoptr (GArray) tensors = ids ? run (model, ids, o->config, kind, error) : NULL;
  if (!tensors || (output && !write_safetensors (output, tensors, error))
      || (svg && !draw (svg, kind, tensors, ids, tl_model_get_tokenizer (model), error)))
    return FALSE;
  if (o->json)
    print_json (what, tensors, output);
  else
    print_text (what, tensors);
  return TRUE;
}

int
tool_score (int argc, char **argv)
{
  ToolOptions o;
  GError *error = NULL;
  g_autofree char *what = NULL, *output = NULL, *svg = NULL;
  const GOptionEntry own[] = {
    { "what", 0, 0, G_OPTION_ARG_STRING, &what,
        "logits (default), last, logit-lens, trajectory, uncertainty or consistency", "W" },
    { "output", 0, 0, G_OPTION_ARG_FILENAME, &output, "safetensors file to write", "F" },
    { "svg", 0, 0, G_OPTION_ARG_FILENAME, &svg, "draw a logit-lens or uncertainty", "F.svg" },
    G_OPTION_ENTRY_NULL };
  tool_options_init (&o);
  int status = 2;
  if (tool_options_parse (&o, "MODEL - logits of given ids, and how they come about by depth", TOOL_OPTIONS_MODEL | TOOL_OPTIONS_INPUT, own, &argc, &argv))
    status = score (&o, argv[1], what ? what : "logits", output, svg, &error) ? 0 : tool_failed (error);
  tool_options_clear (&o);
  return status;
}
