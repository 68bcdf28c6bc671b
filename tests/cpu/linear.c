/* tests/cpu/linear.c — every instruction set gives the scalar bits for every format, shape and number of rows; the scalar
 * kernel gives what the definition says; a sum in another order is noticed. */
#include "matrices.h"

#include "tl-error.h"

#include <math.h>

#define ROWS 72                 /* four and a half blocks */
#define MOST 33

typedef void (*Linear) (const TlPackedMatrix *, const TlActivations *, guint, guint, guint, guint, float *, gsize);

/* the definition once more, from the stored matrix and without any packing; planted: swaps two adds of the tree */
static float
definition (const TlMatrix *w, guint r, const TlActivations *a, guint m, gboolean exact, gboolean planted)
{
  guint group = tl_matrix_arith_group (w), n_groups = (w->cols + group - 1) / group, S = MIN (16, n_groups);
  g_autofree float *row = g_new (float, w->cols);
  tl_matrix_row_to_f32 (w, r, row);
  float v[16];
  for (guint s = 0; s < S; s++)
    {
      v[s] = 0;
      for (guint g = s * n_groups / S; g < (s + 1) * n_groups / S; g++)
        {
          guint end = MIN (w->cols, (g + 1) * group);
          if (exact)
            {
              for (guint c = g * group; c < end; c++)
                v[s] = fmaf (row[c], a->x[m * a->stride + c], v[s]);
              continue;
            }
          gsize i = (gsize) r * tl_matrix_n_groups (w) + (gsize) g * group / w->group;
          int zero = w->offset == TL_OFFSET_ZERO ? w->zero[i] : w->offset == TL_OFFSET_NONE && w->format == TL_INT4 ? 8 : 0;
          float scale = w->scale_format == TL_F32 ? ((float *) w->scale)[i] : w->scale_format == TL_F16
            ? tl_f16_to_f32 (((guint16 *) w->scale)[i]) : tl_bf16_to_f32 (((guint16 *) w->scale)[i]);
          float activation_scale = a->scale[m * a->n_groups + g];
          const guint8 *data = (const guint8 *) w->data + r * tl_matrix_row_bytes (w);
          gint64 dot = 0, sum = 0;
          for (guint c = g * group; c < end; c++)
            {
              int q = w->format == TL_INT8 ? (gint8) data[c] : data[c / 2] >> (c % 2 * 4) & 15;
              dot += q * a->q[m * a->stride + c];
              sum += a->q[m * a->stride + c];
            }
          v[s] = fmaf (scale * activation_scale, (float) (dot - zero * sum), v[s]);
          if (w->offset == TL_OFFSET_MIN)
            v[s] = fmaf (tl_f16_to_f32 (w->minimum[i]) * activation_scale, (float) sum, v[s]);
        }
    }
  if (planted && S > 2)
    {
      float t = v[1];
      v[1] = v[2];
      v[2] = t;
    }
  for (guint n = S; n > 1; n = (n + 1) / 2)
    {
      for (guint i = 0; i < n / 2; i++)
        v[i] = v[2 * i] + v[2 * i + 1];
      if (n % 2)
        v[n / 2] = v[n - 1];
    }
  return v[0];
}

static void
check_shape (const Case *c, guint cols)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (cols);
  TlMatrix w = matrix_new (c, ROWS - 3, cols, rand);    /* the last block is not full */
  TlPackedMatrix p;
  gpointer memory;
  tl_packed_matrix_init (&p, &w, NULL);
  TlActivations a = activations_new (MOST, cols, p.group, rand, &memory);
  float expected[MOST][ROWS], got[MOST][ROWS];

  for (guint exact = 0; exact < 2; exact++)
    {
      const TlKernels *scalar = tl_kernels_for (TL_ISA_SCALAR);
      memset (expected, 0, sizeof expected);
      (exact ? scalar->linear_exact : scalar->linear) (&p, &a, 0, MOST, 0, w.rows, expected[0], ROWS);
      guint noticed = 0;
      for (guint r = 0; r < w.rows; r++)
        {
          g_assert_cmpfloat (expected[5][r], ==, definition (&w, r, &a, 5, exact || !w.group, FALSE));
          noticed += expected[5][r] != definition (&w, r, &a, 5, exact || !w.group, TRUE);
        }
      g_assert_true (noticed || p.n_groups < 8);         /* few segments often round alike */

      for (guint isa = TL_ISA_AVX2; isa < TL_N_ISA; isa++)
        {
          const TlKernels *k = tl_kernels_for (isa);
          static const guint counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 33 };
          for (guint i = 0; k && i < G_N_ELEMENTS (counts); i++)
            {
              Linear linear = exact ? k->linear_exact : k->linear;
              guint first = MOST - counts[i];
              memset (got, 0, sizeof got);
              linear (&p, &a, first, counts[i], 0, 32, got[0], ROWS);
              linear (&p, &a, first, counts[i], 32, w.rows, got[0], ROWS);
              for (guint m = 0; m < counts[i]; m++)
                if (memcmp (got[m], expected[first + m], sizeof got[m]))
                  g_error ("%s: %s, %u inputs, %u rows, exact %u: row %u differs", k->name, c->name, cols, counts[i], exact, m);
            }
        }
    }

  float row[2][1600];
  tl_matrix_row_to_f32 (&w, 17, row[0]);
  tl_packed_matrix_row_to_f32 (&p, 17, row[1]);
  g_assert_cmpmem (row[0], cols * 4, row[1], cols * 4);
  tl_packed_memory_free (memory, tl_activations_size (MOST, cols, p.group));
  tl_packed_matrix_clear (&p);
  matrix_free (&w);
}

static void
test_same_bits_everywhere (gconstpointer data)
{
  static const guint widths[] = { 32, 36, 64, 96, 100, 576, 1536 };
  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    check_shape (data, widths[i]);
}

static void
test_forced_set_that_is_unknown_is_an_error (void)
{
  g_autoptr (GError) error = NULL;
  g_setenv ("TINYLOOP_CPU", "mmx", TRUE);
  g_assert_null (tl_kernels_get (&error));
  g_assert_nonnull (strstr (error->message, "mmx"));
  g_setenv ("TINYLOOP_CPU", "scalar", TRUE);
  g_assert_cmpstr (tl_kernels_get (NULL)->name, ==, "scalar");
  g_unsetenv ("TINYLOOP_CPU");
  g_assert_nonnull (tl_kernels_get (NULL));
}

static void
test_huge_pages_are_counted_only_where_they_are (void)
{
  gsize size = 8u << 20;
  guint8 *memory = tl_packed_memory_new (size);
  g_assert_cmpuint (tl_packed_memory_huge_bytes (memory, size), ==, 0);         /* nothing touched, nothing there */
  memset (memory, 1, size);
  gsize huge = tl_packed_memory_huge_bytes (memory, size);
  g_assert_cmpuint (huge % (2u << 20), ==, 0);
  g_assert_cmpuint (tl_packed_memory_huge_bytes ((gpointer) (gsize) 4096, 4096), ==, 0);
  tl_packed_memory_free (memory, size);
  if (huge == 0)
    g_test_skip ("this system gives no huge pages");
}

/* where it is, the tests above have run it; elsewhere no other set answers to its name */
static void
test_amx_is_used_or_refused_by_name (void)
{
  g_autoptr (GError) error = NULL;
  g_setenv ("TINYLOOP_CPU", "amx", TRUE);
  const TlKernels *k = tl_kernels_get (&error);
  g_unsetenv ("TINYLOOP_CPU");
  g_assert_true (!k == !tl_isa_present (TL_ISA_AMX));
  if (k)
    {
      g_assert_cmpstr (k->name, ==, "amx");
      return;
    }
  g_assert_error (error, TL_ERROR, TL_ERROR_DEVICE);
  g_assert_nonnull (strstr (error->message, "AMX"));
  for (guint isa = 0; isa < TL_N_ISA; isa++)
    g_assert_true (!tl_kernels_for (isa) || strcmp (tl_kernels_for (isa)->name, "amx"));
  g_test_skip (error->message);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/cpu/linear/same-bits/%s", cases[i].name);
      g_test_add_data_func (path, &cases[i], test_same_bits_everywhere);
    }
  g_test_add_func ("/cpu/isa/unknown-is-an-error", test_forced_set_that_is_unknown_is_an_error);
  g_test_add_func ("/cpu/memory/huge-pages", test_huge_pages_are_counted_only_where_they_are);
  g_test_add_func ("/cpu/linear/same-bits/amx", test_amx_is_used_or_refused_by_name);
  return g_test_run ();
}
