/* tl-convert.h — foreign checkpoints to `.tinyloop`, and a look into one: what `tinyloop convert` and `inspect` call. */
#pragma once

#include <gio/gio.h>

#include "tl-error.h"

G_BEGIN_DECLS

/**
 * TlProgressFunc:
 * @fraction: 0 … 1
 * @data: closure
 *
 * Called on the caller's thread while a file is converted.
 */
typedef void (*TlProgressFunc) (double fraction, gpointer data);

/**
 * tl_convert_file:
 * @src: a Hugging Face folder or a GGUF file
 * @dst: the `.tinyloop` to write; nothing is left there on error
 * @quantize: "none", "int8" or "int4"; the embedding and head take int8 with "int4"
 * @group: inputs per scale: 32, 64, 128, or 0 for whole rows (int8) and 32 (int4)
 * @keep: (array zero-terminated=1) (nullable): names, or their beginnings, of tensors that are not quantised
 * @progress: (scope call) (nullable): called with the part that is done
 * @data: closure of @progress
 * @cancellable: (nullable): polled once per tensor
 * @error: %TL_ERROR_BAD_FILE, %TL_ERROR_UNSUPPORTED, %TL_ERROR_INVALID_ARGUMENT, %TL_ERROR_NUMERIC, %TL_ERROR_CANCELLED
 *
 * Converts a checkpoint, holding one tensor in memory at a time. Rounding is to nearest with F16 scales.
 *
 * Returns: %TRUE when @dst was written
 */
TL_API gboolean tl_convert_file (const char *src, const char *dst, const char *quantize, guint group,
    const char *const *keep, TlProgressFunc progress, gpointer data, GCancellable *cancellable, GError **error);

/**
 * TlInspectFlags:
 * @TL_INSPECT_NONE: a text for people
 * @TL_INSPECT_JSON: one JSON object
 * @TL_INSPECT_VERIFY: read every byte and compare with the content hash
 * @TL_INSPECT_SVG: a drawing of the blocks and the loop
 *
 * What tl_inspect_file() does.
 */
typedef enum /*< flags >*/
{
  TL_INSPECT_NONE = 0,
  TL_INSPECT_JSON = 1 << 0,
  TL_INSPECT_VERIFY = 1 << 1,
  TL_INSPECT_SVG = 1 << 2,
} TlInspectFlags;

/**
 * tl_inspect_file:
 * @path: a `.tinyloop`
 * @flags: form and depth of the look
 * @error: %TL_ERROR_BAD_FILE
 *
 * Describes a checkpoint: stacks, sizes, formats, bytes per stack, cache bytes per token.
 *
 * Returns: (transfer full): the description
 */
TL_API char *tl_inspect_file (const char *path, TlInspectFlags flags, GError **error);

/**
 * TlExportFlags:
 * @TL_EXPORT_NONE: with tokenizer and chat template
 * @TL_EXPORT_WITHOUT_TOKENIZER: weights only
 *
 * What tl_export_gguf() leaves out.
 */
typedef enum /*< flags >*/
{
  TL_EXPORT_NONE = 0,
  TL_EXPORT_WITHOUT_TOKENIZER = 1 << 0,
} TlExportFlags;

/**
 * tl_export_gguf:
 * @src: a `.tinyloop`
 * @dst: the GGUF file to write; nothing is left there on error
 * @loops: how often the loop blocks are written, 0 = the default
 * @flags: what is left out
 * @progress: (scope call) (nullable): called with the part that is done
 * @data: closure of @progress
 * @cancellable: (nullable): polled once per tensor
 * @error: %TL_ERROR_BAD_FILE, %TL_ERROR_UNSUPPORTED naming the axis that GGUF has no form for, %TL_ERROR_INVALID_ARGUMENT,
 *   %TL_ERROR_CANCELLED
 *
 * Writes the loop unrolled, block after block, for programs that know no loops. Every value is kept: in its own format
 * where GGUF has it (Q4_0, Q4_1, Q5_1, Q8_0, F16, BF16), else as F32. The source is mapped and must not shrink meanwhile.
 *
 * Returns: %TRUE when @dst was written
 */
TL_API gboolean tl_export_gguf (const char *src, const char *dst, guint loops, TlExportFlags flags,
    TlProgressFunc progress, gpointer data, GCancellable *cancellable, GError **error);

G_END_DECLS
