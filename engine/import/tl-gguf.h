/* import/tl-gguf.h — a GGUF file's table of contents: metadata values and tensors, checked against the file's size.
 *
 * Versions 2 and 3, little endian. Of the lists only the vocabulary's are kept. Read by position.
 */
#pragma once

#include "model/tl-file.h"
#include "model/tl-matrix.h"

G_BEGIN_DECLS

/* a block format of GGUF: how many values in how many bytes, and what they mean */
typedef struct
{
  guint32 id;
  const char *name;
  guint values, bytes;
  void (*to_f32) (const guint8 *block, float *out);     /* NULL: known by name only */
  TlFormat format;              /* what it becomes; TL_F32 when it has no lossless form here */
  TlOffset offset;
} TlGgufType;

typedef struct
{
  char *name;
  const TlGgufType *type;
  guint n_dims;
  guint64 dims[4];              /* dims[0] = inputs, dims[1] = rows */
  guint64 offset, size;         /* in the file */
} TlGgufTensor;

typedef struct
{
  TlFile *file;
  GHashTable *numbers;          /* key -> double * */
  GHashTable *texts;            /* key -> text */
  GPtrArray *tokens, *merges;   /* texts of the vocabulary, or NULL */
  GByteArray *scores, *types;   /* float and gint32 of every token, or NULL */
  GHashTable *tensors;          /* name -> TlGgufTensor */
} TlGguf;

/* Errors: BAD_FILE, UNSUPPORTED naming a tensor's type */
TlGguf *tl_gguf_open (const char *path, GError **error);
void tl_gguf_free (TlGguf *g);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlGguf, tl_gguf_free)

const TlGgufType *tl_gguf_type (guint32 id);
/* one block of INT4 or INT8 values, split: 32 values as stored here, its scale and offset as F16 bits */
void tl_gguf_split_block (const TlGgufType *type, const guint8 *block, guint8 *values, guint16 *scale, guint16 *minimum);

/* the smallest format that keeps every value of the matrix: its own, Q4_0, Q4_1, Q5_1, Q8_0, or else F32 */
const TlGgufType *tl_gguf_pack_type (const TlMatrix *m);
/* row r in that format; out has cols / values * bytes */
void tl_gguf_pack_row (const TlGgufType *type, const TlMatrix *m, guint r, guint8 *out);

G_END_DECLS
