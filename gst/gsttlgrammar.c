/* gst/gsttlgrammar.c — tlgrammar: writes the grammar that the reply must match on the prompts that pass.
 *
 * gst-launch-1.0 fdsrc ! tltokenize model-path=demo.tinyloop ! tlgrammar type=regex grammar="yes|no" ! tldecode ! tldetokenize ! fdsink
 *
 * A grammar that is wrong or of a type that is not there is an element error in NULL→READY, or before the next prompt when it
 * was changed since, so that nobody takes unconstrained text for constrained.
 */
#include "gsttlgrammar.h"
#include "tl-caps.h"
#include "tl-constraint.h"
#include "tl-engine.h"
#include "tl-model-context.h"
#include "tl-properties.h"

#include <string.h>

static GstStaticPadTemplate sink_template =
GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("prompt")));
static GstStaticPadTemplate src_template =
GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("prompt")));

struct _GstTlGrammar
{
  GstBaseTransform parent;
  TlModelHolder holder;
  GstTlGrammarType type;        /* object lock, as the next three */
  char *grammar, *location;
  gboolean changed;             /* since `source` was read */
  char *source;                 /* checked; NULL: no constraint. The streaming thread's, or the state change's before it */
};

G_DEFINE_FINAL_TYPE (GstTlGrammar, gst_tl_grammar, GST_TYPE_BASE_TRANSFORM)
GST_ELEMENT_REGISTER_DEFINE (tlgrammar, "tlgrammar", GST_RANK_NONE, GST_TYPE_TL_GRAMMAR)

/* the grammar's text: the property's, or the file's without its last newline */
static char *
read_source (const char *grammar, const char *location, GError **error)
{
  char *text = NULL;
  gsize length;

  if (!grammar == !location)
    g_set_error_literal (error, GST_CORE_ERROR, GST_CORE_ERROR_FAILED,
        grammar ? "grammar and location are both set; set one" : "a grammar is needed; set grammar or location");
  else if (grammar)
    text = g_strdup (grammar);
  else if (g_file_get_contents (location, &text, &length, error)) {
    if (strlen (text) < length)
      g_set_error (error, GST_CORE_ERROR, GST_CORE_ERROR_FAILED, "%s: NUL at byte %zu; a grammar is text", location,
          strlen (text));
    else if (length && text[length - 1] == '\n')
      text[length - 1] = '\0';
  }
  if (error && *error)
    g_clear_pointer (&text, g_free);
  return text;
}

/* `source` of the properties as they are now; FALSE: an element error was posted */
static gboolean
update_source (GstTlGrammar *self)
{
  g_autoptr (GError) error = NULL;

  GST_OBJECT_LOCK (self);
  gboolean changed = self->changed;
  GstTlGrammarType type = self->type;
  g_autofree char *grammar = g_strdup (self->grammar), *location = g_strdup (self->location);
  self->changed = FALSE;
  GST_OBJECT_UNLOCK (self);
  if (!changed)
    return TRUE;
  g_clear_pointer (&self->source, g_free);
  if (type == TL_GRAMMAR_NONE)
    return TRUE;
  if (type != TL_GRAMMAR_REGEX) {
    GST_ELEMENT_ERROR (self, CORE, NOT_IMPLEMENTED, ("%s: grammars of type %s are not available in this version; set type=regex or"
            " type=none", GST_ELEMENT_NAME (self), type == TL_GRAMMAR_GBNF ? "gbnf" : "json-schema"), (NULL));
  } else {
    g_autofree char *source = read_source (grammar, location, &error);
    g_autoptr (GObject) compiled = source ? tl_engine_grammar_new (NULL, "regex", source, &error) : NULL;

    if (compiled) {
      self->source = g_steal_pointer (&source);
      return TRUE;
    }
    GST_ELEMENT_ERROR (self, RESOURCE, SETTINGS, ("%s: %s", GST_ELEMENT_NAME (self), error->message), (NULL));
  }
  GST_OBJECT_LOCK (self);
  self->changed = TRUE;         /* an error again, not a prompt without its grammar */
  GST_OBJECT_UNLOCK (self);
  return FALSE;
}

static GstFlowReturn
gst_tl_grammar_transform_ip (GstBaseTransform *trans, GstBuffer *buffer)
{
  GstTlGrammar *self = GST_TL_GRAMMAR (trans);

  if (!update_source (self))
    return GST_FLOW_ERROR;
  if (self->source)
    tl_constraint_meta_add (buffer, "regex", self->source);
  return GST_FLOW_OK;
}

/* takes @buffer */
static GstFlowReturn
gst_tl_grammar_submit (GstBaseTransform *trans, gboolean is_discont, GstBuffer *buffer)
{
  if (gst_pad_has_current_caps (GST_BASE_TRANSFORM_SINK_PAD (trans)))
    return GST_BASE_TRANSFORM_CLASS (gst_tl_grammar_parent_class)->submit_input_buffer (trans, is_discont, buffer);
  GST_ELEMENT_ERROR (trans, CORE, NEGOTIATION, ("%s: data without caps; put tltokenize before it",
          GST_ELEMENT_NAME (trans)), (NULL));
  gst_buffer_unref (buffer);
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

  if (transition == GST_STATE_CHANGE_NULL_TO_READY && !(update_source (self) && tl_model_holder_open (&self->holder)))
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
  self->changed = TRUE;
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
  g_free (self->source);
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
  trans->submit_input_buffer = gst_tl_grammar_submit;
  trans->transform_ip = gst_tl_grammar_transform_ip;
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
  gst_base_transform_set_qos_enabled (GST_BASE_TRANSFORM (self), FALSE);
}
