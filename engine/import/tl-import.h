/* import/tl-import.h — a foreign checkpoint as a source of slots.
 *
 * A reader of one format makes a TlImportSource: a descriptor, and for every slot of it a way to read the values.
 * The converter (tl-convert.c) walks the slots.
 */
#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "model/tl-weights.h"
#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

typedef struct _TlImportSource TlImportSource;
struct _TlImportSource
{
  TlDescriptor *descriptor;
  TlTokenizer *tokenizer;       /* or NULL */
  gboolean (*read) (TlImportSource *source, const TlWeightSlot *slot, float *out, GError **error);
  TlFormat (*format) (TlImportSource *source, const TlWeightSlot *slot);   /* F32, F16 or BF16 as stored */
  /* A matrix that is quantised in the source and can be taken over: its shape, then its arrays, which the caller has
   * allocated by that shape and the reader fills. Both NULL in readers of float formats. */
  gboolean (*stored) (TlImportSource *source, const TlWeightSlot *slot, TlMatrix *shape);
  gboolean (*read_stored) (TlImportSource *source, const TlWeightSlot *slot, TlMatrix *m, GError **error);
  const char *(*origin) (TlImportSource *source, const TlWeightSlot *slot);        /* "Q4_K", for `inspect`, or NULL */
  void (*free) (TlImportSource *source);
};

/* Recognises the format of `path`: a Hugging Face folder, also that of our looped training script, or a GGUF file. Errors: BAD_FILE,
 * UNSUPPORTED naming the field or tensor. */
TlImportSource *tl_import_open (const char *path, GError **error);

/* one per format */
TlImportSource *tl_hugging_face_open (const char *folder, GError **error);
TlImportSource *tl_gguf_source_open (const char *file, GError **error);

/* NULL in `out` when the folder has none; FALSE when it has a broken one */
gboolean tl_folder_tokenizer (const char *folder, const char *name, JsonObject *config, TlTokenizer **out, GError **error);

G_END_DECLS
