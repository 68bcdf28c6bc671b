/* engine/text/tl-jinja-lexer.c — Jinja's tokens under the settings chat templates are written for.
 *
 * trim_blocks and lstrip_blocks are on, one newline at the template's end is dropped; `-` and `+` at a tag's ends
 * overrule them.
 */
#include "text/tl-jinja-lexer.h"

#include "tl-error.h"

#include <string.h>

typedef struct
{
  const char *at, *start, *end;
  guint line;
  GArray *lexemes;
  GError **error;
} Lexer;

static void
lexeme_clear (gpointer data)
{
  g_free (((TlLexeme *) data)->text);
}

static void
add (Lexer *lexer, TlLexKind kind, const char *text, gsize length)
{
  TlLexeme lexeme = { kind, lexer->line, g_strndup (text, length), length };
  g_array_append_val (lexer->lexemes, lexeme);
}

static gboolean
fail (Lexer *lexer, const char *what)
{
  g_set_error (lexer->error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: chat template, line %u: %s", lexer->line, what);
  return FALSE;
}

static void
advance (Lexer *lexer, const char *to)
{
  for (; lexer->at < to; lexer->at++)
    lexer->line += *lexer->at == '\n';
}

/* text from `at` to the tag at @tag; @kind is the tag's second character */
static void
add_text (Lexer *lexer, const char *tag, char kind, char control)
{
  const char *end = tag;
  if (control == '-')
    while (end > lexer->at && g_ascii_isspace (end[-1]))
      end--;
  else if (kind != '{' && control != '+') {
    const char *blank = end;
    while (blank > lexer->at && (blank[-1] == ' ' || blank[-1] == '\t'))
      blank--;
    if (blank == lexer->start || blank[-1] == '\n')
      end = blank;
  }
  if (end > lexer->at)
    add (lexer, TL_LEX_TEXT, lexer->at, end - lexer->at);
  advance (lexer, tag);
}

/* behind a tag: `-` eats white space, a block or comment eats one newline */
static void
skip_after (Lexer *lexer, char kind, char control)
{
  const char *p = lexer->at;
  if (control == '-')
    while (p < lexer->end && g_ascii_isspace (*p))
      p++;
  else if (kind != '{' && control != '+' && p < lexer->end) {
    if (p[0] == '\r' && p + 1 < lexer->end && p[1] == '\n')
      p++;
    if (*p == '\n')
      p++;
  }
  advance (lexer, p);
}

static gboolean
lex_string (Lexer *lexer)
{
  char quote = *lexer->at;
  g_autoptr (GString) out = g_string_new (NULL);
  const char *p = lexer->at + 1;
  for (; p < lexer->end && *p != quote; p++) {
    if (*p != '\\' || p + 1 == lexer->end) {
      g_string_append_c (out, *p);
      continue;
    }
    static const char from[] = "nrtbfv\\'\"", to[] = "\n\r\t\b\f\v\\'\"";
    const char *hit = strchr (from, *++p);
    if (hit)
      g_string_append_c (out, to[hit - from]);
    else if (*p == 'u' || *p == 'x') {
      int digits = *p == 'u' ? 4 : 2;
      gunichar c = 0;
      for (int i = 1; i <= digits; i++) {
        if (p + i >= lexer->end || !g_ascii_isxdigit (p[i]))
          return fail (lexer, "a string has a broken escape");
        c = c * 16 + g_ascii_xdigit_value (p[i]);
      }
      if (!c || (c >= 0xd800 && c < 0xe000))
        return fail (lexer, "a string escape is no character");
      g_string_append_unichar (out, c);
      p += digits;
    } else if (*p != '\n')
      g_string_append_printf (out, "\\%c", *p);
  }
  if (p >= lexer->end)
    return fail (lexer, "a string has no end");
  add (lexer, TL_LEX_STRING, out->str, out->len);
  advance (lexer, p + 1);
  return TRUE;
}

static void
lex_number (Lexer *lexer)
{
  const char *p = lexer->at;
  gboolean real = FALSE;
  while (p < lexer->end && (g_ascii_isdigit (*p) || (*p == '.' && !real && p + 1 < lexer->end && g_ascii_isdigit (p[1]))))
    real |= *p++ == '.';
  add (lexer, real ? TL_LEX_FLOAT : TL_LEX_INT, lexer->at, p - lexer->at);
  lexer->at = p;
}

static gboolean
lex_operator (Lexer *lexer)
{
  static const char *const operators[] = { "==", "!=", "<=", ">=", "//", "**", "(", ")", "[", "]", "{", "}", ",", ".",
    ":", "|", "~", "+", "-", "*", "/", "%", "<", ">", "=" };
  for (guint i = 0; i < G_N_ELEMENTS (operators); i++) {
    gsize n = strlen (operators[i]);
    if ((gsize) (lexer->end - lexer->at) >= n && memcmp (lexer->at, operators[i], n) == 0) {
      add (lexer, TL_LEX_OPERATOR, operators[i], n);
      lexer->at += n;
      return TRUE;
    }
  }
  return fail (lexer, "an unexpected character in a tag");
}

/* the inside of {{ }} or {% %} with its end; `at` is behind the opening */
static gboolean
lex_tag (Lexer *lexer, char kind)
{
  const char *close = kind == '{' ? "}}" : "%}";
  guint depth = 0;
  while (lexer->at < lexer->end) {
    const char *p = lexer->at;
    gsize left = lexer->end - p;
    if (g_ascii_isspace (*p)) {
      advance (lexer, p + 1);
      continue;
    }
    gboolean control = (*p == '-' || *p == '+') && left >= 3 && memcmp (p + 1, close, 2) == 0;
    if (!depth && (control || (left >= 2 && memcmp (p, close, 2) == 0))) {
      add (lexer, kind == '{' ? TL_LEX_CLOSE_OUTPUT : TL_LEX_CLOSE_BLOCK, close, 2);
      lexer->at += control ? 3 : 2;
      skip_after (lexer, kind, control ? *p : 0);
      return TRUE;
    }
    if (g_ascii_isalpha (*p) || *p == '_') {
      while (p < lexer->end && (g_ascii_isalnum (*p) || *p == '_'))
        p++;
      add (lexer, TL_LEX_NAME, lexer->at, p - lexer->at);
      lexer->at = p;
    } else if (g_ascii_isdigit (*p))
      lex_number (lexer);
    else if (*p == '"' || *p == '\'') {
      if (!lex_string (lexer))
        return FALSE;
    } else {
      depth += *p == '{' || *p == '[' || *p == '(';
      depth -= depth && (*p == '}' || *p == ']' || *p == ')');
      if (!lex_operator (lexer))
        return FALSE;
    }
  }
  return fail (lexer, "a tag has no end");
}

static const char *
find_tag (const Lexer *lexer)
{
  for (const char *p = lexer->at; p + 1 < lexer->end; p++)
    if (p[0] == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
      return p;
  return NULL;
}

static gboolean
lex_all (Lexer *lexer)
{
  const char *tag;
  while ((tag = find_tag (lexer))) {
    char kind = tag[1], control = tag + 2 < lexer->end && (tag[2] == '-' || tag[2] == '+') ? tag[2] : 0;
    add_text (lexer, tag, kind, control);
    lexer->at += control ? 3 : 2;
    if (kind == '#') {
      const char *close = g_strstr_len (lexer->at, lexer->end - lexer->at, "#}");
      if (!close)
        return fail (lexer, "a comment has no end");
      char last = close > lexer->at && (close[-1] == '-' || close[-1] == '+') ? close[-1] : 0;
      advance (lexer, close + 2);
      skip_after (lexer, kind, last);
      continue;
    }
    add (lexer, kind == '{' ? TL_LEX_OPEN_OUTPUT : TL_LEX_OPEN_BLOCK, tag, 2);
    if (!lex_tag (lexer, kind))
      return FALSE;
  }
  if (lexer->at < lexer->end)
    add (lexer, TL_LEX_TEXT, lexer->at, lexer->end - lexer->at);
  add (lexer, TL_LEX_END, "", 0);
  return TRUE;
}

/* the template's lexemes, the last one END. Errors: TL_ERROR_BAD_FILE with the line */
GArray *
tl_jinja_lex (const char *source, GError **error)
{
  gsize length = strlen (source);
  if (length && source[length - 1] == '\n')
    length -= length > 1 && source[length - 2] == '\r' ? 2 : 1;
  Lexer lexer = { source, source, source + length, 1, g_array_new (FALSE, FALSE, sizeof (TlLexeme)), error };
  g_array_set_clear_func (lexer.lexemes, lexeme_clear);
  if (lex_all (&lexer))
    return lexer.lexemes;
  g_array_unref (lexer.lexemes);
  return NULL;
}
