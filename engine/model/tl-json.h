/* model/tl-json.h — json-glib behind limits: depth, number of values, UTF-8, one root object.
 *
 * json-glib recurses and allocates as the text tells it to; text from a file passes these checks first.
 */
#pragma once

#include <json-glib/json-glib.h>

#include "tl-error.h"

G_BEGIN_DECLS

#define TL_JSON_MAX_DEPTH 32

/* `where` begins every message, e.g. "demo.tinyloop: header". The root is an object. */
JsonNode *tl_json_parse (const char *text, gsize length, gsize max_values, const char *where, GError **error);

G_END_DECLS
