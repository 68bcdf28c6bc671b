/* tests/import/gguf.c — GGUF files to checkpoints: values bit for bit, formats kept, damaged files refused. */
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "import/tl-gguf.h"
#include "import/tl-import.h"
#include "tl-convert.h"

typedef struct { const char *folder; TlFormat format; TlOffset offset; const char *origin; } Case;

static const Case cases[] = {
  { "gguf_llama_q4_0", TL_INT4, TL_OFFSET_NONE, "Q4_0" }, { "gguf_llama_q4_1", TL_INT4, TL_OFFSET_MIN, "Q4_1" },
  { "gguf_llama_q8_0", TL_INT8, TL_OFFSET_NONE, "Q8_0" }, { "gguf_llama_q4_k", TL_F32, TL_OFFSET_NONE, "Q4_K" },
  { "gguf_llama_q6_k", TL_F32, TL_OFFSET_NONE, "Q6_K" },
};

static char *
golden (const char *folder, const char *file)
{
  return g_build_filename (g_getenv ("TINYLOOP_SHARED"), "goldens", folder, file, NULL);
}

static char *
temporary (void)
{
  g_autoptr (GError) error = NULL;
  char *path = NULL;
  int fd = g_file_open_tmp ("tinyloop-XXXXXX", &path, &error);
  g_assert_no_error (error);
  g_close (fd, NULL);
  return path;
}

/* every slot of the checkpoint has the values that the source's own formats mean */
static void
test_values_survive (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (GError) error = NULL;
  g_autofree char *src = golden (c->folder, "model.gguf"), *dst = temporary ();
  if (!g_file_test (src, G_FILE_TEST_EXISTS))
    {
      g_test_skip ("no goldens here");
      return;
    }

  g_assert_true (tl_convert_file (src, dst, "none", 0, NULL, NULL, NULL, NULL, &error));
  g_assert_no_error (error);
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (dst, &error);
  g_assert_no_error (error);
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, &error);
  g_assert_no_error (error);
  TlImportSource *source = tl_import_open (src, &error);
  g_assert_no_error (error);

  g_autoptr (GPtrArray) slots = tl_weight_slots (weights->descriptor, "x", &error);
  for (guint i = 0; i < slots->len; i++)
    {
      const TlWeightSlot *slot = slots->pdata[i];
      gsize n = (gsize) slot->rows * slot->cols;
      g_autofree float *expected = g_new (float, n), *row = g_new (float, slot->cols);
      TlMatrix m;
      g_assert_true (source->read (source, slot, expected, &error));
      if (!slot->is_matrix)
        continue;
      g_assert_true (tl_checkpoint_matrix (checkpoint, slot->name, slot->rows, slot->cols, &m, &error));
      for (guint r = 0; r < slot->rows; r++)
        {
          tl_matrix_row_to_f32 (&m, r, row);
          g_assert_cmpmem (row, slot->cols * 4, expected + (gsize) r * slot->cols, slot->cols * 4);
        }
    }
  TlMatrix q = weights->blocks[TL_STACK_LOOP][0].q;
  g_assert_cmpint (q.format, ==, c->format);
  g_assert_cmpint (q.offset, ==, c->offset);
  g_assert_cmpstr (tl_checkpoint_matrix_source (checkpoint, "loop.0.attn.q.weight"), ==, c->origin);
  source->free (source);
  g_unlink (dst);
}

/* the reference's embedded prompt is made of dequantised rows of the embedding */
static void
test_embedding_is_the_references (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (GError) error = NULL;
  g_autofree char *src = golden (c->folder, "model.gguf"), *expected = golden (c->folder, "expected.safetensors");
  g_autofree char *prompts = golden (c->folder, "expected.json"), *dst = temporary (), *contents = NULL;
  if (!g_file_test (src, G_FILE_TEST_EXISTS))
    {
      g_test_skip ("no goldens here");
      return;
    }
  g_assert_true (tl_convert_file (src, dst, "none", 0, NULL, NULL, NULL, NULL, &error));
  g_autoptr (TlCheckpoint) reference = tl_checkpoint_open_foreign (expected, &error);
  g_assert_no_error (error);
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (dst, &error);
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, &error);
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (expected, &contents, NULL, &error));
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_assert_true (json_parser_load_from_file (parser, prompts, &error));
  JsonObject *root = json_node_get_object (json_parser_get_root (parser));
  JsonArray *ids = json_object_get_array_member (json_object_get_object_member (root, "prompts"), "short");

  const TlTensorView *view = tl_checkpoint_find (reference, "short.hidden.embed");
  guint d = weights->embed.cols;
  g_autofree float *row = g_new (float, d);
  g_assert_cmpuint (view->size, ==, json_array_get_length (ids) * d * 4);
  for (guint t = 0; t < json_array_get_length (ids); t++)
    {
      tl_matrix_row_to_f32 (&weights->embed, json_array_get_int_element (ids, t), row);
      g_assert_cmpmem (row, d * 4, contents + view->offset + t * d * 4, d * 4);
    }
  g_unlink (dst);
}

/* cut anywhere in the header or data, and with single bytes changed, a file gives an error or a source, never a crash */
static void
test_damage_is_refused (void)
{
  g_autofree char *src = golden ("gguf_llama_q4_0", "model.gguf"), *dst = temporary (), *contents = NULL;
  gsize size;
  if (!g_file_get_contents (src, &contents, &size, NULL))
    {
      g_test_skip ("no goldens here");
      return;
    }
  for (gsize cut = 0; cut < size; cut = cut < 400 ? cut + 7 : cut + size / 40)
    {
      g_autoptr (GError) error = NULL;
      g_assert_true (g_file_set_contents (dst, contents, cut, NULL));
      g_assert_null (tl_import_open (dst, &error));
      g_assert_true (error && error->domain == TL_ERROR);
    }
  for (gsize at = 0; at < 4000; at += 3)
    {
      g_autoptr (GError) error = NULL;
      char before = contents[at];
      contents[at] ^= 0x81;
      g_assert_true (g_file_set_contents (dst, contents, size, NULL));
      contents[at] = before;
      TlImportSource *source = tl_import_open (dst, &error);
      if (source)
        source->free (source);
      else
        g_assert_true (error && error->domain == TL_ERROR);
    }
  g_unlink (dst);
}

/* one block of each format, written out by hand */
static void
test_blocks_mean_what_they_say (void)
{
  float out[32];
  guint8 q5_0[22] = { 0x00, 0x3c, 0x01, 0, 0, 0x80, 0x0f };     /* scale 1; element 0: 15 + 16 - 16, element 31: 0 + 16 - 16 */
  tl_gguf_type (6)->to_f32 (q5_0, out);
  g_assert_cmpfloat (out[0], ==, 15);
  g_assert_cmpfloat (out[1], ==, -16);
  g_assert_cmpfloat (out[31], ==, 0);
  guint8 q5_1[24] = { 0x00, 0x3c, 0x00, 0x40, 0x01, 0, 0, 0, 0x02 };     /* scale 1, minimum 2 */
  tl_gguf_type (7)->to_f32 (q5_1, out);
  g_assert_cmpfloat (out[0], ==, 20);
  g_assert_cmpfloat (out[16], ==, 2);
  g_assert_null (tl_gguf_type (12345));
}

/* scale 1, least ½; six-bit scales: of values 0… it is 3 with minimum 2, of 32… 4, of 128… 5 + 16 with minimum 7 + 32 */
static void
test_five_bits_with_six_bit_scales (void)
{
  static const struct { guint i; float value; } expected[] = {
    { 0, 3 * 21 - 1 }, { 1, -1 }, { 32, 4 * 2 }, { 128, 21 * 25 - 19.5f }, { 129, -19.5f }, { 255, 0 },
  };
  guint8 q5_k[176] = { 0x00, 0x3c, 0x00, 0x38, 3 | 1 << 6, 4, 0, 0, 2 | 2 << 6, 0, 0, 0, 5 | 7 << 4 };
  float out[256];
  q5_k[16] = 1 << 0 | 1 << 4;   /* the fifth bits of values 0 and 128 */
  q5_k[16 + 31] = 1 << 7;
  q5_k[48] = 5 | 2 << 4;
  q5_k[48 + 64] = 9;
  q5_k[48 + 96 + 31] = 15 << 4;
  tl_gguf_type (13)->to_f32 (q5_k, out);
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    g_assert_cmpfloat (out[expected[i].i], ==, expected[i].value);
  q5_k[4 + 11] = 2;             /* the scale of values 224… */
  tl_gguf_type (13)->to_f32 (q5_k, out);
  g_assert_cmpfloat (out[255], ==, 2 * 31);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *values = g_strconcat ("/gguf/values/", cases[i].folder, NULL);
      g_autofree char *embedding = g_strconcat ("/gguf/embedding/", cases[i].folder, NULL);
      g_test_add_data_func (values, &cases[i], test_values_survive);
      g_test_add_data_func (embedding, &cases[i], test_embedding_is_the_references);
    }
  g_test_add_func ("/gguf/damage", test_damage_is_refused);
  g_test_add_func ("/gguf/q5-k", test_five_bits_with_six_bit_scales);
  g_test_add_func ("/gguf/blocks", test_blocks_mean_what_they_say);
  return g_test_run ();
}
