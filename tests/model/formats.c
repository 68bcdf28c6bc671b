/* tests/model/formats.c — number formats bit by bit, dequantised rows by their definition, descriptors there and back. */
#include <math.h>
#include <string.h>

#include "model/tl-descriptor.h"
#include "model/tl-matrix.h"

static guint32
bits (float f)
{
  guint32 u;
  memcpy (&u, &f, 4);
  return u;
}

static void
test_every_half_survives_the_way_through_float (void)
{
  for (guint h = 0; h < 0x10000; h++)
    {
      float f = tl_f16_to_f32 (h);
      if (isnan (f))
        g_assert_true ((h & 0x7c00) == 0x7c00 && isnan (tl_f16_to_f32 (tl_f32_to_f16 (f))));
      else
        g_assert_cmphex (tl_f32_to_f16 (f), ==, h);
      g_assert_cmphex (bits (tl_bf16_to_f32 (h)), ==, h << 16);
    }
}

/* between two neighbouring halves: nearest, ties to the even one */
static void
test_halves_round_to_nearest_even (void)
{
  for (guint h = 0; h < 0x7bff; h++)
    {
      float low = tl_f16_to_f32 (h), high = tl_f16_to_f32 (h + 1), middle = (low + high) / 2;
      g_assert_cmphex (tl_f32_to_f16 (middle), ==, h & 1 ? h + 1 : h);
      g_assert_cmphex (tl_f32_to_f16 (nextafterf (middle, -1)), ==, h);
      g_assert_cmphex (tl_f32_to_f16 (nextafterf (middle, INFINITY)), ==, h + 1);
    }
  g_assert_cmphex (tl_f32_to_f16 (65520), ==, 0x7c00);
  g_assert_cmphex (tl_f32_to_f16 (65519.99f), ==, 0x7bff);
  g_assert_cmphex (tl_f32_to_f16_saturate (1e9f), ==, 0x7bff);
  g_assert_cmphex (tl_f32_to_f16_saturate (-1e9f), ==, 0xfbff);
  g_assert_cmphex (tl_f32_to_bf16 (1.00390625f), ==, 0x3f80);   /* a tie goes to even */
  g_assert_cmphex (tl_f32_to_bf16 (1.01171875f), ==, 0x3f82);
}

static void
test_rows_of_quantised_matrices (void)
{
  static const guint8 nibbles[] = { 0x10, 0xf8, 0x10, 0xf8 };   /* two rows of 0 1 8 15 */
  static const gint8 bytes[] = { -127, 0, 1, 127 };
  static const guint16 halves[] = { 0x3c00, 0x4000 };           /* 1, 2 */
  static const float scales[] = { 0.5f, 2 };
  static const guint8 zeros[] = { 3, 16 };
  float row[4];

  TlMatrix m = { .format = TL_INT4, .rows = 2, .cols = 4, .group = 4, .scale_format = TL_F32, .data = nibbles,
    .scale = scales };
  tl_matrix_row_to_f32 (&m, 1, row);
  g_assert_cmpmem (row, 16, ((float[]) { -16, -14, 0, 14 }), 16);
  m.offset = TL_OFFSET_ZERO;
  m.zero = zeros;
  tl_matrix_row_to_f32 (&m, 0, row);
  g_assert_cmpmem (row, 16, ((float[]) { -1.5f, -1, 2.5f, 6 }), 16);
  m.offset = TL_OFFSET_MIN;
  m.minimum = halves;
  tl_matrix_row_to_f32 (&m, 1, row);
  g_assert_cmpmem (row, 16, ((float[]) { 2, 4, 18, 32 }), 16);

  m = (TlMatrix) { .format = TL_INT8, .rows = 1, .cols = 4, .group = 4, .scale_format = TL_F16, .data = bytes,
    .scale = halves + 1 };
  tl_matrix_row_to_f32 (&m, 0, row);
  g_assert_cmpmem (row, 16, ((float[]) { -254, 0, 2, 254 }), 16);
}

/* 576 inputs in groups of 128: the last group has 64 */
static void
test_the_last_group_may_be_short (void)
{
  g_autofree gint8 *q = g_malloc (576);
  float scales[5] = { 1, 2, 4, 8, 16 }, row[576];
  memset (q, 1, 576);
  TlMatrix m = { .format = TL_INT8, .rows = 1, .cols = 576, .group = 128, .scale_format = TL_F32, .data = q,
    .scale = scales };
  g_assert_cmpuint (tl_matrix_n_groups (&m), ==, 5);
  g_assert_cmpuint (tl_matrix_arith_group (&m), ==, 128);
  tl_matrix_row_to_f32 (&m, 0, row);
  for (guint i = 0; i < 576; i++)
    g_assert_cmpfloat (row[i], ==, scales[i / 128]);
}

static void
test_descriptors_survive_json (void)
{
  g_autoptr (TlDescriptor) d = tl_descriptor_new ();
  g_autoptr (GError) error = NULL;
  d->vocab_size = d->vocab_padded = 100;
  d->d_model = d->d_state = 64;
  d->d_ff = 128;
  d->n_heads = 4;
  d->n_kv_heads = 2;
  d->head_dim = d->rope_dims = 16;
  d->max_seq_len = 512;
  d->n_blocks[TL_STACK_PRE] = 2;
  d->n_blocks[TL_STACK_LOOP] = 1;
  d->loops_default = 4;
  d->loops_max = 8;
  d->rope_theta = 500000;
  d->norm_eps = 1e-6f;
  d->placement = TL_PLACEMENT_SANDWICH_OUT;
  g_autofree char *json = tl_descriptor_to_json (d);
  g_autoptr (TlDescriptor) back = tl_descriptor_parse (json, -1, "d.json", &error);
  g_assert_no_error (error);
  g_autofree char *again = tl_descriptor_to_json (back);
  g_assert_cmpstr (json, ==, again);
  g_assert_cmpint (back->placement, ==, TL_PLACEMENT_SANDWICH_OUT);
  g_assert_cmpfloat (back->norm_eps, ==, 1e-6f);

  /* a value, a key and a combination that are wrong are named */
  static const struct { const char *from, *to, *expected; } rows[] = {
    { "sandwich_out", "sandwich_in", "sandwich_in" },
    { "\"norm_placement\"", "\"norm_placemant\"", "norm_placemant" },
    { "\"n_kv_heads\":2", "\"n_kv_heads\":3", "n_heads" },
    { "\"head_dim\":16", "\"head_dim\":0", "head_dim" },
    { "\"head_dim\":16", "\"head_dim\":\"x\"", "head_dim" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (GStrv) parts = g_strsplit (json, rows[i].from, 2);
      g_assert_nonnull (parts[1]);
      g_autofree char *edited = g_strjoinv (rows[i].to, parts);
      g_assert_null (tl_descriptor_parse (edited, -1, "d.json", &error));
      g_assert_nonnull (error);
      if (!strstr (error->message, rows[i].expected))
        g_error ("message \"%s\" lacks \"%s\"", error->message, rows[i].expected);
      g_clear_error (&error);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/formats/every-half-survives-the-way-through-float", test_every_half_survives_the_way_through_float);
  g_test_add_func ("/formats/halves-round-to-nearest-even", test_halves_round_to_nearest_even);
  g_test_add_func ("/formats/rows-of-quantised-matrices", test_rows_of_quantised_matrices);
  g_test_add_func ("/formats/the-last-group-may-be-short", test_the_last_group_may_be_short);
  g_test_add_func ("/formats/descriptors-survive-json", test_descriptors_survive_json);
  return g_test_run ();
}
