/* import/tl-folder-tokenizer.c — the tokenizer of a Hugging Face folder with what its other files say about it.
 *
 * tokenizer.json gives the tokens; generation_config.json, config.json and tokenizer_config.json say what ends a text;
 * chat_template.jinja or tokenizer_config.json holds the template. Called by tl-hugging-face.c.
 */
#include "import/tl-import.h"
#include "model/tl-file.h"
#include "model/tl-json.h"
#include "text/tl-tokenizer-parts.h"

#define MAX_CONFIG (16u << 20)

static GBytes *
load (const char *folder, const char *file, gsize limit, GError **error)
{
  g_autofree char *path = g_build_filename (folder, file, NULL);
  return g_file_test (path, G_FILE_TEST_EXISTS) ? tl_file_load (path, limit, error) : NULL;
}

/* NULL without error when there is no such file */
static JsonNode *
load_json (const char *folder, const char *file, GError **error)
{
  g_autoptr (GBytes) bytes = load (folder, file, MAX_CONFIG, error);
  return bytes ? tl_json_parse (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), 1 << 20, file, error) : NULL;
}

static gboolean
is_id (JsonNode *node, TlTokenizer *tokenizer)
{
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64
      && json_node_get_int (node) >= 0 && json_node_get_int (node) < tl_tokenizer_get_vocab_size (tokenizer);
}

static void
add_end (GArray *ends, gint32 id)
{
  for (guint i = 0; i < ends->len; i++)
    if (g_array_index (ends, gint32, i) == id)
      return;
  if (id >= 0)
    g_array_append_val (ends, id);
}

/* `eos_token_id`: one id or several */
static void
add_ends (GArray *ends, JsonObject *object, TlTokenizer *tokenizer)
{
  JsonNode *node = object ? json_object_get_member (object, "eos_token_id") : NULL;
  if (is_id (node, tokenizer))
    add_end (ends, json_node_get_int (node));
  for (guint i = 0; node && JSON_NODE_HOLDS_ARRAY (node) && i < json_array_get_length (json_node_get_array (node)); i++)
    if (is_id (json_array_get_element (json_node_get_array (node), i), tokenizer))
      add_end (ends, json_node_get_int (json_array_get_element (json_node_get_array (node), i)));
}

static const char *
text_of (JsonNode *node)
{
  if (node && JSON_NODE_HOLDS_OBJECT (node))
    node = json_object_get_member (json_node_get_object (node), "content");
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING ? json_node_get_string (node)
                                                                                                : NULL;
}

gboolean
tl_folder_tokenizer (const char *folder, const char *name, JsonObject *config, TlTokenizer **out, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (GBytes) json = load (folder, "tokenizer.json", TL_MAX_TOKENIZER_JSON, &local);
  g_autoptr (TlTokenizer) plain = json ? tl_tokenizer_new_from_json (json, name, &local) : NULL;
  g_autoptr (JsonNode) settings = plain ? load_json (folder, "tokenizer_config.json", &local) : NULL;
  g_autoptr (JsonNode) generation = plain && !local ? load_json (folder, "generation_config.json", &local) : NULL;
  g_autoptr (GBytes) template = plain && !local ? load (folder, "chat_template.jinja", MAX_CONFIG, &local) : NULL;
  *out = NULL;
  if (local || !plain)
    {
      if (local)
        g_propagate_error (error, g_steal_pointer (&local));
      return !json && (!error || !*error);
    }

  JsonObject *s = settings ? json_node_get_object (settings) : NULL;
  g_autoptr (GArray) ends = g_array_new (FALSE, FALSE, sizeof (gint32));
  gsize n_guessed;
  const gint32 *guessed = tl_tokenizer_get_eos (plain, &n_guessed);
  const char *end = s ? text_of (json_object_get_member (s, "eos_token")) : NULL;
  JsonNode *bos = json_object_get_member (config, "bos_token_id");

  add_ends (ends, generation ? json_node_get_object (generation) : NULL, plain);
  add_ends (ends, config, plain);
  if (end)
    add_end (ends, tl_tokenizer_find (plain, end));
  for (gsize i = 0; i < n_guessed; i++)
    add_end (ends, guessed[i]);

  g_autofree char *jinja = template ? g_strndup (g_bytes_get_data (template, NULL), g_bytes_get_size (template))
      : s ? g_strdup (text_of (json_object_get_member (s, "chat_template"))) : NULL;
  TlTokenizerSettings all = { is_id (bos, plain) ? (gint32) json_node_get_int (bos) : tl_tokenizer_get_bos (plain),
    (const gint32 *) ends->data, ends->len, jinja };
  *out = tl_tokenizer_with_settings (plain, &all, error);
  return *out != NULL;
}
