/* gst/gsttldetokenize.h — tldetokenize: reply tokens in, text out. */
#pragma once

#include <gst/base/gstbasetransform.h>

G_BEGIN_DECLS

#define GST_TYPE_TL_DETOKENIZE (gst_tl_detokenize_get_type ())
G_DECLARE_FINAL_TYPE (GstTlDetokenize, gst_tl_detokenize, GST, TL_DETOKENIZE, GstBaseTransform)
GST_ELEMENT_REGISTER_DECLARE (tldetokenize);

G_END_DECLS
