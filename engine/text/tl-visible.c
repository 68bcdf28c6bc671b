/* text/tl-visible.c — see the header. */
#include "text/tl-visible.h"

static const struct { gunichar c; const char *mark; } marks[] = {
  { ' ', "␣" }, { '\n', "⏎" }, { '\t', "⇥" }, { '\r', "␍" },
};

static const char *
mark_of (gunichar c)
{
  for (guint i = 0; i < G_N_ELEMENTS (marks); i++)
    if (marks[i].c == c)
      return marks[i].mark;
  return NULL;
}

/* how one character is shown; returns the bytes it takes of the text */
static gsize
show (const char *at, gsize left, GString *out)
{
  gunichar c = g_utf8_get_char_validated (at, left);
  g_string_truncate (out, 0);
  if (c == (gunichar) -1 || c == (gunichar) -2) {
    g_string_printf (out, "⟨%02x⟩", (guint8) *at);
    return 1;
  }
  gboolean blank = g_unichar_isspace (c) && !mark_of (c);
  if (mark_of (c))
    g_string_append (out, mark_of (c));
  else if (!g_unichar_isprint (c) || blank)
    g_string_printf (out, "U+%04X", c);
  else {
    if (g_unichar_ismark (c))
      g_string_append (out, "◌");       /* something to stand on */
    g_string_append_unichar (out, c);
  }
  return g_utf8_next_char (at) - at;
}

static guint
width (const char *text)
{
  guint columns = 0;
  for (; *text; text = g_utf8_next_char (text)) {
    gunichar c = g_utf8_get_char (text);
    columns += g_unichar_iszerowidth (c) ? 0 : g_unichar_iswide (c) ? 2 : 1;
  }
  return columns;
}

char *
tl_visible_text (const char *bytes, gsize length, guint columns)
{
  g_autoptr (GString) out = g_string_new (NULL), one = g_string_new (NULL);
  gsize fits = 0;               /* bytes of `out` that leave a column for … */
  for (gsize at = 0; at < length;) {
    at += show (bytes + at, length - at, one);
    g_string_append (out, one->str);
    guint used = width (out->str);
    if (columns && used > columns) {
      g_string_truncate (out, fits);
      g_string_append (out, "…");
      break;
    }
    if (used < columns)
      fits = out->len;
  }
  return g_strdup (out->str);
}
