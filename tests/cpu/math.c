/* tests/cpu/math.c — tl-math.h against the system's mathematics library in F64, in units in the last place. */
#include <glib.h>

#include "forward/tl-math.h"

typedef struct { const char *name; float (*f) (float); double (*exact) (double); float low, high; double ulps; } Check;

static double exact_softplus (double x) { return log1p (exp (x)); }
static double exact_silu (double x) { return x / (1 + exp (-x)); }
static double exact_sigmoid (double x) { return 1 / (1 + exp (-x)); }
static double exact_gelu (double x) { return x / 2 * erfc (-x * 0.70710678118654752440); }
static double exact_rsqrt (double x) { return 1 / sqrt (x); }
static float sine (float x) { return (float) tl_sin (x); }
static float cosine (float x) { return (float) tl_cos (x); }

static const Check checks[] = {
  { "exp", tl_expf, exp, -87, 88.7f, 1.1 }, { "log", tl_logf, log, 1e-30f, 50, 0.51 },
  { "log1p", tl_log1pf, log1p, -0.99f, 20, 0.51 }, { "tanh", tl_tanhf, tanh, -10, 10, 0.51 },
  { "tanh-small", tl_tanhf, tanh, -1e-3f, 1e-3f, 0.51 }, { "erf", tl_erff, erf, -5, 5, 0.51 },
  { "sin", sine, sin, -1e6f, 1e6f, 0.51 }, { "cos", cosine, cos, -1e6f, 1e6f, 0.51 },
  { "softplus", tl_softplusf, exact_softplus, -50, 19, 0.51 }, { "silu", tl_siluf, exact_silu, -80, 80, 3 },
  { "sigmoid", tl_sigmoidf, exact_sigmoid, -80, 80, 3 }, { "rsqrt", tl_rsqrtf, exact_rsqrt, 1e-6f, 1e6f, 1.5 },
  { "gelu", tl_gelu_erff, exact_gelu, -13, 6, 0.51 }, { "gelu-small", tl_gelu_erff, exact_gelu, -1e-3f, 1e-3f, 0.51 },
};

/* x / 2 * erfc (-x / sqrt 2) to 20 digits, from 50-digit arithmetic */
static void
test_gelu_keeps_its_precision_below_minus_two (void)
{
  static const struct { float x; double y; } table[] = {
    { -0.5f, -0.15426876936299344818 }, { -1, -0.15865525393145705141 },
    { -2, -0.045500263896358414401 }, { -2.5f, -0.015524163314440337917 },
    { -3, -0.00404969409489028358 }, { -4, -0.00012668496733247968502 },
    { -5, -1.4332578593959695584e-6 }, { -6, -5.9195258702261888442e-9 },
    { -7.5f, -2.3931687546831721708e-13 }, { -9, -1.015729565358456583e-18 },
    { -12.5f, -4.6657053735971417215e-35 }, { 0.5f, 0.34573123063700655182 },
    { 2, 1.9544997361036415856 }, { 5, 4.999998566742140604 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    {
      double got = tl_gelu_erff (table[i].x), error = fabs (got / table[i].y - 1);
      if (error > 6e-8)
        g_error ("gelu (%g) = %.9g, but it is %.9g", table[i].x, got, table[i].y);
    }
}

static void
test_error_is_small (gconstpointer data)
{
  const Check *c = data;
  for (guint i = 0; i <= 200000; i++)
    {
      float x = c->low + (c->high - c->low) * (float) (i / 200000.0);
      double exact = c->exact (x);
      if (fabs (exact) < 1e-37)
        continue;
      int exponent;
      frexp (exact, &exponent);
      double ulps = fabs (c->f (x) - exact) / ldexp (1, exponent - 24);
      if (ulps > c->ulps)
        g_error ("%s (%g): %g units in the last place", c->name, x, ulps);
    }
}

static void
test_ends (void)
{
  g_assert_true (isinf (tl_expf (89)) && isinf (tl_expf (INFINITY)));
  g_assert_cmpfloat (tl_expf (-88), ==, 0);
  g_assert_cmpfloat (tl_expf (-INFINITY), ==, 0);
  g_assert_cmpfloat (tl_expf (0), ==, 1);
  g_assert_true (isnan (tl_expf (NAN)) && isnan (tl_tanhf (NAN)) && isnan (tl_erff (NAN)) && isnan (tl_logf (-1)));
  g_assert_cmpfloat (tl_tanhf (50), ==, 1);
  g_assert_cmpfloat (tl_erff (-9), ==, -1);
  g_assert_true (isinf (tl_logf (0)) && tl_logf (1) == 0);
  g_assert_cmpfloat (tl_siluf (-200), ==, 0);
  g_assert_cmpfloat (tl_gelu_erff (3), ==, (float) (1.5 * (1 + erf (3 * 0.70710678118654752))));
  g_assert_true (tl_gelu_erff (-1e30f) == 0 && tl_gelu_erff (-INFINITY) == 0 && tl_gelu_erff (0) == 0);
  g_assert_true (isinf (tl_gelu_erff (INFINITY)) && isnan (tl_gelu_erff (NAN)));
  g_assert_cmpfloat_with_epsilon (tl_gelu_tanhf (1), 0.841192, 1e-6);
  g_assert_cmpfloat_with_epsilon (tl_exp (3.3) / exp (3.3), 1, 1e-15);
  g_assert_cmpfloat_with_epsilon (tl_log (3.3), log (3.3), 1e-15);
  g_assert_cmpfloat_with_epsilon (tl_log (5e-324), log (5e-324), 1e-12);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    {
      g_autofree char *path = g_strdup_printf ("/math/%s", checks[i].name);
      g_test_add_data_func (path, &checks[i], test_error_is_small);
    }
  g_test_add_func ("/math/gelu-below-minus-two", test_gelu_keeps_its_precision_below_minus_two);
  g_test_add_func ("/math/ends", test_ends);
  return g_test_run ();
}
