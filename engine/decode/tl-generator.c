/* engine/decode/tl-generator.c — one generation: prompt chunk by chunk, then sample, look for a stop, pass, sample …
 *
 * Generated ids wait in `sampled` until no stop string can take them back; `n_left` of them have left to the caller.
 * A grammar bounds what is drawn and ends the reply where nothing can follow; its ends are ends, whatever ignore-eos says.
 * Stop strings are matched on the bytes of the tokens, so a stop may begin and end in the middle of a token.
 */
#include "decode/tl-generator-private.h"

#include <string.h>

#include "decode/tl-generate-config-private.h"
#include "decode/tl-reply-mask.h"

typedef struct
{
  guint32 id;
  gsize begin, end;             /* its bytes in `bytes` */
  gboolean special;
} Sampled;

struct _TlGenerator
{
  GObject parent;
  TlGeneratorSource source;
  TlGenerateConfig *config;
  TlSampler *sampler;
  TlReplyMask *mask;            /* of a grammar, or NULL */
  float *logits;
  guint max_tokens, n_prompt;
  GArray *ids;                  /* guint32: everything, generated ids included */
  guint n_begin;                /* ids before the first generated one */
  guint n_done;                 /* ids that went through a pass */
  guint n_cached;
  GArray *sampled;              /* Sampled */
  guint n_free;                 /* of them may leave */
  guint n_left;                 /* have left */
  GByteArray *bytes;            /* of all sampled tokens, specials left out */
  gsize cut;                    /* where a stop string begins, G_MAXSIZE = nowhere */
  GCancellable *cancellable;    /* any thread cancels it */
  TlFinishReason finish;
  GError *failure;
  gint64 began, first_left, last_left;
  double prefill_ms;
  guint64 loops_run;
  guint32 *left_ids;            /* scratch of tl_generator_tokens() */
};

G_DEFINE_FINAL_TYPE (TlGenerator, tl_generator, G_TYPE_OBJECT)

GType
tl_step_get_type (void)
{
  static gsize type = 0;
  static const GEnumValue values[] = {
    { TL_STEP_ERROR, "TL_STEP_ERROR", "error" }, { TL_STEP_PASS, "TL_STEP_PASS", "pass" },
    { TL_STEP_TOKEN, "TL_STEP_TOKEN", "token" }, { TL_STEP_END, "TL_STEP_END", "end" }, { 0, NULL, NULL }
  };
  if (g_once_init_enter (&type))
    g_once_init_leave (&type, g_enum_register_static ("TlStep", values));
  return type;
}

static void
tl_generator_finalize (GObject *object)
{
  TlGenerator *self = TL_GENERATOR (object);
  if (self->source.free)
    self->source.free (self->source.data);
  g_clear_object (&self->source.tokenizer);
  g_clear_object (&self->config);
  g_clear_pointer (&self->sampler, tl_sampler_free);
  g_clear_pointer (&self->mask, tl_reply_mask_free);
  g_free (self->logits);
  g_free (self->left_ids);
  g_array_unref (self->ids);
  g_array_unref (self->sampled);
  g_byte_array_unref (self->bytes);
  g_object_unref (self->cancellable);
  g_clear_error (&self->failure);
  G_OBJECT_CLASS (tl_generator_parent_class)->finalize (object);
}

static void
tl_generator_class_init (TlGeneratorClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_generator_finalize;
}

static void
tl_generator_init (TlGenerator *self)
{
  self->ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->sampled = g_array_new (FALSE, FALSE, sizeof (Sampled));
  self->bytes = g_byte_array_new ();
  self->cancellable = g_cancellable_new ();
  self->cut = G_MAXSIZE;
}

TlGenerator *
tl_generator_new (const TlGeneratorSource *source, const guint32 *ids, guint n_ids, guint n_cached, guint n_prompt,
    TlGenerateConfig *config, guint max_tokens)
{
  TlGenerator *self = g_object_new (TL_TYPE_GENERATOR, NULL);
  self->source = *source;
  if (source->tokenizer)
    g_object_ref (source->tokenizer);
  self->config = tl_generate_config_copy (config);
  self->max_tokens = max_tokens;
  self->n_prompt = n_prompt;
  self->n_begin = n_ids;
  self->n_done = self->n_cached = n_cached;
  g_array_append_vals (self->ids, ids, n_ids);

  TlSamplerParams params = tl_generate_config_sampler (config);
  self->sampler = tl_sampler_new (source->vocab_size, &params);
  for (guint i = 0; i < n_ids; i++)
    tl_sampler_see (self->sampler, ids[i], FALSE);
  if (source->matcher)
    self->mask = tl_reply_mask_new (source->matcher, source->tokenizer, source->vocab_size);
  self->logits = g_new (float, source->vocab_size);
  self->began = g_get_monotonic_time ();
  return self;
}

gpointer
tl_generator_source_data (TlGenerator *self)
{
  return self->source.data;
}

TlGenerateConfig *
tl_generator_config (TlGenerator *self)
{
  return self->config;
}

guint
tl_generator_loops (TlGenerator *self)
{
  return self->source.loops;
}

guint
tl_generator_prompt_length (TlGenerator *self)
{
  return self->n_prompt;
}

void
tl_generator_go_on_from (TlGenerator *self, TlGenerator *prompt)
{
  memcpy (self->logits, prompt->logits, self->source.vocab_size * sizeof (float));
  self->n_cached = prompt->n_cached;
  self->prefill_ms = prompt->prefill_ms;
}

gboolean
tl_generator_is_prefilling (TlGenerator *self)
{
  return (guint) g_atomic_int_get ((gint *) &self->n_done) < self->n_begin;
}

const guint32 *
tl_generator_prompt_ids (TlGenerator *self, guint *n)
{
  *n = self->n_begin;
  return (const guint32 *) self->ids->data;
}

const guint32 *
tl_generator_tokens (TlGenerator *self, guint *n)
{
  g_free (self->left_ids);
  self->left_ids = g_new (guint32, self->n_left + 1);
  for (guint i = 0; i < self->n_left; i++)
    self->left_ids[i] = g_array_index (self->sampled, Sampled, i).id;
  *n = self->n_left;
  return self->left_ids;
}

/* --- where to end --- */

static gboolean
is_eos (TlGenerator *self, guint32 id)
{
  gsize n = 0;
  const gint32 *eos = self->source.tokenizer ? tl_tokenizer_get_eos (self->source.tokenizer, &n) : NULL;
  for (gsize i = 0; i < n; i++)
    if ((guint32) eos[i] == id)
      return TRUE;
  return FALSE;
}

static gboolean
ends_with_stop_sequence (TlGenerator *self)
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
find_stop_string (TlGenerator *self, gsize from)
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
first_open_place (TlGenerator *self, gsize from)
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
count_until (TlGenerator *self, gsize place, gboolean whole)
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
look_for_stop_string (TlGenerator *self)
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
finish_after (TlGenerator *self, guint32 id, gboolean grammar_ended)
{
  if (grammar_ended || (!self->config->ignore_eos && is_eos (self, id)))
    return TL_FINISH_EOS;
  if (ends_with_stop_sequence (self))
    return TL_FINISH_STOP;
  if (self->mask && tl_reply_mask_can_only_end (self->mask))
    return TL_FINISH_GRAMMAR_COMPLETE;
  return self->ids->len - self->n_begin >= self->max_tokens ? TL_FINISH_LENGTH : TL_FINISH_NONE;
}

static gboolean
accept_token (TlGenerator *self, guint32 id, GError **error)
{
  gboolean grammar_ended = FALSE;
  if (self->mask && !tl_reply_mask_take (self->mask, id, &grammar_ended, error))
    return FALSE;
  Sampled s = { id, self->bytes->len, self->bytes->len, FALSE };
  if (self->source.tokenizer) {
    s.special = tl_tokenizer_is_special (self->source.tokenizer, id);
    if (!s.special) {
      g_autoptr (GBytes) bytes = tl_tokenizer_token_bytes (self->source.tokenizer, id);
      if (bytes)
        g_byte_array_append (self->bytes, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
      s.end = self->bytes->len;
    }
  }
  g_array_append_val (self->sampled, s);
  g_array_append_val (self->ids, id);
  tl_sampler_see (self->sampler, id, TRUE);

  if (self->config->stop && self->config->stop[0])
    look_for_stop_string (self);
  if (self->finish == TL_FINISH_NONE)
    self->finish = finish_after (self, id, grammar_ended);
  if (self->finish != TL_FINISH_NONE || !(self->config->stop && self->config->stop[0]))
    self->n_free = self->sampled->len;
  return TRUE;
}

/* --- passes --- */

static gboolean
run_pass (TlGenerator *self, GError **error)
{
  guint rest = self->ids->len - self->n_done;
  guint n = MIN (rest, self->source.chunk ? self->source.chunk : 128);
  gboolean prefill = self->n_done < self->n_begin;
  gint64 before = g_get_monotonic_time ();

  if (!self->source.run (self->source.data, &g_array_index (self->ids, guint32, self->n_done), n,
          n == rest ? self->logits : NULL, self->cancellable, error))
    return FALSE;
  if (prefill)
    self->prefill_ms += (g_get_monotonic_time () - before) / 1e3;
  else
    self->loops_run += self->source.loops;
  g_atomic_int_set ((gint *) &self->n_done, self->n_done + n);
  return TRUE;
}

static gboolean
sample (TlGenerator *self, GError **error)
{
  guint position = self->ids->len, step = self->ids->len - self->n_begin;
  const guint32 *legal = NULL;
  guint32 id;
  if (self->mask && tl_reply_mask_can_only_end (self->mask)) {
    self->finish = TL_FINISH_GRAMMAR_COMPLETE;  /* the empty text alone */
    return TRUE;
  }
  if (self->mask && !(legal = tl_reply_mask_get (self->mask, error)))
    return FALSE;
  return tl_sampler_draw (self->sampler, self->logits, legal, 0, position, step, &id, error)
      && accept_token (self, id, error);
}

static gboolean
pass_and_sample (TlGenerator *self, GError **error)
{
  if (self->n_done < self->ids->len && !run_pass (self, error))
    return FALSE;
  return self->n_done < self->ids->len || sample (self, error);
}

static gboolean
let_go (TlGenerator *self, TlToken **token)
{
  if (self->n_left >= self->n_free)
    return FALSE;

  const Sampled *s = &g_array_index (self->sampled, Sampled, self->n_left);
  gboolean last = self->finish != TL_FINISH_NONE && self->n_left + 1 == self->n_free;
  guint cut = self->cut < s->end ? s->end - self->cut : 0;
  TlToken t = { s->id, self->n_left, self->n_begin + self->n_left, self->source.loops, s->special, cut,
    last ? self->finish : TL_FINISH_NONE };
  if (token)
    *token = tl_token_copy (&t);
  self->n_left++;
  self->last_left = g_get_monotonic_time ();
  if (!self->first_left)
    self->first_left = self->last_left;
  return TRUE;
}

static gboolean
run_prompt (TlGenerator *self, GError **error)
{
  while (self->n_done < self->n_begin)
    if (!run_pass (self, error))
      return FALSE;
  return TRUE;
}

static void
forward_cancel (GCancellable *from, gpointer to)
{
  g_cancellable_cancel (to);
}

/* `work` under both cancellables; its failure becomes the generator's, and so does being cancelled */
static gboolean
run_cancellable (TlGenerator *self, gboolean (*work) (TlGenerator *self, GError **error), GCancellable *cancellable,
    GError **error)
{
  g_autoptr (GError) failure = NULL;
  gulong link = cancellable ? g_cancellable_connect (cancellable, G_CALLBACK (forward_cancel),
      g_object_ref (self->cancellable), g_object_unref) : 0;
  gboolean ok = !g_cancellable_set_error_if_cancelled (self->cancellable, &failure) && work (self, &failure);
  if (cancellable)
    g_cancellable_disconnect (cancellable, link);
  if (ok)
    return TRUE;

  if (g_error_matches (failure, TL_ERROR, TL_ERROR_CANCELLED)
      || g_error_matches (failure, G_IO_ERROR, G_IO_ERROR_CANCELLED)) {
    self->finish = TL_FINISH_CANCELLED;
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CANCELLED, "the generation was cancelled");
  } else {
    self->finish = TL_FINISH_ERROR;
    self->failure = g_error_copy (failure);
    g_propagate_error (error, g_steal_pointer (&failure));
  }
  return FALSE;
}

TlStep
tl_generator_step (TlGenerator *self, TlToken **token, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self), TL_STEP_ERROR);
  g_autoptr (GError) failure = NULL;
  if (token)
    *token = NULL;
  if (self->failure) {
    g_propagate_error (error, g_error_copy (self->failure));
    return TL_STEP_ERROR;
  }
  if (let_go (self, token))
    return TL_STEP_TOKEN;
  if (self->finish != TL_FINISH_NONE)
    return TL_STEP_END;

  if (!run_cancellable (self, pass_and_sample, cancellable, &failure)) {
    if (self->finish == TL_FINISH_CANCELLED)
      return TL_STEP_END;
    g_propagate_error (error, g_steal_pointer (&failure));
    return TL_STEP_ERROR;
  }
  if (let_go (self, token))
    return TL_STEP_TOKEN;
  return self->finish != TL_FINISH_NONE ? TL_STEP_END : TL_STEP_PASS;
}

gboolean
tl_generator_prefill (TlGenerator *self, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self), FALSE);
  if (self->failure) {
    g_propagate_error (error, g_error_copy (self->failure));
    return FALSE;
  }
  return run_cancellable (self, run_prompt, cancellable, error);
}

gboolean
tl_generator_update (TlGenerator *self, TlGenerateConfig *config, GError **error)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self) && TL_IS_GENERATE_CONFIG (config), FALSE);
  if (!tl_generate_config_validate (config, error))
    return FALSE;
  TlSamplerParams params = tl_generate_config_sampler (config);
  tl_sampler_set_params (self->sampler, &params);
  self->config->ignore_eos = config->ignore_eos;
  return TRUE;
}

void
tl_generator_cancel (TlGenerator *self)
{
  g_return_if_fail (TL_IS_GENERATOR (self));
  g_cancellable_cancel (self->cancellable);
}

void
tl_generator_stop (TlGenerator *self, TlFinishReason reason)
{
  g_return_if_fail (TL_IS_GENERATOR (self));
  if (self->finish != TL_FINISH_NONE && self->n_left >= self->n_free)
    return;
  self->finish = reason;
  self->n_free = self->n_left;
}

TlFinishReason
tl_generator_get_finish_reason (TlGenerator *self)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self), TL_FINISH_NONE);
  return self->n_left < self->n_free ? TL_FINISH_NONE : self->finish;
}

void
tl_generator_get_figures (TlGenerator *self, TlGenerationFigures *figures)
{
  g_return_if_fail (TL_IS_GENERATOR (self) && figures);
  *figures = (TlGenerationFigures) {
    .prompt_tokens = self->n_prompt, .cached_tokens = self->n_cached, .tokens_emitted = self->n_left,
    .loops = self->source.loops, .loops_run = self->loops_run, .prefill_ms = self->prefill_ms,
    .first_token_ms = self->first_left ? (self->first_left - self->began) / 1e3 : 0,
    .decode_steady_ms = (self->last_left - self->first_left) / 1e3, .exact = TRUE,
  };
}

/* the text of what has left; NULL without a tokenizer */
static char *
make_text (TlGenerator *self)
{
  if (!self->source.tokenizer)
    return NULL;
  gsize end = self->n_left ? g_array_index (self->sampled, Sampled, self->n_left - 1).end : 0;
  if (self->cut < end) {
    const char *bytes = (const char *) self->bytes->data;
    gsize skip = tl_tokenizer_strips_leading_space (self->source.tokenizer) && self->cut && bytes[0] == ' ';
    return g_utf8_make_valid (bytes + skip, self->cut - skip);
  }

  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (guint i = 0; i < self->n_left; i++)
    if (!g_array_index (self->sampled, Sampled, i).special)
      g_array_append_val (ids, g_array_index (self->sampled, Sampled, i).id);
  g_autoptr (GBytes) text = tl_tokenizer_decode (self->source.tokenizer, (gint32 *) ids->data, ids->len);
  gsize size = g_bytes_get_size (text);
  return g_utf8_make_valid (size ? g_bytes_get_data (text, NULL) : "", size);
}

TlGeneration *
tl_generator_finish (TlGenerator *self)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self), NULL);
  TlGenerationFigures figures;
  tl_generator_get_figures (self, &figures);
  guint n_left;
  const guint32 *left = tl_generator_tokens (self, &n_left);

  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_vals (all, &g_array_index (self->ids, guint32, self->n_begin - self->n_prompt), self->n_prompt);
  g_array_append_vals (all, left, n_left);
  return tl_generation_new (g_bytes_new (all->data, all->len * sizeof (guint32)), make_text (self),
      tl_generator_get_finish_reason (self), &figures);
}

TlGeneration *
tl_generator_run (TlGenerator *self, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self), NULL);
  TlStep step;
  do
    step = tl_generator_step (self, NULL, cancellable, error);
  while (step == TL_STEP_PASS || step == TL_STEP_TOKEN);

  if (step == TL_STEP_ERROR)
    return NULL;
  if (self->finish == TL_FINISH_CANCELLED && self->n_left == 0) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CANCELLED, "generation was cancelled before its first token");
    return NULL;
  }
  return tl_generator_finish (self);
}
