/* import/tl-import.c — tells formats apart. A new format is a reader of its own and a row here. */
#include "import/tl-import.h"

#include <string.h>

#include "model/tl-file.h"

static gboolean
begins_with (const char *path, const char *magic)
{
  char start[8] = { 0 };
  g_autoptr (TlFile) file = tl_file_open (path, NULL);
  return file && tl_file_read (file, 0, start, strlen (magic), NULL) && strncmp (start, magic, strlen (magic)) == 0;
}

TlImportSource *
tl_import_open (const char *path, GError **error)
{
  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    return tl_hugging_face_open (path, error);
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: no such file or folder", path);
  else if (begins_with (path, "GGUF"))
    return tl_gguf_source_open (path, error);
  else
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: is no GGUF file; name one, or the folder that holds "
        "config.json", path);
  return NULL;
}
