/* engine/text/tl-tokenizer-parts.c — writes a vocabulary's loose parts as a tokenizer.json and compiles that.
 *
 * One way to build a tokenizer, so one place that can be wrong. A pre-tokenizer's name is a row of `pres`.
 */
#include "text/tl-tokenizer-parts.h"

#include "text/tl-characters.h"
#include "text/tl-tokenizer-private.h"

#include <string.h>

#define GPT2 "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define WORDS(digits) "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASES(digits, tail) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" \
    tail "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SHORT_FORMS "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define FALCON "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"

/* the names are those of the GGUF metadata; up to four splits, one after the other */
static const struct
{
  const char *names;            /* separated by spaces */
  gboolean ignore_merges, nfc;
  const char *splits[4];
} pres[] = {
  { "gpt-2 gpt2 olmo phi-2 mpt jais trillion", FALSE, FALSE, { GPT2 } },
  { "smollm starcoder refact command-r codeshell exaone minerva-7b", FALSE, FALSE, { "\\p{N}", GPT2 } },
  { "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral", TRUE, FALSE, { WORDS ("\\p{N}{1,3}") } },
  { "dbrx smaug-bpe", FALSE, FALSE, { WORDS ("\\p{N}{1,3}") } },
  { "qwen2 deepseek-r1-qwen megrez", FALSE, TRUE, { WORDS ("\\p{N}") } },
  { "stablelm2 hunyuan solar-open", FALSE, FALSE, { WORDS ("\\p{N}") } },
  { "tekken", TRUE, FALSE, { CASES ("\\p{N}", "") } },
  { "gpt-4o llama4", FALSE, FALSE, { CASES ("\\p{N}{1,3}", SHORT_FORMS) } },
  { "falcon default", FALSE, FALSE, { FALCON } },
};

static int
find_pre (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (pres); i++) {
    g_auto (GStrv) names = g_strsplit (pres[i].names, " ", -1);
    if (g_strv_contains ((const char *const *) names, name))
      return i;
  }
  return -1;
}

const char *
tl_tokenizer_pre_name (const char *const *splits, gboolean ignore_merges, gboolean nfc)
{
  for (guint i = 0; i < G_N_ELEMENTS (pres); i++) {
    const char *row[G_N_ELEMENTS (pres[i].splits) + 1] = { NULL };
    memcpy (row, pres[i].splits, sizeof pres[i].splits);
    if (pres[i].ignore_merges == ignore_merges && pres[i].nfc == nfc && g_strv_equal (row, splits)) {
      g_auto (GStrv) names = g_strsplit (pres[i].names, " ", 2);
      return g_intern_string (names[0]);
    }
  }
  return NULL;
}

const char *
tl_tokenizer_gpt2_split (void)
{
  return GPT2;
}

static gboolean
check_parts (const TlTokenizerParts *parts, GError **error)
{
  gboolean score_model = g_strcmp0 (parts->model, "llama") == 0;
  gint32 ids[] = { parts->bos, parts->eos, parts->unk };
  if (!score_model && g_strcmp0 (parts->model, "gpt2") != 0)
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: tokenizer model '%s' is not supported; gpt2 and "
        "llama are", parts->name, parts->model ? parts->model : "(none)");
  else if (!score_model && find_pre (parts->pre ? parts->pre : "default") < 0)
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: pre-tokenizer '%s' is not supported; convert from "
        "the model's tokenizer.json", parts->name, parts->pre);
  else if (parts->n_pieces < 1 || parts->n_pieces > (1 << 24) || (score_model && !parts->scores))
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: the tokenizer has no pieces, too many, or no scores",
        parts->name);
  else {
    for (gsize i = 0; i < parts->n_pieces; i++)
      if (!g_utf8_validate (parts->pieces[i], -1, NULL)) {
        g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: token %" G_GSIZE_FORMAT " is not UTF-8",
            parts->name, i);
        return FALSE;
      }
    for (guint i = 0; i < G_N_ELEMENTS (ids); i++)
      if (ids[i] < -1 || ids[i] >= (gint64) parts->n_pieces) {
        g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: special token id %d is outside the vocabulary",
            parts->name, ids[i]);
        return FALSE;
      }
    return TRUE;
  }
  return FALSE;
}

static gboolean
is_added (const TlTokenizerParts *parts, gsize id)
{
  gint32 type = parts->types ? parts->types[id] : TL_PIECE_NORMAL;
  return type == TL_PIECE_UNKNOWN || type == TL_PIECE_CONTROL || type == TL_PIECE_USER_DEFINED;
}

static void
write_added (const TlTokenizerParts *parts, GString *out)
{
  const char *comma = "";
  g_string_append (out, "\"added_tokens\":[");
  for (gsize i = 0; i < parts->n_pieces; i++) {
    gboolean named = (gint64) i == parts->bos || (gint64) i == parts->eos;
    if ((!is_added (parts, i) && !named) || !*parts->pieces[i])
      continue;
    gboolean special = named || parts->types[i] != TL_PIECE_USER_DEFINED;
    g_string_append_printf (out, "%s{\"id\":%" G_GSIZE_FORMAT ",\"normalized\":false,\"special\":%s,\"content\":", comma, i,
        special ? "true" : "false");
    tl_json_append_quoted (out, parts->pieces[i], -1);
    g_string_append_c (out, '}');
    comma = ",";
  }
  g_string_append (out, "],");
}

static void
write_template (const TlTokenizerParts *parts, GString *out)
{
  gint32 ids[] = { parts->add_bos ? parts->bos : -1, parts->add_eos ? parts->eos : -1 };
  if (ids[0] < 0 && ids[1] < 0)
    return;
  g_string_append (out, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
  if (ids[0] >= 0)
    g_string_append (out, "{\"SpecialToken\":{\"id\":\"0\"}},");
  g_string_append (out, "{\"Sequence\":{\"id\":\"A\"}}");
  if (ids[1] >= 0)
    g_string_append (out, ",{\"SpecialToken\":{\"id\":\"1\"}}");
  g_string_append_printf (out, "],\"special_tokens\":{\"0\":{\"ids\":[%d]},\"1\":{\"ids\":[%d]}}},", ids[0], ids[1]);
}

static void
write_byte_level (const TlTokenizerParts *parts, GString *out)
{
  int row = find_pre (parts->pre ? parts->pre : "default");
  if (pres[row].nfc)
    g_string_append (out, "\"normalizer\":{\"type\":\"NFC\"},");
  g_string_append (out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
  for (guint i = 0; i < G_N_ELEMENTS (pres[row].splits) && pres[row].splits[i]; i++) {
    g_string_append (out, "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":");
    tl_json_append_quoted (out, pres[row].splits[i], -1);
    g_string_append (out, "}},");
  }
  g_string_append (out, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
      "\"decoder\":{\"type\":\"ByteLevel\"},");
}

static void
write_meta (const TlTokenizerParts *parts, GString *out)
{
  const char *replace = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" TL_META "\"}";
  g_string_append_printf (out, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s%s]},",
      parts->no_space_prefix ? "" : "{\"type\":\"Prepend\",\"prepend\":\"" TL_META "\"},", replace);
  g_string_append (out, "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\""
      TL_META "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
  if (!parts->no_space_prefix)
    g_string_append (out, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
  g_string_append (out, "]},");
}

typedef struct
{
  float score;
  guint32 left, right;          /* ids, the order among merges of one piece */
  guint32 id;
} ScoredMerge;

static gint
by_score (gconstpointer a, gconstpointer b)
{
  const ScoredMerge *x = a, *y = b;
  if (x->score != y->score)
    return x->score > y->score ? -1 : 1;
  if (x->id != y->id)
    return x->id < y->id ? -1 : 1;
  if (x->left != y->left)
    return x->left < y->left ? -1 : 1;
  return x->right < y->right ? -1 : x->right > y->right;
}

/* SentencePiece merges any two neighbours whose text is a piece, best score first */
static GArray *
merges_of_scores (const TlTokenizerParts *parts)
{
  GArray *merges = g_array_new (FALSE, FALSE, sizeof (ScoredMerge));
  g_autoptr (GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  for (gsize i = 0; i < parts->n_pieces; i++)
    if (!is_added (parts, i))
      g_hash_table_insert (ids, (gpointer) parts->pieces[i], GUINT_TO_POINTER (i + 1));
  for (gsize i = 0; i < parts->n_pieces; i++) {
    const char *piece = parts->pieces[i];
    gint32 type = parts->types ? parts->types[i] : TL_PIECE_NORMAL;
    for (const char *p = piece; type == TL_PIECE_NORMAL && *p && strlen (piece) < 512; p = g_utf8_next_char (p)) {
      if (p == piece)
        continue;
      g_autofree char *head = g_strndup (piece, p - piece);
      guint left = GPOINTER_TO_UINT (g_hash_table_lookup (ids, head));
      guint right = GPOINTER_TO_UINT (g_hash_table_lookup (ids, p));
      ScoredMerge merge = { parts->scores[i], left - 1, right - 1, i };
      if (left && right)
        g_array_append_val (merges, merge);
    }
  }
  g_array_sort (merges, by_score);
  return merges;
}

static void
write_merges (const TlTokenizerParts *parts, GString *out)
{
  g_string_append (out, "\"merges\":[");
  if (parts->scores) {
    g_autoptr (GArray) merges = merges_of_scores (parts);
    for (guint i = 0; i < merges->len; i++) {
      const ScoredMerge *merge = &g_array_index (merges, ScoredMerge, i);
      g_string_append (out, i ? ",[" : "[");
      tl_json_append_quoted (out, parts->pieces[merge->left], -1);
      g_string_append_c (out, ',');
      tl_json_append_quoted (out, parts->pieces[merge->right], -1);
      g_string_append_c (out, ']');
    }
  }
  for (gsize i = 0; !parts->scores && i < parts->n_merges; i++) {
    if (i)
      g_string_append_c (out, ',');
    tl_json_append_quoted (out, parts->merges[i], -1);
  }
  g_string_append (out, "]}}");
}

static void
write_model (const TlTokenizerParts *parts, gboolean score_model, GString *out)
{
  gboolean ignore = !score_model && pres[find_pre (parts->pre ? parts->pre : "default")].ignore_merges;
  g_string_append_printf (out, "\"model\":{\"type\":\"BPE\",\"fuse_unk\":%s,\"byte_fallback\":%s,\"ignore_merges\":%s,",
      score_model ? "true" : "false", score_model ? "true" : "false", ignore ? "true" : "false");
  if (score_model && parts->unk >= 0) {
    g_string_append (out, "\"unk_token\":");
    tl_json_append_quoted (out, parts->pieces[parts->unk], -1);
    g_string_append_c (out, ',');
  }
  g_string_append (out, "\"vocab\":{");
  for (gsize i = 0; i < parts->n_pieces; i++) {
    if (i)
      g_string_append_c (out, ',');
    tl_json_append_quoted (out, parts->pieces[i], -1);
    g_string_append_printf (out, ":%" G_GSIZE_FORMAT, i);
  }
  g_string_append (out, "},");
  write_merges (parts, out);
}

/* makes a tokenizer from GGUF metadata. Errors: TL_ERROR_UNSUPPORTED naming model or pre-tokenizer, TL_ERROR_BAD_FILE */
TlTokenizer *
tl_tokenizer_new_from_vocabulary (const TlTokenizerParts *parts, GError **error)
{
  if (!check_parts (parts, error))
    return NULL;
  gboolean score_model = strcmp (parts->model, "llama") == 0;
  GString *json = g_string_new ("{");
  write_added (parts, json);
  write_template (parts, json);
  (score_model ? write_meta : write_byte_level) (parts, json);
  TlTokenizerParts model = *parts;
  if (!score_model)
    model.scores = NULL;
  write_model (&model, score_model, json);
  g_autoptr (GBytes) bytes = g_string_free_to_bytes (json);
  g_autoptr (TlTokenizer) plain = tl_tokenizer_new_from_json (bytes, parts->name, error);
  if (!plain)
    return NULL;

  gsize n_guessed;
  const gint32 *guessed = tl_tokenizer_get_eos (plain, &n_guessed);
  g_autoptr (GArray) eos = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (parts->eos >= 0)
    g_array_append_val (eos, parts->eos);
  for (gsize i = 0; i < n_guessed; i++)
    if (guessed[i] != parts->eos)
      g_array_append_val (eos, guessed[i]);
  TlTokenizerSettings settings = { parts->bos, (const gint32 *) eos->data, eos->len, parts->chat_template };
  return tl_tokenizer_with_settings (plain, &settings, error);
}

static GBytes *
config_with (TlTokenizer *self, const TlTokenizerSettings *settings, const char *text, gsize size, GError **error)
{
  g_autoptr (TlJsonTree) tree = tl_json_tree_new (text, size, "tokenizer.config", error);
  if (!tree)
    return NULL;
  GString *out = g_string_new (NULL);
  g_string_append_printf (out, "{\"bos\":%d,\"eos\":[", settings->bos);
  for (gsize i = 0; i < settings->n_eos; i++)
    g_string_append_printf (out, "%s%d", i ? "," : "", settings->eos[i]);
  g_string_append_c (out, ']');
  if (settings->chat_template) {
    g_string_append (out, ",\"chat_template\":");
    tl_json_append_quoted (out, settings->chat_template, -1);
  }
  guint32 child = tl_json_first (tree, 0);
  for (guint32 i = 0; i < tl_json_node (tree, 0)->count; i++) {
    g_autofree char *key = tl_json_dup_key (tree, child, NULL);
    if (strcmp (key, "bos") != 0 && strcmp (key, "eos") != 0 && strcmp (key, "chat_template") != 0) {
      g_string_append_printf (out, ",\"%s\":", key);
      tl_json_append_raw (tree, child, out);
    }
    child = tl_json_node (tree, child)->next;
  }
  g_string_append_c (out, '}');
  return g_string_free_to_bytes (out);
}

/* the same tokenizer with other begin, end and template; the tables are shared.
 * Errors: TL_ERROR_BAD_FILE for ids outside the vocabulary or a template that is not UTF-8 */
TlTokenizer *
tl_tokenizer_with_settings (TlTokenizer *self, const TlTokenizerSettings *settings, GError **error)
{
  g_autoptr (GPtrArray) tensors = tl_tokenizer_tensor_list_new ();
  for (guint i = 0; i < self->tensors->len; i++) {
    const TlTokenizerTensor *tensor = g_ptr_array_index (self->tensors, i);
    GBytes *data = NULL;
    if (strcmp (tensor->name, "tokenizer.config") == 0) {
      gsize size;
      const char *text = g_bytes_get_data (tensor->data, &size);
      if (!(data = config_with (self, settings, text, size, error)))
        return NULL;
    }
    tl_tokenizer_tensor_add (tensors, tensor->name, tensor->is_i32, data ? data : g_bytes_ref (tensor->data));
  }
  return tl_tokenizer_assemble (g_steal_pointer (&tensors), "tokenizer settings", error);
}
