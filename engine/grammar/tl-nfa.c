/* engine/grammar/tl-nfa.c — regex tree to NFA, emitted from the end so that each part knows what follows it. */
#include "grammar/tl-nfa.h"

#include "grammar/tl-unicode-sets.h"
#include "tl-error.h"

typedef struct
{
  TlRegexTree *tree;
  TlNfa *nfa;
  guint32 (*kinds_of)[TL_N_KINDS];   /* class → its part of each kind, NONE: empty; NULL without assertions */
  const char *failure;
} Compiler;

/* kinds of the next character with which @what holds after a character of kind @before, as bits */
guint
tl_assert_allows (TlAssert what, TlKind before)
{
  gboolean ascii = what >= TL_ASSERT_ASCII_WORD;
  guint words = 1u << TL_KIND_ASCII_WORD | (ascii ? 0 : 1u << TL_KIND_UNICODE_WORD);
  guint others = TL_KINDS_ALL & ~words, edge = 1u << TL_KIND_EDGE, newline = 1u << TL_KIND_NEWLINE;
  gboolean word_before = (words >> before) & 1;

  switch (ascii ? what - (TL_ASSERT_ASCII_WORD - TL_ASSERT_WORD) : what) {
    case TL_ASSERT_TEXT_START: return before == TL_KIND_EDGE ? TL_KINDS_ALL : 0;
    case TL_ASSERT_TEXT_END: return edge;
    case TL_ASSERT_LINE_START: return before == TL_KIND_EDGE || before == TL_KIND_NEWLINE ? TL_KINDS_ALL : 0;
    case TL_ASSERT_LINE_END: return edge | newline;
    case TL_ASSERT_WORD: return word_before ? others : words;
    case TL_ASSERT_NOT_WORD: return word_before ? words : others;
    case TL_ASSERT_WORD_START: return word_before ? 0 : words;
    case TL_ASSERT_WORD_END: return word_before ? others : 0;
    case TL_ASSERT_WORD_START_HALF: return word_before ? 0 : TL_KINDS_ALL;
    default: return others;     /* the end half */
  }
}

static void
class_clear (gpointer class)
{
  g_array_unref (((TlCharClass *) class)->ranges);
}

void
tl_nfa_free (TlNfa *nfa)
{
  g_array_unref (nfa->code);
  g_array_unref (nfa->loops);
  g_array_unref (nfa->classes);
  g_free (nfa);
}

static guint32
emit (Compiler *c, TlNfaInstruction instruction, guint32 loop)
{
  if (c->nfa->code->len >= TL_NFA_MAX_INSTRUCTIONS) {
    c->failure = "the pattern is too large when its counts are written out; use smaller counts or no word boundaries";
    return 0;
  }
  instruction.loop = loop;
  for (; loop != TL_NFA_NONE; loop = g_array_index (c->nfa->loops, TlNfaLoop, loop).parent)
    instruction.depth++;
  g_array_append_val (c->nfa->code, instruction);
  return c->nfa->code->len - 1;
}

static guint32
emit_split (Compiler *c, guint32 next, guint32 other, guint32 loop)
{
  return emit (c, (TlNfaInstruction) { .op = TL_NFA_SPLIT, .next = next, .other = other }, loop);
}

static guint32
emit_class (Compiler *c, guint32 class, guint32 next, guint32 loop)
{
  guint32 pc = TL_NFA_NONE;
  if (!c->kinds_of)
    return emit (c, (TlNfaInstruction) { .op = TL_NFA_CLASS, .kind = TL_KIND_OTHER, .next = next, .value = class }, loop);
  for (guint kind = TL_KIND_NEWLINE; kind < TL_N_KINDS; kind++) {
    guint32 part = c->kinds_of[class][kind];
    if (part == TL_NFA_NONE)
      continue;
    guint32 one = emit (c, (TlNfaInstruction) { .op = TL_NFA_CLASS, .kind = kind, .next = next, .value = part }, loop);
    pc = pc == TL_NFA_NONE ? one : emit_split (c, one, pc, loop);
  }
  return pc;
}

static guint32 emit_node (Compiler *c, guint32 index, guint32 next, guint32 loop);

static guint32
emit_star (Compiler *c, guint32 child, gboolean at_least_once, guint32 next, guint32 loop)
{
  guint32 split = emit_split (c, TL_NFA_NONE, next, loop);
  guint32 body = emit_node (c, child, split, loop);
  g_array_index (c->nfa->code, TlNfaInstruction, split).next = body;
  return at_least_once ? body : split;
}

static guint32
emit_copies (Compiler *c, guint32 child, guint32 min, guint32 max, guint32 next, guint32 loop)
{
  guint32 pc = next;
  if (max == TL_REPEAT_FOREVER)
    pc = emit_star (c, child, min > 0, next, loop), min -= min > 0;
  else
    for (guint32 i = min; i < max && !c->failure; i++)
      pc = emit_split (c, emit_node (c, child, pc, loop), next, loop);
  for (guint32 i = 0; i < min && !c->failure; i++)
    pc = emit_node (c, child, pc, loop);
  return pc;
}

static guint32
emit_counter (Compiler *c, guint32 child, guint32 min, guint32 max, guint32 next, guint32 loop)
{
  GArray *loops = c->nfa->loops;
  TlNfaLoop new_loop = { min, max, TL_NFA_NONE, loop };
  guint32 index = loops->len;
  g_array_append_val (loops, new_loop);
  guint32 done = emit (c, (TlNfaInstruction) { .op = TL_NFA_LOOP, .next = next, .value = index }, index);
  c->nfa->max_depth = MAX (c->nfa->max_depth, g_array_index (c->nfa->code, TlNfaInstruction, done).depth);
  if (c->nfa->max_depth > TL_NFA_MAX_DEPTH)
    c->failure = "counted repetitions nest deeper than 16";
  if (c->failure)
    return 0;
  guint32 body = emit_node (c, child, done, index);
  g_array_index (loops, TlNfaLoop, index).body = body;
  return emit (c, (TlNfaInstruction) { .op = TL_NFA_ENTER, .next = body, .other = next, .value = index }, loop);
}

static guint32
emit_repeat (Compiler *c, const TlRegexNode *node, guint32 next, guint32 loop)
{
  guint32 child = g_array_index (c->tree->children, guint32, node->first);
  const TlRegexNode *what = &g_array_index (c->tree->nodes, TlRegexNode, child);
  guint32 min = node->min, max = node->max;
  if (what->zero_width)
    min = MIN (min, 1), max = 1;
  if (what->nullable && !c->nfa->has_asserts)
    min = 0;                    /* skipped iterations cost nothing */
  if (max == TL_REPEAT_FOREVER && min <= 1)
    return emit_star (c, child, min, next, loop);
  return c->nfa->has_asserts || max <= 1 ? emit_copies (c, child, min, max, next, loop)
      : emit_counter (c, child, min, max, next, loop);
}

/* code for node @index that goes on at @next; recursion is bounded by the parser's nesting limit */
static guint32
emit_node (Compiler *c, guint32 index, guint32 next, guint32 loop)
{
  const TlRegexNode *node = &g_array_index (c->tree->nodes, TlRegexNode, index);
  guint32 pc = node->kind == TL_NODE_CAT || node->kind == TL_NODE_EMPTY ? next : TL_NFA_NONE;
  if (c->failure)
    return 0;
  switch (node->kind) {
    case TL_NODE_CLASS: return emit_class (c, node->value, next, loop);
    case TL_NODE_REPEAT: return emit_repeat (c, node, next, loop);
    case TL_NODE_ASSERT:
      return emit (c, (TlNfaInstruction) { .op = TL_NFA_ASSERT, .next = next, .value = node->value }, loop);
    default: break;
  }
  for (guint32 i = node->count; i-- > 0 && node->kind != TL_NODE_EMPTY;) {
    guint32 child = g_array_index (c->tree->children, guint32, node->first + i);
    if (node->kind == TL_NODE_CAT)
      pc = emit_node (c, child, pc, loop);
    else if (!g_array_index (c->tree->nodes, TlRegexNode, child).never) {
      guint32 branch = emit_node (c, child, next, loop);
      pc = pc == TL_NFA_NONE ? branch : emit_split (c, branch, pc, loop);
    }
  }
  return pc;
}

static void
add_class (TlNfa *nfa, GArray *ranges, gboolean bytes)
{
  TlCharClass class = { ranges, bytes };
  g_array_append_val (nfa->classes, class);
}

/* each class cut into newline, ASCII word, other word and the rest */
static void
split_classes (Compiler *c)
{
  GArray *source = c->tree->classes;
  GArray *kinds[TL_N_KINDS] = { NULL };
  g_autoptr (GArray) unicode = tl_unicode_words (FALSE);
  g_autoptr (GArray) not_ascii = tl_char_set_new (), all_words = tl_char_set_new ();
  kinds[TL_KIND_NEWLINE] = tl_char_set_new ();
  tl_char_set_add (kinds[TL_KIND_NEWLINE], '\n', '\n');
  tl_char_set_add (not_ascii, 0x80, TL_CHAR_MAX);
  kinds[TL_KIND_ASCII_WORD] = tl_unicode_words (TRUE);
  kinds[TL_KIND_UNICODE_WORD] = tl_char_set_intersect (unicode, not_ascii);
  tl_char_set_add_set (all_words, unicode);
  tl_char_set_add (all_words, '\n', '\n');
  tl_char_set_normalise (all_words);
  kinds[TL_KIND_OTHER] = tl_char_set_negate (all_words, TL_CHAR_MAX);
  g_autoptr (GArray) plain_bytes = tl_char_set_negate (kinds[TL_KIND_ASCII_WORD], 0xff);
  g_autoptr (GArray) not_newline = tl_char_set_negate (kinds[TL_KIND_NEWLINE], 0xff);
  g_autoptr (GArray) other_bytes = tl_char_set_intersect (plain_bytes, not_newline);

  c->kinds_of = g_malloc_n (MAX (source->len, 1), sizeof *c->kinds_of);
  for (guint32 i = 0; i < source->len; i++) {
    const TlCharClass *class = &g_array_index (source, TlCharClass, i);
    for (guint kind = TL_KIND_NEWLINE; kind < TL_N_KINDS; kind++) {
      const GArray *of_kind = class->bytes && kind == TL_KIND_OTHER ? other_bytes : kinds[kind];
      gboolean none = class->bytes && kind == TL_KIND_UNICODE_WORD;
      g_autoptr (GArray) part = none ? tl_char_set_new () : tl_char_set_intersect (class->ranges, of_kind);
      c->kinds_of[i][kind] = part->len ? c->nfa->classes->len : TL_NFA_NONE;
      if (part->len)
        add_class (c->nfa, g_steal_pointer (&part), class->bytes);
    }
  }
  for (guint kind = TL_KIND_NEWLINE; kind < TL_N_KINDS; kind++)
    g_array_unref (kinds[kind]);
}

/* UNSUPPORTED when a limit is passed */
TlNfa *
tl_nfa_compile (TlRegexTree *tree, GError **error)
{
  g_autoptr (TlNfa) nfa = g_new0 (TlNfa, 1);
  nfa->code = g_array_new (FALSE, FALSE, sizeof (TlNfaInstruction));
  nfa->loops = g_array_new (FALSE, FALSE, sizeof (TlNfaLoop));
  nfa->classes = g_array_new (FALSE, FALSE, sizeof (TlCharClass));
  g_array_set_clear_func (nfa->classes, class_clear);
  nfa->has_asserts = tree->has_asserts;
  Compiler c = { tree, nfa, NULL, NULL };
  if (nfa->has_asserts)
    split_classes (&c);
  else
    for (guint32 i = 0; i < tree->classes->len; i++) {
      const TlCharClass *class = &g_array_index (tree->classes, TlCharClass, i);
      add_class (nfa, g_array_ref (class->ranges), class->bytes);
    }
  guint32 accept = emit (&c, (TlNfaInstruction) { .op = TL_NFA_ACCEPT }, TL_NFA_NONE);
  gboolean never = g_array_index (tree->nodes, TlRegexNode, tree->root).never;
  nfa->start = never ? TL_NFA_NONE : emit_node (&c, tree->root, accept, TL_NFA_NONE);
  g_free (c.kinds_of);
  if (c.failure) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: regex: %s", c.failure);
    return NULL;
  }
  return g_steal_pointer (&nfa);
}
