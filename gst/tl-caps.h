/* gst/tl-caps.h — the media types between the elements and the check that both sides mean one vocabulary. */
#pragma once

#include "tl-model-context.h"

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TL_TOKENS_TYPE "application/x-tinyloop-tokens"
#define GST_TL_TOKENS_CAPS(role) GST_TL_TOKENS_TYPE ", format=(string)U32LE, role=(string)" role
#define GST_TL_SEQUENCE_TYPE "application/x-tinyloop-sequence"
#define GST_TL_TEXT_CAPS "text/x-raw, format=(string)utf8"
#define GST_TL_TEXT_IN_CAPS GST_TL_TEXT_CAPS "; text/plain"

GstCaps *tl_caps_new_tokens (GObject *model, const char *role);
GstCaps *tl_caps_new_sequence (GObject *model);
GstCaps *tl_caps_for_pad (TlModelHolder *holder, GstStaticPadTemplate *pad, GstCaps *filter);
gboolean tl_caps_answer (TlModelHolder *holder, GstStaticPadTemplate *pad, GstQuery *query);
gboolean tl_caps_fit_template (GstStaticPadTemplate *pad, GstCaps *caps);
gboolean tl_caps_check_vocab (GstElement *element, GstCaps *caps, GObject *model);

G_END_DECLS
