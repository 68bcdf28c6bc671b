/* forward/tl-backend.c — calls through the backend's class. */
#include "forward/tl-backend.h"

TlBackend *
tl_backend_prepare (const TlBackendClass *klass, TlProgram *program, const TlBackendOptions *options, GError **error)
{
  static const TlBackendOptions defaults;
  return klass->prepare (program, options ? options : &defaults, error);
}

void
tl_backend_free (TlBackend *backend)
{
  if (backend)
    backend->klass->free (backend);
}

gboolean
tl_backend_run (TlBackend *backend, TlBatch *batch, TlStages stages, guint max_loops, GCancellable *cancellable,
  GError **error)
{
  return backend->klass->run (backend, batch, stages, max_loops, cancellable, error);
}

TlStates *
tl_backend_states_new (TlBackend *backend, guint n_slots, GError **error)
{
  return backend->klass->states_new (backend, n_slots, error);
}

void
tl_backend_states_free (TlBackend *backend, TlStates *states)
{
  if (states)
    backend->klass->states_free (backend, states);
}

void
tl_backend_state_read (TlBackend *backend, TlStates *states, guint slot, TlStatePart part, float *out)
{
  backend->klass->state_read (backend, states, slot, part, out);
}

void
tl_backend_state_write (TlBackend *backend, TlStates *states, guint slot, TlStatePart part, const float *in)
{
  backend->klass->state_write (backend, states, slot, part, in);
}
