/* engine/score/tl-tensor.c — TlTensor: counted memory with a shape. */
#include "score/tl-tensor.h"

#include <stdlib.h>

struct _TlTensor
{
  gint ref_count;
  guint n_dims;
  gsize dims[TL_TENSOR_MAX_DIMS];
  gsize n_bytes;
  TlTensorType type;
  gpointer data;
};

static const struct { const char *name; gsize bytes; } types[] = {
  [TL_TENSOR_FLOAT32] = { "float32", 4 },
  [TL_TENSOR_INT32] = { "int32", 4 },
  [TL_TENSOR_BOOL] = { "bool", 1 },
};

G_DEFINE_BOXED_TYPE (TlTensor, tl_tensor, tl_tensor_ref, tl_tensor_unref)

TlTensor *
tl_tensor_new (guint n_dims, const gsize *dims, GError **error)
{
  return tl_tensor_new_typed (TL_TENSOR_FLOAT32, n_dims, dims, error);
}

TlTensor *
tl_tensor_new_typed (TlTensorType type, guint n_dims, const gsize *dims, GError **error)
{
  g_return_val_if_fail (n_dims <= TL_TENSOR_MAX_DIMS, NULL);
  gsize n = types[type].bytes;
  gboolean fits = TRUE;
  for (guint i = 0; i < n_dims; i++)
    fits = fits && g_size_checked_mul (&n, n, dims[i]);
  gpointer data = fits ? calloc (MAX (n, 1), 1) : NULL;
  if (!data) {
    g_autoptr (GString) shape = g_string_new (NULL);
    for (guint i = 0; i < n_dims; i++)
      g_string_append_printf (shape, "%s%" G_GSIZE_FORMAT, i ? " × " : "", dims[i]);
    g_set_error (error, TL_ERROR, TL_ERROR_NO_MEMORY, "no memory for a tensor of %s %s; score fewer tokens at once",
        shape->str, types[type].name);
    return NULL;
  }

  TlTensor *self = g_new0 (TlTensor, 1);
  self->ref_count = 1;
  self->n_dims = n_dims;
  for (guint i = 0; i < n_dims; i++)
    self->dims[i] = dims[i];
  self->type = type;
  self->n_bytes = n;
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
  return types[self->type].name;
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
tl_tensor_get_n_bytes (TlTensor *self)
{
  return self->n_bytes;
}

guint64
tl_tensor_get_address (TlTensor *self)
{
  return (guint64) (guintptr) self->data;
}

GBytes *
tl_tensor_dup_bytes (TlTensor *self)
{
  return g_bytes_new_with_free_func (self->data, self->n_bytes, (GDestroyNotify) tl_tensor_unref, tl_tensor_ref (self));
}

gpointer
tl_tensor_get_data (TlTensor *self)
{
  return self->data;
}
