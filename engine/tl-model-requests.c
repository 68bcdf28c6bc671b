/* engine/tl-model-requests.c — what a loaded model can be asked: begin, generate, score; and the processors alone. */
#include <string.h>

#include "score/tl-score.h"
#include "tl-prefix-private.h"

const guint32 *
tl_ids_from_bytes (GBytes *bytes, gsize *n, GError **error)
{
  gsize size = bytes ? g_bytes_get_size (bytes) : 0;
  *n = size / sizeof (guint32);
  if (*n && size % sizeof (guint32) == 0)
    return g_bytes_get_data (bytes, NULL);
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "token ids: %" G_GSIZE_FORMAT " bytes, but at least one int32"
      " is needed", size);
  return NULL;
}

static gboolean
check_request (TlModel *self, const guint32 *ids, gsize n, TlGenerateConfig *config, GError **error)
{
  guint vocab = tl_model_get_vocab_size (self), loops = config->loops;
  if (!tl_generate_config_validate (config, error))
    return FALSE;
  for (gsize i = 0; i < n; i++) {
    if (ids[i] >= vocab) {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "token id %d at index %" G_GSIZE_FORMAT " is outside of the"
          " vocabulary 0…%u", (gint32) ids[i], i, vocab - 1);
      return FALSE;
    }
  }
  if (loops && (loops < tl_model_get_min_loops (self) || loops > tl_model_get_max_loops (self))) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "loops is %u, but this model takes %u…%u", loops,
        tl_model_get_min_loops (self), tl_model_get_max_loops (self));
    return FALSE;
  }
  if (config->stop && config->stop[0] && !tl_model_get_tokenizer (self)) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "stop strings need a tokenizer, and the model has none;"
        " use stop-sequences of ids");
    return FALSE;
  }
  return TRUE;
}

static gboolean
too_long (gsize n_ids, guint max_tokens, guint limit, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_SEQUENCE_TOO_LONG, "%" G_GSIZE_FORMAT " tokens before and %u to generate exceed"
      " max_seq_len %u; shorten the prompt or ask for fewer", n_ids, max_tokens, limit);
  return FALSE;
}

/* rows before `end` are there: once the prompt is complete, its states are whole and who wants to learn it may */
static void
pass_is_through (TlModelRun *run, guint end)
{
  if (run->resume)
    run->resumed = end;
  if (end != run->prompt_end)
    return;
  if (run->resume)
    tl_kv_sequence_pin (run->sequence, FALSE);
  g_clear_pointer (&run->resume, tl_kept_rows_unref);
  if (run->learner)
    tl_prefix_pool_learn (run->learner, run, g_steal_pointer (&run->key));
  g_clear_object (&run->learner);
}

static gboolean
run_on_model (gpointer data, const guint32 *tokens, guint n, float *logits, GCancellable *cancellable, GError **error)
{
  TlModelRun *run = data;
  TlKeptRows *kept = run->resume ? run->resume : run->keep;
  guint first = run->resume ? run->resumed : tl_kv_sequence_length (run->sequence);
  g_autofree TlPassRow *rows = g_new0 (TlPassRow, n);
  for (guint i = 0; i < n; i++)
    rows[i] = (TlPassRow) { .sequence = run->sequence, .position = first + i, .token = tokens[i],
      .depth = run->resume ? run->resume->depth : 0, .stop = run->options.loops, .slot = kept ? first + i - kept->first : 0,
      .logits = i + 1 == n ? logits : NULL };
  TlJob job = { .rows = rows, .n_rows = n, .start = &run->options, .states = kept ? kept->states : NULL };
  if (!tl_scheduler_run (run->scheduler, &job, cancellable, error))
    return FALSE;
  pass_is_through (run, first + n);
  return TRUE;
}

static void
set_loops_on_model (gpointer data, guint loops)
{
  ((TlModelRun *) data)->options.loops = loops;
}

/* prompts go through in one piece where everything is recomputed anyway */
static guint
chunk_of (const TlGenerateConfig *config)
{
  if (tl_pass_cache_is_disabled ())
    return G_MAXUINT;
  return config->chunk_size ? config->chunk_size : 128;
}

/* a run with as much of the ids as base and pool have; what the pool holds gives way to the request */
static TlModelRun *
run_for (TlModelCore *core, const TlBeginning *on, TlGenerateConfig *config, guint positions, GError **error)
{
  g_autoptr (TlModelRun) run = NULL;
  g_autoptr (GError) why = NULL;
  guint held = on->base ? tl_model_run_length (on->base) : 0;
  /* a prompt that is to keep its rows' states has to run them */
  g_autoptr (TlPrefixHit) hit = on->pool && !config->keep_states ? tl_prefix_pool_find (on->pool, core, config, on->ids, on->n_ids - 1, held) : NULL;
  do {
    g_clear_error (&why);
    run = tl_model_run_new (core, hit ? hit->run : on->base, hit ? hit->length : G_MAXUINT, config, positions, &why);
  } while (g_error_matches (why, TL_ERROR, TL_ERROR_NO_MEMORY) && on->pool && tl_prefix_pool_evict (on->pool, core));
  if (!run) {
    g_propagate_error (error, g_steal_pointer (&why));
    return NULL;
  }
  if (on->pool && (hit || held == 0))
    tl_prefix_pool_count (on->pool, tl_model_run_length (run), on->n_ids);
  return g_steal_pointer (&run);
}

/* rows that the run holds at fewer loops are to go deeper, from a copy of their states */
static gboolean
resume (TlModelRun *run, const TlBeginning *on, GError **error)
{
  if (!(run->resume = tl_kept_rows_copy (on->resume, error)))
    return FALSE;
  run->resumed = on->resume->first;
  tl_kv_sequence_pin (run->sequence, TRUE);     /* it is not shared with anybody yet */
  return TRUE;
}

static gboolean
keep (TlModelRun *run, const TlBeginning *on, GError **error)
{
  guint first = tl_model_run_length (run);
  run->keep = tl_kept_rows_new (run, first, on->n_ids - first, run->options.loops, error);
  tl_kv_sequence_pin (run->sequence, TRUE);
  return run->keep != NULL;
}

TlGenerator *
tl_model_begin_on (TlModel *self, const TlBeginning *on, TlGenerateConfig *config, GError **error)
{
  g_autoptr (TlGenerateConfig) copy = config ? tl_generate_config_copy (config) : tl_generate_config_new ();
  g_autoptr (TlModelCore) core = tl_model_get_core (self, error);
  guint limit = tl_model_get_max_seq_len (self), max_tokens = copy->max_tokens;
  if (!core || !check_request (self, on->ids, on->n_ids, copy, error))
    return NULL;
  if (on->n_ids >= limit || (!on->ceiling && max_tokens > limit - on->n_ids)) {
    too_long (on->n_ids, max_tokens, limit, error);
    return NULL;
  }
  max_tokens = MIN (max_tokens, limit - on->n_ids);

  g_autoptr (TlMatcher) matcher = copy->grammar ? tl_model_create_matcher (self, copy->grammar, error) : NULL;
  if (copy->grammar && !matcher)
    return NULL;
  g_autoptr (TlModelRun) run = run_for (core, on, copy, on->n_ids + max_tokens, error);
  if (!run)
    return NULL;
  if (tl_model_run_length (run) >= on->n_ids && !on->resume)
    tl_model_run_truncate (run, on->whole ? on->n_ids : on->n_ids - 1);
  if ((on->resume && !resume (run, on, error)) || (copy->keep_states && !on->resume && !on->whole && !keep (run, on, error)))
    return NULL;
  run->prompt_end = on->n_ids;
  if (on->pool && tl_prefix_pool_get_learns (on->pool)) {
    run->learner = g_object_ref (on->pool);
    run->key = tl_prefix_key_new (core, copy);
  }
  guint n_cached = tl_model_run_length (run);   /* a window may have let go of what the last row sees */
  TlGeneratorSource source = {
    .run = run_on_model, .data = run, .free = (GDestroyNotify) tl_model_run_free,
    .scheduler = run->scheduler, .sequence = run->sequence, .options = &run->options,
    .vocab_size = tl_model_core_program (core)->vocab_size, .chunk = chunk_of (copy),
    .loops = run->options.loops, .set_loops = set_loops_on_model,
    .loops_min = tl_model_get_min_loops (self), .loops_max = tl_model_get_max_loops (self),
    .tokenizer = tl_model_get_tokenizer (self), .matcher = g_steal_pointer (&matcher),
  };
  run = NULL;
  return tl_generator_new (&source, on->ids, on->n_ids, n_cached, on->n_prompt, copy, max_tokens);
}

/* whether a prompt that has run at some loops is to be resumed for a reply at others */
static gboolean
goes_deeper (TlModelRun *prompt, guint loops)
{
  return prompt->keep && loops > prompt->keep->depth
      && !tl_model_core_program (prompt->core)->descriptor->cond_depends_on_total;
}

TlGenerator *
tl_model_begin_after (TlModel *self, TlGenerator *prompt, TlGenerateConfig *config, GError **error)
{
  g_autoptr (TlGenerateConfig) own = config ? tl_generate_config_copy (config) : tl_generate_config_new ();
  const TlGenerateConfig *first = tl_generator_config (prompt);
  guint n_ids, loops = tl_generator_loops (prompt);
  TlModelRun *run = tl_generator_source_data (prompt);
  TlBeginning on = { .ids = tl_generator_prompt_ids (prompt, &n_ids), .n_ids = n_ids,
    .n_prompt = tl_generator_prompt_length (prompt), .base = run, .ceiling = TRUE };

  own->kv_mode = first->kv_mode;
  own->cache_window = first->cache_window;
  own->state_seed = first->state_seed;
  own->exact_activations = first->exact_activations;
  own->keep_states = FALSE;
  if (own->loops == 0)
    own->loops = loops;
  on.whole = own->loops == loops;
  if (goes_deeper (run, own->loops))
    on.resume = run->keep;
  TlGenerator *reply = tl_model_begin_on (self, &on, own, error);
  if (reply)
    tl_generator_go_on_from (reply, prompt);
  return reply;
}

TlGenerator *
tl_model_begin (TlModel *self, GBytes *ids, TlGenerateConfig *config, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  gsize n;
  const guint32 *prompt = tl_ids_from_bytes (ids, &n, error);
  TlBeginning on = { .ids = prompt, .n_ids = n, .n_prompt = n };
  return prompt ? tl_model_begin_on (self, &on, config, error) : NULL;
}

TlGeneration *
tl_model_generate_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable, GError **error)
{
  g_autoptr (TlGenerator) generator = tl_model_begin (self, ids, config, error);
  return generator ? tl_generator_run (generator, cancellable, error) : NULL;
}

static void
forward_cancel (GCancellable *from, gpointer to)
{
  g_cancellable_cancel (to);
}

static TlScores *
score (TlModel *self, GBytes *ids, TlGenerateConfig *config, TlScoreFunc func, GCancellable *cancellable, GError **error)
{
  gsize n;
  const guint32 *tokens = tl_ids_from_bytes (ids, &n, error);
  g_autoptr (TlGenerateConfig) copy = config ? tl_generate_config_copy (config) : tl_generate_config_new ();
  g_autoptr (TlModelCore) core = tokens ? tl_model_get_core (self, error) : NULL;
  if (!core || !check_request (self, tokens, n, copy, error))
    return NULL;
  if (n > tl_model_get_max_seq_len (self)) {
    too_long (n, 0, tl_model_get_max_seq_len (self), error);
    return NULL;
  }
  g_autoptr (TlModelRun) run = tl_model_run_new (core, NULL, 0, copy, n, error);
  if (!run)
    return NULL;

  g_autoptr (GCancellable) own = g_cancellable_new ();
  gulong link = cancellable ? g_cancellable_connect (cancellable, G_CALLBACK (forward_cancel), g_object_ref (own),
      g_object_unref) : 0;
  TlScores *out = NULL;
  if (tl_scheduler_enter (run->scheduler, own, error)) {
    out = func (run->backend, run->sequence, tokens, n, &run->options, own, error);
    if (!tl_scheduler_leave (run->scheduler, own, out != NULL, error))
      g_clear_pointer (&out, tl_scores_unref);
  }
  if (cancellable)
    g_cancellable_disconnect (cancellable, link);
  return out;
}

/* of a score with a single result */
static TlTensor *
score_one (TlModel *self, GBytes *ids, TlGenerateConfig *config, TlScoreFunc func, GCancellable *cancellable,
    GError **error)
{
  g_autoptr (TlScores) scores = score (self, ids, config, func, cancellable, error);
  return scores ? tl_scores_get_tensor (scores, 0) : NULL;
}

TlTensor *
tl_model_score_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return score_one (self, ids, config, tl_score_logits, cancellable, error);
}

TlTensor *
tl_model_score_last_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return score_one (self, ids, config, tl_score_last, cancellable, error);
}

TlTensor *
tl_model_score_logit_lens_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return score_one (self, ids, config, tl_score_logit_lens, cancellable, error);
}

TlTensor *
tl_model_score_trajectory_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return score_one (self, ids, config, tl_score_trajectory, cancellable, error);
}

TlScores *
tl_model_score_with_uncertainty_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return score (self, ids, config, tl_score_with_uncertainty, cancellable, error);
}

TlScores *
tl_model_score_with_consistency_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return score (self, ids, config, tl_score_with_consistency, cancellable, error);
}

/* --- figures of the weights --- */

static guint64
matrix_bytes (const TlMatrix *m)
{
  if (!m->data)
    return 0;
  guint64 groups = (guint64) m->rows * tl_matrix_n_groups (m);
  return m->rows * (guint64) tl_matrix_row_bytes (m) + groups * (m->scale_format == TL_F32 ? 4 : 2)
      + (m->zero ? groups : 0) + (m->minimum ? groups * 2 : 0);
}

guint64
tl_model_get_weight_bytes (TlModel *self, guint loops)
{
  g_return_val_if_fail (TL_IS_MODEL (self), 0);
  g_autoptr (TlModelCore) core = tl_model_get_core (self, NULL);
  if (!core)
    return 0;
  const TlWeights *w = tl_model_core_program (core)->weights;
  const TlDescriptor *d = w->descriptor;
  if (loops == 0)
    loops = d->loops_default;

  guint64 bytes = matrix_bytes (&w->head) + matrix_bytes (&w->post_loop) + loops * matrix_bytes (&w->inject);
  for (guint stack = 0; stack < TL_N_STACKS; stack++) {
    for (guint i = 0; i < d->n_blocks[stack]; i++) {
      const TlBlockWeights *b = &w->blocks[stack][i];
      guint64 block = matrix_bytes (&b->q) + matrix_bytes (&b->k) + matrix_bytes (&b->v) + matrix_bytes (&b->o)
          + matrix_bytes (&b->gate) + matrix_bytes (&b->up) + matrix_bytes (&b->down);
      bytes += block * (stack == TL_STACK_LOOP ? loops : 1);
    }
  }
  return bytes;
}

/* --- the processors alone --- */

static guint32 *
bitmap_of (GBytes *mask, guint n)
{
  const guint8 *legal = g_bytes_get_data (mask, NULL);
  guint32 *bits = g_new0 (guint32, n / 32 + 1);
  for (guint i = 0; i < n; i++)
    bits[i / 32] |= (guint32) (legal[i] != 0) << (i % 32);
  return bits;
}

TlTensor *
tl_process_logits (GBytes *logits, GBytes *history, GBytes *mask, TlGenerateConfig *config, GError **error)
{
  g_return_val_if_fail (logits, NULL);
  g_autoptr (TlGenerateConfig) own = config ? g_object_ref (config) : tl_generate_config_new ();
  gsize n = g_bytes_get_size (logits) / sizeof (float), n_seen = history ? g_bytes_get_size (history) / 4 : 0;
  if (!tl_generate_config_validate (own, error))
    return NULL;
  if (n == 0 || g_bytes_get_size (logits) % sizeof (float) || (mask && g_bytes_get_size (mask) != n)) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "logits must be one or more float32, and a mask one byte for"
        " each; got %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT " bytes", g_bytes_get_size (logits),
        mask ? g_bytes_get_size (mask) : 0);
    return NULL;
  }

  TlSamplerParams params = tl_generate_config_sampler (own);
  g_autoptr (TlSampler) sampler = tl_sampler_new (n, &params);
  const guint32 *seen = n_seen ? g_bytes_get_data (history, NULL) : NULL;
  for (gsize i = 0; i < n_seen; i++) {
    if (seen[i] >= n) {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "history: id %d is outside of 0…%" G_GSIZE_FORMAT,
          (gint32) seen[i], n - 1);
      return NULL;
    }
    tl_sampler_see (sampler, seen[i], FALSE);
  }
  g_autofree guint32 *bits = mask ? bitmap_of (mask, n) : NULL;
  g_autoptr (TlTensor) out = tl_tensor_new (1, &n, error);
  if (!out || !tl_sampler_probabilities (sampler, g_bytes_get_data (logits, NULL), bits, tl_tensor_get_data (out), error))
    return NULL;
  return g_steal_pointer (&out);
}
