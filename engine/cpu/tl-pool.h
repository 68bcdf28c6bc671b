/* cpu/tl-pool.h — the one worker pool of the process: workers walk a job together and meet at barriers.
 *
 * A job is a function that every worker runs (SPMD), the caller being worker 0. Jobs of several callers queue. Workers are
 * started when first needed; with one thread none is, and barriers cost nothing. Waiting spins for at most 50 µs, then
 * sleeps. Each worker runs with the default floating-point environment; the caller's is restored on return.
 * Called by the CPU backend and by tests.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _TlPool TlPool;
typedef void (*TlPoolJob) (TlPool *pool, guint worker, guint n_workers, gpointer data);

TlPool *tl_pool_get (void);
/* threads this process may use: affinity mask and cgroup quota; at least 1 */
guint tl_pool_size (TlPool *pool);
/* Runs job on n_threads workers (0 = tl_pool_size()); more than tl_pool_size() is allowed. Returns when all are done.
 * A job must not call tl_pool_run(). */
void tl_pool_run (TlPool *pool, guint n_threads, TlPoolJob job, gpointer data);
/* Waits until all workers of the running job are here; what they wrote before is visible after. */
void tl_pool_barrier (TlPool *pool);
/* The same; the last worker to come calls `then` before any goes on, so that it sees and changes what all share. */
void tl_pool_barrier_then (TlPool *pool, void (*then) (gpointer data), gpointer data);
/* How often two or more workers have met at a barrier since the process began, the end of each job included; wraps around. */
guint tl_pool_meetings (TlPool *pool);

/* The fixed split: worker w's share of n units is [begin, end), contiguous, sizes differing by at most one unit. */
static inline void
tl_pool_share (guint n, guint worker, guint n_workers, guint *begin, guint *end)
{
  *begin = (guint) ((guint64) n * worker / n_workers);
  *end = (guint) ((guint64) n * (worker + 1) / n_workers);
}

G_END_DECLS
