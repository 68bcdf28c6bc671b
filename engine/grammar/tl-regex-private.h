/* engine/grammar/tl-regex-private.h — the parser's state, shared by its two files: the pattern and its classes. */
#pragma once

#include "grammar/tl-regex.h"

G_BEGIN_DECLS

typedef struct
{
  const char *start, *at, *end;
  TlRegexTree *tree;
  guint syntax;
  gsize ranges;                 /* written so far, against TL_REGEX_MAX_RANGES */
  GHashTable *interned;         /* TlCharClass bytes → class node value */
  GError **error;
} TlRegexParser;

gboolean tl_regex_fail (TlRegexParser *p, const char *at, gboolean unsupported, const char *format, ...) G_GNUC_PRINTF (4, 5);
gboolean tl_regex_looking_at (const TlRegexParser *p, const char *text);
gunichar tl_regex_take (TlRegexParser *p);
gboolean tl_regex_escaped_char (TlRegexParser *p, gboolean in_class, gunichar *c, gboolean *raw);
GArray *tl_regex_escaped_set (TlRegexParser *p);
GArray *tl_regex_bracket (TlRegexParser *p);

/* whether @p's characters are single bytes here, and the largest of them */
#define TL_REGEX_BYTES(p) (((p)->syntax & TL_SYNTAX_BYTES) != 0)
#define TL_REGEX_ASCII(p) (((p)->syntax & (TL_SYNTAX_ASCII | TL_SYNTAX_BYTES)) != 0)
#define TL_REGEX_TOP(p) (TL_REGEX_BYTES (p) ? 0xffu : TL_CHAR_MAX)

G_END_DECLS
