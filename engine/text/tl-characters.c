/* engine/text/tl-characters.c — character classes and the byte alphabet of byte-level vocabularies.
 *
 * Byte alphabet: Radford et al. 2019 (GPT-2): printable Latin-1 stands for itself, the other 68 bytes for U+0100…
 */
#include "text/tl-characters.h"

#include <string.h>

/* Unicode's White_Space, what Rust and Oniguruma call a space; U+180E is none */
gboolean
tl_char_is_space (gunichar c)
{
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a)
      || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

gboolean
tl_char_is_numeric (gunichar c)
{
  GUnicodeType type = g_unichar_type (c);
  return type == G_UNICODE_DECIMAL_NUMBER || type == G_UNICODE_LETTER_NUMBER || type == G_UNICODE_OTHER_NUMBER;
}

gboolean
tl_char_is_punctuation (gunichar c)
{
  if (c < 0x80)
    return g_ascii_ispunct (c);
  switch (g_unichar_type (c)) {
    case G_UNICODE_CONNECT_PUNCTUATION:
    case G_UNICODE_DASH_PUNCTUATION:
    case G_UNICODE_CLOSE_PUNCTUATION:
    case G_UNICODE_FINAL_PUNCTUATION:
    case G_UNICODE_INITIAL_PUNCTUATION:
    case G_UNICODE_OTHER_PUNCTUATION:
    case G_UNICODE_OPEN_PUNCTUATION:
      return TRUE;
    default:
      return FALSE;
  }
}

gboolean
tl_char_is_word (gunichar c)
{
  GUnicodeType type = g_unichar_type (c);
  return g_unichar_isalpha (c) || g_unichar_ismark (c) || type == G_UNICODE_DECIMAL_NUMBER
      || type == G_UNICODE_LETTER_NUMBER || type == G_UNICODE_CONNECT_PUNCTUATION || (c >= 0x24b6 && c <= 0x24e9) || c == 0x200c || c == 0x200d;
}

/* GLib leaves Roman numerals and circled letters alone */
gunichar
tl_char_to_lower (gunichar c)
{
  if (c >= 0x2160 && c <= 0x216f)
    return c + 0x10;
  return c >= 0x24b6 && c <= 0x24cf ? c + 26 : g_unichar_tolower (c);
}

static gboolean
byte_is_printable (guint8 byte)
{
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

gunichar
tl_byte_to_char (guint8 byte)
{
  if (byte_is_printable (byte))
    return byte;
  if (byte <= 0x20)
    return 0x100 + byte;
  return byte == 0xad ? 0x143 : 0x121 + byte - 0x7f;
}

/* the byte a stand-in means, -1 when @c is none */
int
tl_char_to_byte (gunichar c)
{
  if (c < 0x100)
    return byte_is_printable (c) ? (int) c : -1;
  if (c <= 0x120)
    return c - 0x100;
  if (c < 0x143)
    return c - 0x121 + 0x7f;
  return c == 0x143 ? 0xad : -1;
}

void
tl_append_byte_level (GString *out, const char *bytes, gsize length)
{
  for (gsize i = 0; i < length; i++) {
    guint8 byte = (guint8) bytes[i];
    gunichar c = tl_byte_to_char (byte);
    if (c < 0x80)
      g_string_append_c (out, c);
    else {
      g_string_append_c (out, 0xc0 | c >> 6);
      g_string_append_c (out, 0x80 | (c & 0x3f));
    }
  }
}

/* appends the bytes that valid UTF-8 @text stands for; FALSE and nothing appended when a character is no stand-in */
gboolean
tl_undo_byte_level (GString *out, const char *text, gsize length)
{
  gsize before = out->len;
  for (const char *p = text; p < text + length; p = g_utf8_next_char (p)) {
    int byte = tl_char_to_byte (g_utf8_get_char (p));
    if (byte < 0) {
      g_string_truncate (out, before);
      return FALSE;
    }
    g_string_append_c (out, byte);
  }
  return TRUE;
}

/* the byte of a piece written `<0x0A>`, else -1 */
int
tl_parse_byte_piece (const char *piece, gsize length)
{
  if (length != 6 || memcmp (piece, "<0x", 3) != 0 || piece[5] != '>')
    return -1;
  int high = g_ascii_xdigit_value (piece[3]), low = g_ascii_xdigit_value (piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* length of the valid UTF-8 at the start of @text (NUL bytes are valid); @invalid: length of the maximal
 * invalid subpart that follows (Unicode 3.9, what becomes one U+FFFD), 0 at the end of the text */
gsize
tl_utf8_valid_prefix (const char *text, gsize length, gsize *invalid)
{
  const guint8 *p = (const guint8 *) text;
  gsize at = 0;
  *invalid = 0;
  while (at < length) {
    guint8 lead = p[at], low = 0x80, high = 0xbf;
    guint need = lead < 0x80 ? 0 : lead < 0xc2 ? 9 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf5 ? 3 : 9;
    if (need == 9) {
      *invalid = 1;
      return at;
    }
    low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (guint i = 1; i <= need; i++) {
      if (at + i >= length || p[at + i] < low || p[at + i] > high) {
        *invalid = i;
        return at;
      }
      low = 0x80;
      high = 0xbf;
    }
    at += need + 1;
  }
  return at;
}
