/* tests/model/checkpoint.c — the reader accepts a whole file and names what is wrong with a broken one. */
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "model/tl-checkpoint.h"
#include "tl-model.h"

#define GOOD_ENTRIES "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}," \
  "\"v\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[24,32]}"

static char *
escaped (const char *text)
{
  GString *s = g_string_new (NULL);
  for (; *text; text++)
    g_string_append_printf (s, *text == '"' || *text == '\\' ? "\\%c" : *text == '\n' ? "\\n" : "%c", *text);
  return g_string_free (s, FALSE);
}

static TlDescriptor *
small_descriptor (void)
{
  TlDescriptor *d = tl_descriptor_new ();
  d->vocab_size = d->vocab_padded = 16;
  d->d_model = d->d_state = 8;
  d->d_ff = 16;
  d->n_heads = 2;
  d->n_kv_heads = 1;
  d->head_dim = 4;
  d->rope_dims = 4;
  d->max_seq_len = 64;
  d->n_blocks[TL_STACK_LOOP] = 1;
  return d;
}

/* a file with these header entries, `tensors` object in its descriptor and data bytes 0, 1, 2, … */
static GBytes *
file_with (const char *entries, const char *tensors, gsize data_size)
{
  g_autoptr (TlDescriptor) d = small_descriptor ();
  g_autofree char *json = tl_descriptor_to_json (d);
  char *end = strrchr (json, '}');
  g_autofree char *full = g_strdup_printf ("%.*s,\"tensors\":{%s}}", (int) (end - json), json, tensors);
  g_autofree char *inner = escaped (full);
  g_autofree char *header = g_strdup_printf ("{\"__metadata__\":{\"tinyloop\":\"%s\"},%s}", inner, entries);
  guint64 length = GUINT64_TO_LE (strlen (header));
  GByteArray *file = g_byte_array_new ();
  g_byte_array_append (file, (guint8 *) &length, 8);
  g_byte_array_append (file, (guint8 *) header, strlen (header));
  for (gsize i = 0; i < data_size; i++)
    {
      guint8 byte = i;
      g_byte_array_append (file, &byte, 1);
    }
  return g_byte_array_free_to_bytes (file);
}

static void
assert_refused (GBytes *file, const char *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlCheckpoint) c = tl_checkpoint_new_from_bytes (file, "x.tinyloop", &error);
  g_assert_null (c);
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
  g_assert_nonnull (strstr (error->message, "x.tinyloop"));
  if (!strstr (error->message, expected))
    g_error ("message \"%s\" lacks \"%s\"", error->message, expected);
}

static void
test_a_whole_file_is_read (void)
{
  g_autoptr (GBytes) file = file_with (GOOD_ENTRIES, "", 32);
  g_autoptr (GError) error = NULL;
  g_autoptr (TlCheckpoint) c = tl_checkpoint_new_from_bytes (file, "x.tinyloop", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (tl_checkpoint_n_tensors (c), ==, 2);
  g_assert_cmpuint (tl_checkpoint_descriptor (c)->d_model, ==, 8);

  TlMatrix m;
  g_assert_true (tl_checkpoint_matrix (c, "a.weight", 2, 3, &m, &error));
  g_assert_cmpint (m.format, ==, TL_F32);
  g_assert_cmpmem (m.data, 4, "\0\1\2\3", 4);
  g_autofree float *v = tl_checkpoint_vector (c, "v", 4, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (v[0], ==, tl_f16_to_f32 (0x1918));

  g_assert_false (tl_checkpoint_matrix (c, "a.weight", 3, 2, &m, &error));
  g_assert_nonnull (strstr (error->message, "has shape [2, 3], expected [3, 2]"));
  g_clear_error (&error);
  g_assert_false (tl_checkpoint_matrix (c, "b.weight", 3, 2, &m, &error));
  g_assert_nonnull (strstr (error->message, "tensor 'b.weight' is missing"));
}

static void
test_quantised_matrices_need_all_parts (void)
{
  const char *parts = "\"w.weight\":{\"dtype\":\"U8\",\"shape\":[2,16],\"data_offsets\":[0,32]},"
      "\"w.scale\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[32,36]}";
  static const struct { const char *info, *expected; } rows[] = {
    { "\"w.weight\":{\"format\":\"int4\",\"group\":32,\"scale\":\"F16\",\"offset\":\"none\"}", NULL },
    { "\"w.weight\":{\"format\":\"int4\",\"group\":32,\"scale\":\"F32\",\"offset\":\"none\"}", "has dtype F16, expected F32" },
    { "\"w.weight\":{\"format\":\"int4\",\"group\":32,\"scale\":\"F16\",\"offset\":\"min\"}", "'w.min' is missing" },
    { "\"w.weight\":{\"format\":\"int4\",\"group\":32,\"scale\":\"F16\",\"offset\":\"zero\"}", "'w.zero' is missing" },
    { "\"w.weight\":{\"format\":\"int4\",\"group\":16,\"scale\":\"F16\",\"offset\":\"none\"}", "groups of 16" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GBytes) file = file_with (parts, rows[i].info, 36);
      g_autoptr (GError) error = NULL;
      g_autoptr (TlCheckpoint) c = tl_checkpoint_new_from_bytes (file, "x.tinyloop", &error);
      TlMatrix m;
      g_assert_no_error (error);
      gboolean ok = tl_checkpoint_matrix (c, "w.weight", 2, 32, &m, &error);
      g_assert_cmpint (ok, ==, rows[i].expected == NULL);
      if (!ok && !strstr (error->message, rows[i].expected))
        g_error ("message \"%s\" lacks \"%s\"", error->message, rows[i].expected);
    }
}

static void
test_broken_headers_are_named (void)
{
#define V "\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
  static const struct { const char *entries; const char *tensors; gsize data; const char *expected; } rows[] = {
    { GOOD_ENTRIES, "", 31, "beyond the end" },
    { GOOD_ENTRIES, "", 33, "belong to none" },
    { V "[0,9]}", "", 9, "'v' has data_offsets that do not fit" },
    { V "[8,0]}", "", 8, "'v' has data_offsets that do not fit" },
    { V "[-8,0]}", "", 8, "'v' has data_offsets that do not fit" },
    { V "[4,12]}", "", 12, "'v' leaves a hole" },
    { V "[0]}", "", 8, "'v' lacks" },
    { V "\"0,8\"}", "", 8, "'v' lacks" },
    { "\"v\":1", "", 8, "'v' is not described" },
    { "\"v\":{\"dtype\":\"F8\",\"shape\":[8],\"data_offsets\":[0,8]}", "", 8, "dtype 'F8'" },
    { "\"v\":{\"dtype\":\"U8\",\"shape\":[-8],\"data_offsets\":[0,8]}", "", 8, "impossible shape" },
    { "\"v\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,8]}", "", 8, "impossible" },
    { "\"v\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,8],\"data_offsets\":[0,8]}", "", 8, "9 dimensions" },
    { GOOD_ENTRIES, "\"a.weight\":{\"format\":\"int3\"}", 32, "'int3'" },
    { GOOD_ENTRIES, "\"a.weight\":{\"format\":\"int8\",\"group\":0,\"scale\":\"F16\",\"offset\":\"none\"}", 32, "group" },
    { GOOD_ENTRIES, "\"a.weight\":7", 32, "tensors.a.weight is no object" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GBytes) file = file_with (rows[i].entries, rows[i].tensors, rows[i].data);
      assert_refused (file, rows[i].expected);
    }
}

static void
test_every_truncation_is_refused (void)
{
  g_autoptr (GBytes) file = file_with (GOOD_ENTRIES, "", 32);
  for (gsize n = 0; n < g_bytes_get_size (file); n++)
    {
      /* an exact copy, so that a sanitizer sees a read past the end */
      g_autoptr (GBytes) cut = g_bytes_new (g_bytes_get_data (file, NULL), n);
      assert_refused (cut, "x.tinyloop");
    }
}

static void
test_every_flipped_byte_is_survived (void)
{
  g_autoptr (GBytes) file = file_with (GOOD_ENTRIES, "", 32);
  gsize size;
  const guint8 *data = g_bytes_get_data (file, &size);
  guint refused = 0;
  for (gsize i = 0; i < size; i++)
    for (guint bit = 0; bit < 8; bit += 3)
      {
        g_autofree guint8 *copy = g_memdup2 (data, size);
        g_autoptr (GError) error = NULL;
        copy[i] ^= 1 << bit;
        g_autoptr (GBytes) bytes = g_bytes_new (copy, size);
        g_autoptr (TlCheckpoint) c = tl_checkpoint_new_from_bytes (bytes, "x.tinyloop", &error);
        refused += c == NULL;
        g_assert_true ((c == NULL) == (error != NULL));
      }
  g_assert_cmpuint (refused, >, size);
}

static void
test_missing_and_foreign_files (void)
{
  g_autoptr (GError) error = NULL;
  g_assert_null (tl_checkpoint_open ("/nonexistent/m.tinyloop", &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
  g_assert_nonnull (strstr (error->message, "m.tinyloop"));
  g_clear_error (&error);

  const char plain[] = "\x15\0\0\0\0\0\0\0{\"__metadata__\":{}  }";
  g_autoptr (GBytes) file = g_bytes_new (plain, sizeof plain - 1);
  g_assert_null (tl_checkpoint_new_from_bytes (file, "x.tinyloop", &error));
  g_assert_nonnull (strstr (error->message, "tinyloop convert"));
}

/* nobody writes to it, so that whoever waited would wait for ever */
static void
test_a_pipe_is_refused_at_once (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("tl-pipe-XXXXXX", NULL), *path = g_build_filename (folder, "p.json", NULL);

  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  g_assert_null (tl_checkpoint_open (path, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
  g_assert_nonnull (strstr (error->message, "p.json: is not a regular file"));
  g_clear_error (&error);
  g_assert_null (tl_checkpoint_open_header (path, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
  g_clear_error (&error);
  g_assert_null (tl_tokenizer_new_for_path (path, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
  g_unlink (path);
  g_rmdir (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/checkpoint/a-whole-file-is-read", test_a_whole_file_is_read);
  g_test_add_func ("/checkpoint/quantised-matrices-need-all-parts", test_quantised_matrices_need_all_parts);
  g_test_add_func ("/checkpoint/broken-headers-are-named", test_broken_headers_are_named);
  g_test_add_func ("/checkpoint/every-truncation-is-refused", test_every_truncation_is_refused);
  g_test_add_func ("/checkpoint/every-flipped-byte-is-survived", test_every_flipped_byte_is_survived);
  g_test_add_func ("/checkpoint/missing-and-foreign-files", test_missing_and_foreign_files);
  g_test_add_func ("/checkpoint/a-pipe-is-refused-at-once", test_a_pipe_is_refused_at_once);
  return g_test_run ();
}
