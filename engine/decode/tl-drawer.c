/* engine/decode/tl-drawer.c — see tl-drawer.h. */
#include "decode/tl-drawer.h"

struct _TlDrawer
{
  TlSampler *sampler;
  TlReplyMask *mask;            /* or NULL */
  guint n_before, n_taken;
};

TlDrawer *
tl_drawer_new (guint vocab_size, const TlSamplerParams *params, TlReplyMask *mask, const guint32 *ids, guint n_ids)
{
  TlDrawer *self = g_new0 (TlDrawer, 1);
  self->sampler = tl_sampler_new (vocab_size, params);
  self->mask = mask;
  self->n_before = n_ids;
  for (guint i = 0; i < n_ids; i++)
    tl_sampler_see (self->sampler, ids[i], FALSE);
  return self;
}

void
tl_drawer_free (TlDrawer *self)
{
  tl_sampler_free (self->sampler);
  g_clear_pointer (&self->mask, tl_reply_mask_free);
  g_free (self);
}

void
tl_drawer_set_params (TlDrawer *self, const TlSamplerParams *params)
{
  tl_sampler_set_params (self->sampler, params);
}

gboolean
tl_drawer_can_only_end (TlDrawer *self)
{
  return self->mask && tl_reply_mask_can_only_end (self->mask);
}

gboolean
tl_drawer_draw (TlDrawer *self, const float *logits, guint32 *id, GError **error)
{
  const guint32 *legal = NULL;
  if (self->mask && !(legal = tl_reply_mask_get (self->mask, error)))
    return FALSE;
  return tl_sampler_draw (self->sampler, logits, legal, 0, self->n_before + self->n_taken, self->n_taken, id, error);
}

gboolean
tl_drawer_take (TlDrawer *self, guint32 id, gboolean *ended, GError **error)
{
  *ended = FALSE;
  if (self->mask && !tl_reply_mask_take (self->mask, id, ended, error))
    return FALSE;
  tl_sampler_see (self->sampler, id, TRUE);
  self->n_taken++;
  return TRUE;
}
