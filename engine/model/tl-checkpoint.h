/* model/tl-checkpoint.h — a `.tinyloop` file: safetensors with a descriptor. Read by mmap, written tensor by tensor.
 *
 * Canonical tensor names (N = block index in its stack, S = pre | loop | coda):
 *   embed.weight [vocab_padded, d]  head.weight (absent when tied)  embed_norm.weight  prelude_norm.weight  loop_norm.weight
 *   pre_coda_norm.weight  final_norm.weight  inject.weight [d, 2d]  inject.bias  pos.weight  rope.factors [rope_dims/2]
 *   post_loop.weight  exit_gate.weight  exit_gate.bias  head.bias
 *   S.N.attn_norm.weight  S.N.attn_out_norm.weight  S.N.mlp_norm.weight  S.N.mlp_out_norm.weight
 *   S.N.attn.{q,k,v,o}.{weight,bias}  S.N.attn.{q_norm,k_norm}.weight  S.N.attn.qk_bias [2, heads, head_dim]
 *   S.N.mlp.{gate,up,down}.{weight,bias}     (ungated kinds have up and down only)
 * A quantised NAME.weight (I8, or U8 of packed nibbles) has NAME.scale [rows, groups] and, by offset, NAME.zero or NAME.min;
 * its format, group and offset stand in the descriptor's "tensors" object, keyed by NAME.weight.
 * Biases and norm weights are F32 vectors in memory (stored F32, F16 or BF16, converted at load).
 * Tokenizer tensors are named tokenizer.*; alignment gaps are U8 tensors _pad.N.
 */
#pragma once

#include <gio/gio.h>

#include "model/tl-descriptor.h"
#include "model/tl-matrix.h"

G_BEGIN_DECLS

typedef struct _TlCheckpoint TlCheckpoint;

typedef struct
{
  const char *name;
  const char *dtype;            /* safetensors name: "F32", "F16", "BF16", "I8", "U8", "I32" */
  guint n_dims;
  gsize dims[8];
  const void *data;             /* NULL when the file was opened for its header only */
  gsize size;                   /* bytes */
  guint64 offset;               /* of the first byte in the file */
} TlTensorView;

/* Maps and validates everything in the header; touches no tensor bytes. */
TlCheckpoint *tl_checkpoint_open (const char *path, GError **error);
/* Reads the header only, maps nothing: for `inspect`, which must survive a file that shrinks. Tensor data is NULL. */
TlCheckpoint *tl_checkpoint_open_header (const char *path, GError **error);
/* Any safetensors file, header only, without a descriptor: what importers read from. */
TlCheckpoint *tl_checkpoint_open_foreign (const char *path, GError **error);
/* Same checks on bytes in memory (tests, importers); keeps a reference to them. */
TlCheckpoint *tl_checkpoint_new_from_bytes (GBytes *bytes, const char *name, GError **error);
TlCheckpoint *tl_checkpoint_ref (TlCheckpoint *c);
void tl_checkpoint_unref (TlCheckpoint *c);

TlDescriptor *tl_checkpoint_descriptor (TlCheckpoint *c);            /* transfer none */
const char *tl_checkpoint_name (TlCheckpoint *c);                     /* for messages */
gsize tl_checkpoint_file_size (TlCheckpoint *c);
guint tl_checkpoint_n_tensors (TlCheckpoint *c);
const TlTensorView *tl_checkpoint_tensor_at (TlCheckpoint *c, guint i);
const TlTensorView *tl_checkpoint_find (TlCheckpoint *c, const char *name);  /* NULL when absent */

/* NAME.weight with its scales and offsets; missing or wrongly shaped tensors are errors that name them */
gboolean tl_checkpoint_matrix (TlCheckpoint *c, const char *name, guint rows, guint cols, TlMatrix *out, GError **error);
/* where the matrix came from when its format changed at convert time ("Q4_K"), or NULL */
const char *tl_checkpoint_matrix_source (TlCheckpoint *c, const char *name);
/* a vector converted to F32; transfer full, free with g_free */
float *tl_checkpoint_vector (TlCheckpoint *c, const char *name, gsize n, GError **error);
/* the tensor's bytes will not be read again soon: drop its pages (no-op for bytes in memory) */
void tl_checkpoint_release_pages (TlCheckpoint *c, const void *data, gsize size);
/* recomputes the content hash over all bytes: slow, `inspect --verify` */
gboolean tl_checkpoint_verify (TlCheckpoint *c, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlCheckpoint, tl_checkpoint_unref)

/* --- writing: sizes first, then bytes in the same order, so that nothing is held in memory --- */
typedef struct _TlCheckpointWriter TlCheckpointWriter;

TlCheckpointWriter *tl_checkpoint_writer_new (const char *path, TlDescriptor *descriptor);
/* declares a tensor; a matrix declares weight, scale and offset together */
void tl_checkpoint_writer_add (TlCheckpointWriter *w, const char *name, const char *dtype, guint n_dims, const gsize *dims);
void tl_checkpoint_writer_add_matrix (TlCheckpointWriter *w, const char *name, const TlMatrix *shape);
/* notes in the file that NAME was stored as `source` where it was converted from */
void tl_checkpoint_writer_set_source (TlCheckpointWriter *w, const char *name, const char *source);
/* Writes the header to a temporary file beside `path`; then the declared tensors' bytes, in order; a tensor may come in several
 * calls, never two tensors in one. */
gboolean tl_checkpoint_writer_begin (TlCheckpointWriter *w, GError **error);
gboolean tl_checkpoint_writer_write (TlCheckpointWriter *w, const void *data, gsize size, GError **error);
gboolean tl_checkpoint_writer_write_matrix (TlCheckpointWriter *w, const TlMatrix *m, GError **error);
/* Fills in the content hash and renames into place. */
gboolean tl_checkpoint_writer_finish (TlCheckpointWriter *w, GError **error);
void tl_checkpoint_writer_free (TlCheckpointWriter *w);   /* removes an unfinished file */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlCheckpointWriter, tl_checkpoint_writer_free)

G_END_DECLS
