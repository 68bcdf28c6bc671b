/* text/tl-visible.h — a token's bytes as text that can be seen on one line. Called by drawings. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Blanks get a mark (␣ ⏎ ⇥), what cannot be printed its number (U+200B) and what is no UTF-8 its bytes in hexadecimal (⟨e2⟩).
 * At most `columns` wide, cut with … at the end; 0: never cut. Free with g_free() */
char *tl_visible_text (const char *bytes, gsize length, guint columns);

G_END_DECLS
