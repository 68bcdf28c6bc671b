/* cpu/tl-isa.h — which instruction sets this processor and system offer, and which one to use.
 *
 * Found once by CPUID and XCR0. TINYLOOP_CPU=scalar|avx2|avx512|vnni|amx forces one; it is an error when it is not there.
 * AMX (int8) needs the system's permission, which is asked for once here, and is there only when a first product is right.
 * Each level includes the ones before it. Results are the same bits on all.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum { TL_ISA_SCALAR, TL_ISA_AVX2, TL_ISA_AVX512, TL_ISA_VNNI, TL_ISA_AMX } TlIsa;
#define TL_N_ISA 5

gboolean tl_isa_present (TlIsa isa);
/* the forced one, or the best present. Errors: TL_ERROR_INVALID_ARGUMENT, TL_ERROR_DEVICE */
gboolean tl_isa_choose (TlIsa *isa, GError **error);

G_END_DECLS
