/* import/tl-config.h — a model's config.json to a descriptor.
 *
 * One row of a table per `model_type`; a field that would change the result and has no axis here is refused by name.
 */
#pragma once

#include <json-glib/json-glib.h>

#include "model/tl-descriptor.h"

G_BEGIN_DECLS

typedef enum { TL_NAMES_LLAMA, TL_NAMES_OLMO2, TL_NAMES_OURO, TL_NAMES_CANONICAL, TL_NAMES_HUGINN,
  TL_NAMES_RETROFIT_LLAMA, TL_NAMES_RETROFIT_OLMO } TlNames;

typedef enum { TL_PACKING_NONE, TL_PACKING_GPTQ_V1, TL_PACKING_GPTQ_V2, TL_PACKING_AWQ, TL_PACKING_COMPRESSED,
  TL_PACKING_INT8 } TlPacking;

typedef struct
{
  TlPacking packing;
  guint group;                  /* 0: per channel */
  gboolean symmetric;           /* no zeros in the file */
} TlQuantised;

typedef struct { TlDescriptor *descriptor; TlNames names; TlQuantised quantised; } TlConfig;

/* whether the folder has a tensor: some families can only be told apart by that */
typedef gboolean (*TlHasTensor) (const char *name, gpointer data);

/* FALSE with UNSUPPORTED or BAD_FILE naming the field; name: for messages */
gboolean tl_config_read (JsonObject *config, const char *name, TlHasTensor has, gpointer data, TlConfig *out, GError **error);

G_END_DECLS
