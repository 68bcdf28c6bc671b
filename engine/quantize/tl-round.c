/* quantize/tl-round.c — round to nearest: each group's largest value sets its scale.
 *
 * INT8: scale = largest magnitude / 127. INT4: scale = the extreme value / -8, so that the extreme itself is exact and all
 * 16 levels are used (the rule of GGUF's Q4_0). The scale is rounded to F16 before values are divided by it.
 */
#include "quantize/tl-round.h"

#include <math.h>

/* the value of largest magnitude, first one wins */
static float
extreme_of (const float *x, guint n)
{
  float best = 0;
  for (guint i = 0; i < n; i++)
    if (fabsf (x[i]) > fabsf (best))
      best = x[i];
  return best;
}

static void
round_group (const float *x, guint n, TlFormat format, guint8 *row, guint first, guint16 *scale)
{
  float extreme = extreme_of (x, n);
  *scale = tl_f32_to_f16_saturate (format == TL_INT8 ? fabsf (extreme) / 127 : extreme / -8);
  float s = tl_f16_to_f32 (*scale);

  for (guint i = 0; i < n; i++)
    {
      float q = s != 0 ? rintf (x[i] / s) : 0;
      guint c = first + i;
      if (format == TL_INT8)
        row[c] = (guint8) (gint8) CLAMP (q, -127.0f, 127.0f);
      else
        row[c / 2] |= (guint8) (CLAMP (q, -8.0f, 7.0f) + 8) << (c % 2 * 4);
    }
}

TlMatrix *
tl_quantize_round (const float *values, guint rows, guint cols, TlFormat format, guint group)
{
  TlMatrix *m = g_new0 (TlMatrix, 1);
  *m = (TlMatrix) { .format = format, .rows = rows, .cols = cols, .group = group, .scale_format = TL_F16 };
  gsize row_bytes = tl_matrix_row_bytes (m), n_groups = tl_matrix_n_groups (m);
  guint8 *data = g_malloc0 (rows * row_bytes);
  guint16 *scales = g_new0 (guint16, rows * n_groups);
  m->data = data;
  m->scale = scales;

  for (guint r = 0; r < rows; r++)
    for (guint g = 0; g < n_groups; g++)
      round_group (values + (gsize) r * cols + g * group, MIN (group, cols - g * group), format, data + r * row_bytes,
          g * group, &scales[r * n_groups + g]);
  return m;
}

void
tl_matrix_free (TlMatrix *m)
{
  g_free ((gpointer) m->data);
  g_free ((gpointer) m->scale);
  g_free ((gpointer) m->zero);
  g_free ((gpointer) m->minimum);
  g_free (m);
}
