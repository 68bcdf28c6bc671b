/* score/tl-tensor.h — TlTensor: a block of numbers with a shape, handed to callers without a copy.
 *
 * Reference-counted and boxed. Row-major, native byte order. Made by scoring and by the processors of logits.
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

#define TL_TENSOR_MAX_DIMS 4

/* how an element is stored; in public words a dtype's name */
typedef enum { TL_TENSOR_FLOAT32, TL_TENSOR_INT32, TL_TENSOR_BOOL } TlTensorType;

/**
 * TlTensor:
 *
 * An array, row-major.
 */
typedef struct _TlTensor TlTensor;

TL_API GType tl_tensor_get_type (void) G_GNUC_CONST;
#define TL_TYPE_TENSOR (tl_tensor_get_type ())

/* float32; n_dims <= 4; zeroed; NULL with TL_ERROR_NO_MEMORY when there is no memory of that size */
TL_API TlTensor *tl_tensor_new (guint n_dims, const gsize *dims, GError **error);
/**
 * tl_tensor_new_typed: (skip)
 * @type: of the elements
 * @n_dims: at most 4
 * @dims: their lengths
 * @error: return location
 *
 * Inside the library only.
 *
 * Returns: (transfer full): as tl_tensor_new()
 */
TlTensor *tl_tensor_new_typed (TlTensorType type, guint n_dims, const gsize *dims, GError **error);
/**
 * tl_tensor_ref: (skip)
 * @self: a tensor
 *
 * Returns: (transfer full): @self
 */
TL_API TlTensor *tl_tensor_ref (TlTensor *self);
/**
 * tl_tensor_unref: (skip)
 * @self: (transfer full): a tensor
 */
TL_API void tl_tensor_unref (TlTensor *self);

/**
 * tl_tensor_get_dtype:
 * @self: a tensor
 *
 * Returns: (transfer none): "float32" (4 bytes an element), "int32" (4) or "bool" (1 byte, 0 or 1)
 */
TL_API const char *tl_tensor_get_dtype (TlTensor *self);

/**
 * tl_tensor_get_n_dims:
 * @self: a tensor
 *
 * Returns: number of dimensions
 */
TL_API guint tl_tensor_get_n_dims (TlTensor *self);

/**
 * tl_tensor_get_dim:
 * @self: a tensor
 * @axis: which dimension
 *
 * Returns: its length
 */
TL_API guint64 tl_tensor_get_dim (TlTensor *self, guint axis);

/**
 * tl_tensor_get_n_bytes:
 * @self: a tensor
 *
 * Returns: bytes of all its elements
 */
TL_API guint64 tl_tensor_get_n_bytes (TlTensor *self);

/**
 * tl_tensor_get_address:
 * @self: a tensor
 *
 * Returns: the address of its first element, valid while a reference is held
 */
TL_API guint64 tl_tensor_get_address (TlTensor *self);

/**
 * tl_tensor_dup_bytes:
 * @self: a tensor
 *
 * Its elements for languages that cannot read an address, without a copy.
 *
 * Returns: (transfer full): the elements in row-major order, valid as long as the bytes are
 */
TL_API GBytes *tl_tensor_dup_bytes (TlTensor *self);

/**
 * tl_tensor_get_data: (skip)
 * @self: a tensor
 *
 * Returns: (transfer none): its elements in row-major order
 */
TL_API gpointer tl_tensor_get_data (TlTensor *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlTensor, tl_tensor_unref)

G_END_DECLS
