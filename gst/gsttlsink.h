/* gst/gsttlsink.h — tlsink: text to signals and bus messages. */
#pragma once

#include <gst/base/gstbasesink.h>

G_BEGIN_DECLS

#define GST_TYPE_TL_SINK (gst_tl_sink_get_type ())
G_DECLARE_FINAL_TYPE (GstTlSink, gst_tl_sink, GST, TL_SINK, GstBaseSink)
GST_ELEMENT_REGISTER_DECLARE (tlsink);

G_END_DECLS
