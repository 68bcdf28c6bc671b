/* gst/gsttltokenize.c — tltokenize: cuts a text stream into prompts, renders each with the chat template, encodes it.
 *
 * gst-launch-1.0 fdsrc ! tltokenize framing=line model-path=demo.tinyloop ! tldecode ! tldetokenize ! fdsink
 *
 * Upstream may send neither CAPS nor a TIME segment (fdsrc, filesrc): the element sends its own before its first buffer.
 */
#include "gsttltokenize.h"
#include "tl-caps.h"
#include "tl-engine.h"
#include "tl-generation-events.h"
#include "tl-prompt.h"

#include <string.h>

#define MAX_TEXT (16u << 20)    /* bytes collected for one prompt */

GST_DEBUG_CATEGORY_STATIC (tl_tokenize_debug);
#define GST_CAT_DEFAULT tl_tokenize_debug

static GstStaticPadTemplate sink_template =
GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TEXT_IN_CAPS));
static GstStaticPadTemplate src_template =
GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("prompt")));

struct _GstTlTokenize
{
  GstBaseTransform parent;
  TlModelHolder holder;

  /* properties, under the object lock */
  GstTlFraming framing;
  GstTlOverflow overflow;
  GstTlHistory history;
  char *system_prompt, *chat_template;
  guint max_prompt_tokens;

  /* the streaming thread's */
  GObject *model;
  GByteArray *text;             /* received and not yet part of a prompt */
  GQueue prompts;               /* GstBuffer, ready to go out */
  GstClockTime pts, duration;   /* of the text's first buffer */
  gboolean bytes_segment, caps_sent, segment_sent;
  GstSegment segment;
  GHashTable *begun;            /* ids of the conversations that have had a prompt */
  GstStructure *options;        /* prompt-options, for the next prompt */

  int reset;                    /* atomic: the decoder has forgotten its conversations */
};

G_DEFINE_FINAL_TYPE (GstTlTokenize, gst_tl_tokenize, GST_TYPE_BASE_TRANSFORM)
GST_ELEMENT_REGISTER_DEFINE (tltokenize, "tltokenize", GST_RANK_NONE, GST_TYPE_TL_TOKENIZE)

/* ---- prompts */

/* CAPS and a TIME segment go out before the first buffer, whatever upstream sent */
static gboolean
announce (GstTlTokenize *self)
{
  GstPad *src = GST_BASE_TRANSFORM_SRC_PAD (self);

  if (!self->model && !(self->model = tl_model_holder_require (&self->holder)))
    return FALSE;
  if (!self->caps_sent) {
    g_autoptr (GstCaps) caps = tl_caps_new_tokens (self->model, "prompt");

    self->caps_sent = TRUE;
    gst_pad_push_event (src, gst_event_new_caps (caps));
  }
  if (!self->segment_sent) {
    self->segment_sent = TRUE;
    gst_pad_push_event (src, gst_event_new_segment (&self->segment));
  }
  return TRUE;
}

static GArray *
encode_within (GstTlTokenize *self, const TlEngineTurn *turn, guint limit, GstTlOverflow overflow, GError **error)
{
  guint n_head = 0;
  g_autoptr (GArray) ids = tl_engine_encode_turn (self->model, turn, &n_head, error);

  if (!ids || ids->len <= limit)
    return g_steal_pointer (&ids);
  if (overflow == TL_OVERFLOW_ERROR) {
    g_set_error (error, GST_STREAM_ERROR, GST_STREAM_ERROR_ENCODE,
        "the prompt has %u tokens, %u are allowed; shorten it or set overflow=truncate-left", ids->len, limit);
    return NULL;
  }
  /* what stands before the user's text is kept, then the newest tokens that still fit */
  n_head = n_head < limit ? n_head : 0;
  g_array_remove_range (ids, n_head, ids->len - limit);
  return g_steal_pointer (&ids);
}

static const char *
option (GstStructure *options, const char *name, const char *otherwise)
{
  const char *value = options ? gst_structure_get_string (options, name) : NULL;

  return value ? value : otherwise;
}

/* text[length] becomes a prompt buffer in the queue; FALSE after an element error */
static gboolean
add_prompt (GstTlTokenize *self, const char *bytes, gsize length)
{
  g_autofree char *system_prompt = NULL, *chat_template = NULL;
  g_autoptr (GstStructure) options = g_steal_pointer (&self->options);
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) ids = NULL;
  const char *bad;

  while (length > 0 && bytes[length - 1] == '\0')
    length--;
  if (!g_utf8_validate_len (bytes, length, &bad)) {
    GST_ELEMENT_ERROR (self, STREAM, DECODE, ("%s: the prompt is not valid UTF-8 at byte %zu; convert it first",
            GST_ELEMENT_NAME (self), (gsize) (bad - bytes)), (NULL));
    return FALSE;
  }
  if (length == 0) {
    GST_ELEMENT_WARNING (self, STREAM, FORMAT, ("%s: an empty prompt was left out", GST_ELEMENT_NAME (self)), (NULL));
    return TRUE;
  }
  if (!announce (self))
    return FALSE;

  g_autofree char *text = g_strndup (bytes, length);
  GST_OBJECT_LOCK (self);
  system_prompt = g_strdup (self->system_prompt);
  chat_template = g_strdup (self->chat_template);
  guint limit = self->max_prompt_tokens;
  GstTlOverflow overflow = self->overflow;
  GST_OBJECT_UNLOCK (self);
  guint context = tl_engine_model_context_size (self->model);
  limit = MIN (limit > 0 ? limit : G_MAXUINT, context - 1);

  const char *conversation = option (options, "conversation", "");
  if (g_atomic_int_compare_and_exchange (&self->reset, TRUE, FALSE))
    g_hash_table_remove_all (self->begun);
  gboolean keeps = tl_prompt_keeps_history (self->history, self->model, options);
  const TlEngineTurn turn = { chat_template ? chat_template : "none", system_prompt, option (options, "role", "user"), text,
    !keeps || !g_hash_table_contains (self->begun, conversation) };
  ids = encode_within (self, &turn, limit, overflow, &error);
  if (!ids) {
    GST_ELEMENT_ERROR (self, STREAM, ENCODE, ("%s: %s", GST_ELEMENT_NAME (self), error->message), (NULL));
    return FALSE;
  }
  g_hash_table_add (self->begun, g_strdup (conversation));

  GstBuffer *buffer = gst_buffer_new_memdup (ids->data, ids->len * sizeof (gint32));
  GST_BUFFER_PTS (buffer) = GST_CLOCK_TIME_IS_VALID (self->pts) ? self->pts : self->segment.position;
  GST_BUFFER_DURATION (buffer) = GST_CLOCK_TIME_IS_VALID (self->duration) ? self->duration : 0;
  self->segment.position = GST_BUFFER_PTS (buffer) + GST_BUFFER_DURATION (buffer);
  GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_NON_DROPPABLE);
  g_queue_push_tail (&self->prompts, buffer);
  return TRUE;
}

static gboolean
take_lines (GstTlTokenize *self, gboolean last)
{
  const char *data = (const char *) self->text->data;
  gsize length = self->text->len, start = 0;
  gboolean ok = TRUE;

  while (ok && start < length) {
    const char *newline = memchr (data + start, '\n', length - start);
    gsize end = newline ? newline - data : length, next = newline ? end + 1 : length;

    if (!newline && !last)
      break;
    if (end > start && data[end - 1] == '\r')
      end--;
    if (end > start)            /* blank lines separate, they ask nothing */
      ok = add_prompt (self, data + start, end - start);
    start = next;
  }
  g_byte_array_remove_range (self->text, 0, start);
  return ok;
}

static gboolean
take_all (GstTlTokenize *self)
{
  gsize length = self->text->len;
  gboolean ok;

  if (length == 0)
    return TRUE;
  if (self->text->data[length - 1] == '\n')
    length--;
  if (length > 0 && self->text->data[length - 1] == '\r')
    length--;
  ok = add_prompt (self, (const char *) self->text->data, length);
  g_byte_array_set_size (self->text, 0);
  return ok;
}

static GstTlFraming
effective_framing (GstTlTokenize *self)
{
  if (self->framing != TL_FRAMING_AUTO)
    return self->framing;
  return self->bytes_segment ? TL_FRAMING_EOS : TL_FRAMING_BUFFER;
}

static GstFlowReturn
gst_tl_tokenize_submit (GstBaseTransform *trans, gboolean is_discont, GstBuffer *input)
{
  GstTlTokenize *self = GST_TL_TOKENIZE (trans);
  GstTlFraming framing = effective_framing (self);
  GstMapInfo map;
  gboolean ok;

  if (!announce (self) || !gst_buffer_map (input, &map, GST_MAP_READ)) {
    gst_buffer_unref (input);
    return GST_FLOW_ERROR;
  }
  if (self->text->len == 0) {
    self->pts = GST_BUFFER_PTS (input);
    self->duration = GST_BUFFER_DURATION (input);
  }
  if (framing == TL_FRAMING_BUFFER)
    ok = add_prompt (self, (const char *) map.data, map.size);
  else {
    g_byte_array_append (self->text, map.data, map.size);
    ok = framing != TL_FRAMING_LINE || take_lines (self, FALSE);
    if (ok && self->text->len > MAX_TEXT) {
      GST_ELEMENT_ERROR (self, STREAM, ENCODE, ("%s: the prompt has more than %u MiB and no end yet; cut it, or set framing",
              GST_ELEMENT_NAME (self), MAX_TEXT >> 20), (NULL));
      ok = FALSE;
    }
  }
  gst_buffer_unmap (input, &map);
  gst_buffer_unref (input);
  return ok ? GST_FLOW_OK : GST_FLOW_ERROR;
}

static GstFlowReturn
gst_tl_tokenize_generate (GstBaseTransform *trans, GstBuffer **output)
{
  *output = g_queue_pop_head (&GST_TL_TOKENIZE (trans)->prompts);
  return GST_FLOW_OK;
}

/* pushes what a serialized event ends; runs in the streaming thread */
static void
drain (GstTlTokenize *self)
{
  GstTlFraming framing = effective_framing (self);
  GstBuffer *buffer;

  if (framing == TL_FRAMING_LINE)
    take_lines (self, TRUE);
  else if (framing == TL_FRAMING_EOS)
    take_all (self);
  while ((buffer = g_queue_pop_head (&self->prompts)))
    gst_pad_push (GST_BASE_TRANSFORM_SRC_PAD (self), buffer);
}

/* ---- events and queries */

static void
forget (GstTlTokenize *self)
{
  g_byte_array_set_size (self->text, 0);
  g_queue_clear_full (&self->prompts, (GDestroyNotify) gst_buffer_unref);
  g_clear_pointer (&self->options, gst_structure_free);
}

static void
on_segment (GstTlTokenize *self, GstEvent *event)
{
  const GstSegment *segment;

  gst_event_parse_segment (event, &segment);
  self->bytes_segment = segment->format != GST_FORMAT_TIME;
  if (self->bytes_segment)
    gst_segment_init (&self->segment, GST_FORMAT_TIME);
  else
    gst_segment_copy_into (segment, &self->segment);
  if (!GST_CLOCK_TIME_IS_VALID (self->segment.position))
    self->segment.position = self->segment.start;
  self->segment_sent = FALSE;
  if (self->model || (self->model = tl_model_holder_find (&self->holder)))
    announce (self);
}

static gboolean
gst_tl_tokenize_sink_event (GstBaseTransform *trans, GstEvent *event)
{
  GstTlTokenize *self = GST_TL_TOKENIZE (trans);

  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_CAPS:
      gst_event_unref (event);
      return TRUE;
    case GST_EVENT_SEGMENT:
      on_segment (self, event);
      gst_event_unref (event);
      return TRUE;
    case GST_EVENT_STREAM_START:       /* as after concat: the old stream's prompt ends, a new conversation begins */
      drain (self);
      g_hash_table_remove_all (self->begun);
      break;
    case GST_EVENT_EOS:
      drain (self);
      break;
    case GST_EVENT_FLUSH_STOP:
      forget (self);
      gst_segment_init (&self->segment, GST_FORMAT_TIME);
      self->segment_sent = FALSE;
      break;
    case GST_EVENT_CUSTOM_DOWNSTREAM:
      if (tl_event_is (event, TL_EVENT_FINAL_TRANSCRIPT))
        drain (self);
      if (tl_event_is (event, TL_EVENT_OPTIONS)) {
        g_clear_pointer (&self->options, gst_structure_free);
        self->options = gst_structure_copy (gst_event_get_structure (event));
      }
      break;
    default:
      break;
  }
  return GST_BASE_TRANSFORM_CLASS (gst_tl_tokenize_parent_class)->sink_event (trans, event);
}

static gboolean
gst_tl_tokenize_src_event (GstBaseTransform *trans, GstEvent *event)
{
  if (!tl_event_is (event, TL_EVENT_RESET))
    return GST_BASE_TRANSFORM_CLASS (gst_tl_tokenize_parent_class)->src_event (trans, event);
  g_atomic_int_set (&GST_TL_TOKENIZE (trans)->reset, TRUE);
  gst_event_unref (event);
  return TRUE;
}

static gboolean
gst_tl_tokenize_query (GstBaseTransform *trans, GstPadDirection direction, GstQuery *query)
{
  return tl_model_holder_answer (&GST_TL_TOKENIZE (trans)->holder, query)
      || GST_BASE_TRANSFORM_CLASS (gst_tl_tokenize_parent_class)->query (trans, direction, query);
}

static GstCaps *
gst_tl_tokenize_transform_caps (GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps, GstCaps *filter)
{
  g_autoptr (GstCaps) text = gst_static_pad_template_get_caps (&sink_template);

  if (direction == GST_PAD_SINK)
    return tl_caps_for_pad (&GST_TL_TOKENIZE (trans)->holder, &src_template, filter);
  return filter ? gst_caps_intersect_full (filter, text, GST_CAPS_INTERSECT_FIRST) : g_steal_pointer (&text);
}

static gboolean
gst_tl_tokenize_accept_caps (GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps)
{
  return tl_caps_fit_template (direction == GST_PAD_SINK ? &sink_template : &src_template, caps);
}

static void
gst_tl_tokenize_set_context (GstElement *element, GstContext *context)
{
  tl_model_holder_set_context (&GST_TL_TOKENIZE (element)->holder, context);
  GST_ELEMENT_CLASS (gst_tl_tokenize_parent_class)->set_context (element, context);
}

/* ---- state changes */

static GstStateChangeReturn
gst_tl_tokenize_change_state (GstElement *element, GstStateChange transition)
{
  GstTlTokenize *self = GST_TL_TOKENIZE (element);

  if (transition == GST_STATE_CHANGE_NULL_TO_READY && !tl_model_holder_open (&self->holder))
    return GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED) {
    gst_segment_init (&self->segment, GST_FORMAT_TIME);
    self->bytes_segment = self->caps_sent = self->segment_sent = FALSE;
    g_hash_table_remove_all (self->begun);
    g_atomic_int_set (&self->reset, FALSE);
    self->model = tl_model_holder_find (&self->holder);
  }
  GstStateChangeReturn ret = GST_ELEMENT_CLASS (gst_tl_tokenize_parent_class)->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) {
    forget (self);
    g_clear_object (&self->model);
  }
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    tl_model_holder_release (&self->holder);
  return ret;
}

/* ---- properties */

static void
gst_tl_tokenize_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  GstTlTokenize *self = GST_TL_TOKENIZE (object);

  if (tl_model_holder_set_property (&self->holder, id, value))
    return;
  GST_OBJECT_LOCK (self);
  switch (id) {
    case TL_PROP_FRAMING: self->framing = g_value_get_enum (value); break;
    case TL_PROP_OVERFLOW: self->overflow = g_value_get_enum (value); break;
    case TL_PROP_HISTORY: self->history = g_value_get_enum (value); break;
    case TL_PROP_MAX_PROMPT_TOKENS: self->max_prompt_tokens = g_value_get_uint (value); break;
    case TL_PROP_SYSTEM_PROMPT: g_free (self->system_prompt); self->system_prompt = g_value_dup_string (value); break;
    case TL_PROP_CHAT_TEMPLATE: g_free (self->chat_template); self->chat_template = g_value_dup_string (value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  GST_OBJECT_UNLOCK (self);
}

static void
gst_tl_tokenize_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  GstTlTokenize *self = GST_TL_TOKENIZE (object);

  if (tl_model_holder_get_property (&self->holder, id, value))
    return;
  GST_OBJECT_LOCK (self);
  switch (id) {
    case TL_PROP_FRAMING: g_value_set_enum (value, self->framing); break;
    case TL_PROP_OVERFLOW: g_value_set_enum (value, self->overflow); break;
    case TL_PROP_HISTORY: g_value_set_enum (value, self->history); break;
    case TL_PROP_MAX_PROMPT_TOKENS: g_value_set_uint (value, self->max_prompt_tokens); break;
    case TL_PROP_SYSTEM_PROMPT: g_value_set_string (value, self->system_prompt); break;
    case TL_PROP_CHAT_TEMPLATE: g_value_set_string (value, self->chat_template); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  GST_OBJECT_UNLOCK (self);
}

/* ---- class */

static void
gst_tl_tokenize_finalize (GObject *object)
{
  GstTlTokenize *self = GST_TL_TOKENIZE (object);

  forget (self);
  g_clear_object (&self->model);
  g_byte_array_unref (self->text);
  g_free (self->system_prompt);
  g_free (self->chat_template);
  g_hash_table_unref (self->begun);
  tl_model_holder_clear (&self->holder);
  G_OBJECT_CLASS (gst_tl_tokenize_parent_class)->finalize (object);
}

static void
gst_tl_tokenize_class_init (GstTlTokenizeClass *klass)
{
  GObjectClass *object = G_OBJECT_CLASS (klass);
  GstElementClass *element = GST_ELEMENT_CLASS (klass);
  GstBaseTransformClass *trans = GST_BASE_TRANSFORM_CLASS (klass);

  GST_DEBUG_CATEGORY_INIT (tl_tokenize_debug, "tltokenize", 0, "text to prompt tokens");
  object->set_property = gst_tl_tokenize_set_property;
  object->get_property = gst_tl_tokenize_get_property;
  object->finalize = gst_tl_tokenize_finalize;
  tl_properties_install (object, TL_ON_TOKENIZE);
  element->change_state = gst_tl_tokenize_change_state;
  element->set_context = gst_tl_tokenize_set_context;
  trans->submit_input_buffer = gst_tl_tokenize_submit;
  trans->generate_output = gst_tl_tokenize_generate;
  trans->sink_event = gst_tl_tokenize_sink_event;
  trans->query = gst_tl_tokenize_query;
  trans->src_event = gst_tl_tokenize_src_event;
  trans->transform_caps = gst_tl_tokenize_transform_caps;
  trans->accept_caps = gst_tl_tokenize_accept_caps;
  gst_element_class_add_static_pad_template (element, &sink_template);
  gst_element_class_add_static_pad_template (element, &src_template);
  gst_element_class_set_static_metadata (element, "Tokenizer of a language model", "Text/LLM/Filter",
      "Cuts text into prompts and encodes them as tokens", "The TinyLoop authors");
}

static void
gst_tl_tokenize_init (GstTlTokenize *self)
{
  tl_model_holder_init (&self->holder, GST_ELEMENT (self));
  self->text = g_byte_array_new ();
  self->chat_template = g_strdup ("auto");
  self->begun = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gst_segment_init (&self->segment, GST_FORMAT_TIME);
}
