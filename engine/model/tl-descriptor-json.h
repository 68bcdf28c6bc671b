/* model/tl-descriptor-json.h — the descriptor as a JSON object, for the file's reader and writer.
 *
 * One static table of fields (tl-descriptor.c) drives parsing, writing and range checks. The member "tensors" belongs to
 * tl-checkpoint.c and is passed over here.
 */
#pragma once

#include <json-glib/json-glib.h>

#include "model/tl-descriptor.h"

G_BEGIN_DECLS

JsonObject *tl_descriptor_to_object (const TlDescriptor *d);
TlDescriptor *tl_descriptor_from_object (JsonObject *object, const char *file_name, GError **error);
/* name of a field's value in the descriptor's vocabulary, e.g. ("mlp.kind", TL_MLP_SWIGLU) gives "swiglu" */
const char *tl_descriptor_enum_name (const char *path, guint value);

G_END_DECLS
