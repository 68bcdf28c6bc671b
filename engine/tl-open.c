/* engine/tl-open.c — a tokenizer from whatever a path names; and the one inside a checkpoint. */
#include "model/tl-file.h"
#include "text/tl-tokenizer-parts.h"
#include "tl-model-private.h"

static GBytes *
look_up (const char *name, gpointer data)
{
  TlCheckpoint *checkpoint = data;
  const TlTensorView *view = tl_checkpoint_find (checkpoint, name);
  return view ? g_bytes_new_with_free_func (view->data, view->size, (GDestroyNotify) tl_checkpoint_unref,
      tl_checkpoint_ref (checkpoint)) : NULL;
}

TlTokenizer *
tl_tokenizer_from_checkpoint (TlCheckpoint *checkpoint, GError **error)
{
  for (guint i = 0; i < tl_checkpoint_n_tensors (checkpoint); i++)
    if (g_str_has_prefix (tl_checkpoint_tensor_at (checkpoint, i)->name, "tokenizer."))
      return tl_tokenizer_new_from_tensors (look_up, checkpoint, tl_checkpoint_name (checkpoint), error);
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "%s has no tokenizer; convert it from a folder that has a"
      " tokenizer.json", tl_checkpoint_name (checkpoint));
  return NULL;
}

TlTokenizer *
tl_tokenizer_new_for_path (const char *path, GError **error)
{
  g_return_val_if_fail (path, NULL);
  if (g_str_has_suffix (path, ".gguf") || g_str_has_suffix (path, ".model")) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "%s: tokenizers of this format are not read yet; give a"
        " tokenizer.json, a folder or a .tinyloop file", path);
    return NULL;
  }
  gboolean folder = g_file_test (path, G_FILE_TEST_IS_DIR);
  if (!folder && !g_str_has_suffix (path, ".json")) {
    g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (path, error);
    return checkpoint ? tl_tokenizer_from_checkpoint (checkpoint, error) : NULL;
  }

  g_autofree char *file = folder ? g_build_filename (path, "tokenizer.json", NULL) : g_strdup (path);
  g_autoptr (GBytes) bytes = tl_file_load (file, TL_MAX_TOKENIZER_JSON, error);
  return bytes ? tl_tokenizer_new_from_json (bytes, file, error) : NULL;
}
