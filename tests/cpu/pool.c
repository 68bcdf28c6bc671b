/* tests/cpu/pool.c — workers meet at every barrier, jobs of several callers queue, the floating-point environment is the
 * default inside and the caller's outside. */
#include "cpu/tl-pool.h"

#ifdef __SSE__
#include <immintrin.h>
#endif

#define ROUNDS 2000

typedef struct { guint counts[16]; guint errors, entered, drop; gint running; } Shared;

static void
count_together (TlPool *pool, guint worker, guint n, gpointer data)
{
  Shared *s = data;
  if (g_atomic_int_add (&s->running, 1) >= (gint) n)
    g_atomic_int_inc (&s->errors);
  for (guint round = 1; round <= ROUNDS; round++)
    {
      g_atomic_int_set (&s->counts[worker], round);
      if (!s->drop)
        tl_pool_barrier (pool);
      for (guint i = 0; i < n; i++)
        if ((guint) g_atomic_int_get (&s->counts[i]) != round)
          g_atomic_int_inc (&s->errors);
      if (!s->drop)
        tl_pool_barrier (pool);
    }
  g_atomic_int_inc (&s->entered);
  tl_pool_barrier (pool);
  g_atomic_int_add (&s->running, -1);
  tl_pool_barrier (pool);
}

static void
test_barrier_holds_everyone (void)
{
  for (guint n = 1; n <= 5; n++)
    {
      Shared s = { { 0 } };
      tl_pool_run (tl_pool_get (), n, count_together, &s);
      g_assert_cmpuint (s.errors, ==, 0);
      g_assert_cmpuint (s.entered, ==, n);
    }
}

static void
test_a_dropped_barrier_is_noticed (void)
{
  Shared s = { .drop = 1 };
  tl_pool_run (tl_pool_get (), 3, count_together, &s);
  g_assert_cmpuint (s.errors, >, 0);
}

/* what the last to come does is done before any goes on, once, also when there is but one */
static void
add_round (gpointer data)
{
  ((Shared *) data)->entered++;
}

static void
meet_and_look (TlPool *pool, guint worker, guint n, gpointer data)
{
  Shared *s = data;
  for (guint round = 1; round <= ROUNDS; round++)
    {
      tl_pool_barrier_then (pool, add_round, s);
      if (s->entered != round)
        g_atomic_int_inc (&s->errors);
      tl_pool_barrier (pool);
    }
}

static void
test_one_acts_for_all (void)
{
  for (guint n = 1; n <= 5; n++)
    {
      Shared s = { { 0 } };
      guint before = tl_pool_meetings (tl_pool_get ());
      tl_pool_run (tl_pool_get (), n, meet_and_look, &s);
      g_assert_cmpuint (s.errors, ==, 0);
      g_assert_cmpuint (s.entered, ==, ROUNDS);
      g_assert_cmpuint (tl_pool_meetings (tl_pool_get ()) - before, ==, n > 1 ? 2 * ROUNDS + 1 : 0);
    }
}

static void
enter (TlPool *pool, guint worker, guint n, gpointer data)
{
  Shared *s = data;
  g_atomic_int_inc (&s->entered);
}

static void
test_short_jobs_of_changing_size (void)
{
  Shared s = { { 0 } };
  guint expected = 0;
  for (guint i = 0; i < 5000; i++)
    {
      guint n = 1 + i % 4;
      tl_pool_run (tl_pool_get (), n, enter, &s);
      g_assert_cmpuint (s.entered, ==, expected += n);
      if (i % 1000 == 999)
        g_usleep (1000);                /* workers fall asleep */
    }
}

static gpointer
caller (gpointer data)
{
  for (guint i = 0; i < 5; i++)
    {
      Shared s = { { 0 } };
      tl_pool_run (tl_pool_get (), 2, count_together, &s);
      *(guint *) data += s.errors;
    }
  return NULL;
}

static void
test_callers_queue (void)
{
  guint errors[3] = { 0 };
  GThread *threads[3];
  for (guint i = 0; i < 3; i++)
    threads[i] = g_thread_new ("caller", caller, &errors[i]);
  for (guint i = 0; i < 3; i++)
    g_thread_join (threads[i]);
  g_assert_cmpuint (errors[0] + errors[1] + errors[2], ==, 0);
}

static void
test_shares_cover_everything (void)
{
  for (guint n = 0; n < 40; n++)
    for (guint workers = 1; workers < 9; workers++)
      {
        guint at = 0, begin, end;
        for (guint w = 0; w < workers; w++, at = end)
          {
            tl_pool_share (n, w, workers, &begin, &end);
            g_assert_cmpuint (begin, ==, at);
            g_assert_cmpuint (end - begin, <=, n / workers + 1);
          }
        g_assert_cmpuint (at, ==, n);
      }
}

#ifdef __SSE__
static void
check_environment (TlPool *pool, guint worker, guint n, gpointer data)
{
  Shared *s = data;
  volatile float tiny = 1e-38f;
  if ((_mm_getcsr () & 0xffc0) != 0x1f80 || tiny * 0.01f == 0)
    g_atomic_int_inc (&s->errors);
}

static void
test_float_environment_of_the_host_is_kept_out (void)
{
  Shared s = { { 0 } };
  guint before = _mm_getcsr ();
  _mm_setcsr (before | 0x8040);         /* flush to zero, denormals are zero */
  tl_pool_run (tl_pool_get (), 3, check_environment, &s);
  guint after = _mm_getcsr ();
  _mm_setcsr (before);
  g_assert_cmpuint (s.errors, ==, 0);
  g_assert_cmphex (after & 0x8040, ==, 0x8040);
}
#endif

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpuint (tl_pool_size (tl_pool_get ()), >=, 1);
  g_test_add_func ("/pool/barrier", test_barrier_holds_everyone);
  g_test_add_func ("/pool/one-acts-for-all", test_one_acts_for_all);
  g_test_add_func ("/pool/dropped-barrier", test_a_dropped_barrier_is_noticed);
  g_test_add_func ("/pool/short-jobs", test_short_jobs_of_changing_size);
  g_test_add_func ("/pool/callers-queue", test_callers_queue);
  g_test_add_func ("/pool/shares", test_shares_cover_everything);
#ifdef __SSE__
  g_test_add_func ("/pool/float-environment", test_float_environment_of_the_host_is_kept_out);
#endif
  return g_test_run ();
}
