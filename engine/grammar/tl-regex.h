/* engine/grammar/tl-regex.h — regex text to tree: the dialect, its limits and its errors.
 *
 * The dialect is that of Rust's regex crate with the spellings JSON Schema patterns use; what is not regular is refused by
 * name. Every error says what is wrong, at which byte, and the remedy. docs/grammar.md has the table.
 */
#pragma once

#include "grammar/tl-regex-tree.h"

G_BEGIN_DECLS

#define TL_REGEX_MAX_BYTES (256 * 1024)
#define TL_REGEX_MAX_NESTING 200
#define TL_REGEX_MAX_COUNT 100000
#define TL_REGEX_MAX_RANGES (500 * 1000)   /* ranges written while classes are made: about 0.1 s */
#define TL_REGEX_CASE_RANGES 500           /* what adding case variants counts as */

/* how a pattern begins; inline flags change it */
typedef enum
{
  TL_SYNTAX_CASELESS = 1 << 0,
  TL_SYNTAX_DOT_ALL = 1 << 1,
  TL_SYNTAX_MULTI_LINE = 1 << 2,
  TL_SYNTAX_EXTENDED = 1 << 3,
  TL_SYNTAX_ASCII = 1 << 4,     /* \d \w \s \b and case are ASCII */
  TL_SYNTAX_BYTES = 1 << 5,     /* classes and dot are of bytes */
} TlSyntax;

TlRegexTree *tl_regex_parse (const char *pattern, gsize length, TlSyntax syntax, GError **error);

G_END_DECLS
