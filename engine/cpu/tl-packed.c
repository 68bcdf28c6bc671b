/* cpu/tl-packed.c — packing of matrices into blocks of 16 rows, and memory for weights and activations. */
#include "cpu/tl-kernels-private.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ROUND_UP(n, to) (((n) + (to) - 1) / (to) * (to))
#define HUGE_PAGE (2u << 20)

static void
describe (TlPackedMatrix *p, const TlMatrix *m)
{
  guint n = TL_TILE_ROWS;
  *p = (TlPackedMatrix) { .format = m->format, .scale_format = m->scale_format, .offset = m->offset,
    .rows = m->rows, .cols = m->cols, .group = tl_matrix_arith_group (m) };
  p->n_groups = (m->cols + p->group - 1) / p->group;
  p->padded_cols = ROUND_UP (m->cols, 32);

  gsize data = m->format == TL_F32 ? (gsize) m->cols * n * 4
    : m->format == TL_INT8 ? (gsize) p->padded_cols * n
    : m->format == TL_INT4 ? (gsize) p->padded_cols * n / 2 : (gsize) m->cols * n * 2;
  p->scales_at = ROUND_UP (data, 64);
  gsize scales = m->group == 0 ? 0 : (gsize) p->n_groups * n * (m->scale_format == TL_F32 ? 4 : 2);
  p->extra_at = ROUND_UP (p->scales_at + scales, 64);
  gsize extra = m->offset == TL_OFFSET_ZERO ? (gsize) p->n_groups * n
    : m->offset == TL_OFFSET_MIN ? (gsize) p->n_groups * n * 2 : 0;
  p->block_bytes = ROUND_UP (p->extra_at + extra, 64);
  p->bytes = p->block_bytes * ((m->rows + n - 1) / n);
}

gsize
tl_packed_matrix_size (const TlMatrix *m)
{
  TlPackedMatrix p;
  describe (&p, m);
  return p.bytes;
}

static void
pack_int4_row (guint8 *block, guint lane, const guint8 *row, guint cols)
{
  for (guint c = 0; c < cols; c++)
    {
      guint8 q = row[c / 2] >> (c % 2 * 4) & 15;
      guint within = c % 32, half = within / 16, j = within % 16 / 4, b = within % 4;
      block[c / 32 * 256 + j * 64 + lane * 4 + b] |= q << (half * 4);
    }
}

static void
pack_row_data (TlPackedMatrix *p, guint8 *block, guint lane, const TlMatrix *m, guint r)
{
  const guint8 *row = (const guint8 *) m->data + r * tl_matrix_row_bytes (m);
  switch (m->format)
    {
    case TL_F32:
      for (guint c = 0; c < m->cols; c++)
        memcpy (block + ((gsize) c * TL_TILE_ROWS + lane) * 4, row + c * 4, 4);
      break;
    case TL_F16:
    case TL_BF16:
      for (guint c = 0; c < m->cols; c++)
        memcpy (block + ((gsize) c * TL_TILE_ROWS + lane) * 2, row + c * 2, 2);
      break;
    case TL_INT8:
      for (guint c = 0; c < m->cols; c++)
        block[c / 4 * 64 + lane * 4 + c % 4] = row[c] ^ 0x80;
      break;
    case TL_INT4:
      pack_int4_row (block, lane, row, m->cols);
      break;
    }
}

static void
pack_row_scales (TlPackedMatrix *p, guint8 *block, guint lane, const TlMatrix *m, guint r)
{
  guint stored_groups = tl_matrix_n_groups (m), size = m->scale_format == TL_F32 ? 4 : 2;
  for (guint g = 0; g < p->n_groups && m->group; g++)
    {
      gsize from = (gsize) r * stored_groups + (gsize) g * p->group / m->group, to = (gsize) g * TL_TILE_ROWS + lane;
      memcpy (block + p->scales_at + to * size, (const guint8 *) m->scale + from * size, size);
      if (m->offset == TL_OFFSET_ZERO)
        block[p->extra_at + to] = m->zero[from];
      else if (m->offset == TL_OFFSET_MIN)
        memcpy (block + p->extra_at + to * 2, m->minimum + from, 2);
    }
}

void
tl_packed_matrix_init (TlPackedMatrix *p, const TlMatrix *m, gpointer memory)
{
  describe (p, m);
  p->owned = memory == NULL;
  p->blocks = memory ? memory : tl_packed_memory_new (p->bytes);
  for (guint r = 0; r < m->rows; r++)
    {
      guint8 *block = p->blocks + r / TL_TILE_ROWS * p->block_bytes;
      pack_row_data (p, block, r % TL_TILE_ROWS, m, r);
      pack_row_scales (p, block, r % TL_TILE_ROWS, m, r);
    }
}

void
tl_packed_matrix_clear (TlPackedMatrix *p)
{
  if (p->owned)
    tl_packed_memory_free (p->blocks, p->bytes);
  memset (p, 0, sizeof *p);
}

gpointer
tl_packed_memory_new (gsize size)
{
  gsize n = ROUND_UP (MAX (size, 1), HUGE_PAGE);
  guint8 *raw = mmap (NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    g_error ("tinyloop: out of memory: %" G_GSIZE_FORMAT " bytes for packed weights", n);

  gsize before = -(guintptr) raw % HUGE_PAGE;   /* align to huge pages, give the rest back */
  if (before)
    munmap (raw, before);
  munmap (raw + before + n, HUGE_PAGE - before);
  madvise (raw + before, n, MADV_HUGEPAGE);
  return raw + before;
}

void
tl_packed_memory_free (gpointer memory, gsize size)
{
  if (memory)
    munmap (memory, ROUND_UP (MAX (size, 1), HUGE_PAGE));
}

gsize
tl_packed_memory_huge_bytes (gconstpointer memory, gsize size)
{
  g_autofree char *text = NULL;
  if (!g_file_get_contents ("/proc/self/smaps", &text, NULL, NULL))
    return 0;
  guint64 begin = 0, end = 0, a, b, kilobytes, found = 0;
  for (char *line = text; line && *line; line = strchr (line, '\n'), line = line ? line + 1 : NULL)
    if (sscanf (line, "%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x ", &a, &b) == 2)
      begin = a, end = b;
    else if (sscanf (line, "AnonHugePages: %" G_GUINT64_FORMAT, &kilobytes) == 1
        && begin < (guintptr) memory + size && end > (guintptr) memory)
      found += kilobytes << 10;
  return MIN (found, size);             /* a neighbour may share the system's mapping */
}

void
tl_packed_matrix_row_to_f32 (const TlPackedMatrix *p, guint r, float *out)
{
  const guint8 *block = p->blocks + r / TL_TILE_ROWS * p->block_bytes;
  guint lane = r % TL_TILE_ROWS;
  for (guint c = 0; c < p->cols; c++)
    out[c] = tl_packed_element (p, block, lane, c);
}

gsize
tl_activations_size (guint max_rows, guint cols, guint group)
{
  gsize stride = ROUND_UP ((gsize) cols, 64), groups = (cols + group - 1) / group;
  return ROUND_UP (max_rows * stride * 5, 64) + 2 * ROUND_UP (max_rows * groups * 4, 64);
}

void
tl_activations_init (TlActivations *a, gpointer memory, guint max_rows, guint cols, guint group)
{
  guint n_groups = (cols + group - 1) / group;
  gsize stride = ROUND_UP ((gsize) cols, 64), sums = ROUND_UP ((gsize) max_rows * n_groups * 4, 64);
  guint8 *at = memory;
  memset (memory, 0, tl_activations_size (max_rows, cols, group));
  *a = (TlActivations) { .max_rows = max_rows, .cols = cols, .group = group, .n_groups = n_groups, .stride = stride };
  a->x = (float *) at;
  a->scale = (float *) (at += max_rows * stride * 4);
  a->sum = (gint32 *) (at += sums);
  a->q = (gint8 *) (at += sums);
}
