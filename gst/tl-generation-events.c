/* gst/tl-generation-events.c — builds generation-start and -end and the figures they share with message and stats. */
#include "tl-generation-events.h"

gboolean
tl_event_is (GstEvent *event, const char *name)
{
  return gst_event_has_name (event, name);
}

GstEvent *
tl_event_new_start (guint64 prompt_id)
{
  return gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new (TL_EVENT_START, "prompt-id",
          G_TYPE_UINT64, prompt_id, NULL));
}

GstStructure *
tl_generation_structure_new (const char *name, const TlGenerationReport *report)
{
  GstClockTime decode = report->tokens > 1 ? report->duration - report->ttft : 0;
  double rate = decode > 0 ? (report->tokens - 1) * (double) GST_SECOND / decode : 0;

  return gst_structure_new (name, "prompt-id", G_TYPE_UINT64, report->prompt_id, "reason", G_TYPE_STRING,
      report->reason, "tokens", G_TYPE_UINT, report->tokens, "prompt-tokens", G_TYPE_UINT, report->prompt_tokens,
      "cached", G_TYPE_UINT, report->cached, "loops", G_TYPE_UINT, report->loops, "exact",
      G_TYPE_BOOLEAN, report->exact, "ttft", G_TYPE_UINT64,
      report->ttft, "duration", G_TYPE_UINT64, report->duration, "tokens-per-second", G_TYPE_DOUBLE, rate,
      "prefill-ms", G_TYPE_DOUBLE, report->prefill / 1e6, "load-ms", G_TYPE_DOUBLE, report->load / 1e6, NULL);
}

GstEvent *
tl_event_new_end (const TlGenerationReport *report)
{
  return gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM, tl_generation_structure_new (TL_EVENT_END, report));
}
