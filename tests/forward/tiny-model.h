/* tests/forward/tiny-model.h — a small looped model of any weight format, made here: same bytes on every machine.
 *
 * One pre block, a loop block, a coda block, injection by linear, grouped queries; random weights of a size that keeps the
 * residual stream near one. For tests of bit identity and of the public objects; it has no tokenizer.
 */
#pragma once

#include "model/tl-weights.h"

typedef struct
{
  const char *name;
  TlFormat format;
  TlOffset offset;
  TlFormat scale_format;
  guint group;                  /* 0 for float formats; G_MAXUINT = per channel */
  guint d_model, head_dim, n_heads, n_kv_heads, d_ff, vocab_size, max_seq_len;
} TinyModel;

/* writes it to a new temporary file; transfer full, remove it when done */
char *tiny_model_write (const TinyModel *m);
/* the same with a descriptor of the caller's (all matrices in m's format) */
char *tiny_model_write_descriptor (const TinyModel *m, TlDescriptor *d);
TlDescriptor *tiny_model_descriptor (const TinyModel *m);
/* id t of an endless text */
guint32 tiny_model_id (const TinyModel *m, guint t);
