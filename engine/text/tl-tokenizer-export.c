/* engine/text/tl-tokenizer-export.c — a tokenizer as the loose parts that GGUF metadata hold.
 *
 * Reads the tokenizer.json that every tokenizer carries. What GGUF has no name for is refused, never approximated: a file
 * that splits words in another way would run and be wrong.
 */
#include "text/tl-tokenizer-parts.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "text/tl-characters.h"
#include "text/tl-tokenizer-private.h"

typedef struct
{
  TlTokenizer *self;
  const char *name;
  JsonObject *root, *model;
  gsize n_pieces;
  GError **error;
} Export;

static gboolean
refuse (const Export *e, const char *what)
{
  g_set_error (e->error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: the tokenizer's %s has no form in GGUF; export "
      "without the tokenizer", e->name, what);
  return FALSE;
}

static const char *
text_of (JsonObject *object, const char *key)
{
  JsonNode *node = object ? json_object_get_member (object, key) : NULL;
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
      ? json_node_get_string (node) : NULL;
}

static JsonObject *
object_of (JsonObject *object, const char *key)
{
  JsonNode *node = object ? json_object_get_member (object, key) : NULL;
  return node && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

static JsonArray *
array_of (JsonObject *object, const char *key)
{
  JsonNode *node = object ? json_object_get_member (object, key) : NULL;
  return node && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

static gboolean
flag_of (JsonObject *object, const char *key, gboolean fallback)
{
  return object && json_object_has_member (object, key) ? json_object_get_boolean_member_with_default (object, key, fallback)
      : fallback;
}

static gboolean
is_type (JsonObject *part, const char *type)
{
  return g_strcmp0 (text_of (part, "type"), type) == 0;
}

/* a part, or the members of a sequence of parts, one after the other */
static GPtrArray *
flatten (JsonObject *part, const char *list)
{
  GPtrArray *out = g_ptr_array_new ();
  JsonArray *inner = is_type (part, "Sequence") ? array_of (part, list) : NULL;
  if (part && !inner)
    g_ptr_array_add (out, part);
  for (guint i = 0; inner && i < json_array_get_length (inner); i++)
    if (JSON_NODE_HOLDS_OBJECT (json_array_get_element (inner, i)))
      g_ptr_array_add (out, json_array_get_object_element (inner, i));
  return out;
}

/* the regular expressions of the pre-tokenizer in their order */
static gboolean
read_splits (const Export *e, GPtrArray *splits)
{
  g_autoptr (GPtrArray) parts = flatten (object_of (e->root, "pre_tokenizer"), "pretokenizers");
  for (guint i = 0; i < parts->len; i++) {
    JsonObject *part = parts->pdata[i];
    const char *regex = text_of (object_of (part, "pattern"), "Regex");
    if (is_type (part, "Split") && regex && g_strcmp0 (text_of (part, "behavior"), "Isolated") == 0
        && !flag_of (part, "invert", FALSE))
      g_ptr_array_add (splits, (gpointer) regex);
    else if (is_type (part, "Digits") && flag_of (part, "individual_digits", FALSE))
      g_ptr_array_add (splits, (gpointer) "\\p{N}");
    else if (is_type (part, "ByteLevel") && !flag_of (part, "add_prefix_space", TRUE)) {
      if (flag_of (part, "use_regex", TRUE))
        g_ptr_array_add (splits, (gpointer) tl_tokenizer_gpt2_split ());
    } else
      return refuse (e, "pre_tokenizer");
  }
  g_ptr_array_add (splits, NULL);
  return TRUE;
}

static gboolean
read_byte_level (const Export *e, TlTokenizerParts *parts)
{
  g_autoptr (GPtrArray) splits = g_ptr_array_new ();
  JsonObject *normalizer = object_of (e->root, "normalizer");
  gboolean nfc = is_type (normalizer, "NFC");
  if (normalizer && !nfc)
    return refuse (e, "normalizer");
  if (!read_splits (e, splits))
    return FALSE;
  parts->model = "gpt2";
  parts->pre = tl_tokenizer_pre_name ((const char *const *) splits->pdata, flag_of (e->model, "ignore_merges", FALSE), nfc);
  return parts->pre || refuse (e, "pre_tokenizer");
}

/* pieces with ▁ for spaces, merged by score: the normalizer puts one in front, or not */
static gboolean
read_meta (const Export *e, TlTokenizerParts *parts)
{
  g_autoptr (GPtrArray) steps = flatten (object_of (e->root, "normalizer"), "normalizers");
  JsonObject *pre = object_of (e->root, "pre_tokenizer");
  gboolean prefix = FALSE, replaces = FALSE;
  for (guint i = 0; i < steps->len; i++) {
    JsonObject *step = steps->pdata[i];
    if (is_type (step, "Prepend") && g_strcmp0 (text_of (step, "prepend"), TL_META) == 0)
      prefix = TRUE;
    else if (is_type (step, "Replace") && g_strcmp0 (text_of (object_of (step, "pattern"), "String"), " ") == 0
        && g_strcmp0 (text_of (step, "content"), TL_META) == 0)
      replaces = TRUE;
    else
      return refuse (e, "normalizer");
  }
  if (is_type (pre, "Metaspace") && !replaces) {
    prefix = g_strcmp0 (text_of (pre, "prepend_scheme"), "never") != 0;
    replaces = !flag_of (pre, "split", TRUE);
  } else if (pre)
    replaces = FALSE;
  if (!replaces)
    return refuse (e, "pre_tokenizer");
  parts->model = "llama";
  parts->no_space_prefix = !prefix;
  return TRUE;
}

static void
set_piece (char **pieces, gint32 *types, gsize n, gint64 id, const char *text, TlPieceType type)
{
  if (id < 0 || id >= (gint64) n)
    return;
  g_free (pieces[id]);
  pieces[id] = g_strdup (text);
  types[id] = type;
}

static gboolean
is_byte_piece (const char *text)
{
  return strlen (text) == 6 && g_str_has_prefix (text, "<0x") && text[5] == '>';
}

static void
read_pieces (const Export *e, TlTokenizerParts *parts)
{
  gsize n = e->n_pieces;
  char **pieces = g_new0 (char *, n + 1);
  gint32 *types = g_new0 (gint32, n);
  gboolean fallback = flag_of (e->model, "byte_fallback", FALSE);
  JsonObject *vocab = object_of (e->model, "vocab");
  JsonArray *added = array_of (e->root, "added_tokens");
  g_autoptr (GList) names = json_object_get_members (vocab);
  for (GList *l = names; l; l = l->next)
    set_piece (pieces, types, n, json_object_get_int_member (vocab, l->data), l->data,
        fallback && is_byte_piece (l->data) ? TL_PIECE_BYTE : TL_PIECE_NORMAL);
  for (guint i = 0; added && i < json_array_get_length (added); i++) {
    JsonObject *token = json_array_get_object_element (added, i);
    set_piece (pieces, types, n, json_object_get_int_member (token, "id"), text_of (token, "content"),
        flag_of (token, "special", FALSE) ? TL_PIECE_CONTROL : TL_PIECE_USER_DEFINED);
  }
  for (gsize i = 0; i < n; i++)
    if (!pieces[i]) {
      pieces[i] = g_strdup_printf ("[unused %" G_GSIZE_FORMAT "]", i);
      types[i] = TL_PIECE_UNUSED;
    }
  parts->pieces = (const char *const *) pieces;
  parts->types = types;
  parts->n_pieces = n;
}

/* `left right` of every merge; with scores instead, a piece's is minus the rank of its first merge */
static gboolean
read_merges (const Export *e, TlTokenizerParts *parts)
{
  JsonArray *list = array_of (e->model, "merges");
  JsonObject *vocab = object_of (e->model, "vocab");
  guint n = list ? json_array_get_length (list) : 0;
  gboolean scored = strcmp (parts->model, "llama") == 0;
  char **merges = g_new0 (char *, n + 1);
  float *scores = scored ? g_new0 (float, parts->n_pieces) : NULL;
  parts->merges = (const char *const *) merges;
  parts->scores = scores;
  parts->n_merges = scored ? 0 : n;
  for (gsize i = 0; scored && i < parts->n_pieces; i++)
    scores[i] = parts->types[i] == TL_PIECE_NORMAL ? -(float) n : 0;
  for (guint i = 0; i < n; i++) {
    JsonNode *node = json_array_get_element (list, i);
    JsonArray *pair = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
    merges[i] = pair ? g_strconcat (json_array_get_string_element (pair, 0), " ", json_array_get_string_element (pair, 1),
        NULL) : g_strdup (json_node_get_string (node));
    if (!scored && strchr (strchr (merges[i], ' ') + 1, ' '))
      return refuse (e, "merge with a space");
    if (!scored)
      continue;
    g_auto (GStrv) halves = g_strsplit (merges[i], " ", 2);
    g_autofree char *whole = g_strconcat (halves[0], halves[1], NULL);
    gint64 id = json_object_get_int_member_with_default (vocab, whole, -1);
    if (id >= 0 && id < (gint64) parts->n_pieces && scores[id] == -(float) n)
      scores[id] = -(float) i;
  }
  return TRUE;
}

static gboolean
read_ends (const Export *e, TlTokenizerParts *parts)
{
  TlTokenizer *self = e->self;
  parts->bos = self->bos;
  parts->eos = self->eos->len ? g_array_index (self->eos, gint32, 0) : -1;
  parts->unk = self->model.unk;
  parts->add_bos = self->prefix->len == 1;
  parts->add_eos = self->suffix->len == 1;
  parts->chat_template = g_strdup (self->chat_template);
  gint32 first = parts->add_bos ? g_array_index (self->prefix, gint32, 0) : -1;
  gint32 last = parts->add_eos ? g_array_index (self->suffix, gint32, 0) : -1;
  if (self->prefix->len > 1 || self->suffix->len > 1 || (parts->add_bos && parts->bos >= 0 && first != parts->bos)
      || (parts->add_eos && last != parts->eos))
    return refuse (e, "post_processor");
  if (parts->add_bos)
    parts->bos = first;
  return TRUE;
}

static GBytes *
find_json (TlTokenizer *self)
{
  for (guint i = 0; i < self->tensors->len; i++) {
    const TlTokenizerTensor *tensor = g_ptr_array_index (self->tensors, i);
    if (strcmp (tensor->name, "tokenizer.json") == 0)
      return tensor->data;
  }
  return NULL;
}

TlTokenizerParts *
tl_tokenizer_to_parts (TlTokenizer *self, guint n_pieces, const char *name, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (TlTokenizerParts) parts = g_new0 (TlTokenizerParts, 1);
  Export e = { .self = self, .name = name, .error = error,
    .n_pieces = MAX (n_pieces, tl_tokenizer_get_vocab_size (self)) };
  GBytes *json = find_json (self);
  parts->name = name;
  if (!json || !json_parser_load_from_data (parser, g_bytes_get_data (json, NULL), g_bytes_get_size (json), NULL)) {
    refuse (&e, "original tokenizer.json is missing and its compiled form");
    return NULL;
  }
  e.root = json_node_get_object (json_parser_get_root (parser));
  e.model = object_of (e.root, "model");
  JsonObject *vocab = object_of (e.model, "vocab");
  gboolean byte_level = tl_pretokenizer_is_byte_level (self->pretokenizer);
  if (self->model.unigram || !vocab)
    refuse (&e, "model (not BPE)");
  else if ((byte_level ? read_byte_level : read_meta) (&e, parts)) {
    read_pieces (&e, parts);
    if (read_merges (&e, parts) && read_ends (&e, parts))
      return g_steal_pointer (&parts);
  }
  return NULL;
}

void
tl_tokenizer_parts_free (TlTokenizerParts *parts)
{
  g_strfreev ((char **) parts->pieces);
  g_strfreev ((char **) parts->merges);
  g_free ((gpointer) parts->types);
  g_free ((gpointer) parts->scores);
  g_free ((gpointer) parts->chat_template);
  g_free (parts);
}
