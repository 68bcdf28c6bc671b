/* engine/text/tl-tokenizer-json.c — compiles a Hugging Face tokenizer.json into the tokenizer's tensors.
 *
 * What cannot be done exactly is refused by name here, before anything is built.
 */
#include "text/tl-tokenizer-private.h"

#include "text/tl-characters.h"

#include <string.h>

typedef struct
{
  const TlJsonTree *tree;
  const char *name;
  guint32 model, vocab, size;
  gboolean unigram, byte_level, meta, strips_space;
  char **pieces;
  gsize *lengths;
  guint8 *in_model;
  double *scores;
} Compiler;

static gboolean
fail (const Compiler *c, TlError code, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, code, "tinyloop: %s: %s", c->name, what);
  return FALSE;
}

static gboolean
check_model (Compiler *c, GError **error)
{
  static const char *const refused[] = { "continuing_subword_prefix", "end_of_word_suffix" };
  c->model = tl_json_get (c->tree, 0, "model");
  c->vocab = c->model ? tl_json_get (c->tree, c->model, "vocab") : TL_JSON_NONE;
  if (!c->vocab)
    return fail (c, TL_ERROR_BAD_FILE, "'model.vocab' is missing; give a tokenizer.json", error);
  g_autofree char *type = tl_json_get_string (c->tree, c->model, "type");
  TlJsonType shape = tl_json_type (c->tree, c->vocab);
  c->unigram = type ? strcmp (type, "Unigram") == 0 : shape == TL_JSON_ARRAY;
  if (type && !c->unigram && strcmp (type, "BPE") != 0) {
    g_autofree char *what = g_strdup_printf ("model type '%s' is not supported; BPE and Unigram are", type);
    return fail (c, TL_ERROR_UNSUPPORTED, what, error);
  }
  if (shape != (c->unigram ? TL_JSON_ARRAY : TL_JSON_OBJECT))
    return fail (c, TL_ERROR_BAD_FILE, "'model.vocab' has a wrong type", error);
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++) {
    g_autofree char *text = tl_json_get_string (c->tree, c->model, refused[i]);
    if (text && *text)
      return fail (c, TL_ERROR_UNSUPPORTED, "BPE with continuing_subword_prefix or end_of_word_suffix is not supported", error);
  }
  guint32 dropout = tl_json_get (c->tree, c->model, "dropout");
  if (dropout && tl_json_double (c->tree, dropout) != 0)
    return fail (c, TL_ERROR_UNSUPPORTED, "BPE dropout is not supported; set it to null", error);
  return TRUE;
}

/* calls for every decoder of a sequence; sets what decoding means */
static gboolean
check_decoder (Compiler *c, guint32 node, GError **error)
{
  g_autofree char *type = node ? tl_json_get_string (c->tree, node, "type") : NULL;
  if (!type)
    return fail (c, TL_ERROR_UNSUPPORTED, "a tokenizer without decoder is not supported", error);
  if (strcmp (type, "Sequence") == 0) {
    guint32 list = tl_json_get (c->tree, node, "decoders");
    guint32 child = list ? tl_json_first (c->tree, list) : TL_JSON_NONE;
    for (guint32 i = 0; child && i < tl_json_node (c->tree, list)->count; i++) {
      if (!check_decoder (c, child, error))
        return FALSE;
      child = tl_json_node (c->tree, child)->next;
    }
    return TRUE;
  }
  g_autofree char *content = tl_json_get_string (c->tree, node, "content");
  guint32 pattern = tl_json_get (c->tree, node, "pattern");
  g_autofree char *literal = pattern ? tl_json_get_string (c->tree, pattern, "String") : NULL;
  if (strcmp (type, "ByteLevel") == 0)
    c->byte_level = TRUE;
  else if (strcmp (type, "Metaspace") == 0) {
    g_autofree char *mark = tl_json_get_string (c->tree, node, "replacement");
    g_autofree char *scheme = tl_json_get_string (c->tree, node, "prepend_scheme");
    if (g_strcmp0 (mark, TL_META) != 0)
      return fail (c, TL_ERROR_UNSUPPORTED, "decoder Metaspace with another mark than U+2581 is not supported", error);
    c->meta = TRUE;
    c->strips_space = g_strcmp0 (scheme, "never") != 0;
  } else if (strcmp (type, "Replace") == 0 && g_strcmp0 (literal, TL_META) == 0 && g_strcmp0 (content, " ") == 0)
    c->meta = TRUE;
  else if (strcmp (type, "Strip") == 0 && g_strcmp0 (content, " ") == 0
      && tl_json_get_int (c->tree, node, "start", 0) <= 1 && tl_json_get_int (c->tree, node, "stop", 0) == 0)
    c->strips_space |= tl_json_get_int (c->tree, node, "start", 0) == 1;
  else if (strcmp (type, "ByteFallback") != 0 && strcmp (type, "Fuse") != 0) {
    g_autofree char *what = g_strdup_printf ("decoder '%s' with these settings is not supported", type);
    return fail (c, TL_ERROR_UNSUPPORTED, what, error);
  }
  return TRUE;
}

/* the id of vocabulary member number @i */
static gint64
member_id (const Compiler *c, guint32 child, guint32 i)
{
  return c->unigram ? (gint64) i : tl_json_int (c->tree, child, -1);
}

static gboolean
measure (Compiler *c, GError **error)
{
  guint32 added = tl_json_get (c->tree, 0, "added_tokens");
  guint32 lists[] = { c->vocab, added };
  gint64 largest = -1;
  for (int l = 0; l < 2; l++) {
    guint32 child = lists[l] ? tl_json_first (c->tree, lists[l]) : TL_JSON_NONE;
    for (guint32 i = 0; child && i < tl_json_node (c->tree, lists[l])->count; i++) {
      gint64 id = l ? tl_json_get_int (c->tree, child, "id", -1) : member_id (c, child, i);
      if (id < 0 || id >= TL_VOCABULARY_MAX)
        return fail (c, TL_ERROR_BAD_FILE, "a token id is no number between 0 and 16,777,215", error);
      largest = MAX (largest, id);
      child = tl_json_node (c->tree, child)->next;
    }
  }
  c->size = (guint32) (largest + 1);
  return TRUE;
}

static gboolean
read_pieces (Compiler *c, GError **error)
{
  guint32 child = tl_json_first (c->tree, c->vocab);
  c->pieces = g_new0 (char *, c->size + 1);
  c->lengths = g_new0 (gsize, c->size + 1);
  c->in_model = g_new0 (guint8, c->size + 1);
  c->scores = g_new0 (double, c->size + 1);
  for (guint32 i = 0; child && i < tl_json_node (c->tree, c->vocab)->count; i++) {
    gint64 id = member_id (c, child, i);
    g_free (c->pieces[id]);
    c->pieces[id] = NULL;
    if (!c->unigram)
      c->pieces[id] = tl_json_dup_key (c->tree, child, &c->lengths[id]);
    else if (tl_json_type (c->tree, child) == TL_JSON_ARRAY && tl_json_node (c->tree, child)->count == 2) {
      c->pieces[id] = tl_json_dup_string (c->tree, child + 1, &c->lengths[id]);
      c->scores[id] = tl_json_double (c->tree, child + 2);
    }
    if (!c->pieces[id])
      return fail (c, TL_ERROR_BAD_FILE, "'model.vocab' has an entry that is no [piece, score]", error);
    c->in_model[id] = 1;
    child = tl_json_node (c->tree, child)->next;
  }
  return TRUE;
}

static void
append_token_bytes (const Compiler *c, guint32 id, GString *out)
{
  const char *piece = c->pieces[id];
  gsize length = c->lengths[id];
  if (c->byte_level) {
    if (!tl_undo_byte_level (out, piece, length))
      g_string_append_len (out, piece, length);
    return;
  }
  int byte = tl_parse_byte_piece (piece, length);
  if (byte >= 0) {
    g_string_append_c (out, byte);
    return;
  }
  for (gsize i = 0; i < length; i++) {
    if (length - i >= 3 && memcmp (piece + i, TL_META, 3) == 0) {
      g_string_append_c (out, ' ');
      i += 2;
    } else
      g_string_append_c (out, piece[i]);
  }
}

/* adds pieces, bytes and slots; returns the hash over all token bytes */
static char *
add_tables (Compiler *c, GPtrArray *tensors)
{
  GString *pieces = g_string_new (NULL), *bytes = g_string_new (NULL);
  gint32 *piece_offsets = g_new0 (gint32, c->size + 1), *byte_offsets = g_new0 (gint32, c->size + 1);
  g_autoptr (GHashTable) added = g_hash_table_new (NULL, NULL);
  guint32 list = tl_json_get (c->tree, 0, "added_tokens");
  guint32 child = list ? tl_json_first (c->tree, list) : TL_JSON_NONE;
  for (guint32 i = 0; child && i < tl_json_node (c->tree, list)->count; i++) {
    g_hash_table_insert (added, GINT_TO_POINTER (tl_json_get_int (c->tree, child, "id", 0) + 1), GUINT_TO_POINTER (child));
    child = tl_json_node (c->tree, child)->next;
  }
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  for (guint32 id = 0; id < c->size; id++) {
    guint32 token = GPOINTER_TO_UINT (g_hash_table_lookup (added, GINT_TO_POINTER (id + 1)));
    guint32 content = token ? tl_json_get (c->tree, token, "content") : TL_JSON_NONE;
    gsize length = 0;
    g_autofree char *text = content ? tl_json_dup_string (c->tree, content, &length) : NULL;
    if (c->pieces[id])
      g_string_append_len (pieces, c->pieces[id], c->lengths[id]);
    if (text)
      g_string_append_len (bytes, text, length);
    else if (c->pieces[id])
      append_token_bytes (c, id, bytes);
    piece_offsets[id + 1] = pieces->len;
    byte_offsets[id + 1] = bytes->len;
    guint32 row = GUINT32_TO_LE (bytes->len - byte_offsets[id]);
    g_checksum_update (sum, (const guchar *) &row, sizeof row);
    g_checksum_update (sum, (const guchar *) bytes->str + byte_offsets[id], bytes->len - byte_offsets[id]);
  }
  tl_tokenizer_tensor_add (tensors, "tokenizer.slots", TRUE,
      tl_vocabulary_make_slots ((const guint8 *) pieces->str, piece_offsets, c->in_model, c->size));
  tl_tokenizer_tensor_add (tensors, "tokenizer.pieces", FALSE, g_string_free_to_bytes (pieces));
  tl_tokenizer_tensor_add (tensors, "tokenizer.bytes", FALSE, g_string_free_to_bytes (bytes));
  gsize size = (c->size + 1) * sizeof (gint32);
  tl_tokenizer_tensor_add (tensors, "tokenizer.piece_offsets", TRUE, g_bytes_new_take (piece_offsets, size));
  tl_tokenizer_tensor_add (tensors, "tokenizer.byte_offsets", TRUE, g_bytes_new_take (byte_offsets, size));
  if (c->unigram)
    tl_tokenizer_tensor_add (tensors, "tokenizer.scores", FALSE, g_bytes_new (c->scores, c->size * sizeof (double)));
  return g_strndup (g_checksum_get_string (sum), 16);
}

static gint32
find_piece (GHashTable *ids, const char *text)
{
  return GPOINTER_TO_INT (g_hash_table_lookup (ids, text)) - 1;
}

static gboolean
read_merge (const Compiler *c, guint32 node, GHashTable *ids, TlMerge *merge)
{
  g_autofree char *left = NULL, *right = NULL;
  if (tl_json_type (c->tree, node) == TL_JSON_STRING) {
    left = tl_json_dup_string (c->tree, node, NULL);
    char *space = strchr (left, ' ');
    if (!space)
      return FALSE;
    right = g_strdup (space + 1);
    *space = '\0';
  } else if (tl_json_type (c->tree, node) == TL_JSON_ARRAY && tl_json_node (c->tree, node)->count == 2) {
    left = tl_json_dup_string (c->tree, node + 1, NULL);
    right = tl_json_dup_string (c->tree, tl_json_node (c->tree, node + 1)->next, NULL);
  }
  if (!left || !right)
    return FALSE;
  g_autofree char *both = g_strconcat (left, right, NULL);
  merge->left = find_piece (ids, left);
  merge->right = find_piece (ids, right);
  merge->id = find_piece (ids, both);
  return merge->left >= 0 && merge->right >= 0 && merge->id >= 0;
}

static gboolean
add_merges (const Compiler *c, GPtrArray *tensors, GError **error)
{
  guint32 list = c->unigram ? TL_JSON_NONE : tl_json_get (c->tree, c->model, "merges");
  if (!c->unigram && (!list || tl_json_type (c->tree, list) != TL_JSON_ARRAY))
    return fail (c, TL_ERROR_BAD_FILE, "'model.merges' is missing or no list", error);
  guint32 count = list ? tl_json_node (c->tree, list)->count : 0, child = list + 1;
  if (count > TL_VOCABULARY_MAX)
    return fail (c, TL_ERROR_BAD_FILE, "'model.merges' has more than 16,777,216 entries", error);
  g_autoptr (GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint32 id = 0; id < c->size; id++)
    if (c->in_model[id])
      g_hash_table_insert (ids, c->pieces[id], GINT_TO_POINTER (id + 1));
  g_autofree TlMerge *merges = g_new0 (TlMerge, count + 1);
  for (guint32 i = 0; i < count; i++) {
    merges[i].rank = i;
    if (!read_merge (c, child, ids, &merges[i])) {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE,
          "tinyloop: %s: 'model.merges' entry %u is no pair of known pieces", c->name, i);
      return FALSE;
    }
    child = tl_json_node (c->tree, child)->next;
  }
  tl_tokenizer_tensor_add (tensors, "tokenizer.merges", TRUE, tl_vocabulary_make_merges (merges, count));
  return TRUE;
}

static gint32
unknown_id (const Compiler *c)
{
  if (c->unigram)
    return (gint32) tl_json_get_int (c->tree, c->model, "unk_id", -1);
  g_autofree char *unk = tl_json_get_string (c->tree, c->model, "unk_token");
  for (guint32 id = 0; unk && id < c->size; id++)
    if (c->pieces[id] && strcmp (c->pieces[id], unk) == 0)
      return id;
  return -1;
}

static GBytes *
make_config (const Compiler *c, const char *hash)
{
  static const char *const copied[] = { "normalizer", "pre_tokenizer", "post_processor", "added_tokens" };
  static const char *const flags[] = { "fuse_unk", "byte_fallback", "ignore_merges" };
  GString *out = g_string_new (NULL);
  g_string_append_printf (out, "{\"hash\":\"%s\",\"strips_space\":%s,\"model\":{\"type\":\"%s\",\"unk\":%d", hash,
      c->strips_space ? "true" : "false", c->unigram ? "Unigram" : "BPE", unknown_id (c));
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    g_string_append_printf (out, ",\"%s\":%s", flags[i],
        tl_json_get_bool (c->tree, c->model, flags[i], FALSE) ? "true" : "false");
  g_string_append_c (out, '}');
  for (guint i = 0; i < G_N_ELEMENTS (copied); i++) {
    guint32 node = tl_json_get (c->tree, 0, copied[i]);
    if (!node)
      continue;
    g_string_append_printf (out, ",\"%s\":", copied[i]);
    tl_json_append_raw (c->tree, node, out);
  }
  g_string_append_c (out, '}');
  return g_string_free_to_bytes (out);
}

static void
compiler_clear (Compiler *c)
{
  for (guint32 id = 0; c->pieces && id < c->size; id++)
    g_free (c->pieces[id]);
  g_free (c->pieces);
  g_free (c->lengths);
  g_free (c->in_model);
  g_free (c->scores);
}

/**
 * tl_tokenizer_new_from_json:
 * @tokenizer_json: contents of a Hugging Face tokenizer.json
 * @name: the file's name, for messages
 * @error: TL_ERROR_BAD_FILE, TL_ERROR_UNSUPPORTED naming the part
 *
 * Returns: (transfer full): a tokenizer
 */
TlTokenizer *
tl_tokenizer_new_from_json (GBytes *tokenizer_json, const char *name, GError **error)
{
  gsize size;
  const char *text = g_bytes_get_data (tokenizer_json, &size);
  g_autoptr (TlJsonTree) tree = tl_json_tree_new (text ? text : "", size, name, error);
  if (!tree)
    return NULL;
  Compiler c = { .tree = tree, .name = name };
  g_autoptr (GPtrArray) tensors = tl_tokenizer_tensor_list_new ();
  gboolean fine = check_model (&c, error) && check_decoder (&c, tl_json_get (tree, 0, "decoder"), error)
      && measure (&c, error) && read_pieces (&c, error) && add_merges (&c, tensors, error);
  if (fine) {
    g_autofree char *hash = add_tables (&c, tensors);
    tl_tokenizer_tensor_add (tensors, "tokenizer.config", FALSE, make_config (&c, hash));
    tl_tokenizer_tensor_add (tensors, "tokenizer.json", FALSE, g_bytes_ref (tokenizer_json));
  }
  compiler_clear (&c);
  return fine ? tl_tokenizer_assemble (g_steal_pointer (&tensors), name, error) : NULL;
}
