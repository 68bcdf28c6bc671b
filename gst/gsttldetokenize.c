/* gst/gsttldetokenize.c — tldetokenize: turns reply tokens into text, as deltas or as words, sentences, lines, replies.
 *
 * gst-launch-1.0 fdsrc ! tltokenize model-path=demo.tinyloop ! tldecode ! tldetokenize mode=sentence ! fdsink
 *
 * A buffer is always whole UTF-8: characters split over tokens are held. What is held leaves before the reply's end.
 */
#include "gsttldetokenize.h"
#include "tl-caps.h"
#include "tl-engine.h"
#include "tl-generation-events.h"
#include "tl-model-context.h"
#include "tl-text-units.h"
#include "tl-token-meta.h"

#include <string.h>

GST_DEBUG_CATEGORY_STATIC (tl_detokenize_debug);
#define GST_CAT_DEFAULT tl_detokenize_debug

static GstStaticPadTemplate sink_template =
GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("reply")));
static GstStaticPadTemplate src_template =
GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TEXT_CAPS));

struct _GstTlDetokenize
{
  GstBaseTransform parent;
  TlModelHolder holder;
  GstTlTextMode mode;           /* properties, object lock */
  GstTlSeparator separator;
  gboolean skip_special;
  char *language;

  /* the streaming thread's */
  GObject *model;
  TlEngineDetokenizer *detokenizer;
  GString *held;                /* text of no buffer yet; cumulative: all of the reply */
  TlTextInfo info;              /* of held */
  GstClockTime pts, end;
  gboolean begins;              /* no text of this reply has left */
  gboolean open;                /* text has left behind which no separator stands yet; a flush takes nothing back */
  GQueue ready;                 /* GstBuffer */
  gboolean tagged;              /* this stream has its LANGUAGE tag */
};

G_DEFINE_FINAL_TYPE (GstTlDetokenize, gst_tl_detokenize, GST_TYPE_BASE_TRANSFORM)
GST_ELEMENT_REGISTER_DEFINE (tldetokenize, "tldetokenize", GST_RANK_NONE, GST_TYPE_TL_DETOKENIZE)

/* ---- text */

static void
queue_text (GstTlDetokenize *self, const char *text, gsize length)
{
  GstBuffer *buffer = gst_buffer_new_memdup (text, length);

  GST_BUFFER_PTS (buffer) = self->pts;
  GST_BUFFER_DURATION (buffer) = self->end > self->pts ? self->end - self->pts : 0;
  GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_NON_DROPPABLE);
  if (self->begins)
    GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  self->begins = FALSE;
  tl_text_meta_add (buffer, &self->info);
  g_queue_push_tail (&self->ready, buffer);
}

static void
emit (GstTlDetokenize *self, gsize length)
{
  queue_text (self, self->held->str, length);
  self->open = TRUE;
  if (self->mode == TL_MODE_CUMULATIVE) {
    self->pts = self->end;
    return;
  }
  g_string_erase (self->held, 0, length);
  self->info.first_index = self->info.last_index + (self->held->len == 0);
  self->pts = self->end;
}

static void
emit_units (GstTlDetokenize *self, gboolean grown)
{
  gsize length;

  switch (self->mode) {
    case TL_MODE_DELTA:
    case TL_MODE_CUMULATIVE:
      if (grown && self->held->len > 0)
        emit (self, self->held->len);
      break;
    case TL_MODE_REPLY:
      break;
    default:
      while ((length = tl_text_unit_end (self->held->str, self->held->len, self->mode)) > 0)
        emit (self, length);
  }
}

static void
append (GstTlDetokenize *self, GBytes *text)
{
  gsize size;
  const char *data = g_bytes_get_data (text, &size);

  /* a text buffer has no NUL: overlays stop at it */
  for (gsize i = 0; i < size; i++)
    if (data[i] != '\0')
      g_string_append_c (self->held, data[i]);
}

static void
emit_separator (GstTlDetokenize *self)
{
  static const char *const texts[] = { "", "\n", "\n\n" };

  if (self->open && self->separator != TL_SEPARATOR_NONE) {
    self->info.first_index = self->info.last_index;
    self->pts = self->end;
    queue_text (self, texts[self->separator], strlen (texts[self->separator]));
  }
  self->open = FALSE;
}

/* the reply is over: what was held is final now */
static void
close_reply (GstTlDetokenize *self)
{
  if (self->detokenizer) {
    g_autoptr (GBytes) rest = tl_engine_detokenizer_flush (self->detokenizer);
    gboolean grown = g_bytes_get_size (rest) > 0;

    append (self, rest);
    emit_units (self, grown);
    if (self->mode != TL_MODE_CUMULATIVE && self->held->len > 0)
      emit (self, self->held->len);
  }
  emit_separator (self);
  g_clear_pointer (&self->detokenizer, tl_engine_detokenizer_free);
  g_string_truncate (self->held, 0);
}

static void
drop_reply (GstTlDetokenize *self)
{
  g_clear_pointer (&self->detokenizer, tl_engine_detokenizer_free);
  g_string_truncate (self->held, 0);
  g_queue_clear_full (&self->ready, (GDestroyNotify) gst_buffer_unref);
}

static gboolean
open_reply (GstTlDetokenize *self, const TlTokenInfo *info, GstBuffer *input)
{
  g_autoptr (GError) error = NULL;

  if (self->detokenizer && self->info.prompt_id == info->prompt_id)
    return TRUE;
  close_reply (self);           /* a source without brackets: the id says it */
  self->info = (TlTextInfo) { info->prompt_id, info->index, info->index };
  self->pts = GST_BUFFER_PTS (input);
  self->begins = TRUE;
  self->detokenizer = tl_engine_detokenizer_new (self->model, self->skip_special, &error);
  if (!self->detokenizer)
    GST_ELEMENT_ERROR (self, STREAM, DECODE, ("%s: %s", GST_ELEMENT_NAME (self), error->message), (NULL));
  return self->detokenizer != NULL;
}

static GstFlowReturn
check_input (GstTlDetokenize *self, GstBuffer *input)
{
  gsize size = gst_buffer_get_size (input);

  if (!self->model) {
    GST_ELEMENT_ERROR (self, CORE, NEGOTIATION, ("%s: tokens without caps; put tldecode before it",
            GST_ELEMENT_NAME (self)), (NULL));
    return GST_FLOW_NOT_NEGOTIATED;
  }
  if (size % sizeof (gint32) != 0) {
    GST_ELEMENT_ERROR (self, STREAM, DECODE, ("%s: a buffer of %zu bytes is no whole number of 32-bit ids; send each id "
            "whole", GST_ELEMENT_NAME (self), size), (NULL));
    return GST_FLOW_ERROR;
  }
  return GST_FLOW_OK;
}

static GstFlowReturn
gst_tl_detokenize_submit (GstBaseTransform *trans, gboolean is_discont, GstBuffer *input)
{
  GstTlDetokenize *self = GST_TL_DETOKENIZE (trans);
  TlTokenInfo info = { 0 };
  GstMapInfo map;
  GstFlowReturn ret = check_input (self, input);

  tl_token_meta_get (input, &info);
  if (ret == GST_FLOW_OK && (!open_reply (self, &info, input) || !gst_buffer_map (input, &map, GST_MAP_READ)))
    ret = GST_FLOW_ERROR;
  if (ret != GST_FLOW_OK) {
    gst_buffer_unref (input);
    return ret;
  }
  guint n = map.size / sizeof (gint32);
  GstClockTime each = GST_BUFFER_DURATION_IS_VALID (input) && n ? GST_BUFFER_DURATION (input) / n : 0;

  for (guint i = 0; i < n; i++) {
    g_autoptr (GBytes) text = tl_engine_detokenizer_push (self->detokenizer, ((const gint32 *) map.data)[i],
        i + 1 == n ? info.text_cut : 0);
    GstClockTime start = GST_BUFFER_PTS_IS_VALID (input) ? GST_BUFFER_PTS (input) + i * each : GST_CLOCK_TIME_NONE;

    if (self->held->len == 0 || self->mode == TL_MODE_CUMULATIVE)
      self->pts = start;
    self->end = GST_CLOCK_TIME_IS_VALID (start) ? start + each : GST_CLOCK_TIME_NONE;
    self->info.last_index = info.index + i;
    append (self, text);
    emit_units (self, g_bytes_get_size (text) > 0);
  }
  gst_buffer_unmap (input, &map);
  gst_buffer_unref (input);
  return GST_FLOW_OK;
}

static GstFlowReturn
gst_tl_detokenize_generate (GstBaseTransform *trans, GstBuffer **output)
{
  *output = g_queue_pop_head (&GST_TL_DETOKENIZE (trans)->ready);
  return GST_FLOW_OK;
}

/* ---- events and queries */

static void
drain (GstTlDetokenize *self)
{
  GstBuffer *buffer;

  close_reply (self);
  while ((buffer = g_queue_pop_head (&self->ready)))
    gst_pad_push (GST_BASE_TRANSFORM_SRC_PAD (self), buffer);
}

static gboolean
on_caps (GstTlDetokenize *self, GstEvent *event)
{
  g_autoptr (GObject) model = tl_model_holder_require (&self->holder);
  g_autoptr (GstCaps) text = gst_caps_from_string (GST_TL_TEXT_CAPS);
  GstCaps *caps;

  gst_event_parse_caps (event, &caps);
  if (!model || !tl_caps_check_vocab (GST_ELEMENT (self), caps, model))
    return FALSE;
  drain (self);
  g_set_object (&self->model, model);
  return gst_pad_push_event (GST_BASE_TRANSFORM_SRC_PAD (self), gst_event_new_caps (text));
}

/* sticky, once per stream, behind its SEGMENT */
static void
tag_language (GstTlDetokenize *self)
{
  GST_OBJECT_LOCK (self);
  g_autofree char *language = g_strdup (self->language);
  GST_OBJECT_UNLOCK (self);

  if (self->tagged || !language || !*language)
    return;
  self->tagged = TRUE;
  gst_pad_push_event (GST_BASE_TRANSFORM_SRC_PAD (self),
      gst_event_new_tag (gst_tag_list_new (GST_TAG_LANGUAGE_CODE, language, NULL)));
}

static gboolean
gst_tl_detokenize_sink_event (GstBaseTransform *trans, GstEvent *event)
{
  GstTlDetokenize *self = GST_TL_DETOKENIZE (trans);

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_CAPS:{
      gboolean ok = on_caps (self, event);

      gst_event_unref (event);
      return ok;
    }
    case GST_EVENT_STREAM_START:
      self->tagged = FALSE;
      break;
    case GST_EVENT_SEGMENT:{
      gboolean ok = GST_BASE_TRANSFORM_CLASS (gst_tl_detokenize_parent_class)->sink_event (trans, event);

      tag_language (self);
      return ok;
    }
    case GST_EVENT_EOS:
      drain (self);
      break;
    case GST_EVENT_FLUSH_STOP:
      drop_reply (self);
      break;
    case GST_EVENT_CUSTOM_DOWNSTREAM:
      if (tl_event_is (event, TL_EVENT_START) || tl_event_is (event, TL_EVENT_END))
        drain (self);
      break;
    default:
      break;
  }
  return GST_BASE_TRANSFORM_CLASS (gst_tl_detokenize_parent_class)->sink_event (trans, event);
}

static gboolean
gst_tl_detokenize_query (GstBaseTransform *trans, GstPadDirection direction, GstQuery *query)
{
  return tl_model_holder_answer (&GST_TL_DETOKENIZE (trans)->holder, query)
      || GST_BASE_TRANSFORM_CLASS (gst_tl_detokenize_parent_class)->query (trans, direction, query);
}

static GstCaps *
gst_tl_detokenize_transform_caps (GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps, GstCaps *filter)
{
  g_autoptr (GstCaps) text = gst_static_pad_template_get_caps (&src_template);

  if (direction == GST_PAD_SRC)
    return tl_caps_for_pad (&GST_TL_DETOKENIZE (trans)->holder, &sink_template, filter);
  return filter ? gst_caps_intersect_full (filter, text, GST_CAPS_INTERSECT_FIRST) : g_steal_pointer (&text);
}

static gboolean
gst_tl_detokenize_accept_caps (GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps)
{
  return tl_caps_fit_template (direction == GST_PAD_SINK ? &sink_template : &src_template, caps);
}

static void
gst_tl_detokenize_set_context (GstElement *element, GstContext *context)
{
  tl_model_holder_set_context (&GST_TL_DETOKENIZE (element)->holder, context);
  GST_ELEMENT_CLASS (gst_tl_detokenize_parent_class)->set_context (element, context);
}

/* ---- state changes */

static GstStateChangeReturn
gst_tl_detokenize_change_state (GstElement *element, GstStateChange transition)
{
  GstTlDetokenize *self = GST_TL_DETOKENIZE (element);

  if (transition == GST_STATE_CHANGE_NULL_TO_READY && !tl_model_holder_open (&self->holder))
    return GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED) {
    g_autoptr (GObject) model = tl_model_holder_find (&self->holder);   /* its lack is an error only once caps come */
  }
  GstStateChangeReturn ret = GST_ELEMENT_CLASS (gst_tl_detokenize_parent_class)->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) {
    drop_reply (self);
    self->tagged = self->open = FALSE;
    g_clear_object (&self->model);
  }
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    tl_model_holder_release (&self->holder);
  return ret;
}

/* ---- properties */

static void
gst_tl_detokenize_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  GstTlDetokenize *self = GST_TL_DETOKENIZE (object);

  if (tl_model_holder_set_property (&self->holder, id, value))
    return;
  GST_OBJECT_LOCK (self);
  switch (id) {
    case TL_PROP_MODE: self->mode = g_value_get_enum (value); break;
    case TL_PROP_SEPARATOR: self->separator = g_value_get_enum (value); break;
    case TL_PROP_SKIP_SPECIAL: self->skip_special = g_value_get_boolean (value); break;
    case TL_PROP_LANGUAGE: g_free (self->language); self->language = g_value_dup_string (value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_tl_detokenize_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  GstTlDetokenize *self = GST_TL_DETOKENIZE (object);

  if (tl_model_holder_get_property (&self->holder, id, value))
    return;
  GST_OBJECT_LOCK (self);
  switch (id) {
    case TL_PROP_MODE: g_value_set_enum (value, self->mode); break;
    case TL_PROP_SEPARATOR: g_value_set_enum (value, self->separator); break;
    case TL_PROP_SKIP_SPECIAL: g_value_set_boolean (value, self->skip_special); break;
    case TL_PROP_LANGUAGE: g_value_set_string (value, self->language); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  GST_OBJECT_UNLOCK (self);
}

/* ---- class */

static void
gst_tl_detokenize_finalize (GObject *object)
{
  GstTlDetokenize *self = GST_TL_DETOKENIZE (object);

  drop_reply (self);
  g_clear_object (&self->model);
  g_string_free (self->held, TRUE);
  g_free (self->language);
  tl_model_holder_clear (&self->holder);
  G_OBJECT_CLASS (gst_tl_detokenize_parent_class)->finalize (object);
}

static void
gst_tl_detokenize_class_init (GstTlDetokenizeClass *klass)
{
  GObjectClass *object = G_OBJECT_CLASS (klass);
  GstElementClass *element = GST_ELEMENT_CLASS (klass);
  GstBaseTransformClass *trans = GST_BASE_TRANSFORM_CLASS (klass);

  GST_DEBUG_CATEGORY_INIT (tl_detokenize_debug, "tldetokenize", 0, "reply tokens to text");
  object->set_property = gst_tl_detokenize_set_property;
  object->get_property = gst_tl_detokenize_get_property;
  object->finalize = gst_tl_detokenize_finalize;
  tl_properties_install (object, TL_ON_DETOKENIZE);
  element->change_state = gst_tl_detokenize_change_state;
  element->set_context = gst_tl_detokenize_set_context;
  trans->submit_input_buffer = gst_tl_detokenize_submit;
  trans->generate_output = gst_tl_detokenize_generate;
  trans->sink_event = gst_tl_detokenize_sink_event;
  trans->query = gst_tl_detokenize_query;
  trans->transform_caps = gst_tl_detokenize_transform_caps;
  trans->accept_caps = gst_tl_detokenize_accept_caps;
  gst_element_class_add_static_pad_template (element, &sink_template);
  gst_element_class_add_static_pad_template (element, &src_template);
  gst_element_class_set_static_metadata (element, "Detokenizer of a language model", "Text/LLM/Filter",
      "Turns reply tokens into text", "The TinyLoop authors");
}

static void
gst_tl_detokenize_init (GstTlDetokenize *self)
{
  tl_model_holder_init (&self->holder, GST_ELEMENT (self));
  self->held = g_string_new (NULL);
  self->skip_special = TRUE;
  gst_base_transform_set_qos_enabled (GST_BASE_TRANSFORM (self), FALSE);
}
