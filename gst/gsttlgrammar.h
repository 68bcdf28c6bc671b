/* gst/gsttlgrammar.h — tlgrammar: adds a constraint to the prompts that pass. */
#pragma once

#include <gst/base/gstbasetransform.h>

G_BEGIN_DECLS

#define GST_TYPE_TL_GRAMMAR (gst_tl_grammar_get_type ())
G_DECLARE_FINAL_TYPE (GstTlGrammar, gst_tl_grammar, GST, TL_GRAMMAR, GstBaseTransform)
GST_ELEMENT_REGISTER_DECLARE (tlgrammar);

G_END_DECLS
