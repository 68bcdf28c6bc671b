/* engine/tl-kept-rows.c — row states in a backend's memory, counted, copied, read and written. See tl-kept-rows.h. */
#include "tl-kept-rows.h"

static TlKeptRows *
rows_new (TlModelCore *core, TlScheduler *scheduler, TlKvStore *store, guint first, guint n, guint depth, GError **error)
{
  TlBackend *backend = tl_scheduler_backend (scheduler);
  gboolean recomputed = !backend->klass->states_new || tl_pass_cache_is_disabled ();
  gsize bytes = recomputed ? 0 : (gsize) n * tl_kept_rows_width (backend) * sizeof (float);
  TlStates *states = NULL;
  tl_scheduler_lock (scheduler);
  if (!recomputed && tl_kv_store_take (store, bytes, error) && !(states = tl_backend_states_new (backend, n, error)))
    tl_kv_store_give_back (store, bytes);
  tl_scheduler_unlock (scheduler);
  if (!states && !recomputed)
    return NULL;

  TlKeptRows *rows = g_new (TlKeptRows, 1);
  *rows = (TlKeptRows) { 1, tl_model_core_ref (core), scheduler, tl_kv_store_ref (store), backend, states, first, n, depth,
    bytes };
  return rows;
}

TlKeptRows *
tl_kept_rows_new (TlModelRun *run, guint first, guint n, guint depth, GError **error)
{
  return rows_new (run->core, run->scheduler, tl_kv_sequence_store (run->sequence), first, n, depth, error);
}

TlKeptRows *
tl_kept_rows_copy (TlKeptRows *rows, GError **error)
{
  TlKeptRows *copy = rows_new (rows->core, rows->scheduler, rows->store, rows->first, rows->n, rows->depth, error);
  g_autofree float *row = g_new (float, tl_kept_rows_width (rows->backend));
  for (guint i = 0; copy && copy->states && i < rows->n; i++) {
    tl_kept_rows_read (rows, i, row);
    tl_kept_rows_write (copy, i, row);
  }
  return copy;
}

TlKeptRows *
tl_kept_rows_ref (TlKeptRows *rows)
{
  g_atomic_int_inc (&rows->ref_count);
  return rows;
}

void
tl_kept_rows_unref (TlKeptRows *rows)
{
  if (!g_atomic_int_dec_and_test (&rows->ref_count))
    return;
  tl_scheduler_lock (rows->scheduler);
  tl_backend_states_free (rows->backend, rows->states);
  tl_kv_store_give_back (rows->store, rows->bytes);
  tl_scheduler_unlock (rows->scheduler);
  tl_kv_store_unref (rows->store);
  tl_model_core_unref (rows->core);
  g_free (rows);
}

guint
tl_kept_rows_width (TlBackend *backend)
{
  return backend->program->d_model * (backend->program->uses_e ? 2 : 1);
}

void
tl_kept_rows_read (TlKeptRows *rows, guint i, float *out)
{
  tl_backend_state_read (rows->backend, rows->states, i, TL_STATE_H, out);
  if (rows->backend->program->uses_e)
    tl_backend_state_read (rows->backend, rows->states, i, TL_STATE_E, out + rows->backend->program->d_model);
}

void
tl_kept_rows_write (TlKeptRows *rows, guint i, const float *in)
{
  tl_backend_state_write (rows->backend, rows->states, i, TL_STATE_H, in);
  if (rows->backend->program->uses_e)
    tl_backend_state_write (rows->backend, rows->states, i, TL_STATE_E, in + rows->backend->program->d_model);
}
