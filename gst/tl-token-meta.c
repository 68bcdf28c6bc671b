/* gst/tl-token-meta.c — registers, writes and reads the two custom metas.
 *
 * Called by tldecode (tokens), tldetokenize (tokens in, text out) and tlsink.
 */
#include "tl-token-meta.h"
#include "tl-constraint.h"
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
