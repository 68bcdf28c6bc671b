/* quantize/tl-round.h — round-to-nearest quantisation of a matrix, symmetric, F16 scales. */
#pragma once

#include "model/tl-matrix.h"

G_BEGIN_DECLS

/* Values: [rows][cols]. format: TL_INT8 or TL_INT4. group: 32, 64, 128 or cols (per channel).
 * The result owns its arrays; free with tl_matrix_free. Values must be finite. */
TlMatrix *tl_quantize_round (const float *values, guint rows, guint cols, TlFormat format, guint group);
void tl_matrix_free (TlMatrix *m);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlMatrix, tl_matrix_free)

G_END_DECLS
