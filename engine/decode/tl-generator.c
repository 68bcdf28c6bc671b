/* engine/decode/tl-generator.c — one generation: a reply, and the strategy that makes it grow.
 *
 * What has left to the caller, cancelling, errors, times and figures are here; which ids there are is the strategy's
 * business, where they end the reply's.
 */
#include <string.h>

#include "decode/tl-generate-config-private.h"
#include "decode/tl-strategy.h"

struct _TlGenerator
{
  GObject parent;
  TlDecoding decoding;
  TlStrategy *strategy;
  guint n_prompt, n_cached;
  GCancellable *cancellable;    /* any thread cancels it */
  GError *failure;
  gint64 began, first_left, last_left;
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
  TlDecoding *d = &self->decoding;
  self->strategy->klass->free (self->strategy);
  g_clear_pointer (&d->reply, tl_reply_free);
  if (d->source.free)
    d->source.free (d->source.data);
  g_clear_object (&d->source.tokenizer);
  g_clear_object (&d->config);
  g_free (d->logits);
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
  self->cancellable = g_cancellable_new ();
}

TlGenerator *
tl_generator_new (const TlGeneratorSource *source, const guint32 *ids, guint n_ids, guint n_cached, guint n_prompt,
    TlGenerateConfig *config, guint max_tokens)
{
  TlGenerator *self = g_object_new (TL_TYPE_GENERATOR, NULL);
  TlDecoding *d = &self->decoding;
  d->source = *source;
  d->source.matcher = NULL;
  if (source->tokenizer)
    g_object_ref (source->tokenizer);
  d->config = tl_generate_config_copy (config);
  d->reply = tl_reply_new (d->config, source->tokenizer, source->matcher, source->vocab_size, max_tokens, ids, n_ids);
  d->n_done = n_cached;
  d->logits = g_new (float, source->vocab_size);
  d->figures = (TlGenerationFigures) { .loops = source->loops, .exact = TRUE };
  d->next_loops = source->loops;
  self->strategy = tl_plain_new ();
  self->n_prompt = n_prompt;
  self->n_cached = n_cached;
  self->began = g_get_monotonic_time ();
  return self;
}

gpointer
tl_generator_source_data (TlGenerator *self)
{
  return self->decoding.source.data;
}

TlGenerateConfig *
tl_generator_config (TlGenerator *self)
{
  return self->decoding.config;
}

guint
tl_generator_loops (TlGenerator *self)
{
  return self->decoding.source.loops;
}

guint
tl_generator_prompt_length (TlGenerator *self)
{
  return self->n_prompt;
}

void
tl_generator_go_on_from (TlGenerator *self, TlGenerator *prompt)
{
  memcpy (self->decoding.logits, prompt->decoding.logits, self->decoding.source.vocab_size * sizeof (float));
  self->n_cached = prompt->n_cached;
  self->decoding.figures.prefill_ms = prompt->decoding.figures.prefill_ms;
}

gboolean
tl_generator_is_prefilling (TlGenerator *self)
{
  return tl_plain_is_prefilling (&self->decoding);
}

const guint32 *
tl_generator_prompt_ids (TlGenerator *self, guint *n)
{
  const guint32 *ids = tl_reply_ids (self->decoding.reply, n);
  *n = tl_reply_n_begin (self->decoding.reply);
  return ids;
}

const guint32 *
tl_generator_tokens (TlGenerator *self, guint *n)
{
  *n = tl_reply_n_left (self->decoding.reply);
  return tl_reply_left_ids (self->decoding.reply);
}

/* --- steps --- */

static gboolean
advance (TlGenerator *self, GError **error)
{
  return self->strategy->klass->advance (self->strategy, &self->decoding, self->cancellable, error);
}

static gboolean
run_prompt (TlGenerator *self, GError **error)
{
  while (tl_plain_is_prefilling (&self->decoding))
    if (!tl_plain_pass (&self->decoding, self->cancellable, error))
      return FALSE;
  return TRUE;
}

static gboolean
let_go (TlGenerator *self, TlToken **token)
{
  g_autoptr (TlToken) left = NULL;
  if (!tl_reply_let_go (self->decoding.reply, &left))
    return FALSE;
  self->decoding.figures.exits[MIN (left->loops, TL_GENERATION_EXITS - 1)]++;
  self->last_left = g_get_monotonic_time ();
  if (!self->first_left)
    self->first_left = self->last_left;
  if (token)
    *token = g_steal_pointer (&left);
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
    tl_reply_end (self->decoding.reply, TL_FINISH_CANCELLED);
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CANCELLED, "the generation was cancelled");
  } else {
    tl_reply_end (self->decoding.reply, TL_FINISH_ERROR);
    self->failure = g_error_copy (failure);
    g_propagate_error (error, g_steal_pointer (&failure));
  }
  return FALSE;
}

TlStep
tl_generator_step (TlGenerator *self, TlToken **token, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self), TL_STEP_ERROR);
  if (token)
    *token = NULL;
  if (self->failure) {
    g_propagate_error (error, g_error_copy (self->failure));
    return TL_STEP_ERROR;
  }
  if (let_go (self, token))
    return TL_STEP_TOKEN;
  if (tl_reply_is_over (self->decoding.reply))
    return TL_STEP_END;

  g_autoptr (GError) failure = NULL;
  if (!run_cancellable (self, advance, cancellable, &failure)) {
    if (!self->failure)
      return TL_STEP_END;       /* cancelled */
    g_propagate_error (error, g_steal_pointer (&failure));
    return TL_STEP_ERROR;
  }
  if (let_go (self, token))
    return TL_STEP_TOKEN;
  return tl_reply_is_over (self->decoding.reply) ? TL_STEP_END : TL_STEP_PASS;
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

static gboolean
check_loops (TlGenerator *self, guint loops, GError **error)
{
  const TlGeneratorSource *source = &self->decoding.source;
  if (loops == 0 || !source->set_loops || (loops >= source->loops_min && loops <= source->loops_max))
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "loops is %u, but this model takes %u…%u", loops,
      source->loops_min, source->loops_max);
  return FALSE;
}

gboolean
tl_generator_update (TlGenerator *self, TlGenerateConfig *config, GError **error)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self) && TL_IS_GENERATE_CONFIG (config), FALSE);
  if (!tl_generate_config_validate (config, error))
    return FALSE;
  if (!check_loops (self, config->loops, error))
    return FALSE;
  self->decoding.next_loops = config->loops ? config->loops : self->decoding.figures.loops;
  TlSamplerParams params = tl_generate_config_sampler (config);
  tl_drawer_set_params (tl_reply_drawer (self->decoding.reply), &params);
  self->decoding.config->ignore_eos = config->ignore_eos;
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
  tl_reply_end_now (self->decoding.reply, reason);
}

/* --- results --- */

TlFinishReason
tl_generator_get_finish_reason (TlGenerator *self)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self), TL_FINISH_NONE);
  return tl_reply_get_finish (self->decoding.reply);
}

void
tl_generator_get_figures (TlGenerator *self, TlGenerationFigures *figures)
{
  g_return_if_fail (TL_IS_GENERATOR (self) && figures);
  *figures = self->decoding.figures;
  figures->prompt_tokens = self->n_prompt;
  figures->cached_tokens = self->n_cached;
  figures->tokens_emitted = tl_reply_n_left (self->decoding.reply);
  figures->first_token_ms = self->first_left ? (self->first_left - self->began) / 1e3 : 0;
  figures->decode_steady_ms = (self->last_left - self->first_left) / 1e3;
}

TlGeneration *
tl_generator_finish (TlGenerator *self)
{
  g_return_val_if_fail (TL_IS_GENERATOR (self), NULL);
  TlGenerationFigures figures;
  tl_generator_get_figures (self, &figures);
  guint n_ids, n_left;
  const guint32 *ids = tl_generator_prompt_ids (self, &n_ids), *left = tl_generator_tokens (self, &n_left);

  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_vals (all, ids + n_ids - self->n_prompt, self->n_prompt);
  g_array_append_vals (all, left, n_left);
  return tl_generation_new (g_bytes_new (all->data, all->len * sizeof (guint32)), tl_reply_left_tokens (self->decoding.reply),
      tl_reply_make_text (self->decoding.reply), tl_generator_get_finish_reason (self), &figures);
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
  TlReply *reply = self->decoding.reply;
  if (tl_reply_get_finish (reply) == TL_FINISH_CANCELLED && tl_reply_n_left (reply) == 0) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CANCELLED, "generation was cancelled before its first token");
    return NULL;
  }
  return tl_generator_finish (self);
}
