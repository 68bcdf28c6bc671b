/* engine/score/tl-score.c — logits of given tokens, all positions or the last. */
#include "score/tl-score.h"

TlTensor *
tl_score_logits (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlDeliver deliver,
    TlPassOptions *options, GCancellable *cancellable, GError **error)
{
  gsize vocab = backend->program->vocab_size, all[] = { n, vocab };
  g_autoptr (TlTensor) out = deliver == TL_DELIVER_ALL ? tl_tensor_new (2, all, error) : tl_tensor_new (1, &vocab, error);
  if (!out)
    return NULL;

  options->deliver = deliver;
  options->logits = tl_tensor_get_data (out);
  if (!tl_pass_run (backend, seq, tokens, n, options, cancellable, error))
    return NULL;
  return g_steal_pointer (&out);
}
