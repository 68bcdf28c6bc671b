/* gst/gsttlprefill.h — tlprefill: prompt tokens in, the same prompt as a sequence that is through the model out. */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_TL_PREFILL (gst_tl_prefill_get_type ())
G_DECLARE_FINAL_TYPE (GstTlPrefill, gst_tl_prefill, GST, TL_PREFILL, GstElement)
GST_ELEMENT_REGISTER_DECLARE (tlprefill)

G_END_DECLS
