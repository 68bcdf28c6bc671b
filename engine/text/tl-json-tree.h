/* engine/text/tl-json-tree.h — a JSON text as one flat array of nodes, made for files with 150,000 members.
 *
 * Node 0 is the root, so index 0 also means "not there" in every look-up. Children follow their parent;
 * `next` skips a whole subtree. Strings stay raw until somebody asks for them. Used by the readers of tokenizer.json.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TL_JSON_MAX_DEPTH 64
#define TL_JSON_NONE 0u

typedef enum
{
  TL_JSON_NULL,
  TL_JSON_FALSE,
  TL_JSON_TRUE,
  TL_JSON_NUMBER,
  TL_JSON_STRING,
  TL_JSON_ARRAY,
  TL_JSON_OBJECT,
} TlJsonType;

typedef struct
{
  guint8 type;
  guint32 start, length;        /* raw slice of the text; strings without their quotes */
  guint32 key_start, key_length; /* raw key of an object's member */
  guint32 count;                /* members or elements */
  guint32 next;                 /* index behind this subtree */
} TlJsonNode;

typedef struct
{
  const char *text;             /* not owned */
  GArray *nodes;                /* of TlJsonNode */
} TlJsonTree;

TlJsonTree *tl_json_tree_new (const char *text, gsize length, const char *name, GError **error);
void tl_json_tree_free (TlJsonTree *tree);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlJsonTree, tl_json_tree_free)

#define tl_json_node(tree, index) (&g_array_index ((tree)->nodes, TlJsonNode, (index)))
TlJsonType tl_json_type (const TlJsonTree *tree, guint32 node);
guint32 tl_json_get (const TlJsonTree *tree, guint32 object, const char *key);
guint32 tl_json_first (const TlJsonTree *tree, guint32 node);
char *tl_json_dup_string (const TlJsonTree *tree, guint32 node, gsize *length);
char *tl_json_dup_key (const TlJsonTree *tree, guint32 node, gsize *length);
char *tl_json_get_string (const TlJsonTree *tree, guint32 object, const char *key);
gint64 tl_json_get_int (const TlJsonTree *tree, guint32 object, const char *key, gint64 fallback);
gboolean tl_json_get_bool (const TlJsonTree *tree, guint32 object, const char *key, gboolean fallback);
gint64 tl_json_int (const TlJsonTree *tree, guint32 node, gint64 fallback);
double tl_json_double (const TlJsonTree *tree, guint32 node);
void tl_json_append_raw (const TlJsonTree *tree, guint32 node, GString *out);
void tl_json_append_quoted (GString *out, const char *text, gssize length);

G_END_DECLS
