/* gst/gsttlsink.c — tlsink: hands the text of replies to an application, by signal and by message.
 *
 * gst-launch-1.0 -m fdsrc ! tlgenerate model-path=demo.tinyloop ! tlsink
 *
 * Signals run in the streaming thread. A handler may call cancel of tldecode: it returns at once, the flush follows.
 */
#include "gsttlsink.h"
#include "tl-caps.h"
#include "tl-generation-events.h"
#include "tl-text-units.h"
#include "tl-token-meta.h"

static GstStaticPadTemplate sink_template =
GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TEXT_CAPS));

struct _GstTlSink
{
  GstBaseSink parent;
  gboolean post_messages;       /* object lock */
  char *last_reply;             /* object lock */

  /* the streaming thread's */
  GString *reply;
  gsize sentence_start;         /* bytes of reply already told as sentences */
  TlTextInfo info;              /* of the newest text */
  guint64 prompt_id, flushed_id; /* of the open reply; of one that a flush closed */
  gboolean open;
};

enum { TEXT, SENTENCE, REPLY, N_SIGNALS };
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (GstTlSink, gst_tl_sink, GST_TYPE_BASE_SINK)
GST_ELEMENT_REGISTER_DEFINE (tlsink, "tlsink", GST_RANK_NONE, GST_TYPE_TL_SINK)

/* ---- text */

/* takes @structure */
static void
post (GstTlSink *self, GstStructure *structure)
{
  GST_OBJECT_LOCK (self);
  gboolean wanted = self->post_messages;
  GST_OBJECT_UNLOCK (self);
  if (wanted)
    gst_element_post_message (GST_ELEMENT (self), gst_message_new_element (GST_OBJECT (self), structure));
  else
    gst_structure_free (structure);
}

static void
tell_sentence (GstTlSink *self, gsize length)
{
  g_autofree char *sentence = g_strndup (self->reply->str + self->sentence_start, length);

  self->sentence_start += length;
  g_strstrip (sentence);
  if (!*sentence)
    return;
  post (self, gst_structure_new ("tinyloop-sentence", "prompt-id", G_TYPE_UINT64, self->prompt_id, "text",
          G_TYPE_STRING, sentence, "last-index", G_TYPE_UINT, self->info.last_index, NULL));
  g_signal_emit (self, signals[SENTENCE], 0, self->prompt_id, sentence, self->info.last_index);
}

static void
tell_sentences (GstTlSink *self)
{
  gsize length;

  while ((length = tl_text_unit_end (self->reply->str + self->sentence_start, self->reply->len - self->sentence_start,
              TL_MODE_SENTENCE)) > 0)
    tell_sentence (self, length);
}

static void
open_reply (GstTlSink *self, guint64 prompt_id)
{
  g_string_truncate (self->reply, 0);
  self->sentence_start = 0;
  self->prompt_id = prompt_id;
  self->info = (TlTextInfo) { prompt_id, 0, 0 };
  self->open = TRUE;
}

static void
close_reply (GstTlSink *self, const char *reason)
{
  if (!self->open)
    return;
  self->open = FALSE;
  if (self->reply->len > self->sentence_start)
    tell_sentence (self, self->reply->len - self->sentence_start);
  GST_OBJECT_LOCK (self);
  g_free (self->last_reply);
  self->last_reply = g_strdup (self->reply->str);
  GST_OBJECT_UNLOCK (self);
  post (self, gst_structure_new ("tinyloop-reply", "prompt-id", G_TYPE_UINT64, self->prompt_id, "text", G_TYPE_STRING,
          self->reply->str, "reason", G_TYPE_STRING, reason, NULL));
  g_signal_emit (self, signals[REPLY], 0, self->prompt_id, self->reply->str, reason);
}

static GstFlowReturn
gst_tl_sink_render (GstBaseSink *base, GstBuffer *buffer)
{
  GstTlSink *self = GST_TL_SINK (base);
  TlTextInfo info = self->info;
  GstMapInfo map;

  if (!gst_buffer_map (buffer, &map, GST_MAP_READ))
    return GST_FLOW_ERROR;
  g_autofree char *text = map.size ? g_utf8_make_valid ((const char *) map.data, map.size) : g_strdup ("");
  gst_buffer_unmap (buffer, &map);
  gboolean known = tl_text_meta_get (buffer, &info);

  if (!self->open || info.prompt_id != self->prompt_id) {
    close_reply (self, "stop"); /* a source without brackets */
    open_reply (self, info.prompt_id);
  }
  /* mode=cumulative repeats the reply from its first token */
  if (known && self->reply->len > 0 && info.first_index == 0 && g_str_has_prefix (text, self->reply->str))
    g_string_truncate (self->reply, 0);
  g_string_append (self->reply, text);
  self->info = info;

  post (self, gst_structure_new ("tinyloop-text", "prompt-id", G_TYPE_UINT64, self->prompt_id, "text", G_TYPE_STRING,
          text, NULL));
  g_signal_emit (self, signals[TEXT], 0, self->prompt_id, text);
  tell_sentences (self);
  return GST_FLOW_OK;
}

/* ---- events */

static gboolean
gst_tl_sink_event (GstBaseSink *base, GstEvent *event)
{
  GstTlSink *self = GST_TL_SINK (base);
  guint64 prompt_id = 0;

  if (tl_event_is (event, TL_EVENT_START)) {
    gst_structure_get_uint64 (gst_event_get_structure (event), "prompt-id", &prompt_id);
    close_reply (self, "cancelled");    /* its end was flushed away */
    self->flushed_id = 0;
    open_reply (self, prompt_id);
  } else if (tl_event_is (event, TL_EVENT_END)) {
    const char *reason = gst_structure_get_string (gst_event_get_structure (event), "reason");

    gst_structure_get_uint64 (gst_event_get_structure (event), "prompt-id", &prompt_id);
    if (!self->open && prompt_id != self->flushed_id)   /* its start was flushed away */
      open_reply (self, prompt_id);
    close_reply (self, reason ? reason : "stop");
  } else if (GST_EVENT_TYPE (event) == GST_EVENT_FLUSH_STOP && self->open) {
    self->flushed_id = self->prompt_id;
    close_reply (self, "cancelled");
  } else if (GST_EVENT_TYPE (event) == GST_EVENT_EOS)
    close_reply (self, "stop");
  return GST_BASE_SINK_CLASS (gst_tl_sink_parent_class)->event (base, event);
}

static gboolean
gst_tl_sink_stop (GstBaseSink *base)
{
  GST_TL_SINK (base)->open = FALSE;
  GST_TL_SINK (base)->flushed_id = 0;
  return TRUE;
}

/* ---- properties */

static void
gst_tl_sink_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  GST_OBJECT_LOCK (object);
  if (id == TL_PROP_POST_MESSAGES)
    GST_TL_SINK (object)->post_messages = g_value_get_boolean (value);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  GST_OBJECT_UNLOCK (object);
}

static void
gst_tl_sink_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  GST_OBJECT_LOCK (object);
  if (id == TL_PROP_POST_MESSAGES)
    g_value_set_boolean (value, GST_TL_SINK (object)->post_messages);
  else if (id == TL_PROP_LAST_REPLY)
    g_value_set_string (value, GST_TL_SINK (object)->last_reply);
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  GST_OBJECT_UNLOCK (object);
}

/* ---- class */

static void
gst_tl_sink_finalize (GObject *object)
{
  g_string_free (GST_TL_SINK (object)->reply, TRUE);
  g_free (GST_TL_SINK (object)->last_reply);
  G_OBJECT_CLASS (gst_tl_sink_parent_class)->finalize (object);
}

static void
gst_tl_sink_class_init (GstTlSinkClass *klass)
{
  GObjectClass *object = G_OBJECT_CLASS (klass);
  GstElementClass *element = GST_ELEMENT_CLASS (klass);
  GstBaseSinkClass *sink = GST_BASE_SINK_CLASS (klass);
  GType type = G_TYPE_FROM_CLASS (klass);

  object->set_property = gst_tl_sink_set_property;
  object->get_property = gst_tl_sink_get_property;
  object->finalize = gst_tl_sink_finalize;
  tl_properties_install (object, TL_ON_SINK);
  /* text (prompt-id, text); all three run in the streaming thread */
  signals[TEXT] = g_signal_new ("text", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 2, G_TYPE_UINT64,
      G_TYPE_STRING);
  /* sentence (prompt-id, text, last-index): last-index serves tldecode's truncate */
  signals[SENTENCE] = g_signal_new ("sentence", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 3,
      G_TYPE_UINT64, G_TYPE_STRING, G_TYPE_UINT);
  /* reply (prompt-id, text, reason) */
  signals[REPLY] = g_signal_new ("reply", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 3, G_TYPE_UINT64,
      G_TYPE_STRING, G_TYPE_STRING);
  sink->render = gst_tl_sink_render;
  sink->event = gst_tl_sink_event;
  sink->stop = gst_tl_sink_stop;
  gst_element_class_add_static_pad_template (element, &sink_template);
  gst_element_class_set_static_metadata (element, "Text sink for applications", "Sink/Text",
      "Hands the text of replies to an application", "The TinyLoop authors");
}

static void
gst_tl_sink_init (GstTlSink *self)
{
  self->reply = g_string_new (NULL);
  self->post_messages = TRUE;
  gst_base_sink_set_sync (GST_BASE_SINK (self), FALSE);
  gst_base_sink_set_async_enabled (GST_BASE_SINK (self), FALSE);
}
