/* engine/score/tl-trajectory.c — the residual stream of given tokens at every step of their way. */
#include <string.h>

#include "score/tl-score.h"

/* A pass writes traces by row, callers read them by step: one chunk at a time is turned round. */
TlScores *
tl_score_trajectory (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlPassOptions *options,
    GCancellable *cancellable, GError **error)
{
  gsize dim = backend->program->d_model, steps = tl_program_trace_length (backend->program, options->loops);
  guint chunk = MIN (n, tl_pass_cache_is_disabled () ? n : options->chunk ? options->chunk : 128);
  gsize by_step[] = { steps, n, dim }, by_row[] = { chunk, steps, dim };
  g_autoptr (TlScores) out = tl_scores_new ();
  TlTensor *trajectory = tl_scores_add (out, "trajectory", tl_tensor_new (3, by_step, error));
  g_autoptr (TlTensor) trace = trajectory ? tl_tensor_new (3, by_row, error) : NULL;
  if (!trace)
    return NULL;

  const float *from = options->trace = tl_tensor_get_data (trace);
  float *to = tl_tensor_get_data (trajectory);
  options->deliver = TL_DELIVER_NONE;
  for (guint at = 0, count; at < n; at += count) {
    count = MIN (chunk, n - at);
    if (!tl_pass_run (backend, seq, tokens + at, count, options, cancellable, error))
      return NULL;
    for (guint row = 0; row < count; row++)
      for (gsize step = 0; step < steps; step++)
        memcpy (to + (step * n + at + row) * dim, from + (row * steps + step) * dim, dim * sizeof (float));
  }
  return g_steal_pointer (&out);
}
