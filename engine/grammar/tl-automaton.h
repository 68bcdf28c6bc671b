/* engine/grammar/tl-automaton.h — the lazy DFA over an NFA: states are made when a byte first leads to them.
 *
 * Rows of 256 transitions, states interned by their configurations, everything dropped and begun again when the memory limit
 * is passed; a state that somebody still holds survives that and is interned anew on use. Not thread-safe by itself: the
 * constraint's lock guards it.
 */
#pragma once

#include "grammar/tl-stepper.h"

G_BEGIN_DECLS

#define TL_AUTOMATON_MAX_BYTES (32 * 1024 * 1024)

#define TL_EDGE_UNKNOWN 0u
#define TL_EDGE_DEAD 1u
#define TL_EDGE_COUNTED (1u << 31)                      /* a counter went up on the way */
#define TL_EDGE_STATE(edge) (((edge) & ~TL_EDGE_COUNTED) - 2)

/* the tokens legal in a state; immutable */
typedef struct
{
  gatomicrefcount refs;
  guint n_legal;
  guint32 words[];              /* bit i = token i */
} TlMask;

typedef struct
{
  gatomicrefcount refs;
  guint32 id, epoch;            /* index in this epoch's automaton */
  guint32 hash, n;              /* configurations */
  gboolean accepting;
  TlMask *mask;                 /* or NULL */
  guint32 words[];
} TlState;

typedef struct
{
  const TlNfa *nfa;
  TlStepper *stepper;
  GPtrArray *states;            /* TlState; index = id */
  GPtrArray *rows;              /* guint32[256] or NULL */
  GHashTable *interned;         /* TlState → itself */
  GHashTable *horizons;         /* counters left out of a state's words → iterations a token can do there, plus 1 */
  guint32 epoch;
  gsize bytes, max_bytes;
  gboolean failed;              /* the running operation passed a limit */
} TlAutomaton;

TlMask *tl_mask_ref (TlMask *mask);
void tl_mask_unref (TlMask *mask);
TlState *tl_state_ref (TlState *state);
void tl_state_unref (TlState *state);

TlAutomaton *tl_automaton_new (const TlNfa *nfa, gsize max_bytes);
void tl_automaton_free (TlAutomaton *self);
void tl_automaton_begin (TlAutomaton *self);
TlState *tl_automaton_start (TlAutomaton *self);
TlState *tl_automaton_current (TlAutomaton *self, TlState *state);
TlState *tl_automaton_generalise (TlAutomaton *self, const TlState *state, guint horizon);
guint *tl_automaton_horizon (TlAutomaton *self, const TlState *state);
guint32 *tl_automaton_row (TlAutomaton *self, guint32 id);
guint32 tl_automaton_make_edge (TlAutomaton *self, guint32 id, guint8 byte);

/* where @byte leads from state @id, whose row is @row */
static inline guint32
tl_automaton_edge (TlAutomaton *self, const guint32 *row, guint32 id, guint8 byte)
{
  return row[byte] != TL_EDGE_UNKNOWN ? row[byte] : tl_automaton_make_edge (self, id, byte);
}

G_END_DECLS
