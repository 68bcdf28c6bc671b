/* engine/grammar/tl-regex-tree.c — the node arrays and the passes that simplify them. */
#include "grammar/tl-regex-tree.h"

typedef enum { SIDE_UNKNOWN, SIDE_EDGE, SIDE_TEXT } TlSide;   /* nothing, or at least one byte, stands on that side */

static void
class_clear (gpointer class)
{
  g_array_unref (((TlCharClass *) class)->ranges);
}

TlRegexTree *
tl_regex_tree_new (void)
{
  TlRegexTree *tree = g_new0 (TlRegexTree, 1);
  tree->nodes = g_array_new (FALSE, FALSE, sizeof (TlRegexNode));
  tree->children = g_array_new (FALSE, FALSE, sizeof (guint32));
  tree->classes = g_array_new (FALSE, FALSE, sizeof (TlCharClass));
  g_array_set_clear_func (tree->classes, class_clear);
  return tree;
}

void
tl_regex_tree_free (TlRegexTree *tree)
{
  g_array_unref (tree->nodes);
  g_array_unref (tree->children);
  g_array_unref (tree->classes);
  g_free (tree);
}

/* appends a node with its @children; a list of one child is that child */
guint32
tl_regex_tree_add (TlRegexTree *tree, TlNodeKind kind, const guint32 *children, guint n)
{
  if ((kind == TL_NODE_CAT || kind == TL_NODE_ALT) && n == 1)
    return children[0];
  TlRegexNode node = { .kind = kind == TL_NODE_CAT && n == 0 ? TL_NODE_EMPTY : kind, .first = tree->children->len, .count = n };
  if (n)
    g_array_append_vals (tree->children, children, n);
  g_array_append_val (tree->nodes, node);
  return tree->nodes->len - 1;
}

static TlRegexNode *
node_at (TlRegexTree *tree, guint32 i)
{
  return &g_array_index (tree->nodes, TlRegexNode, i);
}

static TlRegexNode *
child_at (TlRegexTree *tree, const TlRegexNode *node, guint32 i)
{
  return node_at (tree, g_array_index (tree->children, guint32, node->first + i));
}

static void
measure_list (TlRegexTree *tree, TlRegexNode *node, gboolean all)
{
  gboolean never = !all, nullable = all, zero_width = TRUE;
  for (guint32 i = 0; i < node->count; i++) {
    const TlRegexNode *child = child_at (tree, node, i);
    never = all ? never || child->never : never && child->never;
    if (!all && child->never)
      continue;
    nullable = all ? nullable && child->nullable : nullable || child->nullable;
    zero_width = zero_width && child->zero_width;
  }
  node->never = never, node->nullable = nullable, node->zero_width = zero_width;
}

/* from the leaves up: what each node can match */
static void
measure (TlRegexTree *tree)
{
  for (guint32 i = 0; i < tree->nodes->len; i++) {
    TlRegexNode *node = node_at (tree, i);
    if (node->kind == TL_NODE_CAT || node->kind == TL_NODE_ALT)
      measure_list (tree, node, node->kind == TL_NODE_CAT);
    if (node->kind == TL_NODE_CLASS)
      node->never = g_array_index (tree->classes, TlCharClass, node->value).ranges->len == 0;
    if (node->kind == TL_NODE_EMPTY || node->kind == TL_NODE_ASSERT)
      node->nullable = node->zero_width = TRUE;
    if (node->kind == TL_NODE_REPEAT) {
      const TlRegexNode *child = child_at (tree, node, 0);
      if (node->max == 0 || (child->never && node->min == 0))
        node->kind = TL_NODE_EMPTY;
      node->never = child->never && node->kind == TL_NODE_REPEAT;
      node->nullable = node->min == 0 || child->nullable || node->kind == TL_NODE_EMPTY;
      node->zero_width = child->zero_width || node->kind == TL_NODE_EMPTY;
    }
  }
}

/* what stands beside a child, given what stands beside its parent and which siblings lie between */
static guint8
beside (guint8 outer, gboolean text_between, gboolean nothing_between)
{
  return text_between || outer == SIDE_TEXT ? SIDE_TEXT : nothing_between ? outer : SIDE_UNKNOWN;
}

static void
tell_children (TlRegexTree *tree, const TlRegexNode *node)
{
  gboolean text = FALSE, nothing = TRUE;
  for (guint32 i = 0; i < node->count; i++) {
    TlRegexNode *child = child_at (tree, node, i);
    gboolean loops = node->kind == TL_NODE_REPEAT && node->max > 1 && !child->zero_width;
    child->left = beside (node->left, text, nothing && !loops);
    child->right = beside (node->right, FALSE, !loops);
    if (node->kind == TL_NODE_CAT)
      text = text || !child->nullable, nothing = nothing && child->zero_width;
  }
  text = FALSE, nothing = TRUE;
  for (guint32 i = node->kind == TL_NODE_CAT ? node->count : 0; i-- > 0;) {
    TlRegexNode *child = child_at (tree, node, i);
    child->right = beside (node->right, text, nothing);
    text = text || !child->nullable, nothing = nothing && child->zero_width;
  }
}

/* from the root down: anchors of the text that surely hold become empty, those that surely fail match nothing */
static void
resolve_anchors (TlRegexTree *tree)
{
  node_at (tree, tree->root)->left = node_at (tree, tree->root)->right = SIDE_EDGE;
  for (guint32 i = tree->root + 1; i-- > 0;) {
    TlRegexNode *node = node_at (tree, i);
    if (node->count)
      tell_children (tree, node);
    if (node->kind != TL_NODE_ASSERT)
      continue;
    gboolean start = node->value == TL_ASSERT_TEXT_START || node->value == TL_ASSERT_LINE_START;
    gboolean end = node->value == TL_ASSERT_TEXT_END || node->value == TL_ASSERT_LINE_END;
    guint8 side = start ? node->left : end ? node->right : SIDE_UNKNOWN;
    if (side == SIDE_EDGE)
      node->kind = TL_NODE_EMPTY;
    if (side == SIDE_TEXT && (node->value == TL_ASSERT_TEXT_START || node->value == TL_ASSERT_TEXT_END))
      node->never = TRUE;
  }
}

void
tl_regex_tree_simplify (TlRegexTree *tree)
{
  measure (tree);
  resolve_anchors (tree);
  measure (tree);
  tree->has_asserts = FALSE;
  for (guint32 i = 0; i <= tree->root; i++)
    tree->has_asserts |= node_at (tree, i)->kind == TL_NODE_ASSERT && !node_at (tree, i)->never;
}
