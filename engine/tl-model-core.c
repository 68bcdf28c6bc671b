/* engine/tl-model-core.c — the part of a model that runs passes: backends with their stores and schedulers, and closing.
 *
 * Two backends at most: the usual one and, made when first asked for, one with exact activations.
 */
#include <string.h>

#include "tl-prefix-private.h"

struct _TlModelCore
{
  gint ref_count;
  TlProgram *program;
  const TlBackendClass *klass;
  guint threads;
  gsize cache_limit;
  TlKvMode kv_default;
  gint abandoned;               /* atomic */

  GMutex lock;                  /* guards what follows; what is there stays */
  gboolean closed;
  TlBackend *backends[2];
  TlKvStore *stores[2];
  TlScheduler *schedulers[2];
};

/* under the lock */
static gboolean
prepare (TlModelCore *core, gboolean exact, GError **error)
{
  if (core->backends[exact])
    return TRUE;
  TlBackendOptions options = { .exact_activations = exact, .threads = core->threads };
  core->backends[exact] = tl_backend_prepare (core->klass, core->program, &options, error);
  if (!core->backends[exact])
    return FALSE;
  core->stores[exact] = tl_kv_store_new (core->backends[exact], core->cache_limit);
  core->schedulers[exact] = tl_scheduler_new (core->backends[exact]);
  return TRUE;
}

TlModelCore *
tl_model_core_new (TlProgram *program, const TlBackendClass *klass, guint threads, gsize cache_limit, GError **error)
{
  TlModelCore *core = g_new0 (TlModelCore, 1);
  core->ref_count = 1;
  core->program = tl_program_ref (program);
  core->klass = klass;
  core->threads = threads;
  core->cache_limit = cache_limit;
  g_mutex_init (&core->lock);
  if (!prepare (core, FALSE, error)) {
    tl_model_core_unref (core);
    return NULL;
  }
  return core;
}

void
tl_model_core_set_default_kv_mode (TlModelCore *core, TlKvMode mode)
{
  core->kv_default = mode;
}

TlModelCore *
tl_model_core_ref (TlModelCore *core)
{
  g_atomic_int_inc (&core->ref_count);
  return core;
}

void
tl_model_core_unref (TlModelCore *core)
{
  if (!g_atomic_int_dec_and_test (&core->ref_count))
    return;
  for (guint i = 0; i < 2; i++) {
    g_clear_pointer (&core->schedulers[i], tl_scheduler_free);
    g_clear_pointer (&core->stores[i], tl_kv_store_unref);
    g_clear_pointer (&core->backends[i], tl_backend_free);
  }
  tl_program_unref (core->program);
  g_mutex_clear (&core->lock);
  g_free (core);
}

TlProgram *
tl_model_core_program (TlModelCore *core)
{
  return core->program;
}

gsize
tl_model_core_memory (TlModelCore *core)
{
  gsize bytes = 0;
  g_mutex_lock (&core->lock);
  for (guint i = 0; i < 2; i++)
    if (core->backends[i])
      bytes += core->klass->weights_bytes (core->backends[i]) + tl_kv_store_used_bytes (core->stores[i]);
  g_mutex_unlock (&core->lock);
  return bytes;
}

void
tl_model_core_abandon (TlModelCore *core)
{
  g_atomic_int_set (&core->abandoned, TRUE);
}

gboolean
tl_model_core_is_abandoned (TlModelCore *core)
{
  return g_atomic_int_get (&core->abandoned);
}

void
tl_model_core_close (TlModelCore *core)
{
  tl_model_core_abandon (core);
  g_mutex_lock (&core->lock);
  core->closed = TRUE;
  for (guint i = 0; i < 2; i++)
    if (core->schedulers[i])
      tl_scheduler_close (core->schedulers[i]);
  g_mutex_unlock (&core->lock);
}

/* --- runs --- */

/* by TlKvPrecision */
static const TlKvMode modes[] = { [TL_KV_PRECISION_FP16] = TL_KV_FP16, [TL_KV_PRECISION_FP32] = TL_KV_FP32,
  [TL_KV_PRECISION_INT8] = TL_KV_INT8, [TL_KV_PRECISION_INT4] = TL_KV_INT4, [TL_KV_PRECISION_H] = TL_KV_H,
  [TL_KV_PRECISION_H_INT8] = TL_KV_H_INT8 };

TlKvMode
tl_model_kv_mode (const TlModelCore *core, const TlGenerateConfig *config)
{
  if (config->kv_mode == TL_KV_PRECISION_DEFAULT)
    return config->exact_activations ? TL_KV_FP32 : core->kv_default;
  return modes[config->kv_mode];
}

void
tl_model_set_kv_mode (TlGenerateConfig *config, TlKvMode mode)
{
  for (guint i = TL_KV_PRECISION_DEFAULT + 1; i < G_N_ELEMENTS (modes); i++)
    if (modes[i] == mode)
      config->kv_mode = i;
}

/* a fork of base's sequence if the configuration can go on with its first `at_most` positions, else an empty one */
static TlKvSequence *
sequence_for (TlModelCore *core, const TlModelRun *base, guint at_most, const TlGenerateConfig *config)
{
  if (base && base->core == core && base->exact == config->exact_activations
      && tl_kv_sequence_mode (base->sequence) == tl_model_kv_mode (core, config)
      && base->options.state_seed == config->state_seed) {
    g_autoptr (TlKvSequence) fork = tl_kv_sequence_fork (base->sequence);
    tl_kv_sequence_truncate (fork, at_most);
    if (tl_kv_sequence_set_window (fork, config->cache_window))
      return g_steal_pointer (&fork);
  }
  return tl_kv_sequence_new (core->stores[config->exact_activations], tl_model_kv_mode (core, config), config->cache_window);
}

/* the store and scheduler a configuration asks for, made when need be; CLOSED */
static gboolean
open_backend (TlModelCore *core, gboolean exact, GError **error)
{
  g_mutex_lock (&core->lock);
  gboolean ok = !core->closed && prepare (core, exact, error);
  if (core->closed)
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CLOSED, "model was closed");
  g_mutex_unlock (&core->lock);
  return ok;
}

TlModelRun *
tl_model_run_new (TlModelCore *core, TlModelRun *base, guint at_most, TlGenerateConfig *config, guint positions,
    GError **error)
{
  TlModelRun *run = NULL;
  gboolean exact = config->exact_activations;
  if (!open_backend (core, exact, error))
    return NULL;

  tl_scheduler_lock (core->schedulers[exact]);
  TlKvSequence *sequence = sequence_for (core, base, at_most, config);
  guint held = tl_kv_sequence_length (sequence);
  guint loops = config->loops ? config->loops : core->program->descriptor->loops_default;
  guint kept = positions;
  if (config->cache_window && !config->keep_states)
    kept = MIN (kept, config->cache_window + TL_KV_ROLLBACK + (config->chunk_size ? config->chunk_size : 128));
  gboolean ok = tl_kv_store_check (core->stores[exact], NULL,
      tl_kv_store_estimate (core->stores[exact], kept > held ? kept - held : 0, loops, tl_model_kv_mode (core, config)),
      error);
  if (ok) {
    run = g_new0 (TlModelRun, 1);
    run->core = tl_model_core_ref (core);
    run->backend = core->backends[exact];
    run->scheduler = core->schedulers[exact];
    run->exact = exact;
    run->sequence = g_steal_pointer (&sequence);
    run->options = (TlPassOptions) { .loops = loops, .chunk = config->chunk_size, .state_seed = config->state_seed };
  }
  g_clear_pointer (&sequence, tl_kv_sequence_unref);
  tl_scheduler_unlock (core->schedulers[exact]);
  return run;
}

void
tl_model_run_free (TlModelRun *run)
{
  tl_scheduler_lock (run->scheduler);
  tl_kv_sequence_unref (run->sequence);
  tl_scheduler_unlock (run->scheduler);
  g_clear_pointer (&run->keep, tl_kept_rows_unref);
  g_clear_pointer (&run->resume, tl_kept_rows_unref);
  g_clear_object (&run->learner);
  g_clear_pointer (&run->key, tl_prefix_key_free);
  tl_model_core_unref (run->core);
  g_free (run);
}

guint
tl_model_run_length (TlModelRun *run)
{
  tl_scheduler_lock (run->scheduler);
  guint length = run->resume ? run->resumed : tl_kv_sequence_length (run->sequence);
  tl_scheduler_unlock (run->scheduler);
  return length;
}

void
tl_model_run_truncate (TlModelRun *run, guint length)
{
  tl_scheduler_lock (run->scheduler);
  tl_kv_sequence_truncate (run->sequence, length);
  tl_scheduler_unlock (run->scheduler);
}

TlModelRun *
tl_model_run_fork (TlModelRun *run)
{
  TlModelRun *fork = g_memdup2 (run, sizeof *run);
  tl_model_core_ref (fork->core);
  fork->keep = fork->resume = NULL;
  fork->learner = NULL;
  fork->key = NULL;
  tl_scheduler_lock (run->scheduler);
  fork->sequence = tl_kv_sequence_fork (run->sequence);
  if (run->resume)              /* the rows behind are still shallow */
    tl_kv_sequence_truncate (fork->sequence, run->resumed);
  tl_scheduler_unlock (run->scheduler);
  return fork;
}
