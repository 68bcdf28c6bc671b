/* engine/score/tl-score.c — logits of given tokens, all positions or the last. */
#include "score/tl-score.h"

static TlScores *
score (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, const char *name, TlDeliver deliver,
    TlPassOptions *options, GCancellable *cancellable, GError **error)
{
  gsize vocab = backend->program->vocab_size, all[] = { n, vocab };
  gboolean last = deliver == TL_DELIVER_LAST;
  g_autoptr (TlScores) out = tl_scores_new ();
  TlTensor *logits = tl_scores_add (out, name, tl_tensor_new (last ? 1 : 2, last ? &vocab : all, error));
  if (!logits)
    return NULL;

  options->deliver = deliver;
  options->logits = tl_tensor_get_data (logits);
  if (!tl_pass_run (backend, seq, tokens, n, options, cancellable, error))
    return NULL;
  return g_steal_pointer (&out);
}

TlScores *
tl_score_logits (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlPassOptions *options,
    GCancellable *cancellable, GError **error)
{
  return score (backend, seq, tokens, n, "logits", TL_DELIVER_ALL, options, cancellable, error);
}

TlScores *
tl_score_last (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlPassOptions *options,
    GCancellable *cancellable, GError **error)
{
  return score (backend, seq, tokens, n, "last", TL_DELIVER_LAST, options, cancellable, error);
}
