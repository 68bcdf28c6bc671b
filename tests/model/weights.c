/* tests/model/weights.c — a written checkpoint reads back bit for bit, and must hold exactly what its descriptor asks for. */
#include <glib/gstdio.h>
#include <string.h>

#include "model/tl-weights.h"

typedef struct { char *folder, *path; TlDescriptor *descriptor; } Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  f->folder = g_dir_make_tmp ("tinyloop-XXXXXX", &error);
  g_assert_no_error (error);
  f->path = g_build_filename (f->folder, "m.tinyloop", NULL);
  TlDescriptor *d = f->descriptor = tl_descriptor_new ();
  d->vocab_size = d->vocab_padded = 10;
  d->d_model = d->d_state = 64;
  d->d_ff = 96;
  d->n_heads = 4;
  d->n_kv_heads = 2;
  d->head_dim = d->rope_dims = 16;
  d->max_seq_len = 32;
  d->n_blocks[TL_STACK_PRE] = 1;
  d->n_blocks[TL_STACK_LOOP] = 2;
  d->loops_max = 4;
  d->inject = TL_INJECT_LINEAR_CAT;
  d->norm_final = TL_NORM_REF_OWN;
  d->q_bias = TRUE;
  d->tie_head = TRUE;
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  g_unlink (f->path);
  g_assert_cmpint (g_rmdir (f->folder), ==, 0);         /* nothing else was left beside it */
  tl_descriptor_unref (f->descriptor);
  g_free (f->folder);
  g_free (f->path);
}

/* a quantised matrix of this shape with recognisable bytes; every part is one growing block of memory */
static TlMatrix
matrix_of (guint rows, guint cols, TlFormat format, TlOffset offset, guint8 *bytes)
{
  TlMatrix m = { .format = format, .rows = rows, .cols = cols, .offset = offset, .scale_format = TL_F16,
    .group = format < TL_INT8 ? 0 : 32 };
  m.data = bytes;
  m.scale = bytes + 1;
  m.zero = bytes + 2;
  m.minimum = (const guint16 *) (bytes + 4);
  return m;
}

/* writes all slots but the one named `without`; extra: one more tensor of that name */
static void
write_model (Fixture *f, TlFormat format, TlOffset offset, const char *without, const char *extra)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) slots = tl_weight_slots (f->descriptor, "m", &error);
  g_autoptr (TlCheckpointWriter) w = tl_checkpoint_writer_new (f->path, f->descriptor);
  g_autofree guint8 *bytes = g_malloc (1 << 16);
  gsize one = 1;
  for (guint i = 0; i < 1 << 16; i++)
    bytes[i] = i * 37 % 15;
  for (guint pass = 0; pass < 2; pass++)
    {
      if (pass)
        g_assert_true (tl_checkpoint_writer_begin (w, &error));
      for (guint i = 0; i < slots->len; i++)
        {
          const TlWeightSlot *s = g_ptr_array_index (slots, i);
          TlMatrix m = matrix_of (s->rows, s->cols, format, offset, bytes);
          gsize n = s->cols;
          if (g_strcmp0 (s->name, without) == 0)
            continue;
          if (!pass && s->is_matrix)
            tl_checkpoint_writer_add_matrix (w, s->name, &m);
          else if (!pass)
            tl_checkpoint_writer_add (w, s->name, "F32", 1, &n);
          else if (s->is_matrix)
            g_assert_true (tl_checkpoint_writer_write_matrix (w, &m, &error));
          else
            g_assert_true (tl_checkpoint_writer_write (w, bytes, n * 4, &error));
        }
      if (extra && !pass)
        tl_checkpoint_writer_add (w, extra, "U8", 1, &one);
      if (extra && pass)
        g_assert_true (tl_checkpoint_writer_write (w, bytes, 1, &error));
    }
  g_assert_true (tl_checkpoint_writer_finish (w, &error));
  g_assert_no_error (error);
}

static void
test_round_trip (Fixture *f, gconstpointer data)
{
  static const struct { TlFormat format; TlOffset offset; } kinds[] = {
    { TL_F32, TL_OFFSET_NONE }, { TL_F16, TL_OFFSET_NONE }, { TL_BF16, TL_OFFSET_NONE }, { TL_INT8, TL_OFFSET_NONE },
    { TL_INT8, TL_OFFSET_ZERO }, { TL_INT8, TL_OFFSET_MIN }, { TL_INT4, TL_OFFSET_NONE }, { TL_INT4, TL_OFFSET_ZERO },
    { TL_INT4, TL_OFFSET_MIN },
  };
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr (GError) error = NULL;
      write_model (f, kinds[i].format, kinds[i].offset, NULL, NULL);
      g_autoptr (TlCheckpoint) c = tl_checkpoint_open (f->path, &error);
      g_assert_no_error (error);
      g_assert_true (tl_checkpoint_verify (c, &error));
      g_autoptr (TlWeights) w = tl_weights_new (c, &error);
      g_assert_no_error (error);

      const TlMatrix *m = &w->blocks[TL_STACK_LOOP][1].down;
      g_assert_cmpint (m->format, ==, kinds[i].format);
      g_assert_cmpint (m->offset, ==, kinds[i].offset);
      g_assert_cmpuint (m->cols, ==, 96);
      g_assert_cmpuint ((guintptr) m->data % 64, ==, 0);
      g_assert_cmpuint (((const guint8 *) m->data)[5], ==, 5 * 37 % 15);
      g_assert_true (w->head.data == w->embed.data);
      g_assert_nonnull (w->blocks[TL_STACK_PRE][0].q_bias);
      g_assert_null (w->blocks[TL_STACK_PRE][0].k_bias);
      g_assert_nonnull (w->inject.data);
    }
}

static void
test_missing_and_unused_tensors_are_named (Fixture *f, gconstpointer data)
{
  static const struct { const char *without, *extra, *expected; } rows[] = {
    { "loop.1.attn.o.weight", NULL, "tensor 'loop.1.attn.o.weight' is missing" },
    { "final_norm.weight", NULL, "tensor 'final_norm.weight' is missing" },
    { NULL, "loop.2.attn.o.weight", "tensor 'loop.2.attn.o.weight' is not part" },
    { NULL, "tokenizer.whatever", NULL },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      write_model (f, TL_INT8, TL_OFFSET_NONE, rows[i].without, rows[i].extra);
      g_autoptr (TlCheckpoint) c = tl_checkpoint_open (f->path, &error);
      g_assert_no_error (error);
      g_autoptr (TlWeights) w = tl_weights_new (c, &error);
      g_assert_true ((w != NULL) == (rows[i].expected == NULL));
      if (!w && !strstr (error->message, rows[i].expected))
        g_error ("message \"%s\" lacks \"%s\"", error->message, rows[i].expected);
    }
}

static void
test_a_damaged_file_fails_verification (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *contents = NULL;
  gsize size;
  write_model (f, TL_INT4, TL_OFFSET_NONE, NULL, NULL);
  g_assert_true (g_file_get_contents (f->path, &contents, &size, &error));
  contents[size - 1] ^= 1;
  g_autoptr (GBytes) bytes = g_bytes_new (contents, size);
  g_autoptr (TlCheckpoint) c = tl_checkpoint_new_from_bytes (bytes, "m.tinyloop", &error);
  g_assert_no_error (error);
  g_assert_false (tl_checkpoint_verify (c, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
}

static void
test_axes_without_code_are_refused_by_name (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  f->descriptor->inject = TL_INJECT_DIAG_LTI;
  g_assert_null (tl_weight_slots (f->descriptor, "m", &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "inject.kind"));
  f->descriptor->inject = TL_INJECT_NONE;
  write_model (f, TL_F32, TL_OFFSET_NONE, NULL, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) g_test_add (path, Fixture, NULL, set_up, test, tear_down)
  ADD ("/weights/round-trip", test_round_trip);
  ADD ("/weights/missing-and-unused-tensors-are-named", test_missing_and_unused_tensors_are_named);
  ADD ("/weights/a-damaged-file-fails-verification", test_a_damaged_file_fails_verification);
  ADD ("/weights/axes-without-code-are-refused-by-name", test_axes_without_code_are_refused_by_name);
  return g_test_run ();
}
