/* decode/tl-scheduler.h — who runs passes of a backend, and when: all generation goes through jobs.
 *
 * A job is a set of rows that a caller wants computed, of any sequences and depths; tl_scheduler_run() returns when they
 * have reached their stops (or exits), coda and head are done and the sequences hold them. One scheduler per backend.
 * The waiting caller does the work; there is no thread of the scheduler's own. Jobs of several threads share passes, which
 * changes no bit of their results. Long jobs go through in chunks, so that a pass stays short. Owned by a model's core.
 */
#pragma once

#include "decode/tl-exit.h"

G_BEGIN_DECLS

typedef struct _TlScheduler TlScheduler;

typedef struct
{
  const TlPassRow *rows;        /* as tl_pass_begin() takes them: new ones, or resumed ones with kept states */
  guint n_rows;
  TlStates *states;             /* of the rows' slots, read and written; NULL: all rows are new and nothing is kept */
  const TlPassOptions *start;   /* state_seed, zero_state and initial_state for rows that give none of their own and, where
                                 * all is recomputed, for older positions; NULL: the family's rule with seed 0 */
  const TlExitRule *exit;       /* asked between two loops; or NULL */
  guint *depths;                /* [n_rows] the depth each row reached; or NULL */
  int priority;                 /* higher first, see TL_SCHEDULER_OVERTAKES */
} TlJob;

/* A job that was overtaken so often goes first, whatever its priority. */
#define TL_SCHEDULER_OVERTAKES 8

/* The backend must outlive it. */
TlScheduler *tl_scheduler_new (TlBackend *backend);
void tl_scheduler_free (TlScheduler *self);
TlBackend *tl_scheduler_backend (TlScheduler *self);
/* Jobs that wait or run end with CLOSED, later ones at once; returns when none runs. */
void tl_scheduler_close (TlScheduler *self);

/* Errors: those of tl_pass_run(), CANCELLED, CLOSED. After an error the sequences have their old lengths. */
gboolean tl_scheduler_run (TlScheduler *self, const TlJob *job, GCancellable *cancellable, GError **error);

/* Between enter and leave the caller alone uses the backend and its sequences, with passes of its own (scores). leave takes
 * the passes' success and turns the cancelled pass of a closed model into CLOSED. cancellable: cancelled by close. */
gboolean tl_scheduler_enter (TlScheduler *self, GCancellable *cancellable, GError **error);
gboolean tl_scheduler_leave (TlScheduler *self, GCancellable *cancellable, gboolean ok, GError **error);

/* For sequences that several threads fork, truncate or free between passes; never held while a pass computes. Also on a
 * closed model. */
void tl_scheduler_lock (TlScheduler *self);
void tl_scheduler_unlock (TlScheduler *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlScheduler, tl_scheduler_free)

G_END_DECLS
