/* engine/text/tl-split-pattern.c — runs a tokenizer's split pattern with PCRE2.
 *
 * tokenizer.json means Oniguruma with Ruby syntax. What differs is rewritten before compiling: \s (U+180E is no space),
 * \w and \b (marks and connectors belong to words), ^ and $ (always per line). Set operations inside classes are refused.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tl-split-pattern.h"

#include "tl-error.h"

#include <pcre2.h>
#include <string.h>

#define SPACES "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
/* Oniguruma counts Latin-1's other numbers as word characters */
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define BOUNDARY "(?:(?<=[" WORDS "])(?![" WORDS "])|(?<![" WORDS "])(?=[" WORDS "]))"
#define NO_BOUNDARY "(?:(?<=[" WORDS "])(?=[" WORDS "])|(?<![" WORDS "])(?![" WORDS "]))"
#define MAX_PATTERN 65536

struct _TlSplitPattern
{
  pcre2_code *code;             /* NULL for a literal */
  char *literal;
  gsize literal_length;
};

/* what an escape becomes outside and inside a character class; NULL = cannot be said there */
static const struct
{
  char letter;
  const char *outside, *inside;
} escapes[] = {
  { 's', "[" SPACES "]", SPACES },
  { 'S', "[^" SPACES "]", "\\S\\x{180e}" },
  { 'w', "[" WORDS "]", WORDS },
  { 'W', "[^" WORDS "]", NULL },
  { 'd', "\\p{Nd}", "\\p{Nd}" },
  { 'D', "\\P{Nd}", "\\P{Nd}" },
  { 'h', "[0-9a-fA-F]", "0-9a-fA-F" },
  { 'b', BOUNDARY, "\\b" },
  { 'B', NO_BOUNDARY, NULL },
  { 'Z', "\\Z", NULL },
  { 'X', "\\X", NULL },
};

static char *
translate (const char *regex, const char *name, GError **error)
{
  g_autoptr (GString) out = g_string_new (NULL);
  gboolean in_class = FALSE;
  const char *refused = NULL;
  for (const char *p = regex; *p && !refused; p++) {
    if (*p == '\\' && p[1]) {
      guint row = 0;
      while (row < G_N_ELEMENTS (escapes) && escapes[row].letter != p[1])
        row++;
      if (row == G_N_ELEMENTS (escapes))
        g_string_append_len (out, p, 2);
      else if (in_class ? escapes[row].inside != NULL : escapes[row].outside != NULL)
        g_string_append (out, in_class ? escapes[row].inside : escapes[row].outside);
      else
        refused = "\\W or \\B inside a character class";
      p++;
      continue;
    }
    if (in_class && p[0] == '&' && p[1] == '&')
      refused = "'&&' inside a character class";
    else if (in_class && p[0] == '[' && p[1] != ':')
      refused = "a class inside a character class";
    else if (in_class && p[0] == '[') {
      const char *end = strstr (p, ":]");
      if (!end)
        refused = "an open POSIX class";
      else {
        g_string_append_len (out, p, end + 2 - p);
        p = end + 1;
        continue;
      }
    } else if (!in_class && p[0] == '[') {
      in_class = TRUE;
      g_string_append_c (out, *p);
      if (p[1] == '^')
        g_string_append_c (out, *++p);
      if (p[1] == ']')
        g_string_append_c (out, *++p);
      continue;
    } else if (in_class && p[0] == ']')
      in_class = FALSE;
    g_string_append_c (out, *p);
  }
  if (refused) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: split pattern has %s, which is not supported; "
        "rewrite the pattern without it", name, refused);
    return NULL;
  }
  return g_string_free (g_steal_pointer (&out), FALSE);
}

/* compiles a regular expression of a tokenizer.json. Errors: TL_ERROR_UNSUPPORTED, TL_ERROR_BAD_FILE */
TlSplitPattern *
tl_split_pattern_new_regex (const char *regex, const char *name, GError **error)
{
  if (strlen (regex) > MAX_PATTERN) {
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: split pattern is longer than 64 KiB", name);
    return NULL;
  }
  g_autofree char *translated = translate (regex, name, error);
  if (!translated)
    return NULL;

  int code_error;
  PCRE2_SIZE at;
  pcre2_compile_context *context = pcre2_compile_context_create (NULL);
  pcre2_set_newline (context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit (context, 100);
  pcre2_code *code = pcre2_compile ((PCRE2_SPTR) translated, PCRE2_ZERO_TERMINATED,
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code_error, &at, context);
  pcre2_compile_context_free (context);
  if (!code) {
    char message[128];
    pcre2_get_error_message (code_error, (PCRE2_UCHAR *) message, sizeof message);
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: split pattern '%.60s': %s", name, regex, message);
    return NULL;
  }
  pcre2_jit_compile (code, PCRE2_JIT_COMPLETE);

  TlSplitPattern *pattern = g_new0 (TlSplitPattern, 1);
  pattern->code = code;
  return pattern;
}

TlSplitPattern *
tl_split_pattern_new_literal (const char *literal, gsize length)
{
  TlSplitPattern *pattern = g_new0 (TlSplitPattern, 1);
  pattern->literal = g_memdup2 (literal, length + 1);
  pattern->literal_length = length;
  return pattern;
}

void
tl_split_pattern_free (TlSplitPattern *pattern)
{
  if (pattern->code)
    pcre2_code_free (pattern->code);
  g_free (pattern->literal);
  g_free (pattern);
}

static void
find_literal (const TlSplitPattern *pattern, const char *text, gsize length, TlMatchFunc func, gpointer data)
{
  gsize n = pattern->literal_length;
  const char *p = text, *end = text + length, *hit;
  while (n && p < end && (hit = memmem (p, end - p, pattern->literal, n))) {
    if (!func (hit - text, hit - text + n, data))
      return;
    p = hit + n;
  }
}

/* calls @func for the matches in @text (valid UTF-8) from left to right.
 * Errors: TL_ERROR_INVALID_ARGUMENT when the pattern needs more steps than its limit */
gboolean
tl_split_pattern_find (const TlSplitPattern *pattern, const char *text, gsize length,
    TlMatchFunc func, gpointer data, GError **error)
{
  if (!pattern->code) {
    find_literal (pattern, text, length, func, data);
    return TRUE;
  }
  pcre2_match_data *match = pcre2_match_data_create (1, NULL);
  pcre2_match_context *context = pcre2_match_context_create (NULL);
  pcre2_set_match_limit (context, 20000000);
  pcre2_set_heap_limit (context, 65536);
  gsize at = 0, last_end = G_MAXSIZE;
  int rc = 1;
  while (at <= length) {
    rc = pcre2_match (pattern->code, (PCRE2_SPTR) text, length, at, PCRE2_NO_UTF_CHECK, match, context);
    if (rc < 0)
      break;
    PCRE2_SIZE *span = pcre2_get_ovector_pointer (match);
    gsize start = span[0], end = span[1];
    gboolean again = start == end && start == last_end;
    if (start > end)
      break;
    if (!again && !func (start, end, data))
      break;
    last_end = end;
    at = end > start ? end : end < length ? end + (gsize) (g_utf8_next_char (text + end) - (text + end)) : length + 1;
  }
  pcre2_match_context_free (context);
  pcre2_match_data_free (match);
  if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: the tokenizer's split pattern gives up on this "
        "text (PCRE2 error %d); pass the text in smaller parts", rc);
    return FALSE;
  }
  return TRUE;
}
