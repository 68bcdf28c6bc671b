/* forward/tl-reference.h — the forward pass from its definition: F64, no cache, no operations list, one sequence at once.
 *
 * Reads descriptor and weights only, so that it shares no code with what it checks. Compared by tolerance in tests; as
 * `device=reference` the whole engine above the backend runs on it.
 */
#pragma once

#include "forward/tl-backend.h"

G_BEGIN_DECLS

typedef struct
{
  guint loops;
  const guint *depths;          /* [n] loops of each position (a row at depth d reads plane min (d, e)); NULL = loops */
  guint window;                 /* 0 = none */
  const float *initial_state;   /* [n][d_model] or NULL = zeros */
  gboolean propagate;           /* a stopped row's deeper planes are projected from its state instead of copied */
  TlKvMode mode;                /* keys and values, or attention inputs, are rounded as the mode stores them */
  GCancellable *cancellable;    /* polled once per loop; or NULL */
} TlReferenceOptions;

/* logits: [n][vocab_size]. Only programs that tl_program_new() accepts. FALSE: cancelled. */
gboolean tl_reference_logits (const TlProgram *program, const guint32 *tokens, guint n, const TlReferenceOptions *options,
  float *logits);

/* device=reference: sequences as a whole, one thread, activations never quantised */
const TlBackendClass *tl_backend_reference_class (void);

G_END_DECLS
