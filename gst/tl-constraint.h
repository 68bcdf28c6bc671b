/* gst/tl-constraint.h — the grammar that a prompt carries from tlgrammar to the decoder, as GstCustomMeta.
 *
 * The meta holds source text, so that any language can write it; what is compiled from it stays with the model.
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define TL_CONSTRAINT_META "GstTlConstraintMeta"

void tl_constraint_meta_add (GstBuffer *buffer, const char *kind, const char *source);
/* the grammar of a prompt goes into @config: the one in its options, else the one in its meta, else none */
gboolean tl_constrain (GObject *config, GObject *model, GstBuffer *prompt, const GstStructure *options, GError **error);

G_END_DECLS
