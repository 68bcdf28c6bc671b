/* tests/forward/tiny-model.c — see tiny-model.h. Only exactly rounded operations, so that the bytes never differ. */
#include "tiny-model.h"

#include <glib/gstdio.h>
#include <math.h>
#include <unistd.h>

/* xorshift64*, Vigna (2016) */
static guint32
next (guint64 *state)
{
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (*state * 0x2545f4914f6cdd1dull) >> 32;
}

/* -1 … 1 */
static float
uniform (guint64 *state)
{
  return (float) (gint32) next (state) * 0x1p-31f;
}

guint32
tiny_model_id (const TinyModel *m, guint t)
{
  guint64 state = 88172645463325252ull + 7919ull * t;
  next (&state);
  return next (&state) % m->vocab_size;
}

TlDescriptor *
tiny_model_descriptor (const TinyModel *m)
{
  TlDescriptor *d = tl_descriptor_new ();
  d->vocab_size = d->vocab_padded = m->vocab_size;
  d->d_model = d->d_state = m->d_model;
  d->d_ff = m->d_ff;
  d->n_heads = m->n_heads;
  d->n_kv_heads = m->n_kv_heads;
  d->head_dim = m->head_dim;
  d->rope_dims = m->head_dim / 2 * 2;
  d->max_seq_len = m->max_seq_len;
  d->n_blocks[TL_STACK_PRE] = d->n_blocks[TL_STACK_LOOP] = d->n_blocks[TL_STACK_CODA] = 1;
  d->loops_default = 2;
  d->loops_max = 4;
  d->state_init = TL_STATE_INIT_PRELUDE;
  d->inject = TL_INJECT_LINEAR_CAT;
  d->norm_final = d->norm_loop_end = TL_NORM_REF_OWN;
  d->q_bias = d->mlp_bias = TRUE;
  d->qk_norm = TL_QK_NORM_HEAD;
  return d;
}

static void
put (gpointer to, TlFormat format, gsize i, float value)
{
  if (format == TL_F32)
    ((float *) to)[i] = value;
  else
    ((guint16 *) to)[i] = format == TL_F16 ? tl_f32_to_f16 (value) : tl_f32_to_bf16 (value);
}

typedef struct { gpointer data, scale, zero, minimum; } Memory;

/* random values with a deviation of about 1 / sqrt (cols) */
static TlMatrix
make_matrix (const TinyModel *m, guint rows, guint cols, guint64 *state, Memory *memory)
{
  TlMatrix x = { .format = m->format, .rows = rows, .cols = cols, .offset = m->offset, .scale_format = m->scale_format,
    .group = MIN (m->group, cols) };
  gsize bytes = rows * tl_matrix_row_bytes (&x), groups = (gsize) rows * tl_matrix_n_groups (&x);
  float size = 1.0f / sqrtf (cols), step = size / (m->format == TL_INT8 ? 74.0f : 4.6f);
  float middle = m->format == TL_INT4 ? 7.5f : 0.0f;
  *memory = (Memory) { g_malloc (bytes), g_malloc (groups * 4 + 1), g_malloc (groups + 1), g_malloc (groups * 2 + 1) };
  for (gsize i = 0; m->group && i < bytes; i++)
    ((guint8 *) memory->data)[i] = next (state) >> 24;
  for (gsize i = 0; !m->group && i < (gsize) rows * cols; i++)
    put (memory->data, m->format, i, uniform (state) * 1.7f * size);
  for (gsize i = 0; i < groups; i++)
    {
      float scale = step * (1.0f + 0.5f * uniform (state));
      put (memory->scale, m->scale_format, i, scale);
      ((guint8 *) memory->zero)[i] = (m->format == TL_INT4 ? 6 : 0) + (next (state) >> 30);
      put (memory->minimum, TL_F16, i, -middle * scale + 0.2f * size * uniform (state));
    }
  x.data = memory->data;
  x.scale = groups ? memory->scale : NULL;
  x.zero = m->offset == TL_OFFSET_ZERO ? memory->zero : NULL;
  x.minimum = m->offset == TL_OFFSET_MIN ? memory->minimum : NULL;
  return x;
}

static void
write_vector (TlCheckpointWriter *w, const TlWeightSlot *s, guint64 *state, GError **error)
{
  float *v = g_new (float, s->cols);
  for (guint i = 0; i < s->cols; i++)
    v[i] = (g_str_has_suffix (s->name, "norm.weight") ? 1.0f : 0.0f) + 0.1f * uniform (state);
  tl_checkpoint_writer_write (w, v, s->cols * sizeof (float), error);
  g_free (v);
}

/* twice the same walk: sizes, then bytes */
static void
walk_slots (const TinyModel *m, GPtrArray *slots, TlCheckpointWriter *w, gboolean bytes, GError **error)
{
  guint64 state = 0x9e3779b97f4a7c15ull;
  for (guint i = 0; i < slots->len && !*error; i++)
    {
      const TlWeightSlot *s = g_ptr_array_index (slots, i);
      gsize n = s->cols;
      if (!s->is_matrix && bytes)
        write_vector (w, s, &state, error);
      else if (!s->is_matrix)
        tl_checkpoint_writer_add (w, s->name, "F32", 1, &n);
      else
        {
          Memory memory;
          TlMatrix x = make_matrix (m, s->rows, s->cols, &state, &memory);
          if (bytes)
            tl_checkpoint_writer_write_matrix (w, &x, error);
          else
            tl_checkpoint_writer_add_matrix (w, s->name, &x);
          g_free (memory.data);
          g_free (memory.scale);
          g_free (memory.zero);
          g_free (memory.minimum);
        }
    }
}

char *
tiny_model_write_descriptor (const TinyModel *m, TlDescriptor *d)
{
  GError *error = NULL;
  char *path;
  int fd = g_file_open_tmp ("tiny-XXXXXX.tinyloop", &path, &error);
  g_assert_no_error (error);
  close (fd);
  g_autoptr (GPtrArray) slots = tl_weight_slots (d, "tiny", &error);
  g_assert_no_error (error);
  g_autoptr (TlCheckpointWriter) w = tl_checkpoint_writer_new (path, d);
  walk_slots (m, slots, w, FALSE, &error);
  tl_checkpoint_writer_begin (w, &error);
  g_assert_no_error (error);
  walk_slots (m, slots, w, TRUE, &error);
  g_assert_no_error (error);
  tl_checkpoint_writer_finish (w, &error);
  g_assert_no_error (error);
  return path;
}

char *
tiny_model_write (const TinyModel *m)
{
  g_autoptr (TlDescriptor) d = tiny_model_descriptor (m);
  return tiny_model_write_descriptor (m, d);
}
