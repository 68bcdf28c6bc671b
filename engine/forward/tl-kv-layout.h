/* forward/tl-kv-layout.h — what stands where in a page, in every storage mode.
 *
 * A page holds 32 positions of a plane group: [plane][K, then V][kv head] tiles, or [plane] one tile of attention inputs.
 * A tile is 32 rows in one form: the values of all rows, then their scales. The one definition for backends (which write and
 * read rows) and cache/ (which sizes pages and copies positions). The rules of rounding: cpu/tl-tile.c, docs/arithmetic.md.
 */
#pragma once

#include "forward/tl-batch.h"
#include "forward/tl-program.h"

G_BEGIN_DECLS

typedef enum
{
  TL_TILE_F16,
  TL_TILE_F32,
  TL_TILE_INT8,                 /* scale F16 of every group of a row: [32][groups] */
  TL_TILE_INT4_ROWS,            /* scale and minimum F16 of every group of a row: [32][groups][2] */
  TL_TILE_INT4_COLUMNS,         /* scale and minimum F16 of every channel over the 32 rows: [dim] scales, [dim] minima */
} TlTileForm;

/* Two INT4 values of a row stand in a byte, the even one low. */
typedef struct
{
  TlTileForm form;
  guint dim;                    /* values of a row */
  guint group, n_groups;        /* values that share a scale (the last group may be short); groups of a row */
  gsize row_bytes;              /* row r begins r * row_bytes into the tile */
  gsize scales_at;              /* bytes from the tile's start */
  gsize bytes;                  /* of the tile, a multiple of 64 */
} TlTile;

/* One plane of a page */
typedef struct
{
  guint n_kinds, n_heads;       /* 2 (K, V) and kv heads; or 1 (inputs) and 1 */
  TlTile tile[2];
  gsize at[2];                  /* first tile of a kind, bytes from the plane's start */
  gsize plane_bytes;
} TlKvLayout;

/* of the pages in which mode's finished rows are kept (int4: of closed pages) */
TlKvLayout tl_kv_layout_of_dims (TlKvMode mode, guint n_kv_heads, guint head_dim, guint d_model);
TlKvLayout tl_kv_layout (const TlProgram *p, TlKvMode mode);
/* The mode of the pages that rows are written to: fp16 for int4, whose pages close when all their rows are final; else itself */
TlKvMode tl_kv_open_mode (TlKvMode mode);
/* attention inputs are kept; K and V are made from them whenever they are read */
gboolean tl_kv_keeps_inputs (TlKvMode mode);
const char *tl_kv_mode_name (TlKvMode mode);    /* "fp16" … "h-int8" */

/* bytes of one page of a plane group in a mode; 0 for a group without planes */
gsize tl_kv_page_bytes (const TlProgram *p, guint group, TlKvMode mode);
/* bytes that 32 positions take at `loops` loops, divided by 32 */
guint64 tl_kv_bytes_per_token (const TlDescriptor *d, guint loops, TlKvMode mode);

/* a tile's bytes from its page's start */
static inline gsize
tl_kv_tile_at (const TlKvLayout *l, guint plane, guint kind, guint head)
{
  return plane * l->plane_bytes + l->at[kind] + head * l->tile[kind].bytes;
}

/* bytes from a tile's start to the scales of a row, and how many; none for forms without (INT4_COLUMNS is not row by row) */
static inline gsize
tl_tile_row_scales_at (const TlTile *t, guint row)
{
  return t->scales_at + (gsize) row * t->n_groups * (t->form == TL_TILE_INT4_ROWS ? 4 : 2);
}

static inline gsize
tl_tile_row_scale_bytes (const TlTile *t)
{
  return t->form == TL_TILE_INT8 ? t->n_groups * 2 : 0;
}

G_END_DECLS
