/* engine/grammar/tl-constraint.c — walking the vocabulary's trie through the automaton: token masks, and tokens taken. */
#include "grammar/tl-constraint.h"

#include <string.h>

static TlConstraint *
constraint_new (TlNfa *nfa, TlTokenTrie *trie, gsize max_bytes)
{
  TlConstraint *self = g_new0 (TlConstraint, 1);
  g_atomic_ref_count_init (&self->refs);
  g_mutex_init (&self->lock);
  self->nfa = nfa;
  self->trie = trie ? g_object_ref (trie) : NULL;
  self->automaton = tl_automaton_new (nfa, max_bytes);
  return self;
}

/* @tree compiled; UNSUPPORTED when a limit is passed */
TlConstraint *
tl_constraint_new (TlRegexTree *tree, TlTokenTrie *trie, gsize max_bytes, GError **error)
{
  g_autoptr (TlNfa) nfa = tl_nfa_compile (tree, error);
  if (!nfa)
    return NULL;
  TlConstraint *self = constraint_new (g_steal_pointer (&nfa), trie, max_bytes);
  if (self->nfa->has_asserts && !tl_stepper_mark_dead (self->automaton->stepper, self->nfa)) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
        "tinyloop: regex: too many ways through its word boundaries or line anchors; use smaller counts");
    g_clear_pointer (&self, tl_constraint_unref);
  }
  return self;
}

TlConstraint *
tl_constraint_ref (TlConstraint *self)
{
  g_atomic_ref_count_inc (&self->refs);
  return self;
}

void
tl_constraint_unref (TlConstraint *self)
{
  if (!g_atomic_ref_count_dec (&self->refs))
    return;
  tl_automaton_free (self->automaton);
  tl_nfa_free (self->nfa);
  g_clear_object (&self->trie);
  g_mutex_clear (&self->lock);
  g_free (self);
}

TlPosition *
tl_position_ref (TlPosition *position)
{
  g_atomic_ref_count_inc (&position->refs);
  return position;
}

void
tl_position_unref (TlPosition *position)
{
  while (position && g_atomic_ref_count_dec (&position->refs)) {
    TlPosition *parent = position->parent;
    tl_state_unref (position->state);
    g_free (position);
    position = parent;
  }
}

static TlPosition *
position_new (TlPosition *parent, TlState *state, gboolean ended)
{
  TlPosition *position = g_new0 (TlPosition, 1);
  g_atomic_ref_count_init (&position->refs);
  position->parent = parent ? tl_position_ref (parent) : NULL;
  position->state = tl_state_ref (state);
  position->ended = ended;
  return position;
}

static gboolean
within_limits (const TlAutomaton *automaton, GError **error)
{
  if (!automaton->failed)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_NO_MEMORY,
      "tinyloop: grammar: too many alternatives are open at once here; use smaller counts or fewer overlapping repetitions");
  return FALSE;
}

/* the state after @bytes, or NULL when no match begins like that; the caller holds the lock */
static TlState *
walk (TlAutomaton *automaton, TlState *state, const guint8 *bytes, gsize length)
{
  guint32 id = tl_automaton_current (automaton, state)->id;
  for (gsize i = 0; i < length; i++) {
    guint32 edge = tl_automaton_edge (automaton, tl_automaton_row (automaton, id), id, bytes[i]);
    if (edge == TL_EDGE_DEAD || automaton->failed)
      return NULL;
    id = TL_EDGE_STATE (edge);
  }
  return g_ptr_array_index (automaton->states, id);
}

/* does the whole of @bytes match? FALSE with NO_MEMORY: a limit was passed before that was known */
gboolean
tl_constraint_accepts (TlConstraint *self, const guint8 *bytes, gsize length, gboolean *accepted, GError **error)
{
  const gsize stretch = 4096;   /* bytes an operation may take, so that states can be dropped in between */
  g_mutex_lock (&self->lock);
  tl_automaton_begin (self->automaton);
  TlState *state = tl_state_ref (tl_automaton_start (self->automaton));
  for (gsize at = 0; state && at < length; at += stretch) {
    tl_automaton_begin (self->automaton);
    TlState *next = walk (self->automaton, state, bytes + at, MIN (stretch, length - at));
    tl_state_unref (state);
    state = next ? tl_state_ref (next) : NULL;
  }
  *accepted = state && state->accepting;
  if (state)
    tl_state_unref (state);
  gboolean known = within_limits (self->automaton, error);
  g_mutex_unlock (&self->lock);
  return known;
}

/* the position before the first token */
TlPosition *
tl_constraint_begin (TlConstraint *self, GError **error)
{
  TlPosition *position = NULL;
  g_mutex_lock (&self->lock);
  tl_automaton_begin (self->automaton);
  TlState *state = tl_automaton_start (self->automaton);
  if (within_limits (self->automaton, error))
    position = position_new (NULL, state, FALSE);
  g_mutex_unlock (&self->lock);
  return position;
}

static TlPosition *
refuse (gint32 id, const char *why, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: grammar: token %d is not legal: %s", id, why);
  return NULL;
}

/* the position after token @id; INVALID_ARGUMENT when it is not legal */
TlPosition *
tl_constraint_advance (TlConstraint *self, TlPosition *from, gint32 id, GError **error)
{
  if (from->ended)
    return refuse (id, "the text has ended", error);
  if (tl_token_trie_is_end (self->trie, id))
    return from->state->accepting ? position_new (from, from->state, TRUE) : refuse (id, "the text cannot end here", error);
  gsize length = 0;
  const guint8 *bytes = id >= 0 && (guint) id < self->trie->vocab_size ? tl_token_trie_bytes (self->trie, id, &length) : NULL;
  if (!length)
    return refuse (id, "it stands for no text", error);

  TlPosition *position = NULL;
  g_mutex_lock (&self->lock);
  tl_automaton_begin (self->automaton);
  TlState *state = walk (self->automaton, from->state, bytes, length);
  if (state)
    position = position_new (from, state, FALSE);
  else if (within_limits (self->automaton, error))
    refuse (id, "no match goes on like that", error);
  g_mutex_unlock (&self->lock);
  return position;
}

/* ---- masks */

typedef struct
{
  guint32 id, counted;          /* state; steps on the way to it that counted */
  guint32 *row;
} Step;

/* sets the bits of the tokens that some path from state @id spells; the most counting steps any of them took */
static guint
mark_tokens (TlConstraint *self, guint32 id, guint32 *bits)
{
  TlAutomaton *automaton = self->automaton;
  const TlTrieNode *nodes = (const TlTrieNode *) self->trie->nodes->data;
  g_autofree Step *path = g_new (Step, self->trie->max_depth + 1);
  guint32 n = self->trie->nodes->len, most = 0;
  path[0] = (Step) { id, 0, tl_automaton_row (automaton, id) };
  for (guint32 i = 0; i < n && !automaton->failed;) {
    const TlTrieNode *node = &nodes[i];
    const Step *at = &path[node->depth];
    guint32 edge = tl_automaton_edge (automaton, at->row, at->id, node->byte);
    if (edge == TL_EDGE_DEAD) {
      i = node->skip;
      continue;
    }
    guint32 counted = at->counted + (edge >> 31);
    most = MAX (most, counted);
    for (gint32 token = node->token; token >= 0; token = self->trie->same[token])
      bits[token >> 5] |= 1u << (token & 31);
    if (node->skip > i + 1)
      path[node->depth + 1] = (Step) { TL_EDGE_STATE (edge), counted, tl_automaton_row (automaton, TL_EDGE_STATE (edge)) };
    i++;
  }
  return most;
}

static guint
mask_n_words (const TlTokenTrie *trie)
{
  return (trie->vocab_size + 31) / 32;
}

static TlMask *
mask_new (TlConstraint *self, const TlState *state, guint *counted)
{
  guint n_words = mask_n_words (self->trie);
  TlMask *mask = g_malloc0 (sizeof (TlMask) + n_words * sizeof (guint32));
  g_atomic_ref_count_init (&mask->refs);
  *counted = mark_tokens (self, state->id, mask->words);
  for (guint i = 0; i < n_words; i++)
    mask->n_legal += __builtin_popcount (mask->words[i]);
  self->automaton->bytes += n_words * sizeof (guint32);
  return mask;
}

/* the mask of @state: its own, that of a state alike but for its counters, or a new one; (transfer none) */
static TlMask *
mask_of (TlConstraint *self, TlState *state)
{
  TlAutomaton *automaton = self->automaton;
  guint *horizon = self->nfa->max_depth ? tl_automaton_horizon (automaton, state) : NULL, counted;
  if (horizon && *horizon) {
    TlState *general = tl_automaton_generalise (automaton, state, *horizon);
    if (general->mask)
      return state->mask = tl_mask_ref (general->mask);
  }
  TlMask *mask = mask_new (self, state, &counted);
  if (automaton->failed) {
    tl_mask_unref (mask);
    return NULL;
  }
  state->mask = mask;
  if (horizon) {
    *horizon = MAX (*horizon, counted + 1);
    TlState *general = tl_automaton_generalise (automaton, state, *horizon);
    if (!general->mask)
      general->mask = tl_mask_ref (mask);
  }
  return mask;
}

/* the ordinary tokens legal at @at; end tokens are legal exactly when its state accepts. NO_MEMORY: a limit was passed */
TlMask *
tl_constraint_mask (TlConstraint *self, const TlPosition *at, GError **error)
{
  g_mutex_lock (&self->lock);
  tl_automaton_begin (self->automaton);
  TlState *state = tl_automaton_current (self->automaton, at->state);
  TlMask *mask = state->mask ? state->mask : mask_of (self, state);
  if (mask)
    tl_mask_ref (mask);
  else
    within_limits (self->automaton, error);
  g_mutex_unlock (&self->lock);
  return mask;
}
