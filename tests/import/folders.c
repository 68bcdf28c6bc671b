/* tests/import/folders.c — Hugging Face folders to checkpoints: values bit for bit, quantised within half a step, refusals
 * by name.
 */
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "model/tl-weights.h"
#include "tl-convert.h"

typedef struct { char *folder, *out; } Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  f->folder = g_dir_make_tmp ("tinyloop-XXXXXX", &error);
  g_assert_no_error (error);
  f->out = g_build_filename (f->folder, "m.tinyloop", NULL);
}

static void
remove_folder (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name (dir)))
    {
      g_autofree char *file = g_build_filename (path, name, NULL);
      g_unlink (file);
    }
  g_rmdir (path);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  remove_folder (f->folder);
  g_free (f->folder);
  g_free (f->out);
}

static gboolean
convert (Fixture *f, const char *src, const char *quantize, guint group, GError **error)
{
  return tl_convert_file (src, f->out, quantize, group, NULL, NULL, NULL, NULL, error);
}

static TlWeights *
load (Fixture *f)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlCheckpoint) c = tl_checkpoint_open (f->out, &error);
  g_assert_no_error (error);
  g_assert_true (tl_checkpoint_verify (c, &error));
  TlWeights *w = tl_weights_new (c, &error);
  g_assert_no_error (error);
  return w;
}

/* the raw tensor `name` of a folder's only file */
static float *
source_tensor (const char *folder, const char *name, gsize *n)
{
  g_autofree char *path = g_build_filename (folder, "model.safetensors", NULL);
  g_autofree char *contents = NULL;
  g_autoptr (GError) error = NULL;
  gsize size;
  g_autoptr (TlCheckpoint) c = tl_checkpoint_open_foreign (path, &error);
  g_assert_no_error (error);
  const TlTensorView *view = tl_checkpoint_find (c, name);
  g_assert_nonnull (view);
  g_assert_true (g_file_get_contents (path, &contents, &size, &error));
  *n = view->size / 4;
  return g_memdup2 (contents + view->offset, view->size);
}

static void
assert_matrix_near (const TlMatrix *m, const float *expected, gsize n, double steps)
{
  g_autofree float *row = g_new (float, m->cols);
  g_assert_cmpuint ((gsize) m->rows * m->cols, ==, n);
  for (guint r = 0; r < m->rows; r++)
    {
      float largest = 0;
      tl_matrix_row_to_f32 (m, r, row);
      for (guint i = 0; i < m->cols; i++)
        largest = MAX (largest, fabsf (expected[r * m->cols + i]));
      for (guint i = 0; i < m->cols; i++)
        g_assert_cmpfloat (fabs (row[i] - expected[r * m->cols + i]), <=, steps * largest);
    }
}

static void
test_values_are_kept_bit_for_bit (Fixture *f, gconstpointer data)
{
  g_autofree char *src = g_build_filename (g_getenv ("TINYLOOP_TEST_GOLDENS"), "qwen3", NULL);
  g_autoptr (GError) error = NULL;
  gsize n;
  g_assert_true (convert (f, src, "none", 0, &error));
  g_autoptr (TlWeights) w = load (f);
  g_assert_cmpint (w->descriptor->qk_norm, ==, TL_QK_NORM_HEAD);
  g_autofree float *k = source_tensor (src, "model.layers.1.self_attn.k_proj.weight", &n);
  assert_matrix_near (&w->blocks[TL_STACK_LOOP][1].k, k, n, 0);
  g_autofree float *norm = source_tensor (src, "model.norm.weight", &n);
  g_assert_cmpmem (w->final_norm, n * 4, norm, n * 4);
}

static void
test_rounding_stays_within_half_a_step (Fixture *f, gconstpointer data)
{
  g_autofree char *src = g_build_filename (g_getenv ("TINYLOOP_TEST_GOLDENS"), "qwen3", NULL);
  static const struct { const char *quantize; guint group; double steps; } rows[] = {
    { "int8", 0, 0.51 / 127 }, { "int8", 32, 0.51 / 127 }, { "int4", 32, 1.02 / 8 }, { "int4", 64, 1.02 / 8 },
  };
  gsize n;
  g_autofree float *up = source_tensor (src, "model.layers.0.mlp.up_proj.weight", &n);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_true (convert (f, src, rows[i].quantize, rows[i].group, &error));
      g_autoptr (TlWeights) w = load (f);
      g_assert_cmpint (w->embed.format, ==, TL_INT8);
      assert_matrix_near (&w->blocks[TL_STACK_LOOP][0].up, up, n, rows[i].steps);
    }
}

/* every shared folder of an implemented family converts and resolves; the others are refused by name */
static void
test_shared_folders (Fixture *f, gconstpointer data)
{
  static const struct { const char *folder; gboolean taken; } rows[] = {
    { "llama", TRUE }, { "llama_tied_llama3rope", TRUE }, { "llama_bias_linrope", TRUE }, { "qwen2", TRUE },
    { "qwen3", TRUE }, { "olmo2", TRUE }, { "nanbeige", TRUE }, { "ouro", TRUE }, { "gpt2", FALSE },
    { "gemma2", FALSE }, { "huginn", TRUE }, { "retrofit_llama", TRUE },
    { "retrofit_olmo", TRUE }, { "hrm_text", FALSE }, { "quant_llama_awq_g32", TRUE },
    { "quant_llama_ct_int4_sym_g32", TRUE }, { "quant_llama_ct_int8_channel", TRUE }, { "quant_ouro_ct_int4_asym_g64", TRUE },
    { "quant_llama_gptq_v1_actorder_g32", TRUE }, { "quant_llama_gptq_v2_asym_g64", TRUE },
  };
  guint seen = 0;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *src = g_build_filename (g_getenv ("TINYLOOP_SHARED"), "goldens", rows[i].folder, NULL);
      g_autoptr (GError) error = NULL;
      if (!g_file_test (src, G_FILE_TEST_IS_DIR))
        continue;
      seen++;
      gboolean ok = convert (f, src, "none", 0, &error);
      g_test_message ("%s: %s", rows[i].folder, ok ? "converted" : error->message);
      g_assert_cmpint (ok, ==, rows[i].taken);
      if (!ok)
        {
          g_assert_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED);
          g_assert_nonnull (strstr (error->message, rows[i].folder));
          continue;
        }
      g_autoptr (TlWeights) w = load (f);
    }
  if (!seen)
    g_test_skip ("the shared goldens are not there");
}

/* packed matrices mean what the reference's dequantised one says, bit for bit; in order they stay packed */
static void
test_packed_matrices (Fixture *f, gconstpointer data)
{
  static const struct { const char *folder; TlFormat format; TlOffset offset; } rows[] = {
    { "quant_llama_awq_g32", TL_INT4, TL_OFFSET_ZERO }, { "quant_ouro_awq_g64", TL_INT4, TL_OFFSET_ZERO },
    { "quant_llama_ct_int4_sym_g32", TL_INT4, TL_OFFSET_NONE }, { "quant_llama_ct_int8_channel", TL_INT8, TL_OFFSET_NONE },
    { "quant_ouro_ct_int4_asym_g64", TL_INT4, TL_OFFSET_ZERO }, { "quant_llama_gptq_v1_sym_g32", TL_INT4, TL_OFFSET_ZERO },
    { "quant_ouro_gptq_v1_asym_g64", TL_INT4, TL_OFFSET_ZERO }, { "quant_llama_gptq_v2_asym_g64", TL_INT4, TL_OFFSET_ZERO },
    { "quant_llama_gptq_v1_actorder_g32", TL_F32, TL_OFFSET_NONE },
    { "quant_ouro_gptq_v2_sym_actorder_g32", TL_F32, TL_OFFSET_NONE },
  };
  guint seen = 0;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *src = g_build_filename (g_getenv ("TINYLOOP_SHARED"), "goldens", rows[i].folder, NULL);
      g_autofree char *expected = g_build_filename (src, "expected.safetensors", NULL), *contents = NULL;
      g_autoptr (GError) error = NULL;
      gsize size;
      if (!g_file_get_contents (expected, &contents, &size, NULL))
        continue;
      seen++;
      g_test_message ("%s", rows[i].folder);
      convert (f, src, "none", 0, &error);
      g_assert_no_error (error);
      g_autoptr (TlWeights) w = load (f);
      g_autoptr (TlCheckpoint) c = tl_checkpoint_open_foreign (expected, &error);
      g_assert_no_error (error);
      const TlTensorView *view = tl_checkpoint_find (c, "dequant.model.layers.0.self_attn.k_proj.weight");
      const TlMatrix *k = &w->blocks[TL_STACK_LOOP][0].k;
      g_assert_cmpint (k->format, ==, rows[i].format);
      g_assert_cmpint (k->offset, ==, rows[i].offset);
      g_autofree float *values = g_memdup2 (contents + view->offset, view->size);
      assert_matrix_near (k, values, view->size / 4, 0);
    }
  if (!seen)
    g_test_skip ("the shared goldens are not there");
}

static void
test_bad_configs_are_named (Fixture *f, gconstpointer data)
{
#define SIZES "\"vocab_size\":8,\"hidden_size\":8,\"intermediate_size\":8,\"num_attention_heads\":2,\"num_hidden_layers\":1"
  static const struct { const char *json, *expected; } rows[] = {
    { "", "config.json" }, { "[]", "config.json" }, { "{}", "model_type" },
    { "{\"model_type\":\"unheard\"}", "model_type" },
    { "{\"model_type\":\"llama\"}", "vocab_size" },
    { "{\"model_type\":\"llama\",\"vocab_size\":-5}", "vocab_size" },
    { "{\"model_type\":\"llama\",\"vocab_size\":\"many\"}", "vocab_size" },
    { "{\"model_type\":\"llama\"," SIZES ",\"hidden_act\":\"gelu\"}", "hidden_act" },
    { "{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}}", "rope_scaling" },
    { "{\"model_type\":\"llama\"," SIZES ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor" },
    { "{\"model_type\":\"qwen2\"," SIZES ",\"use_sliding_window\":true}", "use_sliding_window" },
    { "{\"model_type\":\"qwen3\"," SIZES ",\"layer_types\":[\"sliding_attention\"]}", "layer_types" },
    { "{\"model_type\":\"qwen3\"," SIZES ",\"layer_types\":[3]}", "layer_types" },
    { "{\"model_type\":\"qwen3\"," SIZES ",\"layer_types\":[\"full_attention\"]}", "model.safetensors" },
    { "{\"model_type\":\"llama\"," SIZES ",\"use_qk_norm\":true}", "use_qk_norm" },
    { "{\"model_type\":\"llama\"," SIZES ",\"no_rope_layers\":[1]}", "no_rope_layers" },
    { "{\"model_type\":\"llama\"," SIZES ",\"clip_qkv\":8}", "clip_qkv" },
    { "{\"model_type\":\"llama\"," SIZES ",\"num_local_experts\":4}", "num_local_experts" },
    { "{\"model_type\":\"llama\"," SIZES ",\"quantization_config\":{}}", "quantization_config" },
    { "{\"model_type\":\"llama\"," SIZES ",\"num_key_value_heads\":3}", "n_heads" },
    { "{\"model_type\":\"llama\"," SIZES "}", "model.safetensors" },
    { "{\"model_type\":\"tinyloop-looped\"," SIZES ",\"trained_loops\":[{}]}", "trained_loops" },
    { "{\"model_type\":\"tinyloop-looped\"," SIZES ",\"trained_loops\":[2,-4294967295]}", "trained_loops" },
  };
  g_autofree char *config = g_build_filename (f->folder, "config.json", NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_true (g_file_set_contents (config, rows[i].json, -1, &error));
      g_assert_false (convert (f, f->folder, "none", 0, &error));
      g_assert_true (error && error->domain == TL_ERROR);
      if (!strstr (error->message, rows[i].expected))
        g_error ("message \"%s\" lacks \"%s\"", error->message, rows[i].expected);
      g_assert_false (g_file_test (f->out, G_FILE_TEST_EXISTS));
    }
}

/* sizes of a config that the tensors do not have: named before anything of that size is allocated */
static void
test_claimed_sizes_are_compared (Fixture *f, gconstpointer data)
{
  static const struct { const char *field, *claim, *tensor; } rows[] = {
    { "\"hidden_size\": ", "131072", "model.embed_tokens.weight" }, { "\"vocab_size\": ", "16777216", "model.embed_tokens.weight" },
    { "\"intermediate_size\": ", "1048576", "mlp.gate_proj.weight" },
  };
  g_autofree char *src = g_build_filename (g_getenv ("TINYLOOP_TEST_GOLDENS"), "qwen3", NULL), *config = NULL, *weights = NULL;
  g_autofree char *from = g_build_filename (src, "config.json", NULL), *to = g_build_filename (f->folder, "config.json", NULL);
  g_autofree char *weights_from = g_build_filename (src, "model.safetensors", NULL);
  g_autofree char *weights_to = g_build_filename (f->folder, "model.safetensors", NULL);
  gsize size;
  g_assert_true (g_file_get_contents (from, &config, NULL, NULL));
  g_assert_true (g_file_get_contents (weights_from, &weights, &size, NULL));
  g_assert_true (g_file_set_contents (weights_to, weights, size, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      const char *field = strstr (config, rows[i].field);
      g_assert_nonnull (field);
      const char *value = field + strlen (rows[i].field);
      g_autofree char *changed = g_strdup_printf ("%.*s%s%s", (int) (value - config), config, rows[i].claim,
          value + strspn (value, "0123456789"));
      g_assert_true (g_file_set_contents (to, changed, -1, NULL));
      g_assert_false (convert (f, f->folder, "none", 0, &error));
      g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
      g_assert_nonnull (strstr (error->message, rows[i].tensor));
    }
}

static void
test_bad_options_are_named (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (convert (f, f->folder, "int3", 0, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (convert (f, f->folder, "int4", 48, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (convert (f, "/nonexistent", "none", 0, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) g_test_add (path, Fixture, NULL, set_up, test, tear_down)
  ADD ("/import/values-are-kept-bit-for-bit", test_values_are_kept_bit_for_bit);
  ADD ("/import/rounding-stays-within-half-a-step", test_rounding_stays_within_half_a_step);
  ADD ("/import/shared-folders", test_shared_folders);
  ADD ("/import/packed-matrices", test_packed_matrices);
  ADD ("/import/bad-configs-are-named", test_bad_configs_are_named);
  ADD ("/import/claimed-sizes-are-compared", test_claimed_sizes_are_compared);
  ADD ("/import/bad-options-are-named", test_bad_options_are_named);
  return g_test_run ();
}
