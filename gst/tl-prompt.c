/* gst/tl-prompt.c — a prompt's model, ids, conversation and settings; the meta that carries a sequence. */
#include "tl-prompt.h"
#include "tl-engine.h"

GObject *
tl_prompt_wait_model (TlModelHolder *holder, GCancellable *cancellable, GError **error)
{
  g_autoptr (GObject) model = tl_model_holder_find (holder);

  if (!model)
    g_set_error_literal (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
        "no model; set model-path on it or on an element before it");
  return model && tl_model_holder_wait (holder, cancellable, error) ? g_steal_pointer (&model) : NULL;
}

GArray *
tl_prompt_ids (GstBuffer *prompt, GError **error)
{
  gsize size = gst_buffer_get_size (prompt);

  if (size % sizeof (gint32) != 0) {
    g_set_error (error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
        "a prompt of %zu bytes is no whole number of 32-bit ids; send each id whole", size);
    return NULL;
  }
  GArray *ids = g_array_sized_new (FALSE, FALSE, sizeof (gint32), size / sizeof (gint32));
  g_array_set_size (ids, size / sizeof (gint32));
  gst_buffer_extract (prompt, 0, ids->data, size);
  return ids;
}

GObject *
tl_prompt_conversation (GHashTable *conversations, GObject *model, const GstStructure *options, GError **error)
{
  const char *asked = options ? gst_structure_get_string (options, "conversation") : NULL, *id = asked ? asked : "";
  GObject *conversation = g_hash_table_lookup (conversations, id);

  if (!conversation && (conversation = tl_engine_conversation_new (model, error)))
    g_hash_table_insert (conversations, g_strdup (id), conversation);
  return conversation;
}

gboolean
tl_prompt_keeps_history (GstTlHistory history, GObject *model, const GstStructure *options)
{
  const char *asked = options ? gst_structure_get_string (options, "history") : NULL;

  if (asked)
    return g_str_equal (asked, "keep");
  return history == TL_HISTORY_KEEP || (history == TL_HISTORY_AUTO && tl_engine_model_keeps_history (model));
}

/* ---- settings */

static gboolean
copy_option (GQuark field, const GValue *value, gpointer data)
{
  GObject *config = data;
  const char *name = g_quark_to_string (field);
  GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (config), name);

  if (pspec && g_value_type_transformable (G_VALUE_TYPE (value), G_PARAM_SPEC_VALUE_TYPE (pspec)))
    g_object_set_property (config, name, value);
  return TRUE;
}

GObject *
tl_prompt_config_new (GObject *config, const GstStructure *options)
{
  GObject *copy = tl_engine_config_new ();
  guint n;
  g_autofree GParamSpec **pspecs = g_object_class_list_properties (G_OBJECT_GET_CLASS (copy), &n);

  for (guint i = 0; i < n; i++) {
    g_auto (GValue) value = G_VALUE_INIT;

    if ((pspecs[i]->flags & G_PARAM_READWRITE) != G_PARAM_READWRITE || (pspecs[i]->flags & G_PARAM_CONSTRUCT_ONLY)
        || G_IS_PARAM_SPEC_BOXED (pspecs[i]) != (pspecs[i]->value_type == G_TYPE_STRV))
      continue;
    g_value_init (&value, pspecs[i]->value_type);
    g_object_get_property (config, pspecs[i]->name, &value);
    g_object_set_property (copy, pspecs[i]->name, &value);
  }
  if (options)
    gst_structure_foreach (options, copy_option, copy);
  return copy;
}

void
tl_prompt_config_set (GObject *config, const GValue *value, GParamSpec *pspec)
{
  if (GST_IS_PARAM_SPEC_ARRAY_LIST (pspec))
    tl_property_set_list (config, pspec->name, value);
  else if (G_IS_PARAM_SPEC_ENUM (pspec))
    g_object_set (config, pspec->name, g_value_get_enum (value), NULL);
  else
    g_object_set_property (config, pspec->name, value);
}

void
tl_prompt_config_get (GObject *config, GValue *value, GParamSpec *pspec)
{
  int number;

  if (GST_IS_PARAM_SPEC_ARRAY_LIST (pspec))
    tl_property_get_list (config, pspec->name, value);
  else if (G_IS_PARAM_SPEC_ENUM (pspec)) {
    g_object_get (config, pspec->name, &number, NULL);
    g_value_set_enum (value, number);
  } else
    g_object_get_property (config, pspec->name, value);
}

/* ---- sequences */

void
tl_sequence_meta_add (GstBuffer *buffer, GObject *sequence, const char *refused)
{
  GstStructure *s = gst_custom_meta_get_structure (gst_buffer_add_custom_meta (buffer, TL_SEQUENCE_META));

  if (sequence)
    gst_structure_set (s, "sequence", G_TYPE_OBJECT, sequence, NULL);
  if (refused)
    gst_structure_set (s, "refused", G_TYPE_STRING, refused, NULL);
}

GObject *
tl_sequence_meta_get (GstBuffer *buffer, const char **refused)
{
  GstCustomMeta *meta = gst_buffer_get_custom_meta (buffer, TL_SEQUENCE_META);
  GstStructure *s = meta ? gst_custom_meta_get_structure (meta) : NULL;
  const GValue *sequence = s ? gst_structure_get_value (s, "sequence") : NULL;

  *refused = s ? g_intern_string (gst_structure_get_string (s, "refused")) : NULL;
  return sequence ? g_value_get_object (sequence) : NULL;
}
