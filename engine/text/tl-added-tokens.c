/* engine/text/tl-added-tokens.c — leftmost-longest search for added tokens, with their strip and word rules.
 *
 * A special token that the caller wants as plain text still takes part in the search, it is only not cut out.
 */
#include "text/tl-added-tokens.h"

#include "text/tl-characters.h"
#include "tl-error.h"

#include <string.h>

static void
token_clear (gpointer data)
{
  TlAddedToken *token = data;
  g_free (token->content);
  g_free (token->match);
}

#define NODE(trie, index) (&g_array_index ((trie), TlAddedNode, (index)))

static guint32
find_child (const GArray *trie, guint32 node, guint8 byte)
{
  guint32 child = NODE (trie, node)->child;
  while (child && NODE (trie, child)->byte != byte)
    child = NODE (trie, child)->sibling;
  return child;
}

/* of equal texts the first token wins */
static void
add_to_trie (GArray *trie, const TlAddedToken *token, guint32 index)
{
  guint32 node = 0;
  for (gsize i = 0; i < token->match_length; i++) {
    guint32 child = find_child (trie, node, (guint8) token->match[i]);
    if (!child) {
      TlAddedNode fresh = { (guint8) token->match[i], 0, NODE (trie, node)->child, 0 };
      child = trie->len;
      g_array_append_val (trie, fresh);
      NODE (trie, node)->child = child;
    }
    node = child;
  }
  if (!NODE (trie, node)->token)
    NODE (trie, node)->token = index + 1;
}

static gboolean
read_token (TlAddedTokens *added, const TlJsonTree *tree, guint32 node, const TlNormalizer *normalizer,
    const char *name, GError **error)
{
  gint64 id = tl_json_get_int (tree, node, "id", -1);
  guint32 content = tl_json_get (tree, node, "content");
  TlAddedToken token = { .id = (gint32) id };
  if (content)
    token.content = tl_json_dup_string (tree, content, &token.length);
  if (id < 0 || id >= 1 << 24 || !token.content) {
    g_free (token.content);
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: added_tokens: an entry has no valid id or content",
        name);
    return FALSE;
  }
  token.special = tl_json_get_bool (tree, node, "special", FALSE);
  token.normalized = tl_json_get_bool (tree, node, "normalized", !token.special);
  token.single_word = tl_json_get_bool (tree, node, "single_word", FALSE);
  token.lstrip = tl_json_get_bool (tree, node, "lstrip", FALSE);
  token.rstrip = tl_json_get_bool (tree, node, "rstrip", FALSE);
  g_autoptr (GString) match = g_string_new_len (token.content, token.length);
  gboolean fine = !token.normalized || tl_normalizer_apply (normalizer, match, error);
  token.match = g_memdup2 (match->str, match->len + 1);
  token.match_length = match->len;
  g_array_append_val (added->tokens, token);
  g_hash_table_insert (added->by_id, GINT_TO_POINTER (token.id), GUINT_TO_POINTER (added->tokens->len));
  return fine;
}

/* reads the list; NONE = no added tokens. Errors: TL_ERROR_BAD_FILE */
TlAddedTokens *
tl_added_tokens_new (const TlJsonTree *tree, guint32 list, const TlNormalizer *normalizer, const char *name,
    GError **error)
{
  g_autoptr (TlAddedTokens) added = g_new0 (TlAddedTokens, 1);
  added->tokens = g_array_new (FALSE, FALSE, sizeof (TlAddedToken));
  g_array_set_clear_func (added->tokens, token_clear);
  added->by_id = g_hash_table_new (NULL, NULL);
  guint32 child = list ? tl_json_first (tree, list) : TL_JSON_NONE;
  for (guint32 i = 0; child && i < tl_json_node (tree, list)->count; i++) {
    if (!read_token (added, tree, child, normalizer, name, error))
      return NULL;
    child = tl_json_node (tree, child)->next;
  }
  for (int set = 0; set < 2; set++) {
    added->tries[set] = g_array_new (FALSE, TRUE, sizeof (TlAddedNode));
    g_array_set_size (added->tries[set], 1);
  }
  for (guint32 i = 0; i < added->tokens->len; i++) {
    const TlAddedToken *token = &g_array_index (added->tokens, TlAddedToken, i);
    if (token->match_length)
      add_to_trie (added->tries[token->normalized != FALSE], token, i);
  }
  return g_steal_pointer (&added);
}

void
tl_added_tokens_free (TlAddedTokens *added)
{
  for (int set = 0; set < 2; set++)
    g_clear_pointer (&added->tries[set], g_array_unref);
  g_hash_table_unref (added->by_id);
  g_array_unref (added->tokens);
  g_free (added);
}

const TlAddedToken *
tl_added_tokens_get (const TlAddedTokens *added, gint32 id)
{
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (added->by_id, GINT_TO_POINTER (id)));
  return index ? &g_array_index (added->tokens, TlAddedToken, index - 1) : NULL;
}

static const TlAddedToken *
longest_here (const TlAddedTokens *added, gboolean normalized, const char *text, gsize left)
{
  const GArray *trie = added->tries[normalized != FALSE];
  guint32 node = 0, found = 0;
  for (gsize i = 0; i < left && (node = find_child (trie, node, (guint8) text[i])); i++)
    if (NODE (trie, node)->token)
      found = NODE (trie, node)->token;
  return found ? &g_array_index (added->tokens, TlAddedToken, found - 1) : NULL;
}

static gboolean
stands_alone (const char *text, gsize length, gsize start, gsize end)
{
  if (start && tl_char_is_word (g_utf8_get_char (g_utf8_prev_char (text + start))))
    return FALSE;
  return end == length || !tl_char_is_word (g_utf8_get_char (text + end));
}

/* calls @func for each stretch of @text: a token, or the text between tokens (token = NULL), none empty.
 * @normalized selects the set; @special: special tokens are cut out, else they stay text */
void
tl_added_tokens_split (const TlAddedTokens *added, gboolean normalized, gboolean special, const char *text,
    gsize length, TlAddedFunc func, gpointer data)
{
  gsize done = 0;
  for (gsize at = 0; at < length;) {
    const TlAddedToken *token = longest_here (added, normalized, text + at, length - at);
    if (!token) {
      at++;
      continue;
    }
    gsize start = at, end = at + token->match_length;
    at = end;
    if ((token->special && !special) || (token->single_word && !stands_alone (text, length, start, end)))
      continue;
    while (token->lstrip && start > done && tl_char_is_space (g_utf8_get_char (g_utf8_prev_char (text + start))))
      start = g_utf8_prev_char (text + start) - text;
    while (token->rstrip && end < length && tl_char_is_space (g_utf8_get_char (text + end)))
      end = g_utf8_next_char (text + end) - text;
    if (start < done)
      start = done;
    if (start > done)
      func (done, start, NULL, data);
    func (start, end, token, data);
    done = end;
    at = MAX (at, end);
  }
  if (done < length)
    func (done, length, NULL, data);
}
