/* forward/tl-backend-reference.c — device=reference: tl_reference_logits() as a backend that runs whole sequences.
 *
 * Slow by design: every step computes the sequence again from its first token, in F64. For whoever doubts a result.
 */
#include <math.h>

#include "forward/tl-reference.h"

static TlBackend *
reference_prepare (TlProgram *program, const TlBackendOptions *options, GError **error)
{
  TlBackend *backend = g_new0 (TlBackend, 1);
  backend->klass = tl_backend_reference_class ();
  backend->program = tl_program_ref (program);
  backend->options = *options;
  return backend;
}

static void
reference_free (TlBackend *backend)
{
  tl_program_unref (backend->program);
  g_free (backend);
}

static gboolean
reference_run_sequence (TlBackend *backend, const TlSequenceRun *run, float *logits, GCancellable *cancellable,
  GError **error)
{
  TlReferenceOptions options = { .depths = run->depths, .window = run->window, .initial_state = run->initial_state,
    .mode = run->mode, .cancellable = cancellable };
  for (guint i = 0; i < run->n; i++)
    options.loops = MAX (options.loops, run->depths[i]);
  if (!tl_reference_logits (backend->program, run->tokens, run->n, &options, logits))
    {
      g_set_error (error, TL_ERROR, TL_ERROR_CANCELLED, "tinyloop: the pass was cancelled");
      return FALSE;
    }
  for (gsize i = 0; i < (gsize) run->n * backend->program->vocab_size; i++)
    if (!isfinite (logits[i]))
      {
        g_set_error (error, TL_ERROR, TL_ERROR_NUMERIC,
          "tinyloop: %s: a value became infinite or not a number; the weights are damaged or the depth is too large",
          tl_checkpoint_name (backend->program->weights->checkpoint));
        return FALSE;
      }
  return TRUE;
}

/* the weights stay where the file is mapped */
static gsize
reference_weights_bytes (TlBackend *backend)
{
  return tl_checkpoint_file_size (backend->program->weights->checkpoint);
}

static char *
reference_device_info (TlBackend *backend)
{
  return g_strdup ("reference, F64 from the definition, 1 thread");
}

const TlBackendClass *
tl_backend_reference_class (void)
{
  static const TlBackendClass klass = {
    .name = "reference", .prepare = reference_prepare, .free = reference_free, .run_sequence = reference_run_sequence,
    .weights_bytes = reference_weights_bytes, .device_info = reference_device_info,
  };
  return &klass;
}
