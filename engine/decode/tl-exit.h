/* decode/tl-exit.h — early exit: decides between loops which rows of a pass go no deeper.
 *
 * Whoever walks a pass loop by loop (the scheduler) makes one TlExit for the rows of a job and asks it after every loop.
 */
#pragma once

#include "cache/tl-pass.h"

G_BEGIN_DECLS

typedef struct
{
  guint patience;               /* stable probes in a row before a row stops; 0 = off */
} TlExitRule;

typedef struct _TlExit TlExit;

/* for rows first … first + n - 1 of a pass that has begun */
TlExit *tl_exit_new (const TlExitRule *rule, TlPass *pass, guint first, guint n);
/* loops that may be run in one go before the next probe; at least 1 */
guint tl_exit_loops_to_probe (const TlExit *exit);
/* after loops: rows that are done are stopped */
gboolean tl_exit_probe (TlExit *exit, GCancellable *cancellable, GError **error);
/* no more loops. depths: [n] the depth each row is read out at; or NULL */
void tl_exit_end (TlExit *exit, guint *depths);
void tl_exit_free (TlExit *exit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlExit, tl_exit_free)

G_END_DECLS
