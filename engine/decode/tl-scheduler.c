/* decode/tl-scheduler.c — callers with jobs, of whom one leads: admits turns, runs the flight, wakes those who are done.
 *
 * A lone caller leads at once and pays no thread switch. With several, the last to come of those who took part in the last
 * passes leads; the others sleep. Whoever leads stops when its own turn is done and passes the lead on, so that no caller's
 * code (sampling, sinks) runs while others wait for it. Nobody spins: waits are on conditions, for half a pass at most.
 */
#include "decode/tl-scheduler.h"

#include "decode/tl-flight.h"
#include "decode/tl-peers.h"
#include "tl-error.h"

/* nobody waits longer than this for peers, however long passes take */
#define PATIENCE_MAX_US 10000

typedef struct
{
  TlTurn turn;
  gconstpointer thread;
  int priority;
  guint passed_over;            /* how often later ones were let in before it */
  gboolean done;
  GCond wake;
  GList link;                   /* in `waiting` */
} Request;

typedef struct { GCond wake; GList link; } Guest;

struct _TlScheduler
{
  TlBackend *backend;
  GMutex books;                 /* sequences between passes; never held while one computes */

  GMutex lock;                  /* guards what follows; not held while computing */
  GCond quiet;                  /* nobody leads, no guest is in */
  gboolean closed;
  GPtrArray *users;             /* GCancellable of all callers that are in */
  GQueue waiting;               /* Request, by priority, then by arrival */
  GQueue guests;                /* Guest: callers that want the backend for themselves */
  gboolean guest_in, guest_was_last;
  Request *leader;              /* or NULL */
  gint64 wait_until;            /* for peers; 0: nobody waits yet */
  TlPeers peers;
  gint64 patience;              /* µs that peers are waited for */
  guint rows;                   /* of a pass */
  TlFlight *flight;             /* the leader's */
};

TlScheduler *
tl_scheduler_new (TlBackend *backend)
{
  TlScheduler *self = g_new0 (TlScheduler, 1);
  self->backend = backend;
  self->users = g_ptr_array_new_with_free_func (g_object_unref);
  self->flight = tl_flight_new ();
  self->rows = tl_flight_rows (self->flight);
  g_mutex_init (&self->books);
  g_mutex_init (&self->lock);
  g_cond_init (&self->quiet);
  return self;
}

void
tl_scheduler_free (TlScheduler *self)
{
  if (!self)
    return;
  g_ptr_array_unref (self->users);
  tl_flight_free (self->flight);
  g_mutex_clear (&self->books);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->quiet);
  g_free (self);
}

TlBackend *
tl_scheduler_backend (TlScheduler *self)
{
  return self->backend;
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

/* --- coming and going; the rest down to the jobs is under the lock --- */

static gboolean
come_in (TlScheduler *self, GCancellable *cancellable, GError **error)
{
  if (self->closed)
    {
      g_set_error_literal (error, TL_ERROR, TL_ERROR_CLOSED, "model was closed");
      return FALSE;
    }
  g_ptr_array_add (self->users, g_object_ref (cancellable));
  return TRUE;
}

/* what came of it, CLOSED where the close cancelled it */
static gboolean
go_out (TlScheduler *self, GCancellable *cancellable, gboolean ok, GError **error)
{
  g_ptr_array_remove_fast (self->users, cancellable);
  if (!ok && self->closed && error)
    {
      g_clear_error (error);
      g_set_error_literal (error, TL_ERROR, TL_ERROR_CLOSED, "model was closed");
    }
  return ok;
}

void
tl_scheduler_close (TlScheduler *self)
{
  g_mutex_lock (&self->lock);
  self->closed = TRUE;
  g_autoptr (GPtrArray) users = g_ptr_array_copy (self->users, (GCopyFunc) g_object_ref, NULL);
  g_ptr_array_set_free_func (users, g_object_unref);
  g_mutex_unlock (&self->lock);

  for (guint i = 0; i < users->len; i++)
    g_cancellable_cancel (g_ptr_array_index (users, i));

  g_mutex_lock (&self->lock);
  while (self->leader || self->guest_in)
    g_cond_wait (&self->quiet, &self->lock);
  g_mutex_unlock (&self->lock);
}

/* --- the waiting --- */

static gboolean
is_more_urgent (const Request *one, const Request *other)
{
  gboolean one_is_due = one->passed_over >= TL_SCHEDULER_OVERTAKES, other_is_due = other->passed_over >= TL_SCHEDULER_OVERTAKES;
  return one_is_due == other_is_due ? one->priority > other->priority : one_is_due;
}

/* behind all that are not less urgent */
static void
enqueue (TlScheduler *self, Request *request)
{
  GList *after = self->waiting.tail;
  while (after && is_more_urgent (request, after->data))
    after = after->prev;
  if (after)
    g_queue_insert_after_link (&self->waiting, after, &request->link);
  else
    g_queue_push_head_link (&self->waiting, &request->link);
}

/* those who stay behind have been passed over; whoever was so often enough goes to the front */
static void
count_passed_over (TlScheduler *self, gint64 latest)
{
  for (GList *l = self->waiting.head, *next; l; l = next)
    {
      Request *r = l->data;
      next = l->next;
      if (r->turn.boarded >= latest || ++r->passed_over != TL_SCHEDULER_OVERTAKES)
        continue;
      g_queue_unlink (&self->waiting, l);
      enqueue (self, r);
    }
}

/* Turns from the queue into the flight: small ones as rows allow, of wide ones (prompts) one at a time. */
static void
admit (TlScheduler *self)
{
  GPtrArray *turns = self->flight->turns;
  gint64 now = g_get_monotonic_time (), latest = 0;
  guint rows = 0, wide = 0;
  for (guint i = 0; i < turns->len; i++)
    {
      const TlTurn *turn = g_ptr_array_index (turns, i);
      rows += turn->n_rows < TL_FLIGHT_MIN_ROWS ? turn->n_rows : 0;
      wide += turn->n_rows >= TL_FLIGHT_MIN_ROWS;
    }
  if ((turns->len && self->guests.length) || !tl_flight_lets_in (self->flight))
    return;
  for (GList *l = self->waiting.head, *next; l; l = next)
    {
      Request *r = l->data;
      next = l->next;
      gboolean is_wide = r->turn.n_rows >= TL_FLIGHT_MIN_ROWS;
      if (is_wide ? wide > 0 : rows + r->turn.n_rows > self->rows)
        continue;
      wide += is_wide;
      rows += is_wide ? 0 : r->turn.n_rows;
      latest = MAX (latest, r->turn.boarded);
      g_queue_unlink (&self->waiting, l);
      r->turn.boarded = now;
      g_ptr_array_add (turns, &r->turn);
    }
  if (latest && self->waiting.length)
    count_passed_over (self, latest);
}

/* --- who leads --- */

/* a caller of `waiting` may lead now; else *until: when to look again, 0 = when woken */
static gboolean
may_lead (TlScheduler *self, const Request *request, gint64 *until)
{
  gint64 now = g_get_monotonic_time ();
  *until = 0;
  if (self->leader || self->guest_in || (self->guests.length && !self->guest_was_last))
    return FALSE;
  if (self->peers.n_expected == 0 || self->waiting.length >= self->rows)
    return TRUE;
  if (self->wait_until == 0)
    self->wait_until = now + self->patience;
  if (now < self->wait_until)
    {
      if (self->waiting.head == &request->link)
        *until = self->wait_until;
      return FALSE;
    }
  tl_peers_give_up (&self->peers);
  return TRUE;
}

/* nobody leads: somebody is woken who may */
static void
pass_on (TlScheduler *self)
{
  self->leader = NULL;
  if (self->flight->turns->len)
    {
      self->leader = g_ptr_array_index (self->flight->turns, 0);
      g_cond_signal (&self->leader->wake);
      return;
    }
  if (self->guests.length && (!self->guest_was_last || self->waiting.length == 0))
    g_cond_signal (&((Guest *) self->guests.head->data)->wake);
  else if (self->waiting.length)
    g_cond_signal (&((Request *) self->waiting.head->data)->wake);
  g_cond_broadcast (&self->quiet);
}

/* those that are done leave the flight and are woken */
static void
retire (TlScheduler *self, const Request *own)
{
  GPtrArray *turns = self->flight->turns;
  gint64 now = g_get_monotonic_time ();
  self->patience = MIN (self->flight->costs.pass / 2, PATIENCE_MAX_US);
  self->rows = tl_flight_rows (self->flight);
  for (guint i = turns->len; i-- > 0;)
    {
      Request *r = g_ptr_array_index (turns, i);
      if (!r->turn.finished)
        continue;
      g_ptr_array_remove_index (turns, i);
      tl_peers_leave (&self->peers, r->thread, now, self->patience);
      r->done = TRUE;
      if (r != own)
        g_cond_signal (&r->wake);
    }
}

/* until its own turn is done, or a guest is to have the backend first */
static void
lead (TlScheduler *self, Request *own)
{
  self->leader = own;
  self->wait_until = 0;
  self->guest_was_last = FALSE;
  do
    {
      admit (self);
      if (self->flight->turns->len == 0)
        break;
      g_mutex_unlock (&self->lock);
      tl_flight_step (self->flight);
      g_mutex_lock (&self->lock);
      retire (self, own);
    }
  while (!own->done);
  pass_on (self);
}

/* --- jobs --- */

/* one turn of a job: returns when it is finished */
static void
take_turn (TlScheduler *self, Request *request)
{
  gint64 until;
  g_cond_init (&request->wake);
  request->link.data = request;
  request->thread = g_thread_self ();

  g_mutex_lock (&self->lock);
  request->turn.boarded = g_get_monotonic_time ();
  tl_peers_arrive (&self->peers, request->thread, request->turn.boarded);
  enqueue (self, request);
  while (!request->done)
    if (self->leader == request || may_lead (self, request, &until))
      lead (self, request);
    else if (until)
      g_cond_wait_until (&request->wake, &self->lock, until);
    else
      g_cond_wait (&request->wake, &self->lock);
  g_mutex_unlock (&self->lock);
  g_cond_clear (&request->wake);
}

/* rows that are new and of one stop, and nobody looks between loops */
static gboolean
is_plain (const TlJob *job, guint from, guint n)
{
  for (guint i = from; i < from + n; i++)
    if (job->rows[i].depth > 0 || job->rows[i].stop != job->rows[from].stop)
      return FALSE;
  return job->exit == NULL;
}

/* rows with initial states where the family needs them and the job gives none; memory: their states. transfer full */
static TlPassRow *
complete_rows (TlScheduler *self, const TlJob *job, guint from, guint n, float **memory)
{
  static const TlPassOptions seed_0;
  TlProgram *p = self->backend->program;
  TlPassRow *rows = g_memdup2 (job->rows + from, n * sizeof *rows);
  *memory = NULL;
  if (!p->has_initial_state)
    return rows;
  *memory = g_new (float, (gsize) n * p->d_model);
  for (guint i = 0; i < n; i++)
    if (rows[i].depth == 0 && !rows[i].initial_state)
      {
        float *state = *memory + (gsize) i * p->d_model;
        tl_pass_initial_state (p, job->start ? job->start : &seed_0, rows[i].position, state);
        rows[i].initial_state = state;
      }
  return rows;
}

/* rows from … from + n - 1 as one pass, in the company of others' */
static gboolean
run_rows (TlScheduler *self, const TlJob *job, guint from, guint n, GCancellable *cancellable, GError **error)
{
  g_autofree float *memory = NULL;
  g_autofree TlPassRow *rows = complete_rows (self, job, from, n, &memory);
  g_autoptr (TlPass) pass = tl_pass_new (self->backend, rows, n, job->states, cancellable, error);
  if (!pass)
    return FALSE;
  Request request = {
    .turn = { .pass = pass, .rule = job->exit, .depths = job->depths ? job->depths + from : NULL, .cancellable = cancellable,
      .n_rows = n, .stop = rows[0].stop, .plain = is_plain (job, from, n) },
    .priority = job->priority,
  };
  take_turn (self, &request);
  gboolean ok = tl_pass_end (pass, error);
  tl_exit_free (request.turn.exit);
  return ok;
}

/* new rows of earlier chunks are taken back */
static void
take_back (const TlJob *job, guint n)
{
  for (guint i = n; i-- > 0;)
    if (job->rows[i].depth == 0)
      tl_kv_sequence_truncate (job->rows[i].sequence, job->rows[i].position);
}

static gboolean
run_chunks (TlScheduler *self, const TlJob *job, GCancellable *cancellable, GError **error)
{
  for (guint at = 0, n; at < job->n_rows; at += n)
    {
      g_mutex_lock (&self->lock);
      n = MIN (job->n_rows - at, self->rows);
      g_mutex_unlock (&self->lock);
      if (!run_rows (self, job, at, n, cancellable, error))
        {
          take_back (job, at);
          return FALSE;
        }
    }
  return TRUE;
}

/* where there is no cache: alone on the backend */
static gboolean
run_recomputed (TlScheduler *self, const TlJob *job, GCancellable *cancellable, GError **error)
{
  if (!tl_scheduler_enter (self, cancellable, error))
    return FALSE;
  for (guint i = 0; job->depths && i < job->n_rows; i++)
    job->depths[i] = job->rows[i].stop;
  gboolean ok = tl_pass_recompute (self->backend, job->rows, job->n_rows, job->start, cancellable, error);
  return tl_scheduler_leave (self, cancellable, ok, error);
}

/* the memory that the requests behind a job's sequences have reserved */
static gboolean
take_memory (const TlJob *job, GCancellable *cancellable, GError **error)
{
  TlKvReservation *last = NULL;
  for (guint i = 0; i < job->n_rows; i++)
    {
      TlKvReservation *reservation = tl_kv_sequence_reservation (job->rows[i].sequence);
      if (reservation && reservation != last && !tl_kv_reservation_take (reservation, cancellable, error))
        return FALSE;
      last = reservation;
    }
  return TRUE;
}

gboolean
tl_scheduler_run (TlScheduler *self, const TlJob *job, GCancellable *cancellable, GError **error)
{
  g_autoptr (GCancellable) own = cancellable ? g_object_ref (cancellable) : g_cancellable_new ();
  if (job->n_rows == 0 || self->backend->klass->run_sequence || tl_pass_cache_is_disabled ())
    return run_recomputed (self, job, own, error);

  g_autoptr (GError) failure = NULL;
  g_mutex_lock (&self->lock);
  gboolean in = come_in (self, own, error);
  g_mutex_unlock (&self->lock);
  if (!in)
    return FALSE;

  gboolean ok = take_memory (job, own, &failure) && run_chunks (self, job, own, &failure);
  g_mutex_lock (&self->lock);
  go_out (self, own, ok, &failure);
  g_mutex_unlock (&self->lock);
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&failure));
  return ok;
}

/* --- guests --- */

gboolean
tl_scheduler_enter (TlScheduler *self, GCancellable *cancellable, GError **error)
{
  Guest guest = { .link.data = &guest };
  g_cond_init (&guest.wake);
  g_mutex_lock (&self->lock);
  gboolean in = come_in (self, cancellable, error);
  if (in)
    {
      g_queue_push_tail_link (&self->guests, &guest.link);
      while (self->leader || self->guest_in || self->guests.head != &guest.link
             || (self->guest_was_last && self->waiting.length))
        g_cond_wait (&guest.wake, &self->lock);
      g_queue_unlink (&self->guests, &guest.link);
      self->guest_in = self->guest_was_last = TRUE;
      self->wait_until = 0;
    }
  g_mutex_unlock (&self->lock);
  g_cond_clear (&guest.wake);
  return in;
}

gboolean
tl_scheduler_leave (TlScheduler *self, GCancellable *cancellable, gboolean ok, GError **error)
{
  g_mutex_lock (&self->lock);
  self->guest_in = FALSE;
  pass_on (self);
  ok = go_out (self, cancellable, ok, error);
  g_mutex_unlock (&self->lock);
  return ok;
}
