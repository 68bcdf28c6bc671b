/* engine/grammar/tl-regex-tree.h — a parsed regex: nodes in post-order, so that every pass is one loop over an array.
 *
 * A child's index is below its parent's. Made by the parser, simplified once (anchors that hold or fail wherever they stand,
 * branches that match nothing), then read by the NFA compiler. Not shared between threads while it is made.
 */
#pragma once

#include "grammar/tl-char-set.h"

G_BEGIN_DECLS

typedef enum
{
  TL_NODE_EMPTY,
  TL_NODE_CLASS,
  TL_NODE_CAT,
  TL_NODE_ALT,
  TL_NODE_REPEAT,
  TL_NODE_ASSERT,
} TlNodeKind;

typedef enum
{
  TL_ASSERT_TEXT_START,
  TL_ASSERT_TEXT_END,
  TL_ASSERT_LINE_START,
  TL_ASSERT_LINE_END,
  TL_ASSERT_WORD,               /* the next six twice: with Unicode's idea of a word, then with ASCII's */
  TL_ASSERT_NOT_WORD,
  TL_ASSERT_WORD_START,
  TL_ASSERT_WORD_END,
  TL_ASSERT_WORD_START_HALF,
  TL_ASSERT_WORD_END_HALF,
  TL_ASSERT_ASCII_WORD,
  TL_ASSERT_LAST = TL_ASSERT_ASCII_WORD + 5,
} TlAssert;

#define TL_REPEAT_FOREVER G_MAXUINT32

typedef struct
{
  guint8 kind;
  guint8 never;                 /* matches no string at all */
  guint8 nullable;              /* may match the empty string */
  guint8 zero_width;            /* matches nothing but the empty string */
  guint8 left, right;           /* what stands beside it: TlSide */
  guint32 value;                /* class index or TlAssert */
  guint32 min, max;             /* of a repetition */
  guint32 first, count;         /* slice of `children` */
} TlRegexNode;

typedef struct
{
  GArray *ranges;               /* canonical */
  gboolean bytes;               /* single bytes, not code points */
} TlCharClass;

typedef struct
{
  GArray *nodes, *children;     /* TlRegexNode; guint32 */
  GArray *classes;              /* TlCharClass */
  guint32 root;
  gboolean has_asserts;         /* after simplification */
} TlRegexTree;

TlRegexTree *tl_regex_tree_new (void);
void tl_regex_tree_free (TlRegexTree *tree);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlRegexTree, tl_regex_tree_free)
guint32 tl_regex_tree_add (TlRegexTree *tree, TlNodeKind kind, const guint32 *children, guint n);
void tl_regex_tree_simplify (TlRegexTree *tree);

G_END_DECLS
