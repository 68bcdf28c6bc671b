/* cpu/tl-isa.c — CPUID and XCR0: which kernels this machine can run. Called once per backend and by tests. */
#include "cpu/tl-isa.h"
#include "tl-error.h"

#include <string.h>

static const char *const names[TL_N_ISA] = { "scalar", "avx2", "avx512", "vnni" };

#ifdef __x86_64__
#include <cpuid.h>

static guint64
enabled_states (void)
{
  guint32 low, high;
  __asm__ volatile ("xgetbv" : "=a" (low), "=d" (high) : "c" (0));
  return (guint64) high << 32 | low;
}

static TlIsa
best_present (void)
{
  guint a, b, c, d, b7, c7;
  if (!__get_cpuid (1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA) || !(c & bit_F16C))
    return TL_ISA_SCALAR;
  guint64 states = enabled_states ();
  if (!__get_cpuid_count (7, 0, &a, &b7, &c7, &d) || !(b7 & bit_AVX2) || (states & 0x6) != 0x6)
    return TL_ISA_SCALAR;
  guint avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  if ((b7 & avx512) != avx512 || (states & 0xe6) != 0xe6)
    return TL_ISA_AVX2;
  return c7 & (1u << 11) ? TL_ISA_VNNI : TL_ISA_AVX512;
}

static gboolean
has_amx (void)
{
  guint a, b, c, d;
  return __get_cpuid_count (7, 0, &a, &b, &c, &d) && (d & (1u << 24)) && (d & (1u << 25));
}
#else
static TlIsa
best_present (void)
{
  return TL_ISA_SCALAR;
}

static gboolean
has_amx (void)
{
  return FALSE;
}
#endif

static TlIsa
best (void)
{
  static gsize once;
  if (g_once_init_enter (&once))
    g_once_init_leave (&once, 1 + best_present ());
  return once - 1;
}

gboolean
tl_isa_present (TlIsa isa)
{
  return isa <= best ();
}

gboolean
tl_isa_choose (TlIsa *isa, GError **error)
{
  const char *forced = g_getenv ("TINYLOOP_CPU");
  *isa = best ();
  if (!forced || !*forced)
    return TRUE;

  for (guint i = 0; i < TL_N_ISA; i++)
    if (strcmp (forced, names[i]) == 0)
      {
        *isa = i;
        if (tl_isa_present (i))
          return TRUE;
        g_set_error (error, TL_ERROR, TL_ERROR_DEVICE,
          "TINYLOOP_CPU=%s: this processor or system lacks it; the best here is '%s'", forced, names[best ()]);
        return FALSE;
      }
  if (strcmp (forced, "amx") == 0)
    g_set_error (error, TL_ERROR, TL_ERROR_DEVICE, "TINYLOOP_CPU=amx: %s; the best here is '%s'",
      has_amx () ? "this version has no AMX kernels" : "this CPU has no AMX", names[best ()]);
  else
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
      "TINYLOOP_CPU=%s: unknown; use scalar, avx2, avx512 or vnni", forced);
  return FALSE;
}
