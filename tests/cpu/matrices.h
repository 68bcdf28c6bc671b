/* tests/cpu/matrices.h — random matrices in every stored format, and random rows, for the kernel tests and benchmarks. */
#pragma once

#include <string.h>

#include "cpu/tl-kernels.h"

typedef struct { const char *name; TlFormat format, scale_format; TlOffset offset; guint group; } Case;

static const Case cases[] = {
  { "f32", TL_F32, TL_F32, TL_OFFSET_NONE, 0 }, { "f16", TL_F16, TL_F32, TL_OFFSET_NONE, 0 },
  { "bf16", TL_BF16, TL_F32, TL_OFFSET_NONE, 0 },
  { "int8-32-f16", TL_INT8, TL_F16, TL_OFFSET_NONE, 32 }, { "int8-64-zero", TL_INT8, TL_F32, TL_OFFSET_ZERO, 64 },
  { "int8-32-min", TL_INT8, TL_F16, TL_OFFSET_MIN, 32 }, { "int8-channel", TL_INT8, TL_F32, TL_OFFSET_NONE, G_MAXUINT },
  { "int8-128-bf16", TL_INT8, TL_BF16, TL_OFFSET_NONE, 128 },
  { "int4-32-f16", TL_INT4, TL_F16, TL_OFFSET_NONE, 32 }, { "int4-64-zero", TL_INT4, TL_F16, TL_OFFSET_ZERO, 64 },
  { "int4-32-min", TL_INT4, TL_F16, TL_OFFSET_MIN, 32 }, { "int4-128-f32", TL_INT4, TL_F32, TL_OFFSET_NONE, 128 },
  { "int4-128-zero", TL_INT4, TL_BF16, TL_OFFSET_ZERO, 128 }, { "int4-channel", TL_INT4, TL_F16, TL_OFFSET_NONE, G_MAXUINT },
};

static inline void
put (void *to, TlFormat format, gsize i, float value)
{
  if (format == TL_F32)
    ((float *) to)[i] = value;
  else
    ((guint16 *) to)[i] = format == TL_F16 ? tl_f32_to_f16 (value) : tl_f32_to_bf16 (value);
}

static inline TlMatrix
matrix_new (const Case *c, guint rows, guint cols, GRand *rand)
{
  TlMatrix m = { .format = c->format, .rows = rows, .cols = cols, .group = MIN (c->group, cols),
    .scale_format = c->scale_format, .offset = c->offset };
  gsize bytes = rows * tl_matrix_row_bytes (&m), groups = (gsize) rows * tl_matrix_n_groups (&m);
  guint8 *data = g_malloc (bytes);
  if (m.group == 0)
    for (gsize i = 0; i < (gsize) rows * cols; i++)
      put (data, m.format, i, g_rand_double_range (rand, -1, 1));
  else
    for (gsize i = 0; i < bytes; i++)
      data[i] = g_rand_int (rand);
  m.data = data;
  if (groups)
    {
      void *scale = g_malloc (groups * 4);
      for (gsize i = 0; i < groups; i++)
        put (scale, m.scale_format, i, g_rand_double_range (rand, -0.02, 0.02));
      m.scale = scale;
    }
  if (m.offset == TL_OFFSET_ZERO)
    {
      guint8 *zero = g_malloc (groups);
      for (gsize i = 0; i < groups; i++)
        zero[i] = g_rand_int_range (rand, 0, 17);
      m.zero = zero;
    }
  if (m.offset == TL_OFFSET_MIN)
    {
      guint16 *minimum = g_malloc (groups * 2);
      for (gsize i = 0; i < groups; i++)
        minimum[i] = tl_f32_to_f16 (g_rand_double_range (rand, -0.2, 0.2));
      m.minimum = minimum;
    }
  return m;
}

static inline void
matrix_free (TlMatrix *m)
{
  g_free ((gpointer) m->data);
  g_free ((gpointer) m->scale);
  g_free ((gpointer) m->zero);
  g_free ((gpointer) m->minimum);
}

/* rows of normal-like values, quantised by the scalar kernel; free `memory` with tl_packed_memory_free() */
static inline TlActivations
activations_new (guint rows, guint cols, guint group, GRand *rand, gpointer *memory)
{
  TlActivations a;
  *memory = tl_packed_memory_new (tl_activations_size (rows, cols, group));
  tl_activations_init (&a, *memory, rows, cols, group);
  for (guint r = 0; r < rows; r++)
    {
      for (guint c = 0; c < cols; c++)
        a.x[r * a.stride + c] = g_rand_double_range (rand, -1, 1) * g_rand_double_range (rand, 0, 4);
      g_assert_true (tl_kernels_for (TL_ISA_SCALAR)->quantise_row (a.x + r * a.stride, cols, group, a.q + r * a.stride,
        a.scale + r * a.n_groups, a.sum + r * a.n_groups));
    }
  return a;
}
