/* cache/tl-pass.h — runs rows on a backend and keeps their sequences true: the driver of decode and score.
 *
 * Two levels. `tl_pass_run()` takes tokens of one sequence from prefill to logits, in chunks. The staged form takes rows of
 * any sequences and depths through begin → loops (one or all at a time) → finish, so that a caller may look between loops
 * (early exit, deadline), stop rows, or keep their states and go deeper later (drafts, resume):
 *
 *   TlPass *pass = tl_pass_begin (backend, rows, n, states, NULL, &error);
 *   tl_pass_loops (pass, 1, …);  tl_pass_read_state (pass, row, TL_STATE_H, h);  tl_pass_stop_row (pass, row);
 *   tl_pass_finish (pass, …);  tl_pass_free (pass);
 *
 * Entries of the backend are not locked: one at a time. Making, ending and freeing a pass is no entry; any thread may do it
 * for sequences it owns.
 */
#pragma once

#include "cache/tl-sequence.h"

G_BEGIN_DECLS

/* --- one sequence, tokens in, logits out --- */
typedef enum { TL_DELIVER_NONE, TL_DELIVER_LAST, TL_DELIVER_ALL } TlDeliver;

typedef struct
{
  guint loops;                  /* 0 = the descriptor's default */
  guint chunk;                  /* rows of a pass; 0 = 128 */
  TlDeliver deliver;            /* which rows' logits (and hidden) are wanted */
  gboolean uncached;            /* recompute everything in a throw-away sequence, whole in one batch (TINYLOOP_DISABLE_KV_CACHE=1 too) */
  guint64 state_seed;           /* random initial states */
  gboolean zero_state;          /* initial states zero instead of random */
  const float *initial_state;   /* given ones: [n_initial][d_model], row t for absolute position t; or NULL */
  guint n_initial;
  TlStates *keep_states;        /* row states end up here, slot = keep_slot + index of the token; or NULL */
  guint keep_slot;
  float *logits;                /* [1 or n][vocab_size], or NULL */
  float *hidden;                /* [1 or n][d_model]: the state after the last loop; or NULL */
  float *trace;                 /* [n][tl_program_trace_length][d_model] (every row), or NULL */
  float *lens;                  /* [loops][n][vocab_size]: logits of every row after every loop; or NULL */
} TlPassOptions;

/* A row of a lens sees coda planes of its own depth. A sequence keeps those of one depth, so for programs with a coda the
 * tokens of a lens go through in one piece and must be the sequence's first. True also where chunks would only make everything
 * be recomputed: without a cache. */
gboolean tl_pass_lens_is_whole (TlBackend *backend);

/* Appends n tokens to the sequence and computes them. Errors: NO_MEMORY (needed and free bytes), INVALID_ARGUMENT (token
 * out of range, loops outside of min … max, n = 0), NUMERIC, CANCELLED (polled once per loop), UNSUPPORTED. After an error
 * the sequence has its old length. */
gboolean tl_pass_run (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n,
  const TlPassOptions *options, GCancellable *cancellable, GError **error);

/* --- rows of any sequences --- */
typedef struct
{
  TlKvSequence *sequence;
  guint position;               /* the sequence's length (further rows of it follow on), or below: a resumed row */
  guint32 token;
  guint depth;                  /* 0: a new row; else its state stands in `slot` at this depth */
  guint stop;                   /* loops in total; >= depth */
  guint slot;                   /* in the given states; unique in a pass (ignored without states) */
  const float *initial_state;   /* [d_model] or NULL */
  float *logits;                /* [vocab_size] or NULL */
  float *hidden;                /* [d_model] or NULL */
  float *trace;                 /* or NULL */
} TlPassRow;

typedef struct _TlPass TlPass;

/* Rows are copied; those of one sequence stand in position order without gaps. Reserves pages up to each row's stop and runs
 * the pre stack of new rows. states: NULL = the pass's own, dropped with it (then all rows must be new). */
TlPass *tl_pass_begin (TlBackend *backend, const TlPassRow *rows, guint n_rows, TlStates *states,
  GCancellable *cancellable, GError **error);
/* at most n more loops for each row (G_MAXUINT = up to its stop); stopped rows' deeper planes are filled by copies */
gboolean tl_pass_loops (TlPass *pass, guint n, GCancellable *cancellable, GError **error);
guint tl_pass_row_depth (const TlPass *pass, guint row);
gboolean tl_pass_row_is_going (const TlPass *pass, guint row);   /* has loops to go */
TlProgram *tl_pass_program (const TlPass *pass);
guint tl_pass_row_slot (const TlPass *pass, guint row);          /* in the states of the pass */
gboolean tl_pass_row_delivers (const TlPass *pass, guint row);   /* its logits are wanted */
void tl_pass_read_state (TlPass *pass, guint row, TlStatePart part, float *out);
void tl_pass_write_state (TlPass *pass, guint row, TlStatePart part, const float *in);
/* early exit: the row takes no further loops */
void tl_pass_stop_row (TlPass *pass, guint row);
/* The same, but the planes of the loops it leaves out hold K and V projected from its state, instead of copies. */
gboolean tl_pass_propagate (TlPass *pass, guint row, GCancellable *cancellable, GError **error);
/* Logits of a row as if it stopped now (probe of early exit): runs coda and head on a copy of its state; writes no page of
 * the sequence. [vocab_size] */
gboolean tl_pass_peek (TlPass *pass, guint row, float *logits, GCancellable *cancellable, GError **error);
/* coda and head, outputs, tokens and depths committed. Without it nothing of a pass is visible in the sequences. */
gboolean tl_pass_finish (TlPass *pass, GCancellable *cancellable, GError **error);
void tl_pass_free (TlPass *pass);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlPass, tl_pass_free)

/* --- several passes at once --- */
/* tl_pass_begin() without the pre stack: rows checked, pages ready. cancellable: looked at in every entry that follows. */
TlPass *tl_pass_new (TlBackend *backend, const TlPassRow *rows, guint n_rows, TlStates *states,
  GCancellable *cancellable, GError **error);
/* The stages of several passes of one backend, their rows in one entry. One that fails drops out; the others do not notice. */
void tl_passes_whole (TlPass **passes, guint n);       /* pre, loops and post for new rows; those of a sequence of one stop */
void tl_passes_pre (TlPass **passes, guint n);
void tl_passes_loops (TlPass **passes, guint n, guint loops);
void tl_passes_post (TlPass **passes, guint n);
guint tl_pass_loops_left (const TlPass *pass);         /* until its last row is at its stop; 0 for one that failed */
gboolean tl_pass_failed (const TlPass *pass);
void tl_pass_fail (TlPass *pass, const GError *error); /* as if an entry had failed it */
/* after post: tokens and depths committed; or FALSE and why the pass failed */
gboolean tl_pass_end (TlPass *pass, GError **error);

/* the same where everything is computed again (without a cache, on devices that run whole sequences): rows of any depths, run
 * to their stops; start: where initial states come from, or NULL */
gboolean tl_pass_recompute (TlBackend *backend, const TlPassRow *rows, guint n_rows, const TlPassOptions *start,
  GCancellable *cancellable, GError **error);

/* TINYLOOP_DISABLE_KV_CACHE=1: every tl_pass_run() recomputes its sequence from the first token */
gboolean tl_pass_cache_is_disabled (void);

/* the row's start state by the family's rule and these options; FALSE when the program needs none. out: [d_model] */
gboolean tl_pass_initial_state (TlProgram *program, const TlPassOptions *options, guint position, float *out);

G_END_DECLS
