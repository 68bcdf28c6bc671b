/* import/tl-config.h — a model's config.json to a descriptor.
 *
 * One row of a table per `model_type`; a field that would change the result and has no axis here is refused by name.
 */
#pragma once

#include <json-glib/json-glib.h>

#include "model/tl-descriptor.h"

G_BEGIN_DECLS

typedef enum { TL_NAMES_LLAMA, TL_NAMES_OLMO2, TL_NAMES_OURO, TL_NAMES_CANONICAL } TlNames;

typedef struct { TlDescriptor *descriptor; TlNames names; } TlConfig;

/* FALSE with UNSUPPORTED or BAD_FILE naming the field; name: for messages */
gboolean tl_config_read (JsonObject *config, const char *name, TlConfig *out, GError **error);

G_END_DECLS
