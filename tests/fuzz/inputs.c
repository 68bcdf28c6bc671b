/* tests/fuzz/inputs.c — no input may crash, hang, leak or read outside its buffer: checkpoint files, tokenizer.json, GGUF files,
 * Hugging Face folders, saved prefixes.
 *
 * One entry of libFuzzer's form a target. Compiled with -DTL_LIBFUZZER and clang's -fsanitize=fuzzer it is a fuzzer of the
 * target named in $TL_FUZZ_TARGET; without, a driver that feeds each target its seed, cut off everywhere and with bytes
 * changed by a fixed generator ($TL_FUZZ_ROUNDS times, default 100). `fuzz-inputs --seeds FOLDER` writes the seeds for libFuzzer.
 */
#include <glib/gstdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "forward/tl-program.h"
#include "text/tl-tokenizer.h"
#include "tiny-model.h"
#include "tl-convert.h"
#include "tl-resume-handle.h"

#define TOKENIZER(normalizer) "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":5,\"content\":\"<|end|>\",\"single_word\":false," \
    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":" normalizer "," \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}," \
    "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"dropout\":null," \
    "\"unk_token\":null,\"byte_fallback\":false,\"vocab\":{\"a\":0,\"n\":1,\"z\":2,\"an\":3,\"anz\":4}," \
    "\"merges\":[\"a n\",[\"an\",\"z\"]]}}"

/* an error must be set exactly when nothing came back */
static void
assert_reported (gboolean ok, const GError *error)
{
  g_assert_cmpint (ok, ==, error == NULL);
  g_assert_true (ok || strlen (error->message) > 0);
}

static void
feed_checkpoint (GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_new_from_bytes (bytes, "fuzz.tinyloop", &error);
  assert_reported (checkpoint != NULL, error);
  if (!checkpoint)
    return;
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, &error);
  assert_reported (weights != NULL, error);
  if (!weights)
    return;
  g_autoptr (TlProgram) program = tl_program_new (weights, &error);
  assert_reported (program != NULL, error);
}

static void
feed_tokenizer (GBytes *bytes)
{
  static const char text[] = "Ein Bär\r\n tanzt   42 Mal \xff<|end|>\xf0\x9f\x90\xbb";
  g_autoptr (GError) error = NULL;
  g_autoptr (TlTokenizer) tokenizer = tl_tokenizer_new_from_json (bytes, "fuzz.json", &error);
  assert_reported (tokenizer != NULL, error);
  if (!tokenizer)
    return;
  g_autoptr (GArray) ids = tl_tokenizer_encode (tokenizer, text, strlen (text), TL_ENCODE_SPECIAL, &error);
  assert_reported (ids != NULL, error);
}

/* what the converter writes, the reader takes */
static void
convert (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *out = g_strconcat (path, ".tinyloop", NULL);
  gboolean ok = tl_convert_file (path, out, "none", 0, NULL, NULL, NULL, NULL, &error);
  assert_reported (ok, error);
  if (ok)
    {
      g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (out, &error);
      g_assert_no_error (error);
      g_assert_nonnull (checkpoint);
    }
  g_unlink (out);
}

static void
write_file (const char *path, gconstpointer data, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_file_set_contents (path, data, size, &error);
  g_assert_no_error (error);
}

static char *
new_folder (void)
{
  g_autoptr (GError) error = NULL;
  char *folder = g_dir_make_tmp ("fuzz-XXXXXX", &error);
  g_assert_no_error (error);
  return folder;
}

static void
feed_gguf (GBytes *bytes)
{
  g_autofree char *folder = new_folder (), *path = g_build_filename (folder, "model.gguf", NULL);
  write_file (path, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  convert (path);
  g_unlink (path);
  g_rmdir (folder);
}

/* an input is the folder's files one after the other, a NUL between */
static const char *const folder_files[] = { "config.json", "tokenizer.json", "model.safetensors" };

static char *
write_folder (GBytes *bytes)
{
  char *folder = new_folder ();
  gsize left;
  const char *at = g_bytes_get_data (bytes, &left);
  for (guint i = 0; i < G_N_ELEMENTS (folder_files); i++)
    {
      g_autofree char *path = g_build_filename (folder, folder_files[i], NULL);
      const char *end = i + 1 < G_N_ELEMENTS (folder_files) && left ? memchr (at, 0, left) : NULL;
      gsize size = end ? end - at : left;
      write_file (path, left ? at : "", size);
      at += size + (end != NULL);
      left -= size + (end != NULL);
    }
  return folder;
}

static void
remove_folder (const char *folder)
{
  for (guint i = 0; i < G_N_ELEMENTS (folder_files); i++)
    {
      g_autofree char *path = g_build_filename (folder, folder_files[i], NULL);
      g_unlink (path);
    }
  g_rmdir (folder);
}

static void
feed_folder (GBytes *bytes)
{
  g_autofree char *folder = write_folder (bytes);
  convert (folder);
  remove_folder (folder);
}

static const TinyModel tiny = { "tiny", TL_INT4, TL_OFFSET_MIN, TL_F16, 32, 32, 4, 2, 1, 32, 8, 16 };

static TlModel *
tiny_model (void)
{
  static TlModel *model;
  g_autoptr (GError) error = NULL;
  if (!model)
    {
      g_autofree char *path = tiny_model_write (&tiny);
      model = tl_model_new (path);
      tl_model_load (model, NULL, &error);
      g_assert_no_error (error);
      g_unlink (path);
    }
  return model;
}

static void
load_prefix (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = new_folder (), *path = g_build_filename (folder, "prefix", NULL);
  write_file (path, data, size);
  g_autoptr (TlResumeHandle) handle = tl_model_load_resume_handle (tiny_model (), path, &error);
  assert_reported (handle != NULL, error);
  g_unlink (path);
  g_rmdir (folder);
}

/* as it is, and with a checksum that is right, so that what stands behind it is reached */
static void
feed_prefix (GBytes *bytes)
{
  gsize size, n = 32;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  load_prefix (data, size);
  if (size < n)
    return;
  g_autofree guint8 *copy = g_memdup2 (data, size);
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  g_checksum_update (sum, copy, size - n);
  g_checksum_get_digest (sum, copy + size - n, &n);
  load_prefix (copy, size);
}

static GBytes *
prefix_seed (void)
{
  static const gint32 ids[] = { 1, 2, 3, 4, 5 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) prompt = g_bytes_new_static (ids, sizeof ids);
  g_autoptr (TlResumeHandle) handle = tl_model_build_resume_handle_bytes (tiny_model (), prompt, NULL, NULL, &error);
  g_assert_no_error (error);
  g_autofree char *folder = new_folder (), *path = g_build_filename (folder, "prefix", NULL);
  char *data;
  gsize size;
  tl_resume_handle_save (handle, path, &error);
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  g_unlink (path);
  g_assert_cmpint (g_rmdir (folder), ==, 0);    /* nothing else was written */
  return g_bytes_new_take (data, size);
}

static GBytes *
checkpoint_seed (void)
{
  g_autofree char *path = tiny_model_write (&tiny);
  char *data;
  gsize size;
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  g_unlink (path);
  return g_bytes_new_take (data, size);
}

static GBytes *
tokenizer_seed (void)
{
  static const char json[] = TOKENIZER ("{\"type\":\"NFC\"}");
  return g_bytes_new_static (json, sizeof json - 1);
}

typedef struct { const char *name, *dtype; guint rows, cols; } SeedTensor;        /* rows 0: a vector */

/* the three files of a folder; every value is one byte again and again, a small number in every dtype */
static GBytes *
folder_seed (const char *config, const SeedTensor *tensors, guint n)
{
  static const char tokenizer[] = TOKENIZER ("null");
  g_autoptr (GString) header = g_string_new ("{");
  gsize end = 0;
  for (guint i = 0; i < n; i++)
    {
      const SeedTensor *t = &tensors[i];
      g_autofree char *rows = t->rows ? g_strdup_printf ("%u,", t->rows) : g_strdup ("");
      gsize start = end;
      end += (gsize) MAX (t->rows, 1) * t->cols * (g_str_has_suffix (t->dtype, "32") ? 4 : 2);
      g_string_append_printf (header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s%u],\"data_offsets\":[%" G_GSIZE_FORMAT ",%"
          G_GSIZE_FORMAT "]}", i ? "," : "", t->name, t->dtype, rows, t->cols, start, end);
    }
  g_string_append_c (header, '}');
  GByteArray *all = g_byte_array_new ();
  guint64 length = GUINT64_TO_LE (header->len);
  g_byte_array_append (all, (const guint8 *) config, strlen (config) + 1);
  g_byte_array_append (all, (const guint8 *) tokenizer, sizeof tokenizer);
  g_byte_array_append (all, (const guint8 *) &length, 8);
  g_byte_array_append (all, (const guint8 *) header->str, header->len);
  g_byte_array_set_size (all, all->len + end);
  memset (all->data + all->len - end, 0x21, end);
  return g_byte_array_free_to_bytes (all);
}

#define SIZES "\"vocab_size\":8,\"hidden_size\":32,\"intermediate_size\":32,\"num_attention_heads\":2,\"num_key_value_heads\":1," \
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"tie_word_embeddings\":true"

/* one matrix packed as by GPTQ, the others floats of every size */
static GBytes *
packed_seed (void)
{
  static const SeedTensor tensors[] = {
    { "model.embed_tokens.weight", "F16", 8, 32 }, { "model.norm.weight", "F32", 0, 32 },
    { "model.layers.0.input_layernorm.weight", "BF16", 0, 32 }, { "model.layers.0.post_attention_layernorm.weight", "F32", 0, 32 },
    { "model.layers.0.self_attn.q_norm.weight", "F32", 0, 16 }, { "model.layers.0.self_attn.k_norm.weight", "F32", 0, 16 },
    { "model.layers.0.self_attn.q_proj.qweight", "I32", 4, 32 }, { "model.layers.0.self_attn.q_proj.qzeros", "I32", 1, 4 },
    { "model.layers.0.self_attn.q_proj.scales", "F16", 1, 32 }, { "model.layers.0.self_attn.k_proj.weight", "F32", 16, 32 },
    { "model.layers.0.self_attn.v_proj.weight", "BF16", 16, 32 }, { "model.layers.0.self_attn.o_proj.weight", "F16", 32, 32 },
    { "model.layers.0.mlp.gate_proj.weight", "F16", 32, 32 }, { "model.layers.0.mlp.up_proj.weight", "F16", 32, 32 },
    { "model.layers.0.mlp.down_proj.weight", "F16", 32, 32 },
  };
  return folder_seed ("{\"model_type\":\"qwen3\",\"num_hidden_layers\":1,\"head_dim\":16,\"layer_types\":[\"full_attention\"],"
      "\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32}," SIZES "}", tensors,
      G_N_ELEMENTS (tensors));
}

static GBytes *
looped_seed (void)
{
  static const SeedTensor tensors[] = {
    { "embed.weight", "F16", 8, 32 }, { "final_norm.weight", "F32", 0, 32 }, { "loop.0.attn_norm.weight", "F32", 0, 32 },
    { "loop.0.mlp_norm.weight", "F32", 0, 32 }, { "loop.0.attn.q.weight", "F16", 32, 32 }, { "loop.0.attn.k.weight", "F32", 16, 32 },
    { "loop.0.attn.v.weight", "BF16", 16, 32 }, { "loop.0.attn.o.weight", "F16", 32, 32 }, { "loop.0.mlp.gate.weight", "F16", 32, 32 },
    { "loop.0.mlp.up.weight", "F16", 32, 32 }, { "loop.0.mlp.down.weight", "F16", 32, 32 },
  };
  return folder_seed ("{\"model_type\":\"tinyloop-looped\",\"loop_layers\":1,\"default_loops\":2,\"trained_loops\":[1,2],"
      "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.0}," SIZES "}", tensors, G_N_ELEMENTS (tensors));
}

/* the folder above as the engine itself writes it */
static GBytes *
gguf_seed (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) source = packed_seed ();
  g_autofree char *folder = write_folder (source), *checkpoint = g_strconcat (folder, ".tinyloop", NULL);
  g_autofree char *path = g_strconcat (folder, ".gguf", NULL);
  char *data;
  gsize size;
  tl_convert_file (folder, checkpoint, "none", 0, NULL, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  tl_export_gguf (checkpoint, path, 0, TL_EXPORT_NONE, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  g_unlink (path);
  g_unlink (checkpoint);
  remove_folder (folder);
  return g_bytes_new_take (data, size);
}

static const struct { const char *name; void (*feed) (GBytes *); GBytes *(*seed) (void); } targets[] = {
  { "checkpoint", feed_checkpoint, checkpoint_seed }, { "tokenizer", feed_tokenizer, tokenizer_seed },
  { "prefix", feed_prefix, prefix_seed }, { "gguf", feed_gguf, gguf_seed }, { "packed-folder", feed_folder, packed_seed }, { "looped-folder", feed_folder, looped_seed },
};

static void
feed_copy (guint target, const guint8 *data, gsize size)
{
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);  /* a block of its own: what lies beyond it is not ours */
  targets[target].feed (bytes);
}

#ifdef TL_LIBFUZZER
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  guint target = 0;
  while (target + 1 < G_N_ELEMENTS (targets) && g_strcmp0 (g_getenv ("TL_FUZZ_TARGET"), targets[target].name) != 0)
    target++;
  feed_copy (target, data, size);
  return 0;
}
#else
static guint32
next (guint64 *state)
{
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return *state >> 33;
}

/* a few bytes of the text part replaced, doubled or removed */
static void
mutate (GByteArray *file, guint64 *state)
{
  static const char spice[] = "{}[]\",:0129-e.ntfU\\ \0\xff";
  guint n = 1 + next (state) % 4;
  for (guint i = 0; i < n && file->len > 8; i++)
    {
      guint at = next (state) % MIN (file->len, 6000), kind = next (state) % 4;
      if (kind == 0)
        file->data[at] = spice[next (state) % sizeof spice];
      else if (kind == 1)
        file->data[at] ^= 1u << next (state) % 8;
      else if (kind == 2)
        g_byte_array_remove_index (file, at);
      else
        {
          guint length = MIN (file->len - at, 1 + next (state) % 40);
          g_autofree guint8 *piece = g_memdup2 (file->data + at, length);
          g_byte_array_append (file, piece, length);
        }
    }
}

static void
a_changed_seed_is_read_or_refused (gconstpointer data)
{
  guint target = GPOINTER_TO_UINT (data);
  const char *rounds = g_getenv ("TL_FUZZ_ROUNDS");
  guint64 state = 1;
  gsize size;
  g_autoptr (GBytes) seed = targets[target].seed ();
  const guint8 *bytes = g_bytes_get_data (seed, &size);
  feed_copy (target, bytes, size);
  for (gsize cut = 0; cut < size; cut += 1 + size / 60)
    feed_copy (target, bytes, cut);
  for (guint64 i = rounds ? g_ascii_strtoull (rounds, NULL, 10) : 100; i-- > 0;)
    {
      g_autoptr (GByteArray) file = g_byte_array_sized_new (size + 256);
      g_byte_array_append (file, bytes, size);
      mutate (file, &state);
      feed_copy (target, file->data, file->len);
    }
}

static void
write_seeds (const char *folder)
{
  for (guint i = 0; i < G_N_ELEMENTS (targets); i++)
    {
      g_autofree char *path = g_build_filename (folder, targets[i].name, NULL);
      g_autoptr (GBytes) seed = targets[i].seed ();
      write_file (path, g_bytes_get_data (seed, NULL), g_bytes_get_size (seed));
    }
}

int
main (int argc, char **argv)
{
  if (argc == 3 && g_str_equal (argv[1], "--seeds"))
    {
      write_seeds (argv[2]);
      return 0;
    }
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (targets); i++)
    {
      g_autofree char *path = g_strdup_printf ("/fuzz/%s", targets[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), a_changed_seed_is_read_or_refused);
    }
  return g_test_run ();
}
#endif
