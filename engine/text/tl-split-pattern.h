/* engine/text/tl-split-pattern.h — a split pattern of tokenizer.json: a literal or an Oniguruma regex run by PCRE2.
 *
 * Immutable after construction; matching may run in any number of threads. Used by pre-tokenizer and normalizer.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _TlSplitPattern TlSplitPattern;

/* called for every match; FALSE stops */
typedef gboolean (*TlMatchFunc) (gsize start, gsize end, gpointer data);

TlSplitPattern *tl_split_pattern_new_regex (const char *regex, const char *name, GError **error);
TlSplitPattern *tl_split_pattern_new_literal (const char *literal, gsize length);
void tl_split_pattern_free (TlSplitPattern *pattern);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlSplitPattern, tl_split_pattern_free)
gboolean tl_split_pattern_find (const TlSplitPattern *pattern, const char *text, gsize length,
    TlMatchFunc func, gpointer data, GError **error);

G_END_DECLS
