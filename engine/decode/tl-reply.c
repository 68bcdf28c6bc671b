/* engine/decode/tl-reply.c — the reply while it grows; see tl-reply.h.
 *
 * Accepted ids wait in `sampled` until no stop string can take them back; `n_left` of them have left to the caller.
 * A grammar ends the reply where nothing can follow; its ends are ends, whatever ignore-eos says.
 * Stop strings are matched on the bytes of the tokens, so a stop may begin and end in the middle of a token.
 */
#include "decode/tl-reply.h"

#include <string.h>

#include "decode/tl-generate-config-private.h"

typedef struct
{
  guint32 id;
  guint loops;
  gsize begin, end;             /* its bytes in `bytes` */
  gboolean special;
  TlTokenStats *stats;          /* or NULL */
} Sampled;

struct _TlReply
{
  TlGenerateConfig *config;
  TlTokenizer *tokenizer;       /* or NULL */
  TlDrawer *drawer;
  guint vocab_size, max_tokens;
  GArray *ids;                  /* guint32: everything, generated ids included */
  guint n_begin;                /* ids before the first generated one */
  GArray *sampled;              /* Sampled */
  guint n_free;                 /* of them may leave */
  guint n_left;                 /* have left */
  GByteArray *bytes;            /* of all sampled tokens, specials left out */
  gsize cut;                    /* where a stop string begins, G_MAXSIZE = nowhere */
  TlFinishReason finish;
  guint32 *left_ids;            /* scratch of tl_reply_left_ids() */
};

static void
sampled_clear (gpointer sampled)
{
  g_clear_pointer (&((Sampled *) sampled)->stats, tl_token_stats_unref);
}

TlReply *
tl_reply_new (TlGenerateConfig *config, TlTokenizer *tokenizer, TlMatcher *matcher, guint vocab_size, guint max_tokens,
    const guint32 *ids, guint n_ids)
{
  TlReply *self = g_new0 (TlReply, 1);
  TlSamplerParams params = tl_generate_config_sampler (config);
  TlReplyMask *mask = matcher ? tl_reply_mask_new (matcher, tokenizer, vocab_size) : NULL;
  self->config = g_object_ref (config);
  if (tokenizer)
    self->tokenizer = g_object_ref (tokenizer);
  self->drawer = tl_drawer_new (vocab_size, &params, mask, ids, n_ids);
  self->vocab_size = vocab_size;
  self->max_tokens = max_tokens;
  self->n_begin = n_ids;
  self->ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_vals (self->ids, ids, n_ids);
  self->sampled = g_array_new (FALSE, FALSE, sizeof (Sampled));
  g_array_set_clear_func (self->sampled, sampled_clear);
  self->bytes = g_byte_array_new ();
  self->cut = G_MAXSIZE;
  return self;
}

void
tl_reply_free (TlReply *self)
{
  g_object_unref (self->config);
  g_clear_object (&self->tokenizer);
  tl_drawer_free (self->drawer);
  g_array_unref (self->ids);
  g_array_unref (self->sampled);
  g_byte_array_unref (self->bytes);
  g_free (self->left_ids);
  g_free (self);
}

TlDrawer *
tl_reply_drawer (TlReply *self)
{
  return self->drawer;
}

const guint32 *
tl_reply_ids (TlReply *self, guint *n)
{
  *n = self->ids->len;
  return (const guint32 *) self->ids->data;
}

guint
tl_reply_n_ids (TlReply *self)
{
  return self->ids->len;
}

guint
tl_reply_n_begin (TlReply *self)
{
  return self->n_begin;
}

guint
tl_reply_room (TlReply *self)
{
  return self->n_begin + self->max_tokens - self->ids->len;
}

gboolean
tl_reply_is_over (TlReply *self)
{
  return self->finish != TL_FINISH_NONE;
}

/* --- where to end --- */

static gboolean
is_eos (TlReply *self, guint32 id)
{
  gsize n = 0;
  const gint32 *eos = self->tokenizer ? tl_tokenizer_get_eos (self->tokenizer, &n) : NULL;
  for (gsize i = 0; i < n; i++)
    if ((guint32) eos[i] == id)
      return TRUE;
  return FALSE;
}

static gboolean
ends_with_stop_sequence (TlReply *self)
{
  const GPtrArray *list = self->config->stop_sequences;
  guint n_generated = self->ids->len - self->n_begin;
  for (guint i = 0; i < list->len; i++) {
    gsize size;
    const void *stop = g_bytes_get_data (g_ptr_array_index (list, i), &size);
    guint n = size / sizeof (guint32);
    if (n <= n_generated && !memcmp (&g_array_index (self->ids, guint32, self->ids->len - n), stop, size))
      return TRUE;
  }
  return FALSE;
}

/* first place in the bytes, not before `from`, where a stop string begins; G_MAXSIZE when there is none */
static gsize
find_stop_string (TlReply *self, gsize from)
{
  for (gsize at = from; at < self->bytes->len; at++) {
    for (char **stop = self->config->stop; stop && *stop; stop++) {
      gsize n = strlen (*stop);
      if (n <= self->bytes->len - at && !memcmp (self->bytes->data + at, *stop, n))
        return at;
    }
  }
  return G_MAXSIZE;
}

/* first place from which on the bytes may still become a stop string */
static gsize
first_open_place (TlReply *self, gsize from)
{
  for (gsize at = from; at < self->bytes->len; at++) {
    gsize rest = self->bytes->len - at;
    for (char **stop = self->config->stop; stop && *stop; stop++)
      if (rest < strlen (*stop) && !memcmp (self->bytes->data + at, *stop, rest))
        return at;
  }
  return self->bytes->len;
}

/* how many sampled tokens begin before `place`, or end there */
static guint
count_until (TlReply *self, gsize place, gboolean whole)
{
  guint n = self->n_free;
  while (n < self->sampled->len) {
    const Sampled *s = &g_array_index (self->sampled, Sampled, n);
    if (whole ? s->end > place : s->begin >= place)
      break;
    n++;
  }
  return n;
}

static void
look_for_stop_string (TlReply *self)
{
  gsize from = self->n_free < self->sampled->len ? g_array_index (self->sampled, Sampled, self->n_free).begin : 0;
  self->cut = find_stop_string (self, from);
  if (self->cut == G_MAXSIZE) {
    self->n_free = count_until (self, first_open_place (self, from), TRUE);
    return;
  }
  self->n_free = count_until (self, self->cut, FALSE);
  g_array_set_size (self->sampled, self->n_free);
  self->finish = TL_FINISH_STOP;
}

static TlFinishReason
finish_after (TlReply *self, guint32 id, gboolean grammar_ended)
{
  if (grammar_ended || (!self->config->ignore_eos && is_eos (self, id)))
    return TL_FINISH_EOS;
  if (ends_with_stop_sequence (self))
    return TL_FINISH_STOP;
  if (tl_drawer_can_only_end (self->drawer))
    return TL_FINISH_GRAMMAR_COMPLETE;
  return tl_reply_room (self) == 0 ? TL_FINISH_LENGTH : TL_FINISH_NONE;
}

/* --- growing --- */

gboolean
tl_reply_accept (TlReply *self, guint32 id, guint loops, GError **error)
{
  return tl_reply_accept_measured (self, id, loops, NULL, error);
}

TlTokenStats *
tl_reply_measure (TlReply *self, const float *logits, guint32 id)
{
  return self->config->token_stats ? tl_token_stats_new (logits, self->vocab_size, id, self->config->top_logprobs) : NULL;
}

gboolean
tl_reply_accept_measured (TlReply *self, guint32 id, guint loops, TlTokenStats *stats, GError **error)
{
  gboolean grammar_ended, has_stop = self->config->stop && self->config->stop[0];
  Sampled s = { id, loops, self->bytes->len, self->bytes->len, FALSE, stats };
  if (!tl_drawer_take (self->drawer, id, &grammar_ended, error)) {
    sampled_clear (&s);
    return FALSE;
  }
  if (self->tokenizer) {
    s.special = tl_tokenizer_is_special (self->tokenizer, id);
    if (!s.special) {
      g_autoptr (GBytes) bytes = tl_tokenizer_token_bytes (self->tokenizer, id);
      if (bytes)
        g_byte_array_append (self->bytes, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
      s.end = self->bytes->len;
    }
  }
  g_array_append_val (self->sampled, s);
  g_array_append_val (self->ids, id);

  if (has_stop)
    look_for_stop_string (self);
  if (self->finish == TL_FINISH_NONE)
    self->finish = finish_after (self, id, grammar_ended);
  if (self->finish != TL_FINISH_NONE || !has_stop)
    self->n_free = self->sampled->len;
  return TRUE;
}

gboolean
tl_reply_draw (TlReply *self, const float *logits, guint loops, GError **error)
{
  guint32 id;
  if (tl_drawer_can_only_end (self->drawer)) {
    self->finish = TL_FINISH_GRAMMAR_COMPLETE;  /* the empty text alone */
    return TRUE;
  }
  return tl_drawer_draw (self->drawer, logits, &id, error)
      && tl_reply_accept_measured (self, id, loops, tl_reply_measure (self, logits, id), error);
}

/* --- leaving --- */

/* number `index` of those that may leave */
static TlToken *
token_at (TlReply *self, guint index)
{
  const Sampled *s = &g_array_index (self->sampled, Sampled, index);
  gboolean last = self->finish != TL_FINISH_NONE && index + 1 == self->n_free;
  guint cut = self->cut < s->end ? s->end - self->cut : 0;
  TlToken t = { s->id, index, self->n_begin + index, s->loops, s->special, cut, last ? self->finish : TL_FINISH_NONE };
  if (s->stats) {
    t.measured = TRUE;
    t.logprob = s->stats->logprob;
    t.entropy = s->stats->entropy;
    t.stats = s->stats;
  }
  return tl_token_copy (&t);
}

gboolean
tl_reply_let_go (TlReply *self, TlToken **token)
{
  if (self->n_left >= self->n_free)
    return FALSE;
  *token = token_at (self, self->n_left++);
  return TRUE;
}

GPtrArray *
tl_reply_left_tokens (TlReply *self)
{
  GPtrArray *tokens = g_ptr_array_new_with_free_func ((GDestroyNotify) tl_token_free);
  for (guint i = 0; i < self->n_left; i++)
    g_ptr_array_add (tokens, token_at (self, i));
  return tokens;
}

guint
tl_reply_n_left (TlReply *self)
{
  return self->n_left;
}

const guint32 *
tl_reply_left_ids (TlReply *self)
{
  g_free (self->left_ids);
  self->left_ids = g_new (guint32, self->n_left + 1);
  for (guint i = 0; i < self->n_left; i++)
    self->left_ids[i] = g_array_index (self->sampled, Sampled, i).id;
  return self->left_ids;
}

void
tl_reply_end (TlReply *self, TlFinishReason reason)
{
  self->finish = reason;
}

void
tl_reply_end_now (TlReply *self, TlFinishReason reason)
{
  if (self->finish != TL_FINISH_NONE && self->n_left >= self->n_free)
    return;
  self->finish = reason;
  self->n_free = self->n_left;
}

TlFinishReason
tl_reply_get_finish (TlReply *self)
{
  return self->n_left < self->n_free ? TL_FINISH_NONE : self->finish;
}

char *
tl_reply_make_text (TlReply *self)
{
  if (!self->tokenizer)
    return NULL;
  gsize end = self->n_left ? g_array_index (self->sampled, Sampled, self->n_left - 1).end : 0;
  if (self->cut < end) {
    const char *bytes = (const char *) self->bytes->data;
    gsize skip = tl_tokenizer_strips_leading_space (self->tokenizer) && self->cut && bytes[0] == ' ';
    return g_utf8_make_valid (bytes + skip, self->cut - skip);
  }

  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (guint i = 0; i < self->n_left; i++)
    if (!g_array_index (self->sampled, Sampled, i).special)
      g_array_append_val (ids, g_array_index (self->sampled, Sampled, i).id);
  g_autoptr (GBytes) text = tl_tokenizer_decode (self->tokenizer, (gint32 *) ids->data, ids->len);
  gsize size = g_bytes_get_size (text);
  return g_utf8_make_valid (size ? g_bytes_get_data (text, NULL) : "", size);
}
