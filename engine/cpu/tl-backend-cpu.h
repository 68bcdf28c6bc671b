/* cpu/tl-backend-cpu.h — the CPU backend's class; the only thing of this room that others name.
 *
 * Used by the public objects in engine/ and by tests, which hand it to tl_backend_prepare().
 */
#pragma once

#include "forward/tl-backend.h"

G_BEGIN_DECLS

const TlBackendClass *tl_backend_cpu_class (void);

G_END_DECLS
