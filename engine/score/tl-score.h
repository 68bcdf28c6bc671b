/* score/tl-score.h — logits of given tokens: one pass over a fresh sequence. Called by TlModel. */
#pragma once

#include "cache/tl-pass.h"
#include "score/tl-tensor.h"

G_BEGIN_DECLS

/* Appends the tokens to seq. deliver ALL: [n × vocab]; LAST: [vocab]. options' logits and deliver are set here. */
TlTensor *tl_score_logits (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlDeliver deliver,
  TlPassOptions *options, GCancellable *cancellable, GError **error);

G_END_DECLS
