/* engine/text/tl-jinja-library.c — filters, tests and methods of the chat template interpreter, as tables.
 *
 * Each does what Jinja and Python do for the kinds of value it takes; other kinds are an error, never a guess.
 */
#include "text/tl-jinja-library.h"

#include "text/tl-characters.h"
#include "text/tl-jinja-parse.h"
#include "tl-error.h"

#include <string.h>

typedef TlJinjaValue *(*Func) (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args);

TlJinjaValue *
tl_jinja_argument (const TlJinjaArguments *args, gsize place, const char *name)
{
  if (place < args->length)
    return args->items[place];
  return name && args->named ? tl_jinja_lookup_name (args->named, name) : NULL;
}

static TlJinjaValue *
wrong (TlJinjaRun *run, const char *name)
{
  return tl_jinja_fail (run, TL_ERROR_INVALID_ARGUMENT, "'%s' does not work on this kind of value", name);
}

/* what a loop over @value sees: list elements, dict keys, characters */
TlJinjaValue *
tl_jinja_elements (TlJinjaRun *run, TlJinjaValue *value)
{
  TlJinjaValue *list;
  if (value->kind == TL_JINJA_LIST)
    return value;
  if (value->kind == TL_JINJA_UNDEFINED)
    return tl_jinja_list (run);
  if (value->kind != TL_JINJA_DICT && value->kind != TL_JINJA_STRING)
    return wrong (run, "for");
  if (!(list = tl_jinja_list (run)))
    return NULL;
  for (gsize i = 0; value->kind == TL_JINJA_DICT && i < value->length; i++)
    if (!tl_jinja_append (run, list, value->keys[i]))
      return NULL;
  const char *end = value->text + value->length;
  for (const char *p = value->text; value->kind == TL_JINJA_STRING && p < end; p = g_utf8_next_char (p))
    if (!tl_jinja_step (run) || !tl_jinja_append (run, list, tl_jinja_string (run, p, g_utf8_next_char (p) - p)))
      return NULL;
  return list;
}

/* --- strings -------------------------------------------------------------------------------------------- */

static gboolean
in_set (const char *p, const TlJinjaValue *set)
{
  gunichar c = g_utf8_get_char (p);
  if (!set)
    return g_unichar_isspace (c) || (c >= 0x1c && c <= 0x1f) || c == 0x85;
  return g_utf8_strchr (set->text, set->length, c) != NULL;
}

static TlJinjaValue *
strip (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args, gboolean left, gboolean right)
{
  TlJinjaValue *set = tl_jinja_argument (args, 0, "chars");
  if (value->kind != TL_JINJA_STRING && !(value = tl_jinja_to_string (run, value)))
    return NULL;
  if (set && set->kind != TL_JINJA_STRING)
    set = NULL;
  const char *start = value->text, *end = value->text + value->length;
  while (left && start < end && in_set (start, set))
    start = g_utf8_next_char (start);
  while (right && end > start && in_set (g_utf8_prev_char (end), set))
    end = g_utf8_prev_char (end);
  return tl_jinja_string (run, start, end - start);
}

static TlJinjaValue *
do_strip (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return strip (run, value, args, TRUE, TRUE);
}

static TlJinjaValue *
do_lstrip (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return strip (run, value, args, TRUE, FALSE);
}

static TlJinjaValue *
do_rstrip (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return strip (run, value, args, FALSE, TRUE);
}

static TlJinjaValue *
change_case (TlJinjaRun *run, TlJinjaValue *value, char mode)
{
  g_autoptr (GString) out = g_string_new (NULL);
  if (value->kind != TL_JINJA_STRING && !(value = tl_jinja_to_string (run, value)))
    return NULL;
  gboolean first = TRUE;
  for (const char *p = value->text; p < value->text + value->length; p = g_utf8_next_char (p)) {
    gunichar c = g_utf8_get_char (p);
    gboolean up = mode == 'u' || (mode != 'l' && first);
    if (c)
      g_string_append_unichar (out, up ? g_unichar_toupper (c) : tl_char_to_lower (c));
    first = mode == 't' && !g_unichar_isalpha (c);
  }
  return tl_jinja_string (run, out->str, out->len);
}

static TlJinjaValue *
do_upper (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return change_case (run, value, 'u');
}

static TlJinjaValue *
do_lower (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return change_case (run, value, 'l');
}

static TlJinjaValue *
do_capitalize (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return change_case (run, value, 'c');
}

static TlJinjaValue *
do_title (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return change_case (run, value, 't');
}

static TlJinjaValue *
do_replace (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *from = tl_jinja_argument (args, 0, "old"), *to = tl_jinja_argument (args, 1, "new");
  if (value->kind != TL_JINJA_STRING || !from || from->kind != TL_JINJA_STRING || !from->length || !to
      || to->kind != TL_JINJA_STRING || args->length > 2)
    return wrong (run, "replace");
  g_autoptr (GString) out = g_string_new (NULL);
  const char *p = value->text, *end = p + value->length, *hit;
  while ((hit = memmem (p, end - p, from->text, from->length))) {
    if (out->len + to->length > ((gsize) 128 << 20))
      return tl_jinja_fail (run, TL_ERROR_NO_MEMORY, "'replace' makes more than 128 MiB");
    g_string_append_len (out, p, hit - p);
    g_string_append_len (out, to->text, to->length);
    p = hit + from->length;
  }
  g_string_append_len (out, p, end - p);
  return tl_jinja_string (run, out->str, out->len);
}

static gboolean
has_affix (const TlJinjaValue *value, const TlJinjaValue *affix, gboolean at_end)
{
  return affix->kind == TL_JINJA_STRING && affix->length <= value->length
      && memcmp (value->text + (at_end ? value->length - affix->length : 0), affix->text, affix->length) == 0;
}

static TlJinjaValue *
check_affix (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args, gboolean at_end)
{
  TlJinjaValue *affix = tl_jinja_argument (args, 0, NULL);
  if (value->kind != TL_JINJA_STRING || !affix || (affix->kind != TL_JINJA_STRING && affix->kind != TL_JINJA_LIST))
    return wrong (run, at_end ? "endswith" : "startswith");
  gboolean found = affix->kind == TL_JINJA_STRING && has_affix (value, affix, at_end);
  for (gsize i = 0; affix->kind == TL_JINJA_LIST && i < affix->length; i++)
    found |= has_affix (value, affix->items[i], at_end);
  return tl_jinja_bool (run, found);
}

static TlJinjaValue *
do_startswith (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return check_affix (run, value, args, FALSE);
}

static TlJinjaValue *
do_endswith (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return check_affix (run, value, args, TRUE);
}

static TlJinjaValue *
split_space (TlJinjaRun *run, TlJinjaValue *value, TlJinjaValue *list)
{
  const char *p = value->text, *end = p + value->length;
  while (p < end) {
    while (p < end && in_set (p, NULL))
      p = g_utf8_next_char (p);
    const char *start = p;
    while (p < end && !in_set (p, NULL))
      p = g_utf8_next_char (p);
    if (p > start && !tl_jinja_append (run, list, tl_jinja_string (run, start, p - start)))
      return NULL;
  }
  return list;
}

static TlJinjaValue *
do_split (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *mark = tl_jinja_argument (args, 0, "sep"), *most = tl_jinja_argument (args, 1, "maxsplit");
  TlJinjaValue *list = tl_jinja_list (run);
  if (!list)
    return NULL;
  if (value->kind != TL_JINJA_STRING || (mark && mark->kind != TL_JINJA_STRING && mark->kind != TL_JINJA_NONE)
      || (mark && mark->kind == TL_JINJA_STRING && !mark->length) || ((!mark || mark->kind == TL_JINJA_NONE) && most))
    return wrong (run, "split");
  if (!mark || mark->kind == TL_JINJA_NONE)
    return split_space (run, value, list);
  gint64 left = most && most->kind == TL_JINJA_INT && most->number >= 0 ? most->number : G_MAXINT64;
  const char *p = value->text, *end = p + value->length, *hit;
  while (left-- > 0 && (hit = memmem (p, end - p, mark->text, mark->length))) {
    if (!tl_jinja_append (run, list, tl_jinja_string (run, p, hit - p)))
      return NULL;
    p = hit + mark->length;
  }
  return tl_jinja_append (run, list, tl_jinja_string (run, p, end - p)) ? list : NULL;
}

static TlJinjaValue *
do_string (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return tl_jinja_to_string (run, value);
}

static TlJinjaValue *
do_tojson (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *indent = tl_jinja_argument (args, 0, "indent");
  if (value->kind == TL_JINJA_UNDEFINED)
    return wrong (run, "tojson");
  g_autoptr (GString) out = g_string_new (NULL);
  tl_jinja_print_json (value, indent && indent->kind == TL_JINJA_INT ? CLAMP (indent->number, 0, 16) : -1, 0, out);
  return tl_jinja_string (run, out->str, out->len);
}

/* --- lists and dicts ------------------------------------------------------------------------------------ */

static TlJinjaValue *
do_length (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  if (value->kind == TL_JINJA_STRING)
    return tl_jinja_int (run, g_utf8_strlen (value->text, value->length));
  if (value->kind < TL_JINJA_STRING && value->kind != TL_JINJA_UNDEFINED)
    return wrong (run, "length");
  return tl_jinja_int (run, value->length);
}

static TlJinjaValue *
pick_end (TlJinjaRun *run, TlJinjaValue *value, gboolean last)
{
  TlJinjaValue *list = tl_jinja_elements (run, value);
  if (!list)
    return NULL;
  return list->length ? list->items[last ? list->length - 1 : 0] : tl_jinja_undefined (run, "an element");
}

static TlJinjaValue *
do_first (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return pick_end (run, value, FALSE);
}

static TlJinjaValue *
do_last (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return pick_end (run, value, TRUE);
}

static TlJinjaValue *
do_list (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return tl_jinja_elements (run, value);
}

static TlJinjaValue *
do_reverse (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *list = tl_jinja_elements (run, value), *out = tl_jinja_list (run);
  if (value->kind == TL_JINJA_STRING)
    return wrong (run, "reverse");
  for (gsize i = list && out ? list->length : 0; i-- > 0;)
    if (!tl_jinja_append (run, out, list->items[i]))
      return NULL;
  return list ? out : NULL;
}

static TlJinjaValue *
do_join (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *list = tl_jinja_elements (run, value), *mark = tl_jinja_argument (args, 0, "d");
  if (!list || args->length > 1)
    return list ? wrong (run, "join") : NULL;
  g_autoptr (GString) out = g_string_new (NULL);
  for (gsize i = 0; i < list->length; i++) {
    if (i && mark)
      tl_jinja_print (mark, FALSE, 0, out);
    tl_jinja_print (list->items[i], FALSE, 0, out);
    if (out->len > ((gsize) 64 << 20))
      return tl_jinja_fail (run, TL_ERROR_NO_MEMORY, "'join' makes more than 64 MiB");
  }
  return tl_jinja_string (run, out->str, out->len);
}

static TlJinjaValue *
do_items (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *list = tl_jinja_list (run);
  if (value->kind != TL_JINJA_DICT)
    return value->kind == TL_JINJA_UNDEFINED ? list : wrong (run, "items");
  for (gsize i = 0; list && i < value->length; i++) {
    TlJinjaValue *pair = tl_jinja_list (run);
    if (!pair || !tl_jinja_append (run, pair, value->keys[i]) || !tl_jinja_append (run, pair, value->items[i])
        || !tl_jinja_append (run, list, pair))
      return NULL;
  }
  return list;
}

static TlJinjaValue *
do_keys (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return value->kind == TL_JINJA_DICT ? tl_jinja_elements (run, value) : wrong (run, "keys");
}

static TlJinjaValue *
do_values (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *list = tl_jinja_list (run);
  if (value->kind != TL_JINJA_DICT)
    return wrong (run, "values");
  for (gsize i = 0; list && i < value->length; i++)
    if (!tl_jinja_append (run, list, value->items[i]))
      return NULL;
  return list;
}

static TlJinjaValue *
do_get (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *key = tl_jinja_argument (args, 0, NULL), *other = tl_jinja_argument (args, 1, NULL);
  if (value->kind != TL_JINJA_DICT || !key)
    return wrong (run, "get");
  TlJinjaValue *found = tl_jinja_lookup (value, key);
  return found ? found : other ? other : tl_jinja_none (run);
}

static TlJinjaValue *
do_default (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *other = tl_jinja_argument (args, 0, "default_value"), *falsy = tl_jinja_argument (args, 1, "boolean");
  gboolean use = value->kind == TL_JINJA_UNDEFINED || (falsy && tl_jinja_truth (falsy) && !tl_jinja_truth (value));
  return !use ? value : other ? other : tl_jinja_string (run, "", 0);
}

static TlJinjaValue *
do_int (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  if (value->kind == TL_JINJA_STRING)
    return tl_jinja_int (run, g_ascii_strtoll (value->text, NULL, 10));
  if (value->kind == TL_JINJA_FLOAT)
    return tl_jinja_int (run, (gint64) CLAMP (value->real, -9e18, 9e18));
  return tl_jinja_int (run, value->kind == TL_JINJA_INT || value->kind == TL_JINJA_BOOL ? value->number : 0);
}

static TlJinjaValue *
select_by (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args, gboolean keep)
{
  TlJinjaValue *list = tl_jinja_elements (run, value), *out = tl_jinja_list (run);
  TlJinjaValue *member = tl_jinja_argument (args, 0, NULL), *test = tl_jinja_argument (args, 1, NULL);
  if (!list || !out || !member || member->kind != TL_JINJA_STRING || (test && test->kind != TL_JINJA_STRING))
    return list && out ? wrong (run, "selectattr") : NULL;
  if (test && !tl_jinja_has_test (test->text))
    return tl_jinja_fail (run, TL_ERROR_UNSUPPORTED, "not supported: test '%s'", test->text);
  for (gsize i = 0; i < list->length; i++) {
    TlJinjaValue *item = list->items[i];
    TlJinjaValue *field = item->kind == TL_JINJA_DICT ? tl_jinja_lookup (item, member) : NULL;
    TlJinjaArguments rest = { args->items + 2, args->length > 2 ? args->length - 2 : 0, NULL };
    if (!field && !(field = tl_jinja_undefined (run, member->text)))
      return NULL;
    TlJinjaValue *verdict = test ? tl_jinja_call_test (run, test->text, field, &rest) : field;
    if (!verdict || (tl_jinja_truth (verdict) == keep && !tl_jinja_append (run, out, item)))
      return NULL;
  }
  return out;
}

static TlJinjaValue *
do_selectattr (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return select_by (run, value, args, TRUE);
}

static TlJinjaValue *
do_rejectattr (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  return select_by (run, value, args, FALSE);
}

static TlJinjaValue *
do_map (TlJinjaRun *run, TlJinjaValue *value, const TlJinjaArguments *args)
{
  TlJinjaValue *list = tl_jinja_elements (run, value), *out = tl_jinja_list (run);
  TlJinjaValue *member = args->named ? tl_jinja_lookup_name (args->named, "attribute") : NULL;
  TlJinjaValue *filter = tl_jinja_argument (args, 0, NULL);
  TlJinjaArguments rest = { args->items + 1, args->length > 1 ? args->length - 1 : 0, NULL };
  if (!list || !out)
    return NULL;
  if (member ? member->kind != TL_JINJA_STRING : (!filter || filter->kind != TL_JINJA_STRING
      || !tl_jinja_has_filter (filter->text) || strcmp (filter->text, "map") == 0))
    return wrong (run, "map");
  for (gsize i = 0; i < list->length; i++) {
    TlJinjaValue *item = list->items[i], *mapped = NULL;
    if (!member)
      mapped = tl_jinja_call_filter (run, filter->text, item, &rest);
    else if (!(mapped = item->kind == TL_JINJA_DICT ? tl_jinja_lookup (item, member) : NULL))
      mapped = tl_jinja_undefined (run, member->text);
    if (!tl_jinja_append (run, out, mapped))
      return NULL;
  }
  return out;
}

static const struct { const char *name; Func call; } filters[] = {
  { "capitalize", do_capitalize }, { "count", do_length }, { "d", do_default }, { "default", do_default },
  { "first", do_first }, { "int", do_int }, { "items", do_items }, { "join", do_join }, { "last", do_last },
  { "length", do_length }, { "list", do_list }, { "lower", do_lower }, { "map", do_map }, { "rejectattr", do_rejectattr },
  { "replace", do_replace }, { "reverse", do_reverse }, { "safe", do_string }, { "selectattr", do_selectattr },
  { "string", do_string }, { "title", do_title }, { "tojson", do_tojson }, { "trim", do_strip }, { "upper", do_upper },
};

static const struct { const char *name; Func call; } methods[] = {
  { "capitalize", do_capitalize }, { "endswith", do_endswith }, { "get", do_get }, { "items", do_items },
  { "keys", do_keys }, { "lower", do_lower }, { "lstrip", do_lstrip }, { "replace", do_replace }, { "rstrip", do_rstrip },
  { "split", do_split }, { "startswith", do_startswith }, { "strip", do_strip }, { "title", do_title },
  { "upper", do_upper }, { "values", do_values },
};

static const char *const tests[] = { "boolean", "defined", "divisibleby", "eq", "equalto", "even", "false", "in",
  "integer", "iterable", "mapping", "ne", "none", "number", "odd", "sequence", "string", "true", "undefined", NULL };

gboolean
tl_jinja_has_filter (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (filters); i++)
    if (strcmp (filters[i].name, name) == 0)
      return TRUE;
  return FALSE;
}

gboolean
tl_jinja_has_method (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (methods); i++)
    if (strcmp (methods[i].name, name) == 0)
      return TRUE;
  return FALSE;
}

gboolean
tl_jinja_has_test (const char *name)
{
  return g_strv_contains (tests, name);
}

TlJinjaValue *
tl_jinja_call_filter (TlJinjaRun *run, const char *name, TlJinjaValue *value, const TlJinjaArguments *args)
{
  for (guint i = 0; i < G_N_ELEMENTS (filters); i++)
    if (strcmp (filters[i].name, name) == 0)
      return tl_jinja_step (run) ? filters[i].call (run, value, args) : NULL;
  return tl_jinja_fail (run, TL_ERROR_UNSUPPORTED, "not supported: filter '%s'", name);
}

TlJinjaValue *
tl_jinja_call_method (TlJinjaRun *run, const char *name, TlJinjaValue *value, const TlJinjaArguments *args)
{
  gboolean of_dict = g_strv_contains ((const char *const[]) { "get", "items", "keys", "values", NULL }, name);
  if (value->kind != (of_dict ? TL_JINJA_DICT : TL_JINJA_STRING))
    return wrong (run, name);
  for (guint i = 0; i < G_N_ELEMENTS (methods); i++)
    if (strcmp (methods[i].name, name) == 0)
      return tl_jinja_step (run) ? methods[i].call (run, value, args) : NULL;
  return tl_jinja_fail (run, TL_ERROR_UNSUPPORTED, "not supported: method '%s'", name);
}

static gboolean
contains (const TlJinjaValue *list, const TlJinjaValue *value)
{
  if (list->kind == TL_JINJA_STRING)
    return value->kind == TL_JINJA_STRING && memmem (list->text, list->length, value->text, value->length) != NULL;
  for (gsize i = 0; list->kind == TL_JINJA_LIST && i < list->length; i++)
    if (tl_jinja_equal (list->items[i], value))
      return TRUE;
  return list->kind == TL_JINJA_DICT && tl_jinja_lookup (list, value) != NULL;
}

TlJinjaValue *
tl_jinja_call_test (TlJinjaRun *run, const char *name, TlJinjaValue *value, const TlJinjaArguments *args)
{
  static const struct { const char *name; guint kinds; } by_kind[] = {
    { "boolean", 1 << TL_JINJA_BOOL }, { "none", 1 << TL_JINJA_NONE }, { "undefined", 1 << TL_JINJA_UNDEFINED },
    { "defined", ~(1u << TL_JINJA_UNDEFINED) }, { "integer", 1 << TL_JINJA_INT }, { "mapping", 1 << TL_JINJA_DICT },
    { "number", 1 << TL_JINJA_INT | 1 << TL_JINJA_FLOAT | 1 << TL_JINJA_BOOL }, { "string", 1 << TL_JINJA_STRING },
    { "iterable", 1 << TL_JINJA_LIST | 1 << TL_JINJA_DICT | 1 << TL_JINJA_STRING | 1 << TL_JINJA_UNDEFINED },
    { "sequence", 1 << TL_JINJA_LIST | 1 << TL_JINJA_DICT | 1 << TL_JINJA_STRING | 1 << TL_JINJA_UNDEFINED },
  };
  TlJinjaValue *other = tl_jinja_argument (args, 0, NULL);
  if (!tl_jinja_step (run))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (by_kind); i++)
    if (strcmp (name, by_kind[i].name) == 0)
      return tl_jinja_bool (run, (by_kind[i].kinds >> value->kind) & 1);
  if (strcmp (name, "true") == 0 || strcmp (name, "false") == 0)
    return tl_jinja_bool (run, value->kind == TL_JINJA_BOOL && value->number == (*name == 't'));
  if (strcmp (name, "odd") == 0 || strcmp (name, "even") == 0)
    return value->kind == TL_JINJA_INT ? tl_jinja_bool (run, (value->number & 1) == (*name == 'o')) : wrong (run, name);
  if (!other)
    return tl_jinja_fail (run, TL_ERROR_INVALID_ARGUMENT, "test '%s' needs an argument", name);
  if (strcmp (name, "divisibleby") == 0)
    return value->kind == TL_JINJA_INT && other->kind == TL_JINJA_INT && other->number > 0
        ? tl_jinja_bool (run, value->number % other->number == 0) : wrong (run, name);
  if (strcmp (name, "in") == 0)
    return tl_jinja_bool (run, contains (other, value));
  return tl_jinja_bool (run, tl_jinja_equal (value, other) == (strcmp (name, "ne") != 0));
}
