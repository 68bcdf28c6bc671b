/* tl-error.h — the one error domain of TinyLoop and the export macro.
 *
 * Every message names the thing, the place and the remedy. Included by every room.
 */
#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

#ifndef TL_API
#define TL_API __attribute__ ((visibility ("default"))) extern
#endif

/**
 * TlError:
 * @TL_ERROR_CLOSED: the model was closed
 * @TL_ERROR_INVALID_ARGUMENT: a parameter is out of range or does not fit another one
 * @TL_ERROR_SEQUENCE_TOO_LONG: prompt plus tokens to generate exceed the maximum sequence length
 * @TL_ERROR_LOOPS_MISMATCH: a cached state was made with other loops than asked for
 * @TL_ERROR_NO_MEMORY: a memory limit would be exceeded; the message has needed and free bytes
 * @TL_ERROR_BAD_FILE: a file is missing, truncated, or breaks its format
 * @TL_ERROR_UNSUPPORTED: valid input that this version does not implement
 * @TL_ERROR_CANCELLED: stopped by a #GCancellable
 * @TL_ERROR_DEAD_END: a grammar left no legal token
 * @TL_ERROR_NUMERIC: a value became infinite or not a number
 * @TL_ERROR_DEVICE: the compute device failed or is not there
 *
 * Error codes of the %TL_ERROR domain.
 */
typedef enum
{
  TL_ERROR_CLOSED,
  TL_ERROR_INVALID_ARGUMENT,
  TL_ERROR_SEQUENCE_TOO_LONG,
  TL_ERROR_LOOPS_MISMATCH,
  TL_ERROR_NO_MEMORY,
  TL_ERROR_BAD_FILE,
  TL_ERROR_UNSUPPORTED,
  TL_ERROR_CANCELLED,
  TL_ERROR_DEAD_END,
  TL_ERROR_NUMERIC,
  TL_ERROR_DEVICE,
} TlError;

/**
 * TL_ERROR:
 *
 * The error domain of this library.
 */
#define TL_ERROR (tl_error_quark ())

TL_API GQuark tl_error_quark (void);
TL_API GType tl_error_get_type (void) G_GNUC_CONST;
#define TL_TYPE_ERROR (tl_error_get_type ())

G_END_DECLS
