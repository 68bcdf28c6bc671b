/* engine/grammar/tl-unicode-sets.h — the character sets that regexes name: \d \w \s, [:alpha:], \p{…}, case variants.
 *
 * Everything comes from GLib's character tables; the runs of equal category and script are gathered once and never change.
 * Used by the regex parser.
 */
#pragma once

#include "grammar/tl-char-set.h"

G_BEGIN_DECLS

GArray *tl_unicode_digits (gboolean ascii);
GArray *tl_unicode_words (gboolean ascii);
GArray *tl_unicode_spaces (gboolean ascii);
GArray *tl_unicode_posix (const char *name, gsize length);
GArray *tl_unicode_property (const char *name, gsize length);
void tl_unicode_add_case_variants (GArray *set, gboolean ascii);

G_END_DECLS
