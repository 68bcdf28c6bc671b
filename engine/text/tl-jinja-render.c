/* engine/text/tl-jinja-render.c — the interpreter: statements write text, expressions give values.
 *
 * Depth is bounded by the parser's nesting limit, time and memory by the run's counters.
 */
#include "text/tl-jinja-render.h"

#include "text/tl-jinja-library.h"
#include "tl-error.h"

#include <string.h>

#define MAX_OUTPUT ((gsize) 64 << 20)

typedef enum { GO_ON, BREAK, CONTINUE, FAILED } Flow;

typedef struct
{
  TlJinjaRun *run;
  GPtrArray *scopes;            /* of DICT values, innermost last */
  GString *out;
} Render;

static TlJinjaValue *eval (Render *render, const TlNode *node);
static Flow run_node (Render *render, const TlNode *node);

static TlJinjaValue *
invalid (Render *render, const char *what)
{
  return tl_jinja_fail (render->run, TL_ERROR_INVALID_ARGUMENT, "%s", what);
}

static TlJinjaValue *
find_name (Render *render, const char *name)
{
  for (guint i = render->scopes->len; i-- > 0;) {
    TlJinjaValue *value = tl_jinja_lookup_name (g_ptr_array_index (render->scopes, i), name);
    if (value)
      return value;
  }
  return tl_jinja_undefined (render->run, name);
}

static gboolean
eval_arguments (Render *render, const TlNode *node, guint first, TlJinjaArguments *args)
{
  TlJinjaValue *list = tl_jinja_list (render->run), *named = tl_jinja_dict (render->run);
  if (!list || !named)
    return FALSE;
  for (guint i = first; i < TL_N_CHILDREN (node); i++) {
    const TlNode *child = TL_CHILD (node, i);
    gboolean keyword = child->kind == TL_NODE_KEYWORD;
    TlJinjaValue *value = eval (render, keyword ? TL_CHILD (child, 0) : child);
    if (!value || !(keyword ? tl_jinja_put_name (render->run, named, child->text, value)
        : tl_jinja_append (render->run, list, value)))
      return FALSE;
  }
  *args = (TlJinjaArguments) { list->items, list->length, named };
  return TRUE;
}

static TlJinjaValue *
make_range (Render *render, const TlJinjaArguments *args)
{
  gint64 bounds[3] = { 0, 0, 1 };
  for (gsize i = 0; i < args->length && i < 3; i++) {
    if (args->items[i]->kind != TL_JINJA_INT)
      return invalid (render, "range needs whole numbers");
    bounds[args->length == 1 ? 1 : i] = args->items[i]->number;
  }
  TlJinjaValue *list = tl_jinja_list (render->run);
  if (!args->length || args->length > 3 || !bounds[2] || ABS (bounds[0]) > G_MAXINT32 || ABS (bounds[1]) > G_MAXINT32
      || ABS (bounds[2]) > G_MAXINT32)
    return invalid (render, "range has wrong bounds");
  for (gint64 i = bounds[0]; list && (bounds[2] > 0 ? i < bounds[1] : i > bounds[1]); i += bounds[2])
    if (!tl_jinja_step (render->run) || !tl_jinja_append (render->run, list, tl_jinja_int (render->run, i)))
      return NULL;
  return list;
}

static TlJinjaValue *
eval_call (Render *render, const TlNode *node)
{
  TlJinjaArguments args;
  if (!eval_arguments (render, node, 0, &args))
    return NULL;
  if (strcmp (node->text, "raise_exception") == 0) {
    TlJinjaValue *message = args.length ? tl_jinja_to_string (render->run, args.items[0]) : NULL;
    return tl_jinja_fail (render->run, TL_ERROR_INVALID_ARGUMENT, "the template refuses these messages: %s",
        message ? message->text : "");
  }
  if (strcmp (node->text, "range") == 0)
    return make_range (render, &args);
  if (strcmp (node->text, "namespace") == 0 || strcmp (node->text, "dict") == 0) {
    args.named->is_namespace = *node->text == 'n';
    return args.length ? invalid (render, "namespace and dict take arguments by name only") : args.named;
  }
  return tl_jinja_fail (render->run, TL_ERROR_UNSUPPORTED, "not supported: function '%s'", node->text);
}

static gboolean
list_place (const TlJinjaValue *index, gsize length, gsize *place)
{
  if (index->kind != TL_JINJA_INT && index->kind != TL_JINJA_BOOL)
    return FALSE;
  gint64 i = index->number < 0 ? index->number + (gint64) length : index->number;
  *place = (gsize) i;
  return i >= 0 && (gsize) i < length;
}

static TlJinjaValue *
eval_index (Render *render, const TlNode *node)
{
  TlJinjaValue *object = eval (render, TL_CHILD (node, 0));
  TlJinjaValue *index = object ? eval (render, TL_CHILD (node, 1)) : NULL, *found = NULL;
  gsize place;
  if (!index)
    return NULL;
  if (object->kind == TL_JINJA_UNDEFINED)
    return tl_jinja_fail (render->run, TL_ERROR_INVALID_ARGUMENT, "'%s' is undefined", object->text);
  if (object->kind == TL_JINJA_STRING)
    object = tl_jinja_elements (render->run, object);
  if (!object)
    return NULL;
  if (object->kind == TL_JINJA_DICT)
    found = tl_jinja_lookup (object, index);
  else if (object->kind == TL_JINJA_LIST && list_place (index, object->length, &place))
    found = object->items[place];
  return found ? found : tl_jinja_undefined (render->run, index->kind == TL_JINJA_STRING ? index->text : "an element");
}

static TlJinjaValue *
eval_member (Render *render, const TlNode *node)
{
  TlJinjaValue *object = eval (render, TL_CHILD (node, 0));
  if (!object)
    return NULL;
  if (object->kind == TL_JINJA_UNDEFINED)
    return tl_jinja_fail (render->run, TL_ERROR_INVALID_ARGUMENT, "'%s' is undefined", object->text);
  TlJinjaValue *found = object->kind == TL_JINJA_DICT ? tl_jinja_lookup_name (object, node->text) : NULL;
  return found ? found : tl_jinja_undefined (render->run, node->text);
}

/* Python's slice bounds */
static gint64
slice_bound (const TlJinjaValue *value, gint64 length, gint64 fallback, gboolean down)
{
  if (!value || value->kind == TL_JINJA_NONE)
    return fallback;
  gint64 i = value->number < 0 ? value->number + length : value->number;
  return down ? CLAMP (i, -1, length - 1) : CLAMP (i, 0, length);
}

static TlJinjaValue *
eval_slice (Render *render, const TlNode *node)
{
  TlJinjaValue *object = eval (render, TL_CHILD (node, 0)), *parts[3] = { NULL, NULL, NULL };
  if (!object)
    return NULL;
  for (guint i = 0; i < 3; i++) {
    const TlNode *part = TL_CHILD (node, i + 1);
    if (part && !(parts[i] = eval (render, part)))
      return NULL;
    if (part && parts[i]->kind != TL_JINJA_INT && parts[i]->kind != TL_JINJA_NONE)
      return invalid (render, "a slice needs whole numbers");
  }
  gboolean text = object->kind == TL_JINJA_STRING;
  if (!text && object->kind != TL_JINJA_LIST)
    return invalid (render, "only lists and strings can be sliced");
  TlJinjaValue *list = tl_jinja_elements (render->run, object), *out = tl_jinja_list (render->run);
  if (!list || !out)
    return NULL;
  gint64 length = list->length, step = parts[2] && parts[2]->kind == TL_JINJA_INT ? parts[2]->number : 1;
  if (!step || ABS (step) > G_MAXINT32)
    return invalid (render, "a slice's step is out of range");
  gint64 i = slice_bound (parts[0], length, step > 0 ? 0 : length - 1, step < 0);
  gint64 stop = slice_bound (parts[1], length, step > 0 ? length : -1, step < 0);
  g_autoptr (GString) joined = g_string_new (NULL);
  for (; step > 0 ? i < stop : i > stop; i += step) {
    if (text)
      g_string_append_len (joined, list->items[i]->text, list->items[i]->length);
    else if (!tl_jinja_append (render->run, out, list->items[i]))
      return NULL;
  }
  return text ? tl_jinja_string (render->run, joined->str, joined->len) : out;
}

/* --- operators ------------------------------------------------------------------------------------------ */

static gboolean
is_number (const TlJinjaValue *value)
{
  return value->kind == TL_JINJA_INT || value->kind == TL_JINJA_FLOAT || value->kind == TL_JINJA_BOOL;
}

static double
real_of (const TlJinjaValue *value)
{
  return value->kind == TL_JINJA_FLOAT ? value->real : (double) value->number;
}

static TlJinjaValue *
add_values (Render *render, TlJinjaValue *a, TlJinjaValue *b)
{
  if (a->kind == TL_JINJA_STRING && b->kind == TL_JINJA_STRING) {
    g_autoptr (GString) both = g_string_new_len (a->text, a->length);
    g_string_append_len (both, b->text, b->length);
    return tl_jinja_string (render->run, both->str, both->len);
  }
  if (a->kind != TL_JINJA_LIST || b->kind != TL_JINJA_LIST)
    return invalid (render, "'+' needs two numbers, two strings or two lists");
  TlJinjaValue *both = tl_jinja_list (render->run);
  for (gsize i = 0; both && i < a->length + b->length; i++)
    if (!tl_jinja_append (render->run, both, i < a->length ? a->items[i] : b->items[i - a->length]))
      return NULL;
  return both;
}

static TlJinjaValue *
whole_arithmetic (Render *render, const char *operator, gint64 a, gint64 b)
{
  gint64 result = 0;
  gboolean overflow = FALSE;
  switch (operator[0]) {
    case '+':
      overflow = __builtin_add_overflow (a, b, &result);
      break;
    case '-':
      overflow = __builtin_sub_overflow (a, b, &result);
      break;
    case '*':
      overflow = __builtin_mul_overflow (a, b, &result);
      break;
    default:
      if (!b || (a == G_MININT64 && b == -1))
        return invalid (render, "division by zero");
      result = operator[0] == '%' ? a % b : a / b;
      if (a % b && (a < 0) != (b < 0))
        result += operator[0] == '%' ? b : -1;
  }
  return overflow ? invalid (render, "a number is too large") : tl_jinja_int (render->run, result);
}

static TlJinjaValue *
arithmetic (Render *render, const char *operator, TlJinjaValue *a, TlJinjaValue *b)
{
  if (operator[0] == '+' && !(is_number (a) && is_number (b)))
    return add_values (render, a, b);
  if (!is_number (a) || !is_number (b))
    return tl_jinja_fail (render->run, TL_ERROR_INVALID_ARGUMENT, "'%s' needs two numbers", operator);
  gboolean whole = a->kind != TL_JINJA_FLOAT && b->kind != TL_JINJA_FLOAT;
  if (whole && strcmp (operator, "/") != 0)
    return whole_arithmetic (render, operator, a->number, b->number);
  double x = real_of (a), y = real_of (b);
  switch (operator[0]) {
    case '+':
      return tl_jinja_float (render->run, x + y);
    case '-':
      return tl_jinja_float (render->run, x - y);
    case '*':
      return tl_jinja_float (render->run, x * y);
    case '/':
      if (operator[1] || y == 0)
        break;
      return tl_jinja_float (render->run, x / y);
  }
  return invalid (render, y == 0 ? "division by zero" : "// and % need whole numbers");
}

static TlJinjaValue *
compare (Render *render, const char *operator, TlJinjaValue *a, TlJinjaValue *b)
{
  gint order;
  if (operator[1] == '=' && (operator[0] == '=' || operator[0] == '!'))
    return tl_jinja_bool (render->run, tl_jinja_equal (a, b) == (operator[0] == '='));
  if (is_number (a) && is_number (b))
    order = real_of (a) < real_of (b) ? -1 : real_of (a) > real_of (b);
  else if (a->kind == TL_JINJA_STRING && b->kind == TL_JINJA_STRING)
    order = strcmp (a->text, b->text);
  else
    return tl_jinja_fail (render->run, TL_ERROR_INVALID_ARGUMENT, "'%s' cannot compare these kinds of value", operator);
  gboolean truth = (operator[1] == '=' && order == 0) || (operator[0] == '<' ? order < 0 : order > 0);
  return tl_jinja_bool (render->run, truth);
}

static TlJinjaValue *
eval_binary (Render *render, const TlNode *node)
{
  TlJinjaValue *a = eval (render, TL_CHILD (node, 0)), *b = a ? eval (render, TL_CHILD (node, 1)) : NULL;
  const char *operator = node->text;
  if (!b)
    return NULL;
  if (strcmp (operator, "~") == 0) {
    g_autoptr (GString) both = g_string_new (NULL);
    tl_jinja_print (a, FALSE, 0, both);
    tl_jinja_print (b, FALSE, 0, both);
    return tl_jinja_string (render->run, both->str, both->len);
  }
  if (strcmp (operator, "in") == 0 || strcmp (operator, "not in") == 0) {
    if (b->kind < TL_JINJA_STRING && b->kind != TL_JINJA_UNDEFINED)
      return invalid (render, "'in' needs a list, dict or string");
    if (b->kind == TL_JINJA_STRING && a->kind != TL_JINJA_STRING)
      return invalid (render, "'in' a string needs a string");
    TlJinjaArguments args = { &b, 1, NULL };
    TlJinjaValue *found = tl_jinja_call_test (render->run, "in", a, &args);
    return found ? tl_jinja_bool (render->run, tl_jinja_truth (found) == (operator[0] == 'i')) : NULL;
  }
  return strchr ("+-*/%", operator[0]) ? arithmetic (render, operator, a, b) : compare (render, operator, a, b);
}

static TlJinjaValue *
eval_elements (Render *render, const TlNode *node)
{
  gboolean list = node->kind == TL_NODE_LIST;
  TlJinjaValue *out = list ? tl_jinja_list (render->run) : tl_jinja_dict (render->run);
  for (guint i = 0; out && i < TL_N_CHILDREN (node); i += list ? 1 : 2) {
    TlJinjaValue *first = eval (render, TL_CHILD (node, i));
    TlJinjaValue *second = list || !first ? NULL : eval (render, TL_CHILD (node, i + 1));
    if (!(list ? tl_jinja_append (render->run, out, first) : tl_jinja_put (render->run, out, first, second)))
      return NULL;
  }
  return out;
}

static TlJinjaValue *
eval_library (Render *render, const TlNode *node)
{
  TlJinjaArguments args;
  TlJinjaValue *value = eval (render, TL_CHILD (node, 0));
  if (!value || !eval_arguments (render, node, 1, &args))
    return NULL;
  if (node->kind == TL_NODE_FILTER)
    return tl_jinja_call_filter (render->run, node->text, value, &args);
  if (node->kind == TL_NODE_TEST)
    return tl_jinja_call_test (render->run, node->text, value, &args);
  if (value->kind == TL_JINJA_UNDEFINED)
    return tl_jinja_fail (render->run, TL_ERROR_INVALID_ARGUMENT, "'%s' is undefined", value->text);
  return tl_jinja_call_method (render->run, node->text, value, &args);
}

static TlJinjaValue *
eval_logic (Render *render, const TlNode *node)
{
  TlJinjaValue *first = eval (render, TL_CHILD (node, 0));
  if (!first)
    return NULL;
  gboolean truth = tl_jinja_truth (first);
  switch (node->kind) {
    case TL_NODE_NOT:
      return tl_jinja_bool (render->run, !truth);
    case TL_NODE_AND:
      return truth ? eval (render, TL_CHILD (node, 1)) : first;
    case TL_NODE_OR:
      return truth ? first : eval (render, TL_CHILD (node, 1));
    case TL_NODE_CHOICE:
      if (!truth && !TL_CHILD (node, 2))
        return tl_jinja_undefined (render->run, "the missing else");
      return eval (render, TL_CHILD (node, truth ? 1 : 2));
    default:
      if (!is_number (first))
        return invalid (render, "'-' needs a number");
      return first->kind == TL_JINJA_FLOAT ? tl_jinja_float (render->run, -first->real)
          : whole_arithmetic (render, "-", 0, first->number);
  }
}

static TlJinjaValue *
eval (Render *render, const TlNode *node)
{
  if (!tl_jinja_step (render->run))
    return NULL;
  render->run->line = node->line;
  switch (node->kind) {
    case TL_NODE_STRING:
      return tl_jinja_string (render->run, node->text, node->length);
    case TL_NODE_INT:
      return tl_jinja_int (render->run, node->number);
    case TL_NODE_FLOAT:
      return tl_jinja_float (render->run, node->real);
    case TL_NODE_TRUE:
    case TL_NODE_FALSE:
      return tl_jinja_bool (render->run, node->kind == TL_NODE_TRUE);
    case TL_NODE_NONE:
      return tl_jinja_none (render->run);
    case TL_NODE_NAME:
      return find_name (render, node->text);
    case TL_NODE_LIST:
    case TL_NODE_DICT:
      return eval_elements (render, node);
    case TL_NODE_MEMBER:
      return eval_member (render, node);
    case TL_NODE_INDEX:
      return eval_index (render, node);
    case TL_NODE_SLICE:
      return eval_slice (render, node);
    case TL_NODE_CALL:
      return eval_call (render, node);
    case TL_NODE_METHOD:
    case TL_NODE_FILTER:
    case TL_NODE_TEST:
      return eval_library (render, node);
    case TL_NODE_BINARY:
      return eval_binary (render, node);
    default:
      return eval_logic (render, node);
  }
}

/* --- statements ----------------------------------------------------------------------------------------- */

static gboolean
assign (Render *render, TlJinjaValue *scope, const TlNode *targets, TlJinjaValue *value)
{
  guint n = TL_N_CHILDREN (targets);
  if (n == 1)
    return tl_jinja_put_name (render->run, scope, TL_CHILD (targets, 0)->text, value);
  if (value->kind != TL_JINJA_LIST || value->length != n)
    return invalid (render, "a value does not unpack to the names given") != NULL;
  for (guint i = 0; i < n; i++)
    if (!tl_jinja_put_name (render->run, scope, TL_CHILD (targets, i)->text, value->items[i]))
      return FALSE;
  return TRUE;
}

static gboolean
describe_loop (Render *render, TlJinjaValue *loop, const TlJinjaValue *list, gsize i)
{
  TlJinjaRun *run = render->run;
  gsize n = list->length;
  return tl_jinja_put_name (run, loop, "index0", tl_jinja_int (run, i))
      && tl_jinja_put_name (run, loop, "index", tl_jinja_int (run, i + 1))
      && tl_jinja_put_name (run, loop, "revindex0", tl_jinja_int (run, n - 1 - i))
      && tl_jinja_put_name (run, loop, "revindex", tl_jinja_int (run, n - i))
      && tl_jinja_put_name (run, loop, "first", tl_jinja_bool (run, i == 0))
      && tl_jinja_put_name (run, loop, "last", tl_jinja_bool (run, i + 1 == n))
      && tl_jinja_put_name (run, loop, "length", tl_jinja_int (run, n))
      && tl_jinja_put_name (run, loop, "previtem", i ? list->items[i - 1] : tl_jinja_undefined (run, "loop.previtem"))
      && tl_jinja_put_name (run, loop, "nextitem", i + 1 < n ? list->items[i + 1]
          : tl_jinja_undefined (run, "loop.nextitem"));
}

/* the elements that pass the loop's `if` */
static TlJinjaValue *
filter_elements (Render *render, const TlNode *node, TlJinjaValue *list)
{
  const TlNode *condition = TL_CHILD (node, 3);
  TlJinjaValue *out = tl_jinja_list (render->run), *scope = tl_jinja_dict (render->run);
  if (!out || !scope)
    return NULL;
  g_ptr_array_add (render->scopes, scope);
  for (gsize i = 0; out && i < list->length; i++) {
    TlJinjaValue *truth = assign (render, scope, TL_CHILD (node, 0), list->items[i]) ? eval (render, condition) : NULL;
    if (!truth || (tl_jinja_truth (truth) && !tl_jinja_append (render->run, out, list->items[i])))
      out = NULL;
  }
  g_ptr_array_set_size (render->scopes, render->scopes->len - 1);
  return out;
}

static Flow
run_for (Render *render, const TlNode *node)
{
  TlJinjaValue *value = eval (render, TL_CHILD (node, 1));
  TlJinjaValue *list = value ? tl_jinja_elements (render->run, value) : NULL;
  if (list && TL_CHILD (node, 3))
    list = filter_elements (render, node, list);
  if (!list)
    return FAILED;
  if (!list->length)
    return TL_CHILD (node, 4) ? run_node (render, TL_CHILD (node, 4)) : GO_ON;
  Flow flow = GO_ON;
  for (gsize i = 0; flow != FAILED && flow != BREAK && i < list->length; i++) {
    TlJinjaValue *scope = tl_jinja_dict (render->run), *loop = tl_jinja_dict (render->run);
    if (!scope || !loop || !assign (render, scope, TL_CHILD (node, 0), list->items[i])
        || !describe_loop (render, loop, list, i) || !tl_jinja_put_name (render->run, scope, "loop", loop))
      return FAILED;
    g_ptr_array_add (render->scopes, scope);
    flow = run_node (render, TL_CHILD (node, 2));
    g_ptr_array_set_size (render->scopes, render->scopes->len - 1);
  }
  return flow == FAILED ? FAILED : GO_ON;
}

static Flow
run_set_member (Render *render, const TlNode *node)
{
  TlJinjaValue *object = find_name (render, TL_CHILD (node, 0)->text);
  TlJinjaValue *value = object ? eval (render, TL_CHILD (node, 1)) : NULL;
  if (value && !object->is_namespace)
    invalid (render, "only members of a namespace can be set");
  return value && object->is_namespace && tl_jinja_put_name (render->run, object, node->text, value) ? GO_ON : FAILED;
}

static Flow
run_set (Render *render, const TlNode *node)
{
  TlJinjaValue *scope = g_ptr_array_index (render->scopes, render->scopes->len - 1), *value;
  if (node->kind == TL_NODE_SET)
    value = eval (render, TL_CHILD (node, 1));
  else {
    GString *outer = render->out;
    render->out = g_string_new (NULL);
    Flow flow = run_node (render, TL_CHILD (node, 1));
    value = flow == FAILED ? NULL : tl_jinja_string (render->run, render->out->str, render->out->len);
    g_string_free (render->out, TRUE);
    render->out = outer;
  }
  return value && assign (render, scope, TL_CHILD (node, 0), value) ? GO_ON : FAILED;
}

static Flow
run_block (Render *render, const TlNode *node)
{
  Flow flow = GO_ON;
  for (guint i = 0; flow == GO_ON && i < TL_N_CHILDREN (node); i++)
    flow = run_node (render, TL_CHILD (node, i));
  return flow;
}

static Flow
run_if (Render *render, const TlNode *node)
{
  TlJinjaValue *condition = eval (render, TL_CHILD (node, 0));
  if (!condition)
    return FAILED;
  if (tl_jinja_truth (condition))
    return run_node (render, TL_CHILD (node, 1));
  return TL_N_CHILDREN (node) > 2 ? run_node (render, TL_CHILD (node, 2)) : GO_ON;
}

static Flow
run_node (Render *render, const TlNode *node)
{
  TlJinjaValue *value;
  if (!tl_jinja_step (render->run))
    return FAILED;
  if (render->out->len > MAX_OUTPUT) {
    tl_jinja_fail (render->run, TL_ERROR_NO_MEMORY, "writes more than 64 MiB; shorten the messages");
    return FAILED;
  }
  switch (node->kind) {
    case TL_NODE_TEXT:
      g_string_append_len (render->out, node->text, node->length);
      return GO_ON;
    case TL_NODE_OUTPUT:
      if ((value = eval (render, TL_CHILD (node, 0))))
        tl_jinja_print (value, FALSE, 0, render->out);
      return value ? GO_ON : FAILED;
    case TL_NODE_BLOCK:
      return run_block (render, node);
    case TL_NODE_IF:
      return run_if (render, node);
    case TL_NODE_FOR:
      return run_for (render, node);
    case TL_NODE_SET_MEMBER:
      return run_set_member (render, node);
    case TL_NODE_BREAK:
      return BREAK;
    case TL_NODE_CONTINUE:
      return CONTINUE;
    default:
      return run_set (render, node);
  }
}

char *
tl_jinja_render (const TlJinjaTree *tree, TlJinjaRun *run, TlJinjaValue *variables)
{
  TlJinjaValue *globals = tl_jinja_dict (run);
  if (!variables || !globals)
    return NULL;
  Render render = { run, g_ptr_array_new (), g_string_new (NULL) };
  g_ptr_array_add (render.scopes, variables);
  g_ptr_array_add (render.scopes, globals);
  Flow flow = run_node (&render, tree->root);
  g_ptr_array_unref (render.scopes);
  char *text = g_string_free (render.out, FALSE);
  if (flow == FAILED)
    g_clear_pointer (&text, g_free);
  return text;
}
