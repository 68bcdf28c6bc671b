/* engine/tl-model-core.c — the part of a model that runs passes: backends, stores, who leads, and closing.
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

  GMutex pass;                  /* held by whoever leads; guards the two below and all sequences */
  TlBackend *backends[2];
  TlKvStore *stores[2];

  GMutex state;                 /* guards the two below */
  gboolean closed;
  GPtrArray *running;           /* GCancellable of those between enter and leave */
};

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
  core->running = g_ptr_array_new_with_free_func (g_object_unref);
  g_mutex_init (&core->pass);
  g_mutex_init (&core->state);
  if (!prepare (core, FALSE, error)) {
    tl_model_core_unref (core);
    return NULL;
  }
  return core;
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
    g_clear_pointer (&core->stores[i], tl_kv_store_unref);
    g_clear_pointer (&core->backends[i], tl_backend_free);
  }
  tl_program_unref (core->program);
  g_ptr_array_unref (core->running);
  g_mutex_clear (&core->pass);
  g_mutex_clear (&core->state);
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
  g_mutex_lock (&core->pass);
  for (guint i = 0; i < 2; i++)
    if (core->backends[i])
      bytes += core->klass->weights_bytes (core->backends[i]) + tl_kv_store_used_bytes (core->stores[i]);
  g_mutex_unlock (&core->pass);
  return bytes;
}

void
tl_model_core_close (TlModelCore *core)
{
  g_mutex_lock (&core->state);
  core->closed = TRUE;
  g_autoptr (GPtrArray) running = g_ptr_array_copy (core->running, (GCopyFunc) g_object_ref, NULL);
  g_ptr_array_set_free_func (running, g_object_unref);
  g_mutex_unlock (&core->state);

  for (guint i = 0; i < running->len; i++)
    g_cancellable_cancel (g_ptr_array_index (running, i));
  g_mutex_lock (&core->pass);   /* waits for the pass that is being run */
  g_mutex_unlock (&core->pass);
}

static gboolean
check_open (TlModelCore *core, GError **error)
{
  g_mutex_lock (&core->state);
  gboolean closed = core->closed;
  g_mutex_unlock (&core->state);
  if (closed)
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CLOSED, "model was closed");
  return !closed;
}

static void
forget (TlModelCore *core, GCancellable *cancellable)
{
  g_mutex_lock (&core->state);
  g_ptr_array_remove_fast (core->running, cancellable);
  g_mutex_unlock (&core->state);
}

gboolean
tl_model_core_enter (TlModelCore *core, GCancellable *cancellable, GError **error)
{
  g_mutex_lock (&core->state);
  g_ptr_array_add (core->running, g_object_ref (cancellable));
  g_mutex_unlock (&core->state);

  g_mutex_lock (&core->pass);
  if (check_open (core, error))
    return TRUE;
  g_mutex_unlock (&core->pass);
  forget (core, cancellable);
  return FALSE;
}

gboolean
tl_model_core_leave (TlModelCore *core, GCancellable *cancellable, gboolean ok, GError **error)
{
  g_mutex_unlock (&core->pass);
  forget (core, cancellable);
  g_autoptr (GError) closed = NULL;
  if (ok || check_open (core, &closed))
    return ok;
  if (error) {
    g_clear_error (error);
    g_propagate_error (error, g_steal_pointer (&closed));
  }
  return FALSE;
}

/* --- runs --- */

static TlKvMode
kv_mode_of (const TlGenerateConfig *config)
{
  if (config->kv_mode == TL_KV_PRECISION_DEFAULT)
    return config->exact_activations ? TL_KV_FP32 : TL_KV_FP16;
  return config->kv_mode == TL_KV_PRECISION_FP32 ? TL_KV_FP32 : TL_KV_FP16;
}

static gboolean
can_go_on (TlModelCore *core, const TlModelRun *base, const TlGenerateConfig *config)
{
  return base && base->core == core && base->exact == config->exact_activations
      && tl_kv_sequence_mode (base->sequence) == kv_mode_of (config)
      && tl_kv_sequence_window (base->sequence) == config->cache_window
      && base->options.state_seed == config->state_seed;
}

TlModelRun *
tl_model_run_new (TlModelCore *core, TlModelRun *base, TlGenerateConfig *config, guint positions, GError **error)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  TlModelRun *run = NULL;
  if (!tl_model_core_enter (core, cancellable, error))
    return NULL;

  gboolean exact = config->exact_activations, ok = prepare (core, exact, error);
  if (ok) {
    gboolean forked = can_go_on (core, base, config);
    guint held = forked ? tl_kv_sequence_length (base->sequence) : 0;
    guint loops = config->loops ? config->loops : core->program->descriptor->loops_default;
    guint kept = positions;
    if (config->cache_window)
      kept = MIN (kept, config->cache_window + (config->chunk_size ? config->chunk_size : 128));
    ok = tl_kv_store_check (core->stores[exact],
        tl_kv_store_estimate (core->stores[exact], kept > held ? kept - held : 0, loops, kv_mode_of (config)), error);
    if (ok) {
      run = g_new0 (TlModelRun, 1);
      run->core = tl_model_core_ref (core);
      run->backend = core->backends[exact];
      run->exact = exact;
      run->sequence = forked ? tl_kv_sequence_fork (base->sequence)
          : tl_kv_sequence_new (core->stores[exact], kv_mode_of (config), config->cache_window);
      run->options = (TlPassOptions) { .loops = loops, .chunk = config->chunk_size, .state_seed = config->state_seed };
    }
  }
  if (!tl_model_core_leave (core, cancellable, ok, error))
    g_clear_pointer (&run, tl_model_run_free);
  return run;
}

void
tl_model_run_free (TlModelRun *run)
{
  g_mutex_lock (&run->core->pass);
  tl_kv_sequence_unref (run->sequence);
  g_mutex_unlock (&run->core->pass);
  tl_model_core_unref (run->core);
  g_free (run);
}

guint
tl_model_run_length (TlModelRun *run)
{
  g_mutex_lock (&run->core->pass);
  guint length = tl_kv_sequence_length (run->sequence);
  g_mutex_unlock (&run->core->pass);
  return length;
}

void
tl_model_run_truncate (TlModelRun *run, guint length)
{
  g_mutex_lock (&run->core->pass);
  tl_kv_sequence_truncate (run->sequence, length);
  g_mutex_unlock (&run->core->pass);
}

TlModelRun *
tl_model_run_fork (TlModelRun *run)
{
  TlModelRun *fork = g_memdup2 (run, sizeof *run);
  tl_model_core_ref (fork->core);
  g_mutex_lock (&run->core->pass);
  fork->sequence = tl_kv_sequence_fork (run->sequence);
  g_mutex_unlock (&run->core->pass);
  return fork;
}
