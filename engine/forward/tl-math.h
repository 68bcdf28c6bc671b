/* forward/tl-math.h — the functions of the arithmetic: exp, log, tanh, erf, sine … with the same bits in C, SIMD and CUDA.
 *
 * Straight lines of +, *, / , sqrt and fma only, which IEEE 754 rounds the same everywhere, so that a vector version is the
 * same line on vectors. The mathematics library of the system takes no part in results.
 * Included by every backend; exp, log, log1p, tanh, erf, gelu, sin, cos and softplus err by at most 1.1 units in the last place
 * (tests/cpu/math.c).
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define TL_MATH static __host__ __device__ inline
#else
#define TL_MATH static inline
#endif

#define TL_LOG2E 1.44269504088896338700f
#define TL_LN2_HIGH 0.693145751953125f          /* 15 bits: n * high is exact */
#define TL_LN2_LOW 1.42860682030941723212e-6f
#define TL_ROUND 12582912.0f                    /* 1.5 * 2^23: adding and taking away rounds to nearest even */
#define TL_EXP_MAX 88.7228391f                  /* above: infinity */
#define TL_EXP_MIN -87.3365447f                 /* below: zero, so that no result is subnormal */

TL_MATH uint32_t tl_float_bits (float f) { uint32_t u; memcpy (&u, &f, 4); return u; }
TL_MATH float tl_float_from_bits (uint32_t u) { float f; memcpy (&f, &u, 4); return f; }
TL_MATH uint64_t tl_double_bits (double f) { uint64_t u; memcpy (&u, &f, 8); return u; }
TL_MATH double tl_double_from_bits (uint64_t u) { double f; memcpy (&f, &u, 8); return f; }

TL_MATH float
tl_expf (float x)
{
  float c = x < TL_EXP_MAX ? x : TL_EXP_MAX;
  c = c > TL_EXP_MIN ? c : TL_EXP_MIN;
  float n = fmaf (c, TL_LOG2E, TL_ROUND) - TL_ROUND;
  float r = fmaf (n, -TL_LN2_HIGH, c);
  r = fmaf (n, -TL_LN2_LOW, r);
  float p = 1.98412698e-4f;
  p = fmaf (p, r, 1.38888889e-3f);
  p = fmaf (p, r, 8.33333333e-3f);
  p = fmaf (p, r, 4.16666667e-2f);
  p = fmaf (p, r, 1.66666667e-1f);
  p = fmaf (p, r, 0.5f);
  p = fmaf (p, r * r, r) + 1.0f;
  int32_t k = (int32_t) n, half = k >> 1;       /* 2^k in two factors: k can be 128 */
  p *= tl_float_from_bits ((uint32_t) (half + 127) << 23);
  p *= tl_float_from_bits ((uint32_t) (k - half + 127) << 23);
  p = x > TL_EXP_MAX ? INFINITY : p;
  p = x < TL_EXP_MIN ? 0.0f : p;
  return x != x ? x : p;
}

/* F64, for the functions below and for sampling */
TL_MATH double
tl_exp (double x)
{
  double c = x < 709.78 ? x : 709.78;
  c = c > -708.39 ? c : -708.39;
  double n = fma (c, 1.4426950408889634074, 6755399441055744.0) - 6755399441055744.0;
  double r = fma (n, -0.693147180369123816490, c);
  r = fma (n, -1.90821492927058770002e-10, r);
  double p = 1.6059043836821613e-10;
  p = fma (p, r, 2.0876756987868099e-9);
  p = fma (p, r, 2.5052108385441719e-8);
  p = fma (p, r, 2.7557319223985891e-7);
  p = fma (p, r, 2.7557319223985893e-6);
  p = fma (p, r, 2.4801587301587302e-5);
  p = fma (p, r, 1.9841269841269841e-4);
  p = fma (p, r, 1.3888888888888889e-3);
  p = fma (p, r, 8.3333333333333333e-3);
  p = fma (p, r, 4.1666666666666667e-2);
  p = fma (p, r, 1.6666666666666667e-1);
  p = fma (p, r, 0.5);
  p = fma (p, r * r, r) + 1.0;
  int64_t k = (int64_t) n, half = k >> 1;
  p *= tl_double_from_bits ((uint64_t) (half + 1023) << 52);
  p *= tl_double_from_bits ((uint64_t) (k - half + 1023) << 52);
  p = x > 709.78 ? (double) INFINITY : p;
  p = x < -708.39 ? 0.0 : p;
  return x != x ? x : p;
}

TL_MATH double
tl_log (double x)
{
  if (!(x > 0))
    return x == 0 ? -(double) INFINITY : (double) NAN;
  if (x > 1.7976931348623157e308)
    return x;
  double scaled = x < 2.2250738585072014e-308 ? x * 18014398509481984.0 : x;    /* subnormals: * 2^54 */
  int64_t k = x < 2.2250738585072014e-308 ? -54 : 0;
  uint64_t bits = tl_double_bits (scaled);
  k += (int64_t) (bits >> 52) - 1023;
  double m = tl_double_from_bits ((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951)
    {
      m *= 0.5;
      k++;
    }
  double s = (m - 1.0) / (m + 1.0), z = s * s;  /* log m = 2 atanh s, |s| < 0.172 */
  double p = 1.0 / 21;
  p = fma (p, z, 1.0 / 19);
  p = fma (p, z, 1.0 / 17);
  p = fma (p, z, 1.0 / 15);
  p = fma (p, z, 1.0 / 13);
  p = fma (p, z, 1.0 / 11);
  p = fma (p, z, 1.0 / 9);
  p = fma (p, z, 1.0 / 7);
  p = fma (p, z, 1.0 / 5);
  p = fma (p, z, 1.0 / 3);
  p = fma (p * z, 2.0 * s, 2.0 * s);
  p = fma ((double) k, 1.90821492927058770002e-10, p);
  return fma ((double) k, 0.693147180369123816490, p);
}

TL_MATH float tl_logf (float x) { return (float) tl_log ((double) x); }

TL_MATH double
tl_log1p (double x)
{
  double u = 1.0 + x;
  if (!(x > -0.5) || !(x < 1e15))
    return tl_log (u);
  return u == 1.0 ? x : tl_log (u) * (x / (u - 1.0));   /* the factor mends the rounding of 1 + x */
}

TL_MATH float tl_log1pf (float x) { return (float) tl_log1p ((double) x); }

TL_MATH float
tl_tanhf (float x)
{
  double a = x < 0 ? -(double) x : (double) x;
  double e = tl_exp (-2.0 * a), t = (1.0 - e) / (1.0 + e);
  double small = fma (-a * a, a * (1.0 / 3), a);
  t = a < 1e-4 ? small : t;
  t = x < 0 ? -t : t;
  return x == 0 || x != x ? x : (float) t;
}

/* erf (x) / x as a polynomial in x^2 / 8 - 1 on [0, 4]; beyond 4 it is 1 in F32 */
TL_MATH float
tl_erff (float x)
{
  const double c[] = {
    0.35353099564340529,
    -0.17657623330137273,
    0.131675116894657,
    -0.10771044252840825,
    0.090208994114004321,
    -0.074727865750668712,
    0.059886904949782369,
    -0.045765110329431313,
    0.033060632945940575,
    -0.022473569298575878,
    0.014349597692985347,
    -0.0086062159856499839,
    0.0048535546732814015,
    -0.0025782415029417033,
    0.0012926065500517287,
    -0.00061290261240814039,
    0.00027554293047547541,
    -0.00011779846648062592,
    4.7859727685674979e-05,
    -1.839251948425685e-05,
    6.8310485706509399e-06,
    -2.5627356350283915e-06,
    8.6579826462117117e-07,
    -2.0538680945281665e-07,
    6.5600033849477622e-08,
    -4.5057041225609953e-08,
    1.3051451080375248e-08
  };
  double a = x < 0 ? -(double) x : (double) x;
  double b = a < 4.0 ? a : 4.0, t = fma (b * b, 0.125, -1.0), p = c[26];
  for (int i = 25; i >= 0; i--)
    p = fma (p, t, c[i]);
  double r = a < 4.0 ? b * p : 1.0;
  r = x < 0 ? -r : r;
  return x == 0 || x != x ? x : (float) r;
}

/* sine and cosine of |x| < 2^30 in F64 */
TL_MATH void
tl_sincos (double x, double *sine, double *cosine)
{
  double n = fma (x, 0.63661977236758134308, 6755399441055744.0) - 6755399441055744.0;
  double r = fma (n, -1.57079632679489655800e+00, x);
  r = fma (n, -6.12323399573676603587e-17, r);
  double z = r * r;
  double s = 2.8114572543455208e-15;
  s = fma (s, z, -7.6471637318198165e-13);
  s = fma (s, z, 1.6059043836821615e-10);
  s = fma (s, z, -2.5052108385441719e-8);
  s = fma (s, z, 2.7557319223985891e-6);
  s = fma (s, z, -1.9841269841269841e-4);
  s = fma (s, z, 8.3333333333333333e-3);
  s = fma (s, z, -1.6666666666666667e-1);
  s = fma (s * z, r, r);
  double c = 4.7794773323873853e-14;
  c = fma (c, z, -1.1470745597729725e-11);
  c = fma (c, z, 2.0876756987868099e-9);
  c = fma (c, z, -2.7557319223985893e-7);
  c = fma (c, z, 2.4801587301587302e-5);
  c = fma (c, z, -1.3888888888888889e-3);
  c = fma (c, z, 4.1666666666666667e-2);
  c = fma (c, z, -0.5);
  c = fma (c, z, 1.0);
  int64_t k = (int64_t) n;
  double a = k & 1 ? c : s, b = k & 1 ? s : c;
  *sine = k & 2 ? -a : a;
  *cosine = (k + 1) & 2 ? -b : b;
}

TL_MATH double tl_sin (double x) { double s, c; tl_sincos (x, &s, &c); return s; }
TL_MATH double tl_cos (double x) { double s, c; tl_sincos (x, &s, &c); return c; }

TL_MATH float tl_rsqrtf (float x) { return 1.0f / sqrtf (x); }
TL_MATH float tl_sigmoidf (float x) { return 1.0f / (1.0f + tl_expf (-x)); }
TL_MATH float tl_siluf (float x) { return x / (1.0f + tl_expf (-x)); }

/* x / 2 * erfc (-x / sqrt 2), for x above 0 by erfc's mirror: exact to half a unit also where 1 + erf cancels. erfc is
 * exp (-a^2) * p / (1 + 2a), p a polynomial in (a - 3) / (a + 3) on [0, 10]. */
TL_MATH float
tl_gelu_erff (float x)
{
  const double c[] = {
    3.470618381744089e-05,
    0.00013116394026136392,
    -0.00012388107148558007,
    -0.0007921501195649666,
    0.0018916384595721095,
    0.0025336427233478716,
    -0.02377030952721432,
    0.06830744117450785,
    -0.11927373958455878,
    0.12964519143333791,
    -0.04756229020461589,
    -0.13562110665569863,
    1.2530080582394574
  };
  double b = x < 0 ? -(double) x : (double) x;
  b = b < 14.0 ? b : 14.0;
  double a = b * 0.70710678118654752440, u = (a - 3.0) / (a + 3.0), p = c[0];
  for (int i = 1; i < 13; i++)
    p = fma (p, u, c[i]);
  double half = 0.5 * tl_exp (-0.5 * b * b) * p / (1.0 + 2.0 * a);
  double share = x < 0 ? half : 1.0 - half;
  share = x < -14.0f ? 0.0 : share;     /* below every float that is not subnormal */
  float r = (float) ((double) x * share);
  return x < -14.0f ? -0.0f : r;
}

TL_MATH float
tl_gelu_tanhf (float x)
{
  float u = fmaf (0.044715f * x, x * x, x) * 0.79788456080286536f;
  return 0.5f * x * (1.0f + tl_tanhf (u));
}

TL_MATH float
tl_softplusf (float x)
{
  return x > 20.0f ? x : (float) tl_log1p (tl_exp ((double) x));
}

TL_MATH float tl_softcapf (float x, float cap) { return cap * tl_tanhf (x / cap); }
