/* decode/tl-scheduler.c — jobs take turns on a backend: one pass each, loop by loop where an exit rule wants to look. */
#include "decode/tl-scheduler.h"

#include "tl-error.h"

struct _TlScheduler
{
  TlBackend *backend;
  GMutex pass;                  /* held by whoever leads */
  GMutex books;                 /* sequences between passes; never held while one computes */
  GMutex state;                 /* guards the two below */
  gboolean closed;
  GPtrArray *running;           /* GCancellable of those between enter and leave */
};

TlScheduler *
tl_scheduler_new (TlBackend *backend)
{
  TlScheduler *self = g_new0 (TlScheduler, 1);
  self->backend = backend;
  self->running = g_ptr_array_new_with_free_func (g_object_unref);
  g_mutex_init (&self->pass);
  g_mutex_init (&self->books);
  g_mutex_init (&self->state);
  return self;
}

void
tl_scheduler_free (TlScheduler *self)
{
  if (!self)
    return;
  g_ptr_array_unref (self->running);
  g_mutex_clear (&self->pass);
  g_mutex_clear (&self->books);
  g_mutex_clear (&self->state);
  g_free (self);
}

TlBackend *
tl_scheduler_backend (TlScheduler *self)
{
  return self->backend;
}

/* --- who leads --- */

void
tl_scheduler_close (TlScheduler *self)
{
  g_mutex_lock (&self->state);
  self->closed = TRUE;
  g_autoptr (GPtrArray) running = g_ptr_array_copy (self->running, (GCopyFunc) g_object_ref, NULL);
  g_ptr_array_set_free_func (running, g_object_unref);
  g_mutex_unlock (&self->state);

  for (guint i = 0; i < running->len; i++)
    g_cancellable_cancel (g_ptr_array_index (running, i));
  g_mutex_lock (&self->pass);   /* waits for the pass that is being run */
  g_mutex_unlock (&self->pass);
}

static gboolean
check_open (TlScheduler *self, GError **error)
{
  g_mutex_lock (&self->state);
  gboolean closed = self->closed;
  g_mutex_unlock (&self->state);
  if (closed)
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CLOSED, "model was closed");
  return !closed;
}

static void
forget (TlScheduler *self, GCancellable *cancellable)
{
  g_mutex_lock (&self->state);
  g_ptr_array_remove_fast (self->running, cancellable);
  g_mutex_unlock (&self->state);
}

void
tl_scheduler_lock (TlScheduler *self)
{
  g_mutex_lock (&self->books);
}

void
tl_scheduler_unlock (TlScheduler *self)
{
  g_mutex_unlock (&self->books);
}

gboolean
tl_scheduler_enter (TlScheduler *self, GCancellable *cancellable, GError **error)
{
  g_mutex_lock (&self->state);
  g_ptr_array_add (self->running, g_object_ref (cancellable));
  g_mutex_unlock (&self->state);

  g_mutex_lock (&self->pass);
  if (check_open (self, error))
    return TRUE;
  g_mutex_unlock (&self->pass);
  forget (self, cancellable);
  return FALSE;
}

gboolean
tl_scheduler_leave (TlScheduler *self, GCancellable *cancellable, gboolean ok, GError **error)
{
  g_mutex_unlock (&self->pass);
  forget (self, cancellable);
  g_autoptr (GError) closed = NULL;
  if (ok || check_open (self, &closed))
    return ok;
  if (error)
    {
      g_clear_error (error);
      g_propagate_error (error, g_steal_pointer (&closed));
    }
  return FALSE;
}

/* --- jobs --- */

/* rows of one stop that are new, and nobody looks between loops */
static gboolean
is_plain (const TlJob *job)
{
  for (guint i = 0; i < job->n_rows; i++)
    if (job->rows[i].depth > 0 || job->rows[i].stop != job->rows[0].stop)
      return FALSE;
  return job->exit == NULL;
}

static gboolean
has_loops_to_go (TlPass *pass, guint n)
{
  for (guint i = 0; i < n; i++)
    if (tl_pass_row_is_going (pass, i))
      return TRUE;
  return FALSE;
}

static gboolean
run_loops_with_exit (const TlJob *job, TlPass *pass, GCancellable *cancellable, GError **error)
{
  g_autoptr (TlExit) exit = tl_exit_new (job->exit, pass, 0, job->n_rows);
  while (has_loops_to_go (pass, job->n_rows))
    if (!tl_pass_loops (pass, tl_exit_loops_to_probe (exit), cancellable, error)
        || !tl_exit_probe (exit, cancellable, error))
      return FALSE;
  tl_exit_end (exit, job->depths);
  return TRUE;
}

static gboolean
run_staged (TlScheduler *self, const TlJob *job, const TlPassRow *rows, GCancellable *cancellable, GError **error)
{
  g_autoptr (TlPass) pass = tl_pass_begin (self->backend, rows, job->n_rows, job->states, cancellable, error);
  return pass && (job->exit ? run_loops_with_exit (job, pass, cancellable, error)
      : tl_pass_loops (pass, G_MAXUINT, cancellable, error))
    && tl_pass_finish (pass, cancellable, error);
}

static gboolean
run_whole (TlScheduler *self, const TlJob *job, const TlPassRow *rows, GCancellable *cancellable, GError **error)
{
  g_autoptr (TlPass) pass = tl_pass_new (self->backend, rows, job->n_rows, job->states, cancellable, error);
  if (!pass)
    return FALSE;
  tl_passes_whole (&pass, 1);
  return tl_pass_end (pass, error);
}

/* the rows with initial states where the family needs them and the job gives none; memory: their states. transfer full */
static TlPassRow *
complete_rows (TlScheduler *self, const TlJob *job, float **memory)
{
  static const TlPassOptions seed_0;
  TlProgram *p = self->backend->program;
  TlPassRow *rows = g_memdup2 (job->rows, job->n_rows * sizeof *rows);
  *memory = NULL;
  if (!p->has_initial_state)
    return rows;
  *memory = g_new (float, (gsize) job->n_rows * p->d_model);
  for (guint i = 0; i < job->n_rows; i++)
    if (rows[i].depth == 0 && !rows[i].initial_state)
      {
        float *state = *memory + (gsize) i * p->d_model;
        tl_pass_initial_state (p, job->start ? job->start : &seed_0, rows[i].position, state);
        rows[i].initial_state = state;
      }
  return rows;
}

static gboolean
run_job (TlScheduler *self, const TlJob *job, GCancellable *cancellable, GError **error)
{
  if (job->n_rows == 0 || self->backend->klass->run_sequence || tl_pass_cache_is_disabled ())
    return tl_pass_recompute (self->backend, job->rows, job->n_rows, job->start, cancellable, error);

  g_autofree float *memory = NULL;
  g_autofree TlPassRow *rows = complete_rows (self, job, &memory);
  if (is_plain (job))
    return run_whole (self, job, rows, cancellable, error);
  return run_staged (self, job, rows, cancellable, error);
}

gboolean
tl_scheduler_run (TlScheduler *self, const TlJob *job, GCancellable *cancellable, GError **error)
{
  g_autoptr (GCancellable) own = cancellable ? g_object_ref (cancellable) : g_cancellable_new ();
  if (!tl_scheduler_enter (self, own, error))
    return FALSE;
  for (guint i = 0; job->depths && i < job->n_rows; i++)
    job->depths[i] = job->rows[i].stop;
  gboolean ok = run_job (self, job, own, error);
  return tl_scheduler_leave (self, own, ok, error);
}
