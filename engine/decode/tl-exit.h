/* decode/tl-exit.h — early exit: decides between loops which rows of a pass go no deeper.
 *
 * Whoever walks a pass loop by loop (the scheduler) makes one TlExit for the rows of a job and asks it after every loop:
 *
 *   TlExit *exit = tl_exit_new (rule, pass, first, n);     after tl_pass_begin()
 *   tl_pass_loops (pass, tl_exit_loops_to_probe (exit), …);  tl_exit_probe (exit, …);  while a row has loops to go
 *   tl_exit_end (exit, depths);                            before tl_pass_finish()
 *   tl_exit_free (exit);
 *
 * Only rows that deliver logits are looked at: rows of a prompt, and rows that are computed again, run to their stops.
 * A criterion is a row of the table in tl-exit.c. One thread at a time.
 */
#pragma once

#include "cache/tl-pass.h"

G_BEGIN_DECLS

/* What stands in the planes of the loops that a row has left out. */
typedef enum
{
  TL_EXIT_FILL_COPY,            /* copies of its deepest plane: later rows read plane min (d, e) */
  TL_EXIT_FILL_PROPAGATE,       /* K and V projected from its last state, by every missing layer of every missing loop */
  TL_EXIT_FILL_FULL,            /* nothing is left out: all loops run, the read-out is taken at e */
} TlExitFillMode;

/* What probes have seen of rows whose states are kept, by slot: a row that goes on deeper in a later job (a verified draft)
 * is looked at as if it had never paused. A row that begins anew in a slot is a new one. */
typedef struct _TlExitMemory TlExitMemory;

typedef struct
{
  int criterion;                /* of tl_exit_find_criterion() */
  guint patience;               /* stable probes in a row before a row stops; at least 1 */
  guint min_loops;              /* loops before the first probe; at least 1 */
  guint peek_every;             /* loops from one probe to the next; at least 1 */
  float threshold;              /* what stable means: tau, margin, divergence, cumulated probability */
  TlExitFillMode fill;
  TlExitMemory *memory;         /* not owned; NULL: rows do not pause */
} TlExitRule;

/* "hidden-l2", "logit-margin", "kl", "entropy", "argmax", "gate"; -1: none of that name */
int tl_exit_find_criterion (const char *name);
/* all names, for messages; transfer full */
char *tl_exit_criterion_names (void);
/* its probes read logits, and so the coda planes of the positions before */
gboolean tl_exit_reads_logits (const TlExitRule *rule);
/* UNSUPPORTED: the program lacks what the rule looks at */
gboolean tl_exit_check (const TlExitRule *rule, const TlProgram *program, GError **error);

typedef struct _TlExit TlExit;

/* For rows first … first + n - 1 of a pass that has begun. The rule is copied. */
TlExit *tl_exit_new (const TlExitRule *rule, TlPass *pass, guint first, guint n);
/* Loops that may be run in one go before the next probe; 0 when a row that goes on deeper is to be looked at first. */
guint tl_exit_loops_to_probe (const TlExit *exit);
/* After loops: rows that are done are stopped and their planes filled. Errors: NUMERIC, CANCELLED. */
gboolean tl_exit_probe (TlExit *exit, GCancellable *cancellable, GError **error);
/* No more loops in this pass. depths: [n] the depth each row is read out at; or NULL. */
void tl_exit_end (TlExit *exit, guint *depths);
void tl_exit_free (TlExit *exit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlExit, tl_exit_free)

TlExitMemory *tl_exit_memory_new (const TlProgram *program, guint n_slots);
void tl_exit_memory_free (TlExitMemory *memory);
/* the row in this slot has exited: it is final, whatever depth it was to have */
gboolean tl_exit_memory_is_final (const TlExitMemory *memory, guint slot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlExitMemory, tl_exit_memory_free)

G_END_DECLS
