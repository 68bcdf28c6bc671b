/* cache/tl-prefix-tree.h — a radix tree over token ids: which of many stored sequences begins most like a given one.
 *
 * An edge carries a run of ids; ids are always compared, a hash of the first one only finds the edge. A value stands where its
 * ids end. Not locked. Used by the prefix pool, one tree for each key.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _TlPrefixTree TlPrefixTree;

TlPrefixTree *tl_prefix_tree_new (void);
void tl_prefix_tree_free (TlPrefixTree *tree);          /* values are the caller's */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlPrefixTree, tl_prefix_tree_free)

/* what stood there before, or NULL; value: not NULL */
gpointer tl_prefix_tree_insert (TlPrefixTree *tree, const guint32 *ids, guint n, gpointer value);
/* what stood there, or NULL */
gpointer tl_prefix_tree_remove (TlPrefixTree *tree, const guint32 *ids, guint n);
gboolean tl_prefix_tree_is_empty (const TlPrefixTree *tree);

/* A value that shares as many leading ids as any with the given ones; *shared: how many. NULL when none shares any.
 * The value's own ids may go on differently, or longer. */
gpointer tl_prefix_tree_find (const TlPrefixTree *tree, const guint32 *ids, guint n, guint *shared);
/* the value of the longest ids that the given ones begin with; *shared: their length */
gpointer tl_prefix_tree_find_whole (const TlPrefixTree *tree, const guint32 *ids, guint n, guint *shared);

G_END_DECLS
