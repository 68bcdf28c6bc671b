/* gst/gsttlgenerate.h — tlgenerate: text in, text out, in one bin. */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_TL_GENERATE (gst_tl_generate_get_type ())
G_DECLARE_FINAL_TYPE (GstTlGenerate, gst_tl_generate, GST, TL_GENERATE, GstBin)
GST_ELEMENT_REGISTER_DECLARE (tlgenerate);

G_END_DECLS
