/* cpu/tl-pool.c — worker threads, the barrier, and how many threads a process may use.
 *
 * State of a job is published in one word (generation and number of workers), so that a worker that wakes late never joins
 * a job it was not counted in. The barrier is sense-reversing: the last to come flips `phase`.
 */
#include "cpu/tl-pool.h"

#include <fenv.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __SSE__
#include <immintrin.h>
#endif

#define SPIN_US 50
#define WORKER_BITS 10
#define MAX_WORKERS ((1u << WORKER_BITS) - 1)

typedef struct { _Atomic guint value; _Atomic guint sleepers; } Word;

struct _TlPool
{
  GMutex callers;               /* held during a job */
  guint size;
  guint n_started;              /* threads besides the caller; under `callers` */
  TlPoolJob job;                /* written before `start`, read after it */
  gpointer data;
  guint n_workers;
  gint64 spin_us;
  __attribute__ ((aligned (64))) Word start;    /* generation << WORKER_BITS | workers of this job */
  __attribute__ ((aligned (64))) Word phase;
  __attribute__ ((aligned (64))) _Atomic guint arrived;
};

typedef struct { TlPool *pool; guint index; guint seen; } Worker;

static inline void
relax (void)
{
#ifdef __SSE__
  _mm_pause ();
#endif
}

/* waits while word == old */
static void
word_wait (Word *word, guint old, gint64 spin_us)
{
  if (atomic_load_explicit (&word->value, memory_order_acquire) != old)
    return;

  gint64 until = spin_us ? g_get_monotonic_time () + spin_us : 0;
  while (spin_us)
    {
      for (int i = 0; i < 32; i++)
        {
          if (atomic_load_explicit (&word->value, memory_order_acquire) != old)
            return;
          relax ();
        }
      if (g_get_monotonic_time () >= until)
        break;
    }

  atomic_fetch_add (&word->sleepers, 1);
  while (atomic_load (&word->value) == old)
    syscall (SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
  atomic_fetch_sub (&word->sleepers, 1);
}

static void
word_set (Word *word, guint value)
{
  atomic_store (&word->value, value);
  if (atomic_load (&word->sleepers))
    syscall (SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, G_MAXINT, NULL, NULL, 0);
}

void
tl_pool_barrier_then (TlPool *pool, void (*then) (gpointer data), gpointer data)
{
  guint n = pool->n_workers;
  gint64 spin_us = pool->spin_us;       /* read before arriving: after that the next job may change it */
  if (n == 1)
    {
      if (then)
        then (data);
      return;
    }

  guint phase = atomic_load_explicit (&pool->phase.value, memory_order_relaxed);
  if (atomic_fetch_add_explicit (&pool->arrived, 1, memory_order_acq_rel) + 1 == n)
    {
      if (then)
        then (data);
      atomic_store_explicit (&pool->arrived, 0, memory_order_relaxed);
      word_set (&pool->phase, phase + 1);
    }
  else
    word_wait (&pool->phase, phase, spin_us);
}

void
tl_pool_barrier (TlPool *pool)
{
  tl_pool_barrier_then (pool, NULL, NULL);
}

guint
tl_pool_meetings (TlPool *pool)
{
  return atomic_load (&pool->phase.value);
}

static void
set_default_float_environment (void)
{
#ifdef __SSE__
  _mm_setcsr (0x1f80);          /* nearest even, no flush to zero, exceptions masked */
#else
  fesetenv (FE_DFL_ENV);
#endif
}

static gpointer
worker_main (gpointer user_data)
{
  g_autofree Worker *worker = user_data;
  TlPool *pool = worker->pool;

  while (TRUE)
    {
      word_wait (&pool->start, worker->seen, SPIN_US);
      worker->seen = atomic_load_explicit (&pool->start.value, memory_order_acquire);
      guint n = worker->seen & MAX_WORKERS;
      if (worker->index >= n)
        continue;
      set_default_float_environment ();
      pool->job (pool, worker->index, n, pool->data);
      tl_pool_barrier (pool);
    }
  return NULL;
}

static void
start_workers (TlPool *pool, guint n_workers)
{
  for (; pool->n_started + 1 < n_workers; pool->n_started++)
    {
      Worker *worker = g_new (Worker, 1);
      *worker = (Worker) { pool, pool->n_started + 1, atomic_load (&pool->start.value) };
      g_autofree char *name = g_strdup_printf ("tl-worker-%u", worker->index);
      g_thread_unref (g_thread_new (name, worker_main, worker));
    }
}

void
tl_pool_run (TlPool *pool, guint n_threads, TlPoolJob job, gpointer data)
{
  guint n = CLAMP (n_threads ? n_threads : pool->size, 1, MAX_WORKERS);

  g_mutex_lock (&pool->callers);
#ifdef __SSE__
  guint caller_environment = _mm_getcsr ();
#else
  fenv_t caller_environment;
  fegetenv (&caller_environment);
#endif
  set_default_float_environment ();

  pool->job = job;
  pool->data = data;
  pool->n_workers = n;
  pool->spin_us = n <= pool->size ? SPIN_US : 0;        /* spinning on a busy core only delays */
  if (n > 1)
    {
      start_workers (pool, n);
      guint generation = (atomic_load (&pool->start.value) >> WORKER_BITS) + 1;
      word_set (&pool->start, generation << WORKER_BITS | n);
    }
  job (pool, 0, n, data);
  tl_pool_barrier (pool);

#ifdef __SSE__
  _mm_setcsr (caller_environment);
#else
  fesetenv (&caller_environment);
#endif
  g_mutex_unlock (&pool->callers);
}

/* CPUs' worth of quota in one cgroup folder, 0 = no limit there */
static guint
quota_of_folder (const char *folder)
{
  g_autofree char *path = g_build_filename (folder, "cpu.max", NULL), *text = NULL;
  guint64 quota = 0, period = 0;
  if (g_file_get_contents (path, &text, NULL, NULL))
    return sscanf (text, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, &quota, &period) == 2 && period
      ? (quota + period - 1) / period : 0;

  g_autofree char *quota_path = g_build_filename (folder, "cpu.cfs_quota_us", NULL), *quota_text = NULL;
  g_autofree char *period_path = g_build_filename (folder, "cpu.cfs_period_us", NULL), *period_text = NULL;
  if (!g_file_get_contents (quota_path, &quota_text, NULL, NULL) || quota_text[0] == '-'
      || !g_file_get_contents (period_path, &period_text, NULL, NULL))
    return 0;
  quota = g_ascii_strtoull (quota_text, NULL, 10);
  period = g_ascii_strtoull (period_text, NULL, 10);
  return period ? (quota + period - 1) / period : 0;
}

/* the smallest quota between this process's cgroup and the root; 0 = none */
static guint
cgroup_quota (void)
{
  guint smallest = quota_of_folder ("/sys/fs/cgroup/cpu");
  g_autofree char *text = NULL;
  if (!g_file_get_contents ("/proc/self/cgroup", &text, NULL, NULL))
    return smallest;

  const char *line = g_str_has_prefix (text, "0::") ? text : strstr (text, "\n0::");
  if (!line)
    return smallest;
  line = strstr (line, "0::") + 3;
  g_autofree char *path = g_strndup (line, strcspn (line, "\n"));
  for (;;)
    {
      g_autofree char *folder = g_build_filename ("/sys/fs/cgroup", path, NULL);
      guint quota = quota_of_folder (folder);
      if (quota && (!smallest || quota < smallest))
        smallest = quota;
      char *slash = strrchr (path, '/');
      if (!slash || path[0] == '\0')
        return smallest;
      *slash = '\0';
    }
}

static guint
usable_threads (void)
{
  cpu_set_t set;
  guint n = sched_getaffinity (0, sizeof set, &set) == 0 ? CPU_COUNT (&set) : g_get_num_processors ();
  guint quota = cgroup_quota ();
  return CLAMP (quota ? MIN (n, quota) : n, 1, MAX_WORKERS);
}

TlPool *
tl_pool_get (void)
{
  static TlPool pool;           /* the one worker pool of the process */
  static gsize once;
  if (g_once_init_enter (&once))
    {
      g_mutex_init (&pool.callers);
      pool.size = usable_threads ();
      g_once_init_leave (&once, 1);
    }
  return &pool;
}

guint
tl_pool_size (TlPool *pool)
{
  return pool->size;
}
