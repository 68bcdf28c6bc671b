/* engine/decode/tl-generate-config.c — the parameters of a generation: a table of properties and their rules.
 *
 * The pspecs document ranges loosely; validate() is strict, because GObject only warns and keeps the old value.
 */
#include "decode/tl-generate-config-private.h"

#include <math.h>
#include <string.h>

enum
{
  PROP_MAX_TOKENS = 1, PROP_LOOPS, PROP_TOP_K, PROP_CACHE_WINDOW, PROP_CHUNK_SIZE,
  PROP_TEMPERATURE, PROP_TOP_P, PROP_MIN_P, PROP_REPETITION_PENALTY, PROP_PRESENCE_PENALTY, PROP_FREQUENCY_PENALTY,
  PROP_SEED, PROP_STATE_SEED, PROP_IGNORE_EOS, PROP_EXACT_ACTIVATIONS, PROP_KV_MODE, PROP_STOP, PROP_STOP_SEQUENCES,
  PROP_GRAMMAR, PROP_TOKEN_STATS, PROP_TOP_LOGPROBS, PROP_KEEP_STATES, PROP_CACHE_SALT,
};

typedef enum { KIND_UINT, KIND_DOUBLE, KIND_UINT64, KIND_BOOLEAN } Kind;

static const struct
{
  guint id;
  Kind kind;
  const char *name, *blurb;
  gsize offset;
  double value;                 /* default */
} rows[] = {
#define ROW(ID, KIND, NAME, FIELD, VALUE, BLURB) \
  { PROP_##ID, KIND_##KIND, NAME, BLURB, G_STRUCT_OFFSET (TlGenerateConfig, FIELD), VALUE }
  ROW (MAX_TOKENS, UINT, "max-tokens", max_tokens, 64, "Tokens to generate at most"),
  ROW (LOOPS, UINT, "loops", loops, 0, "Times the loop block is applied, 0 = the model's default"),
  ROW (TOP_K, UINT, "top-k", top_k, 50, "Keep exactly the k likeliest tokens, 0 = off"),
  ROW (CACHE_WINDOW, UINT, "cache-window", cache_window, 0, "Positions a token may look back, 0 = all"),
  ROW (CHUNK_SIZE, UINT, "chunk-size", chunk_size, 0, "Prompt tokens of one pass, 0 = chosen"),
  ROW (TEMPERATURE, DOUBLE, "temperature", temperature, 0, "Divides the logits; up to 0.01 is greedy"),
  ROW (TOP_P, DOUBLE, "top-p", top_p, 1, "Keep the smallest set of that mass, 1 = off"),
  ROW (MIN_P, DOUBLE, "min-p", min_p, 0, "Keep what is at least this share of the likeliest, 0 = off"),
  ROW (REPETITION_PENALTY, DOUBLE, "repetition-penalty", repetition_penalty, 1, "Weakens ids of prompt and output"),
  ROW (PRESENCE_PENALTY, DOUBLE, "presence-penalty", presence_penalty, 0, "Subtracted from generated ids"),
  ROW (FREQUENCY_PENALTY, DOUBLE, "frequency-penalty", frequency_penalty, 0, "Subtracted per time an id was generated"),
  ROW (SEED, UINT64, "seed", seed, 0, "Seed of the draws"),
  ROW (STATE_SEED, UINT64, "state-seed", state_seed, 0, "Seed of random initial states"),
  ROW (IGNORE_EOS, BOOLEAN, "ignore-eos", ignore_eos, 0, "Go on after an end-of-sequence token"),
  ROW (TOKEN_STATS, BOOLEAN, "token-stats", token_stats, 0, "Tell every token's log-probability and the entropy"),
  ROW (TOP_LOGPROBS, UINT, "top-logprobs", top_logprobs, 0, "Likeliest ids to tell with token-stats, at most 1024"),
  ROW (KEEP_STATES, BOOLEAN, "keep-states", keep_states, 0, "Keep the prompt's row states, so that a reply may go deeper"),
  ROW (EXACT_ACTIVATIONS, BOOLEAN, "exact-activations", exact_activations, 0, "Activations stay float32"),
#undef ROW
};

G_DEFINE_FINAL_TYPE (TlGenerateConfig, tl_generate_config, G_TYPE_OBJECT)

GType
tl_kv_precision_get_type (void)
{
  static gsize type = 0;
  static const GEnumValue values[] = {
    { TL_KV_PRECISION_DEFAULT, "TL_KV_PRECISION_DEFAULT", "default" },
    { TL_KV_PRECISION_FP16, "TL_KV_PRECISION_FP16", "fp16" },
    { TL_KV_PRECISION_FP32, "TL_KV_PRECISION_FP32", "fp32" },
    { TL_KV_PRECISION_INT8, "TL_KV_PRECISION_INT8", "int8" },
    { TL_KV_PRECISION_INT4, "TL_KV_PRECISION_INT4", "int4" },
    { TL_KV_PRECISION_H, "TL_KV_PRECISION_H", "h" },
    { TL_KV_PRECISION_H_INT8, "TL_KV_PRECISION_H_INT8", "h-int8" },
    { 0, NULL, NULL }
  };
  if (g_once_init_enter (&type))
    g_once_init_leave (&type, g_enum_register_static ("TlKvPrecision", values));
  return type;
}

static int
find_row (guint id)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].id == id)
      return i;
  return -1;
}

static void
set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  TlGenerateConfig *self = TL_GENERATE_CONFIG (object);
  int row = find_row (id);
  gpointer field = row < 0 ? NULL : G_STRUCT_MEMBER_P (self, rows[row].offset);

  if (field) {
    switch (rows[row].kind) {
      case KIND_UINT: *(guint *) field = g_value_get_uint (value); break;
      case KIND_DOUBLE: *(double *) field = g_value_get_double (value); break;
      case KIND_UINT64: *(guint64 *) field = g_value_get_uint64 (value); break;
      case KIND_BOOLEAN: *(gboolean *) field = g_value_get_boolean (value); break;
    }
  } else if (id == PROP_KV_MODE) {
    self->kv_mode = g_value_get_enum (value);
  } else if (id == PROP_CACHE_SALT) {
    g_free (self->cache_salt);
    self->cache_salt = g_value_dup_string (value);
  } else if (id == PROP_STOP) {
    g_strfreev (self->stop);
    self->stop = g_value_dup_boxed (value);
  } else if (id == PROP_STOP_SEQUENCES) {
    GPtrArray *list = g_value_get_boxed (value);
    g_ptr_array_set_size (self->stop_sequences, 0);
    for (guint i = 0; list && i < list->len; i++)
      g_ptr_array_add (self->stop_sequences, g_bytes_ref (g_ptr_array_index (list, i)));
  } else if (id == PROP_GRAMMAR) {
    g_set_object (&self->grammar, g_value_get_object (value));
  } else {
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
}

static void
get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  TlGenerateConfig *self = TL_GENERATE_CONFIG (object);
  int row = find_row (id);
  gconstpointer field = row < 0 ? NULL : G_STRUCT_MEMBER_P (self, rows[row].offset);

  if (field) {
    switch (rows[row].kind) {
      case KIND_UINT: g_value_set_uint (value, *(const guint *) field); break;
      case KIND_DOUBLE: g_value_set_double (value, *(const double *) field); break;
      case KIND_UINT64: g_value_set_uint64 (value, *(const guint64 *) field); break;
      case KIND_BOOLEAN: g_value_set_boolean (value, *(const gboolean *) field); break;
    }
  } else if (id == PROP_KV_MODE) {
    g_value_set_enum (value, self->kv_mode);
  } else if (id == PROP_CACHE_SALT) {
    g_value_set_string (value, self->cache_salt);
  } else if (id == PROP_STOP) {
    g_value_set_boxed (value, self->stop);
  } else if (id == PROP_STOP_SEQUENCES) {
    g_value_set_boxed (value, self->stop_sequences);
  } else if (id == PROP_GRAMMAR) {
    g_value_set_object (value, self->grammar);
  } else {
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
}

static void
tl_generate_config_finalize (GObject *object)
{
  TlGenerateConfig *self = TL_GENERATE_CONFIG (object);
  g_free (self->cache_salt);
  g_strfreev (self->stop);
  g_ptr_array_unref (self->stop_sequences);
  g_clear_object (&self->grammar);
  G_OBJECT_CLASS (tl_generate_config_parent_class)->finalize (object);
}

static void
tl_generate_config_class_init (TlGenerateConfigClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS;
  object_class->set_property = set_property;
  object_class->get_property = get_property;
  object_class->finalize = tl_generate_config_finalize;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const char *name = rows[i].name, *blurb = rows[i].blurb;
    GParamSpec *pspec = NULL;
    switch (rows[i].kind) {
      case KIND_UINT: pspec = g_param_spec_uint (name, name, blurb, 0, G_MAXUINT, rows[i].value, flags); break;
      case KIND_DOUBLE: pspec = g_param_spec_double (name, name, blurb, -G_MAXDOUBLE, G_MAXDOUBLE, rows[i].value, flags); break;
      case KIND_UINT64: pspec = g_param_spec_uint64 (name, name, blurb, 0, G_MAXUINT64, 0, flags); break;
      case KIND_BOOLEAN: pspec = g_param_spec_boolean (name, name, blurb, FALSE, flags); break;
    }
    g_object_class_install_property (object_class, rows[i].id, pspec);
  }
  g_object_class_install_property (object_class, PROP_KV_MODE, g_param_spec_enum ("kv-mode", "kv-mode",
          "How keys and values are stored", TL_TYPE_KV_PRECISION, TL_KV_PRECISION_DEFAULT, flags));
  g_object_class_install_property (object_class, PROP_CACHE_SALT, g_param_spec_string ("cache-salt", "cache-salt",
          "Prefixes are shared only between equal salts", NULL, flags));
  g_object_class_install_property (object_class, PROP_STOP, g_param_spec_boxed ("stop", "stop",
          "Strings that end the reply and are not part of it", G_TYPE_STRV, flags));
  /**
   * TlGenerateConfig:stop-sequences: (type GLib.PtrArray(GLib.Bytes))
   *
   * Sequences of native int32 ids that end the generation.
   */
  g_object_class_install_property (object_class, PROP_STOP_SEQUENCES, g_param_spec_boxed ("stop-sequences",
          "stop-sequences", "Sequences of ids that end the generation", G_TYPE_PTR_ARRAY, flags));
  g_object_class_install_property (object_class, PROP_GRAMMAR, g_param_spec_object ("grammar", "grammar",
          "What the whole reply must match", TL_TYPE_GRAMMAR, flags));
}

static void
tl_generate_config_init (TlGenerateConfig *self)
{
  self->max_tokens = 64;
  self->top_k = 50;
  self->top_p = 1;
  self->repetition_penalty = 1;
  self->stop_sequences = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
}

TlGenerateConfig *
tl_generate_config_new (void)
{
  return g_object_new (TL_TYPE_GENERATE_CONFIG, NULL);
}

TlGenerateConfig *
tl_generate_config_copy (TlGenerateConfig *self)
{
  g_return_val_if_fail (TL_IS_GENERATE_CONFIG (self), NULL);
  TlGenerateConfig *copy = tl_generate_config_new ();
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    gsize size = rows[i].kind == KIND_UINT || rows[i].kind == KIND_BOOLEAN ? sizeof (guint) : sizeof (guint64);
    memcpy (G_STRUCT_MEMBER_P (copy, rows[i].offset), G_STRUCT_MEMBER_P (self, rows[i].offset), size);
  }
  copy->kv_mode = self->kv_mode;
  copy->cache_salt = g_strdup (self->cache_salt);
  copy->stop = g_strdupv (self->stop);
  g_set_object (&copy->grammar, self->grammar);
  for (guint i = 0; i < self->stop_sequences->len; i++)
    tl_generate_config_add_stop_sequence (copy, g_ptr_array_index (self->stop_sequences, i));
  return copy;
}

void
tl_generate_config_add_stop_sequence (TlGenerateConfig *self, GBytes *ids)
{
  g_return_if_fail (TL_IS_GENERATE_CONFIG (self) && ids);
  g_ptr_array_add (self->stop_sequences, g_bytes_ref (ids));
}

void
tl_generate_config_clear_stop_sequences (TlGenerateConfig *self)
{
  g_return_if_fail (TL_IS_GENERATE_CONFIG (self));
  g_ptr_array_set_size (self->stop_sequences, 0);
}

static gboolean
refuse (GError **error, const char *name, double value, const char *rule)
{
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "%s is %g, but must be %s", name, value, rule);
  return FALSE;
}

gboolean
tl_generate_config_validate (TlGenerateConfig *self, GError **error)
{
  g_return_val_if_fail (TL_IS_GENERATE_CONFIG (self), FALSE);
  if (self->max_tokens < 1)
    return refuse (error, "max-tokens", self->max_tokens, "at least 1");
  if (!(self->temperature >= 0 && isfinite (self->temperature)))
    return refuse (error, "temperature", self->temperature, "a number >= 0");
  if (self->top_k > G_MAXINT32)
    return refuse (error, "top-k", self->top_k, "less than 2^31 (0 = off)");
  if (self->top_logprobs > 1024)
    return refuse (error, "top-logprobs", self->top_logprobs, "at most 1024");
  if (!(self->top_p > 0 && self->top_p <= 1))
    return refuse (error, "top-p", self->top_p, "greater than 0 and at most 1 (1 = off)");
  if (!(self->min_p >= 0 && self->min_p < 1))
    return refuse (error, "min-p", self->min_p, "at least 0 and less than 1 (0 = off)");
  if (!(self->repetition_penalty > 0 && isfinite (self->repetition_penalty)))
    return refuse (error, "repetition-penalty", self->repetition_penalty, "a number > 0 (1 = off)");
  if (!isfinite (self->presence_penalty))
    return refuse (error, "presence-penalty", self->presence_penalty, "a finite number");
  if (!isfinite (self->frequency_penalty))
    return refuse (error, "frequency-penalty", self->frequency_penalty, "a finite number");

  for (guint i = 0; i < self->stop_sequences->len; i++) {
    gsize size = g_bytes_get_size (g_ptr_array_index (self->stop_sequences, i));
    if (size == 0 || size % sizeof (gint32)) {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "stop-sequences: number %u has %" G_GSIZE_FORMAT
          " bytes, but must be one or more int32 ids", i, size);
      return FALSE;
    }
  }
  for (char **stop = self->stop; stop && *stop; stop++) {
    if (!**stop) {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "stop: string %d is empty; leave it out",
          (int) (stop - self->stop));
      return FALSE;
    }
  }
  return TRUE;
}

TlSamplerParams
tl_generate_config_sampler (const TlGenerateConfig *self)
{
  return (TlSamplerParams) {
    .temperature = (float) self->temperature, .top_k = self->top_k, .top_p = (float) self->top_p,
    .min_p = (float) self->min_p, .repetition_penalty = (float) self->repetition_penalty,
    .presence_penalty = (float) self->presence_penalty, .frequency_penalty = (float) self->frequency_penalty,
    .seed = self->seed,
  };
}
