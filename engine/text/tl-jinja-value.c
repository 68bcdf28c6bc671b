/* engine/text/tl-jinja-value.c — values of a template run: making, comparing and printing them as Python would. */
#include "text/tl-jinja-value.h"

#include "tl-error.h"

#include <math.h>
#include <string.h>

#define MAX_BYTES ((gsize) 256 << 20)
#define MAX_STEPS 2000000
#define MAX_DEPTH 64
#define MAX_PRINT ((gsize) 64 << 20)

void
tl_jinja_run_init (TlJinjaRun *run, GError **error)
{
  *run = (TlJinjaRun) { .blocks = g_ptr_array_new_with_free_func (g_free), .error = error };
}

void
tl_jinja_run_clear (TlJinjaRun *run)
{
  g_ptr_array_unref (run->blocks);
}

/* sets the run's error once; always NULL */
TlJinjaValue *
tl_jinja_fail (TlJinjaRun *run, int code, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  if (run->error && !*run->error)
    g_set_error (run->error, TL_ERROR, code, "tinyloop: chat template, line %u: %s", run->line, message);
  return NULL;
}

gpointer
tl_jinja_alloc (TlJinjaRun *run, gsize size)
{
  if (size > MAX_BYTES - run->bytes)
    return tl_jinja_fail (run, TL_ERROR_NO_MEMORY, "needs more than 256 MiB; shorten the messages");
  run->bytes += size;
  gpointer block = g_malloc0 (size ? size : 1);
  g_ptr_array_add (run->blocks, block);
  return block;
}

gboolean
tl_jinja_step (TlJinjaRun *run)
{
  if (++run->steps <= MAX_STEPS)
    return TRUE;
  tl_jinja_fail (run, TL_ERROR_INVALID_ARGUMENT, "takes more than 2,000,000 steps; shorten the messages");
  return FALSE;
}

static TlJinjaValue *
make (TlJinjaRun *run, TlJinjaKind kind)
{
  TlJinjaValue *value = tl_jinja_alloc (run, sizeof (TlJinjaValue));
  if (value)
    value->kind = kind;
  return value;
}

TlJinjaValue *
tl_jinja_none (TlJinjaRun *run)
{
  return make (run, TL_JINJA_NONE);
}

TlJinjaValue *
tl_jinja_undefined (TlJinjaRun *run, const char *name)
{
  TlJinjaValue *value = make (run, TL_JINJA_UNDEFINED);
  if (value)
    value->text = name;
  return value;
}

TlJinjaValue *
tl_jinja_bool (TlJinjaRun *run, gboolean truth)
{
  TlJinjaValue *value = make (run, TL_JINJA_BOOL);
  if (value)
    value->number = truth != FALSE;
  return value;
}

TlJinjaValue *
tl_jinja_int (TlJinjaRun *run, gint64 number)
{
  TlJinjaValue *value = make (run, TL_JINJA_INT);
  if (value)
    value->number = number;
  return value;
}

TlJinjaValue *
tl_jinja_float (TlJinjaRun *run, double real)
{
  TlJinjaValue *value = make (run, TL_JINJA_FLOAT);
  if (value)
    value->real = real;
  return value;
}

/* copies @text */
TlJinjaValue *
tl_jinja_string (TlJinjaRun *run, const char *text, gssize length)
{
  TlJinjaValue *value = make (run, TL_JINJA_STRING);
  gsize n = length < 0 ? strlen (text) : (gsize) length;
  char *copy = value ? tl_jinja_alloc (run, n + 1) : NULL;
  if (!copy)
    return NULL;
  memcpy (copy, text, n);
  value->text = copy;
  value->length = n;
  return value;
}

TlJinjaValue *
tl_jinja_list (TlJinjaRun *run)
{
  return make (run, TL_JINJA_LIST);
}

TlJinjaValue *
tl_jinja_dict (TlJinjaRun *run)
{
  return make (run, TL_JINJA_DICT);
}

static gboolean
reserve (TlJinjaRun *run, TlJinjaValue *value)
{
  if (value->length < value->capacity)
    return TRUE;
  gsize capacity = value->capacity ? 2 * value->capacity : 4;
  TlJinjaValue **items = tl_jinja_alloc (run, capacity * sizeof *items);
  TlJinjaValue **keys = items && value->kind == TL_JINJA_DICT ? tl_jinja_alloc (run, capacity * sizeof *keys) : NULL;
  if (!items || (value->kind == TL_JINJA_DICT && !keys))
    return FALSE;
  if (value->length)
    memcpy (items, value->items, value->length * sizeof *items);
  if (keys && value->length)
    memcpy (keys, value->keys, value->length * sizeof *keys);
  value->items = items;
  value->keys = keys;
  value->capacity = capacity;
  return TRUE;
}

gboolean
tl_jinja_append (TlJinjaRun *run, TlJinjaValue *list, TlJinjaValue *item)
{
  if (!item || !reserve (run, list))
    return FALSE;
  list->items[list->length++] = item;
  return TRUE;
}

gboolean
tl_jinja_put (TlJinjaRun *run, TlJinjaValue *dict, TlJinjaValue *key, TlJinjaValue *item)
{
  if (!key || !item)
    return FALSE;
  for (gsize i = 0; i < dict->length; i++) {
    if (tl_jinja_equal (dict->keys[i], key)) {
      dict->items[i] = item;
      return TRUE;
    }
  }
  if (!reserve (run, dict))
    return FALSE;
  dict->keys[dict->length] = key;
  dict->items[dict->length++] = item;
  return TRUE;
}

gboolean
tl_jinja_put_name (TlJinjaRun *run, TlJinjaValue *dict, const char *key, TlJinjaValue *item)
{
  return tl_jinja_put (run, dict, tl_jinja_string (run, key, -1), item);
}

TlJinjaValue *
tl_jinja_lookup (const TlJinjaValue *dict, const TlJinjaValue *key)
{
  for (gsize i = 0; i < dict->length; i++)
    if (tl_jinja_equal (dict->keys[i], key))
      return dict->items[i];
  return NULL;
}

TlJinjaValue *
tl_jinja_lookup_name (const TlJinjaValue *dict, const char *key)
{
  TlJinjaValue name = { .kind = TL_JINJA_STRING, .text = key, .length = strlen (key) };
  return tl_jinja_lookup (dict, &name);
}

gboolean
tl_jinja_truth (const TlJinjaValue *value)
{
  switch (value->kind) {
    case TL_JINJA_BOOL:
    case TL_JINJA_INT:
      return value->number != 0;
    case TL_JINJA_FLOAT:
      return value->real != 0;
    case TL_JINJA_STRING:
    case TL_JINJA_LIST:
    case TL_JINJA_DICT:
      return value->length != 0 || value->is_namespace;
    default:
      return FALSE;
  }
}

static gboolean
is_number (const TlJinjaValue *value)
{
  return value->kind == TL_JINJA_BOOL || value->kind == TL_JINJA_INT || value->kind == TL_JINJA_FLOAT;
}

/* @budget bounds the work where values share parts */
static gboolean
equal_at (const TlJinjaValue *a, const TlJinjaValue *b, guint depth, guint *budget)
{
  if (is_number (a) && is_number (b)) {
    if (a->kind != TL_JINJA_FLOAT && b->kind != TL_JINJA_FLOAT)
      return a->number == b->number;
    return (a->kind == TL_JINJA_FLOAT ? a->real : a->number) == (b->kind == TL_JINJA_FLOAT ? b->real : b->number);
  }
  if (a->kind != b->kind || depth == MAX_DEPTH || !*budget)
    return FALSE;
  --*budget;
  if (a->kind == TL_JINJA_STRING)
    return a->length == b->length && memcmp (a->text, b->text, a->length) == 0;
  if (a->kind != TL_JINJA_LIST && a->kind != TL_JINJA_DICT)
    return TRUE;
  gboolean equal = a->length == b->length;
  for (gsize i = 0; equal && i < a->length; i++) {
    const TlJinjaValue *other = a->kind == TL_JINJA_LIST ? b->items[i] : tl_jinja_lookup (b, a->keys[i]);
    equal = other && equal_at (a->items[i], other, depth + 1, budget);
  }
  return equal;
}

gboolean
tl_jinja_equal (const TlJinjaValue *a, const TlJinjaValue *b)
{
  guint budget = 100000;
  return equal_at (a, b, 0, &budget);
}

static void
print_float (double real, GString *out)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  for (int digits = 1; digits <= 17; digits++) {
    char format[8];
    g_snprintf (format, sizeof format, "%%.%dg", digits);
    g_ascii_formatd (buffer, sizeof buffer, format, real);
    if (g_ascii_strtod (buffer, NULL) == real)
      break;
  }
  g_string_append (out, buffer);
  if (!strpbrk (buffer, ".einf"))
    g_string_append (out, ".0");
}

static void
print_quoted (const TlJinjaValue *value, GString *out)
{
  char quote = memchr (value->text, '\'', value->length) && !memchr (value->text, '"', value->length) ? '"' : '\'';
  g_string_append_c (out, quote);
  for (gsize i = 0; i < value->length; i++) {
    guchar c = value->text[i];
    if (c == '\\' || c == quote)
      g_string_append_printf (out, "\\%c", c);
    else if (c == '\n' || c == '\r' || c == '\t')
      g_string_append (out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else if (c < 0x20 || c == 0x7f)
      g_string_append_printf (out, "\\x%02x", c);
    else
      g_string_append_c (out, c);
  }
  g_string_append_c (out, quote);
}

/* Python's str(), or repr() when @quoted */
void
tl_jinja_print (const TlJinjaValue *value, gboolean quoted, guint depth, GString *out)
{
  gboolean list = value->kind == TL_JINJA_LIST;
  switch (value->kind) {
    case TL_JINJA_UNDEFINED:
      return;
    case TL_JINJA_NONE:
      g_string_append (out, "None");
      return;
    case TL_JINJA_BOOL:
      g_string_append (out, value->number ? "True" : "False");
      return;
    case TL_JINJA_INT:
      g_string_append_printf (out, "%" G_GINT64_FORMAT, value->number);
      return;
    case TL_JINJA_FLOAT:
      print_float (value->real, out);
      return;
    case TL_JINJA_STRING:
      if (quoted)
        print_quoted (value, out);
      else
        g_string_append_len (out, value->text, value->length);
      return;
    default:
      g_string_append_c (out, list ? '[' : '{');
      for (gsize i = 0; depth < MAX_DEPTH && out->len < MAX_PRINT && i < value->length; i++) {
        g_string_append (out, i ? ", " : "");
        if (!list) {
          tl_jinja_print (value->keys[i], TRUE, depth + 1, out);
          g_string_append (out, ": ");
        }
        tl_jinja_print (value->items[i], TRUE, depth + 1, out);
      }
      g_string_append_c (out, list ? ']' : '}');
  }
}

static void
print_json_string (const char *text, gsize length, GString *out)
{
  static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
  g_string_append_c (out, '"');
  for (gsize i = 0; i < length; i++) {
    const char *hit = text[i] ? strchr (from, text[i]) : NULL;
    if (hit)
      g_string_append_printf (out, "\\%c", to[hit - from]);
    else if ((guchar) text[i] < 0x20)
      g_string_append_printf (out, "\\u%04x", text[i]);
    else
      g_string_append_c (out, text[i]);
  }
  g_string_append_c (out, '"');
}

static void
json_break (gint64 indent, guint depth, GString *out)
{
  if (indent < 0)
    return;
  g_string_append_c (out, '\n');
  for (gint64 i = 0; i < indent * depth; i++)
    g_string_append_c (out, ' ');
}

/* Python's json.dumps (ensure_ascii=False); @indent −1 = one line */
void
tl_jinja_print_json (const TlJinjaValue *value, gint64 indent, guint depth, GString *out)
{
  gboolean list = value->kind == TL_JINJA_LIST;
  if (value->kind == TL_JINJA_STRING)
    print_json_string (value->text, value->length, out);
  else if (value->kind == TL_JINJA_BOOL)
    g_string_append (out, value->number ? "true" : "false");
  else if (value->kind <= TL_JINJA_NONE)
    g_string_append (out, "null");
  else if (value->kind < TL_JINJA_STRING)
    tl_jinja_print (value, FALSE, depth, out);
  else {
    g_string_append_c (out, list ? '[' : '{');
    for (gsize i = 0; depth < MAX_DEPTH && out->len < MAX_PRINT && i < value->length; i++) {
      g_string_append (out, !i ? "" : indent < 0 ? ", " : ",");
      json_break (indent, depth + 1, out);
      if (!list) {
        g_autoptr (GString) key = g_string_new (NULL);
        tl_jinja_print (value->keys[i], FALSE, 0, key);
        print_json_string (key->str, key->len, out);
        g_string_append (out, ": ");
      }
      tl_jinja_print_json (value->items[i], indent, depth + 1, out);
    }
    if (value->length)
      json_break (indent, depth, out);
    g_string_append_c (out, list ? ']' : '}');
  }
}

TlJinjaValue *
tl_jinja_to_string (TlJinjaRun *run, const TlJinjaValue *value)
{
  g_autoptr (GString) out = g_string_new (NULL);
  tl_jinja_print (value, FALSE, 0, out);
  return tl_jinja_string (run, out->str, out->len);
}
