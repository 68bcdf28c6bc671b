/* engine/grammar/tl-automaton.c — interning of states, transition rows, and the memory they may take. */
#include "grammar/tl-automaton.h"

#include <string.h>

#define ROW_BYTES (256 * sizeof (guint32))

TlMask *
tl_mask_ref (TlMask *mask)
{
  g_atomic_ref_count_inc (&mask->refs);
  return mask;
}

void
tl_mask_unref (TlMask *mask)
{
  if (g_atomic_ref_count_dec (&mask->refs))
    g_free (mask);
}

TlState *
tl_state_ref (TlState *state)
{
  g_atomic_ref_count_inc (&state->refs);
  return state;
}

void
tl_state_unref (TlState *state)
{
  if (!g_atomic_ref_count_dec (&state->refs))
    return;
  g_clear_pointer (&state->mask, tl_mask_unref);
  g_free (state);
}

static guint
state_hash (gconstpointer state)
{
  return ((const TlState *) state)->hash;
}

/* all states of one automaton have the same stride: equal counts and equal words */
static gboolean
state_equal (gconstpointer a, gconstpointer b)
{
  const TlState *x = a, *y = b;
  guint stride = x->n ? x->words[0] : 0;
  return x->hash == y->hash && x->n == y->n && memcmp (x->words, y->words, (1 + (gsize) x->n * stride) * 4) == 0;
}

TlAutomaton *
tl_automaton_new (const TlNfa *nfa, gsize max_bytes)
{
  TlAutomaton *self = g_new0 (TlAutomaton, 1);
  self->nfa = nfa;
  self->max_bytes = max_bytes;
  self->stepper = tl_stepper_new (nfa);
  self->states = g_ptr_array_new_with_free_func ((GDestroyNotify) tl_state_unref);
  self->rows = g_ptr_array_new_with_free_func (g_free);
  self->interned = g_hash_table_new (state_hash, state_equal);
  self->horizons = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, g_free);
  return self;
}

void
tl_automaton_free (TlAutomaton *self)
{
  g_hash_table_unref (self->interned);
  g_hash_table_unref (self->horizons);
  g_ptr_array_unref (self->states);
  g_ptr_array_unref (self->rows);
  tl_stepper_free (self->stepper);
  g_free (self);
}

/* begins an operation: the only place where states are dropped, so ids hold until the next one */
void
tl_automaton_begin (TlAutomaton *self)
{
  self->failed = FALSE;
  tl_stepper_begin (self->stepper);
  if (self->bytes <= self->max_bytes)
    return;
  g_hash_table_remove_all (self->interned);
  g_hash_table_remove_all (self->horizons);
  g_ptr_array_set_size (self->states, 0);
  g_ptr_array_set_size (self->rows, 0);
  self->bytes = 0;
  self->epoch++;
}

static const guint32 *
configurations (const TlState *state)
{
  return state->words + 1;
}

/* the state of @n configurations, whose first word is the stride; (transfer none) */
static TlState *
intern (TlAutomaton *self, const guint32 *words, guint n)
{
  guint stride = tl_stepper_get_stride (self->stepper);
  gsize size = sizeof (TlState) + (1 + (gsize) n * stride) * 4;
  g_autofree TlState *state = g_malloc0 (size);
  state->n = n;
  state->words[0] = stride;
  if (n)
    memcpy (state->words + 1, words, (gsize) n * stride * 4);
  state->hash = 2166136261u;
  for (gsize i = 0; i < (gsize) n * stride; i++)
    state->hash = (state->hash ^ words[i]) * 16777619u, state->hash ^= state->hash >> 15;
  TlState *found = g_hash_table_lookup (self->interned, state);
  if (found)
    return found;

  for (guint i = 0; i < n; i++)
    state->accepting |= g_array_index (self->nfa->code, TlNfaInstruction, words[(gsize) i * stride]).op == TL_NFA_ACCEPT;
  g_atomic_ref_count_init (&state->refs);
  state->id = self->states->len;
  state->epoch = self->epoch;
  self->bytes += size + 64;
  self->failed |= self->bytes > 2 * self->max_bytes;
  found = g_steal_pointer (&state);
  g_ptr_array_add (self->states, found);
  g_ptr_array_add (self->rows, NULL);
  g_hash_table_add (self->interned, found);
  return found;
}

/* the state before the first byte; without configurations when nothing matches */
TlState *
tl_automaton_start (TlAutomaton *self)
{
  TlStep step = tl_stepper_start (self->stepper);
  self->failed |= step.failed;
  return intern (self, step.words, step.n);
}

/* @state, or its successor of the same configurations when it was dropped */
TlState *
tl_automaton_current (TlAutomaton *self, TlState *state)
{
  return state->epoch == self->epoch ? state : intern (self, configurations (state), state->n);
}

/* the state that stands for all that allow the same tokens as @state, if no token does more than @horizon iterations */
TlState *
tl_automaton_generalise (TlAutomaton *self, const TlState *state, guint horizon)
{
  gsize size = (gsize) state->n * state->words[0] * 4;
  g_autofree guint32 *words = g_memdup2 (configurations (state), size);
  guint n = tl_stepper_generalise (self->stepper, words, state->n, horizon);
  return intern (self, words, n);
}

/* the number kept for all states that differ from @state in their counters only; 0 at first */
guint *
tl_automaton_horizon (TlAutomaton *self, const TlState *state)
{
  guint stride = state->words[0];
  g_autofree guint32 *places = g_new (guint32, 2 * MAX (state->n, 1));
  guint n = 0;
  for (guint i = 0; i < state->n; i++) {
    const guint32 *c = configurations (state) + (gsize) i * stride;
    if (n && places[n - 2] == c[0] && places[n - 1] == c[1])
      continue;
    places[n++] = c[0];
    places[n++] = c[1];
  }
  GBytes *key = g_bytes_new (places, n * sizeof *places);
  guint *horizon = g_hash_table_lookup (self->horizons, key);
  if (horizon) {
    g_bytes_unref (key);
    return horizon;
  }
  horizon = g_new0 (guint, 1);
  self->bytes += n * sizeof *places + 96;
  g_hash_table_insert (self->horizons, key, horizon);
  return horizon;
}

/* the transitions of state @id */
guint32 *
tl_automaton_row (TlAutomaton *self, guint32 id)
{
  guint32 *row = g_ptr_array_index (self->rows, id);
  if (row)
    return row;
  self->bytes += ROW_BYTES;
  self->failed |= self->bytes > 2 * self->max_bytes;
  return self->rows->pdata[id] = g_malloc0 (ROW_BYTES);
}

/* computes a transition and those of all bytes that behave alike */
guint32
tl_automaton_make_edge (TlAutomaton *self, guint32 id, guint8 byte)
{
  const TlState *from = g_ptr_array_index (self->states, id);
  if (self->failed)
    return TL_EDGE_DEAD;
  TlStep step = tl_stepper_step (self->stepper, configurations (from), from->n, byte);
  if (step.failed) {
    self->failed = TRUE;
    return TL_EDGE_DEAD;
  }
  guint32 edge = TL_EDGE_DEAD, *row = g_ptr_array_index (self->rows, id);
  if (step.n)
    edge = (intern (self, step.words, step.n)->id + 2) | (step.counted ? TL_EDGE_COUNTED : 0);
  for (guint b = step.lo; b <= step.hi; b++)
    row[b] = edge;
  return edge;
}
