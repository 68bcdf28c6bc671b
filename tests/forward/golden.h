/* tests/forward/golden.h — a golden folder opened: model converted and prepared on the CPU, expected tensors by name.
 *
 * Used by the tests of forward and cache. A folder holds the family's own files or a model.tinyloop, and expected.*.
 * A selection stands in tests/goldens; $TINYLOOP_SHARED/goldens has more of the same layout.
 */
#pragma once

#include <json-glib/json-glib.h>

#include "cache/tl-pass.h"
#include "cpu/tl-backend-cpu.h"
#include "cpu/tl-isa.h"
#include "forward/tl-reference.h"

/* KV modes that tests walk through */
#define GOLDEN_MODES (TL_KV_INT8 + 1)

typedef struct
{
  char *folder, *file;          /* file: the converted checkpoint, removed on close */
  TlProgram *program;
  TlBackend *backend;
  JsonParser *parser;
  JsonObject *expected;         /* expected.json */
  GMappedFile *tensors;
  JsonParser *header;
  gsize data_start;
} Golden;

/* NULL and error when the folder's model is not supported */
Golden *golden_open (const char *folder, guint threads, gboolean exact, GError **error);
/* the same, its weights rounded on conversion ("none", "int8", "int4"; tl_convert_file()) */
Golden *golden_open_quantised (const char *folder, const char *quantize, guint group, guint threads, gboolean exact,
  GError **error);
void golden_close (Golden *g);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Golden, golden_close)
/* what a test of golden_add_tests() gets; required: it stands in the tree, so its model must be supported */
typedef struct { char *folder; gboolean required; } GoldenFolder;
/* one test for every folder of the selection, and of the shared ones (PREFIX/more/…) when they are there */
void golden_add_tests (const char *prefix, GTestDataFunc test);
/* float32 data, its element count in n; NULL when absent */
const float *golden_tensor (Golden *g, const char *name, gsize *n);
guint32 *golden_ids (JsonArray *array, guint *n);
guint32 *golden_prompt (Golden *g, const char *name, guint *n);
float golden_max_diff (const float *a, const float *b, gsize n);
