/* engine/text/tl-added-tokens.h — the added tokens of a tokenizer: found in the text before anything else happens.
 *
 * Immutable. Two sets: those matched in the raw text and those matched after normalizing.
 */
#pragma once

#include "text/tl-json-tree.h"
#include "text/tl-normalizer.h"

G_BEGIN_DECLS

typedef struct
{
  gint32 id;
  char *content;
  gsize length;
  char *match;                  /* what is searched: content, normalized when asked */
  gsize match_length;
  gboolean single_word, lstrip, rstrip, normalized, special;
} TlAddedToken;

/* the children of a node are a list through `sibling`; 0 = none */
typedef struct
{
  guint8 byte;
  guint32 child, sibling;
  guint32 token;                /* index + 1, 0 = none ends here */
} TlAddedNode;

typedef struct
{
  GArray *tokens;               /* of TlAddedToken */
  GHashTable *by_id;            /* id → index + 1 */
  GArray *tries[2];             /* of TlAddedNode: raw, normalized; node 0 is the root */
} TlAddedTokens;

typedef void (*TlAddedFunc) (gsize start, gsize end, const TlAddedToken *token, gpointer data);

TlAddedTokens *tl_added_tokens_new (const TlJsonTree *tree, guint32 list, const TlNormalizer *normalizer,
    const char *name, GError **error);
void tl_added_tokens_free (TlAddedTokens *added);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlAddedTokens, tl_added_tokens_free)
const TlAddedToken *tl_added_tokens_get (const TlAddedTokens *added, gint32 id);
void tl_added_tokens_split (const TlAddedTokens *added, gboolean normalized, gboolean special, const char *text,
    gsize length, TlAddedFunc func, gpointer data);

G_END_DECLS
