/* engine/text/tl-jinja-lexer.h — cuts a template into text and tokens, white space control included. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TL_LEX_END,
  TL_LEX_TEXT,
  TL_LEX_OPEN_OUTPUT,           /* {{ */
  TL_LEX_CLOSE_OUTPUT,
  TL_LEX_OPEN_BLOCK,            /* {% */
  TL_LEX_CLOSE_BLOCK,
  TL_LEX_NAME,
  TL_LEX_STRING,
  TL_LEX_INT,
  TL_LEX_FLOAT,
  TL_LEX_OPERATOR,
} TlLexKind;

typedef struct
{
  TlLexKind kind;
  guint line;
  char *text;
  gsize length;
} TlLexeme;

GArray *tl_jinja_lex (const char *source, GError **error);

G_END_DECLS
