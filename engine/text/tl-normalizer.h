/* engine/text/tl-normalizer.h — the "normalizer" of a tokenizer.json: rows of a table applied in order.
 *
 * Immutable; input and output are valid UTF-8 (NUL bytes allowed). Used by the tokenizer before the split.
 */
#pragma once

#include "text/tl-json-tree.h"

G_BEGIN_DECLS

typedef struct _TlNormalizer TlNormalizer;

TlNormalizer *tl_normalizer_new (const TlJsonTree *tree, guint32 node, const char *name, GError **error);
void tl_normalizer_free (TlNormalizer *normalizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlNormalizer, tl_normalizer_free)
gboolean tl_normalizer_apply (const TlNormalizer *normalizer, GString *text, GError **error);

G_END_DECLS
