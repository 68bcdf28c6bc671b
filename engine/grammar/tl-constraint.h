/* engine/grammar/tl-constraint.h — a compiled grammar, alone or bound to a vocabulary, and the position in it after some tokens.
 *
 * A constraint is immutable to its users and shared by threads: its lock guards the lazily built automaton and the masks
 * memoised there. A position is an immutable node of a tree (parent = one token before), so that fork copies a pointer and
 * rollback follows parents.
 */
#pragma once

#include "grammar/tl-automaton.h"
#include "grammar/tl-token-trie-private.h"

G_BEGIN_DECLS

typedef struct
{
  gatomicrefcount refs;
  TlNfa *nfa;
  TlTokenTrie *trie;            /* or NULL: no vocabulary yet */
  GMutex lock;                  /* guards `automaton` and the masks of its states */
  TlAutomaton *automaton;
} TlConstraint;

typedef struct _TlPosition TlPosition;
struct _TlPosition
{
  gatomicrefcount refs;
  TlPosition *parent;           /* NULL at the beginning */
  TlState *state;
  gboolean ended;               /* by an end token */
};

TlConstraint *tl_constraint_new (TlRegexTree *tree, TlTokenTrie *trie, gsize max_bytes, GError **error);
TlConstraint *tl_constraint_ref (TlConstraint *self);
void tl_constraint_unref (TlConstraint *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlConstraint, tl_constraint_unref)

gboolean tl_constraint_accepts (TlConstraint *self, const guint8 *bytes, gsize length, gboolean *accepted, GError **error);
TlPosition *tl_constraint_begin (TlConstraint *self, GError **error);
TlPosition *tl_constraint_advance (TlConstraint *self, TlPosition *from, gint32 id, GError **error);
TlMask *tl_constraint_mask (TlConstraint *self, const TlPosition *at, GError **error);
TlPosition *tl_position_ref (TlPosition *position);
void tl_position_unref (TlPosition *position);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlPosition, tl_position_unref)

G_END_DECLS
