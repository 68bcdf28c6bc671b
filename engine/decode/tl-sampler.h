/* decode/tl-sampler.h — logits in, one token id out: the processors and the counter-based draw.
 *
 * Order: repetition penalty → presence, frequency → mask → temperature → top-k → top-p → min-p → draw. A draw is the
 * argmax over the kept ids of log p − log E, E = −log1p (−v), v = (r + ½)·2⁻³², r = Philox4x32-10 (seed; id, position,
 * stream): it depends on nothing but these, so it is the same in any batch. Ties always go to the lowest id.
 * One per sample; not shared between threads. Used by the generator and by tl_process_logits().
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

#define TL_SAMPLER_GREEDY 0.01f /* temperatures up to this take the largest logit */

typedef struct
{
  float temperature;            /* <= TL_SAMPLER_GREEDY: greedy */
  guint top_k;                  /* 0 = off */
  float top_p, min_p;           /* 1, 0 = off */
  float repetition_penalty;     /* 1 = off */
  float presence_penalty, frequency_penalty;    /* 0 = off */
  guint64 seed;
} TlSamplerParams;

typedef struct _TlSampler TlSampler;

TlSampler *tl_sampler_new (guint vocab_size, const TlSamplerParams *params);
void tl_sampler_free (TlSampler *sampler);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlSampler, tl_sampler_free)

/* from the next draw on; what was seen stays seen */
void tl_sampler_set_params (TlSampler *sampler, const TlSamplerParams *params);

/* tells the sampler of an id of the prompt, or of one that was generated */
void tl_sampler_see (TlSampler *sampler, guint32 id, gboolean generated);

/* logits: [vocab_size]; mask: bitmap of legal ids or NULL. step and position are for the draw and for messages.
 * Errors: NUMERIC names step and row (position), DEAD_END when nothing is legal. */
gboolean tl_sampler_draw (TlSampler *sampler, const float *logits, const guint32 *mask, guint stream, guint position,
  guint step, guint32 *id, GError **error);

/* what would be drawn from: [vocab_size] probabilities, 0 where removed; greedy gives a single 1 */
gboolean tl_sampler_probabilities (TlSampler *sampler, const float *logits, const guint32 *mask, float *out,
  GError **error);

/* Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011) */
void tl_philox4x32 (const guint32 counter[4], const guint32 key[2], guint32 out[4]);

G_END_DECLS
