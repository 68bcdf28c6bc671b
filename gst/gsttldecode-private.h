/* gst/gsttldecode-private.h — the state that the two files of tldecode share.
 *
 * gsttldecode.c: pads, queue, flush and cancel. gsttldecode-reply.c: one reply from its start to its end.
 * Locks, outermost first: flush_lock (one flush at a time; held by state change too), the srcpad's stream lock (the task),
 * lock (everything under it, never held while pushing or in the engine).
 */
#pragma once

#include "gsttldecode.h"
#include "tl-deadline.h"
#include "tl-engine.h"
#include "tl-generation-events.h"
#include "tl-prompt.h"

G_BEGIN_DECLS

typedef struct
{
  TlGenerationReport report;
  TlEngineReply *engine;        /* NULL before its begin */
  GObject *conversation;        /* NULL before its begin */
  GstBuffer *prompt;
  GstStructure *options;        /* prompt-options that came before it, or NULL */
  guint loops;                  /* it began with */
  GArray *ids;                  /* decoded, not yet pushed (tokens-per-buffer) */
  TlEngineToken last;           /* of ids; owns its alternatives */
  double logprob, entropy;      /* sums over ids, with token-stats */
  GstClockTime began, first;    /* monotonic ns */
  const char *ended;            /* reason once known; the end is still to be pushed */
  gboolean pushed_any, adapted; /* adapted: time has decided on loops */
} TlReply;

struct _GstTlDecode
{
  GstElement parent;
  GstPad *sinkpad, *srcpad;
  TlModelHolder holder;
  GMutex flush_lock;

  GMutex lock;
  GCond changed;
  /* properties, under lock */
  GObject *config;              /* TlGenerateConfig; a reply begins with a copy */
  GstTlHistory history;
  GstTlOnNewPrompt on_new_prompt;
  GstTlTimestampMode timestamp_mode;
  guint max_queued_prompts, tokens_per_buffer, latency_ms, timeout_ms, min_loops;
  guint64 token_duration;
  gboolean reset_on_flush, post_messages, adaptive_loops;
  /* queue, under lock */
  GQueue items;                 /* of TlItem */
  guint n_waiting;              /* prompts in it that upstream may have to wait for */
  GstFlowReturn srcresult;
  gboolean active, upstream_flushing;
  gboolean replying;            /* a reply has begun and not ended */
  guint flushes_asked;          /* flushes of our own that are on their way */
  gboolean own_flush;           /* one of them has the task stop; queue and chain go on */
  gboolean resend, eos_sent;    /* after our own flush: SEGMENT and GAP, and EOS if it had gone out */
  guint64 last_id, cancel_upto; /* prompt ids begun; replies up to here are to end */
  gboolean forget;              /* reset: drop the conversations before the next prompt */
  guint64 truncate_id;
  gint truncate_to;             /* tokens to keep of reply truncate_id; -1: nothing asked */
  TlEngineReply *running;       /* for cancel from any thread */
  GCancellable *waiting;        /* of the wait for the model */
  GstStructure *stats;
  guint64 total_replies, total_tokens;

  /* the task's alone */
  TlReply *reply;
  gboolean bracket_left;        /* the bracket just pushed went through the srcpad */
  GQueue unsent;                /* brackets that met our own flush; they go out behind it */
  GHashTable *conversations;    /* id → conversation */
  guint64 last_committed;       /* the last reply, if its conversation took it: a fork's does not */
  GObject *last_conversation;   /* and that conversation; not this element's when a sequence came */
  GstStructure *options;        /* prompt-options for the next prompt */
  GstSegment segment;
  GstEvent *segment_event;
  gboolean caps_sent, live;
  GstClockTime last_pts, mean_token;
  TlDeadline deadline;
};

/* gsttldecode-reply.c */
void tl_decode_begin (GstTlDecode *self, GstBuffer *prompt, const char *refused);
GstFlowReturn tl_decode_step (GstTlDecode *self);
GstFlowReturn tl_decode_finish (GstTlDecode *self);
void tl_decode_abandon (GstTlDecode *self, const char *reason);
void tl_decode_forget (GstTlDecode *self);
GstPadProbeReturn tl_decode_note_bracket (GstPad *pad, GstPadProbeInfo *info, gpointer data);
void tl_decode_send_unsent (GstTlDecode *self);
void tl_decode_forget_unsent (GstTlDecode *self);

G_END_DECLS
