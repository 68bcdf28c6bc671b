/* cpu/tl-isa.c — CPUID and XCR0: which kernels this machine can run. Called once per backend and by tests. */
#include "cpu/tl-isa.h"
#include "cpu/tl-kernels-private.h"
#include "tl-error.h"

#include <string.h>

static const char *const names[TL_N_ISA] = { "scalar", "avx2", "avx512", "vnni", "amx" };

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REQUEST_STATE_PERMISSION 0x1023u        /* arch_prctl: ARCH_REQ_XCOMP_PERM */
#define TILE_DATA 18u                           /* the state component asked for */

static guint64
enabled_states (void)
{
  guint32 low, high;
  __asm__ volatile ("xgetbv" : "=a" (low), "=d" (high) : "c" (0));
  return (guint64) high << 32 | low;
}

static TlIsa
best_without_amx (void)
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

/* why the AMX kernels cannot be used here; NULL: they can. CPUID, XCR0, then the system, then one product */
static const char *
amx_missing (void)
{
  const guint64 tile_states = 3u << 17;
  guint a, b, c, d;
  if (!__get_cpuid_count (7, 0, &a, &b, &c, &d) || !(d & (1u << 24)) || !(d & (1u << 25)))
    return "this processor has no AMX int8";
  if (best_without_amx () < TL_ISA_VNNI)
    return "the AMX kernels also need AVX512-VNNI, which this processor or system lacks";
  if ((enabled_states () & tile_states) != tile_states
      || syscall (SYS_arch_prctl, REQUEST_STATE_PERMISSION, TILE_DATA) != 0)
    return "this system does not let the process use AMX";
  return tl_tiles_are_right_amx () ? NULL : "AMX computes wrong products here";
}
#else
static TlIsa
best_without_amx (void)
{
  return TL_ISA_SCALAR;
}

static const char *
amx_missing (void)
{
  return "this processor has no AMX int8";
}
#endif

static TlIsa
best (void)
{
  static gsize once;
  if (g_once_init_enter (&once))
    g_once_init_leave (&once, 1 + (amx_missing () ? best_without_amx () : TL_ISA_AMX));
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
        const char *why = i == TL_ISA_AMX ? amx_missing () : NULL;
        g_set_error (error, TL_ERROR, TL_ERROR_DEVICE, "TINYLOOP_CPU=%s: %s; the best here is '%s'", forced,
          why ? why : "this processor or system lacks it", names[best ()]);
        return FALSE;
      }
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
    "TINYLOOP_CPU=%s: unknown; use scalar, avx2, avx512, vnni or amx", forced);
  return FALSE;
}
