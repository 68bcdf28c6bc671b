/* import/tl-gguf-names.h — what GGUF calls a slot and where it keeps its rows: read and written by the same table. */
#pragma once

#include "model/tl-weights.h"

G_BEGIN_DECLS

/* the slot's name as tensor of block @block; transfer full */
char *tl_gguf_tensor_name (const TlWeightSlot *slot, guint block);
/* the slot's name without its stack and block */
const char *tl_gguf_slot_tail (const TlWeightSlot *slot);
/* the file's row (element, of a bias) that holds row @r of the slot; @pairs: the architecture keeps rows of q and k in the
 * order of interleaved rotation pairs */
guint tl_gguf_row (const TlWeightSlot *slot, gboolean pairs, guint head_dim, guint r);

G_END_DECLS
