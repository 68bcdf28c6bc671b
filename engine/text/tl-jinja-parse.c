/* engine/text/tl-jinja-parse.c — parses a chat template; what the interpreter lacks is refused here, with its line.
 *
 * Recursive descent, nesting limited; the precedence is Jinja's: or, and, not, comparison, + −, ~, * / // %, unary,
 * then postfix, filters and tests.
 */
#include "text/tl-jinja-parse.h"

#include "text/tl-jinja-lexer.h"
#include "tl-error.h"

#include <string.h>

#define MAX_NESTING 60
#define MAX_SOURCE (1 << 20)

typedef struct
{
  GArray *lexemes;
  guint at, depth, loops;
  TlJinjaTree *tree;
  GError **error;
} Parser;

static TlNode *parse_expression (Parser *parser);
static TlNode *parse_block (Parser *parser, const char *const *ends);
static TlNode *parse_unary (Parser *parser);

static const TlLexeme *
peek (const Parser *parser)
{
  return &g_array_index (parser->lexemes, TlLexeme, parser->at);
}

static TlNode *
fail (Parser *parser, TlError code, const char *what, const char *name)
{
  if (!*parser->error)
    g_set_error (parser->error, TL_ERROR, code, "tinyloop: chat template, line %u: %s%s%s%s", peek (parser)->line, what,
        name ? " '" : "", name ? name : "", name ? "'" : "");
  return NULL;
}

static TlNode *
unsupported (Parser *parser, const char *what, const char *name)
{
  g_autofree char *text = g_strdup_printf ("not supported: %s", what);
  return fail (parser, TL_ERROR_UNSUPPORTED, text, name);
}

static void
node_free (gpointer data)
{
  TlNode *node = data;
  g_free (node->text);
  g_ptr_array_unref (node->children);
  g_free (node);
}

static TlNode *
make (Parser *parser, TlNodeKind kind, const TlLexeme *text)
{
  TlNode *node = g_new0 (TlNode, 1);
  node->kind = kind;
  node->line = peek (parser)->line;
  node->children = g_ptr_array_new ();
  if (text) {
    node->line = text->line;
    node->text = g_memdup2 (text->text, text->length + 1);
    node->length = text->length;
  }
  g_ptr_array_add (parser->tree->nodes, node);
  return node;
}

static TlNode *
make_named (Parser *parser, TlNodeKind kind, const char *text)
{
  TlLexeme lexeme = { TL_LEX_NAME, peek (parser)->line, (char *) text, strlen (text) };
  return make (parser, kind, &lexeme);
}

static gboolean
adopt (TlNode *parent, TlNode *child)
{
  g_ptr_array_add (parent->children, child);
  return child != NULL;
}

static gboolean
is (const Parser *parser, TlLexKind kind, const char *text)
{
  const TlLexeme *lexeme = peek (parser);
  return lexeme->kind == kind && (!text || strcmp (lexeme->text, text) == 0);
}

static gboolean
accept (Parser *parser, TlLexKind kind, const char *text)
{
  if (!is (parser, kind, text))
    return FALSE;
  parser->at++;
  return TRUE;
}

static gboolean
expect (Parser *parser, TlLexKind kind, const char *text)
{
  if (accept (parser, kind, text))
    return TRUE;
  fail (parser, TL_ERROR_BAD_FILE, "expected", text ? text : kind == TL_LEX_NAME ? "a name" : "the end of the tag");
  return FALSE;
}

#define OPERATOR(text) accept (parser, TL_LEX_OPERATOR, text)
#define WORD(text) accept (parser, TL_LEX_NAME, text)

/* a, b=c) up to the closing bracket, which is taken */
static gboolean
parse_arguments (Parser *parser, TlNode *call)
{
  while (!OPERATOR (")")) {
    if (is (parser, TL_LEX_OPERATOR, "*") || is (parser, TL_LEX_OPERATOR, "**"))
      return unsupported (parser, "argument unpacking", NULL) != NULL;
    const TlLexeme *name = peek (parser);
    const TlLexeme *after = &g_array_index (parser->lexemes, TlLexeme, parser->at + (name->kind != TL_LEX_END));
    TlNode *argument;
    if (name->kind == TL_LEX_NAME && after->kind == TL_LEX_OPERATOR && strcmp (after->text, "=") == 0) {
      argument = make (parser, TL_NODE_KEYWORD, name);
      parser->at += 2;
      if (!adopt (argument, parse_expression (parser)))
        return FALSE;
    } else
      argument = parse_expression (parser);
    if (!argument)
      return FALSE;
    adopt (call, argument);
    if (!is (parser, TL_LEX_OPERATOR, ")") && !expect (parser, TL_LEX_OPERATOR, ","))
      return FALSE;
  }
  return TRUE;
}

static TlNode *
parse_elements (Parser *parser, TlNodeKind kind, const char *close)
{
  TlNode *node = make (parser, kind, NULL);
  while (!OPERATOR (close)) {
    if (!adopt (node, parse_expression (parser)))
      return NULL;
    if (kind == TL_NODE_DICT && (!expect (parser, TL_LEX_OPERATOR, ":") || !adopt (node, parse_expression (parser))))
      return NULL;
    if (!is (parser, TL_LEX_OPERATOR, close) && !expect (parser, TL_LEX_OPERATOR, ","))
      return NULL;
  }
  return node;
}

static TlNode *
parse_bracketed (Parser *parser)
{
  if (OPERATOR (")"))
    return make (parser, TL_NODE_LIST, NULL);
  TlNode *first = parse_expression (parser);
  if (!first || OPERATOR (")"))
    return first;
  if (!expect (parser, TL_LEX_OPERATOR, ","))
    return NULL;
  TlNode *rest = parse_elements (parser, TL_NODE_LIST, ")");
  if (rest)
    g_ptr_array_insert (rest->children, 0, first);
  return rest;
}

static TlNode *
parse_primary (Parser *parser)
{
  static const struct { const char *word; TlNodeKind kind; } constants[] = {
    { "true", TL_NODE_TRUE }, { "True", TL_NODE_TRUE }, { "false", TL_NODE_FALSE }, { "False", TL_NODE_FALSE },
    { "none", TL_NODE_NONE }, { "None", TL_NODE_NONE },
  };
  const TlLexeme *lexeme = peek (parser);
  TlNode *node = NULL;
  if (lexeme->kind == TL_LEX_NAME) {
    parser->at++;
    for (guint i = 0; i < G_N_ELEMENTS (constants); i++)
      if (strcmp (lexeme->text, constants[i].word) == 0)
        return make (parser, constants[i].kind, NULL);
    return make (parser, TL_NODE_NAME, lexeme);
  }
  if (lexeme->kind == TL_LEX_STRING) {
    g_autoptr (GString) text = g_string_new (NULL);
    for (; is (parser, TL_LEX_STRING, NULL); parser->at++)
      g_string_append_len (text, peek (parser)->text, peek (parser)->length);
    TlLexeme whole = { TL_LEX_STRING, lexeme->line, text->str, text->len };
    return make (parser, TL_NODE_STRING, &whole);
  }
  if (lexeme->kind == TL_LEX_INT || lexeme->kind == TL_LEX_FLOAT) {
    node = make (parser, lexeme->kind == TL_LEX_INT ? TL_NODE_INT : TL_NODE_FLOAT, lexeme);
    node->number = g_ascii_strtoll (lexeme->text, NULL, 10);
    node->real = g_ascii_strtod (lexeme->text, NULL);
    parser->at++;
    return node;
  }
  if (OPERATOR ("("))
    return parse_bracketed (parser);
  if (OPERATOR ("["))
    return parse_elements (parser, TL_NODE_LIST, "]");
  if (OPERATOR ("{"))
    return parse_elements (parser, TL_NODE_DICT, "}");
  return fail (parser, TL_ERROR_BAD_FILE, "an expression is missing before",
      lexeme->kind == TL_LEX_END ? "the end" : lexeme->text);
}

/* the inside of [ ] after an object */
static TlNode *
parse_subscript (Parser *parser, TlNode *object)
{
  TlNode *parts[3] = { NULL, NULL, NULL };
  guint n = 0;
  gboolean slice = FALSE;
  while (!OPERATOR ("]")) {
    if (OPERATOR (":")) {
      slice = TRUE;
      if (++n > 2)
        return fail (parser, TL_ERROR_BAD_FILE, "a slice has too many parts", NULL);
    } else if (parts[n] || !(parts[n] = parse_expression (parser)))
      return fail (parser, TL_ERROR_BAD_FILE, "expected", "]");
  }
  TlNode *node = make (parser, slice ? TL_NODE_SLICE : TL_NODE_INDEX, NULL);
  adopt (node, object);
  for (guint i = 0; i < (slice ? 3 : 1); i++)
    adopt (node, parts[i]);
  return slice || parts[0] ? node : fail (parser, TL_ERROR_BAD_FILE, "an index is missing", NULL);
}

static TlNode *
parse_call (Parser *parser, TlNode *callee)
{
  TlNode *call;
  TlLexeme name = { TL_LEX_NAME, callee->line, callee->text, callee->length };
  if (callee->kind == TL_NODE_NAME)
    call = make (parser, TL_NODE_CALL, &name);
  else if (callee->kind == TL_NODE_MEMBER) {
    if (!tl_jinja_has_method (callee->text))
      return unsupported (parser, "method", callee->text);
    call = make (parser, TL_NODE_METHOD, &name);
    adopt (call, TL_CHILD (callee, 0));
  } else
    return unsupported (parser, "calling the result of an expression", NULL);
  return parse_arguments (parser, call) ? call : NULL;
}

static TlNode *
parse_filter (Parser *parser, TlNode *value)
{
  const TlLexeme *name = peek (parser);
  if (!expect (parser, TL_LEX_NAME, NULL))
    return NULL;
  if (!tl_jinja_has_filter (name->text))
    return unsupported (parser, "filter", name->text);
  TlNode *node = make (parser, TL_NODE_FILTER, name);
  adopt (node, value);
  return !OPERATOR ("(") || parse_arguments (parser, node) ? node : NULL;
}

static TlNode *
parse_test (Parser *parser, TlNode *value)
{
  gboolean inverted = WORD ("not");
  const TlLexeme *name = peek (parser);
  if (!expect (parser, TL_LEX_NAME, NULL))
    return NULL;
  if (!tl_jinja_has_test (name->text))
    return unsupported (parser, "test", name->text);
  TlNode *test = make (parser, TL_NODE_TEST, name);
  adopt (test, value);
  const TlLexeme *next = peek (parser);
  gboolean bare = next->kind == TL_LEX_STRING || next->kind == TL_LEX_INT || next->kind == TL_LEX_FLOAT
      || (next->kind == TL_LEX_NAME && !g_strv_contains ((const char *const[]) { "else", "and", "or", "is", "if", "not",
          "in", NULL }, next->text));
  if (OPERATOR ("(")) {
    if (!parse_arguments (parser, test))
      return NULL;
  } else if (bare && !adopt (test, parse_primary (parser)))
    return NULL;
  if (!inverted)
    return test;
  TlNode *node = make (parser, TL_NODE_NOT, NULL);
  adopt (node, test);
  return node;
}

static TlNode *
parse_postfix (Parser *parser)
{
  TlNode *node = parse_primary (parser);
  for (guint n = 0; node; n++) {
    if (n > 200)
      return fail (parser, TL_ERROR_BAD_FILE, "an expression has more than 200 parts", NULL);
    if (OPERATOR (".")) {
      const TlLexeme *name = peek (parser);
      if (accept (parser, TL_LEX_INT, NULL)) {
        TlNode *index = make (parser, TL_NODE_INT, name);
        index->number = g_ascii_strtoll (name->text, NULL, 10);
        TlNode *member = make (parser, TL_NODE_INDEX, NULL);
        adopt (member, node);
        adopt (member, index);
        node = member;
        continue;
      }
      if (!expect (parser, TL_LEX_NAME, NULL))
        return NULL;
      TlNode *member = make (parser, TL_NODE_MEMBER, name);
      adopt (member, node);
      node = member;
    } else if (OPERATOR ("["))
      node = parse_subscript (parser, node);
    else if (OPERATOR ("("))
      node = parse_call (parser, node);
    else if (OPERATOR ("|"))
      node = parse_filter (parser, node);
    else if (WORD ("is"))
      node = parse_test (parser, node);
    else
      return node;
  }
  return NULL;
}

static TlNode *
parse_unary (Parser *parser)
{
  gboolean minus = is (parser, TL_LEX_OPERATOR, "-");
  if (!minus && !is (parser, TL_LEX_OPERATOR, "+"))
    return parse_postfix (parser);
  parser->at++;
  if (++parser->depth > MAX_NESTING)
    return fail (parser, TL_ERROR_BAD_FILE, "nesting is deeper than 60 levels", NULL);
  TlNode *value = parse_unary (parser);
  parser->depth--;
  if (!value || !minus)
    return value;
  TlNode *node = make (parser, TL_NODE_NEGATE, NULL);
  adopt (node, value);
  return node;
}

/* the left-associative levels, loosest first */
static const char *const levels[][7] = {
  { "==", "!=", "<=", ">=", "<", ">", NULL },
  { "+", "-", NULL },
  { "~", NULL },
  { "*", "//", "/", "%", NULL },
};

static const char *
accept_binary (Parser *parser, guint level)
{
  for (guint i = 0; levels[level][i]; i++)
    if (OPERATOR (levels[level][i]))
      return levels[level][i];
  if (level == 0 && WORD ("in"))
    return "in";
  const TlLexeme *next = &g_array_index (parser->lexemes, TlLexeme, parser->at + (peek (parser)->kind != TL_LEX_END));
  if (level == 0 && is (parser, TL_LEX_NAME, "not") && next->kind == TL_LEX_NAME && strcmp (next->text, "in") == 0) {
    parser->at += 2;
    return "not in";
  }
  return NULL;
}

static TlNode *
parse_binary (Parser *parser, guint level)
{
  if (level == G_N_ELEMENTS (levels)) {
    TlNode *value = parse_unary (parser);
    if (value && is (parser, TL_LEX_OPERATOR, "**"))
      return unsupported (parser, "operator", "**");
    return value;
  }
  TlNode *left = parse_binary (parser, level + 1);
  const char *operator;
  for (guint n = 0; left && (operator = accept_binary (parser, level)); n++) {
    if (n > 500)
      return fail (parser, TL_ERROR_BAD_FILE, "an expression has more than 500 operands", NULL);
    if (level == 0 && n)
      return unsupported (parser, "a chain of comparisons", NULL);
    TlNode *node = make_named (parser, TL_NODE_BINARY, operator);
    TlNode *right = parse_binary (parser, level + 1);
    if (!right)
      return NULL;
    adopt (node, left);
    adopt (node, right);
    left = node;
  }
  return left;
}

static TlNode *
parse_not (Parser *parser)
{
  if (!WORD ("not"))
    return parse_binary (parser, 0);
  if (++parser->depth > MAX_NESTING)
    return fail (parser, TL_ERROR_BAD_FILE, "nesting is deeper than 60 levels", NULL);
  TlNode *value = parse_not (parser);
  parser->depth--;
  TlNode *node = make (parser, TL_NODE_NOT, NULL);
  return adopt (node, value) ? node : NULL;
}

static TlNode *
parse_logic (Parser *parser, gboolean either)
{
  TlNode *left = either ? parse_logic (parser, FALSE) : parse_not (parser);
  for (guint n = 0; left && WORD (either ? "or" : "and"); n++) {
    TlNode *node = make (parser, either ? TL_NODE_OR : TL_NODE_AND, NULL);
    TlNode *right = either ? parse_logic (parser, FALSE) : parse_not (parser);
    if (!right || n > 500)
      return n > 500 ? fail (parser, TL_ERROR_BAD_FILE, "an expression has more than 500 operands", NULL) : NULL;
    adopt (node, left);
    adopt (node, right);
    left = node;
  }
  return left;
}

static TlNode *
parse_choice (Parser *parser)
{
  TlNode *value = parse_logic (parser, TRUE);
  while (value && WORD ("if")) {
    TlNode *node = make (parser, TL_NODE_CHOICE, NULL);
    if (!adopt (node, parse_logic (parser, TRUE)))
      return NULL;
    adopt (node, value);
    TlNode *other = NULL;
    if (WORD ("else") && !(other = parse_expression (parser)))
      return NULL;
    adopt (node, other);
    value = node;
  }
  return value;
}

static TlNode *
parse_expression (Parser *parser)
{
  if (++parser->depth > MAX_NESTING)
    return fail (parser, TL_ERROR_BAD_FILE, "nesting is deeper than 60 levels", NULL);
  TlNode *node = parse_choice (parser);
  parser->depth--;
  return node;
}

/* --- statements ----------------------------------------------------------------------------------------- */

static gboolean
close_tag (Parser *parser)
{
  return expect (parser, TL_LEX_CLOSE_BLOCK, NULL);
}

/* a name, or several with commas (brackets allowed) */
static TlNode *
parse_targets (Parser *parser)
{
  TlNode *targets = make (parser, TL_NODE_LIST, NULL);
  gboolean bracket = OPERATOR ("(");
  do {
    const TlLexeme *name = peek (parser);
    if (!expect (parser, TL_LEX_NAME, NULL))
      return NULL;
    adopt (targets, make (parser, TL_NODE_NAME, name));
  } while (OPERATOR (","));
  return !bracket || expect (parser, TL_LEX_OPERATOR, ")") ? targets : NULL;
}

static TlNode *
parse_if (Parser *parser)
{
  static const char *const ends[] = { "elif", "else", "endif", NULL };
  TlNode *node = make (parser, TL_NODE_IF, NULL);
  if (!adopt (node, parse_expression (parser)) || !close_tag (parser) || !adopt (node, parse_block (parser, ends)))
    return NULL;
  if (WORD ("endif"))
    return close_tag (parser) ? node : NULL;
  if (WORD ("elif")) {
    if (++parser->depth > MAX_NESTING)
      return fail (parser, TL_ERROR_BAD_FILE, "nesting is deeper than 60 levels", NULL);
    TlNode *other = parse_if (parser);
    parser->depth--;
    return adopt (node, other) ? node : NULL;
  }
  return expect (parser, TL_LEX_NAME, "else") && close_tag (parser) && adopt (node, parse_block (parser, ends + 2))
      && expect (parser, TL_LEX_NAME, "endif") && close_tag (parser) ? node : NULL;
}

static TlNode *
parse_for (Parser *parser)
{
  static const char *const ends[] = { "else", "endfor", NULL };
  TlNode *node = make (parser, TL_NODE_FOR, NULL), *filter = NULL, *other = NULL;
  if (!adopt (node, parse_targets (parser)) || !expect (parser, TL_LEX_NAME, "in")
      || !adopt (node, parse_logic (parser, TRUE)))
    return NULL;
  if (WORD ("if") && !(filter = parse_expression (parser)))
    return NULL;
  if (is (parser, TL_LEX_NAME, "recursive"))
    return unsupported (parser, "recursive loops", NULL);
  parser->loops++;
  gboolean fine = close_tag (parser) && adopt (node, parse_block (parser, ends));
  parser->loops--;
  if (!fine)
    return NULL;
  if (WORD ("else") && (!close_tag (parser) || !(other = parse_block (parser, ends + 1))))
    return NULL;
  adopt (node, filter);
  adopt (node, other);
  return expect (parser, TL_LEX_NAME, "endfor") && close_tag (parser) ? node : NULL;
}

static TlNode *
parse_set (Parser *parser)
{
  static const char *const ends[] = { "endset", NULL };
  const TlLexeme *name = peek (parser);
  TlNode *targets = parse_targets (parser);
  if (!targets)
    return NULL;
  if (OPERATOR (".")) {
    const TlLexeme *member = peek (parser);
    if (!expect (parser, TL_LEX_NAME, NULL) || !expect (parser, TL_LEX_OPERATOR, "="))
      return NULL;
    TlNode *node = make (parser, TL_NODE_SET_MEMBER, member);
    adopt (node, make (parser, TL_NODE_NAME, name));
    return adopt (node, parse_expression (parser)) && close_tag (parser) ? node : NULL;
  }
  gboolean block = !OPERATOR ("=");
  TlNode *node = make (parser, block ? TL_NODE_SET_BLOCK : TL_NODE_SET, NULL);
  adopt (node, targets);
  if (!block) {
    TlNode *value = parse_expression (parser);
    if (value && is (parser, TL_LEX_OPERATOR, ",")) {
      TlNode *tuple = make (parser, TL_NODE_LIST, NULL);
      adopt (tuple, value);
      while (OPERATOR (","))
        if (!adopt (tuple, parse_expression (parser)))
          return NULL;
      value = tuple;
    }
    return adopt (node, value) && close_tag (parser) ? node : NULL;
  }
  if (is (parser, TL_LEX_OPERATOR, "|"))
    return unsupported (parser, "filters on a set block", NULL);
  return close_tag (parser) && adopt (node, parse_block (parser, ends)) && expect (parser, TL_LEX_NAME, "endset")
      && close_tag (parser) ? node : NULL;
}

static TlNode *
parse_jump (Parser *parser, TlNodeKind kind)
{
  if (!parser->loops)
    return fail (parser, TL_ERROR_BAD_FILE, "break or continue outside of a loop", NULL);
  TlNode *node = make (parser, kind, NULL);
  return close_tag (parser) ? node : NULL;
}

/* `{% generation %}` marks what an assistant said for training; it only groups */
static TlNode *
parse_generation (Parser *parser)
{
  static const char *const ends[] = { "endgeneration", NULL };
  TlNode *block = close_tag (parser) ? parse_block (parser, ends) : NULL;
  return block && expect (parser, TL_LEX_NAME, "endgeneration") && close_tag (parser) ? block : NULL;
}

static TlNode *
parse_statement (Parser *parser)
{
  if (WORD ("if"))
    return parse_if (parser);
  if (WORD ("for"))
    return parse_for (parser);
  if (WORD ("set"))
    return parse_set (parser);
  if (WORD ("break"))
    return parse_jump (parser, TL_NODE_BREAK);
  if (WORD ("continue"))
    return parse_jump (parser, TL_NODE_CONTINUE);
  if (WORD ("generation"))
    return parse_generation (parser);
  return unsupported (parser, "statement", peek (parser)->text);
}

/* statements up to a tag that begins with a word of @ends, whose `{%` is taken; @ends NULL: to the template's end */
static TlNode *
parse_block (Parser *parser, const char *const *ends)
{
  TlNode *block = make (parser, TL_NODE_BLOCK, NULL);
  if (++parser->depth > MAX_NESTING)
    return fail (parser, TL_ERROR_BAD_FILE, "nesting is deeper than 60 levels", NULL);
  for (;;) {
    const TlLexeme *lexeme = peek (parser);
    TlNode *node;
    if (lexeme->kind == TL_LEX_END) {
      parser->depth--;
      return ends ? fail (parser, TL_ERROR_BAD_FILE, "missing at the end:", *ends) : block;
    }
    parser->at++;
    if (lexeme->kind == TL_LEX_TEXT)
      node = make (parser, TL_NODE_TEXT, lexeme);
    else if (lexeme->kind == TL_LEX_OPEN_OUTPUT) {
      node = make (parser, TL_NODE_OUTPUT, NULL);
      if (!adopt (node, parse_expression (parser)) || !expect (parser, TL_LEX_CLOSE_OUTPUT, NULL))
        return NULL;
    } else if (ends && is (parser, TL_LEX_NAME, NULL) && g_strv_contains (ends, peek (parser)->text)) {
      parser->depth--;
      return block;
    } else if (!(node = parse_statement (parser)))
      return NULL;
    adopt (block, node);
  }
}

/* parses a template. Errors: TL_ERROR_BAD_FILE, TL_ERROR_UNSUPPORTED naming the construct, both with the line */
TlJinjaTree *
tl_jinja_parse (const char *source, GError **error)
{
  GError *failure = NULL;
  if (strlen (source) > MAX_SOURCE || !g_utf8_validate (source, -1, NULL)) {
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: chat template is longer than 1 MiB or not UTF-8");
    return NULL;
  }
  g_autoptr (GArray) lexemes = tl_jinja_lex (source, error);
  if (!lexemes)
    return NULL;
  g_autoptr (TlJinjaTree) tree = g_new0 (TlJinjaTree, 1);
  tree->nodes = g_ptr_array_new_with_free_func (node_free);
  Parser parser = { .lexemes = lexemes, .tree = tree, .error = &failure };
  tree->root = parse_block (&parser, NULL);
  if (!tree->root) {
    g_propagate_error (error, failure);
    return NULL;
  }
  return g_steal_pointer (&tree);
}

void
tl_jinja_tree_free (TlJinjaTree *tree)
{
  g_ptr_array_unref (tree->nodes);
  g_free (tree);
}
