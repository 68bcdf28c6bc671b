/* gst/tl-text-units.h — where a word, a sentence or a line of a growing text ends. */
#pragma once

#include "tl-properties.h"

G_BEGIN_DECLS

gsize tl_text_unit_end (const char *text, gsize length, GstTlTextMode mode);

G_END_DECLS
