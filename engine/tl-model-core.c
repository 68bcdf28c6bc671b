/* engine/tl-model-core.c — the part of a model that runs passes: backends with their stores and schedulers, and closing.
 *
 * Two backends at most: the usual one and, made when first asked for, one with exact activations.
 */
#include <string.h>

#include "tl-model-private.h"

struct _TlModelCore
{
  gint ref_count;
  TlProgram *program;
  const TlBackendClass *klass;
  guint threads;
  gsize cache_limit;
  TlKvMode kv_default;

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
tl_model_core_close (TlModelCore *core)
{
  g_mutex_lock (&core->lock);
  core->closed = TRUE;
  for (guint i = 0; i < 2; i++)
    if (core->schedulers[i])
      tl_scheduler_close (core->schedulers[i]);
  g_mutex_unlock (&core->lock);
}

/* --- runs --- */

static TlKvMode
kv_mode_of (const TlModelCore *core, const TlGenerateConfig *config)
{
  static const TlKvMode modes[] = { [TL_KV_PRECISION_FP16] = TL_KV_FP16, [TL_KV_PRECISION_FP32] = TL_KV_FP32,
    [TL_KV_PRECISION_INT8] = TL_KV_INT8, [TL_KV_PRECISION_INT4] = TL_KV_INT4, [TL_KV_PRECISION_H] = TL_KV_H,
    [TL_KV_PRECISION_H_INT8] = TL_KV_H_INT8 };
  if (config->kv_mode == TL_KV_PRECISION_DEFAULT)
    return config->exact_activations ? TL_KV_FP32 : core->kv_default;
  return modes[config->kv_mode];
}

static gboolean
can_go_on (TlModelCore *core, const TlModelRun *base, const TlGenerateConfig *config)
{
  return base && base->core == core && base->exact == config->exact_activations
      && tl_kv_sequence_mode (base->sequence) == kv_mode_of (core, config)
      && tl_kv_sequence_window (base->sequence) == config->cache_window
      && base->options.state_seed == config->state_seed;
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
tl_model_run_new (TlModelCore *core, TlModelRun *base, TlGenerateConfig *config, guint positions, GError **error)
{
  TlModelRun *run = NULL;
  gboolean exact = config->exact_activations;
  if (!open_backend (core, exact, error))
    return NULL;

  tl_scheduler_lock (core->schedulers[exact]);
  gboolean forked = can_go_on (core, base, config);
  guint held = forked ? tl_kv_sequence_length (base->sequence) : 0;
  guint loops = config->loops ? config->loops : core->program->descriptor->loops_default;
  guint kept = positions;
  if (config->cache_window)
    kept = MIN (kept, config->cache_window + TL_KV_ROLLBACK + (config->chunk_size ? config->chunk_size : 128));
  gboolean ok = tl_kv_store_check (core->stores[exact], NULL,
      tl_kv_store_estimate (core->stores[exact], kept > held ? kept - held : 0, loops, kv_mode_of (core, config)), error);
  if (ok) {
    run = g_new0 (TlModelRun, 1);
    run->core = tl_model_core_ref (core);
    run->backend = core->backends[exact];
    run->scheduler = core->schedulers[exact];
    run->exact = exact;
    run->sequence = forked ? tl_kv_sequence_fork (base->sequence)
        : tl_kv_sequence_new (core->stores[exact], kv_mode_of (core, config), config->cache_window);
    run->options = (TlPassOptions) { .loops = loops, .chunk = config->chunk_size, .state_seed = config->state_seed };
  }
  tl_scheduler_unlock (core->schedulers[exact]);
  return run;
}

void
tl_model_run_free (TlModelRun *run)
{
  tl_scheduler_lock (run->scheduler);
  tl_kv_sequence_unref (run->sequence);
  tl_scheduler_unlock (run->scheduler);
  tl_model_core_unref (run->core);
  g_free (run);
}

guint
tl_model_run_length (TlModelRun *run)
{
  tl_scheduler_lock (run->scheduler);
  guint length = tl_kv_sequence_length (run->sequence);
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
  tl_scheduler_lock (run->scheduler);
  fork->sequence = tl_kv_sequence_fork (run->sequence);
  tl_scheduler_unlock (run->scheduler);
  return fork;
}
