/* tests/forward/golden.c — see golden.h. */
#include "golden.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "tl-convert.h"

static gboolean
open_expected (Golden *g, GError **error)
{
  g_autofree char *json = g_build_filename (g->folder, "expected.json", NULL);
  g_autofree char *tensors = g_build_filename (g->folder, "expected.safetensors", NULL);
  guint64 length;
  g->parser = json_parser_new ();
  g->header = json_parser_new ();
  if (!json_parser_load_from_file (g->parser, json, error))
    return FALSE;
  g->expected = json_node_get_object (json_parser_get_root (g->parser));
  g->tensors = g_mapped_file_new (tensors, FALSE, error);
  if (!g->tensors)
    return FALSE;
  memcpy (&length, g_mapped_file_get_contents (g->tensors), 8);
  g->data_start = 8 + length;
  return json_parser_load_from_data (g->header, g_mapped_file_get_contents (g->tensors) + 8, length, error);
}

Golden *
golden_open (const char *folder, guint threads, gboolean exact, GError **error)
{
  return golden_open_quantised (folder, "none", 0, threads, exact, error);
}

Golden *
golden_open_quantised (const char *folder, const char *quantize, guint group, guint threads, gboolean exact,
  GError **error)
{
  g_autoptr (Golden) g = g_new0 (Golden, 1);
  TlBackendOptions options = { .exact_activations = exact, .threads = threads };
  g->folder = g_strdup (folder);
  if (!open_expected (g, error))
    return NULL;
  g_autofree char *ready = g_build_filename (folder, "model.tinyloop", NULL);
  g_autofree char *gguf = g_build_filename (folder, "model.gguf", NULL);
  const char *source = g_file_test (gguf, G_FILE_TEST_EXISTS) ? gguf : folder;
  gboolean converted = g_file_test (ready, G_FILE_TEST_EXISTS);
  int fd = converted ? 0 : g_file_open_tmp ("golden-XXXXXX.tinyloop", &g->file, error);
  if (fd < 0)
    return NULL;
  if (!converted)
    close (fd);
  if (!converted && !tl_convert_file (source, g->file, quantize, group, NULL, NULL, NULL, NULL, error))
    return NULL;
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (converted ? ready : g->file, error);
  if (!checkpoint)
    return NULL;
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, error);
  if (!weights || !(g->program = tl_program_new (weights, error)))
    return NULL;
  g->backend = tl_backend_prepare (tl_backend_cpu_class (), g->program, &options, error);
  return g->backend ? g_steal_pointer (&g) : NULL;
}

void
golden_close (Golden *g)
{
  if (!g)
    return;
  tl_backend_free (g->backend);
  g_clear_pointer (&g->program, tl_program_unref);
  if (g->file)
    g_unlink (g->file);
  g_clear_object (&g->parser);
  g_clear_object (&g->header);
  g_clear_pointer (&g->tensors, g_mapped_file_unref);
  g_free (g->file);
  g_free (g->folder);
  g_free (g);
}

const float *
golden_tensor (Golden *g, const char *name, gsize *n)
{
  JsonObject *all = json_node_get_object (json_parser_get_root (g->header));
  if (!json_object_has_member (all, name))
    return NULL;
  JsonArray *range = json_object_get_array_member (json_object_get_object_member (all, name), "data_offsets");
  gsize from = json_array_get_int_element (range, 0), to = json_array_get_int_element (range, 1);
  *n = (to - from) / sizeof (float);
  return (const float *) (g_mapped_file_get_contents (g->tensors) + g->data_start + from);
}

guint32 *
golden_ids (JsonArray *array, guint *n)
{
  *n = json_array_get_length (array);
  guint32 *ids = g_new (guint32, *n);
  for (guint i = 0; i < *n; i++)
    ids[i] = json_array_get_int_element (array, i);
  return ids;
}

guint32 *
golden_prompt (Golden *g, const char *name, guint *n)
{
  return golden_ids (json_object_get_array_member (json_object_get_object_member (g->expected, "prompts"), name), n);
}

float
golden_max_diff (const float *a, const float *b, gsize n)
{
  float max = 0;
  for (gsize i = 0; i < n; i++)
    {
      if (!isfinite (a[i]))
        return INFINITY;
      max = MAX (max, fabsf (a[i] - b[i]));
    }
  return max;
}

static void
folder_free (gpointer data)
{
  GoldenFolder *f = data;
  g_free (f->folder);
  g_free (f);
}

static void
add_folders (const char *directory, const char *prefix, gboolean required, GTestDataFunc test)
{
  g_autoptr (GDir) dir = g_dir_open (directory, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name (dir))) {
    g_autofree char *expected = g_build_filename (directory, name, "expected.safetensors", NULL);
    g_autofree char *path = g_strdup_printf ("%s/%s%s", prefix, required ? "" : "more/", name);
    if (!g_file_test (expected, G_FILE_TEST_EXISTS) || g_str_equal (name, "sampling"))
      continue;
    GoldenFolder *f = g_new (GoldenFolder, 1);
    *f = (GoldenFolder) { g_build_filename (directory, name, NULL), required };
    g_test_add_data_func_full (path, f, test, folder_free);
  }
}

void
golden_add_tests (const char *prefix, GTestDataFunc test)
{
  add_folders (g_getenv ("TINYLOOP_TEST_GOLDENS"), prefix, TRUE, test);
  g_autofree char *shared = g_build_filename (g_getenv ("TINYLOOP_SHARED"), "goldens", NULL);
  if (g_file_test (shared, G_FILE_TEST_IS_DIR))
    add_folders (shared, prefix, FALSE, test);
}
