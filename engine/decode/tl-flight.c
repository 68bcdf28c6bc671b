/* decode/tl-flight.c — turns through the stages. See tl-flight.h.
 *
 * Sharing an entry saves reading its weights once more; waiting for company costs time. Costs are measured, so that both are
 * weighed: a row waits before post only while the loops until the next one is ready take less than post does, and no longer
 * than one token takes.
 */
#include "decode/tl-flight.h"

/* looks between loops are at least so far apart */
#define LOOK_US 200

TlFlight *
tl_flight_new (void)
{
  TlFlight *flight = g_new0 (TlFlight, 1);
  flight->turns = g_ptr_array_new ();
  return flight;
}

void
tl_flight_free (TlFlight *flight)
{
  g_ptr_array_unref (flight->turns);
  g_free (flight);
}

static TlTurn *
turn_at (const TlFlight *flight, guint i)
{
  return g_ptr_array_index (flight->turns, i);
}

/* --- costs --- */

static void
measure (double *cost, double us)
{
  *cost = *cost > 0 ? 0.75 * *cost + 0.25 * us : us;
}

static void
finish (TlFlight *flight, TlTurn *turn)
{
  double us = g_get_monotonic_time () - turn->boarded;
  guint rows = 0;
  for (guint i = 0; i < flight->turns->len; i++)
    rows += turn_at (flight, i)->n_rows;
  turn->finished = TRUE;
  if (turn->n_rows < TL_FLIGHT_MIN_ROWS)
    measure (&flight->costs.pass, us);
  else
    measure (&flight->costs.row, us / rows);
}

guint
tl_flight_rows (const TlFlight *flight)
{
  if (flight->costs.row <= 0)
    return 2 * TL_FLIGHT_MIN_ROWS;      /* small enough to find out on */
  guint rows = CLAMP (TL_FLIGHT_PASS_US / flight->costs.row, TL_FLIGHT_MIN_ROWS, TL_FLIGHT_MAX_ROWS);
  return rows / TL_FLIGHT_MIN_ROWS * TL_FLIGHT_MIN_ROWS;
}

gboolean
tl_flight_lets_in (const TlFlight *flight)
{
  guint left = 0;
  for (guint i = 0; i < flight->turns->len; i++)
    left = MAX (left, tl_pass_loops_left (turn_at (flight, i)->pass));
  return flight->turns->len == 0 || left * flight->costs.loop >= flight->costs.pre;
}

/* --- a whole token --- */

static gboolean
goes_whole (const TlFlight *flight)
{
  for (guint i = 0; i < flight->turns->len; i++)
    {
      const TlTurn *turn = turn_at (flight, i);
      if (turn->begun || !turn->plain || turn->stop != turn_at (flight, 0)->stop)
        return FALSE;
    }
  return TRUE;
}

static void
run_whole (TlFlight *flight)
{
  guint n = flight->turns->len;
  g_autofree TlPass **passes = g_new (TlPass *, n);
  for (guint i = 0; i < n; i++)
    passes[i] = turn_at (flight, i)->pass;
  tl_passes_whole (passes, n);
  for (guint i = 0; i < n; i++)
    {
      TlTurn *turn = turn_at (flight, i);
      for (guint r = 0; turn->depths && r < turn->n_rows; r++)
        turn->depths[r] = turn->stop;
      finish (flight, turn);
    }
}

/* --- stage by stage --- */

typedef gboolean (*Chooser) (const TlTurn *turn);
typedef void (*Entry) (TlPass **passes, guint n, guint loops);

static gboolean
is_new (const TlTurn *turn)
{
  return !turn->begun;
}

static gboolean
is_looping (const TlTurn *turn)
{
  return turn->begun && !turn->finished && tl_pass_loops_left (turn->pass) > 0;
}

static gboolean
is_ready (const TlTurn *turn)
{
  return turn->begun && !turn->finished && tl_pass_loops_left (turn->pass) == 0;
}

/* the chosen turns' passes through one entry, which is measured; how many they were */
static guint
run_chosen (TlFlight *flight, Chooser chosen, Entry entry, guint loops, double *cost)
{
  g_autofree TlPass **passes = g_new (TlPass *, flight->turns->len);
  guint n = 0;
  for (guint i = 0; i < flight->turns->len; i++)
    if (chosen (turn_at (flight, i)) && !tl_pass_failed (turn_at (flight, i)->pass))
      passes[n++] = turn_at (flight, i)->pass;
  if (n == 0)
    return 0;
  gint64 began = g_get_monotonic_time ();
  entry (passes, n, loops);
  measure (cost, (double) (g_get_monotonic_time () - began) / MAX (loops, 1));
  return n;
}

static void
enter_pre (TlPass **passes, guint n, guint loops)
{
  tl_passes_pre (passes, n);
}

static void
enter_post (TlPass **passes, guint n, guint loops)
{
  tl_passes_post (passes, n);
}

static void
begin_new (TlFlight *flight)
{
  run_chosen (flight, is_new, enter_pre, 0, &flight->costs.pre);
  for (guint i = 0; i < flight->turns->len; i++)
    {
      TlTurn *turn = turn_at (flight, i);
      if (turn->begun)
        continue;
      turn->begun = TRUE;
      if (turn->rule && !tl_pass_failed (turn->pass))
        turn->exit = tl_exit_new (turn->rule, turn->pass, 0, turn->n_rows);
    }
}

/* loops that can be run before a turn is ready, a rule wants to look, or newcomers have waited long enough */
static guint
loops_in_one_go (const TlFlight *flight)
{
  guint n = flight->costs.loop > 0 ? MAX (LOOK_US / flight->costs.loop, 1) : 1;
  for (guint i = 0; i < flight->turns->len; i++)
    {
      const TlTurn *turn = turn_at (flight, i);
      if (!is_looping (turn))
        continue;
      n = MIN (n, tl_pass_loops_left (turn->pass));
      if (turn->exit)
        n = MIN (n, tl_exit_loops_to_probe (turn->exit));
    }
  return MAX (n, 1);
}

static void
probe (TlFlight *flight)
{
  for (guint i = 0; i < flight->turns->len; i++)
    {
      TlTurn *turn = turn_at (flight, i);
      g_autoptr (GError) error = NULL;
      if (turn->exit && !tl_pass_failed (turn->pass) && !tl_exit_probe (turn->exit, turn->cancellable, &error))
        tl_pass_fail (turn->pass, error);
    }
}

/* whether those who are ready run post now */
static gboolean
post_is_due (const TlFlight *flight)
{
  guint next = G_MAXUINT;
  gint64 now = g_get_monotonic_time (), longest = 0;
  for (guint i = 0; i < flight->turns->len; i++)
    {
      const TlTurn *turn = turn_at (flight, i);
      if (is_looping (turn))
        next = MIN (next, tl_pass_loops_left (turn->pass));
      else if (is_ready (turn))
        longest = MAX (longest, now - turn->boarded);
    }
  return next == G_MAXUINT || next * flight->costs.loop > flight->costs.post || longest > 2 * flight->costs.pass;
}

static void
finish_ready (TlFlight *flight)
{
  for (guint i = 0; i < flight->turns->len; i++)
    {
      TlTurn *turn = turn_at (flight, i);
      if (turn->exit && is_ready (turn) && !tl_pass_failed (turn->pass))
        tl_exit_end (turn->exit, turn->depths);
      for (guint r = 0; is_ready (turn) && !turn->exit && turn->depths && r < turn->n_rows; r++)
        turn->depths[r] = tl_pass_row_depth (turn->pass, r);
    }
  run_chosen (flight, is_ready, enter_post, 0, &flight->costs.post);
  for (guint i = 0; i < flight->turns->len; i++)
    if (is_ready (turn_at (flight, i)))
      finish (flight, turn_at (flight, i));
}

void
tl_flight_step (TlFlight *flight)
{
  if (goes_whole (flight))
    {
      run_whole (flight);
      return;
    }
  begin_new (flight);
  run_chosen (flight, is_looping, tl_passes_loops, loops_in_one_go (flight), &flight->costs.loop);
  probe (flight);
  if (post_is_due (flight))
    finish_ready (flight);
}
