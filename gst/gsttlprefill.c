/* gst/gsttlprefill.c — tlprefill: does a prompt's work in its chain function and sends the sequence on.
 *
 * gst-launch-1.0 fdsrc ! tltokenize model-path=demo.tinyloop ! tlprefill ! queue ! tldecode ! tldetokenize ! fdsink
 *
 * The conversation is this element's. While a reply to it runs downstream, the next prompt waits here by the policy of
 * the tldecode that leads it; a tldecode that is to interrupt learns of the prompt by an event before the wait. A prompt
 * that is dropped or fails goes on as a buffer that says so, so that its reply still begins and ends.
 */
#include "gsttlprefill.h"
#include "tl-caps.h"
#include "tl-engine.h"
#include "tl-generation-events.h"
#include "tl-prompt.h"

GST_DEBUG_CATEGORY_STATIC (tl_prefill_debug);
#define GST_CAT_DEFAULT tl_prefill_debug

static GstStaticPadTemplate sink_template =
GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("prompt")));
static GstStaticPadTemplate src_template =
GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_SEQUENCE_TYPE));

struct _GstTlPrefill
{
  GstElement parent;
  GstPad *sinkpad, *srcpad;
  TlModelHolder holder;
  GCancellable *work;           /* of the wait and the passes; cancelled from any thread */

  GMutex lock;                  /* of everything below; never held while pushing or in the engine */
  GObject *config;
  GstTlHistory history;
  gboolean forget;              /* drop the conversations before the next prompt */

  /* the streaming thread's alone */
  GHashTable *conversations;    /* id → conversation */
  GstStructure *options;        /* prompt-options for the next prompt */
};

G_DEFINE_FINAL_TYPE (GstTlPrefill, gst_tl_prefill, GST_TYPE_ELEMENT)
GST_ELEMENT_REGISTER_DEFINE (tlprefill, "tlprefill", GST_RANK_NONE, GST_TYPE_TL_PREFILL)

/* ---- prompts */

static void
forget_conversations (GstTlPrefill *self)
{
  g_mutex_lock (&self->lock);
  self->forget = TRUE;
  g_mutex_unlock (&self->lock);
}

/* NULL with *refused: the prompt ends without a reply; NULL without: flushing, or with @error */
static GObject *
prefill (GstTlPrefill *self, GstBuffer *prompt, const char **refused, GError **error)
{
  g_autoptr (GObject) model = tl_prompt_wait_model (&self->holder, self->work, error);
  g_autoptr (GArray) ids = model ? tl_prompt_ids (prompt, error) : NULL;
  gboolean dropped = FALSE;

  if (!ids)
    return NULL;
  g_mutex_lock (&self->lock);
  gboolean forget = self->forget;
  GstTlHistory history = self->history;
  g_autoptr (GObject) config = tl_prompt_config_new (self->config, self->options);
  self->forget = FALSE;
  g_mutex_unlock (&self->lock);
  if (forget)
    g_hash_table_remove_all (self->conversations);

  GObject *conversation = tl_prompt_conversation (self->conversations, model, self->options, error);
  if (!conversation)
    return NULL;
  gst_pad_push_event (self->srcpad, gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM_OOB,
          gst_structure_new_empty (TL_EVENT_NEW_PROMPT)));
  GObject *sequence = tl_engine_prefill (conversation, (const gint32 *) ids->data, ids->len,
      tl_prompt_keeps_history (history, model, self->options), config, self->work, &dropped, error);
  if (dropped) {
    g_clear_error (error);
    *refused = "dropped";
  }
  return sequence;
}

static GstFlowReturn
gst_tl_prefill_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstTlPrefill *self = GST_TL_PREFILL (parent);
  g_autoptr (GError) error = NULL;
  const char *refused = NULL;

  if (!gst_pad_has_current_caps (pad)) {
    GST_ELEMENT_ERROR (self, CORE, NEGOTIATION, ("%s: data without caps; put tltokenize before it",
            GST_ELEMENT_NAME (self)), (NULL));
    gst_buffer_unref (buffer);
    return GST_FLOW_NOT_NEGOTIATED;
  }
  g_autoptr (GObject) sequence = prefill (self, buffer, &refused, &error);
  g_clear_pointer (&self->options, gst_structure_free);
  if (error && g_cancellable_is_cancelled (self->work)) {
    gst_buffer_unref (buffer);
    return GST_FLOW_FLUSHING;
  }
  buffer = gst_buffer_make_writable (buffer);
  tl_sequence_meta_add (buffer, sequence, error ? "error" : refused);
  g_clear_object (&sequence);   /* downstream alone decides how long it lives */
  if (error)                    /* said before what follows from it */
    GST_ELEMENT_ERROR (self, STREAM, FAILED, ("%s: %s", GST_ELEMENT_NAME (self), error->message), (NULL));
  GstFlowReturn ret = gst_pad_push (self->srcpad, buffer);
  return error ? GST_FLOW_ERROR : ret;
}

/* ---- events and queries */

static gboolean
on_caps (GstTlPrefill *self, GstEvent *event)
{
  g_autoptr (GObject) model = tl_model_holder_require (&self->holder);
  GstCaps *caps;

  gst_event_parse_caps (event, &caps);
  gboolean ok = model && tl_caps_check_vocab (GST_ELEMENT (self), caps, model);
  gst_event_unref (event);
  if (!ok)
    return FALSE;
  g_autoptr (GstCaps) sequence = tl_caps_new_sequence (model);
  return gst_pad_push_event (self->srcpad, gst_event_new_caps (sequence));
}

static gboolean
gst_tl_prefill_sink_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  GstTlPrefill *self = GST_TL_PREFILL (parent);

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_CAPS:
      return on_caps (self, event);
    case GST_EVENT_STREAM_START:
      forget_conversations (self);
      break;
    case GST_EVENT_FLUSH_START:
      g_cancellable_cancel (self->work);
      break;
    case GST_EVENT_FLUSH_STOP:
      g_cancellable_reset (self->work);
      break;
    case GST_EVENT_CUSTOM_DOWNSTREAM:
      if (tl_event_is (event, TL_EVENT_OPTIONS)) {
        g_clear_pointer (&self->options, gst_structure_free);
        self->options = gst_structure_copy (gst_event_get_structure (event));
      }
      break;
    default:
      break;
  }
  return gst_pad_event_default (pad, parent, event);
}

static gboolean
gst_tl_prefill_src_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  if (tl_event_is (event, TL_EVENT_RESET))
    forget_conversations (GST_TL_PREFILL (parent));
  return gst_pad_event_default (pad, parent, event);
}

static gboolean
gst_tl_prefill_query (GstPad *pad, GstObject *parent, GstQuery *query)
{
  GstTlPrefill *self = GST_TL_PREFILL (parent);

  if (tl_model_holder_answer (&self->holder, query))
    return TRUE;
  if (GST_QUERY_TYPE (query) == GST_QUERY_ALLOCATION)
    return FALSE;
  if (GST_QUERY_TYPE (query) != GST_QUERY_CAPS)
    return gst_pad_query_default (pad, parent, query);
  return tl_caps_answer (&self->holder, pad == self->sinkpad ? &sink_template : &src_template, query);
}

static void
gst_tl_prefill_set_context (GstElement *element, GstContext *context)
{
  tl_model_holder_set_context (&GST_TL_PREFILL (element)->holder, context);
  GST_ELEMENT_CLASS (gst_tl_prefill_parent_class)->set_context (element, context);
}

/* ---- state changes */

static GstStateChangeReturn
gst_tl_prefill_change_state (GstElement *element, GstStateChange transition)
{
  GstTlPrefill *self = GST_TL_PREFILL (element);

  if (transition == GST_STATE_CHANGE_NULL_TO_READY && !tl_model_holder_open (&self->holder))
    return GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED) {
    g_autoptr (GObject) model = tl_model_holder_find (&self->holder);   /* its lack is an error only once data comes */
    g_cancellable_reset (self->work);
  }
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY)
    g_cancellable_cancel (self->work);  /* frees a working chain */
  GstStateChangeReturn ret = GST_ELEMENT_CLASS (gst_tl_prefill_parent_class)->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) {
    g_hash_table_remove_all (self->conversations);
    g_clear_pointer (&self->options, gst_structure_free);
  }
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    tl_model_holder_release (&self->holder);
  return ret;
}

/* ---- properties */

static void
gst_tl_prefill_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  GstTlPrefill *self = GST_TL_PREFILL (object);

  if (tl_model_holder_set_property (&self->holder, id, value))
    return;
  g_mutex_lock (&self->lock);
  if (id == TL_PROP_HISTORY)
    self->history = g_value_get_enum (value);
  else if (tl_property_belongs (id, TL_ON_CONFIG))
    tl_prompt_config_set (self->config, value, pspec);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  g_mutex_unlock (&self->lock);
}

static void
gst_tl_prefill_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  GstTlPrefill *self = GST_TL_PREFILL (object);

  if (tl_model_holder_get_property (&self->holder, id, value))
    return;
  g_mutex_lock (&self->lock);
  if (id == TL_PROP_HISTORY)
    g_value_set_enum (value, self->history);
  else if (tl_property_belongs (id, TL_ON_CONFIG))
    tl_prompt_config_get (self->config, value, pspec);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  g_mutex_unlock (&self->lock);
}

/* ---- class */

static void
gst_tl_prefill_finalize (GObject *object)
{
  GstTlPrefill *self = GST_TL_PREFILL (object);

  g_hash_table_unref (self->conversations);
  g_clear_pointer (&self->options, gst_structure_free);
  g_object_unref (self->config);
  g_object_unref (self->work);
  tl_model_holder_clear (&self->holder);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (gst_tl_prefill_parent_class)->finalize (object);
}

static void
gst_tl_prefill_class_init (GstTlPrefillClass *klass)
{
  GObjectClass *object = G_OBJECT_CLASS (klass);
  GstElementClass *element = GST_ELEMENT_CLASS (klass);

  GST_DEBUG_CATEGORY_INIT (tl_prefill_debug, "tlprefill", 0, "prompt tokens to sequences");
  object->set_property = gst_tl_prefill_set_property;
  object->get_property = gst_tl_prefill_get_property;
  object->finalize = gst_tl_prefill_finalize;
  tl_properties_install (object, TL_ON_PREFILL);
  element->change_state = gst_tl_prefill_change_state;
  element->set_context = gst_tl_prefill_set_context;
  gst_element_class_add_static_pad_template (element, &sink_template);
  gst_element_class_add_static_pad_template (element, &src_template);
  gst_element_class_set_static_metadata (element, "Language model prefill", "Text/LLM/Filter",
      "Runs a prompt through the model for one or several decoders", "The TinyLoop authors");
}

static void
gst_tl_prefill_init (GstTlPrefill *self)
{
  tl_model_holder_init (&self->holder, GST_ELEMENT (self));
  g_mutex_init (&self->lock);
  self->config = tl_engine_config_new ();
  self->work = g_cancellable_new ();
  self->conversations = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);

  self->sinkpad = gst_pad_new_from_static_template (&sink_template, "sink");
  GST_PAD_SET_ACCEPT_TEMPLATE (self->sinkpad);
  gst_pad_set_chain_function (self->sinkpad, gst_tl_prefill_chain);
  gst_pad_set_event_function (self->sinkpad, gst_tl_prefill_sink_event);
  gst_pad_set_query_function (self->sinkpad, gst_tl_prefill_query);
  gst_element_add_pad (GST_ELEMENT (self), self->sinkpad);
  self->srcpad = gst_pad_new_from_static_template (&src_template, "src");
  gst_pad_set_event_function (self->srcpad, gst_tl_prefill_src_event);
  gst_pad_set_query_function (self->srcpad, gst_tl_prefill_query);
  gst_element_add_pad (GST_ELEMENT (self), self->srcpad);
}
