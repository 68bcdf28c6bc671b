/* gst/tl-caps.c — makes token caps from a model and refuses those of another vocabulary by naming both.
 *
 * Called by every element that sends or receives tokens.
 */
#include "tl-caps.h"
#include "tl-engine.h"

GstCaps *
tl_caps_new_tokens (GObject *model, const char *role)
{
  return gst_caps_new_simple (GST_TL_TOKENS_TYPE, "format", G_TYPE_STRING, "U32LE", "vocab", G_TYPE_STRING,
      tl_engine_model_vocab_hash (model), "vocab-size", G_TYPE_INT, (int) tl_engine_model_vocab_size (model), "role",
      G_TYPE_STRING, role, NULL);
}

GstCaps *
tl_caps_new_sequence (GObject *model)
{
  return gst_caps_new_simple (GST_TL_SEQUENCE_TYPE, "vocab", G_TYPE_STRING, tl_engine_model_vocab_hash (model), NULL);
}

/* what a CAPS query on a token pad is told: the template, and the vocabulary once the element has its model */
GstCaps *
tl_caps_for_pad (TlModelHolder *holder, GstStaticPadTemplate *pad, GstCaps *filter)
{
  g_autoptr (GObject) model = tl_model_holder_get (holder);
  g_autoptr (GstCaps) caps = gst_caps_make_writable (gst_static_pad_template_get_caps (pad));

  if (model)
    gst_caps_set_simple (caps, "vocab", G_TYPE_STRING, tl_engine_model_vocab_hash (model), NULL);
  return filter ? gst_caps_intersect_full (filter, caps, GST_CAPS_INTERSECT_FIRST) : g_steal_pointer (&caps);
}

/* answers a CAPS query with it */
gboolean
tl_caps_answer (TlModelHolder *holder, GstStaticPadTemplate *pad, GstQuery *query)
{
  GstCaps *filter;

  gst_query_parse_caps (query, &filter);
  g_autoptr (GstCaps) caps = tl_caps_for_pad (holder, pad, filter);
  gst_query_set_caps_result (query, caps);
  return TRUE;
}

/* what an ACCEPT_CAPS query is told: any vocabulary, so that a wrong one comes as far as tl_caps_check_vocab() */
gboolean
tl_caps_fit_template (GstStaticPadTemplate *pad, GstCaps *caps)
{
  g_autoptr (GstCaps) allowed = gst_static_pad_template_get_caps (pad);

  return gst_caps_is_subset (caps, allowed);
}

/* FALSE after an element error when @caps were made with another vocabulary than @model's */
gboolean
tl_caps_check_vocab (GstElement *element, GstCaps *caps, GObject *model)
{
  const char *theirs = gst_structure_get_string (gst_caps_get_structure (caps, 0), "vocab");
  const char *ours = tl_engine_model_vocab_hash (model);

  if (theirs && g_strcmp0 (theirs, ours) == 0)
    return TRUE;
  GST_ELEMENT_ERROR (element, CORE, NEGOTIATION,
      ("%s: tokens arrive with vocabulary '%s', but the model of this element has vocabulary '%s'; give both "
       "elements the same model", GST_ELEMENT_NAME (element), theirs ? theirs : "(none)", ours),
      ("caps %" GST_PTR_FORMAT, caps));
  return FALSE;
}
