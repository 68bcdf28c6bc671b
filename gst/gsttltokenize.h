/* gst/gsttltokenize.h — tltokenize: text in, prompt tokens out. */
#pragma once

#include <gst/base/gstbasetransform.h>

G_BEGIN_DECLS

#define GST_TYPE_TL_TOKENIZE (gst_tl_tokenize_get_type ())
G_DECLARE_FINAL_TYPE (GstTlTokenize, gst_tl_tokenize, GST, TL_TOKENIZE, GstBaseTransform)
GST_ELEMENT_REGISTER_DECLARE (tltokenize);

G_END_DECLS
