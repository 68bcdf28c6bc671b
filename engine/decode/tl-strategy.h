/* decode/tl-strategy.h — how a reply gets its ids: one after the other, drafted and verified, or as beams.
 *
 * A generator holds one strategy and asks it to advance, at most one pass at a time; the strategy accepts ids into the reply
 * as it finds them. A new strategy is a file with a class and a row in tl-generator.c.
 */
#pragma once

#include "decode/tl-generator-private.h"
#include "decode/tl-reply.h"

G_BEGIN_DECLS

/* What a strategy works on; the generator owns it. */
typedef struct
{
  TlGeneratorSource source;
  TlGenerateConfig *config;     /* the generator's own */
  TlReply *reply;
  guint n_done;                 /* ids that went through a pass; atomic, because others ask for it */
  guint next_loops;             /* for passes after the prompt's; plain ones alone change in the middle of a reply */
  float *logits;                /* [vocab_size] of the last of them, once the prompt is through */
  TlGenerationFigures figures;  /* what passes and strategies count: loops_run, prefill_ms, drafts, exits */
} TlDecoding;

typedef struct _TlStrategy TlStrategy;

typedef struct
{
  /* At most one pass, over the prompt first; then any number of ids into the reply, or its end. One that fails is never
   * asked again. */
  gboolean (*advance) (TlStrategy *self, TlDecoding *decoding, GCancellable *cancellable, GError **error);
  void (*free) (TlStrategy *self);
} TlStrategyClass;

struct _TlStrategy
{
  const TlStrategyClass *klass;
};

/* --- tl-plain.c --- */

/* draws an id, runs it, draws the next */
TlStrategy *tl_plain_new (void);
/* the next chunk of ids that went through no pass; for every strategy's prompt */
gboolean tl_plain_pass (TlDecoding *decoding, GCancellable *cancellable, GError **error);
gboolean tl_plain_is_prefilling (TlDecoding *decoding);

G_END_DECLS
