/* gst/gsttldecode-reply.c — one reply of tldecode: begin, a step per pass, buffers with time and meta, the end.
 *
 * Runs in the srcpad's task only. The reply's end is pushed exactly once, whatever ends it, and the conversation
 * commits exactly the tokens whose push succeeded.
 */
#include "gsttldecode-private.h"
#include "tl-caps.h"
#include "tl-constraint.h"
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

static gboolean
takes_sequences (GstTlDecode *self)
{
  g_autoptr (GstCaps) caps = gst_pad_get_current_caps (self->sinkpad);

  return caps && gst_structure_has_name (gst_caps_get_structure (caps, 0), GST_TL_SEQUENCE_TYPE);
}

/* the element's settings with the options of the running prompt on top */
static GObject *
config_for_prompt (GstTlDecode *self, TlReply *reply)
{
  g_mutex_lock (&self->lock);
  GObject *config = tl_prompt_config_new (self->config, reply->options);
  g_mutex_unlock (&self->lock);
  return config;
}

static TlEngineReply *
begin_on_tokens (GstTlDecode *self, TlReply *reply, GObject *model, GObject *config, GError **error)
{
  GObject *conversation = tl_prompt_conversation (self->conversations, model, reply->options, error);
  g_autoptr (GArray) ids = conversation ? tl_prompt_ids (reply->prompt, error) : NULL;

  if (!ids)
    return NULL;
  reply->conversation = g_object_ref (conversation);
  return tl_engine_reply_begin (conversation, (const gint32 *) ids->data, ids->len,
      tl_prompt_keeps_history (self->history, model, reply->options), config, error);
}

static TlEngineReply *
begin_on_sequence (GstTlDecode *self, TlReply *reply, GObject *sequence, GObject *config, GError **error)
{
  g_mutex_lock (&self->lock);
  GstTlOnNewPrompt policy = self->on_new_prompt;
  g_mutex_unlock (&self->lock);
  reply->conversation = g_object_ref (tl_engine_sequence_get_conversation (sequence));
  return tl_engine_reply_begin_after (sequence, config, policy, error);
}

static gboolean
begin_in_engine (GstTlDecode *self, TlReply *reply, GError **error)
{
  GstClockTime waited = now ();
  g_autoptr (GObject) model = tl_prompt_wait_model (&self->holder, self->waiting, error);
  const char *refused;
  GObject *sequence = tl_sequence_meta_get (reply->prompt, &refused);

  if (!model)
    return FALSE;
  reply->report.load = now () - waited;
  reply->began = now ();
  if (!sequence && takes_sequences (self)) {
    g_set_error_literal (error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
        "a buffer without a sequence came where sequences were announced; put tlprefill before it");
    return FALSE;
  }
  g_autoptr (GObject) config = config_for_prompt (self, reply);
  if (!tl_constrain (config, model, reply->prompt, reply->options, error))
    return FALSE;
  reply->engine = sequence ? begin_on_sequence (self, reply, sequence, config, error)
      : begin_on_tokens (self, reply, model, config, error);
  if (!reply->engine)
    return FALSE;
  TlEngineFigures figures;

  tl_engine_reply_get_figures (reply->engine, &figures);
  reply->loops = figures.loops;
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
  reply->report.exact = TRUE;
  reply->options = g_steal_pointer (&self->options);
  if (!refused)
    tl_sequence_meta_get (prompt, &refused);
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
}

/* ---- tokens */

static GstClockTime
paced_pts (GstTlDecode *self, TlReply *reply)
{
  GstClockTime each = self->token_duration ? self->token_duration : self->mean_token;

  return GST_BUFFER_PTS (reply->prompt) + reply->report.tokens * each;
}

static GstClockTime
stamp (GstTlDecode *self, TlReply *reply)
{
  GstClockTime pts = GST_BUFFER_PTS (reply->prompt);
  GstTlTimestampMode mode = self->timestamp_mode;

  if (mode == TL_TIME_AUTO)
    mode = self->live ? TL_TIME_RUNNING : TL_TIME_INPUT;
  if (mode == TL_TIME_PACED)
    pts = paced_pts (self, reply);
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
    reply->last.finish, reply->last.cut, reply->last.measured, reply->logprob, reply->entropy / n, reply->last.top };

  GST_BUFFER_PTS (buffer) = stamp (self, reply);
  GST_BUFFER_DURATION (buffer) = n * (self->token_duration ? self->token_duration : self->mean_token);
  GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_NON_DROPPABLE);
  if (!reply->pushed_any)
    GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_DISCONT);
  if (reply->last.finish)
    GST_BUFFER_FLAG_SET (buffer, GST_BUFFER_FLAG_MARKER);
  tl_token_meta_add (buffer, &info);
  g_array_set_size (reply->ids, 0);
  reply->logprob = reply->entropy = 0;
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

/* takes the token's alternatives */
static GstFlowReturn
take_token (GstTlDecode *self, TlReply *reply, const TlEngineToken *token)
{
  GstFlowReturn ret = GST_FLOW_OK;

  g_array_append_val (reply->ids, token->id);
  reply->logprob += token->logprob;
  reply->entropy += token->entropy;
  g_clear_pointer (&reply->last.top, g_array_unref);
  reply->last = *token;
  measure (self, reply);
  if (reply->ids->len >= self->tokens_per_buffer || token->finish)
    ret = push_tokens (self, reply);
  if (token->finish && ret == GST_FLOW_OK)
    reply->ended = token->finish;
  return ret;
}

/* Until the next token is due: at its time when tokens are paced on a clock, else one token-duration for each token after
 * the first one left. */
static GstClockTimeDiff
time_left (GstTlDecode *self, TlReply *reply)
{
  GstClockTime running = gst_element_get_current_running_time (GST_ELEMENT (self)), latency = self->latency_ms * GST_MSECOND;

  if (self->timestamp_mode == TL_TIME_PACED && GST_CLOCK_TIME_IS_VALID (running)) {
    GstClockTime due = gst_segment_to_running_time (&self->segment, GST_FORMAT_TIME, paced_pts (self, reply));

    if (GST_CLOCK_TIME_IS_VALID (due))
      return GST_CLOCK_DIFF (running, due + latency);
  }
  guint decoded = reply->report.tokens + reply->ids->len;
  return GST_CLOCK_DIFF (now (), reply->first + decoded * self->token_duration + latency);
}

/* loops of the next token; 0: those the reply began with */
static guint
adapted_loops (GstTlDecode *self, TlReply *reply)
{
  guint min = MIN (self->min_loops, reply->loops);

  if (!self->adaptive_loops || self->token_duration == 0 || !GST_CLOCK_TIME_IS_VALID (reply->report.ttft))
    return 0;
  return tl_deadline_loops (&self->deadline, time_left (self, reply), min, reply->loops);
}

/* controlled properties take their value of the stream time the next token begins at */
static gboolean
prepare_token (GstTlDecode *self, TlReply *reply, GError **error)
{
  GstObject *object = GST_OBJECT (self);
  gboolean controlled = gst_object_has_active_control_bindings (object);

  if (controlled)
    gst_object_sync_values (object, gst_segment_to_stream_time (&self->segment, GST_FORMAT_TIME,
            GST_CLOCK_TIME_IS_VALID (self->last_pts) ? self->last_pts : self->segment.start));
  guint loops = adapted_loops (self, reply);

  if (!controlled && loops == 0)
    return TRUE;
  g_autoptr (GObject) config = config_for_prompt (self, reply);
  if (loops > 0) {
    g_object_set (config, "loops", loops, NULL);
    reply->adapted = TRUE;
  }
  return tl_engine_reply_update (reply->engine, config, error);
}

/* one pass; how long a pass of the reply took is noted for adaptive-loops */
static TlEngineStep
timed_step (GstTlDecode *self, TlReply *reply, TlEngineToken *token, GError **error)
{
  GstClockTime before = now ();
  gboolean first = !GST_CLOCK_TIME_IS_VALID (reply->report.ttft);
  TlEngineStep step = tl_engine_reply_step (reply->engine, token, error);

  if (step == TL_ENGINE_STEP_TOKEN && !first)
    tl_deadline_note (&self->deadline, token->loops, now () - before);
  return step;
}

static gboolean
is_late (GstTlDecode *self, TlReply *reply)
{
  g_mutex_lock (&self->lock);
  guint limit = self->timeout_ms;
  g_mutex_unlock (&self->lock);
  return limit && now () - reply->began > limit * GST_MSECOND;
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
  TlEngineStep step = TL_ENGINE_STEP_END;
  if (is_late (self, reply))
    token.finish = "timeout";
  else if (!is_cancelled (self))
    step = prepare_token (self, reply, &error) ? timed_step (self, reply, &token, &error) : TL_ENGINE_STEP_ERROR;
  if (is_cancelled (self)) {
    g_clear_pointer (&token.top, g_array_unref);
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
  report->exact = figures.exact && !reply->adapted;
  gboolean taken = FALSE;

  if (g_str_equal (reply->ended, "error"))
    tl_engine_reply_abort (reply->engine);
  else
    taken = tl_engine_reply_commit (reply->engine, report->tokens);
  reply->engine = NULL;
  self->last_committed = taken ? report->prompt_id : 0;
  g_clear_object (&self->last_conversation);
  if (taken)
    self->last_conversation = g_steal_pointer (&reply->conversation);
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
  g_clear_pointer (&reply->options, gst_structure_free);
  g_array_unref (reply->ids);
  g_clear_pointer (&reply->last.top, g_array_unref);
  g_clear_object (&reply->conversation);
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
  g_clear_object (&self->last_conversation);
}
