/* decode/tl-token-stats.h — how sure the model was of one token: its log-probability, what else was likely, the entropy.
 *
 * All of the model's own distribution, softmax of the logits at the loops that the token took: before penalties, grammar,
 * temperature and cuts, so that figures of greedy, sampled, constrained and beam replies can be compared. Made by a reply when
 * the configuration asks for it; immutable, counted, shared by the copies of a token.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct { guint32 id; double logprob; } TlAlternative;

typedef struct
{
  gint ref_count;
  double logprob, entropy;      /* natural logarithm; nats */
  guint n_alternatives;
  TlAlternative alternatives[]; /* the likeliest ids, likeliest first, lower ids first among equals; the token may be one */
} TlTokenStats;

/* logits: [vocab_size], that the id was drawn from */
TlTokenStats *tl_token_stats_new (const float *logits, guint vocab_size, guint32 id, guint n_alternatives);
TlTokenStats *tl_token_stats_ref (TlTokenStats *self);
void tl_token_stats_unref (TlTokenStats *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlTokenStats, tl_token_stats_unref)

G_END_DECLS
