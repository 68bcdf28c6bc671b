/* engine/text/tl-json-tree.c — reads a JSON text into a flat array of nodes.
 *
 * A DOM of objects is slow and large for a vocabulary; here a member costs one array element.
 * The reader is a loop with an explicit stack: nesting is limited, recursion cannot overflow.
 */
#include "text/tl-json-tree.h"

#include "tl-error.h"

#include <string.h>

typedef struct
{
  const char *text;
  gsize length, at;
  TlJsonTree *tree;
  guint32 stack[TL_JSON_MAX_DEPTH];
  guint depth;
} Reader;

static gboolean
fail (const Reader *reader, const char *name, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: %s at byte %" G_GSIZE_FORMAT
      "; the file is no valid JSON, fetch it again", name, what, reader->at);
  return FALSE;
}

static void
skip_space (Reader *reader)
{
  while (reader->at < reader->length && strchr (" \t\r\n", reader->text[reader->at]) && reader->text[reader->at])
    reader->at++;
}

/* reads a string whose opening quote is at `at`; gives the raw slice between the quotes */
static gboolean
read_string (Reader *reader, guint32 *start, guint32 *length)
{
  gsize begin = ++reader->at;
  while (reader->at < reader->length) {
    guchar c = (guchar) reader->text[reader->at];
    if (c == '"') {
      *start = begin;
      *length = reader->at - begin;
      reader->at++;
      return TRUE;
    }
    if (c < 0x20)
      return FALSE;
    if (c != '\\') {
      reader->at++;
      continue;
    }
    if (reader->at + 1 >= reader->length)
      return FALSE;
    char escape = reader->text[reader->at + 1];
    if (escape == 'u') {
      if (reader->length - reader->at < 6)
        return FALSE;
      for (int i = 2; i < 6; i++)
        if (!g_ascii_isxdigit (reader->text[reader->at + i]))
          return FALSE;
      reader->at += 6;
    } else if (escape && strchr ("\"\\/bfnrt", escape))
      reader->at += 2;
    else
      return FALSE;
  }
  return FALSE;
}

static gboolean
read_scalar (Reader *reader, TlJsonNode *node)
{
  static const struct { const char *word; TlJsonType type; } words[] = {
    { "null", TL_JSON_NULL }, { "true", TL_JSON_TRUE }, { "false", TL_JSON_FALSE },
  };
  const char *here = reader->text + reader->at;
  gsize left = reader->length - reader->at;
  node->start = reader->at;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++) {
    gsize n = strlen (words[i].word);
    if (left >= n && memcmp (here, words[i].word, n) == 0) {
      node->type = words[i].type;
      node->length = n;
      reader->at += n;
      return TRUE;
    }
  }
  gsize n = 0, digits = 0;
  while (n < left && here[n] && strchr ("+-.eE0123456789", here[n])) {
    digits += g_ascii_isdigit (here[n]);
    n++;
  }
  if (!digits || n > 400 || here[0] == '+')
    return FALSE;
  node->type = TL_JSON_NUMBER;
  node->length = n;
  reader->at += n;
  return TRUE;
}

/* reads one value's beginning; containers are pushed, scalars are complete */
static gboolean
read_value (Reader *reader, guint32 key_start, guint32 key_length, const char *name, GError **error)
{
  TlJsonNode node = { .key_start = key_start, .key_length = key_length };
  skip_space (reader);
  if (reader->at >= reader->length)
    return fail (reader, name, "the text ends early", error);
  char c = reader->text[reader->at];
  node.next = reader->tree->nodes->len + 1;
  if (c == '{' || c == '[') {
    if (reader->depth == TL_JSON_MAX_DEPTH)
      return fail (reader, name, "nesting is deeper than 64 levels", error);
    node.type = c == '{' ? TL_JSON_OBJECT : TL_JSON_ARRAY;
    node.start = reader->at++;
    reader->stack[reader->depth++] = reader->tree->nodes->len;
  } else if (c == '"') {
    node.type = TL_JSON_STRING;
    if (!read_string (reader, &node.start, &node.length))
      return fail (reader, name, "a string is broken", error);
  } else if (!read_scalar (reader, &node))
    return fail (reader, name, "an unexpected character", error);
  g_array_append_val (reader->tree->nodes, node);
  return TRUE;
}

/* closes containers and reads separators until the next value's place; FALSE at the end or on an error */
static gboolean
next_place (Reader *reader, gboolean *broken, guint32 *key_start, guint32 *key_length)
{
  *broken = FALSE;
  *key_start = *key_length = 0;
  while (reader->depth) {
    TlJsonNode *top = tl_json_node (reader->tree, reader->stack[reader->depth - 1]);
    char close = top->type == TL_JSON_OBJECT ? '}' : ']';
    skip_space (reader);
    if (reader->at < reader->length && reader->text[reader->at] == close) {
      reader->at++;
      top->length = reader->at - top->start;
      top->next = reader->tree->nodes->len;
      reader->depth--;
      continue;
    }
    *broken = TRUE;
    if (top->count) {
      if (reader->at >= reader->length || reader->text[reader->at] != ',')
        return FALSE;
      reader->at++;
      skip_space (reader);
    }
    top->count++;
    if (top->type == TL_JSON_OBJECT) {
      if (reader->at >= reader->length || reader->text[reader->at] != '"'
          || !read_string (reader, key_start, key_length))
        return FALSE;
      skip_space (reader);
      if (reader->at >= reader->length || reader->text[reader->at] != ':')
        return FALSE;
      reader->at++;
    }
    *broken = FALSE;
    return TRUE;
  }
  return FALSE;
}

/* parses @text, which must outlive the tree; @name goes into messages. Errors: TL_ERROR_BAD_FILE */
TlJsonTree *
tl_json_tree_new (const char *text, gsize length, const char *name, GError **error)
{
  Reader reader = { .text = text, .length = length };
  const char *bad;
  if (length > G_MAXINT32) {
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: larger than 2 GiB", name);
    return NULL;
  }
  if (!g_utf8_validate (text ? text : "", length, &bad)) {
    reader.at = bad - text;
    fail (&reader, name, "text is not UTF-8", error);
    return NULL;
  }

  g_autoptr (TlJsonTree) tree = g_new0 (TlJsonTree, 1);
  tree->text = text;
  tree->nodes = g_array_new (FALSE, FALSE, sizeof (TlJsonNode));
  reader.tree = tree;
  guint32 key_start = 0, key_length = 0;
  gboolean broken;
  do {
    if (!read_value (&reader, key_start, key_length, name, error))
      return NULL;
  } while (next_place (&reader, &broken, &key_start, &key_length));
  skip_space (&reader);
  if (broken || reader.at != reader.length) {
    fail (&reader, name, broken ? "a separator, key or bracket is missing" : "text behind the value", error);
    return NULL;
  }
  return g_steal_pointer (&tree);
}

void
tl_json_tree_free (TlJsonTree *tree)
{
  g_array_unref (tree->nodes);
  g_free (tree);
}

TlJsonType
tl_json_type (const TlJsonTree *tree, guint32 node)
{
  return tl_json_node (tree, node)->type;
}

/* the first child's index, or NONE */
guint32
tl_json_first (const TlJsonTree *tree, guint32 node)
{
  return tl_json_node (tree, node)->count ? node + 1 : TL_JSON_NONE;
}

/* the member named @key, or NONE when absent, null, or @object is no object */
guint32
tl_json_get (const TlJsonTree *tree, guint32 object, const char *key)
{
  const TlJsonNode *node = tl_json_node (tree, object);
  gsize length = strlen (key);
  if (node->type != TL_JSON_OBJECT)
    return TL_JSON_NONE;
  guint32 child = object + 1;
  for (guint32 i = 0; i < node->count; i++) {
    const TlJsonNode *member = tl_json_node (tree, child);
    if (member->key_length == length && memcmp (tree->text + member->key_start, key, length) == 0)
      return member->type == TL_JSON_NULL ? TL_JSON_NONE : child;
    child = member->next;
  }
  return TL_JSON_NONE;
}

static gunichar
read_hex4 (const char *p)
{
  gunichar value = 0;
  for (int i = 0; i < 4; i++)
    value = value * 16 + g_ascii_xdigit_value (p[i]);
  return value;
}

static char *
unescape (const char *raw, gsize length, gsize *out_length)
{
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  GString *out = g_string_sized_new (length + 1);
  for (gsize i = 0; i < length; i++) {
    if (raw[i] != '\\') {
      g_string_append_c (out, raw[i]);
      continue;
    }
    char c = raw[++i];
    if (c != 'u') {
      g_string_append_c (out, to[strchr (from, c) - from]);
      continue;
    }
    gunichar unit = read_hex4 (raw + i + 1);
    i += 4;
    if (unit >= 0xd800 && unit < 0xdc00 && i + 6 < length && raw[i + 1] == '\\' && raw[i + 2] == 'u') {
      gunichar low = read_hex4 (raw + i + 3);
      if (low >= 0xdc00 && low < 0xe000) {
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        i += 6;
      }
    }
    if (unit >= 0xd800 && unit < 0xe000)
      unit = 0xfffd;
    if (unit)
      g_string_append_unichar (out, unit);
    else
      g_string_append_c (out, '\0');
  }
  if (out_length)
    *out_length = out->len;
  return g_string_free (out, FALSE);
}

/* the decoded text of a string node (NUL-terminated, may hold NULs), NULL when it is no string */
char *
tl_json_dup_string (const TlJsonTree *tree, guint32 node, gsize *length)
{
  const TlJsonNode *n = tl_json_node (tree, node);
  return n->type == TL_JSON_STRING ? unescape (tree->text + n->start, n->length, length) : NULL;
}

char *
tl_json_dup_key (const TlJsonTree *tree, guint32 node, gsize *length)
{
  const TlJsonNode *n = tl_json_node (tree, node);
  return unescape (tree->text + n->key_start, n->key_length, length);
}

char *
tl_json_get_string (const TlJsonTree *tree, guint32 object, const char *key)
{
  guint32 node = tl_json_get (tree, object, key);
  return node ? tl_json_dup_string (tree, node, NULL) : NULL;
}

gint64
tl_json_int (const TlJsonTree *tree, guint32 node, gint64 fallback)
{
  const TlJsonNode *n = tl_json_node (tree, node);
  if (n->type != TL_JSON_NUMBER || n->length > 20)
    return fallback;
  g_autofree char *digits = g_strndup (tree->text + n->start, n->length);
  char *end;
  gint64 value = g_ascii_strtoll (digits, &end, 10);
  return *end ? fallback : value;
}

gint64
tl_json_get_int (const TlJsonTree *tree, guint32 object, const char *key, gint64 fallback)
{
  guint32 node = tl_json_get (tree, object, key);
  return node ? tl_json_int (tree, node, fallback) : fallback;
}

/* the value as the reference reads it: all digits as one whole number, then scaled by a power of ten. That may differ from
 * the nearest double in the last bit, which decides between paths of equal score */
double
tl_json_double (const TlJsonTree *tree, guint32 node)
{
  const TlJsonNode *n = tl_json_node (tree, node);
  if (n->type != TL_JSON_NUMBER)
    return 0.0;
  g_autofree char *digits = g_strndup (tree->text + n->start, n->length);
  guint64 whole = 0;
  int exponent = 0;
  gboolean fraction = FALSE;
  const char *p = digits + (*digits == '-');
  for (; g_ascii_isdigit (*p) || *p == '.'; p++) {
    if (*p == '.')
      fraction = TRUE;
    else if (whole > (G_MAXUINT64 - 9) / 10)
      return g_ascii_strtod (digits, NULL);
    else {
      whole = whole * 10 + (*p - '0');
      exponent -= fraction;
    }
  }
  if (*p == 'e' || *p == 'E')
    exponent += (int) CLAMP (g_ascii_strtoll (p + 1, NULL, 10), -400, 400);
  if (exponent < -22 || exponent > 22)
    return g_ascii_strtod (digits, NULL);
  double scale = 1.0, value = (double) whole;
  for (int i = 0; i < ABS (exponent); i++)
    scale *= 10.0;              /* exact up to 10^22 */
  value = exponent < 0 ? value / scale : value * scale;
  return *digits == '-' ? -value : value;
}

gboolean
tl_json_get_bool (const TlJsonTree *tree, guint32 object, const char *key, gboolean fallback)
{
  guint32 node = tl_json_get (tree, object, key);
  if (!node)
    return fallback;
  TlJsonType type = tl_json_type (tree, node);
  return type == TL_JSON_TRUE ? TRUE : type == TL_JSON_FALSE ? FALSE : fallback;
}

/* copies the node's own JSON text */
void
tl_json_append_raw (const TlJsonTree *tree, guint32 node, GString *out)
{
  const TlJsonNode *n = tl_json_node (tree, node);
  if (n->type == TL_JSON_STRING)
    g_string_append_len (out, tree->text + n->start - 1, n->length + 2);
  else
    g_string_append_len (out, tree->text + n->start, n->length);
}

/* writes @text as a JSON string; bytes that are not UTF-8 are the caller's fault */
void
tl_json_append_quoted (GString *out, const char *text, gssize length)
{
  gsize n = length < 0 ? strlen (text) : (gsize) length;
  g_string_append_c (out, '"');
  for (gsize i = 0; i < n; i++) {
    guchar c = (guchar) text[i];
    if (c == '"' || c == '\\')
      g_string_append_printf (out, "\\%c", c);
    else if (c < 0x20)
      g_string_append_printf (out, "\\u%04x", c);
    else
      g_string_append_c (out, c);
  }
  g_string_append_c (out, '"');
}
