/* import/tl-gguf-writer.h — writes a GGUF file, version 3: metadata and tensor list first, then the tensors' bytes in order.
 *
 * Written beside its place and renamed at the end, so that a failure leaves nothing. Called by tl-export.c.
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

typedef struct _TlGgufWriter TlGgufWriter;

TlGgufWriter *tl_gguf_writer_new (const char *path);
void tl_gguf_writer_add_text (TlGgufWriter *w, const char *key, const char *text);
void tl_gguf_writer_add_count (TlGgufWriter *w, const char *key, guint32 value);
void tl_gguf_writer_add_float (TlGgufWriter *w, const char *key, float value);
void tl_gguf_writer_add_flag (TlGgufWriter *w, const char *key, gboolean value);
void tl_gguf_writer_add_texts (TlGgufWriter *w, const char *key, const char *const *texts, gsize n);
void tl_gguf_writer_add_floats (TlGgufWriter *w, const char *key, const float *values, gsize n);
void tl_gguf_writer_add_ids (TlGgufWriter *w, const char *key, const gint32 *values, gsize n);
/* declares a tensor of @rows (0: a vector) × @cols values in the format @type; @size: its bytes */
void tl_gguf_writer_add_tensor (TlGgufWriter *w, const char *name, guint32 type, guint64 rows, guint64 cols, guint64 size);
gboolean tl_gguf_writer_begin (TlGgufWriter *w, GError **error);
/* the next declared tensor, whole */
gboolean tl_gguf_writer_write (TlGgufWriter *w, const void *data, gsize size, GError **error);
gboolean tl_gguf_writer_finish (TlGgufWriter *w, GError **error);
void tl_gguf_writer_free (TlGgufWriter *w);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlGgufWriter, tl_gguf_writer_free)

G_END_DECLS
