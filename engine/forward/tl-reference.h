/* forward/tl-reference.h — the forward pass from its definition: F64, no cache, no operations list, one sequence at once.
 *
 * Reads descriptor and weights only, so that it shares no code with what it checks. Compared by tolerance in tests.
 */
#pragma once

#include "forward/tl-program.h"

G_BEGIN_DECLS

typedef struct
{
  guint loops;
  const guint *depths;          /* [n] loops of each position (a row at depth d reads plane min (d, e)); NULL = loops */
  guint window;                 /* 0 = none */
  const float *initial_state;   /* [n][d_model] or NULL = zeros */
} TlReferenceOptions;

/* logits: [n][vocab_size]. Only programs that tl_program_new() accepts. */
void tl_reference_logits (const TlProgram *program, const guint32 *tokens, guint n, const TlReferenceOptions *options,
  float *logits);

G_END_DECLS
