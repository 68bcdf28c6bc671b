/* engine/score/tl-tensor.c — TlTensor: counted memory with a shape. */
#include "score/tl-tensor.h"

#include <stdlib.h>

struct _TlTensor
{
  gint ref_count;
  guint n_dims;
  gsize dims[TL_TENSOR_MAX_DIMS];
  float *data;
};

G_DEFINE_BOXED_TYPE (TlTensor, tl_tensor, tl_tensor_ref, tl_tensor_unref)

TlTensor *
tl_tensor_new (guint n_dims, const gsize *dims, GError **error)
{
  g_return_val_if_fail (n_dims <= TL_TENSOR_MAX_DIMS, NULL);
  gsize n = 1;
  gboolean fits = TRUE;
  for (guint i = 0; i < n_dims; i++)
    fits = fits && g_size_checked_mul (&n, n, dims[i]);
  float *data = fits ? calloc (MAX (n, 1), sizeof (float)) : NULL;
  if (!data) {
    g_set_error (error, TL_ERROR, TL_ERROR_NO_MEMORY, "no memory for a tensor of %" G_GSIZE_FORMAT " float32 values; "
        "score fewer tokens at once", n);
    return NULL;
  }

  TlTensor *self = g_new0 (TlTensor, 1);
  self->ref_count = 1;
  self->n_dims = n_dims;
  for (guint i = 0; i < n_dims; i++)
    self->dims[i] = dims[i];
  self->data = data;
  return self;
}

TlTensor *
tl_tensor_ref (TlTensor *self)
{
  g_atomic_int_inc (&self->ref_count);
  return self;
}

void
tl_tensor_unref (TlTensor *self)
{
  if (!g_atomic_int_dec_and_test (&self->ref_count))
    return;
  free (self->data);
  g_free (self);
}

const char *
tl_tensor_get_dtype (TlTensor *self)
{
  return "float32";
}

guint
tl_tensor_get_n_dims (TlTensor *self)
{
  return self->n_dims;
}

guint64
tl_tensor_get_dim (TlTensor *self, guint axis)
{
  g_return_val_if_fail (axis < self->n_dims, 0);
  return self->dims[axis];
}

guint64
tl_tensor_get_address (TlTensor *self)
{
  return (guint64) (guintptr) self->data;
}

float *
tl_tensor_get_data (TlTensor *self)
{
  return self->data;
}
