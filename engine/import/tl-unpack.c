/* import/tl-unpack.c — unpacks GPTQ, AWQ and compressed-tensors matrices into rows of outputs, losslessly.
 *
 * Values: nibbles of 32-bit words, along inputs (GPTQ, compressed-tensors) or outputs (AWQ, in its own order).
 * Scales: [groups, out] or [out, groups]. Zeros: nibbles along outputs; GPTQ's first format stores zero - 1.
 * Called by tl-hugging-face.c.
 */
#include "import/tl-unpack.h"

#include <string.h>

const char *const tl_packed_parts[] = { ".qweight", ".qzeros", ".scales", ".g_idx", ".weight_packed", ".weight_scale",
  ".weight_zero_point", ".weight_shape", NULL };

const char *
tl_packed_main_part (TlPacking packing)
{
  return packing == TL_PACKING_COMPRESSED ? ".weight_packed" : packing == TL_PACKING_INT8 ? ".weight_scale" : ".qweight";
}

void
tl_unpacked_free (TlUnpacked *u)
{
  if (!u)
    return;
  g_free ((gpointer) u->m.data);
  g_free ((gpointer) u->m.scale);
  g_free ((gpointer) u->m.zero);
  g_free (u->groups);
  g_free (u);
}

static float
scale_at (const TlMatrix *m, gsize i)
{
  return m->scale_format == TL_F32 ? ((const float *) m->scale)[i]
      : m->scale_format == TL_F16 ? tl_f16_to_f32 (((const guint16 *) m->scale)[i])
                                  : tl_bf16_to_f32 (((const guint16 *) m->scale)[i]);
}

void
tl_unpacked_row_to_f32 (const TlUnpacked *u, guint r, float *out)
{
  if (!u->groups)
    {
      tl_matrix_row_to_f32 (&u->m, r, out);
      return;
    }
  gsize n_groups = tl_matrix_n_groups (&u->m);
  const guint8 *row = (const guint8 *) u->m.data + r * tl_matrix_row_bytes (&u->m);
  for (guint c = 0; c < u->m.cols; c++)
    {
      gsize g = r * n_groups + u->groups[c];
      out[c] = scale_at (&u->m, g) * (float) ((row[c / 2] >> (c % 2 * 4) & 15) - u->m.zero[g]);
    }
}

/* --- parts --- */

typedef struct
{
  const TlQuantised *q;
  const char *stem, *file_name;
  TlPackedRead read;
  gpointer data;
  GError **error;
} Parts;

/* the part's bytes, its dtype and shape as expected (dims 0: any); NULL with an error */
static guint8 *
take_part (Parts *p, const char *part, const char *dtype, gsize d0, gsize d1, const char **found)
{
  g_autofree char *name = g_strconcat (p->stem, part, NULL);
  const char *type = NULL;
  gsize dims[2] = { 0 };
  g_autofree guint8 *bytes = p->read (name, &type, dims, p->data, p->error);
  if (found)
    *found = type;
  if (bytes && dims[0] == d0 && dims[1] == d1 && (!dtype || g_str_equal (type, dtype)))
    return g_steal_pointer (&bytes);
  if (!*p->error)
    g_set_error (p->error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' is missing or has not the dtype and shape "
        "%s [%" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT "]", p->file_name, name, dtype ? dtype : "of scales", d0, d1);
  return NULL;
}

static guint
nibble (const guint8 *words, gsize word, guint i)
{
  return words[word * 4 + i / 2] >> (i % 2 * 4) & 15;
}

/* where AWQ keeps output i of eight */
static guint
awq_place (guint i)
{
  static const guint places[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
  return places[i];
}

static gboolean
take_values (Parts *p, TlMatrix *m)
{
  gsize rows = m->rows, cols = m->cols, row_bytes = tl_matrix_row_bytes (m);
  TlPacking packing = p->q->packing;

  if (packing == TL_PACKING_INT8)
    return (m->data = take_part (p, ".weight", "I8", rows, cols, NULL)) != NULL;
  g_autofree guint8 *words = packing == TL_PACKING_COMPRESSED ? take_part (p, ".weight_packed", "I32", rows, cols / 8, NULL)
      : packing == TL_PACKING_AWQ ? take_part (p, ".qweight", "I32", cols, rows / 8, NULL)
                                  : take_part (p, ".qweight", "I32", cols / 8, rows, NULL);
  if (!words)
    return FALSE;
  guint8 *data = g_malloc0 (rows * row_bytes);
  m->data = data;
  for (gsize r = 0; r < rows; r++)
    for (gsize c = 0; c < cols; c++)
      {
        guint v = packing == TL_PACKING_COMPRESSED ? nibble (words, r * (cols / 8) + c / 8, c % 8)
            : packing == TL_PACKING_AWQ ? nibble (words, c * (rows / 8) + r / 8, awq_place (r % 8))
                                        : nibble (words, c / 8 * rows + r, c % 8);
        data[r * row_bytes + c / 2] |= v << (c % 2 * 4);
      }
  return TRUE;
}

static gboolean
take_scales (Parts *p, TlMatrix *m)
{
  gsize rows = m->rows, groups = tl_matrix_n_groups (m);
  gboolean by_row = p->q->packing == TL_PACKING_COMPRESSED || p->q->packing == TL_PACKING_INT8;
  const char *dtype = NULL;
  g_autofree guint8 *raw = by_row ? take_part (p, ".weight_scale", NULL, rows, groups, &dtype)
                                  : take_part (p, ".scales", NULL, groups, rows, &dtype);
  if (!raw)
    return FALSE;
  gsize size = g_str_equal (dtype, "F32") ? 4 : 2;
  if (size == 2 && !g_str_has_suffix (dtype, "F16"))
    return g_set_error (p->error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: the scales of '%s' have dtype %s", p->file_name,
        p->stem, dtype), FALSE;
  m->scale_format = size == 4 ? TL_F32 : g_str_equal (dtype, "F16") ? TL_F16 : TL_BF16;
  if (by_row)
    {
      m->scale = g_steal_pointer (&raw);
      return TRUE;
    }
  guint8 *scale = g_malloc (rows * groups * size);
  m->scale = scale;
  for (gsize r = 0; r < rows; r++)
    for (gsize g = 0; g < groups; g++)
      memcpy (scale + (r * groups + g) * size, raw + (g * rows + r) * size, size);
  return TRUE;
}

static gboolean
take_zeros (Parts *p, TlMatrix *m)
{
  gsize rows = m->rows, groups = tl_matrix_n_groups (m);
  TlPacking packing = p->q->packing;
  if (m->offset == TL_OFFSET_NONE)
    return TRUE;
  g_autofree guint8 *words = packing == TL_PACKING_COMPRESSED
      ? take_part (p, ".weight_zero_point", "I32", rows / 8, groups, NULL)
      : take_part (p, ".qzeros", "I32", groups, rows / 8, NULL);
  if (!words)
    return FALSE;
  guint8 *zero = g_malloc (rows * groups);
  m->zero = zero;
  for (gsize r = 0; r < rows; r++)
    for (gsize g = 0; g < groups; g++)
      {
        guint v = packing == TL_PACKING_COMPRESSED ? nibble (words, r / 8 * groups + g, r % 8)
            : nibble (words, g * (rows / 8) + r / 8, packing == TL_PACKING_AWQ ? awq_place (r % 8) : r % 8);
        zero[r * groups + g] = packing == TL_PACKING_GPTQ_V1 ? v + 1 : v;
      }
  return TRUE;
}

/* GPTQ's group of every input; kept only when the inputs are not in order */
static gboolean
take_order (Parts *p, TlUnpacked *u)
{
  g_autofree char *name = g_strconcat (p->stem, ".g_idx", NULL);
  const char *dtype = NULL;
  gsize dims[2] = { 0 };
  if (p->q->packing != TL_PACKING_GPTQ_V1 && p->q->packing != TL_PACKING_GPTQ_V2)
    return TRUE;
  g_autofree gint32 *order = (gint32 *) p->read (name, &dtype, dims, p->data, p->error);
  if (!order)
    return *p->error == NULL;           /* older files have none: in order */
  if (dims[0] * MAX (dims[1], 1) != u->m.cols || !g_str_equal (dtype, "I32"))
    return g_set_error (p->error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' does not have one I32 for each of %u "
        "inputs", p->file_name, name, u->m.cols), FALSE;

  gboolean in_order = TRUE;
  for (guint c = 0; c < u->m.cols; c++)
    {
      order[c] = GINT32_FROM_LE (order[c]);
      in_order &= order[c] == (gint32) (c / u->m.group);
      if (order[c] < 0 || order[c] >= (gint32) tl_matrix_n_groups (&u->m))
        return g_set_error (p->error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' names a group that does not "
            "exist", p->file_name, name), FALSE;
    }
  u->groups = in_order ? NULL : g_steal_pointer (&order);
  return TRUE;
}

TlUnpacked *
tl_packed_read (const TlQuantised *q, const char *stem, guint rows, guint cols, const char *file_name, TlPackedRead read,
    gpointer data, GError **error)
{
  g_autoptr (TlUnpacked) u = g_new0 (TlUnpacked, 1);
  g_autoptr (GError) local = NULL;
  Parts parts = { q, stem, file_name, read, data, &local };
  gboolean int8 = q->packing == TL_PACKING_INT8;

  u->m = (TlMatrix) { .format = int8 ? TL_INT8 : TL_INT4, .rows = rows, .cols = cols, .group = q->group ? q->group : cols,
    .offset = q->symmetric ? TL_OFFSET_NONE : TL_OFFSET_ZERO };
  if (!int8 && (rows % 8 != 0 || cols % 8 != 0))
    g_set_error (&local, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: '%s' is packed by eights but has %u x %u values", file_name,
        stem, rows, cols);
  else if (take_values (&parts, &u->m) && take_scales (&parts, &u->m) && take_zeros (&parts, &u->m) && take_order (&parts, u))
    return g_steal_pointer (&u);
  g_propagate_error (error, g_steal_pointer (&local));
  return NULL;
}
