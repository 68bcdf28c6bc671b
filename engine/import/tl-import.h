/* import/tl-import.h — foreign checkpoints to `.tinyloop`, tensor by tensor.
 *
 * A reader of one format makes a TlImportSource: a descriptor, and for every slot of the descriptor where its values are.
 * The converter walks the slots, reads, optionally quantises, writes. Called by `tinyloop convert` through tl-open.
 */
#pragma once

#include <gio/gio.h>

#include "model/tl-weights.h"

G_BEGIN_DECLS

typedef struct
{
  TlFormat quantize;            /* TL_F32: keep the source's own formats */
  guint group;                  /* 0: per channel for INT8, 32 for INT4 */
  char **keep;                  /* names (or their beginnings) that stay as they are, or NULL */
  void (*progress) (double fraction, gpointer data);    /* 0 … 1, or NULL */
  gpointer progress_data;
} TlImportOptions;

/* Recognises a Hugging Face folder (also that of our looped training script). Errors: BAD_FILE, UNSUPPORTED naming the
 * field or tensor, INVALID_ARGUMENT, CANCELLED. Nothing is left at `dst` on error. */
gboolean tl_import_convert (const char *src, const char *dst, const TlImportOptions *options, GCancellable *cancellable,
    GError **error);

/* --- for readers of formats --- */
typedef struct _TlImportSource TlImportSource;
struct _TlImportSource
{
  TlDescriptor *descriptor;
  GBytes *tokenizer_json;       /* or NULL */
  char *chat_template;          /* or NULL */
  GArray *eos;                  /* gint32, or NULL */
  gboolean (*read) (TlImportSource *source, const TlWeightSlot *slot, float *out, GError **error);
  TlFormat (*format) (TlImportSource *source, const TlWeightSlot *slot);   /* F32, F16 or BF16 as stored */
  void (*free) (TlImportSource *source);
};

TlImportSource *tl_hugging_face_open (const char *folder, GError **error);

G_END_DECLS
