/* cpu/tl-packed.h — weight matrices as the kernels read them, and activations as they multiply them.
 *
 * A matrix is packed once from its stored form into blocks of 16 output rows; inside a block the inputs come in order, 16
 * rows side by side, so that one 64-byte line feeds 16 lanes:
 *   F32, F16, BF16  [input][16 rows]
 *   INT8            [input / 4][16 rows][4 inputs], stored as q + 128
 *   INT4            per 32 inputs four lines; line j, row r, byte b: low nibble = input 4j + b, high = 16 + 4j + b
 * followed, for the quantised ones, by the scales [group][16 rows] (format of the matrix), then zeros [group][16] (bytes)
 * or minima [group][16] (F16). Rows are padded to 16 (all zero), inputs to 32. Weight groups wider than 128 inputs repeat
 * their scale, so that here every group is a group of the arithmetic.
 */
#pragma once

#include "model/tl-matrix.h"

G_BEGIN_DECLS

#define TL_TILE_ROWS 16

typedef struct
{
  TlFormat format, scale_format;
  TlOffset offset;
  guint rows, cols;
  guint group;          /* arithmetic group: 32 for float weights */
  guint n_groups;       /* ceil (cols / group) */
  guint padded_cols;    /* multiple of 32 */
  gsize scales_at, extra_at;    /* bytes from a block's start */
  gsize block_bytes;            /* bytes of 16 rows; multiple of 64 */
  guint8 *blocks;       /* [ceil (rows / 16)][block_bytes], 64-byte aligned */
  gsize bytes;          /* all of it, for memory figures */
  gboolean owned;
} TlPackedMatrix;

/* Bytes that tl_packed_matrix_init() needs; a caller that packs several matrices in the order they are used gives the
 * memory itself. */
gsize tl_packed_matrix_size (const TlMatrix *m);
/* memory: zeroed, 64-byte aligned and at least tl_packed_matrix_size(); NULL: allocated here, freed by clear() */
void tl_packed_matrix_init (TlPackedMatrix *p, const TlMatrix *m, gpointer memory);
void tl_packed_matrix_clear (TlPackedMatrix *p);
/* Page-aligned memory for weights, in huge pages where the system has them; zeroed. */
gpointer tl_packed_memory_new (gsize size);
void tl_packed_memory_free (gpointer memory, gsize size);
/* how many bytes of such memory lie in huge pages now; 0 where the system does not tell */
gsize tl_packed_memory_huge_bytes (gconstpointer memory, gsize size);

/* row r in F32, the bits of tl_matrix_row_to_f32() (embedding gather); out [cols] */
void tl_packed_matrix_row_to_f32 (const TlPackedMatrix *p, guint r, float *out);

/* Activations of up to `max_rows` rows: F32 always, and their quantised form where weights are quantised. */
typedef struct
{
  guint max_rows, cols, group, n_groups;
  gsize stride;         /* elements per row of x and q: cols padded to 64, the padding zero */
  float *x;             /* [max_rows][stride] */
  gint8 *q;             /* [max_rows][stride] */
  float *scale;         /* [max_rows][n_groups] */
  gint32 *sum;          /* [max_rows][n_groups], sum of q */
} TlActivations;

/* group: of the matrices it will meet (TlPackedMatrix.group) */
gsize tl_activations_size (guint max_rows, guint cols, guint group);
/* memory: 64-byte aligned, tl_activations_size() bytes; zeroed by this call */
void tl_activations_init (TlActivations *a, gpointer memory, guint max_rows, guint cols, guint group);

G_END_DECLS
