/* engine/text/tl-pretokenizer.h — the "pre_tokenizer" of a tokenizer.json: cuts a text into words.
 *
 * Immutable; words are spans of one text buffer, which some kinds rewrite. Used by the tokenizer after normalizing.
 */
#pragma once

#include "text/tl-json-tree.h"

G_BEGIN_DECLS

typedef struct
{
  gsize start, end;             /* bytes of the text */
} TlSpan;

typedef struct
{
  GString *text;                /* valid UTF-8 */
  GArray *words;                /* of TlSpan, in order, none empty */
  gboolean at_start;            /* the first word is the input's beginning */
} TlWords;

typedef struct _TlPretokenizer TlPretokenizer;

TlPretokenizer *tl_pretokenizer_new (const TlJsonTree *tree, guint32 node, const char *name, GError **error);
void tl_pretokenizer_free (TlPretokenizer *pretokenizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlPretokenizer, tl_pretokenizer_free)
gboolean tl_pretokenizer_apply (const TlPretokenizer *pretokenizer, TlWords *words, GError **error);
gboolean tl_pretokenizer_is_byte_level (const TlPretokenizer *pretokenizer);

G_END_DECLS
