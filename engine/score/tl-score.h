/* score/tl-score.h — what is known about given tokens: logits, and how they come about loop by loop. Called by TlModel.
 *
 * Every function appends n >= 1 tokens to a fresh sequence. T = n, V = vocab_size, D = d_model, L = loops. options say loops,
 * chunk and initial states; their outputs are set here. Errors: those of tl_pass_run(), NO_MEMORY for the result.
 */
#pragma once

#include "cache/tl-pass.h"
#include "score/tl-scores.h"

G_BEGIN_DECLS

typedef TlScores *(*TlScoreFunc) (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n,
  TlPassOptions *options, GCancellable *cancellable, GError **error);

/* "logits" [T, V] */
TlScores *tl_score_logits (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlPassOptions *options,
  GCancellable *cancellable, GError **error);
/* "last" [V] */
TlScores *tl_score_last (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlPassOptions *options,
  GCancellable *cancellable, GError **error);
/* "trajectory" [1 + pre blocks + L, T, D]: the residual stream behind the embedding, each pre block and each loop */
TlScores *tl_score_trajectory (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n,
  TlPassOptions *options, GCancellable *cancellable, GError **error);
/* "logit-lens" [L, T, V]: entry l is what `logits` gives with l + 1 loops */
TlScores *tl_score_logit_lens (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n,
  TlPassOptions *options, GCancellable *cancellable, GError **error);
/* "logits" [T, V]; "kl" [T, L - 1] in nats: entry l is KL (depth l + 2 ‖ depth l + 1); "uncertainty" [T]: their mean */
TlScores *tl_score_with_uncertainty (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n,
  TlPassOptions *options, GCancellable *cancellable, GError **error);
/* "logits" [T, V]; "argmax" int32 [L, T]; "stable_from" int32 [T]: the fewest loops from which on the argmax is the final
 * one; "consistent" bool [T]: it is at every depth */
TlScores *tl_score_with_consistency (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n,
  TlPassOptions *options, GCancellable *cancellable, GError **error);

G_END_DECLS
