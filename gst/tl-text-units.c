/* gst/tl-text-units.c — cuts text that is still growing; a unit is final once the character behind it is known.
 *
 * Called by tldetokenize (mode word, sentence, line) and by tlsink (signal sentence).
 */
#include "tl-text-units.h"

static gboolean
ends_sentence (gunichar c)
{
  return c == '.' || c == '!' || c == '?' || c == 0x3002 || c == 0xff01 || c == 0xff1f || c == 0x2026;
}

static gboolean
closes (gunichar c)
{
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == 0x201d || c == 0x2019 || c == 0x00bb || ends_sentence (c);
}

static gboolean
is_wide_stop (gunichar c)
{
  return c == 0x3002 || c == 0xff01 || c == 0xff1f;
}

/* bytes of the first whole unit, white space before it included; 0: not complete yet */
gsize
tl_text_unit_end (const char *text, gsize length, GstTlTextMode mode)
{
  const char *end = text + length;
  gboolean seen = FALSE, stopped = FALSE;

  for (const char *p = text; p < end; p = g_utf8_next_char (p)) {
    gunichar c = g_utf8_get_char (p);

    if (mode == TL_MODE_LINE || mode == TL_MODE_SENTENCE)
      if (c == '\n' && (seen || mode == TL_MODE_LINE))
        return p + 1 - text;
    if (mode == TL_MODE_WORD && seen && g_unichar_isspace (c))
      return p - text;
    if (mode == TL_MODE_SENTENCE) {
      if (stopped && g_unichar_isspace (c))
        return p - text;
      if (is_wide_stop (c))
        return g_utf8_next_char (p) - text;
      stopped = ends_sentence (c) || (stopped && closes (c));
    }
    seen = seen || !g_unichar_isspace (c);
  }
  return 0;
}
