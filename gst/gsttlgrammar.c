/* gst/gsttlgrammar.c — tlgrammar: prompt tokens pass through; type=none is what this version knows.
 *
 * gst-launch-1.0 fdsrc ! tltokenize model-path=demo.tinyloop ! tlgrammar ! tldecode ! tldetokenize ! fdsink
 *
 * Any other type is an element error in NULL→READY, so that nobody takes unconstrained text for constrained.
 */
#include "gsttlgrammar.h"
#include "tl-caps.h"
#include "tl-model-context.h"
#include "tl-properties.h"

static GstStaticPadTemplate sink_template =
GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("prompt")));
static GstStaticPadTemplate src_template =
GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("prompt")));

struct _GstTlGrammar
{
  GstBaseTransform parent;
  TlModelHolder holder;
  GstTlGrammarType type;        /* object lock, as the next two */
  char *grammar, *location;
};

G_DEFINE_FINAL_TYPE (GstTlGrammar, gst_tl_grammar, GST_TYPE_BASE_TRANSFORM)
GST_ELEMENT_REGISTER_DEFINE (tlgrammar, "tlgrammar", GST_RANK_NONE, GST_TYPE_TL_GRAMMAR)

static GstFlowReturn
gst_tl_grammar_transform_ip (GstBaseTransform *trans, GstBuffer *buffer)
{
  return GST_FLOW_OK;
}

/* ---- state changes */

static GstStateChangeReturn
gst_tl_grammar_change_state (GstElement *element, GstStateChange transition)
{
  GstTlGrammar *self = GST_TL_GRAMMAR (element);

  if (transition == GST_STATE_CHANGE_NULL_TO_READY && self->type != TL_GRAMMAR_NONE) {
    GST_ELEMENT_ERROR (self, CORE, NOT_IMPLEMENTED,
        ("%s: grammars are not available in this version; set type=none", GST_ELEMENT_NAME (self)), (NULL));
    return GST_STATE_CHANGE_FAILURE;
  }
  return GST_ELEMENT_CLASS (gst_tl_grammar_parent_class)->change_state (element, transition);
}

/* ---- properties */

static void
gst_tl_grammar_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  GstTlGrammar *self = GST_TL_GRAMMAR (object);

  if (tl_model_holder_set_property (&self->holder, id, value))
    return;
  GST_OBJECT_LOCK (self);
  switch (id) {
    case TL_PROP_TYPE: self->type = g_value_get_enum (value); break;
    case TL_PROP_GRAMMAR: g_free (self->grammar); self->grammar = g_value_dup_string (value); break;
    case TL_PROP_LOCATION: g_free (self->location); self->location = g_value_dup_string (value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_tl_grammar_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  GstTlGrammar *self = GST_TL_GRAMMAR (object);

  if (tl_model_holder_get_property (&self->holder, id, value))
    return;
  GST_OBJECT_LOCK (self);
  switch (id) {
    case TL_PROP_TYPE: g_value_set_enum (value, self->type); break;
    case TL_PROP_GRAMMAR: g_value_set_string (value, self->grammar); break;
    case TL_PROP_LOCATION: g_value_set_string (value, self->location); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  GST_OBJECT_UNLOCK (self);
}

/* ---- class */

static void
gst_tl_grammar_finalize (GObject *object)
{
  GstTlGrammar *self = GST_TL_GRAMMAR (object);

  g_free (self->grammar);
  g_free (self->location);
  tl_model_holder_clear (&self->holder);
  G_OBJECT_CLASS (gst_tl_grammar_parent_class)->finalize (object);
}

static void
gst_tl_grammar_class_init (GstTlGrammarClass *klass)
{
  GObjectClass *object = G_OBJECT_CLASS (klass);
  GstElementClass *element = GST_ELEMENT_CLASS (klass);

  object->set_property = gst_tl_grammar_set_property;
  object->get_property = gst_tl_grammar_get_property;
  object->finalize = gst_tl_grammar_finalize;
  tl_properties_install (object, TL_ON_GRAMMAR);
  element->change_state = gst_tl_grammar_change_state;
  GST_BASE_TRANSFORM_CLASS (klass)->transform_ip = gst_tl_grammar_transform_ip;
  gst_element_class_add_static_pad_template (element, &sink_template);
  gst_element_class_add_static_pad_template (element, &src_template);
  gst_element_class_set_static_metadata (element, "Constraint of a reply", "Text/LLM/Filter",
      "Adds a grammar to the prompts that pass", "The TinyLoop authors");
}

static void
gst_tl_grammar_init (GstTlGrammar *self)
{
  tl_model_holder_init (&self->holder, GST_ELEMENT (self));
  gst_base_transform_set_passthrough (GST_BASE_TRANSFORM (self), TRUE);
  gst_base_transform_set_qos_enabled (GST_BASE_TRANSFORM (self), FALSE);
}
