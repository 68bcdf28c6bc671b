/* import/tl-config.c — config.json of Llama-like and looped models to descriptor axes. Key names are the families' own. */
#include "import/tl-config.h"

#include <math.h>
#include <string.h>

typedef struct
{
  JsonObject *object;
  const char *name;
  GError **error;
  gboolean failed;
  TlHasTensor has;
  gpointer has_data;
} Reader;

static void
fail (Reader *r, TlError code, const char *key, const char *what)
{
  if (!r->failed)
    g_set_error (r->error, TL_ERROR, code, "tinyloop: %s: config.json: '%s' %s", r->name, key, what);
  r->failed = TRUE;
}

/* the member, NULL when absent or null */
static JsonNode *
member (Reader *r, const char *key)
{
  JsonNode *node = json_object_get_member (r->object, key);
  return node && !JSON_NODE_HOLDS_NULL (node) ? node : NULL;
}

static double
number (Reader *r, const char *key, double fallback)
{
  JsonNode *node = member (r, key);
  if (!node)
    return fallback;
  GType type = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_value_type (node) : G_TYPE_INVALID;
  if (type != G_TYPE_INT64 && type != G_TYPE_DOUBLE)
    {
      fail (r, TL_ERROR_BAD_FILE, key, "is no number");
      return fallback;
    }
  return json_node_get_double (node);
}

static guint
size (Reader *r, const char *key, gint64 fallback)
{
  double value = number (r, key, fallback);
  if (!(value >= 0 && value <= 1 << 24 && value == floor (value)))
    {
      fail (r, TL_ERROR_BAD_FILE, key, member (r, key) ? "is no sensible size" : "is missing");
      return 1;
    }
  return value;
}

static gboolean
flag (Reader *r, const char *key, gboolean fallback)
{
  JsonNode *node = member (r, key);
  if (!node)
    return fallback;
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_BOOLEAN)
    fail (r, TL_ERROR_BAD_FILE, key, "is neither true nor false");
  return !r->failed && json_node_get_boolean (node);
}

static const char *
text (Reader *r, const char *key, const char *fallback)
{
  JsonNode *node = member (r, key);
  if (!node)
    return fallback;
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
    {
      fail (r, TL_ERROR_BAD_FILE, key, "is no string");
      return fallback;
    }
  return json_node_get_string (node);
}

/* every layer sees everything before it, or the list says otherwise */
static void
refuse_layer_types (Reader *r)
{
  JsonNode *node = member (r, "layer_types");
  JsonArray *types = node && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
  gboolean full = !node || types;
  for (guint i = 0; types && i < json_array_get_length (types); i++)
    {
      JsonNode *type = json_array_get_element (types, i);
      full &= JSON_NODE_HOLDS_VALUE (type) && g_strcmp0 (json_node_get_string (type), "full_attention") == 0;
    }
  if (!full)
    fail (r, TL_ERROR_UNSUPPORTED, "layer_types", "names another kind of layer than full_attention");
}

/* fields that change the result and have no axis here: only their neutral value is taken */
static void
refuse_fields_without_axis (Reader *r)
{
  static const struct { const char *key; double neutral; } numbers[] = {
    { "pretraining_tp", 1 }, { "partial_rotary_factor", 1 }, { "residual_multiplier", 1 }, { "embedding_multiplier", 1 },
    { "attention_multiplier", 1 }, { "logits_scaling", 1 }, { "final_logit_softcapping", 0 },
    { "attn_logit_softcapping", 0 }, { "num_experts", 0 }, { "num_local_experts", 0 }, { "clip_qkv", 0 },
  };
  static const char *const flags[] = { "use_sliding_window", "loop_share_kv", "enable_double_loop_split", "use_mhc",
    "qk_layernorm", "loop_loss_weights", "loop_middle_layers", "enable_mhc", "enable_hyper_connection",
    "enable_depth_attention", "insert_ngram_layer_idx", "ngram_insert_all_layers", "use_qk_norm", "no_rope_layers",
    "use_bidirectional_attention", "attn_temperature_tuning" };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (number (r, numbers[i].key, numbers[i].neutral) != numbers[i].neutral)
      fail (r, TL_ERROR_UNSUPPORTED, numbers[i].key, "has a value that is not implemented in this version");
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      JsonNode *node = member (r, flags[i]);
      gboolean off = !node || (JSON_NODE_HOLDS_ARRAY (node) && json_array_get_length (json_node_get_array (node)) == 0)
          || (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_BOOLEAN
              && !json_node_get_boolean (node));
      if (!off)
        fail (r, TL_ERROR_UNSUPPORTED, flags[i], "is not implemented in this version");
    }
  refuse_layer_types (r);
}

static void
read_rope (Reader *r, TlDescriptor *d)
{
  JsonNode *node = member (r, "rope_scaling");
  d->rope_theta = number (r, "rope_theta", 10000);
  if (!node)
    node = member (r, "rope_parameters");       /* newer configs: theta stands inside */
  if (!node)
    return;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      fail (r, TL_ERROR_BAD_FILE, "rope_scaling", "is no object");
      return;
    }
  Reader s = { json_node_get_object (node), r->name, r->error, r->failed, NULL, NULL };
  d->rope_theta = number (&s, "rope_theta", d->rope_theta);
  const char *type = text (&s, "rope_type", text (&s, "type", "default"));
  d->rope_factor = number (&s, "factor", 1);
  if (g_str_equal (type, "linear"))
    d->rope_scaling = TL_ROPE_SCALING_LINEAR;
  else if (g_str_equal (type, "llama3"))
    {
      d->rope_scaling = TL_ROPE_SCALING_LLAMA3;
      d->rope_low_freq_factor = number (&s, "low_freq_factor", 1);
      d->rope_high_freq_factor = number (&s, "high_freq_factor", 4);
      d->rope_original_max = size (&s, "original_max_position_embeddings", 8192);
    }
  else if (!g_str_equal (type, "default"))
    fail (&s, TL_ERROR_UNSUPPORTED, "rope_scaling", "has a type that is not implemented in this version");
  r->failed = s.failed;
}

/* what all of these families share */
static void
read_common (Reader *r, TlDescriptor *d)
{
  const char *activation = text (r, "hidden_act", "silu");
  d->vocab_size = d->vocab_padded = size (r, "vocab_size", -1);
  d->d_model = d->d_state = size (r, "hidden_size", -1);
  d->d_ff = size (r, "intermediate_size", -1);
  d->n_heads = MAX (size (r, "num_attention_heads", -1), 1);
  d->n_kv_heads = size (r, "num_key_value_heads", d->n_heads);
  d->head_dim = size (r, "head_dim", d->d_model / d->n_heads);
  d->rope_dims = d->head_dim;
  d->max_seq_len = size (r, "max_position_embeddings", 2048);
  d->norm_eps = number (r, "rms_norm_eps", 1e-6);
  d->tie_head = flag (r, "tie_word_embeddings", FALSE);
  if (!g_str_equal (activation, "silu"))
    fail (r, TL_ERROR_UNSUPPORTED, "hidden_act", "is not silu");
  read_rope (r, d);
  refuse_fields_without_axis (r);
}

static void
read_llama (Reader *r, TlConfig *c)
{
  TlDescriptor *d = c->descriptor;
  d->n_blocks[TL_STACK_LOOP] = size (r, "num_hidden_layers", -1);
  d->q_bias = d->k_bias = d->v_bias = d->o_bias = flag (r, "attention_bias", FALSE);
  d->mlp_bias = flag (r, "mlp_bias", FALSE);
}

static void
read_qwen2 (Reader *r, TlConfig *c)
{
  read_llama (r, c);
  c->descriptor->q_bias = c->descriptor->k_bias = c->descriptor->v_bias = TRUE;
}

static void
read_qwen3 (Reader *r, TlConfig *c)
{
  read_llama (r, c);
  c->descriptor->qk_norm = TL_QK_NORM_HEAD;
  c->descriptor->qk_norm_eps = c->descriptor->norm_eps;
}

static void
read_olmo2 (Reader *r, TlConfig *c)
{
  read_llama (r, c);
  c->names = TL_NAMES_OLMO2;
  c->descriptor->placement = TL_PLACEMENT_POST_OUT;
  c->descriptor->qk_norm = TL_QK_NORM_FULL_WIDTH;
  c->descriptor->qk_norm_eps = c->descriptor->norm_eps;
}

/* a stack applied `loops` times; the final norm runs inside every loop, or once at the end */
static void
set_loops (TlDescriptor *d, guint loops, gboolean norm_every_loop)
{
  d->loops_default = loops;
  d->loops_max = MAX (64, loops);
  if (norm_every_loop)
    {
      d->norm_loop_end = TL_NORM_REF_FINAL;
      d->norm_final = TL_NORM_REF_NONE;
    }
}

static void
read_nanbeige (Reader *r, TlConfig *c)
{
  read_llama (r, c);
  set_loops (c->descriptor, size (r, "num_loops", 1), !flag (r, "skip_loop_final_norm", FALSE));
}

static void
read_ouro (Reader *r, TlConfig *c)
{
  read_llama (r, c);
  c->names = TL_NAMES_OURO;
  c->descriptor->placement = TL_PLACEMENT_SANDWICH_OUT;
  c->descriptor->exit_gate = TL_EXIT_HAZARD_CDF;
  set_loops (c->descriptor, size (r, "total_ut_steps", 4), TRUE);
}

static void
read_trained_loops (Reader *r, TlDescriptor *d)
{
  JsonNode *node = member (r, "trained_loops");
  if (!node || !JSON_NODE_HOLDS_ARRAY (node))
    return;
  JsonArray *array = json_node_get_array (node);
  d->n_loops_trained = MIN (json_array_get_length (array), 4096);
  d->loops_trained = g_new0 (guint, d->n_loops_trained);
  for (guint i = 0; i < d->n_loops_trained; i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      gint64 loops = JSON_NODE_HOLDS_VALUE (element) ? json_node_get_int (element) : 0;
      if (loops < 1 || loops > 4096)
        fail (r, TL_ERROR_BAD_FILE, "trained_loops", "holds something else than counts from 1 to 4096");
      d->loops_trained[i] = loops;
    }
}

/* the folder that this project's own training script writes */
static void
read_looped (Reader *r, TlConfig *c)
{
  static const char *const injections[] = { "none", "add", "linear_cat" };
  TlDescriptor *d = c->descriptor;
  const char *injection = text (r, "injection", "none");
  c->names = TL_NAMES_CANONICAL;
  d->n_blocks[TL_STACK_PRE] = size (r, "pre_layers", 0);
  d->n_blocks[TL_STACK_LOOP] = size (r, "loop_layers", 1);
  d->n_blocks[TL_STACK_CODA] = size (r, "coda_layers", 0);
  d->loops_default = size (r, "default_loops", 1);
  d->loops_min = size (r, "min_loops", 1);
  d->loops_max = size (r, "max_loops", 64);
  d->embed_scale = number (r, "embedding_scale", 1);
  d->norm_loop_end = flag (r, "loop_end_norm", FALSE) ? TL_NORM_REF_OWN : TL_NORM_REF_NONE;
  d->state_init = d->n_blocks[TL_STACK_PRE] ? TL_STATE_INIT_PRELUDE : TL_STATE_INIT_EMBED;
  read_trained_loops (r, d);
  for (guint i = 0; i < G_N_ELEMENTS (injections); i++)
    if (g_str_equal (injection, injections[i]))
      {
        d->inject = (TlInjectKind) i;
        return;
      }
  fail (r, TL_ERROR_UNSUPPORTED, "injection", "is not none, add or linear_cat");
}

/* --- Huginn and the models retrofitted in its layout: one model_type, own key names --- */

/* the first of two spellings that is there */
static guint
size_of_either (Reader *r, const char *key, const char *other, gint64 fallback)
{
  return member (r, key) ? size (r, key, fallback) : size (r, other, fallback);
}

/* classes and switches of the family's code base that have one implementation here */
static void
refuse_other_classes (Reader *r)
{
  static const struct { const char *key, *expected; } classes[] = {
    { "norm_class_name", "RMSNorm_llama" }, { "mlp_class_name", "GatedMLP" }, { "nonlin_name", "SiLU" },
    { "block_class_name", "SandwichBlock" }, { "injection_type", "linear" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (classes); i++)
    if (!g_str_equal (text (r, classes[i].key, classes[i].expected), classes[i].expected))
      fail (r, TL_ERROR_UNSUPPORTED, classes[i].key, "has a value that is not implemented in this version");
  if (flag (r, "bias", FALSE))
    fail (r, TL_ERROR_UNSUPPORTED, "bias", "is not implemented for this family");
  if (number (r, "test_time_noise", 0) != 0)
    fail (r, TL_ERROR_UNSUPPORTED, "test_time_noise", "is not implemented in this version");
}

/* what the state starts as; the random start is a truncated normal, scaled like the embedding in Huginn only */
static void
read_state (Reader *r, TlDescriptor *d, gboolean huginn)
{
  const char *mode = text (r, "initial_state_mode", "random");
  d->state_std = (float) sqrt (2.0 / (5.0 * d->d_model));
  d->state_clip = 3;
  d->state_scale = huginn ? d->embed_scale : 1;
  d->state_init = g_str_equal (mode, "random") ? TL_STATE_INIT_TRUNC_NORMAL : TL_STATE_INIT_PRELUDE;
  d->inject_first_step = !g_str_equal (mode, "skip-adapter");
  if (!g_str_equal (mode, "random") && !g_str_equal (mode, "embed-init") && d->inject_first_step)
    fail (r, TL_ERROR_UNSUPPORTED, "initial_state_mode", "is not random, embed-init or skip-adapter");
  if (d->state_init == TL_STATE_INIT_TRUNC_NORMAL && !g_str_equal (text (r, "state_init", "like-init"), "like-init"))
    fail (r, TL_ERROR_UNSUPPORTED, "state_init", "is not like-init");
}

static void
read_raven_variant (Reader *r, TlConfig *c, gboolean huginn)
{
  TlDescriptor *d = c->descriptor;
  gboolean olmo = !huginn && r->has ("transformer.core_block.0.attn.q_norm.weight", r->has_data);

  c->names = huginn ? TL_NAMES_HUGINN : olmo ? TL_NAMES_RETROFIT_OLMO : TL_NAMES_RETROFIT_LLAMA;
  d->placement = huginn ? TL_PLACEMENT_SANDWICH_RESID : olmo ? TL_PLACEMENT_POST_OUT : TL_PLACEMENT_PRE;
  d->norm_pre_coda = huginn ? TL_NORM_REF_FINAL : TL_NORM_REF_NONE;
  d->qk_norm = olmo ? TL_QK_NORM_FULL_WIDTH : TL_QK_NORM_NONE;
  d->qk_norm_eps = d->norm_eps;
  d->qk_bias_pre_rope = r->has ("transformer.core_block.0.attn.qk_bias", r->has_data);
  read_rope (r, d);
  if (huginn)
    {
      d->rope_layout = TL_ROPE_INTERLEAVED;
      d->rope_theta = number (r, "rope_base", 50000);
    }
}

static void
read_raven (Reader *r, TlConfig *c)
{
  TlDescriptor *d = c->descriptor;
  JsonNode *init = member (r, "init_values");
  gboolean huginn = r->has ("transformer.core_block.0.norm_3.weight", r->has_data);

  d->vocab_size = size (r, "vocab_size", -1);
  d->vocab_padded = size (r, "padded_vocab_size", d->vocab_size);
  d->d_model = d->d_state = size_of_either (r, "n_embd", "hidden_size", -1);
  d->d_ff = size (r, "intermediate_size", -1);
  d->n_heads = MAX (size_of_either (r, "n_heads", "num_attention_heads", -1), 1);
  d->n_kv_heads = size (r, "num_key_value_heads", d->n_heads);
  d->rope_dims = d->head_dim = size (r, "head_dim", d->d_model / d->n_heads);
  d->max_seq_len = huginn ? size (r, "block_size", 4096) : size_of_either (r, "max_position_embeddings", "block_size", 2048);
  d->norm_eps = number (r, "norm_eps", 1e-6);
  d->tie_head = member (r, "tie_embeddings") ? flag (r, "tie_embeddings", TRUE) : flag (r, "tie_word_embeddings", TRUE);
  d->n_blocks[TL_STACK_PRE] = size (r, "n_layers_in_prelude", -1);
  d->n_blocks[TL_STACK_LOOP] = size (r, "n_layers_in_recurrent_block", -1);
  d->n_blocks[TL_STACK_CODA] = size (r, "n_layers_in_coda", -1);
  d->inject = TL_INJECT_LINEAR_CAT;
  d->embed_scale = huginn ? (float) sqrt (d->d_model) : 1;
  if (init && JSON_NODE_HOLDS_OBJECT (init))
    {
      Reader s = { json_node_get_object (init), r->name, r->error, r->failed, NULL, NULL };
      d->embed_scale = number (&s, "embed_scale", d->embed_scale);
      r->failed = s.failed;
    }
  set_loops (d, size (r, "mean_recurrence", 32), FALSE);
  read_raven_variant (r, c, huginn);
  read_state (r, d, huginn);
  refuse_other_classes (r);
  refuse_fields_without_axis (r);
}

static const struct { const char *model_type; void (*read) (Reader *r, TlConfig *c); gboolean own_keys; } families[] = {
  { "llama", read_llama }, { "qwen2", read_qwen2 }, { "qwen3", read_qwen3 }, { "olmo2", read_olmo2 },
  { "nanbeige", read_nanbeige }, { "ouro", read_ouro }, { "tinyloop-looped", read_looped },
  { "huginn_raven", read_raven, TRUE },
};

/* --- quantisation --- */

static JsonObject *
object (Reader *r, const char *key)
{
  JsonNode *node = member (r, key);
  if (node && JSON_NODE_HOLDS_OBJECT (node))
    return json_node_get_object (node);
  fail (r, TL_ERROR_UNSUPPORTED, key, "is missing or no object");
  return NULL;
}

static void
expect (Reader *r, gboolean as_expected, const char *key)
{
  if (!as_expected)
    fail (r, TL_ERROR_UNSUPPORTED, key, "in the quantization_config has a value that is not implemented in this version");
}

static void
set_group (Reader *r, const char *key, TlQuantised *q)
{
  double group = number (r, key, -1);
  expect (r, group == -1 || group == 32 || group == 64 || group == 128, key);
  q->group = group > 0 ? group : 0;
}

static void
read_compressed (Reader *r, TlQuantised *q)
{
  const char *format = text (r, "format", "");
  JsonObject *groups = object (r, "config_groups");
  gboolean packed = g_str_equal (format, "pack-quantized");
  expect (r, packed || g_str_equal (format, "int-quantized"), "format");
  if (!groups || json_object_get_size (groups) != 1)
    {
      expect (r, FALSE, "config_groups");
      return;
    }
  g_autoptr (GList) values = json_object_get_values (groups);
  if (!JSON_NODE_HOLDS_OBJECT ((JsonNode *) values->data))
    {
      expect (r, FALSE, "config_groups");
      return;
    }
  Reader group = { json_node_get_object (values->data), r->name, r->error, r->failed, NULL, NULL };
  JsonObject *weights = object (&group, "weights");
  expect (&group, !member (&group, "input_activations") && !member (&group, "output_activations"), "input_activations");
  r->failed = group.failed;
  if (!weights)
    return;

  Reader w = { weights, r->name, r->error, r->failed, NULL, NULL };
  const char *strategy = text (&w, "strategy", "");
  q->packing = packed ? TL_PACKING_COMPRESSED : TL_PACKING_INT8;
  q->symmetric = flag (&w, "symmetric", TRUE);
  expect (&w, number (&w, "num_bits", 0) == (packed ? 4 : 8), "num_bits");
  expect (&w, g_str_equal (text (&w, "type", "int"), "int"), "type");
  expect (&w, packed || q->symmetric, "symmetric");
  expect (&w, !flag (&w, "dynamic", FALSE), "dynamic");
  expect (&w, !member (&w, "actorder") || g_str_equal (text (&w, "actorder", ""), "weight"), "actorder");
  expect (&w, g_str_equal (strategy, "group") || g_str_equal (strategy, "channel"), "strategy");
  if (g_str_equal (strategy, "group"))
    set_group (&w, "group_size", q);
  r->failed = w.failed;
}

static void
read_quantised (Reader *r, TlQuantised *q)
{
  JsonObject *config = member (r, "quantization_config") ? object (r, "quantization_config") : NULL;
  if (!config)
    return;
  Reader c = { config, r->name, r->error, r->failed, NULL, NULL };
  const char *method = text (&c, "quant_method", "(none)");
  if (g_str_equal (method, "gptq"))
    {
      const char *format = text (&c, "checkpoint_format", "gptq");
      q->packing = g_str_equal (format, "gptq_v2") ? TL_PACKING_GPTQ_V2 : TL_PACKING_GPTQ_V1;
      expect (&c, g_str_equal (format, "gptq") || g_str_equal (format, "gptq_v2"), "checkpoint_format");
      expect (&c, number (&c, "bits", 0) == 4, "bits");
      expect (&c, !member (&c, "dynamic"), "dynamic");
      set_group (&c, "group_size", q);
    }
  else if (g_str_equal (method, "awq"))
    {
      g_autofree char *version = g_ascii_strdown (text (&c, "version", "gemm"), -1);
      q->packing = TL_PACKING_AWQ;
      expect (&c, g_str_equal (version, "gemm"), "version");
      expect (&c, number (&c, "bits", 0) == 4, "bits");
      expect (&c, flag (&c, "zero_point", TRUE), "zero_point");
      set_group (&c, "group_size", q);
    }
  else if (g_str_equal (method, "compressed-tensors"))
    read_compressed (&c, q);
  else
    fail (&c, TL_ERROR_UNSUPPORTED, "quantization_config", "has a quant_method that is not gptq, awq or compressed-tensors");
  r->failed = c.failed;
}

gboolean
tl_config_read (JsonObject *config, const char *name, TlHasTensor has, gpointer data, TlConfig *out, GError **error)
{
  Reader r = { config, name, error, FALSE, has, data };
  const char *type = text (&r, "model_type", "");
  g_autoptr (TlDescriptor) d = tl_descriptor_new ();
  out->descriptor = d;
  out->names = TL_NAMES_LLAMA;

  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    if (g_str_equal (type, families[i].model_type))
      {
        d->family = g_strdup (type);
        if (!families[i].own_keys)
          read_common (&r, d);
        families[i].read (&r, out);
        read_quantised (&r, &out->quantised);
        if (families[i].own_keys && out->quantised.packing != TL_PACKING_NONE)
          fail (&r, TL_ERROR_UNSUPPORTED, "quantization_config", "is not implemented for this family");
        break;
      }
  if (!d->family)
    fail (&r, TL_ERROR_UNSUPPORTED, "model_type", "is missing or not a family that this version reads");
  out->descriptor = NULL;
  if (r.failed || !tl_descriptor_validate (d, name, error))
    return FALSE;
  out->descriptor = g_steal_pointer (&d);
  return TRUE;
}
