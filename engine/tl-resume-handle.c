/* engine/tl-resume-handle.c — TlResumeHandle: a computed prompt with its row states. See tl-resume-handle.h; the work:
 * tl-prefix.c. */
#include "tl-prefix-private.h"

struct _TlResumeHandle
{
  GObject parent;
  TlPrefix prefix;
};

G_DEFINE_FINAL_TYPE (TlResumeHandle, tl_resume_handle, G_TYPE_OBJECT)

static void
tl_resume_handle_finalize (GObject *object)
{
  tl_prefix_clear (&TL_RESUME_HANDLE (object)->prefix);
  G_OBJECT_CLASS (tl_resume_handle_parent_class)->finalize (object);
}

static void
tl_resume_handle_class_init (TlResumeHandleClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_resume_handle_finalize;
}

static void
tl_resume_handle_init (TlResumeHandle *self)
{
}

static TlResumeHandle *
handle_of (TlPrefix prefix)
{
  TlResumeHandle *self = g_object_new (TL_TYPE_RESUME_HANDLE, NULL);
  self->prefix = prefix;
  return self;
}

TlResumeHandle *
tl_model_build_resume_handle_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  TlPrefix prefix;
  return tl_prefix_build (&prefix, "resume handle", self, ids, config, cancellable, error) ? handle_of (prefix) : NULL;
}

TlGenerator *
tl_model_begin_resumed (TlModel *self, TlResumeHandle *handle, TlGenerateConfig *config, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self) && TL_IS_RESUME_HANDLE (handle), NULL);
  return tl_prefix_begin (&handle->prefix, self, NULL, TRUE, config, error);
}

TlGeneration *
tl_model_resume_generate_bytes (TlModel *self, TlResumeHandle *handle, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_autoptr (TlGenerator) generator = tl_model_begin_resumed (self, handle, config, error);
  return generator ? tl_generator_run (generator, cancellable, error) : NULL;
}

guint
tl_resume_handle_get_length (TlResumeHandle *self)
{
  g_return_val_if_fail (TL_IS_RESUME_HANDLE (self), 0);
  return tl_prefix_length (&self->prefix);
}

guint
tl_resume_handle_get_loops (TlResumeHandle *self)
{
  g_return_val_if_fail (TL_IS_RESUME_HANDLE (self), 0);
  return tl_prefix_loops (&self->prefix);
}

guint64
tl_resume_handle_get_size (TlResumeHandle *self)
{
  g_return_val_if_fail (TL_IS_RESUME_HANDLE (self), 0);
  return tl_prefix_bytes (&self->prefix);
}

GBytes *
tl_resume_handle_dup_tokens_bytes (TlResumeHandle *self)
{
  g_return_val_if_fail (TL_IS_RESUME_HANDLE (self), NULL);
  return tl_prefix_dup_tokens (&self->prefix);
}

gboolean
tl_resume_handle_save (TlResumeHandle *self, const char *path, GError **error)
{
  g_return_val_if_fail (TL_IS_RESUME_HANDLE (self) && path, FALSE);
  return tl_prefix_save (&self->prefix, path, error);
}

TlResumeHandle *
tl_model_load_resume_handle (TlModel *self, const char *path, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self) && path, NULL);
  TlPrefix prefix;
  return tl_prefix_load (&prefix, "resume handle", self, path, error) ? handle_of (prefix) : NULL;
}
