/* model/tl-descriptor.c — reads, writes and checks a descriptor, all from one table of fields.
 *
 * A field is a dotted path in the JSON object, a type, a place in the struct and its legal range. A path or an enum
 * value that is not in the table is an error that names it: nothing in a file is silently ignored.
 * Called by the checkpoint's reader and writer and by the importers.
 */
#include "model/tl-descriptor-json.h"

#include <math.h>
#include <string.h>

#include "model/tl-json.h"

#define FORMAT_MAJOR 1
#define FORMAT_MINOR 0
#define MAX_TRAINED 4096
#define MAX_PLANES 65536

typedef enum { UINT, INT, FLOAT, DOUBLE, BOOL, ENUM, STRING, UINT_LIST } FieldType;
enum { REQUIRED = 1, OMIT_NULL = 2 };

typedef struct
{
  const char *path;
  FieldType type;
  gsize offset;
  double min, max;
  guint flags;
  const char *const *names;     /* of an enum's values, in order */
} Field;

#define NAMES(...) ((const char *const[]) { __VA_ARGS__, NULL })
#define AT(member) G_STRUCT_OFFSET (TlDescriptor, member)
#define U(path, member, min, max, flags) { path, UINT, AT (member), min, max, flags, NULL }
#define F(path, member, min, max) { path, FLOAT, AT (member), min, max, 0, NULL }
#define D(path, member, min, max) { path, DOUBLE, AT (member), min, max, 0, NULL }
#define B(path, member) { path, BOOL, AT (member), 0, 1, 0, NULL }
#define E(path, member, ...) { path, ENUM, AT (member), 0, 0, 0, NAMES (__VA_ARGS__) }

static const Field fields[] = {
  { "family", STRING, AT (family), 0, 256, OMIT_NULL, NULL },
  U ("format_version.major", format_major, 1, G_MAXUINT16, REQUIRED),
  U ("format_version.minor", format_minor, 0, G_MAXUINT16, REQUIRED),
  U ("arithmetic_version", arithmetic_version, 1, G_MAXUINT16, 0),
  { "content_hash", STRING, AT (content_hash), 64, 64, OMIT_NULL, NULL },

  U ("dims.vocab", vocab_size, 1, 1 << 24, REQUIRED),
  U ("dims.vocab_padded", vocab_padded, 1, 1 << 24, REQUIRED),
  U ("dims.d_model", d_model, 1, 1 << 17, REQUIRED),
  U ("dims.d_state", d_state, 1, 1 << 17, REQUIRED),
  U ("dims.d_ff", d_ff, 1, 1 << 20, REQUIRED),
  U ("dims.n_heads", n_heads, 1, 4096, REQUIRED),
  U ("dims.n_kv_heads", n_kv_heads, 1, 4096, REQUIRED),
  U ("dims.head_dim", head_dim, 1, 4096, REQUIRED),
  U ("dims.max_pos", max_seq_len, 1, 1 << 24, REQUIRED),
  U ("stacks.pre", n_blocks[TL_STACK_PRE], 0, 4096, REQUIRED),
  U ("stacks.loop", n_blocks[TL_STACK_LOOP], 0, 4096, REQUIRED),
  U ("stacks.coda", n_blocks[TL_STACK_CODA], 0, 4096, REQUIRED),

  E ("schedule", schedule, "looped", "nested_hl"),
  U ("loops.default", loops_default, 1, 4096, 0),
  U ("loops.min", loops_min, 1, 4096, 0),
  U ("loops.max", loops_max, 1, 4096, 0),
  { "loops.trained", UINT_LIST, AT (loops_trained), 1, 4096, OMIT_NULL, NULL },

  E ("state.init", state_init, "embed", "prelude", "zeros", "normal", "trunc_normal", "param"),
  F ("state.std", state_std, 0, 1e6),
  F ("state.clip", state_clip, 0, 1e6),
  F ("state.scale", state_scale, 0, 1e6),
  E ("inject.kind", inject, "none", "add", "linear_cat", "diag_lti", "residual_lti", "gated", "hyperconnect",
      "topk_embed_mix"),
  E ("inject.order", inject_order, "state_first", "input_first"),
  E ("inject.first_step", inject_first_step, "skip", "apply"),
  B ("inject.bias", inject_bias),
  E ("cond.kind", cond, "none", "adaln_time_dt", "adaln_time", "loop_sinusoid", "lora_per_loop"),
  B ("cond.depends_on_total", cond_depends_on_total),

  E ("norm.kind", norm, "rms", "layernorm"),
  F ("norm.eps", norm_eps, 0, 1),
  B ("norm.eps_from_dtype", norm_eps_from_dtype),
  B ("norm.affine", norm_affine),
  B ("norm.bias", norm_bias),
  B ("norm.unit_offset", norm_unit_offset),
  E ("block.norm_placement", placement, "pre", "post_out", "sandwich_out", "sandwich_resid", "adaln_gate"),
  E ("norms.embed", norm_embed, "none", "own", "final"),
  E ("norms.prelude_out", norm_prelude_out, "none", "own", "final"),
  E ("norms.loop_end", norm_loop_end, "none", "own", "final"),
  E ("norms.pre_coda", norm_pre_coda, "none", "own", "final"),
  E ("norms.final", norm_final, "none", "own", "final"),
  B ("post_loop_linear", post_loop_linear),

  B ("attn.q_bias", q_bias),
  B ("attn.k_bias", k_bias),
  B ("attn.v_bias", v_bias),
  B ("attn.o_bias", o_bias),
  B ("attn.qk_bias_pre_rope", qk_bias_pre_rope),
  E ("attn.qk_norm", qk_norm, "none", "head", "full_width"),
  E ("attn.qk_norm_when", qk_norm_when, "pre_rope", "post_rope"),
  B ("attn.qk_norm_affine", qk_norm_affine),
  F ("attn.qk_norm_eps", qk_norm_eps, 0, 1),
  E ("attn.out_gate", out_gate, "none", "sigmoid"),
  B ("attn.value_embed", value_embed),
  U ("attn.value_embed_gate_dims", value_embed_gate_dims, 0, 1 << 17, 0),
  E ("attn.mask", mask, "causal", "prefix_bidir"),
  U ("attn.window", window, 0, 1 << 24, 0),
  F ("attn.scale", attn_scale, 0, 1e6),
  F ("attn.softcap", attn_softcap, 0, 1e6),

  E ("pos.kind", pos, "rope", "learned", "none"),
  E ("rope.layout", rope_layout, "half", "interleaved"),
  { "rope.sign", INT, AT (rope_sign), -1, 1, 0, NULL },
  D ("rope.theta", rope_theta, 1e-3, 1e15),
  U ("rope.dims", rope_dims, 0, 4096, 0),
  E ("rope.scaling", rope_scaling, "none", "linear", "llama3", "factors", "yarn"),
  D ("rope.factor", rope_factor, 1e-6, 1e6),
  D ("rope.low_freq_factor", rope_low_freq_factor, 1e-6, 1e6),
  D ("rope.high_freq_factor", rope_high_freq_factor, 1e-6, 1e6),
  U ("rope.original_max", rope_original_max, 0, 1 << 24, 0),
  E ("rope.table_dtype", rope_table_dtype, "f32", "bf16", "f16"),

  E ("mlp.kind", mlp, "swiglu", "gelu_erf", "gelu_tanh", "relu2", "geglu_tanh"),
  B ("mlp.bias", mlp_bias),
  F ("mlp.act_scale", mlp_act_scale, -1e6, 1e6),
  F ("embed_scale", embed_scale, -1e6, 1e6),
  B ("tie_head", tie_head),
  B ("head_bias", head_bias),
  F ("logit_scale", logit_scale, -1e6, 1e6),
  F ("logit_softcap", logit_softcap, 0, 1e6),
  E ("exit.kind", exit_gate, "none", "hazard_cdf"),
  F ("exit.threshold", exit_threshold, 0, 1e6),
  E ("readout", readout, "last", "at_exit", "expected_logits"),
  E ("history", history_keep, "none", "keep"),
};

static const Field *
find_field (const char *path)
{
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    if (strcmp (fields[i].path, path) == 0)
      return &fields[i];
  return NULL;
}

const char *
tl_descriptor_enum_name (const char *path, guint value)
{
  const Field *field = find_field (path);
  g_return_val_if_fail (field != NULL && field->names != NULL, NULL);
  return value < g_strv_length ((char **) field->names) ? field->names[value] : "?";
}

TlDescriptor *
tl_descriptor_new (void)
{
  TlDescriptor *d = g_new0 (TlDescriptor, 1);
  d->ref_count = 1;
  d->format_major = FORMAT_MAJOR;
  d->format_minor = FORMAT_MINOR;
  d->arithmetic_version = 1;
  d->loops_default = d->loops_min = d->loops_max = 1;
  d->state_scale = 1;
  d->inject_first_step = TRUE;
  d->norm_eps = 1e-5f;
  d->norm_affine = TRUE;
  d->norm_final = TL_NORM_REF_OWN;
  d->qk_norm_affine = TRUE;
  d->rope_sign = 1;
  d->rope_theta = 10000;
  d->rope_factor = d->rope_low_freq_factor = d->rope_high_freq_factor = 1;
  d->mlp_act_scale = d->embed_scale = d->logit_scale = 1;
  d->exit_threshold = 1;
  return d;
}

TlDescriptor *
tl_descriptor_ref (TlDescriptor *d)
{
  g_atomic_int_inc (&d->ref_count);
  return d;
}

void
tl_descriptor_unref (TlDescriptor *d)
{
  if (d == NULL || !g_atomic_int_dec_and_test (&d->ref_count))
    return;
  g_free (d->family);
  g_free (d->content_hash);
  g_free (d->loops_trained);
  g_free (d->json);
  g_free (d);
}

/* --- reading --- */

static gboolean
bad_field (GError **error, const char *file, const char *path, const char *what)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: descriptor field '%s' %s", file, path, what);
  return FALSE;
}

static gboolean
check_range (const Field *field, double value, const char *file, GError **error)
{
  if (value >= field->min && value <= field->max)       /* false for NaN */
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: descriptor field '%s' is %g, expected %g to %g", file,
      field->path, value, field->min, field->max);
  return FALSE;
}

static gboolean
read_number (const Field *field, JsonNode *node, gboolean whole, double *value, const char *file, GError **error)
{
  GType type = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_value_type (node) : G_TYPE_INVALID;
  if (type != G_TYPE_INT64 && (whole || type != G_TYPE_DOUBLE))
    return bad_field (error, file, field->path, whole ? "is not a whole number" : "is not a number");
  *value = json_node_get_double (node);
  return check_range (field, *value, file, error);
}

static gboolean
read_enum (const Field *field, JsonNode *node, guint *value, const char *file, GError **error)
{
  const char *name = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
  for (guint i = 0; name != NULL && field->names[i] != NULL; i++)
    if (strcmp (field->names[i], name) == 0)
      {
        *value = i;
        return TRUE;
      }
  g_autofree char *known = g_strjoinv (", ", (char **) field->names);
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE,
      "%s: descriptor field '%s' has the unknown value '%s'; this version knows %s", file, field->path,
      name ? name : "(no text)", known);
  return FALSE;
}

static gboolean
read_list (const Field *field, JsonNode *node, TlDescriptor *d, const char *file, GError **error)
{
  if (!JSON_NODE_HOLDS_ARRAY (node) || json_array_get_length (json_node_get_array (node)) > MAX_TRAINED)
    return bad_field (error, file, field->path, "is not a list of at most 4096 numbers");

  JsonArray *array = json_node_get_array (node);
  d->n_loops_trained = json_array_get_length (array);
  d->loops_trained = g_new0 (guint, MAX (d->n_loops_trained, 1));
  for (guint i = 0; i < d->n_loops_trained; i++)
    {
      double value;
      if (!read_number (field, json_array_get_element (array, i), TRUE, &value, file, error))
        return FALSE;
      d->loops_trained[i] = value;
    }
  return TRUE;
}

static gboolean
read_field (const Field *field, JsonNode *node, TlDescriptor *d, const char *file, GError **error)
{
  void *place = (guint8 *) d + field->offset;
  double value = 0;

  switch (field->type)
    {
    case UINT:
    case INT:
      if (!read_number (field, node, TRUE, &value, file, error))
        return FALSE;
      if (field->type == UINT)
        *(guint *) place = value;
      else
        *(gint *) place = value;
      return TRUE;
    case FLOAT:
    case DOUBLE:
      if (!read_number (field, node, FALSE, &value, file, error))
        return FALSE;
      if (field->type == FLOAT)
        *(float *) place = value;
      else
        *(double *) place = value;
      return TRUE;
    case BOOL:
      if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_BOOLEAN)
        return bad_field (error, file, field->path, "is neither true nor false");
      *(gboolean *) place = json_node_get_boolean (node);
      return TRUE;
    case ENUM:
      return read_enum (field, node, place, file, error);
    case STRING:
      if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
        return bad_field (error, file, field->path, "is not a text");
      if (strlen (json_node_get_string (node)) < field->min || strlen (json_node_get_string (node)) > field->max)
        return bad_field (error, file, field->path, "has a wrong length");
      *(char **) place = g_strdup (json_node_get_string (node));
      return TRUE;
    case UINT_LIST:
      return read_list (field, node, d, file, error);
    }
  g_assert_not_reached ();
}

static gboolean
read_object (JsonObject *object, const char *prefix, TlDescriptor *d, guint64 *seen, const char *file, GError **error)
{
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;

  json_object_iter_init (&iter, object);
  while (json_object_iter_next (&iter, &name, &node))
    {
      g_autofree char *path = g_strconcat (prefix, name, NULL);
      const Field *field = find_field (path);

      if (strcmp (path, "tensors") == 0)
        continue;
      if (field != NULL)
        {
          gsize i = field - fields;
          if (!read_field (field, node, d, file, error))
            return FALSE;
          seen[i / 64] |= G_GUINT64_CONSTANT (1) << (i % 64);
        }
      else if (*prefix == '\0' && JSON_NODE_HOLDS_OBJECT (node))
        {
          g_autofree char *inner = g_strconcat (name, ".", NULL);
          if (!read_object (json_node_get_object (node), inner, d, seen, file, error))
            return FALSE;
        }
      else
        return bad_field (error, file, path, "is unknown to this version");
    }
  return TRUE;
}

TlDescriptor *
tl_descriptor_from_object (JsonObject *object, const char *file_name, GError **error)
{
  g_autoptr (TlDescriptor) d = tl_descriptor_new ();
  guint64 seen[(G_N_ELEMENTS (fields) + 63) / 64] = { 0 };

  /* a newer major version may have changed anything: say so before naming a field */
  if (json_object_has_member (object, "format_version"))
    {
      JsonNode *version = json_object_get_member (object, "format_version");
      JsonObject *inner = JSON_NODE_HOLDS_OBJECT (version) ? json_node_get_object (version) : NULL;
      gint64 major = inner ? json_object_get_int_member_with_default (inner, "major", 0) : 0;
      if (major > FORMAT_MAJOR)
        {
          g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
              "%s: has format version %" G_GINT64_FORMAT ", this version reads up to %d; convert the model again or update",
              file_name, major, FORMAT_MAJOR);
          return NULL;
        }
    }

  if (!read_object (object, "", d, seen, file_name, error))
    return NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    if ((fields[i].flags & REQUIRED) && !(seen[i / 64] >> (i % 64) & 1))
      {
        bad_field (error, file_name, fields[i].path, "is missing");
        return NULL;
      }
  if (!tl_descriptor_validate (d, file_name, error))
    return NULL;
  return g_steal_pointer (&d);
}

TlDescriptor *
tl_descriptor_parse (const char *json, gssize length, const char *file_name, GError **error)
{
  gsize n = length < 0 ? strlen (json) : length;
  g_autofree char *where = g_strdup_printf ("%s: descriptor", file_name);
  g_autoptr (JsonNode) root = tl_json_parse (json, n, 1 << 20, where, error);
  if (root == NULL)
    return NULL;

  TlDescriptor *d = tl_descriptor_from_object (json_node_get_object (root), file_name, error);
  if (d != NULL)
    d->json = g_strndup (json, n);
  return d;
}

/* --- writing --- */

static JsonNode *
write_field (const Field *field, const TlDescriptor *d)
{
  const void *place = (const guint8 *) d + field->offset;
  JsonNode *node = json_node_alloc ();

  switch (field->type)
    {
    case UINT:
      return json_node_init_int (node, *(const guint *) place);
    case INT:
      return json_node_init_int (node, *(const gint *) place);
    case FLOAT:
      return json_node_init_double (node, *(const float *) place);
    case DOUBLE:
      return json_node_init_double (node, *(const double *) place);
    case BOOL:
      return json_node_init_boolean (node, *(const gboolean *) place);
    case ENUM:
      return json_node_init_string (node, field->names[*(const guint *) place]);
    case STRING:
      return json_node_init_string (node, *(char *const *) place);
    case UINT_LIST:
      {
        JsonArray *array = json_array_new ();
        for (guint i = 0; i < d->n_loops_trained; i++)
          json_array_add_int_element (array, d->loops_trained[i]);
        json_node_init (node, JSON_NODE_ARRAY);
        json_node_take_array (node, array);
        return node;
      }
    }
  g_assert_not_reached ();
}

JsonObject *
tl_descriptor_to_object (const TlDescriptor *d)
{
  JsonObject *root = json_object_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    {
      const Field *field = &fields[i];
      const char *dot = strchr (field->path, '.');
      JsonObject *to = root;

      if ((field->flags & OMIT_NULL) && *(void *const *) ((const guint8 *) d + field->offset) == NULL)
        continue;
      if (dot != NULL)
        {
          g_autofree char *section = g_strndup (field->path, dot - field->path);
          if (!json_object_has_member (root, section))
            json_object_set_object_member (root, section, json_object_new ());
          to = json_object_get_object_member (root, section);
        }
      json_object_set_member (to, dot ? dot + 1 : field->path, write_field (field, d));
    }
  return root;
}

char *
tl_descriptor_to_json (const TlDescriptor *d)
{
  g_autoptr (JsonNode) node = json_node_alloc ();
  json_node_init (node, JSON_NODE_OBJECT);
  json_node_take_object (node, tl_descriptor_to_object (d));
  return json_to_string (node, FALSE);
}

/* --- checking --- */

static gboolean
validate_ranges (const TlDescriptor *d, const char *file, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (fields); i++)
    {
      const Field *field = &fields[i];
      const void *place = (const guint8 *) d + field->offset;
      double value;

      switch (field->type)
        {
        case UINT:
          value = *(const guint *) place;
          break;
        case INT:
          value = *(const gint *) place;
          break;
        case FLOAT:
          value = *(const float *) place;
          break;
        case DOUBLE:
          value = *(const double *) place;
          break;
        case ENUM:
          if (*(const guint *) place >= g_strv_length ((char **) field->names))
            return bad_field (error, file, field->path, "has an unknown value");
          continue;
        default:
          continue;
        }
      if (!check_range (field, value, file, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
tl_descriptor_validate (const TlDescriptor *d, const char *file_name, GError **error)
{
  if (!validate_ranges (d, file_name, error))
    return FALSE;

  guint64 planes = d->n_blocks[TL_STACK_PRE] + (guint64) d->n_blocks[TL_STACK_LOOP] * d->loops_max
      + d->n_blocks[TL_STACK_CODA];
  const struct { gboolean broken; const char *path, *what; } rules[] = {
    { d->vocab_padded < d->vocab_size, "dims.vocab_padded", "is smaller than dims.vocab" },
    { d->n_heads % d->n_kv_heads != 0, "dims.n_heads", "is no multiple of dims.n_kv_heads" },
    { (guint64) d->n_heads * d->head_dim > 1 << 20, "dims.head_dim", "times dims.n_heads is larger than 1048576" },
    { planes == 0, "stacks.loop", "and all other stacks are empty" },
    { planes > MAX_PLANES, "loops.max", "times stacks.loop gives more than 65536 cache planes" },
    { d->loops_min > d->loops_default || d->loops_default > d->loops_max, "loops.default",
      "is not between loops.min and loops.max" },
    { d->pos == TL_POS_ROPE && (d->rope_dims == 0 || d->rope_dims % 2 != 0 || d->rope_dims > d->head_dim), "rope.dims",
      "is not an even number from 2 to dims.head_dim" },
    { d->rope_sign == 0, "rope.sign", "is neither 1 nor -1" },
    { d->rope_scaling == TL_ROPE_SCALING_LLAMA3
          && (d->rope_original_max == 0 || !(d->rope_high_freq_factor > d->rope_low_freq_factor)), "rope.scaling",
      "is llama3 but rope.original_max is 0 or rope.high_freq_factor does not exceed rope.low_freq_factor" },
    { d->norm_final == TL_NORM_REF_FINAL, "norms.final", "cannot refer to itself" },
    { d->n_blocks[TL_STACK_LOOP] == 0 && d->inject != TL_INJECT_NONE, "inject.kind", "needs loop blocks" },
    { d->n_blocks[TL_STACK_LOOP] == 0 && d->exit_gate != TL_EXIT_NONE, "exit.kind", "needs loop blocks" },
    { d->tie_head && d->head_bias, "head_bias", "cannot be used with a tied head" },
    { d->exit_gate == TL_EXIT_NONE && d->readout != TL_READOUT_LAST, "readout", "needs an exit gate" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rules); i++)
    if (rules[i].broken)
      return bad_field (error, file_name, rules[i].path, rules[i].what);
  return TRUE;
}
