/* engine/text/tl-characters.h — character classes and the byte alphabet that tokenizers agree on.
 *
 * Rust's char::is_whitespace / is_numeric and GPT-2's printable stand-ins for the 256 bytes.
 * Used by normalizer, pre-tokenizer, added tokens and decoder.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TL_META "\xe2\x96\x81"  /* U+2581, SentencePiece's visible space */

gboolean tl_char_is_space (gunichar c);
gboolean tl_char_is_numeric (gunichar c);
gboolean tl_char_is_punctuation (gunichar c);
gboolean tl_char_is_word (gunichar c);
gunichar tl_char_to_lower (gunichar c);
gunichar tl_byte_to_char (guint8 byte);
int tl_char_to_byte (gunichar c);
void tl_append_byte_level (GString *out, const char *bytes, gsize length);
gboolean tl_undo_byte_level (GString *out, const char *text, gsize length);
int tl_parse_byte_piece (const char *piece, gsize length);
gsize tl_utf8_valid_prefix (const char *text, gsize length, gsize *invalid);

#define TL_CHAR_LENGTH(p) ((gsize) (g_utf8_next_char (p) - (p)))

G_END_DECLS
