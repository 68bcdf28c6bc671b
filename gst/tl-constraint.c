/* gst/tl-constraint.c — writes and reads a prompt's constraint; tlgrammar and tldecode use it. */
#include "tl-constraint.h"
#include "tl-engine.h"

void
tl_constraint_meta_add (GstBuffer *buffer, const char *kind, const char *source)
{
  GstCustomMeta *meta = gst_buffer_get_custom_meta (buffer, TL_CONSTRAINT_META);
  g_autofree char *hash = g_compute_checksum_for_string (G_CHECKSUM_SHA256, source, -1);

  if (!meta)
    meta = gst_buffer_add_custom_meta (buffer, TL_CONSTRAINT_META);
  gst_structure_set (gst_custom_meta_get_structure (meta), "kind", G_TYPE_STRING, kind, "source", G_TYPE_STRING, source,
      "hash", G_TYPE_STRING, hash, NULL);
}

gboolean
tl_constrain (GObject *config, GObject *model, GstBuffer *prompt, const GstStructure *options, GError **error)
{
  GstCustomMeta *meta = gst_buffer_get_custom_meta (prompt, TL_CONSTRAINT_META);
  GstStructure *s = meta ? gst_custom_meta_get_structure (meta) : NULL;
  const char *kind = s ? gst_structure_get_string (s, "kind") : NULL;
  const char *source = s ? gst_structure_get_string (s, "source") : NULL;

  if (options && gst_structure_has_field (options, "grammar")
      && !gst_structure_has_field_typed (options, "grammar", G_TYPE_STRING)) {
    g_set_error (error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, "the grammar in the prompt's options is a %s; make it a string",
        g_type_name (gst_structure_get_field_type (options, "grammar")));
    return FALSE;
  }
  if (options && gst_structure_get_string (options, "grammar")) {
    source = gst_structure_get_string (options, "grammar");
    kind = gst_structure_get_string (options, "grammar-type");
  }
  if (!source || (kind && g_str_equal (kind, "none")))
    return TRUE;
  g_autoptr (GObject) grammar = tl_engine_grammar_new (model, kind ? kind : "regex", source, error);
  if (grammar)
    g_object_set (config, "grammar", grammar, NULL);
  return grammar != NULL;
}
