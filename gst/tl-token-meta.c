/* gst/tl-token-meta.c — registers, writes and reads the two custom metas.
 *
 * Called by tldecode (tokens), tldetokenize (tokens in, text out) and tlsink.
 */
#include "tl-token-meta.h"
#include "tl-constraint.h"
#include "tl-engine.h"
#include "tl-prompt.h"

void
tl_token_meta_register (void)
{
  static gsize done = 0;
  static const char *no_tags[] = { NULL };

  if (!g_once_init_enter (&done))
    return;
  gst_meta_register_custom (TL_TOKEN_META, no_tags, NULL, NULL, NULL);
  gst_meta_register_custom (TL_TEXT_META, no_tags, NULL, NULL, NULL);
  gst_meta_register_custom (TL_CONSTRAINT_META, no_tags, NULL, NULL, NULL);
  gst_meta_register_custom (TL_SEQUENCE_META, no_tags, NULL, NULL, NULL);
  g_once_init_leave (&done, 1);
}

static void
append_value (GValue *array, GType type, double number)
{
  GValue item = G_VALUE_INIT;

  g_value_init (&item, type);
  if (type == G_TYPE_INT)
    g_value_set_int (&item, number);
  else
    g_value_set_double (&item, number);
  gst_value_array_append_and_take_value (array, &item);
}

static void
set_alternatives (GstStructure *s, const GArray *top)
{
  GValue ids = G_VALUE_INIT, logprobs = G_VALUE_INIT;

  gst_value_array_init (&ids, top->len);
  gst_value_array_init (&logprobs, top->len);
  for (guint i = 0; i < top->len; i++) {
    append_value (&ids, G_TYPE_INT, g_array_index (top, TlEngineAlternative, i).id);
    append_value (&logprobs, G_TYPE_DOUBLE, g_array_index (top, TlEngineAlternative, i).logprob);
  }
  gst_structure_take_value (s, "top-ids", &ids);
  gst_structure_take_value (s, "top-logprobs", &logprobs);
}

void
tl_token_meta_add (GstBuffer *buffer, const TlTokenInfo *info)
{
  GstStructure *s = gst_custom_meta_get_structure (gst_buffer_add_custom_meta (buffer, TL_TOKEN_META));

  gst_structure_set (s, "prompt-id", G_TYPE_UINT64, info->prompt_id, "index", G_TYPE_UINT, info->index, "special",
      G_TYPE_BOOLEAN, info->special, "loops", G_TYPE_UINT, info->loops, NULL);
  if (info->finish)
    gst_structure_set (s, "finish-reason", G_TYPE_STRING, info->finish, NULL);
  if (info->text_cut)
    gst_structure_set (s, "text-cut", G_TYPE_UINT, info->text_cut, NULL);
  if (info->measured)
    gst_structure_set (s, "logprob", G_TYPE_DOUBLE, info->logprob, "entropy", G_TYPE_DOUBLE, info->entropy, NULL);
  if (info->top)
    set_alternatives (s, info->top);
}

gboolean
tl_token_meta_get (GstBuffer *buffer, TlTokenInfo *info)
{
  GstCustomMeta *meta = gst_buffer_get_custom_meta (buffer, TL_TOKEN_META);

  if (!meta)
    return FALSE;
  GstStructure *s = gst_custom_meta_get_structure (meta);
  info->finish = gst_structure_get_string (s, "finish-reason");
  info->text_cut = 0;
  gst_structure_get_uint (s, "text-cut", &info->text_cut);
  return gst_structure_get (s, "prompt-id", G_TYPE_UINT64, &info->prompt_id, "index", G_TYPE_UINT, &info->index,
      "special", G_TYPE_BOOLEAN, &info->special, "loops", G_TYPE_UINT, &info->loops, NULL);
}

void
tl_text_meta_add (GstBuffer *buffer, const TlTextInfo *info)
{
  gst_structure_set (gst_custom_meta_get_structure (gst_buffer_add_custom_meta (buffer, TL_TEXT_META)), "prompt-id",
      G_TYPE_UINT64, info->prompt_id, "first-index", G_TYPE_UINT, info->first_index, "last-index", G_TYPE_UINT,
      info->last_index, NULL);
}

gboolean
tl_text_meta_get (GstBuffer *buffer, TlTextInfo *info)
{
  GstCustomMeta *meta = gst_buffer_get_custom_meta (buffer, TL_TEXT_META);

  return meta && gst_structure_get (gst_custom_meta_get_structure (meta), "prompt-id", G_TYPE_UINT64,
      &info->prompt_id, "first-index", G_TYPE_UINT, &info->first_index, "last-index", G_TYPE_UINT, &info->last_index,
      NULL);
}
