/* tl-distribution.h — what a row of logits says: the normaliser, the likeliest id, the spread.
 *
 * Called by scoring and its drawings, and for the statistics of a token. Sums in F64 in ascending order of ids; logarithms are
 * natural. n >= 1; a logit may be −∞ (probability 0), not all of them.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* log of the sum of exponentials: logits[i] minus it is log_softmax */
double tl_log_sum (const float *logits, gsize n);
/* the lowest of the largest */
guint tl_argmax (const float *logits, gsize n);
/* of softmax (logits), in nats. log_sum: of the same logits */
double tl_entropy (const float *logits, gsize n, double log_sum);
/* KL (softmax (p) ‖ softmax (q)) in nats; never below 0, where rounding could take it */
double tl_divergence (const float *p, const float *q, gsize n);
/* ids of the k largest logits, the largest first, lower ids first among equals. Returns how many: min (k, n) */
guint tl_largest (const float *logits, gsize n, guint k, guint32 *ids);

G_END_DECLS
