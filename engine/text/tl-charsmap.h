/* engine/text/tl-charsmap.h — SentencePiece's precompiled character map: a double-array trie and its replacements.
 *
 * Immutable. Used by the normalizer for tokenizer.json's Precompiled and for .model files.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _TlCharsmap TlCharsmap;

TlCharsmap *tl_charsmap_new (const char *base64, const char *name, GError **error);
void tl_charsmap_free (TlCharsmap *map);
const char *tl_charsmap_longest (const TlCharsmap *map, const char *text, gsize length, gsize *used, gsize *out_length);
gboolean tl_charsmap_apply_clusters (const TlCharsmap *map, GString *text, GError **error);

G_END_DECLS
