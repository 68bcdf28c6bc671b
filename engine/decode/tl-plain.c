/* engine/decode/tl-plain.c — the plain strategy: the prompt chunk by chunk, then draw, pass, draw …
 *
 * Its pass over what has not been run yet is also how the other strategies get their prompt through.
 */
#include "decode/tl-strategy.h"

gboolean
tl_plain_is_prefilling (TlDecoding *decoding)
{
  return (guint) g_atomic_int_get ((gint *) &decoding->n_done) < tl_reply_n_begin (decoding->reply);
}

gboolean
tl_plain_pass (TlDecoding *decoding, GCancellable *cancellable, GError **error)
{
  const TlGeneratorSource *source = &decoding->source;
  guint n_ids;
  const guint32 *ids = tl_reply_ids (decoding->reply, &n_ids);
  guint rest = n_ids - decoding->n_done, n = MIN (rest, source->chunk ? source->chunk : 128);
  gboolean prefill = tl_plain_is_prefilling (decoding);
  gint64 before = g_get_monotonic_time ();

  if (!source->run (source->data, ids + decoding->n_done, n, n == rest ? decoding->logits : NULL, cancellable, error))
    return FALSE;
  if (prefill)
    decoding->figures.prefill_ms += (g_get_monotonic_time () - before) / 1e3;
  else
    decoding->figures.loops_run += source->loops;
  g_atomic_int_set ((gint *) &decoding->n_done, decoding->n_done + n);
  return TRUE;
}

/* before a pass of the reply, never of the prompt */
static void
take_next_loops (TlDecoding *decoding)
{
  TlGeneratorSource *source = &decoding->source;
  if (decoding->next_loops == source->loops || !source->set_loops || tl_plain_is_prefilling (decoding))
    return;
  source->set_loops (source->data, decoding->next_loops);
  source->loops = decoding->next_loops;
}

static gboolean
advance (TlStrategy *self, TlDecoding *decoding, GCancellable *cancellable, GError **error)
{
  TlReply *reply = decoding->reply;
  take_next_loops (decoding);
  if (decoding->n_done < tl_reply_n_ids (reply) && !tl_plain_pass (decoding, cancellable, error))
    return FALSE;
  return decoding->n_done < tl_reply_n_ids (reply)
      || tl_reply_draw (reply, decoding->logits, decoding->source.loops, error);
}

static void
plain_free (TlStrategy *self)
{
  g_free (self);
}

TlStrategy *
tl_plain_new (void)
{
  static const TlStrategyClass klass = { .advance = advance, .free = plain_free };
  TlStrategy *self = g_new (TlStrategy, 1);
  self->klass = &klass;
  return self;
}
