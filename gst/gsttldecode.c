/* gst/gsttldecode.c — tldecode: streams a reply token by token from its srcpad's task; prompts wait in a bounded queue.
 *
 * gst-launch-1.0 fdsrc ! tltokenize framing=line model-path=demo.tinyloop ! tldecode ! tldetokenize ! fdsink
 *
 * Prompts, serialized events and queries go through one queue, so EOS leaves after the last token. Flush in gstqueue's
 * order: downstream first, then the queue, then the task. A cancel from any thread sets marks and returns; its flush runs
 * from gst_element_call_async. The reply itself: gsttldecode-reply.c.
 */
#include "gsttldecode-private.h"
#include "tl-caps.h"

GST_DEBUG_CATEGORY_STATIC (tl_decode_debug);
#define GST_CAT_DEFAULT tl_decode_debug

static GstStaticPadTemplate sink_template =
GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("prompt") "; " GST_TL_SEQUENCE_TYPE));
static GstStaticPadTemplate src_template =
GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TOKENS_CAPS ("reply")));

G_DEFINE_FINAL_TYPE_WITH_CODE (GstTlDecode, gst_tl_decode, GST_TYPE_ELEMENT,
    G_IMPLEMENT_INTERFACE (GST_TYPE_PRESET, tl_properties_init_preset))
GST_ELEMENT_REGISTER_DEFINE (tldecode, "tldecode", GST_RANK_NONE, GST_TYPE_TL_DECODE)

enum { CANCEL, RESET, TRUNCATE, N_SIGNALS };
static guint signals[N_SIGNALS];

typedef struct
{
  GstMiniObject *object;        /* buffer, event or query; a query is its sender's */
  const char *refused;          /* prompts: end at once with this reason */
  gboolean counted;             /* in n_waiting */
  gboolean *done;               /* queries: set when answered, under lock */
} TlItem;

/* ---- the queue */

static void
item_free (TlItem *item)
{
  if (item->done)
    *item->done = TRUE;         /* thrown out: its sender waits no longer */
  else if (item->object)
    gst_mini_object_unref (item->object);
  g_free (item);
}

/* with lock */
static void
enqueue (GstTlDecode *self, GstMiniObject *object, const char *refused, gboolean *done)
{
  TlItem *item = g_new (TlItem, 1);

  *item = (TlItem) { object, refused, GST_IS_BUFFER (object) && !refused, done };
  self->n_waiting += item->counted;
  g_queue_push_tail (&self->items, item);
  g_cond_broadcast (&self->changed);
}

/* with lock; sticky events belong to the stream and survive a flush */
static void
empty_queue (GstTlDecode *self, gboolean keep_sticky)
{
  for (GList *l = self->items.head; keep_sticky && l; l = l->next) {
    GstMiniObject *object = ((TlItem *) l->data)->object;

    if (GST_IS_EVENT (object) && GST_EVENT_IS_STICKY (object) && GST_EVENT_TYPE (object) != GST_EVENT_SEGMENT
        && GST_EVENT_TYPE (object) != GST_EVENT_EOS && GST_EVENT_TYPE (object) != GST_EVENT_CAPS)
      gst_pad_store_sticky_event (self->srcpad, GST_EVENT (object));
  }
  g_queue_clear_full (&self->items, (GDestroyNotify) item_free);
  self->n_waiting = 0;
  g_cond_broadcast (&self->changed);
}

/* with lock: the running reply is to end, and with it the wait for a model */
static void
mark_cancelled (GstTlDecode *self)
{
  self->cancel_upto = self->last_id;
  if (self->running)
    tl_engine_reply_cancel (self->running);
  g_cond_broadcast (&self->changed);
}

static void
stop_queue (GstTlDecode *self, GstFlowReturn result)
{
  g_mutex_lock (&self->lock);
  self->srcresult = result;
  mark_cancelled (self);
  g_mutex_unlock (&self->lock);
  g_cancellable_cancel (self->waiting);
}

static void flush_downstream (GstElement *element, gpointer data);

/* with lock: queued prompts that a newer one replaces */
static void
supersede (GstTlDecode *self)
{
  for (GList *l = self->items.head; l; l = l->next) {
    TlItem *item = l->data;

    if (item->counted) {
      item->counted = FALSE;
      item->refused = "cancelled";
      self->n_waiting--;
    }
  }
}

/* with lock: a newer prompt takes the place of the running reply and of those that wait; TRUE: flush_downstream is to follow */
static gboolean
make_way (GstTlDecode *self)
{
  gboolean flush = self->replying && self->cancel_upto < self->last_id;

  self->flushes_asked += flush;
  supersede (self);
  mark_cancelled (self);
  return flush;
}

static GstFlowReturn
gst_tl_decode_chain (GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
  GstTlDecode *self = GST_TL_DECODE (parent);
  const char *refused = NULL;
  gboolean interrupts = FALSE;
  GstFlowReturn ret;

  if (!gst_pad_has_current_caps (pad)) {
    GST_ELEMENT_ERROR (self, CORE, NEGOTIATION, ("%s: data without caps; put tltokenize before it",
            GST_ELEMENT_NAME (self)), (NULL));
    gst_buffer_unref (buffer);
    return GST_FLOW_NOT_NEGOTIATED;
  }
  g_mutex_lock (&self->lock);
  gboolean busy = self->replying || self->n_waiting > 0;
  if (busy && self->on_new_prompt == TL_NEW_PROMPT_DROP)
    refused = "dropped";
  else if (busy && self->on_new_prompt == TL_NEW_PROMPT_INTERRUPT)
    interrupts = make_way (self);
  while (!refused && self->srcresult == GST_FLOW_OK && self->n_waiting >= self->max_queued_prompts
      && self->on_new_prompt == TL_NEW_PROMPT_QUEUE)
    g_cond_wait (&self->changed, &self->lock);
  ret = self->srcresult;
  if (ret == GST_FLOW_OK)
    enqueue (self, GST_MINI_OBJECT (buffer), refused, NULL);
  g_mutex_unlock (&self->lock);
  if (ret != GST_FLOW_OK)
    gst_buffer_unref (buffer);
  if (interrupts)
    gst_element_call_async (GST_ELEMENT (self), flush_downstream, NULL, NULL);
  return ret;
}

/* ---- the task */

static void
send_segment (GstTlDecode *self)
{
  if (!self->segment_event)
    return;
  gst_pad_push_event (self->srcpad, gst_event_ref (self->segment_event));
  gst_pad_push_event (self->srcpad, gst_event_new_gap (self->segment.start, 0));        /* prerolls sinks */
}

static void
on_caps (GstTlDecode *self)
{
  g_autoptr (GObject) model = tl_model_holder_find (&self->holder);

  if (model && !self->caps_sent) {
    g_autoptr (GstCaps) caps = tl_caps_new_tokens (model, "reply");

    gst_pad_push_event (self->srcpad, gst_event_new_caps (caps));
    self->caps_sent = TRUE;
  }
}

static void
on_segment (GstTlDecode *self, GstEvent *event)
{
  g_autoptr (GstQuery) query = gst_query_new_latency ();
  gboolean live = FALSE;

  if (gst_pad_peer_query (self->sinkpad, query))
    gst_query_parse_latency (query, &live, NULL, NULL);
  self->live = live;
  gst_event_copy_segment (event, &self->segment);
  gst_event_replace (&self->segment_event, event);
  self->last_pts = GST_CLOCK_TIME_NONE;
  send_segment (self);
}

/* with its own reference to @event; GST_FLOW_EOS after EOS */
static GstFlowReturn
dispatch_event (GstTlDecode *self, GstEvent *event)
{
  switch (GST_EVENT_TYPE (event)) {
    case GST_EVENT_CAPS:
      on_caps (self);
      gst_event_unref (event);
      return GST_FLOW_OK;
    case GST_EVENT_SEGMENT:
      on_segment (self, event);
      gst_event_unref (event);
      return GST_FLOW_OK;
    case GST_EVENT_STREAM_START:{
      GstStreamFlags flags = 0;

      tl_decode_forget (self);
      gst_event_parse_stream_flags (event, &flags);
      event = gst_event_make_writable (event);
      gst_event_set_stream_flags (event, flags | GST_STREAM_FLAG_SPARSE);
      break;
    }
    case GST_EVENT_CUSTOM_DOWNSTREAM:
      if (tl_event_is (event, TL_EVENT_OPTIONS)) {
        g_clear_pointer (&self->options, gst_structure_free);
        self->options = gst_structure_copy (gst_event_get_structure (event));
        gst_event_unref (event);
        return GST_FLOW_OK;
      }
      break;
    case GST_EVENT_EOS:
      gst_pad_push_event (self->srcpad, event);
      g_mutex_lock (&self->lock);
      self->eos_sent = TRUE;
      g_mutex_unlock (&self->lock);
      return GST_FLOW_OK;
    default:
      break;
  }
  gst_pad_push_event (self->srcpad, event);
  return GST_FLOW_OK;
}

/* no more data can leave: every prompt still queued ends, then EOS */
static void
end_stream (GstTlDecode *self, GstFlowReturn ret)
{
  TlItem *item;

  stop_queue (self, ret);
  g_mutex_lock (&self->lock);
  while ((item = g_queue_pop_head (&self->items))) {
    if (GST_IS_BUFFER (item->object)) {
      g_mutex_unlock (&self->lock);
      tl_decode_begin (self, GST_BUFFER (g_steal_pointer (&item->object)),
          ret == GST_FLOW_EOS ? "downstream-eos" : "error");
      tl_decode_finish (self);
      g_mutex_lock (&self->lock);
    }
    item_free (item);
  }
  self->n_waiting = 0;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  gst_pad_push_event (self->srcpad, gst_event_new_eos ());
}

/* commands that must wait for the end of a reply; called between replies */
static void
run_commands (GstTlDecode *self)
{
  g_autoptr (GError) error = NULL;

  g_mutex_lock (&self->lock);
  gboolean forget = self->forget, resend = self->resend, eos = self->eos_sent && resend;
  gint keep = self->truncate_id == self->last_committed ? self->truncate_to : -1;
  self->forget = self->resend = FALSE;
  self->truncate_to = -1;
  g_mutex_unlock (&self->lock);

  if (keep >= 0 && self->last_conversation && !tl_engine_conversation_truncate (self->last_conversation, keep, &error))
    GST_ELEMENT_WARNING (self, STREAM, FAILED, ("%s: truncate: %s", GST_ELEMENT_NAME (self), error->message), (NULL));
  if (forget)
    tl_decode_forget (self);
  if (eos)
    gst_pad_push_event (self->srcpad, gst_event_new_eos ());
}

/* with lock */
static gboolean
must_pause (GstTlDecode *self)
{
  return self->srcresult != GST_FLOW_OK || self->own_flush;
}

/* takes the next item, waiting for one; FALSE: flushing */
static gboolean
next_item (GstTlDecode *self, TlItem *out)
{
  g_mutex_lock (&self->lock);
  while (!must_pause (self) && self->flushes_asked == 0 && g_queue_is_empty (&self->items) && !self->forget && !self->resend
      && self->truncate_to < 0)
    g_cond_wait (&self->changed, &self->lock);
  gboolean ok = !must_pause (self) && self->flushes_asked == 0;
  TlItem *item = ok && !self->forget && !self->resend && self->truncate_to < 0 ? g_queue_pop_head (&self->items) : NULL;

  *out = item ? *item : (TlItem) { NULL };
  if (item && item->counted)
    self->n_waiting--;
  g_free (item);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  return ok;
}

static void
take_item (GstTlDecode *self)
{
  TlItem item;

  if (!next_item (self, &item))
    return;
  if (!item.object)
    run_commands (self);
  else if (GST_IS_BUFFER (item.object)) {
    g_cancellable_reset (self->waiting);
    tl_decode_begin (self, GST_BUFFER (item.object), item.refused);
  } else if (GST_IS_EVENT (item.object))
    dispatch_event (self, GST_EVENT (item.object));
  else {
    gst_pad_peer_query (self->srcpad, GST_QUERY (item.object));
    g_mutex_lock (&self->lock);
    *item.done = TRUE;
    g_cond_broadcast (&self->changed);
    g_mutex_unlock (&self->lock);
  }
}

/* one step: a pass of the running reply, its end, or the next item */
static void
gst_tl_decode_loop (gpointer data)
{
  GstTlDecode *self = data;
  GstFlowReturn ret = GST_FLOW_OK;

  g_mutex_lock (&self->lock);
  while (self->flushes_asked > 0 && !must_pause (self))  /* nothing new before the flush is through */
    g_cond_wait (&self->changed, &self->lock);
  gboolean flushing_now = must_pause (self), resend = self->resend && !flushing_now;
  g_mutex_unlock (&self->lock);
  if (flushing_now) {
    gst_pad_pause_task (self->srcpad);
    return;
  }
  if (resend) {
    send_segment (self);
    tl_decode_send_unsent (self);
  }

  if (self->reply) {
    if (!resend)
      ret = tl_decode_step (self);
    else if (!self->reply->ended)
      self->reply->ended = "cancelled";
    if (self->reply->ended && ret != GST_FLOW_FLUSHING) {
      g_mutex_lock (&self->lock);
      gboolean flushing = self->srcresult == GST_FLOW_FLUSHING || self->flushes_asked > 0;
      g_mutex_unlock (&self->lock);
      if (!flushing)            /* else the end goes out after the flush */
        ret = tl_decode_finish (self);
    }
  } else if (resend)
    run_commands (self);
  else
    take_item (self);
  if (resend && !self->reply) { /* an open reply, kept by a further flush, still needs its conversation */
    g_mutex_lock (&self->lock);
    gboolean again = self->resend;
    g_mutex_unlock (&self->lock);
    if (again)
      run_commands (self);
  }

  if (ret != GST_FLOW_OK && ret != GST_FLOW_FLUSHING)
    end_stream (self, ret);
  g_mutex_lock (&self->lock);
  if (ret == GST_FLOW_FLUSHING && !must_pause (self) && self->flushes_asked == 0 && !self->resend && self->active
      && !(self->reply && self->reply->report.prompt_id <= self->cancel_upto))
    self->srcresult = GST_FLOW_FLUSHING;        /* downstream stopped on its own */
  gboolean stop = must_pause (self);
  g_mutex_unlock (&self->lock);
  if (stop)
    gst_pad_pause_task (self->srcpad);
}

/* ---- flush and cancel */

/* our own flush, on a thread of GStreamer's pool: drops what downstream has not consumed, keeps queue and clock */
static void
flush_downstream (GstElement *element, gpointer data)
{
  GstTlDecode *self = GST_TL_DECODE (element);

  g_mutex_lock (&self->flush_lock);
  g_mutex_lock (&self->lock);
  gboolean wanted = self->active && !self->upstream_flushing && self->srcresult == GST_FLOW_OK;
  g_mutex_unlock (&self->lock);
  if (wanted) {
    gst_pad_push_event (self->srcpad, gst_event_new_flush_start ());
    g_mutex_lock (&self->lock);
    self->own_flush = TRUE;
    mark_cancelled (self);
    g_mutex_unlock (&self->lock);
    g_cancellable_cancel (self->waiting);
    gst_pad_pause_task (self->srcpad);
    gst_pad_push_event (self->srcpad, gst_event_new_flush_stop (FALSE));
    g_mutex_lock (&self->lock);
    self->own_flush = FALSE;
    self->resend = TRUE;
    g_mutex_unlock (&self->lock);
    g_cancellable_reset (self->waiting);
    gst_pad_start_task (self->srcpad, gst_tl_decode_loop, self, NULL);
  }
  g_mutex_lock (&self->lock);
  self->flushes_asked--;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  g_mutex_unlock (&self->flush_lock);
}

static void
gst_tl_decode_cancel (GstTlDecode *self, gboolean flush)
{
  g_mutex_lock (&self->lock);
  mark_cancelled (self);
  self->flushes_asked += flush != FALSE;
  g_mutex_unlock (&self->lock);
  g_cancellable_cancel (self->waiting);
  if (flush)
    gst_element_call_async (GST_ELEMENT (self), flush_downstream, NULL, NULL);
}

/* tltokenize must know that the next prompt begins a conversation */
static void
tell_reset (GstTlDecode *self)
{
  gst_pad_push_event (self->sinkpad, gst_event_new_custom (GST_EVENT_CUSTOM_UPSTREAM,
          gst_structure_new_empty (TL_EVENT_RESET)));
}

static void
gst_tl_decode_reset (GstTlDecode *self)
{
  g_mutex_lock (&self->lock);
  self->forget = TRUE;
  g_mutex_unlock (&self->lock);
  tell_reset (self);
  gst_tl_decode_cancel (self, TRUE);
}

static void
gst_tl_decode_truncate (GstTlDecode *self, guint64 prompt_id, guint index)
{
  g_mutex_lock (&self->lock);
  self->truncate_id = prompt_id;
  self->truncate_to = (gint) MIN (index, G_MAXINT - 1) + 1;
  if (self->last_id == prompt_id)
    mark_cancelled (self);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

static gboolean
on_flush_start (GstTlDecode *self, GstEvent *event)
{
  gboolean ret;

  g_mutex_lock (&self->flush_lock);
  g_mutex_lock (&self->lock);
  self->upstream_flushing = TRUE;
  g_mutex_unlock (&self->lock);
  ret = gst_pad_push_event (self->srcpad, event);
  stop_queue (self, GST_FLOW_FLUSHING);
  gst_pad_pause_task (self->srcpad);
  g_mutex_unlock (&self->flush_lock);
  return ret;
}

static gboolean
on_flush_stop (GstTlDecode *self, GstEvent *event)
{
  gboolean ret;

  g_mutex_lock (&self->flush_lock);
  ret = gst_pad_push_event (self->srcpad, event);
  tl_decode_abandon (self, "cancelled");
  g_mutex_lock (&self->lock);
  empty_queue (self, TRUE);
  self->upstream_flushing = self->eos_sent = self->resend = FALSE;
  self->forget = self->forget || self->reset_on_flush;
  self->srcresult = self->active ? GST_FLOW_OK : GST_FLOW_FLUSHING;
  gboolean active = self->active, reset = self->reset_on_flush;
  g_mutex_unlock (&self->lock);
  if (reset)
    tell_reset (self);
  gst_event_replace (&self->segment_event, NULL);
  tl_decode_forget_unsent (self);
  g_cancellable_reset (self->waiting);
  if (gst_pad_has_current_caps (self->sinkpad))
    on_caps (self);             /* they may still have been in the queue */
  if (active)
    gst_pad_start_task (self->srcpad, gst_tl_decode_loop, self, NULL);
  g_mutex_unlock (&self->flush_lock);
  return ret;
}

/* ---- events and queries */

static gboolean
accept_caps (GstTlDecode *self, GstEvent *event)
{
  g_autoptr (GObject) model = tl_model_holder_require (&self->holder);
  GstCaps *caps;

  gst_event_parse_caps (event, &caps);
  return model && tl_caps_check_vocab (GST_ELEMENT (self), caps, model);
}

static GstFlowReturn
queue_event (GstTlDecode *self, GstEvent *event)
{
  if (GST_EVENT_TYPE (event) == GST_EVENT_CAPS && !accept_caps (self, event)) {
    gst_event_unref (event);
    return GST_FLOW_NOT_NEGOTIATED;
  }
  g_mutex_lock (&self->lock);
  GstFlowReturn ret = self->srcresult;
  if (ret == GST_FLOW_OK)
    enqueue (self, GST_MINI_OBJECT (event), NULL, NULL);
  g_mutex_unlock (&self->lock);
  if (ret != GST_FLOW_OK)
    gst_event_unref (event);
  return ret;
}

/* tlprefill is about to wait for the end of the running reply */
static void
on_new_prompt (GstTlDecode *self)
{
  g_mutex_lock (&self->lock);
  gboolean interrupts = self->on_new_prompt == TL_NEW_PROMPT_INTERRUPT && (self->replying || self->n_waiting > 0)
      && make_way (self);
  g_mutex_unlock (&self->lock);
  if (interrupts)
    gst_element_call_async (GST_ELEMENT (self), flush_downstream, NULL, NULL);
}

/* with a flow return, for CAPS that meet a flush are FLUSHING and not an error of negotiation */
static GstFlowReturn
gst_tl_decode_sink_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  GstTlDecode *self = GST_TL_DECODE (parent);
  gboolean ok;

  if (GST_EVENT_IS_SERIALIZED (event) && GST_EVENT_TYPE (event) != GST_EVENT_FLUSH_STOP)
    return queue_event (self, event);
  if (GST_EVENT_TYPE (event) == GST_EVENT_FLUSH_START)
    ok = on_flush_start (self, event);
  else if (GST_EVENT_TYPE (event) == GST_EVENT_FLUSH_STOP)
    ok = on_flush_stop (self, event);
  else if ((ok = tl_event_is (event, TL_EVENT_CANCEL))) {
    gst_tl_decode_cancel (self, TRUE);
    gst_event_unref (event);
  } else if (tl_event_is (event, TL_EVENT_NEW_PROMPT)) {
    on_new_prompt (self);
    gst_event_unref (event);
    ok = TRUE;
  } else
    ok = gst_pad_push_event (self->srcpad, event);
  return ok ? GST_FLOW_OK : GST_FLOW_ERROR;
}

static gboolean
gst_tl_decode_src_event (GstPad *pad, GstObject *parent, GstEvent *event)
{
  if (tl_event_is (event, TL_EVENT_CANCEL)) {
    gst_tl_decode_cancel (GST_TL_DECODE (parent), TRUE);
    gst_event_unref (event);
    return TRUE;
  }
  if (tl_event_is (event, TL_EVENT_RESET)) {
    gst_tl_decode_reset (GST_TL_DECODE (parent));
    gst_event_unref (event);
    return TRUE;
  }
  return gst_pad_push_event (GST_TL_DECODE (parent)->sinkpad, event);
}

/* with lock; FALSE: the task is answering it, or a flush threw it out */
static gboolean
is_queued (GstTlDecode *self, GstQuery *query)
{
  for (GList *l = self->items.head; l; l = l->next)
    if (((TlItem *) l->data)->object == GST_MINI_OBJECT (query))
      return TRUE;
  return FALSE;
}

/* DRAIN and other serialized queries wait their turn in the queue */
static gboolean
queue_query (GstTlDecode *self, GstQuery *query)
{
  gboolean answered = FALSE;

  g_mutex_lock (&self->lock);
  if (self->srcresult == GST_FLOW_OK) {
    enqueue (self, GST_MINI_OBJECT (query), NULL, &answered);
    while (!answered && (self->srcresult == GST_FLOW_OK || !is_queued (self, query)))
      g_cond_wait (&self->changed, &self->lock);
    for (GList *l = self->items.head; l; l = l->next)   /* flushed: the query is its sender's again */
      if (((TlItem *) l->data)->object == GST_MINI_OBJECT (query)) {
        item_free (l->data);
        g_queue_delete_link (&self->items, l);
        break;
      }
  }
  g_mutex_unlock (&self->lock);
  return answered;
}

static gboolean
gst_tl_decode_sink_query (GstPad *pad, GstObject *parent, GstQuery *query)
{
  GstTlDecode *self = GST_TL_DECODE (parent);

  switch (GST_QUERY_TYPE (query)) {
    case GST_QUERY_CONTEXT:
      return tl_model_holder_answer (&self->holder, query) || gst_pad_query_default (pad, parent, query);
    case GST_QUERY_ALLOCATION:
      return FALSE;
    case GST_QUERY_CAPS:
      return tl_caps_answer (&self->holder, &sink_template, query);
    case GST_QUERY_DRAIN:
      return queue_query (self, query);
    default:
      return gst_pad_query_default (pad, parent, query);
  }
}

static gboolean
gst_tl_decode_src_query (GstPad *pad, GstObject *parent, GstQuery *query)
{
  GstTlDecode *self = GST_TL_DECODE (parent);
  GstClockTime min, max;
  gboolean live;

  if (tl_model_holder_answer (&self->holder, query))
    return TRUE;
  if (GST_QUERY_TYPE (query) == GST_QUERY_CAPS)
    return tl_caps_answer (&self->holder, &src_template, query);
  if (GST_QUERY_TYPE (query) != GST_QUERY_LATENCY)
    return gst_pad_query_default (pad, parent, query);
  if (!gst_pad_peer_query (self->sinkpad, query))
    return FALSE;
  gst_query_parse_latency (query, &live, &min, &max);
  g_mutex_lock (&self->lock);
  GstClockTime own = live ? self->latency_ms * GST_MSECOND : 0;
  g_mutex_unlock (&self->lock);
  gst_query_set_latency (query, live, min + own, GST_CLOCK_TIME_IS_VALID (max) ? max + own : max);
  return TRUE;
}

static void
gst_tl_decode_set_context (GstElement *element, GstContext *context)
{
  tl_model_holder_set_context (&GST_TL_DECODE (element)->holder, context);
  GST_ELEMENT_CLASS (gst_tl_decode_parent_class)->set_context (element, context);
}

/* ---- state changes */

static gboolean
gst_tl_decode_src_activate (GstPad *pad, GstObject *parent, GstPadMode mode, gboolean active)
{
  GstTlDecode *self = GST_TL_DECODE (parent);
  gboolean ok;

  if (mode != GST_PAD_MODE_PUSH)
    return FALSE;
  if (!active) {
    g_mutex_lock (&self->lock);
    self->active = FALSE;
    g_mutex_unlock (&self->lock);
    stop_queue (self, GST_FLOW_FLUSHING);
  }
  g_mutex_lock (&self->flush_lock);
  if (active) {
    g_mutex_lock (&self->lock);
    self->active = TRUE;
    self->srcresult = GST_FLOW_OK;
    self->eos_sent = self->resend = self->upstream_flushing = self->forget = self->caps_sent = FALSE;
    self->truncate_to = -1;
    g_mutex_unlock (&self->lock);
    g_cancellable_reset (self->waiting);
    self->last_pts = GST_CLOCK_TIME_NONE;
    ok = gst_pad_start_task (pad, gst_tl_decode_loop, self, NULL);
  } else {
    stop_queue (self, GST_FLOW_FLUSHING);       /* a flush may have come between */
    ok = gst_pad_stop_task (pad);
    tl_decode_abandon (self, "cancelled");
    tl_decode_forget (self);
    g_mutex_lock (&self->lock);
    empty_queue (self, FALSE);
    g_mutex_unlock (&self->lock);
    gst_event_replace (&self->segment_event, NULL);
    tl_decode_forget_unsent (self);
    g_clear_pointer (&self->options, gst_structure_free);
  }
  g_mutex_unlock (&self->flush_lock);
  return ok;
}

static gboolean
gst_tl_decode_sink_activate (GstPad *pad, GstObject *parent, GstPadMode mode, gboolean active)
{
  if (mode != GST_PAD_MODE_PUSH)
    return FALSE;
  if (!active)
    stop_queue (GST_TL_DECODE (parent), GST_FLOW_FLUSHING);     /* frees a waiting chain */
  return TRUE;
}

static GstStateChangeReturn
gst_tl_decode_change_state (GstElement *element, GstStateChange transition)
{
  GstTlDecode *self = GST_TL_DECODE (element);

  if (transition == GST_STATE_CHANGE_NULL_TO_READY && !tl_model_holder_open (&self->holder))
    return GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED) {
    g_autoptr (GObject) model = tl_model_holder_find (&self->holder);   /* its lack is an error only once data comes */
  }
  GstStateChangeReturn ret = GST_ELEMENT_CLASS (gst_tl_decode_parent_class)->change_state (element, transition);
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    tl_model_holder_release (&self->holder);
  return ret;
}

/* ---- properties */

static void
gst_tl_decode_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  GstTlDecode *self = GST_TL_DECODE (object);

  if (tl_model_holder_set_property (&self->holder, id, value))
    return;
  g_mutex_lock (&self->lock);
  switch (id) {
    case TL_PROP_HISTORY: self->history = g_value_get_enum (value); break;
    case TL_PROP_ON_NEW_PROMPT: self->on_new_prompt = g_value_get_enum (value); break;
    case TL_PROP_MAX_QUEUED_PROMPTS: self->max_queued_prompts = g_value_get_uint (value); break;
    case TL_PROP_TIMESTAMP_MODE: self->timestamp_mode = g_value_get_enum (value); break;
    case TL_PROP_TOKEN_DURATION: self->token_duration = g_value_get_uint64 (value); break;
    case TL_PROP_TOKENS_PER_BUFFER: self->tokens_per_buffer = g_value_get_uint (value); break;
    case TL_PROP_LATENCY: self->latency_ms = g_value_get_uint (value); break;
    case TL_PROP_TIMEOUT: self->timeout_ms = g_value_get_uint (value); break;
    case TL_PROP_ADAPTIVE_LOOPS: self->adaptive_loops = g_value_get_boolean (value); break;
    case TL_PROP_MIN_LOOPS: self->min_loops = g_value_get_uint (value); break;
    case TL_PROP_RESET_ON_FLUSH: self->reset_on_flush = g_value_get_boolean (value); break;
    case TL_PROP_POST_MESSAGES: self->post_messages = g_value_get_boolean (value); break;
    default:
      if (tl_property_belongs (id, TL_ON_CONFIG))
        tl_prompt_config_set (self->config, value, pspec);
      else
        G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  if (id == TL_PROP_LATENCY)
    gst_element_post_message (GST_ELEMENT (self), gst_message_new_latency (GST_OBJECT (self)));
}

static void
gst_tl_decode_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  GstTlDecode *self = GST_TL_DECODE (object);

  if (tl_model_holder_get_property (&self->holder, id, value))
    return;
  g_mutex_lock (&self->lock);
  switch (id) {
    case TL_PROP_HISTORY: g_value_set_enum (value, self->history); break;
    case TL_PROP_ON_NEW_PROMPT: g_value_set_enum (value, self->on_new_prompt); break;
    case TL_PROP_MAX_QUEUED_PROMPTS: g_value_set_uint (value, self->max_queued_prompts); break;
    case TL_PROP_TIMESTAMP_MODE: g_value_set_enum (value, self->timestamp_mode); break;
    case TL_PROP_TOKEN_DURATION: g_value_set_uint64 (value, self->token_duration); break;
    case TL_PROP_TOKENS_PER_BUFFER: g_value_set_uint (value, self->tokens_per_buffer); break;
    case TL_PROP_LATENCY: g_value_set_uint (value, self->latency_ms); break;
    case TL_PROP_TIMEOUT: g_value_set_uint (value, self->timeout_ms); break;
    case TL_PROP_ADAPTIVE_LOOPS: g_value_set_boolean (value, self->adaptive_loops); break;
    case TL_PROP_MIN_LOOPS: g_value_set_uint (value, self->min_loops); break;
    case TL_PROP_RESET_ON_FLUSH: g_value_set_boolean (value, self->reset_on_flush); break;
    case TL_PROP_POST_MESSAGES: g_value_set_boolean (value, self->post_messages); break;
    case TL_PROP_STATS: g_value_set_boxed (value, self->stats); break;
    default:
      if (tl_property_belongs (id, TL_ON_CONFIG))
        tl_prompt_config_get (self->config, value, pspec);
      else
        G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
  g_mutex_unlock (&self->lock);
}

/* ---- class */

static void
gst_tl_decode_finalize (GObject *object)
{
  GstTlDecode *self = GST_TL_DECODE (object);

  empty_queue (self, FALSE);
  tl_decode_forget_unsent (self);
  g_hash_table_unref (self->conversations);
  g_clear_object (&self->last_conversation);
  g_object_unref (self->config);
  g_object_unref (self->waiting);
  gst_event_replace (&self->segment_event, NULL);
  g_clear_pointer (&self->options, gst_structure_free);
  g_clear_pointer (&self->stats, gst_structure_free);
  tl_model_holder_clear (&self->holder);
  g_mutex_clear (&self->lock);
  g_mutex_clear (&self->flush_lock);
  g_cond_clear (&self->changed);
  G_OBJECT_CLASS (gst_tl_decode_parent_class)->finalize (object);
}

static void
gst_tl_decode_class_init (GstTlDecodeClass *klass)
{
  GObjectClass *object = G_OBJECT_CLASS (klass);
  GstElementClass *element = GST_ELEMENT_CLASS (klass);
  GSignalFlags flags = G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION;

  GST_DEBUG_CATEGORY_INIT (tl_decode_debug, "tldecode", 0, "prompt tokens to reply tokens");
  object->set_property = gst_tl_decode_set_property;
  object->get_property = gst_tl_decode_get_property;
  object->finalize = gst_tl_decode_finalize;
  tl_properties_install (object, TL_ON_DECODE);
  /* end the running reply; flush: drop what downstream has not consumed. Any thread */
  signals[CANCEL] = g_signal_new_class_handler ("cancel", G_TYPE_FROM_CLASS (klass), flags,
      G_CALLBACK (gst_tl_decode_cancel), NULL, NULL, NULL, G_TYPE_NONE, 1, G_TYPE_BOOLEAN);
  /* cancel and forget the conversation. Any thread */
  signals[RESET] = g_signal_new_class_handler ("reset", G_TYPE_FROM_CLASS (klass), flags,
      G_CALLBACK (gst_tl_decode_reset), NULL, NULL, NULL, G_TYPE_NONE, 0);
  /* keep the last reply up to token index. Any thread */
  signals[TRUNCATE] = g_signal_new_class_handler ("truncate", G_TYPE_FROM_CLASS (klass), flags,
      G_CALLBACK (gst_tl_decode_truncate), NULL, NULL, NULL, G_TYPE_NONE, 2, G_TYPE_UINT64, G_TYPE_UINT);
  element->change_state = gst_tl_decode_change_state;
  element->set_context = gst_tl_decode_set_context;
  gst_element_class_add_static_pad_template (element, &sink_template);
  gst_element_class_add_static_pad_template (element, &src_template);
  gst_element_class_set_static_metadata (element, "Language model decoder", "Text/LLM/Filter",
      "Streams the reply to a prompt token by token", "The TinyLoop authors");
}

static void
gst_tl_decode_init (GstTlDecode *self)
{
  tl_model_holder_init (&self->holder, GST_ELEMENT (self));
  g_mutex_init (&self->lock);
  g_mutex_init (&self->flush_lock);
  g_cond_init (&self->changed);
  g_queue_init (&self->items);
  g_queue_init (&self->unsent);
  self->config = tl_engine_config_new ();
  g_object_set (self->config, "max-tokens", 256, NULL);
  self->waiting = g_cancellable_new ();
  self->conversations = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
      g_object_unref);
  self->srcresult = GST_FLOW_FLUSHING;
  self->max_queued_prompts = self->tokens_per_buffer = self->min_loops = 1;
  self->post_messages = TRUE;
  self->truncate_to = -1;
  self->mean_token = 40 * GST_MSECOND;
  self->last_pts = GST_CLOCK_TIME_NONE;
  gst_segment_init (&self->segment, GST_FORMAT_TIME);

  self->sinkpad = gst_pad_new_from_static_template (&sink_template, "sink");
  GST_PAD_SET_ACCEPT_TEMPLATE (self->sinkpad);
  gst_pad_set_chain_function (self->sinkpad, gst_tl_decode_chain);
  gst_pad_set_event_full_function (self->sinkpad, gst_tl_decode_sink_event);
  gst_pad_set_query_function (self->sinkpad, gst_tl_decode_sink_query);
  gst_pad_set_activatemode_function (self->sinkpad, gst_tl_decode_sink_activate);
  gst_element_add_pad (GST_ELEMENT (self), self->sinkpad);
  self->srcpad = gst_pad_new_from_static_template (&src_template, "src");
  gst_pad_set_event_function (self->srcpad, gst_tl_decode_src_event);
  gst_pad_set_query_function (self->srcpad, gst_tl_decode_src_query);
  gst_pad_set_activatemode_function (self->srcpad, gst_tl_decode_src_activate);
  gst_pad_add_probe (self->srcpad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, tl_decode_note_bracket, self, NULL);
  gst_element_add_pad (GST_ELEMENT (self), self->srcpad);
}
