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
  if (gst_pad_has_current_caps (GST_BASE_TRANSFORM_SINK_PAD (trans)))
    return GST_FLOW_OK;
  GST_ELEMENT_ERROR (trans, CORE, NEGOTIATION, ("%s: data without caps; put tltokenize before it",
          GST_ELEMENT_NAME (trans)), (NULL));
  return GST_FLOW_NOT_NEGOTIATED;
}

/* ---- caps and context */

/* without a model, which type=none does not need, any vocabulary passes */
static gboolean
gst_tl_grammar_set_caps (GstBaseTransform *trans, GstCaps *in, GstCaps *out)
{
  g_autoptr (GObject) model = tl_model_holder_find (&GST_TL_GRAMMAR (trans)->holder);

  return !model || tl_caps_check_vocab (GST_ELEMENT (trans), in, model);
}

static GstCaps *
gst_tl_grammar_transform_caps (GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps, GstCaps *filter)
{
  return filter ? gst_caps_intersect_full (filter, caps, GST_CAPS_INTERSECT_FIRST) : gst_caps_ref (caps);
}

static gboolean
gst_tl_grammar_accept_caps (GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps)
{
  return tl_caps_fit_template (&sink_template, caps);
}

static gboolean
gst_tl_grammar_query (GstBaseTransform *trans, GstPadDirection direction, GstQuery *query)
{
  return tl_model_holder_answer (&GST_TL_GRAMMAR (trans)->holder, query)
      || GST_BASE_TRANSFORM_CLASS (gst_tl_grammar_parent_class)->query (trans, direction, query);
}

static void
gst_tl_grammar_set_context (GstElement *element, GstContext *context)
{
  tl_model_holder_set_context (&GST_TL_GRAMMAR (element)->holder, context);
  GST_ELEMENT_CLASS (gst_tl_grammar_parent_class)->set_context (element, context);
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
  if (transition == GST_STATE_CHANGE_NULL_TO_READY && !tl_model_holder_open (&self->holder))
    return GST_STATE_CHANGE_FAILURE;
  GstStateChangeReturn ret = GST_ELEMENT_CLASS (gst_tl_grammar_parent_class)->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    tl_model_holder_release (&self->holder);
  return ret;
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
  GstBaseTransformClass *trans = GST_BASE_TRANSFORM_CLASS (klass);

  object->set_property = gst_tl_grammar_set_property;
  object->get_property = gst_tl_grammar_get_property;
  object->finalize = gst_tl_grammar_finalize;
  tl_properties_install (object, TL_ON_GRAMMAR);
  element->change_state = gst_tl_grammar_change_state;
  element->set_context = gst_tl_grammar_set_context;
  trans->transform_ip = gst_tl_grammar_transform_ip;
  trans->transform_ip_on_passthrough = TRUE;
  trans->set_caps = gst_tl_grammar_set_caps;
  trans->transform_caps = gst_tl_grammar_transform_caps;
  trans->accept_caps = gst_tl_grammar_accept_caps;
  trans->query = gst_tl_grammar_query;
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
