/* gst/gsttldecode.h — tldecode: prompt tokens in, reply tokens out, one buffer each, from a task of its own. */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_TL_DECODE (gst_tl_decode_get_type ())
G_DECLARE_FINAL_TYPE (GstTlDecode, gst_tl_decode, GST, TL_DECODE, GstElement)
GST_ELEMENT_REGISTER_DECLARE (tldecode);

G_END_DECLS
