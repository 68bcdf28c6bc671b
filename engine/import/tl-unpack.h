/* import/tl-unpack.h — quantised matrices as Hugging Face folders pack them: GPTQ, AWQ, compressed-tensors. */
#pragma once

#include "import/tl-config.h"
#include "model/tl-matrix.h"

G_BEGIN_DECLS

/* reads the whole tensor STEM.part: its bytes (transfer full), dtype and up to two dimensions; NULL when absent */
typedef guint8 *(*TlPackedRead) (const char *name, const char **dtype, gsize dims[2], gpointer data, GError **error);

typedef struct
{
  TlMatrix m;                   /* owns its arrays */
  gint32 *groups;               /* group of every input when they are not in order (act-order), else NULL */
} TlUnpacked;

/* stem: name without ".weight". NULL with BAD_FILE when a part is missing or has a wrong shape */
TlUnpacked *tl_packed_read (const TlQuantised *q, const char *stem, guint rows, guint cols, const char *file_name,
    TlPackedRead read, gpointer data, GError **error);
void tl_unpacked_row_to_f32 (const TlUnpacked *u, guint r, float *out);
void tl_unpacked_free (TlUnpacked *u);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlUnpacked, tl_unpacked_free)

/* the part that says that a matrix is packed, and all parts that one may have; NULL ends */
const char *tl_packed_main_part (TlPacking packing);
extern const char *const tl_packed_parts[];

G_END_DECLS
