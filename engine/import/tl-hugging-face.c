/* import/tl-hugging-face.c — a folder of config.json, safetensors and tokenizer files as a source of slots.
 *
 * Tensor names are translated from the canonical ones by a table per naming scheme. Tensors are read by position, so that a
 * file changing underneath gives an error, not a crash. Only the files named here are looked at.
 */
#include <string.h>

#include "import/tl-config.h"
#include "import/tl-import.h"
#include "import/tl-unpack.h"
#include "model/tl-file.h"
#include "model/tl-json.h"

#define MAX_CONFIG (16u << 20)

typedef struct { TlCheckpoint *header; TlFile *file; } Shard;

typedef struct
{
  TlImportSource source;
  TlNames names;
  TlQuantised quantised;
  char *folder, *name;
  GPtrArray *shards;
} Folder;

typedef struct { const char *canonical, *foreign; } Name;

static const Name llama_names[] = {
  { "embed.weight", "model.embed_tokens.weight" }, { "head.weight", "lm_head.weight" },
  { "final_norm.weight", "model.norm.weight" }, { "attn_norm.weight", "input_layernorm.weight" },
  { "mlp_norm.weight", "post_attention_layernorm.weight" }, { "attn.q_norm.weight", "self_attn.q_norm.weight" },
  { "attn.k_norm.weight", "self_attn.k_norm.weight" }, { "attn.q.", "self_attn.q_proj." },
  { "attn.k.", "self_attn.k_proj." }, { "attn.v.", "self_attn.v_proj." }, { "attn.o.", "self_attn.o_proj." },
  { "mlp.gate.", "mlp.gate_proj." }, { "mlp.up.", "mlp.up_proj." }, { "mlp.down.", "mlp.down_proj." }, { NULL, NULL },
};
static const Name olmo2_names[] = {
  { "attn_out_norm.weight", "post_attention_layernorm.weight" },
  { "mlp_out_norm.weight", "post_feedforward_layernorm.weight" }, { NULL, NULL },
};
static const Name ouro_names[] = {
  { "attn_out_norm.weight", "input_layernorm_2.weight" },
  { "mlp_out_norm.weight", "post_attention_layernorm_2.weight" },
  { "exit_gate.weight", "model.early_exit_gate.weight" }, { "exit_gate.bias", "model.early_exit_gate.bias" },
  { NULL, NULL },
};
static const Name huginn_names[] = {
  { "attn_norm.weight", "norm_1.weight" }, { "attn_out_norm.weight", "norm_2.weight" },
  { "mlp_norm.weight", "norm_3.weight" }, { "mlp_out_norm.weight", "norm_4.weight" }, { NULL, NULL },
};
static const Name retrofit_llama_names[] = {
  { "attn_norm.weight", "norm_1.weight" }, { "mlp_norm.weight", "norm_2.weight" }, { NULL, NULL },
};
static const Name retrofit_olmo_names[] = {
  { "attn_out_norm.weight", "norm_1.weight" }, { "mlp_out_norm.weight", "norm_2.weight" },
  { "attn.q_norm.weight", "attn.q_norm.weight" }, { "attn.k_norm.weight", "attn.k_norm.weight" }, { NULL, NULL },
};
/* what Huginn's layout calls the rest; q, k, v and gate, up are rows of one tensor each */
static const Name raven_names[] = {
  { "embed.weight", "transformer.wte.weight" }, { "head.weight", "lm_head.weight" },
  { "final_norm.weight", "transformer.ln_f.weight" }, { "inject.weight", "transformer.adapter.weight" },
  { "attn.qk_bias", "attn.qk_bias" }, { "attn.q.", "attn.Wqkv." }, { "attn.k.", "attn.Wqkv." },
  { "attn.v.", "attn.Wqkv." }, { "attn.o.", "attn.proj." }, { "mlp.gate.", "mlp.fc." }, { "mlp.up.", "mlp.fc." },
  { "mlp.down.", "mlp.proj." }, { NULL, NULL },
};

/* by TlNames: the family's own names, those of its layout, and what stands before a block's */
static const struct { const Name *own, *layout; const char *blocks[TL_N_STACKS]; } schemes[] = {
  [TL_NAMES_LLAMA] = { NULL, llama_names, { NULL, "model.layers", NULL } },
  [TL_NAMES_OLMO2] = { olmo2_names, llama_names, { NULL, "model.layers", NULL } },
  [TL_NAMES_OURO] = { ouro_names, llama_names, { NULL, "model.layers", NULL } },
  [TL_NAMES_CANONICAL] = { NULL, NULL, { "pre", "loop", "coda" } },
  [TL_NAMES_HUGINN] = { huginn_names, raven_names,
      { "transformer.prelude", "transformer.core_block", "transformer.coda" } },
  [TL_NAMES_RETROFIT_LLAMA] = { retrofit_llama_names, raven_names,
      { "transformer.prelude", "transformer.core_block", "transformer.coda" } },
  [TL_NAMES_RETROFIT_OLMO] = { retrofit_olmo_names, raven_names,
      { "transformer.prelude", "transformer.core_block", "transformer.coda" } },
};

/* an entry ending in '.' translates every name that begins with it */
static char *
translate (const Name *names, const char *canonical)
{
  for (; names && names->canonical; names++)
    {
      gsize n = strlen (names->canonical);
      if (names->canonical[n - 1] == '.' && strncmp (canonical, names->canonical, n) == 0)
        return g_strconcat (names->foreign, canonical + n, NULL);
      if (g_str_equal (canonical, names->canonical))
        return g_strdup (names->foreign);
    }
  return NULL;
}

/* the name without its block's */
static const char *
tail_of (const TlWeightSlot *slot)
{
  return slot->stack < 0 ? slot->name : strchr (strchr (slot->name, '.') + 1, '.') + 1;
}

static char *
foreign_name (Folder *f, const TlWeightSlot *slot)
{
  if (f->names == TL_NAMES_CANONICAL)
    return g_strdup (slot->name);
  const char *tail = tail_of (slot);
  g_autofree char *name = translate (schemes[f->names].own, tail);
  if (!name)
    name = translate (schemes[f->names].layout, tail);
  if (!name)
    return g_strdup (slot->name);
  return slot->stack < 0 ? g_steal_pointer (&name)
                         : g_strdup_printf ("%s.%u.%s", schemes[f->names].blocks[slot->stack], slot->block, name);
}

/* Where the slot's rows begin in the foreign tensor, and how many rows that has in all. */
static void
place_in_fused (Folder *f, const TlWeightSlot *slot, guint *first, guint *all)
{
  const TlDescriptor *d = f->source.descriptor;
  const char *tail = tail_of (slot);
  guint q = d->n_heads * d->head_dim, kv = d->n_kv_heads * d->head_dim;
  const struct { const char *name; guint first, all; } parts[] = {
    { "attn.q.weight", 0, q + 2 * kv }, { "attn.k.weight", q, q + 2 * kv }, { "attn.v.weight", q + kv, q + 2 * kv },
    { "mlp.gate.weight", 0, 2 * d->d_ff }, { "mlp.up.weight", d->d_ff, 2 * d->d_ff },
  };

  *first = 0;
  *all = slot->rows;
  for (guint i = 0; schemes[f->names].layout == raven_names && i < G_N_ELEMENTS (parts); i++)
    if (g_str_equal (tail, parts[i].name))
      {
        *first = parts[i].first;
        *all = parts[i].all;
      }
}

static const TlTensorView *
find_named (Folder *f, const char *name, Shard **shard)
{
  for (guint i = 0; i < f->shards->len; i++)
    {
      *shard = g_ptr_array_index (f->shards, i);
      const TlTensorView *view = tl_checkpoint_find ((*shard)->header, name);
      if (view)
        return view;
    }
  return NULL;
}

static const TlTensorView *
find (Folder *f, const TlWeightSlot *slot, Shard **shard, char **name)
{
  *name = foreign_name (f, slot);
  return find_named (f, *name, shard);
}

static TlFormat
format_of (const char *dtype)
{
  return g_str_equal (dtype, "F16") ? TL_F16 : g_str_equal (dtype, "BF16") ? TL_BF16 : TL_F32;
}

/* --- packed matrices --- */

/* the name without ".weight" when the slot's matrix is packed, else NULL */
static char *
packed_stem (Folder *f, const TlWeightSlot *slot)
{
  Shard *shard;
  if (f->quantised.packing == TL_PACKING_NONE || !slot->is_matrix)
    return NULL;
  g_autofree char *stem = foreign_name (f, slot);
  if (!g_str_has_suffix (stem, ".weight"))
    return NULL;
  stem[strlen (stem) - strlen (".weight")] = '\0';
  g_autofree char *part = g_strconcat (stem, tl_packed_main_part (f->quantised.packing), NULL);
  return find_named (f, part, &shard) ? g_steal_pointer (&stem) : NULL;
}

static guint8 *
read_part (const char *name, const char **dtype, gsize dims[2], gpointer data, GError **error)
{
  Shard *shard;
  const TlTensorView *view = find_named (data, name, &shard);
  if (!view)
    return NULL;
  *dtype = view->dtype;
  for (guint i = 0; i < MIN (view->n_dims, 2); i++)
    dims[i] = view->n_dims <= 2 ? view->dims[i] : 0;
  g_autofree guint8 *bytes = g_malloc (MAX (view->size, 1));
  return tl_file_read (shard->file, view->offset, bytes, view->size, error) ? g_steal_pointer (&bytes) : NULL;
}

static TlUnpacked *
unpack (Folder *f, const TlWeightSlot *slot, const char *stem, GError **error)
{
  return tl_packed_read (&f->quantised, stem, slot->rows, slot->cols, f->name, read_part, f, error);
}

static gboolean
folder_stored (TlImportSource *source, const TlWeightSlot *slot, TlMatrix *shape)
{
  g_autofree char *stem = packed_stem ((Folder *) source, slot);
  g_autoptr (TlUnpacked) u = stem ? unpack ((Folder *) source, slot, stem, NULL) : NULL;
  if (!u || u->groups)          /* inputs out of order have no lossless form: they become floats */
    return FALSE;
  *shape = u->m;
  shape->data = shape->scale = NULL;
  shape->zero = NULL;
  return TRUE;
}

static gboolean
folder_read_stored (TlImportSource *source, const TlWeightSlot *slot, TlMatrix *m, GError **error)
{
  g_autofree char *stem = packed_stem ((Folder *) source, slot);
  g_autoptr (TlUnpacked) u = unpack ((Folder *) source, slot, stem, error);
  if (!u)
    return FALSE;
  gsize groups = (gsize) m->rows * tl_matrix_n_groups (m);
  memcpy ((gpointer) m->data, u->m.data, m->rows * tl_matrix_row_bytes (m));
  memcpy ((gpointer) m->scale, u->m.scale, groups * (m->scale_format == TL_F32 ? 4 : 2));
  if (m->offset == TL_OFFSET_ZERO)
    memcpy ((gpointer) m->zero, u->m.zero, groups);
  return TRUE;
}

static const char *
folder_origin (TlImportSource *source, const TlWeightSlot *slot)
{
  static const char *const names[] = { NULL, "GPTQ", "GPTQ v2", "AWQ", "compressed-tensors int4", "compressed-tensors int8" };
  Folder *f = (Folder *) source;
  g_autofree char *stem = packed_stem (f, slot);
  return stem ? names[f->quantised.packing] : NULL;
}

/* the float tensor of a slot that is not packed, its shape checked; *first: the slot's first row in it, *all: its rows */
static const TlTensorView *
find_fitting (Folder *f, const TlWeightSlot *slot, Shard **shard, guint *first, guint *all, GError **error)
{
  g_autofree char *name = NULL;
  const TlTensorView *view = find (f, slot, shard, &name);
  if (!view)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' is missing", f->name, name);
      return NULL;
    }
  gboolean flat = !slot->is_matrix && view->n_dims >= 1;
  gsize elements = 1, wanted = (gsize) slot->rows * slot->cols;
  place_in_fused (f, slot, first, all);
  for (guint i = 0; i < view->n_dims; i++)
    elements *= view->dims[i];
  gboolean fits = flat ? elements == wanted
      : view->n_dims == 2 && view->dims[0] == *all && view->dims[1] == slot->cols;
  if (fits && (g_str_equal (view->dtype, "F32") || g_str_has_suffix (view->dtype, "F16")))
    return view;
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' is no float tensor of shape [%u, %u]",
      f->name, name, *all, slot->cols);
  return NULL;
}

static gboolean
folder_read (TlImportSource *source, const TlWeightSlot *slot, float *out, GError **error)
{
  Folder *f = (Folder *) source;
  Shard *shard;
  guint first, all;
  g_autofree char *stem = packed_stem (f, slot);
  if (stem)
    {
      g_autoptr (TlUnpacked) u = unpack (f, slot, stem, error);
      for (guint r = 0; u && r < slot->rows; r++)
        tl_unpacked_row_to_f32 (u, r, out + (gsize) r * slot->cols);
      return u != NULL;
    }
  const TlTensorView *view = find_fitting (f, slot, &shard, &first, &all, error);
  if (!view)
    return FALSE;
  gsize row_bytes = view->size / all;
  g_autofree guint8 *bytes = g_malloc (MAX (row_bytes * slot->rows, 1));
  if (!tl_file_read (shard->file, view->offset + first * row_bytes, bytes, row_bytes * slot->rows, error))
    return FALSE;
  TlMatrix m = { .format = format_of (view->dtype), .rows = slot->rows, .cols = slot->cols, .data = bytes };
  for (guint r = 0; r < slot->rows; r++)
    tl_matrix_row_to_f32 (&m, r, out + (gsize) r * slot->cols);
  return TRUE;
}

static TlFormat
folder_format (TlImportSource *source, const TlWeightSlot *slot)
{
  Shard *shard;
  g_autofree char *name = NULL;
  const TlTensorView *view = find ((Folder *) source, slot, &shard, &name);
  return view ? format_of (view->dtype) : TL_F32;
}

static void
shard_free (gpointer data)
{
  Shard *shard = data;
  g_clear_pointer (&shard->header, tl_checkpoint_unref);
  g_clear_pointer (&shard->file, tl_file_free);
  g_free (shard);
}

static void
folder_free (TlImportSource *source)
{
  Folder *f = (Folder *) source;
  g_clear_pointer (&source->descriptor, tl_descriptor_unref);
  g_clear_object (&source->tokenizer);
  g_ptr_array_unref (f->shards);
  g_free (f->folder);
  g_free (f->name);
  g_free (f);
}

static gboolean
add_shard (Folder *f, const char *file, GError **error)
{
  g_autofree char *path = g_build_filename (f->folder, file, NULL);
  Shard *shard = g_new0 (Shard, 1);
  g_ptr_array_add (f->shards, shard);
  shard->header = tl_checkpoint_open_foreign (path, error);
  shard->file = shard->header ? tl_file_open (path, error) : NULL;
  return shard->file != NULL;
}

/* a JSON object from a small file; `missing` is set instead of an error when there is no such file */
static JsonNode *
load_json (Folder *f, const char *file, gboolean *missing, GError **error)
{
  g_autofree char *path = g_build_filename (f->folder, file, NULL);
  g_autofree char *where = g_strdup_printf ("%s: %s", f->name, file);
  if (missing && (*missing = !g_file_test (path, G_FILE_TEST_EXISTS)))
    return NULL;
  g_autoptr (GBytes) bytes = tl_file_load (path, MAX_CONFIG, error);
  return bytes ? tl_json_parse (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), 1 << 20, where, error) : NULL;
}

/* the shards that an index names, each once, none outside the folder */
static gboolean
open_shards (Folder *f, GError **error)
{
  gboolean missing;
  g_autoptr (JsonNode) index = load_json (f, "model.safetensors.index.json", &missing, error);
  if (missing)
    return add_shard (f, "model.safetensors", error);
  JsonNode *map = index ? json_object_get_member (json_node_get_object (index), "weight_map") : NULL;
  if (index && (!map || !JSON_NODE_HOLDS_OBJECT (map)))
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: model.safetensors.index.json has no weight_map", f->name);
  if (!map || !JSON_NODE_HOLDS_OBJECT (map))
    return FALSE;

  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GList) files = json_object_get_values (json_node_get_object (map));
  for (GList *l = files; l; l = l->next)
    {
      const char *file = JSON_NODE_HOLDS_VALUE ((JsonNode *) l->data) ? json_node_get_string (l->data) : NULL;
      if (!file || strchr (file, '/') || file[0] == '.')
        {
          g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: model.safetensors.index.json names a file outside "
              "the folder", f->name);
          return FALSE;
        }
      if (g_hash_table_add (seen, (gpointer) file) && !add_shard (f, file, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
has_tensor (const char *name, gpointer data)
{
  Folder *f = data;
  if (f->shards->len == 0 && !open_shards (f, NULL))
    g_ptr_array_set_size (f->shards, 0);
  for (guint i = 0; i < f->shards->len; i++)
    if (tl_checkpoint_find (((Shard *) g_ptr_array_index (f->shards, i))->header, name))
      return TRUE;
  return FALSE;
}

/* tables and masks that families store but that are computed here, and the copy of a tied head */
static gboolean
may_be_left (Folder *f, const char *name)
{
  return g_str_has_suffix (name, "rotary_emb.inv_freq") || g_str_equal (name, "freqs_cis")
      || g_str_has_suffix (name, ".masked_bias")
      || (f->source.descriptor->tie_head && g_str_equal (name, "lm_head.weight"));
}

/* the part that holds a packed matrix's values has as many as the slot */
static gboolean
packed_fits (Folder *f, const TlWeightSlot *slot, const char *stem, GError **error)
{
  gboolean int8 = f->quantised.packing == TL_PACKING_INT8;
  g_autofree char *name = g_strconcat (stem, int8 ? ".weight" : tl_packed_main_part (f->quantised.packing), NULL);
  Shard *shard;
  const TlTensorView *view = find_named (f, name, &shard);
  if (view && view->size == (gsize) slot->rows * slot->cols / (int8 ? 1 : 2))
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' is missing or does not hold %u x %u values", f->name,
      name, slot->rows, slot->cols);
  return FALSE;
}

/* Every slot has its tensor, of the size that config.json claims (before anything of that size is allocated); a tensor that no
 * slot asks for means that the config does not tell the whole story. */
static gboolean
check_tensors (Folder *f, GError **error)
{
  g_autoptr (GPtrArray) slots = tl_weight_slots (f->source.descriptor, f->name, error);
  g_autoptr (GHashTable) wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; slots && i < slots->len; i++)
    {
      const TlWeightSlot *slot = slots->pdata[i];
      g_autofree char *stem = packed_stem (f, slot);
      Shard *shard;
      guint first, all;
      if (stem ? !packed_fits (f, slot, stem, error) : !find_fitting (f, slot, &shard, &first, &all, error))
        return FALSE;
      g_hash_table_add (wanted, foreign_name (f, slot));
      for (const char *const *part = tl_packed_parts; stem && *part; part++)
        g_hash_table_add (wanted, g_strconcat (stem, *part, NULL));
    }
  for (guint i = 0; slots && i < f->shards->len; i++)
    {
      TlCheckpoint *header = ((Shard *) g_ptr_array_index (f->shards, i))->header;
      for (guint k = 0; k < tl_checkpoint_n_tensors (header); k++)
        {
          const char *name = tl_checkpoint_tensor_at (header, k)->name;
          if (g_hash_table_contains (wanted, name) || may_be_left (f, name))
            continue;
          g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: tensor '%s' is not used by the model that "
              "config.json describes", f->name, name);
          return FALSE;
        }
    }
  return slots != NULL;
}

TlImportSource *
tl_hugging_face_open (const char *path, GError **error)
{
  Folder *f = g_new0 (Folder, 1);
  f->source.read = folder_read;
  f->source.format = folder_format;
  f->source.stored = folder_stored;
  f->source.read_stored = folder_read_stored;
  f->source.origin = folder_origin;
  f->source.free = folder_free;
  f->folder = g_strdup (path);
  f->name = g_path_get_basename (path);
  f->shards = g_ptr_array_new_with_free_func (shard_free);

  g_autoptr (JsonNode) root = load_json (f, "config.json", NULL, error);
  TlConfig config = { 0 };
  gboolean ok = root && tl_config_read (json_node_get_object (root), f->name, has_tensor, f, &config, error)
      && (f->shards->len > 0 || open_shards (f, error));
  f->source.descriptor = config.descriptor;
  f->names = config.names;
  f->quantised = config.quantised;
  if (ok && check_tensors (f, error)
      && tl_folder_tokenizer (path, f->name, json_node_get_object (root), &f->source.tokenizer, error))
    return &f->source;
  folder_free (&f->source);
  return NULL;
}
