/* engine/grammar/tl-regex-class.c — escapes, and bracket classes with nesting and set operations.
 *
 * [a-z&&[^aeiou]] is read without recursion: an explicit stack holds the open brackets.
 */
#include <string.h>

#include "grammar/tl-regex-private.h"
#include "grammar/tl-unicode-sets.h"

/* ---- escapes */

/* @digits hexadecimal digits, or any number in braces */
static gboolean
take_hex (TlRegexParser *p, const char *from, guint digits, gunichar *c)
{
  gboolean braces = p->at < p->end && *p->at == '{';
  guint32 value = 0, n = 0;
  for (p->at += braces; p->at < p->end && g_ascii_isxdigit (*p->at) && (braces || n < digits); p->at++, n++)
    value = MIN (value * 16 + g_ascii_xdigit_value (*p->at), 0x1000000u);
  if (braces ? n == 0 || p->at == p->end || *p->at++ != '}' : n != digits)
    return tl_regex_fail (p, from, FALSE, "the escape is not finished; write \\xHH, \\uHHHH or \\x{H…}");
  if (value > TL_CHAR_MAX)
    return tl_regex_fail (p, from, FALSE, "the escape is beyond U+10FFFF");
  *c = value;
  return TRUE;
}

static gboolean
take_u (TlRegexParser *p, const char *from, gunichar *c)
{
  gunichar low;
  if (!take_hex (p, from, 4, c))
    return FALSE;
  if (*c >= 0xd800 && *c < 0xdc00 && tl_regex_looking_at (p, "\\u")) {
    p->at += 2;
    if (!take_hex (p, from, 4, &low))
      return FALSE;
    if (low >= 0xdc00 && low < 0xe000)
      *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
  }
  if (*c >= 0xd800 && *c < 0xe000)
    return tl_regex_fail (p, from, FALSE, "the escape is half of a surrogate pair; write both halves or \\x{H…}");
  return TRUE;
}

static const char *
refused_escape (char c)
{
  if (g_ascii_isdigit (c) || c == 'k' || c == 'g')
    return "back-references";
  switch (c) {
    case 'Z': return "\\Z (use \\z)";
    case 'G': return "\\G";
    case 'K': return "\\K";
    case 'X': return "\\X";
    case 'R': return "\\R";
    case 'Q': return "quoted text (\\Q)";
    default: return NULL;
  }
}

/* the character after a backslash that @p has passed; @raw: it was written as \xHH */
gboolean
tl_regex_escaped_char (TlRegexParser *p, gboolean in_class, gunichar *c, gboolean *raw)
{
  static const char letters[] = "tnrfvae", meanings[] = "\t\n\r\f\v\a\x1b";
  const char *from = p->at - 1;
  *raw = FALSE;
  if (p->at == p->end)
    return tl_regex_fail (p, from, FALSE, "the pattern ends after a backslash; write \\\\ for a backslash");

  *c = tl_regex_take (p);
  const char *letter = *c && *c < 0x80 ? strchr (letters, *c) : NULL;
  if (letter)
    *c = meanings[letter - letters];
  else if (*c == 'b' && in_class)
    *c = '\b';
  else if (*c == '0' && !(p->at < p->end && g_ascii_isdigit (*p->at)))
    *c = 0;
  else if (*c == 'c' && p->at < p->end && g_ascii_isalpha (*p->at))
    *c = *p->at++ & 0x1f;
  else if (*c == 'x')
    return (*raw = !tl_regex_looking_at (p, "{"), take_hex (p, from, 2, c));
  else if (*c == 'u')
    return take_u (p, from, c);
  else if (*c == 'U')
    return take_hex (p, from, 8, c);
  else if (*c < 0x80 && refused_escape (*c))
    return tl_regex_fail (p, from, TRUE, "%s are not supported", refused_escape (*c));
  else if (*c >= 0x80 || g_ascii_isalnum (*c))
    return tl_regex_fail (p, from, FALSE, "unknown escape; write the character without the backslash");
  return TRUE;
}

static GArray *
property_set (TlRegexParser *p, const char *from)
{
  const char *name = p->at, *end = name + 1;
  if (p->at < p->end && *p->at == '{') {
    name++;
    end = memchr (name, '}', p->end - name);
    p->at = end ? end + 1 : p->end;
  } else if (p->at < p->end)
    end = p->at = g_utf8_next_char (p->at);
  else
    end = NULL;
  if (!end) {
    tl_regex_fail (p, from, FALSE, "the property is not finished; write \\p{Name}");
    return NULL;
  }
  gboolean negated = *name == '^' && end - name > 1;
  g_autoptr (GArray) set = tl_unicode_property (name + negated, end - name - negated);
  if (!set) {
    tl_regex_fail (p, from, TRUE, "the property %.*s is not known; general categories, scripts, Any, ASCII, Assigned and "
        "White_Space are", (int) (end - name), name);
    return NULL;
  }
  if (p->syntax & TL_SYNTAX_CASELESS)
    tl_unicode_add_case_variants (set, FALSE);
  return negated ? tl_char_set_negate (set, TL_CHAR_MAX) : g_steal_pointer (&set);
}

/* the set of \d \D \w \W \s \S \p \P after a backslash that @p has passed; NULL without error: some other escape */
GArray *
tl_regex_escaped_set (TlRegexParser *p)
{
  char letter = p->at < p->end ? *p->at : '\0';
  const char *from = p->at - 1;
  if (!letter || !strchr ("dDwWsSpP", letter))
    return NULL;

  gboolean property = letter == 'p' || letter == 'P', ascii = TL_REGEX_ASCII (p);
  p->at++;
  if (property && TL_REGEX_BYTES (p)) {
    tl_regex_fail (p, from, TRUE, "Unicode properties in a pattern of bytes are not supported; turn (?u) on");
    return NULL;
  }
  GArray *set = property ? property_set (p, from) : g_ascii_tolower (letter) == 'd' ? tl_unicode_digits (ascii)
      : g_ascii_tolower (letter) == 'w' ? tl_unicode_words (ascii) : tl_unicode_spaces (ascii);
  if (set && g_ascii_isupper (letter)) {
    GArray *rest = tl_char_set_negate (set, TL_REGEX_TOP (p));
    g_array_unref (set);
    set = rest;
  }
  return set;
}

/* ---- brackets */

typedef struct
{
  GArray *set;                  /* being gathered */
  GArray *left;                 /* the operand before `operator`, or NULL */
  char operator;                /* & - ~ */
  gboolean negated;
  const char *from;
} Bracket;

static void
bracket_clear (gpointer data)
{
  Bracket *b = data;
  g_clear_pointer (&b->set, g_array_unref);
  g_clear_pointer (&b->left, g_array_unref);
}

static gboolean
charge (TlRegexParser *p, const GArray *set)
{
  p->ranges += set->len;
  return p->ranges <= TL_REGEX_MAX_RANGES
      || tl_regex_fail (p, p->at, FALSE, "the pattern's character classes are too large together; use fewer or smaller ones");
}

/* makes the gathered operand canonical and applies the pending operator to it */
static gboolean
finish_operand (TlRegexParser *p, Bracket *b)
{
  tl_char_set_normalise (b->set);
  if (p->syntax & TL_SYNTAX_CASELESS) {
    tl_unicode_add_case_variants (b->set, TL_REGEX_ASCII (p));
    p->ranges += TL_REGEX_ASCII (p) ? 0 : TL_REGEX_CASE_RANGES;
  }
  if (b->left) {
    g_autoptr (GArray) left = g_steal_pointer (&b->left), right = g_steal_pointer (&b->set);
    g_autoptr (GArray) not_right = tl_char_set_negate (right, TL_REGEX_TOP (p));
    b->set = tl_char_set_intersect (left, b->operator == '&' ? right : not_right);
    if (b->operator == '~') {
      g_autoptr (GArray) not_left = tl_char_set_negate (left, TL_REGEX_TOP (p));
      g_autoptr (GArray) other = tl_char_set_intersect (right, not_left);
      tl_char_set_add_set (b->set, other);
      tl_char_set_normalise (b->set);
    }
  }
  return charge (p, b->set);
}

static void
open_bracket (TlRegexParser *p, GArray *stack)
{
  Bracket b = { tl_char_set_new (), NULL, 0, FALSE, p->at++ };
  if (p->at < p->end && *p->at == '^')
    b.negated = TRUE, p->at++;
  for (; p->at < p->end && *p->at == '-'; p->at++)
    tl_char_set_add (b.set, '-', '-');
  if (b.set->len == 0 && p->at < p->end && *p->at == ']') {
    tl_char_set_add (b.set, ']', ']');
    p->at++;
  }
  g_array_append_val (stack, b);
}

/* [:name:]; FALSE without error: it is none */
static gboolean
take_posix (TlRegexParser *p, GArray *set)
{
  const char *close = tl_regex_looking_at (p, "[:") ? g_strstr_len (p->at, p->end - p->at, ":]") : NULL;
  if (!close)
    return FALSE;
  const char *name = p->at + 2;
  gboolean negated = *name == '^';
  g_autoptr (GArray) posix = tl_unicode_posix (name + negated, close - name - negated);
  if (!posix)
    return FALSE;
  g_autoptr (GArray) rest = negated ? tl_char_set_negate (posix, TL_REGEX_TOP (p)) : NULL;
  tl_char_set_add_set (set, rest ? rest : posix);
  p->at = close + 2;
  return TRUE;
}

static gboolean
take_class_char (TlRegexParser *p, gunichar *c)
{
  const char *from = p->at;
  gboolean raw = FALSE;
  *c = tl_regex_take (p);
  if (*c == '\\' && !tl_regex_escaped_char (p, TRUE, c, &raw))
    return FALSE;
  if (TL_REGEX_BYTES (p) && *c >= 0x80 && !(raw && *c <= 0xff))
    return tl_regex_fail (p, from, FALSE, "a class of bytes cannot hold this character; write \\xHH or turn (?u) on");
  return TRUE;
}

/* one character, range, escape or POSIX class */
static gboolean
take_class_item (TlRegexParser *p, GArray *set)
{
  const char *from = p->at;
  gunichar lo, hi;
  if (take_posix (p, set))
    return TRUE;
  if (*p->at == '\\') {
    p->at++;
    g_autoptr (GArray) escaped = tl_regex_escaped_set (p);
    if (escaped) {
      tl_char_set_add_set (set, escaped);
      return charge (p, escaped);
    }
    if (p->error && *p->error)
      return FALSE;
    p->at--;
  }
  if (!take_class_char (p, &lo))
    return FALSE;
  hi = lo;
  if (p->at + 1 < p->end && *p->at == '-' && p->at[1] != ']' && p->at[1] != '-') {
    p->at++;
    if (!take_class_char (p, &hi))
      return FALSE;
    if (p->at[-1] && p->at >= p->start + 2 && p->at[-2] == '\\' && strchr ("dDwWsSpP", p->at[-1]))
      return tl_regex_fail (p, from, FALSE, "a range cannot end with a class");
  }
  if (hi < lo)
    return tl_regex_fail (p, from, FALSE, "the range ends before it begins; swap its ends");
  tl_char_set_add (set, lo, hi);
  return TRUE;
}

static gboolean
take_operator (TlRegexParser *p, Bracket *b)
{
  char c = *p->at;
  if (p->at + 1 >= p->end || p->at[1] != c || !strchr ("&-~", c))
    return FALSE;
  if (!finish_operand (p, b))
    return FALSE;
  b->left = g_steal_pointer (&b->set);
  b->set = tl_char_set_new ();
  b->operator = c;
  p->at += 2;
  return TRUE;
}

/* closes the innermost bracket: its set goes to the one around it, or is the result */
static GArray *
close_bracket (TlRegexParser *p, GArray *stack)
{
  Bracket *b = &g_array_index (stack, Bracket, stack->len - 1);
  if (!finish_operand (p, b))
    return NULL;
  g_autoptr (GArray) set = b->negated ? tl_char_set_negate (b->set, TL_REGEX_TOP (p)) : g_array_ref (b->set);
  g_array_set_size (stack, stack->len - 1);
  p->at++;
  if (stack->len == 0)
    return g_steal_pointer (&set);
  tl_char_set_add_set (g_array_index (stack, Bracket, stack->len - 1).set, set);
  return NULL;
}

/* the class whose '[' @p stands at */
GArray *
tl_regex_bracket (TlRegexParser *p)
{
  g_autoptr (GArray) stack = g_array_new (FALSE, FALSE, sizeof (Bracket));
  g_array_set_clear_func (stack, bracket_clear);
  const char *from = p->at;
  open_bracket (p, stack);
  while (p->at < p->end) {
    Bracket *b = &g_array_index (stack, Bracket, stack->len - 1);
    if ((p->syntax & TL_SYNTAX_EXTENDED) && g_ascii_isspace (*p->at))
      p->at++;
    else if (*p->at == ']') {
      GArray *set = close_bracket (p, stack);
      if (set || stack->len == 0 || (p->error && *p->error))
        return set;
    } else if (take_operator (p, b))
      continue;
    else if (p->error && *p->error)
      return NULL;
    else if (*p->at == '[' && !take_posix (p, b->set)) {
      if (stack->len == TL_REGEX_MAX_NESTING)
        return tl_regex_fail (p, p->at, FALSE, "brackets nest deeper than %d", TL_REGEX_MAX_NESTING), NULL;
      open_bracket (p, stack);
    } else if (*p->at != ']' && p->at < p->end && !take_class_item (p, b->set))
      return NULL;
  }
  tl_regex_fail (p, from, FALSE, "the bracket is not closed; write \\[ for a bracket");
  return NULL;
}
