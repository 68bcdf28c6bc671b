/* tl-distribution.c — see the header. */
#include "tl-distribution.h"

#include <math.h>

#include "forward/tl-math.h"

double
tl_log_sum (const float *logits, gsize n)
{
  double best = logits[0], sum = 0;
  for (gsize i = 1; i < n; i++)
    best = MAX (best, logits[i]);
  for (gsize i = 0; i < n; i++)
    sum += tl_exp (logits[i] - best);
  return best + tl_log (sum);
}

guint
tl_argmax (const float *logits, gsize n)
{
  gsize best = 0;
  for (gsize i = 1; i < n; i++)
    if (logits[i] > logits[best])
      best = i;
  return best;
}

double
tl_entropy (const float *logits, gsize n, double log_sum)
{
  double entropy = 0;
  for (gsize i = 0; i < n; i++) {
    double log_p = logits[i] - log_sum;
    if (!isinf (log_p))
      entropy -= tl_exp (log_p) * log_p;
  }
  return MAX (entropy, 0);
}

double
tl_divergence (const float *p, const float *q, gsize n)
{
  double p_sum = tl_log_sum (p, n), q_sum = tl_log_sum (q, n), kl = 0;
  for (gsize i = 0; i < n; i++) {
    double log_p = p[i] - p_sum;
    if (!isinf (log_p))
      kl += tl_exp (log_p) * (log_p - (q[i] - q_sum));
  }
  return MAX (kl, 0);
}

guint
tl_largest (const float *logits, gsize n, guint k, guint32 *ids)
{
  guint used = 0;
  k = MIN (k, n);
  for (gsize i = 0; i < n && k; i++) {
    if (used == k && !(logits[i] > logits[ids[k - 1]]))
      continue;
    guint at = used < k ? used++ : k - 1;
    for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--)
      ids[at] = ids[at - 1];
    ids[at] = i;
  }
  return used;
}
