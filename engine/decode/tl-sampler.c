/* engine/decode/tl-sampler.c — the processors of logits in their fixed order, and the draw as an argmax.
 *
 * Candidates are (value, id) pairs. They are sorted only when a rule needs the order; top-k keeps a heap of k.
 */
#include "decode/tl-sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/tl-math.h"

typedef struct
{
  float value;                  /* logit, later probability */
  guint32 id;
} Candidate;

struct _TlSampler
{
  TlSamplerParams params;
  guint vocab_size;
  guint8 *seen;                 /* [vocab_size]: in prompt or output */
  guint32 *generated;           /* [vocab_size]: times generated */
  float *work;                  /* [vocab_size]: penalised logits */
  Candidate *kept;              /* [vocab_size] */
  float *scores;                /* [vocab_size]: tempered logits of kept, relative to the largest */
  guint n_kept;
};

TlSampler *
tl_sampler_new (guint vocab_size, const TlSamplerParams *params)
{
  TlSampler *sampler = g_new0 (TlSampler, 1);
  sampler->params = *params;
  sampler->vocab_size = vocab_size;
  sampler->seen = g_new0 (guint8, vocab_size);
  sampler->generated = g_new0 (guint32, vocab_size);
  sampler->work = g_new (float, vocab_size);
  sampler->kept = g_new (Candidate, vocab_size);
  sampler->scores = g_new (float, vocab_size);
  return sampler;
}

void
tl_sampler_free (TlSampler *sampler)
{
  g_free (sampler->seen);
  g_free (sampler->generated);
  g_free (sampler->work);
  g_free (sampler->kept);
  g_free (sampler->scores);
  g_free (sampler);
}

void
tl_sampler_set_params (TlSampler *sampler, const TlSamplerParams *params)
{
  sampler->params = *params;
}

void
tl_sampler_see (TlSampler *sampler, guint32 id, gboolean generated)
{
  g_return_if_fail (id < sampler->vocab_size);
  sampler->seen[id] = 1;
  if (generated)
    sampler->generated[id]++;
}

/* the order of everything: larger value first, lower id first among equals */
static gboolean
comes_before (const Candidate *a, const Candidate *b)
{
  return a->value > b->value || (a->value == b->value && a->id < b->id);
}

static int
compare_candidates (const void *a, const void *b)
{
  return comes_before (a, b) ? -1 : comes_before (b, a);
}

static gboolean
check_logits (const TlSampler *sampler, const float *logits, guint position, guint step, GError **error)
{
  for (guint i = 0; i < sampler->vocab_size; i++) {
    if (isnan (logits[i]) || logits[i] == INFINITY) {
      g_set_error (error, TL_ERROR, TL_ERROR_NUMERIC, "logit of id %u is %s in step %u, row %u; the model's arithmetic"
          " overflowed, or its weights are damaged: check the file with `tinyloop inspect --verify`",
          i, isnan (logits[i]) ? "not a number" : "infinite", step, position);
      return FALSE;
    }
  }
  return TRUE;
}

static void
penalise (TlSampler *sampler, const float *logits)
{
  const TlSamplerParams *p = &sampler->params;
  memcpy (sampler->work, logits, sampler->vocab_size * sizeof (float));
  if (p->repetition_penalty == 1 && p->presence_penalty == 0 && p->frequency_penalty == 0)
    return;

  for (guint i = 0; i < sampler->vocab_size; i++) {
    float s = sampler->work[i];
    if (sampler->seen[i])
      s = s < 0 ? s * p->repetition_penalty : s / p->repetition_penalty;
    if (sampler->generated[i])
      s -= p->presence_penalty + p->frequency_penalty * (float) sampler->generated[i];
    sampler->work[i] = s;
  }
}

static gboolean
is_legal (const TlSampler *sampler, const guint32 *mask, guint32 id)
{
  return sampler->work[id] != -INFINITY && (!mask || (mask[id / 32] >> (id % 32) & 1));
}

/* heap whose root is the worst of the kept */
static void
sift_down (Candidate *heap, guint n, guint i)
{
  for (;;) {
    guint worst = i, left = 2 * i + 1;
    for (guint child = left; child < n && child < left + 2; child++)
      if (comes_before (&heap[worst], &heap[child]))
        worst = child;
    if (worst == i)
      return;
    Candidate swap = heap[i];
    heap[i] = heap[worst];
    heap[worst] = swap;
    i = worst;
  }
}

/* exactly the best k legal ids (0 = all of them), values divided by the temperature */
static void
collect (TlSampler *sampler, const guint32 *mask, float temperature, guint k)
{
  guint n = 0, limit = k ? MIN (k, sampler->vocab_size) : sampler->vocab_size;
  for (guint32 id = 0; id < sampler->vocab_size; id++) {
    if (!is_legal (sampler, mask, id))
      continue;
    Candidate c = { sampler->work[id] / temperature, id };
    if (n < limit) {
      sampler->kept[n++] = c;
      if (n == limit && k)
        for (guint i = n / 2; i-- > 0;)
          sift_down (sampler->kept, n, i);
    } else if (comes_before (&c, &sampler->kept[0])) {
      sampler->kept[0] = c;
      sift_down (sampler->kept, n, 0);
    }
  }
  sampler->n_kept = n;
}

/* values become probabilities; scores keep the logits relative to the largest */
static void
softmax (TlSampler *sampler)
{
  Candidate *kept = sampler->kept;
  float largest = -INFINITY;
  for (guint i = 0; i < sampler->n_kept; i++)
    largest = MAX (largest, kept[i].value);

  double sum = 0;
  for (guint i = 0; i < sampler->n_kept; i++) {
    sampler->scores[i] = kept[i].value - largest;
    kept[i].value = tl_expf (sampler->scores[i]);
    sum += kept[i].value;
  }
  for (guint i = 0; i < sampler->n_kept; i++)
    kept[i].value = (float) (kept[i].value / sum);
}

/* the smallest set, best first, whose mass reaches p; the crossing id is in it */
static guint
count_top_p (const TlSampler *sampler, float p)
{
  float mass = 0;
  for (guint i = 0; i < sampler->n_kept; i++) {
    mass += sampler->kept[i].value;
    if (mass >= p)
      return i + 1;
  }
  return sampler->n_kept;
}

static guint
count_min_p (const TlSampler *sampler, float min_p)
{
  guint n = 0;
  while (n < sampler->n_kept && sampler->kept[n].value >= min_p * sampler->kept[0].value)
    n++;
  return n;
}

static gboolean
process (TlSampler *sampler, const float *logits, const guint32 *mask, guint position, guint step, GError **error)
{
  const TlSamplerParams *p = &sampler->params;
  gboolean greedy = p->temperature <= TL_SAMPLER_GREEDY;
  if (!check_logits (sampler, logits, position, step, error))
    return FALSE;

  penalise (sampler, logits);
  collect (sampler, mask, greedy ? 1 : p->temperature, greedy ? 1 : p->top_k);
  if (sampler->n_kept == 0) {
    g_set_error (error, TL_ERROR, TL_ERROR_DEAD_END, "no legal token is left in step %u, row %u", step, position);
    return FALSE;
  }

  gboolean cuts = !greedy && (p->top_p < 1 || p->min_p > 0);
  if (cuts)
    qsort (sampler->kept, sampler->n_kept, sizeof (Candidate), compare_candidates);
  softmax (sampler);
  if (cuts && p->top_p < 1)
    sampler->n_kept = count_top_p (sampler, p->top_p);
  if (cuts && p->min_p > 0)
    sampler->n_kept = count_min_p (sampler, p->min_p);
  return TRUE;
}

static float
exponential (guint64 seed, guint stream, guint position, guint32 id)
{
  guint32 counter[4] = { id, position, stream, 0 }, key[2] = { (guint32) seed, (guint32) (seed >> 32) }, r[4];
  tl_philox4x32 (counter, key, r);
  float v = (float) (((double) r[0] + 0.5) * 0x1p-32);
  return -tl_log1pf (-MIN (v, 0x1.fffffep-1f));
}

gboolean
tl_sampler_draw (TlSampler *sampler, const float *logits, const guint32 *mask, guint stream, guint position, guint step,
    guint32 *id, GError **error)
{
  if (!process (sampler, logits, mask, position, step, error))
    return FALSE;

  Candidate best = { 0, sampler->kept[0].id };
  for (guint i = 0; i < sampler->n_kept && sampler->n_kept > 1; i++) {
    Candidate c = { sampler->scores[i], sampler->kept[i].id };
    c.value -= tl_logf (exponential (sampler->params.seed, stream, position, c.id));
    if (i == 0 || comes_before (&c, &best))
      best = c;
  }
  *id = best.id;
  return TRUE;
}

gboolean
tl_sampler_probabilities (TlSampler *sampler, const float *logits, const guint32 *mask, float *out, GError **error)
{
  if (!process (sampler, logits, mask, 0, 0, error))
    return FALSE;

  double sum = 0;
  for (guint i = 0; i < sampler->n_kept; i++)
    sum += sampler->kept[i].value;
  memset (out, 0, sampler->vocab_size * sizeof (float));
  for (guint i = 0; i < sampler->n_kept; i++)
    out[sampler->kept[i].id] = (float) (sampler->kept[i].value / sum);
  return TRUE;
}

void
tl_philox4x32 (const guint32 counter[4], const guint32 key[2], guint32 out[4])
{
  guint32 x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3], k0 = key[0], k1 = key[1];
  for (guint round = 0; round < 10; round++) {
    guint64 a = (guint64) 0xD2511F53u * x0, b = (guint64) 0xCD9E8D57u * x2;
    x0 = (guint32) (b >> 32) ^ x1 ^ k0;
    x2 = (guint32) (a >> 32) ^ x3 ^ k1;
    x1 = (guint32) b;
    x3 = (guint32) a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = x0;
  out[1] = x1;
  out[2] = x2;
  out[3] = x3;
}
