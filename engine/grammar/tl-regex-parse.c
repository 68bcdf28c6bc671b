/* engine/grammar/tl-regex-parse.c — patterns: literals, groups, quantifiers, anchors, flags. Iterative, with a stack of groups. */
#include <stdarg.h>
#include <string.h>

#include "grammar/tl-regex-private.h"
#include "grammar/tl-unicode-sets.h"
#include "tl-error.h"

typedef struct
{
  guint items, branches;        /* where this group's part of the stacks begins */
  guint syntax;                 /* to restore at its end */
  const char *from;
} Group;

typedef struct
{
  TlRegexParser p;
  GArray *groups;               /* Group, the innermost last */
  GArray *items, *branches;     /* guint32 nodes of open concatenations and alternations */
  gboolean can_repeat;          /* the last item may take a quantifier */
} Pattern;

/* sets the error unless one is set; always FALSE */
gboolean
tl_regex_fail (TlRegexParser *p, const char *at, gboolean unsupported, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  if (!*p->error)
    g_set_error (p->error, TL_ERROR, unsupported ? TL_ERROR_UNSUPPORTED : TL_ERROR_INVALID_ARGUMENT,
        "tinyloop: regex: byte %u: %s", (guint) (at - p->start), what);
  return FALSE;
}

gboolean
tl_regex_looking_at (const TlRegexParser *p, const char *text)
{
  gsize n = strlen (text);
  return p->end - p->at >= n && memcmp (p->at, text, n) == 0;
}

gunichar
tl_regex_take (TlRegexParser *p)
{
  gunichar c = g_utf8_get_char (p->at);
  p->at = g_utf8_next_char (p->at);
  return c;
}

/* ---- items */

static void
push_item (Pattern *x, guint32 node)
{
  g_array_append_val (x->items, node);
  x->can_repeat = TRUE;
}

/* a class node for @set (transfer full), surrogates left out, equal classes stored once */
static guint32
class_node (Pattern *x, GArray *set, gboolean bytes)
{
  TlRegexTree *tree = x->p.tree;
  if (!bytes && set->len && g_array_index (set, TlCharRange, set->len - 1).hi >= 0xd800) {
    static const TlCharRange scalar[] = { { 0, 0xd7ff }, { 0xe000, TL_CHAR_MAX } };
    g_autoptr (GArray) scalars = tl_char_set_new (), all = set;
    g_array_append_vals (scalars, scalar, 2);
    set = tl_char_set_intersect (all, scalars);
  }
  bytes = bytes && set->len && g_array_index (set, TlCharRange, set->len - 1).hi >= 0x80;
  GBytes *key = g_bytes_new (set->data, set->len * sizeof (TlCharRange) + 0);
  gpointer found;
  gboolean known = !bytes && g_hash_table_lookup_extended (x->p.interned, key, NULL, &found);
  guint32 index = known ? GPOINTER_TO_UINT (found) : tree->classes->len;
  if (known)
    g_array_unref (set);
  else {
    TlCharClass class = { set, bytes };
    g_array_append_val (tree->classes, class);
  }
  if (!known && !bytes)
    g_hash_table_insert (x->p.interned, key, GUINT_TO_POINTER (index));
  else
    g_bytes_unref (key);
  guint32 node = tl_regex_tree_add (tree, TL_NODE_CLASS, NULL, 0);
  g_array_index (tree->nodes, TlRegexNode, node).value = index;
  return node;
}

static void
push_set (Pattern *x, GArray *set)
{
  push_item (x, class_node (x, set, TL_REGEX_BYTES (&x->p)));
}

static void
push_char (Pattern *x, gunichar c, gboolean raw)
{
  GArray *set = tl_char_set_new ();
  tl_char_set_add (set, c, c);
  if (x->p.syntax & TL_SYNTAX_CASELESS)
    tl_unicode_add_case_variants (set, TL_REGEX_ASCII (&x->p));
  push_item (x, class_node (x, set, raw && TL_REGEX_BYTES (&x->p)));
}

static void
push_dot (Pattern *x)
{
  g_autoptr (GArray) newline = tl_char_set_new ();
  if (!(x->p.syntax & TL_SYNTAX_DOT_ALL))
    tl_char_set_add (newline, '\n', '\n');
  push_set (x, tl_char_set_negate (newline, TL_REGEX_TOP (&x->p)));
}

static void
push_assert (Pattern *x, TlAssert what)
{
  guint32 node = tl_regex_tree_add (x->p.tree, TL_NODE_ASSERT, NULL, 0);
  gboolean ascii = what >= TL_ASSERT_WORD && TL_REGEX_ASCII (&x->p);
  g_array_index (x->p.tree->nodes, TlRegexNode, node).value = what + (ascii ? TL_ASSERT_ASCII_WORD - TL_ASSERT_WORD : 0);
  push_item (x, node);
}

/* ---- groups */

static void
close_branch (Pattern *x)
{
  const Group *g = &g_array_index (x->groups, Group, x->groups->len - 1);
  guint32 node = tl_regex_tree_add (x->p.tree, TL_NODE_CAT, (guint32 *) x->items->data + g->items, x->items->len - g->items);
  g_array_set_size (x->items, g->items);
  g_array_append_val (x->branches, node);
  x->can_repeat = FALSE;
}

static guint32
close_group (Pattern *x)
{
  close_branch (x);
  Group g = g_array_index (x->groups, Group, x->groups->len - 1);
  guint32 node = tl_regex_tree_add (x->p.tree, TL_NODE_ALT, (guint32 *) x->branches->data + g.branches,
      x->branches->len - g.branches);
  g_array_set_size (x->branches, g.branches);
  g_array_set_size (x->groups, x->groups->len - 1);
  x->p.syntax = g.syntax;
  return node;
}

static gboolean
open_group (Pattern *x, const char *from, guint syntax_after)
{
  if (x->groups->len > TL_REGEX_MAX_NESTING)
    return tl_regex_fail (&x->p, from, FALSE, "groups nest deeper than %d", TL_REGEX_MAX_NESTING);
  Group g = { x->items->len, x->branches->len, syntax_after, from };
  g_array_append_val (x->groups, g);
  x->can_repeat = FALSE;
  return TRUE;
}

/* flags after "(?" up to ')' or ':' */
static gboolean
take_flags (Pattern *x, const char *from)
{
  TlRegexParser *p = &x->p;
  guint before = p->syntax;
  gboolean on = TRUE;
  for (; p->at < p->end && *p->at != ')' && *p->at != ':'; p->at++) {
    guint bit = 0;
    switch (*p->at) {
      case 'i': bit = TL_SYNTAX_CASELESS; break;
      case 's': bit = TL_SYNTAX_DOT_ALL; break;
      case 'm': bit = TL_SYNTAX_MULTI_LINE; break;
      case 'x': bit = TL_SYNTAX_EXTENDED; break;
      case 'u': break;
      case 'U': continue;       /* greed does not change the language */
      case '-':
        if (!on)
          return tl_regex_fail (p, p->at, FALSE, "a second '-' among the flags");
        on = FALSE;
        continue;
      default:
        return tl_regex_fail (p, p->at, TRUE, "the group (?%.1s is not supported; flags are i, s, m, x, u and U", p->at);
    }
    if (*p->at == 'u')
      p->syntax = on ? p->syntax & ~(TL_SYNTAX_ASCII | TL_SYNTAX_BYTES) : p->syntax | TL_SYNTAX_ASCII | TL_SYNTAX_BYTES;
    else
      p->syntax = on ? p->syntax | bit : p->syntax & ~bit;
  }
  if (p->at == p->end || (p->at == from + 2 && *p->at == ')'))
    return tl_regex_fail (p, from, FALSE, "the group is not finished");
  if (*p->at++ == ':')
    return open_group (x, from, before);
  x->can_repeat = FALSE;
  return TRUE;
}

static const struct { const char *text, *name; } refused_groups[] = {
  { "(?=", "look-ahead is" }, { "(?!", "look-ahead is" }, { "(?<=", "look-behind is" }, { "(?<!", "look-behind is" },
  { "(?>", "atomic groups are" }, { "(?|", "branch reset groups are" }, { "(?P=", "back-references are" },
  { "(?P>", "recursion is" }, { "(?&", "recursion is" }, { "(?(", "conditions are" }, { "(?C", "callouts are" },
};

static gboolean
take_group (Pattern *x)
{
  TlRegexParser *p = &x->p;
  const char *from = p->at;
  for (guint i = 0; i < G_N_ELEMENTS (refused_groups); i++)
    if (tl_regex_looking_at (p, refused_groups[i].text))
      return tl_regex_fail (p, from, TRUE, "%s not supported: no finite automaton has it", refused_groups[i].name);

  if (tl_regex_looking_at (p, "(?#")) {
    const char *close = memchr (p->at, ')', p->end - p->at);
    p->at = close ? close + 1 : p->end;
    return close || tl_regex_fail (p, from, FALSE, "the comment is not closed");
  }
  if (tl_regex_looking_at (p, "(?P<") || tl_regex_looking_at (p, "(?<")) {
    const char *name = memchr (p->at, '<', p->end - p->at) + 1, *close = memchr (name, '>', p->end - name);
    if (!close || close == name)
      return tl_regex_fail (p, from, FALSE, "the group's name is not finished; write (?<name>…)");
    p->at = close + 1;
    return open_group (x, from, p->syntax);
  }
  p->at++;
  if (p->at < p->end && *p->at == '?') {
    p->at++;
    return take_flags (x, from);
  }
  return open_group (x, from, p->syntax);
}

/* ---- quantifiers */

static gboolean
take_number (const char **at, const char *end, guint32 *n)
{
  const char *from = *at;
  for (*n = 0; *at < end && g_ascii_isdigit (**at); (*at)++)
    *n = MIN (*n * 10 + (**at - '0'), TL_REGEX_MAX_COUNT + 1);
  return *at > from;
}

/* {m} {m,} {m,n} at @at; NULL: the brace is a plain character */
static const char *
braces_end (const char *at, const char *end, guint32 *min, guint32 *max)
{
  at++;
  if (!take_number (&at, end, min))
    return NULL;
  *max = *min;
  if (at < end && *at == ',' && (at++, !take_number (&at, end, max)))
    *max = TL_REPEAT_FOREVER;
  return at < end && *at == '}' ? at + 1 : NULL;
}

static gboolean
push_repeat (Pattern *x, const char *from, guint32 min, guint32 max)
{
  TlRegexParser *p = &x->p;
  if (!x->can_repeat)
    return tl_regex_fail (p, from, FALSE, "nothing to repeat before the quantifier; write a backslash for a plain character");
  if (max != TL_REPEAT_FOREVER && max < min)
    return tl_regex_fail (p, from, FALSE, "the count's maximum is below its minimum");
  if (min > TL_REGEX_MAX_COUNT || (max > TL_REGEX_MAX_COUNT && max != TL_REPEAT_FOREVER))
    return tl_regex_fail (p, from, FALSE, "a count above %d", TL_REGEX_MAX_COUNT);
  if (p->at < p->end && *p->at == '+')
    return tl_regex_fail (p, p->at, TRUE, "possessive quantifiers are not supported");
  if (p->at < p->end && *p->at == '?')
    p->at++;                    /* lazy: the same language */

  guint32 *item = &g_array_index (x->items, guint32, x->items->len - 1), node = *item, steps = 0;
  for (const TlRegexNode *n = &g_array_index (p->tree->nodes, TlRegexNode, node); n->kind == TL_NODE_REPEAT; steps++)
    n = &g_array_index (p->tree->nodes, TlRegexNode, g_array_index (p->tree->children, guint32, n->first));
  if (steps >= 16)
    return tl_regex_fail (p, from, FALSE, "more than 16 quantifiers in a row");
  *item = tl_regex_tree_add (p->tree, TL_NODE_REPEAT, &node, 1);
  g_array_index (p->tree->nodes, TlRegexNode, *item).min = min;
  g_array_index (p->tree->nodes, TlRegexNode, *item).max = max;
  return TRUE;
}

static gboolean
take_quantifier (Pattern *x, gboolean *taken)
{
  TlRegexParser *p = &x->p;
  const char *from = p->at, *after;
  guint32 min = *from == '+', max = *from == '?' ? 1 : TL_REPEAT_FOREVER;
  *taken = strchr ("*+?", *from) != NULL;
  after = from + 1;
  if (*from == '{') {
    if (p->end - from > 1 && from[1] == ',')
      return tl_regex_fail (p, from, FALSE, "a count without minimum; write {0,n}, or \\{ for a brace");
    after = braces_end (from, p->end, &min, &max);
    *taken = after != NULL;
  }
  if (!*taken)
    return TRUE;
  p->at = after;
  return push_repeat (x, from, min, max);
}

/* ---- the pattern */

static gboolean
take_escape (Pattern *x)
{
  static const struct { const char *text; TlAssert what; } asserts[] = {
    { "A", TL_ASSERT_TEXT_START }, { "z", TL_ASSERT_TEXT_END }, { "b{start}", TL_ASSERT_WORD_START },
    { "b{end}", TL_ASSERT_WORD_END }, { "b{start-half}", TL_ASSERT_WORD_START_HALF },
    { "b{end-half}", TL_ASSERT_WORD_END_HALF }, { "b", TL_ASSERT_WORD }, { "B", TL_ASSERT_NOT_WORD },
  };
  TlRegexParser *p = &x->p;
  gunichar c;
  gboolean raw;
  p->at++;
  for (guint i = 0; i < G_N_ELEMENTS (asserts); i++)
    if (tl_regex_looking_at (p, asserts[i].text)) {
      p->at += strlen (asserts[i].text);
      push_assert (x, asserts[i].what);
      return TRUE;
    }
  GArray *set = tl_regex_escaped_set (p);
  if (set) {
    p->ranges += set->len;
    push_set (x, set);
    return p->ranges <= TL_REGEX_MAX_RANGES || tl_regex_fail (p, p->at, FALSE, "too many large classes");
  }
  if (*p->error || !tl_regex_escaped_char (p, FALSE, &c, &raw))
    return FALSE;
  push_char (x, c, raw);
  return TRUE;
}

static gboolean
skip_extended (TlRegexParser *p)
{
  if (!(p->syntax & TL_SYNTAX_EXTENDED) || !(g_ascii_isspace (*p->at) || *p->at == '#'))
    return FALSE;
  if (*p->at++ == '#')
    while (p->at < p->end && *p->at != '\n')
      p->at++;
  return TRUE;
}

static gboolean
take_one (Pattern *x)
{
  TlRegexParser *p = &x->p;
  gboolean multi = (p->syntax & TL_SYNTAX_MULTI_LINE) != 0, taken;
  GArray *set;
  if (skip_extended (p))
    return TRUE;
  if (*p->at && strchr ("*+?{", *p->at)) {
    if (!take_quantifier (x, &taken) || taken)
      return taken && !*p->error;
  }
  switch (*p->at) {
    case '(': return take_group (x);
    case '\\': return take_escape (x);
    case '[':
      if (!(set = tl_regex_bracket (p)))
        return FALSE;
      push_set (x, set);
      return TRUE;
    case ')':
      if (x->groups->len == 1)
        return tl_regex_fail (p, p->at, FALSE, "')' without '('; write \\) for a parenthesis");
      p->at++;
      push_item (x, close_group (x));
      return TRUE;
    case '|': p->at++, close_branch (x); return TRUE;
    case '.': p->at++, push_dot (x); return TRUE;
    case '^': p->at++, push_assert (x, multi ? TL_ASSERT_LINE_START : TL_ASSERT_TEXT_START); return TRUE;
    case '$': p->at++, push_assert (x, multi ? TL_ASSERT_LINE_END : TL_ASSERT_TEXT_END); return TRUE;
    default: push_char (x, tl_regex_take (p), FALSE); return TRUE;
  }
}

static gboolean
parse_all (Pattern *x)
{
  TlRegexParser *p = &x->p;
  const char *bad;
  if (p->end - p->start > TL_REGEX_MAX_BYTES)
    return tl_regex_fail (p, p->start, FALSE, "the pattern is longer than %d bytes", TL_REGEX_MAX_BYTES);
  for (const char *at = p->start; !g_utf8_validate_len (at, p->end - at, &bad); at = bad + 1)
    if (*bad != '\0')
      return tl_regex_fail (p, bad, FALSE, "the pattern is not valid UTF-8; write bytes as \\xHH with (?-u)");
  open_group (x, p->at, p->syntax);
  while (p->at < p->end)
    if (!take_one (x))
      return FALSE;
  if (x->groups->len > 1)
    return tl_regex_fail (p, g_array_index (x->groups, Group, x->groups->len - 1).from, FALSE,
        "the group is not closed; write \\( for a parenthesis");
  p->tree->root = close_group (x);
  return TRUE;
}

/* the simplified tree of @pattern; NULL: INVALID_ARGUMENT (syntax or a limit) or UNSUPPORTED (not regular, refused by name) */
TlRegexTree *
tl_regex_parse (const char *pattern, gsize length, TlSyntax syntax, GError **error)
{
  g_autoptr (TlRegexTree) tree = tl_regex_tree_new ();
  g_autoptr (GHashTable) interned = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, NULL);
  g_autoptr (GArray) groups = g_array_new (FALSE, FALSE, sizeof (Group));
  g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr (GArray) branches = g_array_new (FALSE, FALSE, sizeof (guint32));
  GError *local = NULL;
  Pattern x = { { pattern, pattern, pattern + length, tree, syntax, 0, interned, &local }, groups, items, branches, FALSE };
  if (!parse_all (&x)) {
    g_propagate_error (error, local);
    return NULL;
  }
  tl_regex_tree_simplify (tree);
  return g_steal_pointer (&tree);
}
