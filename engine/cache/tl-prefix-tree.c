/* cache/tl-prefix-tree.c — nodes with edges that split where two sequences part. See tl-prefix-tree.h.
 *
 * Invariant: every node but the root has a value or at least two children, so below any place there is a value.
 */
#include "cache/tl-prefix-tree.h"

typedef struct _Node Node;
struct _Node
{
  guint32 *ids;                 /* of the edge that leads here */
  guint n;
  gpointer value;               /* or NULL */
  GHashTable *children;         /* first id → Node, or NULL */
};

struct _TlPrefixTree
{
  Node root;
};

static void
node_free (Node *node)
{
  g_clear_pointer (&node->children, g_hash_table_unref);
  g_free (node->ids);
  g_free (node);
}

static Node *
node_new (const guint32 *ids, guint n, gpointer value)
{
  Node *node = g_new (Node, 1);
  *node = (Node) { g_memdup2 (ids, n * sizeof *ids), n, value, NULL };
  return node;
}

static Node *
child_of (const Node *node, guint32 id)
{
  return node->children ? g_hash_table_lookup (node->children, GUINT_TO_POINTER (id)) : NULL;
}

/* takes the place of an earlier child that begins with the same id, which is not freed */
static void
add_child (Node *node, Node *child)
{
  if (!node->children)
    node->children = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) node_free);
  g_hash_table_steal (node->children, GUINT_TO_POINTER (child->ids[0]));
  g_hash_table_insert (node->children, GUINT_TO_POINTER (child->ids[0]), child);
}

static Node *
any_child (const Node *node)
{
  GHashTableIter iter;
  gpointer child = NULL;
  if (!node->children)
    return NULL;
  g_hash_table_iter_init (&iter, node->children);
  return g_hash_table_iter_next (&iter, NULL, &child) ? child : NULL;
}

static guint
count_equal (const guint32 *a, guint n_a, const guint32 *b, guint n_b)
{
  guint n = MIN (n_a, n_b), i = 0;
  while (i < n && a[i] == b[i])
    i++;
  return i;
}

TlPrefixTree *
tl_prefix_tree_new (void)
{
  return g_new0 (TlPrefixTree, 1);
}

void
tl_prefix_tree_free (TlPrefixTree *tree)
{
  g_clear_pointer (&tree->root.children, g_hash_table_unref);
  g_free (tree);
}

gboolean
tl_prefix_tree_is_empty (const TlPrefixTree *tree)
{
  return !tree->root.value && !any_child (&tree->root);
}

/* the first `n` ids of an edge become an edge of their own */
static Node *
split (Node *parent, Node *child, guint n)
{
  Node *middle = node_new (child->ids, n, NULL);
  guint32 *rest = g_memdup2 (child->ids + n, (child->n - n) * sizeof *rest);
  add_child (parent, middle);
  g_free (child->ids);
  child->ids = rest;
  child->n -= n;
  add_child (middle, child);
  return middle;
}

gpointer
tl_prefix_tree_insert (TlPrefixTree *tree, const guint32 *ids, guint n, gpointer value)
{
  Node *node = &tree->root;
  for (guint at = 0; at < n;)
    {
      Node *child = child_of (node, ids[at]);
      if (!child)
        {
          add_child (node, node_new (ids + at, n - at, value));
          return NULL;
        }
      guint equal = count_equal (child->ids, child->n, ids + at, n - at);
      node = equal < child->n ? split (node, child, equal) : child;
      at += equal;
    }
  gpointer old = node->value;
  node->value = value;
  return old;
}

/* a node without a value and with one child is no fork any more: the child takes over its edge */
static void
join (Node *parent, Node *node)
{
  Node *child = any_child (node);
  guint32 *ids = g_new (guint32, node->n + child->n);
  for (guint i = 0; i < node->n + child->n; i++)
    ids[i] = i < node->n ? node->ids[i] : child->ids[i - node->n];
  g_hash_table_steal (node->children, GUINT_TO_POINTER (child->ids[0]));
  g_free (child->ids);
  child->ids = ids;
  child->n += node->n;
  add_child (parent, child);
  node_free (node);
}

gpointer
tl_prefix_tree_remove (TlPrefixTree *tree, const guint32 *ids, guint n)
{
  Node *node = &tree->root, *parent = NULL, *above = NULL;
  for (guint at = 0; at < n; at += node->n)
    {
      Node *child = child_of (node, ids[at]);
      if (!child || count_equal (child->ids, child->n, ids + at, n - at) < child->n)
        return NULL;
      above = parent;
      parent = node;
      node = child;
    }
  gpointer value = node->value;
  node->value = NULL;
  if (!value || node == &tree->root)
    return value;

  guint n_children = node->children ? g_hash_table_size (node->children) : 0;
  if (n_children == 1)
    join (parent, node);
  else if (n_children == 0)
    {
      g_hash_table_remove (parent->children, GUINT_TO_POINTER (node->ids[0]));
      if (above && !parent->value && g_hash_table_size (parent->children) == 1)
        join (above, parent);
    }
  return value;
}

gpointer
tl_prefix_tree_find (const TlPrefixTree *tree, const guint32 *ids, guint n, guint *shared)
{
  const Node *node = &tree->root, *child;
  guint at = 0, equal = 0;
  while (at < n && (child = child_of (node, ids[at])))
    {
      equal = count_equal (child->ids, child->n, ids + at, n - at);
      at += equal;
      node = child;
      if (equal < child->n)
        break;
    }
  *shared = at;
  if (at == 0)
    return NULL;
  while (!node->value)
    node = any_child (node);
  return node->value;
}

gpointer
tl_prefix_tree_find_whole (const TlPrefixTree *tree, const guint32 *ids, guint n, guint *shared)
{
  const Node *node = &tree->root, *child;
  gpointer value = NULL;
  *shared = 0;
  for (guint at = 0; at < n && (child = child_of (node, ids[at])); node = child)
    {
      if (count_equal (child->ids, child->n, ids + at, n - at) < child->n)
        break;
      at += child->n;
      if (child->value)
        {
          value = child->value;
          *shared = at;
        }
    }
  return value;
}
