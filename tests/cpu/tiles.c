/* tests/cpu/tiles.c — the AMX kernels (tl-linear-amx.c) over emulated tiles give the scalar bits for every quantised format,
 * and the check that comes before their use notices wrong products. Needs AVX-512, not AMX. */
#include "matrices.h"

#include "cpu/tl-kernels-private.h"

#define ROWS 69                 /* four blocks and five rows */
#define MOST 65

extern gint32 tl_tiles_emulated_fault;

static const Case more_cases[] = {
  { "int8-32-f32", TL_INT8, TL_F32, TL_OFFSET_NONE, 32 }, { "int8-64-f16", TL_INT8, TL_F16, TL_OFFSET_NONE, 64 },
  { "int8-128-zero", TL_INT8, TL_BF16, TL_OFFSET_ZERO, 128 }, { "int8-64-min", TL_INT8, TL_F32, TL_OFFSET_MIN, 64 },
  { "int8-128-min", TL_INT8, TL_F16, TL_OFFSET_MIN, 128 }, { "int8-32-zero", TL_INT8, TL_F16, TL_OFFSET_ZERO, 32 },
  { "int4-64-f16", TL_INT4, TL_F16, TL_OFFSET_NONE, 64 }, { "int4-128-min", TL_INT4, TL_F16, TL_OFFSET_MIN, 128 },
  { "int4-32-zero", TL_INT4, TL_F32, TL_OFFSET_ZERO, 32 }, { "int4-64-min", TL_INT4, TL_BF16, TL_OFFSET_MIN, 64 },
};

static gboolean
can_run (void)
{
  if (tl_isa_present (TL_ISA_AVX512))
    return TRUE;
  g_test_skip ("this processor or system lacks AVX-512, which AMX kernels use besides tiles");
  return FALSE;
}

static void
check_shape (const Case *c, guint cols)
{
  static const guint counts[] = { 16, 17, 31, 32, 33, 48, 65 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (cols);
  TlMatrix w = matrix_new (c, ROWS, cols, rand);
  TlPackedMatrix p;
  gpointer memory;
  tl_packed_matrix_init (&p, &w, NULL);
  TlActivations a = activations_new (MOST, cols, p.group, rand, &memory);
  static float expected[MOST][ROWS], got[MOST + 1][ROWS];
  tl_linear_scalar (&p, &a, 0, MOST, 0, ROWS, expected[0], ROWS);

  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    {
      guint n = counts[i], first = MOST - n;
      memset (got, 0xa5, sizeof got);
      tl_linear_emulated (&p, &a, first, n, 0, 32, got[0], ROWS);
      tl_linear_emulated (&p, &a, first, n, 32, ROWS, got[0], ROWS);
      for (guint m = 0; m < n; m++)
        if (memcmp (got[m], expected[first + m], sizeof got[m]))
          g_error ("%s, %u inputs, %u rows: row %u differs", c->name, cols, n, m);
      for (guint r = 0; r < ROWS; r++)          /* and nothing behind them is written */
        g_assert_cmpmem (&got[n][r], 4, "\xa5\xa5\xa5\xa5", 4);
    }
  tl_packed_memory_free (memory, tl_activations_size (MOST, cols, p.group));
  tl_packed_matrix_clear (&p);
  matrix_free (&w);
}

static void
test_tiles_give_the_scalar_bits (gconstpointer data)
{
  static const guint widths[] = { 32, 36, 96, 100, 576, 1536 };
  for (guint i = 0; i < G_N_ELEMENTS (widths) && can_run (); i++)
    check_shape (data, widths[i]);
}

static void
test_wrong_products_are_noticed (void)
{
  if (!can_run ())
    return;
  g_assert_true (tl_tiles_are_right_emulated ());
  tl_tiles_emulated_fault = 1;
  g_assert_false (tl_tiles_are_right_emulated ());
  tl_tiles_emulated_fault = 0;
  g_assert_true (tl_tiles_are_right_emulated ());
}

static void
add_cases (const Case *some, guint n)
{
  for (guint i = 0; i < n; i++)
    if (some[i].group)
      {
        g_autofree char *path = g_strdup_printf ("/cpu/tiles/same-bits/%s", some[i].name);
        g_test_add_data_func (path, &some[i], test_tiles_give_the_scalar_bits);
      }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add_cases (cases, G_N_ELEMENTS (cases));
  add_cases (more_cases, G_N_ELEMENTS (more_cases));
  g_test_add_func ("/cpu/tiles/wrong-products-are-noticed", test_wrong_products_are_noticed);
  return g_test_run ();
}
