/* gst/gsttldecode-reply.c — one reply of tldecode: begin, a step per pass, buffers with time and meta, the end.
 *
 * Runs in the srcpad's task only. The reply's end is pushed exactly once, whatever ends it, and the conversation
 * commits exactly the tokens whose push succeeded.
 */
#include "gsttldecode-private.h"
#include "tl-token-meta.h"


static GstClockTime
now (void)
{
  return g_get_monotonic_time () * GST_USECOND;
}

static gboolean
is_cancelled (GstTlDecode *self)
{
  g_mutex_lock (&self->lock);
  gboolean cancelled = self->reply->report.prompt_id <= self->cancel_upto || self->srcresult != GST_FLOW_OK
      || self->own_flush;
  g_mutex_unlock (&self->lock);
  return cancelled;
}

/* ---- brackets */

/* probe of the srcpad: a flushing pad drops an event before it comes here */
GstPadProbeReturn
tl_decode_note_bracket (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  GstTlDecode *self = data;
  GstEvent *event = gst_pad_probe_info_get_event (info);

  if (tl_event_is (event, TL_EVENT_START) || tl_event_is (event, TL_EVENT_END))
    self->bracket_left = TRUE;
  return GST_PAD_PROBE_OK;
}

/* takes @event, a start or an end. One that meets our own flush waits for its end, so that the pair stays whole */
static void
push_bracket (GstTlDecode *self, GstEvent *event)
{
  self->bracket_left = FALSE;
  gst_pad_push_event (self->srcpad, gst_event_ref (event));
  g_mutex_lock (&self->lock);
  gboolean again = !self->bracket_left && (self->flushes_asked > 0 || self->own_flush || self->resend);
  g_mutex_unlock (&self->lock);
  if (again)
    g_queue_push_tail (&self->unsent, event);
  else
    gst_event_unref (event);
}

void
tl_decode_send_unsent (GstTlDecode *self)
{
  for (guint n = g_queue_get_length (&self->unsent); n > 0; n--)
    push_bracket (self, g_queue_pop_head (&self->unsent));
}

void
tl_decode_forget_unsent (GstTlDecode *self)
{
  g_queue_clear_full (&self->unsent, (GDestroyNotify) gst_event_unref);
}

/* ---- begin */

static TlEngineConversation *
conversation_for (GstTlDecode *self, GObject *model, const char *id, GError **error)
{
  TlEngineConversation *conversation = g_hash_table_lookup (self->conversations, id);

  if (!conversation && (conversation = tl_engine_conversation_new (model, error)))
    g_hash_table_insert (self->conversations, g_strdup (id), conversation);
  return conversation;
}

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

/* a copy of the element's settings with the options of one prompt on top */
static GObject *
config_for_prompt (GstTlDecode *self)
{
  GObject *config = tl_engine_config_new ();
  guint n;
  g_autofree GParamSpec **pspecs = g_object_class_list_properties (G_OBJECT_GET_CLASS (config), &n);

  g_mutex_lock (&self->lock);
  for (guint i = 0; i < n; i++) {
    g_auto (GValue) value = G_VALUE_INIT;

    if ((pspecs[i]->flags & G_PARAM_READWRITE) != G_PARAM_READWRITE || (pspecs[i]->flags & G_PARAM_CONSTRUCT_ONLY)
        || G_IS_PARAM_SPEC_BOXED (pspecs[i]) != (pspecs[i]->value_type == G_TYPE_STRV))
      continue;
    g_value_init (&value, pspecs[i]->value_type);
    g_object_get_property (self->config, pspecs[i]->name, &value);
    g_object_set_property (config, pspecs[i]->name, &value);
  }
  g_mutex_unlock (&self->lock);
  if (self->options)
    gst_structure_foreach (self->options, copy_option, config);
  return config;
}

static gboolean
keeps_history (GstTlDecode *self, GObject *model)
{
  const char *asked = self->options ? gst_structure_get_string (self->options, "history") : NULL;

  if (asked)
    return g_str_equal (asked, "keep");
  return self->history == TL_HISTORY_KEEP
      || (self->history == TL_HISTORY_AUTO && tl_engine_model_keeps_history (model));
}

static gboolean
begin_in_engine (GstTlDecode *self, TlReply *reply, GError **error)
{
  const char *id = self->options ? gst_structure_get_string (self->options, "conversation") : NULL;
  GstClockTime waited = now ();
  g_autoptr (GObject) model = tl_model_holder_find (&self->holder);
  g_autoptr (GObject) config = NULL;
  TlEngineConversation *conversation;
  GstMapInfo map;

  if (!model) {
    g_set_error_literal (error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
        "no model; set model-path on it or on an element before it");
    return FALSE;
  }
  if (!tl_model_holder_wait (&self->holder, self->waiting, error))
    return FALSE;
  reply->report.load = now () - waited;
  reply->began = now ();
  if (gst_buffer_get_size (reply->prompt) % sizeof (gint32) != 0) {
    g_set_error (error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
        "a prompt of %zu bytes is no whole number of 32-bit ids; send each id whole", gst_buffer_get_size (reply->prompt));
    return FALSE;
  }
  if (!(conversation = conversation_for (self, model, id ? id : "", error)))
    return FALSE;
  config = config_for_prompt (self);
  gst_buffer_map (reply->prompt, &map, GST_MAP_READ);
  reply->engine = tl_engine_reply_begin (conversation, (const gint32 *) map.data, map.size / sizeof (gint32),
      keeps_history (self, model), config, error);
  gst_buffer_unmap (reply->prompt, &map);
  if (!reply->engine)
    return FALSE;
  self->last_conversation = conversation;
  self->last_committed = reply->report.prompt_id;
  g_mutex_lock (&self->lock);
  self->running = reply->engine;
  g_mutex_unlock (&self->lock);
  return TRUE;
}

static void
fail (GstTlDecode *self, const GError *error)
{
  self->reply->ended = "error";
  GST_ELEMENT_ERROR (self, STREAM, FAILED, ("%s: %s", GST_ELEMENT_NAME (self), error->message), (NULL));
}

/* takes @prompt; @refused: the reply ends at once with this reason */
void
tl_decode_begin (GstTlDecode *self, GstBuffer *prompt, const char *refused)
{
  TlReply *reply = g_new0 (TlReply, 1);
  g_autoptr (GError) error = NULL;

  reply->prompt = prompt;
  reply->ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  reply->began = now ();
  reply->report.ttft = reply->report.duration = GST_CLOCK_TIME_NONE;
  reply->ended = refused;
  self->reply = reply;
  g_mutex_lock (&self->lock);
  reply->report.prompt_id = ++self->last_id;
  self->replying = TRUE;
  g_mutex_unlock (&self->lock);
  push_bracket (self, tl_event_new_start (reply->report.prompt_id));

  if (!refused && !begin_in_engine (self, reply, &error)) {
    if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
      reply->ended = "cancelled";
    else
      fail (self, error);
  }
  g_clear_pointer (&self->options, gst_structure_free);
}

/* ---- tokens */

static GstClockTime
stamp (GstTlDecode *self, TlReply *reply)
{
  GstClockTime prompt = GST_BUFFER_PTS (reply->prompt), pts = prompt;
  GstTlTimestampMode mode = self->timestamp_mode;
  GstClockTime each = self->token_duration ? self->token_duration : self->mean_token;

  if (mode == TL_TIME_AUTO)
    mode = self->live ? TL_TIME_RUNNING : TL_TIME_INPUT;
  if (mode == TL_TIME_PACED)
    pts = prompt + reply->report.tokens * each;
  else if (mode == TL_TIME_RUNNING) {
    GstClockTime running = gst_element_get_current_running_time (GST_ELEMENT (self));

    if (GST_CLOCK_TIME_IS_VALID (running))
      pts = gst_segment_position_from_running_time (&self->segment, GST_FORMAT_TIME, running);
  }
  if (!GST_CLOCK_TIME_IS_VALID (pts))
    pts = self->segment.start;
  if (GST_CLOCK_TIME_IS_VALID (self->last_pts) && mode != TL_TIME_INPUT)
    pts = MAX (pts, self->last_pts);
  return self->last_pts = pts;
}

/* pushes what has been collected; report.tokens counts only what arrived */
static GstFlowReturn
push_tokens (GstTlDecode *self, TlReply *reply)
{
  guint n = reply->ids->len;
  GstFlowReturn ret;

  if (n == 0)
    return GST_FLOW_OK;
  GstBuffer *buffer = gst_buffer_new_memdup (reply->ids->data, n * sizeof (gint32));
  TlTokenInfo info = { reply->report.prompt_id, reply->report.tokens, reply->last.special, reply->last.loops,
    reply->last.finish };

  GST_BUFFER_PTS (buffer) = stamp (self, reply);
  GST_BUFFER_DURATION (buffer) = n * (self->token_duration ? self->token_duration : self->mean_token);
  GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_NON_DROPPABLE);
  if (!reply->pushed_any)
    GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  if (reply->last.finish)
    GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_MARKER);
  tl_token_meta_add (buffer, &info);
  g_array_set_size (reply->ids, 0);
  reply->pushed_any = TRUE;
  ret = gst_pad_push (self->srcpad, buffer);
  if (ret == GST_FLOW_OK)
    reply->report.tokens += n;
  return ret;
}

static void
measure (GstTlDecode *self, TlReply *reply)
{
  GstClockTime t = now ();
  guint decoded = reply->report.tokens + reply->ids->len;

  if (!GST_CLOCK_TIME_IS_VALID (reply->report.ttft)) {
    reply->first = t;
    reply->report.ttft = reply->report.prefill = t - reply->began;
  } else if (decoded > 1)
    self->mean_token = MAX ((t - reply->first) / (decoded - 1), 1);
  reply->report.duration = t - reply->began;
}

static GstFlowReturn
take_token (GstTlDecode *self, TlReply *reply, const TlEngineToken *token)
{
  GstFlowReturn ret = GST_FLOW_OK;

  g_array_append_val (reply->ids, token->id);
  reply->last = *token;
  measure (self, reply);
  if (reply->ids->len >= self->tokens_per_buffer || token->finish)
    ret = push_tokens (self, reply);
  if (token->finish && ret == GST_FLOW_OK)
    reply->ended = token->finish;
  return ret;
}

static void
sync_controls (GstTlDecode *self)
{
  GstObject *object = GST_OBJECT (self);

  if (gst_object_has_active_control_bindings (object))
    gst_object_sync_values (object, gst_segment_to_stream_time (&self->segment, GST_FORMAT_TIME,
            GST_CLOCK_TIME_IS_VALID (self->last_pts) ? self->last_pts : self->segment.start));
}

/* one pass of the running reply */
GstFlowReturn
tl_decode_step (GstTlDecode *self)
{
  TlReply *reply = self->reply;
  TlEngineToken token = { 0 };
  g_autoptr (GError) error = NULL;
  GstFlowReturn ret = GST_FLOW_OK;

  if (reply->ended)
    return GST_FLOW_OK;
  sync_controls (self);
  TlEngineStep step = is_cancelled (self) ? TL_ENGINE_STEP_END : tl_engine_reply_step (reply->engine, &token, &error);
  if (is_cancelled (self)) {
    reply->ended = "cancelled";
    return GST_FLOW_OK;
  }
  switch (step) {
    case TL_ENGINE_STEP_PREFILL:
      if (self->live)
        gst_pad_push_event (self->srcpad, gst_event_new_gap (GST_CLOCK_TIME_IS_VALID (self->last_pts)
                ? self->last_pts : self->segment.start, 0));
      break;
    case TL_ENGINE_STEP_TOKEN:
      ret = take_token (self, reply, &token);
      break;
    case TL_ENGINE_STEP_END:
      ret = push_tokens (self, reply);
      if (ret == GST_FLOW_OK)
        reply->ended = token.finish ? token.finish : "stop";
      break;
    case TL_ENGINE_STEP_ERROR:
      push_tokens (self, reply);
      fail (self, error);
      break;
  }
  if (ret == GST_FLOW_EOS)
    reply->ended = "downstream-eos";
  else if (ret == GST_FLOW_FLUSHING)
    reply->ended = "cancelled";
  else if (ret != GST_FLOW_OK) {
    reply->ended = "error";
    GST_ELEMENT_FLOW_ERROR (self, ret);
  }
  return ret;
}

/* ---- end */

static void
settle (GstTlDecode *self, TlReply *reply)
{
  TlGenerationReport *report = &reply->report;
  TlEngineFigures figures = { 0 };

  g_mutex_lock (&self->lock);
  self->running = NULL;
  self->replying = FALSE;
  g_mutex_unlock (&self->lock);
  report->reason = reply->ended;
  report->prompt_tokens = gst_buffer_get_size (reply->prompt) / sizeof (gint32);
  if (!reply->engine)
    return;
  tl_engine_reply_get_figures (reply->engine, &figures);
  report->prompt_tokens = figures.prompt_tokens;
  report->cached = figures.cached_tokens;
  report->loops = figures.loops;
  if (g_str_equal (reply->ended, "error"))
    tl_engine_reply_abort (reply->engine);
  else
    tl_engine_reply_commit (reply->engine, report->tokens);
  reply->engine = NULL;
}

static void
tell (GstTlDecode *self, TlReply *reply)
{
  g_mutex_lock (&self->lock);
  self->total_replies++;
  self->total_tokens += reply->report.tokens;
  g_clear_pointer (&self->stats, gst_structure_free);
  self->stats = tl_generation_structure_new ("stats", &reply->report);
  gst_structure_set (self->stats, "total-replies", G_TYPE_UINT64, self->total_replies, "total-tokens", G_TYPE_UINT64,
      self->total_tokens, NULL);
  gboolean post = self->post_messages;
  g_mutex_unlock (&self->lock);

  if (post)
    gst_element_post_message (GST_ELEMENT (self), gst_message_new_element (GST_OBJECT (self),
            tl_generation_structure_new (TL_MESSAGE_GENERATION, &reply->report)));
}

static void
reply_free (TlReply *reply)
{
  gst_buffer_unref (reply->prompt);
  g_array_unref (reply->ids);
  g_free (reply);
}

/* commits, pushes generation-end, posts the message */
GstFlowReturn
tl_decode_finish (GstTlDecode *self)
{
  TlReply *reply = self->reply;
  GstFlowReturn ret = g_str_equal (reply->ended, "error") ? GST_FLOW_ERROR
      : g_str_equal (reply->ended, "downstream-eos") ? GST_FLOW_EOS : GST_FLOW_OK;

  settle (self, reply);
  push_bracket (self, tl_event_new_end (&reply->report));
  tell (self, reply);
  self->reply = NULL;
  reply_free (reply);
  return ret;
}

/* as finish, when nothing can be pushed any more: upstream flush, state change */
void
tl_decode_abandon (GstTlDecode *self, const char *reason)
{
  TlReply *reply = self->reply;

  if (!reply)
    return;
  if (!reply->ended)
    reply->ended = reason;
  settle (self, reply);
  tell (self, reply);
  self->reply = NULL;
  reply_free (reply);
}

void
tl_decode_forget (GstTlDecode *self)
{
  g_hash_table_remove_all (self->conversations);
  self->last_conversation = NULL;
}
