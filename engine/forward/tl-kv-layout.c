/* forward/tl-kv-layout.c — sizes and places, from one table of modes. */
#include "forward/tl-kv-layout.h"

/* kind 0: K or the input, 1: V. group: values that share a scale; 0 = the whole row */
static const struct
{
  const char *name;
  gboolean inputs;
  TlKvMode open;
  struct { TlTileForm form; guint group; } kind[2];
} modes[TL_N_KV_MODES] = {
  [TL_KV_FP16] = { "fp16", FALSE, TL_KV_FP16, { { TL_TILE_F16, 0 }, { TL_TILE_F16, 0 } } },
  [TL_KV_FP32] = { "fp32", FALSE, TL_KV_FP32, { { TL_TILE_F32, 0 }, { TL_TILE_F32, 0 } } },
  [TL_KV_INT8] = { "int8", FALSE, TL_KV_INT8, { { TL_TILE_INT8, 0 }, { TL_TILE_INT8, 0 } } },
  [TL_KV_INT4] = { "int4", FALSE, TL_KV_FP16, { { TL_TILE_INT4_COLUMNS, 0 }, { TL_TILE_INT4_ROWS, 64 } } },
  [TL_KV_H] = { "h", TRUE, TL_KV_H, { { TL_TILE_F16, 0 } } },
  [TL_KV_H_INT8] = { "h-int8", TRUE, TL_KV_H_INT8, { { TL_TILE_INT8, 64 } } },
};

static TlTile
tile_of (TlTileForm form, guint group, guint dim)
{
  TlTile t = { .form = form, .dim = dim, .group = group ? MIN (group, dim) : dim };
  gsize scales = 0;
  t.n_groups = (dim + t.group - 1) / t.group;
  switch (form)
    {
    case TL_TILE_F16: t.row_bytes = dim * 2; break;
    case TL_TILE_F32: t.row_bytes = dim * 4; break;
    case TL_TILE_INT8: t.row_bytes = dim, scales = (gsize) TL_PAGE_POSITIONS * t.n_groups * 2; break;
    case TL_TILE_INT4_ROWS: t.row_bytes = (dim + 1) / 2, scales = (gsize) TL_PAGE_POSITIONS * t.n_groups * 4; break;
    case TL_TILE_INT4_COLUMNS: t.row_bytes = (dim + 1) / 2, scales = (gsize) dim * 4; break;
    }
  t.scales_at = TL_PAGE_POSITIONS * t.row_bytes;
  t.bytes = (t.scales_at + scales + 63) / 64 * 64;
  return t;
}

TlKvLayout
tl_kv_layout_of_dims (TlKvMode mode, guint n_kv_heads, guint head_dim, guint d_model)
{
  gboolean inputs = modes[mode].inputs;
  TlKvLayout l = { .n_kinds = inputs ? 1 : 2, .n_heads = inputs ? 1 : n_kv_heads };
  for (guint kind = 0; kind < l.n_kinds; kind++)
    {
      l.tile[kind] = tile_of (modes[mode].kind[kind].form, modes[mode].kind[kind].group, inputs ? d_model : head_dim);
      l.at[kind] = l.plane_bytes;
      l.plane_bytes += l.n_heads * l.tile[kind].bytes;
    }
  return l;
}

TlKvLayout
tl_kv_layout (const TlProgram *p, TlKvMode mode)
{
  return tl_kv_layout_of_dims (mode, p->n_kv_heads, p->head_dim, p->d_model);
}

TlKvMode
tl_kv_open_mode (TlKvMode mode)
{
  return modes[mode].open;
}

gboolean
tl_kv_keeps_inputs (TlKvMode mode)
{
  return modes[mode].inputs;
}

const char *
tl_kv_mode_name (TlKvMode mode)
{
  return modes[mode].name;
}

gsize
tl_kv_page_bytes (const TlProgram *p, guint group, TlKvMode mode)
{
  TlPlanes planes = group == TL_GROUP_PRE ? TL_PLANES_PRE : group == TL_GROUP_CODA ? TL_PLANES_CODA : TL_PLANES_LOOP;
  return tl_program_n_planes (p, planes) * tl_kv_layout (p, mode).plane_bytes;
}

guint64
tl_kv_bytes_per_token (const TlDescriptor *d, guint loops, TlKvMode mode)
{
  guint64 planes = d->n_blocks[TL_STACK_PRE] + (guint64) d->n_blocks[TL_STACK_LOOP] * loops + d->n_blocks[TL_STACK_CODA];
  return planes * tl_kv_layout_of_dims (mode, d->n_kv_heads, d->head_dim, d->d_model).plane_bytes / TL_PAGE_POSITIONS;
}
