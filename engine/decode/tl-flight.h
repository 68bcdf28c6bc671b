/* decode/tl-flight.h — what goes through the backend together: turns of several callers, stage by stage.
 *
 * A turn is one caller's pass. Turns that are all new and of one stop go through in one entry, pre to post. Else loop by loop:
 * newcomers run pre and share the loops of those on their way, whatever depth each is at; a turn whose rows have reached their
 * stops (or exits) runs post and leaves its place. Used by tl-scheduler.c; whoever leads is the only one to touch it.
 */
#pragma once

#include "decode/tl-exit.h"

G_BEGIN_DECLS

/* rows of new turns in a pass are bounded, so that nobody waits longer for it */
#define TL_FLIGHT_PASS_US 50000
#define TL_FLIGHT_MIN_ROWS 16
#define TL_FLIGHT_MAX_ROWS 128

typedef struct
{
  TlPass *pass;
  const TlExitRule *rule;       /* or NULL */
  guint *depths;                /* [n_rows] or NULL */
  GCancellable *cancellable;
  guint n_rows, stop;
  gboolean plain;               /* rows are new, of one stop, and no rule looks between loops */
  TlExit *exit;                 /* made when it has begun */
  gboolean begun, finished;
  gint64 boarded;               /* µs */
} TlTurn;

/* measured, µs; 0 = not yet */
typedef struct
{
  double pass;                  /* a turn from boarding to its end */
  double row;                   /* of a pass of many rows, per row */
  double pre, loop, post;       /* entries */
} TlFlightCosts;

typedef struct
{
  GPtrArray *turns;             /* TlTurn, on their way */
  TlFlightCosts costs;
} TlFlight;

TlFlight *tl_flight_new (void);
void tl_flight_free (TlFlight *flight);
/* rows that a pass may have so that it takes at most TL_FLIGHT_PASS_US */
guint tl_flight_rows (const TlFlight *flight);
/* Whether sharing what is left of the loops on their way is worth an entry of pre for a newcomer. */
gboolean tl_flight_lets_in (const TlFlight *flight);
/* The next entries: at least a loop, or post. Turns that are done, failed or cancelled are `finished` then. */
void tl_flight_step (TlFlight *flight);

G_END_DECLS
