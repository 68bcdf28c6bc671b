/* engine/text/tl-jinja-parse.h — a chat template as a tree; immutable after parsing.
 *
 * The subset: text, {{ }}, for/else, if/elif/else, set, break, continue; expressions with filters, tests and methods.
 */
#pragma once

#include "text/tl-jinja-value.h"

G_BEGIN_DECLS

typedef enum
{
  /* statements; children as noted */
  TL_NODE_TEXT,                 /* text */
  TL_NODE_OUTPUT,               /* expression */
  TL_NODE_BLOCK,                /* statements */
  TL_NODE_IF,                   /* condition, block, [else block] */
  TL_NODE_FOR,                  /* targets (names), list, block, filter or NULL, else block or NULL */
  TL_NODE_SET,                  /* targets, expression */
  TL_NODE_SET_BLOCK,            /* targets, block */
  TL_NODE_SET_MEMBER,           /* text = member; object, expression */
  TL_NODE_BREAK,
  TL_NODE_CONTINUE,
  /* expressions */
  TL_NODE_STRING,               /* text */
  TL_NODE_INT,                  /* number */
  TL_NODE_FLOAT,                /* real */
  TL_NODE_TRUE,
  TL_NODE_FALSE,
  TL_NODE_NONE,
  TL_NODE_NAME,                 /* text */
  TL_NODE_LIST,                 /* elements */
  TL_NODE_DICT,                 /* key, value, key, value … */
  TL_NODE_MEMBER,               /* object; text */
  TL_NODE_INDEX,                /* object, index */
  TL_NODE_SLICE,                /* object, start, stop, step (each may be NULL) */
  TL_NODE_CALL,                 /* text = function; arguments */
  TL_NODE_METHOD,               /* text; object, arguments */
  TL_NODE_FILTER,               /* text; value, arguments */
  TL_NODE_TEST,                 /* text; value, arguments */
  TL_NODE_KEYWORD,              /* text = name; value: an argument given by name */
  TL_NODE_NOT,
  TL_NODE_NEGATE,
  TL_NODE_AND,
  TL_NODE_OR,
  TL_NODE_CHOICE,               /* condition, value, other or NULL */
  TL_NODE_BINARY,               /* text = operator; left, right */
} TlNodeKind;

typedef struct _TlNode TlNode;

struct _TlNode
{
  TlNodeKind kind;
  guint line;
  char *text;
  gsize length;
  gint64 number;
  double real;
  GPtrArray *children;          /* of TlNode, owned by the tree */
};

typedef struct
{
  GPtrArray *nodes;             /* owns all nodes */
  TlNode *root;
} TlJinjaTree;

#define TL_CHILD(node, i) ((TlNode *) g_ptr_array_index ((node)->children, (i)))
#define TL_N_CHILDREN(node) ((node)->children->len)

TlJinjaTree *tl_jinja_parse (const char *source, GError **error);
void tl_jinja_tree_free (TlJinjaTree *tree);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlJinjaTree, tl_jinja_tree_free)

/* what the library of filters, tests and methods knows */
gboolean tl_jinja_has_filter (const char *name);
gboolean tl_jinja_has_test (const char *name);
gboolean tl_jinja_has_method (const char *name);

G_END_DECLS
