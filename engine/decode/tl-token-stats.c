/* decode/tl-token-stats.c — see the header. */
#include "decode/tl-token-stats.h"

#include "tl-distribution.h"

TlTokenStats *
tl_token_stats_new (const float *logits, guint vocab_size, guint32 id, guint n_alternatives)
{
  guint n = MIN (n_alternatives, vocab_size);
  g_autofree guint32 *ids = g_new (guint32, n + 1);
  TlTokenStats *self = g_malloc0 (sizeof (TlTokenStats) + n * sizeof (TlAlternative));
  double log_sum = tl_log_sum (logits, vocab_size);
  self->ref_count = 1;
  self->logprob = logits[id] - log_sum;
  self->entropy = tl_entropy (logits, vocab_size, log_sum);
  self->n_alternatives = tl_largest (logits, vocab_size, n, ids);
  for (guint i = 0; i < self->n_alternatives; i++)
    self->alternatives[i] = (TlAlternative) { ids[i], logits[ids[i]] - log_sum };
  return self;
}

TlTokenStats *
tl_token_stats_ref (TlTokenStats *self)
{
  g_atomic_int_inc (&self->ref_count);
  return self;
}

void
tl_token_stats_unref (TlTokenStats *self)
{
  if (g_atomic_int_dec_and_test (&self->ref_count))
    g_free (self);
}
