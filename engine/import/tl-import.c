/* import/tl-import.c — tells formats apart. A new format is a reader of its own and a row here. */
#include "import/tl-import.h"

TlImportSource *
tl_import_open (const char *path, GError **error)
{
  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    return tl_hugging_face_open (path, error);
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: no such file or folder", path);
  else
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: this version converts Hugging Face folders only; "
        "name the folder that holds config.json", path);
  return NULL;
}
