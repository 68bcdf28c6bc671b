/* gst/tl-generation-events.h — the brackets around a reply: events in the stream, one message on the bus.
 *
 * Names and fields: docs/wire-format.md.
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define TL_EVENT_START "tinyloop/generation-start"
#define TL_EVENT_END "tinyloop/generation-end"
#define TL_EVENT_OPTIONS "tinyloop/prompt-options"
#define TL_EVENT_CANCEL "tinyloop/cancel"
#define TL_EVENT_RESET "tinyloop/reset"
#define TL_EVENT_NEW_PROMPT "tinyloop/new-prompt"
#define TL_EVENT_FINAL_TRANSCRIPT "rstranscribe/final-transcript"
#define TL_MESSAGE_GENERATION "tinyloop-generation"

typedef struct
{
  guint64 prompt_id;
  const char *reason;           /* static string */
  guint prompt_tokens, cached, tokens, loops;
  gboolean exact;               /* the same tokens on any machine */
  GstClockTime ttft, duration;  /* GST_CLOCK_TIME_NONE: no token */
  GstClockTime prefill, load;   /* time spent in the prompt, time waited for the model */
} TlGenerationReport;

gboolean tl_event_is (GstEvent *event, const char *name);
GstEvent *tl_event_new_start (guint64 prompt_id);
GstEvent *tl_event_new_end (const TlGenerationReport *report);
GstStructure *tl_generation_structure_new (const char *name, const TlGenerationReport *report);

G_END_DECLS
