/* cpu/tl-attend-combine.c — joins the splits of one row in order. One source, compiled once per instruction set. */
#include "cpu/tl-kernels-private.h"

void
TL_FN (tl_attend_combine) (const float *partial, guint n_splits, gsize split_stride, guint n_q, guint head_dim, float *out)
{
  guint stride = TL_PARTIAL_STRIDE (head_dim);
  for (guint h = 0; h < n_q; h++, partial += stride, out += head_dim)
    {
      float maximum = -INFINITY, total = 0.0f;
      for (guint s = 0; s < n_splits; s++)
        maximum = partial[s * split_stride] > maximum ? partial[s * split_stride] : maximum;
      for (guint c = 0; c < head_dim; c++)
        out[c] = 0.0f;
      for (guint s = 0; s < n_splits; s++)
        {
          const float *one = partial + s * split_stride;
          float weight = tl_expf (one[0] - maximum);
          total = fmaf (one[1], weight, total);
          for (guint c = 0; c < head_dim; c++)
            out[c] = fmaf (one[16 + c], weight, out[c]);
        }
      float inverse = 1.0f / total;
      for (guint c = 0; c < head_dim; c++)
        out[c] *= inverse;
    }
}
