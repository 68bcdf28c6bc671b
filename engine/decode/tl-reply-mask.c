/* engine/decode/tl-reply-mask.c — a matcher's mask without special tokens and with every end; made once a token. */
#include "decode/tl-reply-mask.h"

#include "grammar/tl-token-trie-private.h"

struct _TlReplyMask
{
  TlMatcher *matcher;
  GArray *specials;             /* gint32: ids that are no text */
  GArray *ends;                 /* gint32: ids that end a reply */
  guint vocab_size;
  gsize n_words;
  guint32 *words;
  gboolean known;               /* `words` are those of the matcher's place */
  gboolean can_go_on;           /* some id of text is legal */
};

TlReplyMask *
tl_reply_mask_new (TlMatcher *matcher, TlTokenizer *tokenizer, guint vocab_size)
{
  TlReplyMask *self = g_new0 (TlReplyMask, 1);
  const GArray *own = tl_matcher_get_vocabulary (matcher)->end_ids;
  gsize n_specials = 0, n_ends = 0;
  const gint32 *specials = tokenizer ? tl_tokenizer_get_specials (tokenizer, &n_specials) : NULL;
  const gint32 *ends = tokenizer ? tl_tokenizer_get_eos (tokenizer, &n_ends) : NULL;

  self->matcher = matcher;
  self->specials = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->ends = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_array_append_vals (self->specials, specials, n_specials);
  g_array_append_vals (self->ends, own->data, own->len);
  g_array_append_vals (self->ends, ends, n_ends);
  self->vocab_size = vocab_size;
  self->n_words = ((gsize) vocab_size + 31) / 32;
  self->words = g_new0 (guint32, self->n_words + 1);
  return self;
}

void
tl_reply_mask_free (TlReplyMask *self)
{
  g_object_unref (self->matcher);
  g_array_unref (self->specials);
  g_array_unref (self->ends);
  g_free (self->words);
  g_free (self);
}

static void
set_ids (TlReplyMask *self, const GArray *ids, gboolean legal)
{
  for (guint i = 0; i < ids->len; i++) {
    guint32 id = g_array_index (ids, gint32, i);
    if (id < self->vocab_size && legal)
      self->words[id / 32] |= 1u << (id % 32);
    else if (id < self->vocab_size)
      self->words[id / 32] &= ~(1u << (id % 32));
  }
}

static gboolean
make_known (TlReplyMask *self, GError **error)
{
  if (self->known)
    return TRUE;
  if (!tl_matcher_fill_mask (self->matcher, self->words, self->n_words, error))
    return FALSE;
  if (self->vocab_size % 32)
    self->words[self->n_words - 1] &= (1u << self->vocab_size % 32) - 1;
  set_ids (self, self->specials, FALSE);
  set_ids (self, self->ends, FALSE);
  self->can_go_on = FALSE;
  for (gsize i = 0; i < self->n_words && !self->can_go_on; i++)
    self->can_go_on = self->words[i] != 0;
  set_ids (self, self->ends, tl_matcher_is_accepting (self->matcher));
  self->known = TRUE;
  return TRUE;
}

const guint32 *
tl_reply_mask_get (TlReplyMask *self, GError **error)
{
  if (!make_known (self, error))
    return NULL;
  if (self->can_go_on || tl_matcher_is_accepting (self->matcher))
    return self->words;
  g_set_error (error, TL_ERROR, TL_ERROR_DEAD_END,
      "tinyloop: grammar: no token of this model goes on from here and the text cannot end here");
  return NULL;
}

gboolean
tl_reply_mask_can_only_end (TlReplyMask *self)
{
  return make_known (self, NULL) && !self->can_go_on && tl_matcher_is_accepting (self->matcher);
}

gboolean
tl_reply_mask_take (TlReplyMask *self, guint32 id, gboolean *ended, GError **error)
{
  *ended = FALSE;
  for (guint i = 0; i < self->ends->len && !*ended; i++)
    *ended = (guint32) g_array_index (self->ends, gint32, i) == id;
  if (*ended)
    return TRUE;
  self->known = FALSE;
  return tl_matcher_advance (self->matcher, id, error);
}
