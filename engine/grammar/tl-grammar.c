/* engine/grammar/tl-grammar.c — TlGrammar and TlMatcher: the public face of constraints and positions. */
#include "grammar/tl-grammar.h"

#include <string.h>

#include "grammar/tl-constraint.h"
#include "grammar/tl-regex.h"

struct _TlGrammar
{
  GObject parent;
  TlRegexTree *tree;
  GMutex lock;                  /* guards the exchange of `constraint` by set_vocabulary */
  TlConstraint *constraint;
};

struct _TlMatcher
{
  GObject parent;
  TlConstraint *constraint;
  TlPosition *position;
};

G_DEFINE_FINAL_TYPE (TlGrammar, tl_grammar, G_TYPE_OBJECT)
G_DEFINE_FINAL_TYPE (TlMatcher, tl_matcher, G_TYPE_OBJECT)

/* ---- grammar */

static void
tl_grammar_finalize (GObject *object)
{
  TlGrammar *self = TL_GRAMMAR (object);
  g_clear_pointer (&self->tree, tl_regex_tree_free);
  g_clear_pointer (&self->constraint, tl_constraint_unref);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (tl_grammar_parent_class)->finalize (object);
}

static void
tl_grammar_class_init (TlGrammarClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_grammar_finalize;
}

static void
tl_grammar_init (TlGrammar *self)
{
  g_mutex_init (&self->lock);
}

/**
 * tl_grammar_new_regex:
 * @pattern: a regex that the whole text must match
 * @length: bytes of @pattern, or -1 when it ends with NUL
 * @flags: how it is read
 * @error: return location
 *
 * Compiles a regex. INVALID_ARGUMENT: a syntax error or a limit, with its byte position; UNSUPPORTED: a construct that is not
 * regular (back-references, look-around, possessive …), by name, or a pattern too large.
 *
 * Returns: (transfer full): a grammar without vocabulary
 */
TlGrammar *
tl_grammar_new_regex (const char *pattern, gssize length, TlRegexFlags flags, GError **error)
{
  g_return_val_if_fail (pattern, NULL);
  TlSyntax syntax = (flags & TL_REGEX_ASCII_CLASSES ? TL_SYNTAX_ASCII : 0) | (flags & TL_REGEX_BYTES ? TL_SYNTAX_BYTES : 0)
      | (flags & TL_REGEX_CASELESS ? TL_SYNTAX_CASELESS : 0);
  g_autoptr (TlRegexTree) tree = tl_regex_parse (pattern, length < 0 ? strlen (pattern) : length, syntax, error);
  g_autoptr (TlConstraint) constraint = tree ? tl_constraint_new (tree, NULL, TL_AUTOMATON_MAX_BYTES, error) : NULL;
  if (!constraint)
    return NULL;
  TlGrammar *self = g_object_new (TL_TYPE_GRAMMAR, NULL);
  self->tree = g_steal_pointer (&tree);
  self->constraint = g_steal_pointer (&constraint);
  return self;
}

static TlConstraint *
constraint_of (TlGrammar *self)
{
  g_mutex_lock (&self->lock);
  TlConstraint *constraint = tl_constraint_ref (self->constraint);
  g_mutex_unlock (&self->lock);
  return constraint;
}

/**
 * tl_grammar_set_vocabulary:
 * @self: a grammar
 * @vocabulary: what tokens spell
 * @error: return location
 *
 * Binds the grammar to a vocabulary, once: again with one of the same tokens is no error, with another INVALID_ARGUMENT.
 *
 * Returns: whether the grammar is bound to @vocabulary now
 */
gboolean
tl_grammar_set_vocabulary (TlGrammar *self, TlTokenTrie *vocabulary, GError **error)
{
  gboolean bound = TRUE;
  g_mutex_lock (&self->lock);
  if (!self->constraint->trie) {
    TlConstraint *constraint = tl_constraint_new (self->tree, vocabulary, TL_AUTOMATON_MAX_BYTES, error);
    bound = constraint != NULL;
    if (constraint) {
      tl_constraint_unref (self->constraint);
      self->constraint = constraint;
    }
  } else if (!tl_token_trie_equal (self->constraint->trie, vocabulary)) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
        "tinyloop: grammar: it is bound to another vocabulary; make a new grammar");
    bound = FALSE;
  }
  g_mutex_unlock (&self->lock);
  return bound;
}

/**
 * tl_grammar_has_vocabulary:
 * @self: a grammar
 *
 * Returns: whether it is bound to a vocabulary
 */
gboolean
tl_grammar_has_vocabulary (TlGrammar *self)
{
  g_autoptr (TlConstraint) constraint = constraint_of (self);
  return constraint->trie != NULL;
}

/**
 * tl_grammar_accepts:
 * @self: a grammar
 * @text: bytes
 * @error: return location
 *
 * Needs no vocabulary.
 *
 * Returns: whether the whole of @text matches; %FALSE with NO_MEMORY when a limit was passed first
 */
gboolean
tl_grammar_accepts (TlGrammar *self, GBytes *text, GError **error)
{
  g_autoptr (TlConstraint) constraint = constraint_of (self);
  gsize length;
  const guint8 *bytes = g_bytes_get_data (text, &length);
  gboolean accepted;
  return tl_constraint_accepts (constraint, bytes, length, &accepted, error) && accepted;
}

/**
 * tl_grammar_create_matcher:
 * @self: a grammar with vocabulary
 * @error: return location
 *
 * Returns: (transfer full): a matcher at the beginning; %NULL with INVALID_ARGUMENT when no vocabulary is set
 */
TlMatcher *
tl_grammar_create_matcher (TlGrammar *self, GError **error)
{
  g_autoptr (TlConstraint) constraint = constraint_of (self);
  if (!constraint->trie) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
        "tinyloop: grammar: it has no vocabulary; call tl_grammar_set_vocabulary() first");
    return NULL;
  }
  g_autoptr (TlPosition) position = tl_constraint_begin (constraint, error);
  if (!position)
    return NULL;
  TlMatcher *matcher = g_object_new (TL_TYPE_MATCHER, NULL);
  matcher->constraint = g_steal_pointer (&constraint);
  matcher->position = g_steal_pointer (&position);
  return matcher;
}

/* ---- matcher */

static void
tl_matcher_finalize (GObject *object)
{
  TlMatcher *self = TL_MATCHER (object);
  g_clear_pointer (&self->position, tl_position_unref);
  g_clear_pointer (&self->constraint, tl_constraint_unref);
  G_OBJECT_CLASS (tl_matcher_parent_class)->finalize (object);
}

static void
tl_matcher_class_init (TlMatcherClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_matcher_finalize;
}

static void
tl_matcher_init (TlMatcher *self)
{
}

/**
 * tl_matcher_fill_mask: (skip)
 * @self: a matcher
 * @words: (array length=n_words): bit i of word i/32 becomes 1 where token i is legal; ids beyond the vocabulary get 0
 * @n_words: as many as the logits need
 * @error: return location
 *
 * Sets DEAD_END when no token is legal and the text cannot end either; NO_MEMORY when a limit was passed. @words are 0 then.
 * After an end token the mask is empty without error.
 */
gboolean
tl_matcher_fill_mask (TlMatcher *self, guint32 *words, gsize n_words, GError **error)
{
  const TlTokenTrie *trie = self->constraint->trie;
  memset (words, 0, n_words * sizeof *words);
  if (self->position->ended)
    return TRUE;
  TlMask *mask = tl_constraint_mask (self->constraint, self->position, error);
  if (!mask)
    return FALSE;
  gboolean accepting = self->position->state->accepting, stuck = mask->n_legal == 0 && !accepting;
  memcpy (words, mask->words, MIN (n_words, (trie->vocab_size + 31) / 32) * sizeof *words);
  for (guint i = 0; accepting && i < trie->end_ids->len; i++) {
    gint32 id = g_array_index (trie->end_ids, gint32, i);
    if ((gsize) id / 32 < n_words)
      words[id / 32] |= 1u << (id % 32);
  }
  tl_mask_unref (mask);
  if (stuck)
    g_set_error (error, TL_ERROR, TL_ERROR_DEAD_END,
        "tinyloop: grammar: no token of this vocabulary goes on from here and the text cannot end here");
  return !stuck;
}

/**
 * tl_matcher_get_mask:
 * @self: a matcher
 * @n_tokens: how many ids to tell about; 0: the vocabulary's
 * @error: return location
 *
 * Returns: (transfer full): bit i%8 of byte i/8 is 1 where token i is legal, padded to whole 32-bit words;
 *   errors as tl_matcher_fill_mask()
 */
GBytes *
tl_matcher_get_mask (TlMatcher *self, guint n_tokens, GError **error)
{
  gsize n_words = ((gsize) (n_tokens ? n_tokens : self->constraint->trie->vocab_size) + 31) / 32;
  g_autofree guint32 *words = g_new (guint32, n_words + 1);
  if (!tl_matcher_fill_mask (self, words, n_words, error))
    return NULL;
  if (n_tokens % 32)
    words[n_words - 1] &= (1u << n_tokens % 32) - 1;
  for (gsize i = 0; i < n_words; i++)
    words[i] = GUINT32_TO_LE (words[i]);
  return g_bytes_new_take (g_steal_pointer (&words), n_words * 4);
}

/**
 * tl_matcher_advance:
 * @self: a matcher
 * @id: the token taken
 * @error: return location
 *
 * Returns: whether @id is legal; if not, INVALID_ARGUMENT, and the matcher stays where it is
 */
gboolean
tl_matcher_advance (TlMatcher *self, gint32 id, GError **error)
{
  TlPosition *next = tl_constraint_advance (self->constraint, self->position, id, error);
  if (!next)
    return FALSE;
  tl_position_unref (self->position);
  self->position = next;
  return TRUE;
}

/**
 * tl_matcher_count_legal:
 * @self: a matcher
 * @ids: (array length=n_ids): a draft
 * @n_ids: its length
 *
 * The matcher stays where it is.
 *
 * Returns: how many of @ids, from the first on, are legal one after the other
 */
guint
tl_matcher_count_legal (TlMatcher *self, const gint32 *ids, gsize n_ids)
{
  g_autoptr (TlPosition) at = tl_position_ref (self->position);
  for (gsize i = 0; i < n_ids; i++) {
    TlPosition *next = tl_constraint_advance (self->constraint, at, ids[i], NULL);
    if (!next)
      return i;
    tl_position_unref (at);
    at = next;
  }
  return n_ids;
}

/**
 * tl_matcher_get_vocabulary:
 * @self: a matcher
 *
 * Returns: (transfer none): what its tokens spell
 */
TlTokenTrie *
tl_matcher_get_vocabulary (TlMatcher *self)
{
  return self->constraint->trie;
}

/**
 * tl_matcher_is_accepting:
 * @self: a matcher
 *
 * Returns: whether the text so far matches, so that an end token is legal
 */
gboolean
tl_matcher_is_accepting (TlMatcher *self)
{
  return self->position->state->accepting;
}

/**
 * tl_matcher_has_ended:
 * @self: a matcher
 *
 * Returns: whether an end token was taken
 */
gboolean
tl_matcher_has_ended (TlMatcher *self)
{
  return self->position->ended;
}

/**
 * tl_matcher_rollback:
 * @self: a matcher
 * @n_tokens: tokens to take back, end tokens included
 * @error: return location
 *
 * Returns: %FALSE with INVALID_ARGUMENT, and nothing changed, when fewer tokens were taken
 */
gboolean
tl_matcher_rollback (TlMatcher *self, guint n_tokens, GError **error)
{
  TlPosition *to = self->position;
  for (guint i = 0; i < n_tokens && to; i++)
    to = to->parent;
  if (!to) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: grammar: fewer than %u tokens can be taken back",
        n_tokens);
    return FALSE;
  }
  tl_position_ref (to);
  tl_position_unref (self->position);
  self->position = to;
  return TRUE;
}

/**
 * tl_matcher_fork:
 * @self: a matcher
 *
 * Returns: (transfer full): another matcher at the same place; costs one reference
 */
TlMatcher *
tl_matcher_fork (TlMatcher *self)
{
  TlMatcher *fork = g_object_new (TL_TYPE_MATCHER, NULL);
  fork->constraint = tl_constraint_ref (self->constraint);
  fork->position = tl_position_ref (self->position);
  return fork;
}
