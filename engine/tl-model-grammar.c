/* engine/tl-model-grammar.c — joins tokenizer and grammars: one trie a model, one compiled grammar a source. */
#include "tl-model-grammar.h"

#include <string.h>

#include "grammar/tl-token-trie-private.h"

#define MAX_COMPILED 32         /* all are dropped when one more comes */

struct _TlModelGrammars
{
  GMutex lock;                  /* guards what follows */
  TlTokenTrie *vocabulary;      /* or NULL: nobody has asked */
  GHashTable *regexes;          /* source → TlGrammar */
};

TlModelGrammars *
tl_model_grammars_new (void)
{
  TlModelGrammars *self = g_new0 (TlModelGrammars, 1);
  g_mutex_init (&self->lock);
  self->regexes = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  return self;
}

void
tl_model_grammars_free (TlModelGrammars *self)
{
  g_clear_object (&self->vocabulary);
  g_hash_table_unref (self->regexes);
  g_mutex_clear (&self->lock);
  g_free (self);
}

TlTokenTrie *
tl_token_trie_new_for_tokenizer (TlTokenizer *tokenizer, GError **error)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (GArray) offsets = g_array_new (FALSE, FALSE, sizeof (gint32));
  gint32 at = 0;
  gsize n_end;
  const gint32 *end = tl_tokenizer_get_eos (tokenizer, &n_end);

  g_array_append_val (offsets, at);
  for (guint id = 0; id < tl_tokenizer_get_vocab_size (tokenizer); id++) {
    g_autoptr (GBytes) piece = tl_tokenizer_token_bytes (tokenizer, id);
    if (piece && !tl_tokenizer_is_special (tokenizer, id) && g_bytes_get_size (piece))
      g_byte_array_append (bytes, g_bytes_get_data (piece, NULL), g_bytes_get_size (piece));
    at = bytes->len;
    g_array_append_val (offsets, at);
  }
  g_autoptr (GBytes) all = g_bytes_new (bytes->data, bytes->len);
  g_autoptr (GBytes) table = g_bytes_new (offsets->data, offsets->len * sizeof (gint32));
  g_autoptr (GBytes) ends = g_bytes_new (end, n_end * sizeof (gint32));
  return tl_token_trie_new (all, table, ends, error);
}

/* with lock */
static TlTokenTrie *
vocabulary (TlModelGrammars *self, TlTokenizer *tokenizer, GError **error)
{
  if (!tokenizer)
    g_set_error_literal (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "a grammar needs to know what tokens spell, and the model has"
        " no tokenizer; bind the grammar to a vocabulary of your own");
  else if (!self->vocabulary)
    self->vocabulary = tl_token_trie_new_for_tokenizer (tokenizer, error);
  return self->vocabulary;
}

TlTokenTrie *
tl_model_grammars_vocabulary (TlModelGrammars *self, TlTokenizer *tokenizer, GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  return vocabulary (self, tokenizer, error);
}

TlGrammar *
tl_model_grammars_regex (TlModelGrammars *self, TlTokenizer *tokenizer, const char *source, GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  TlGrammar *known = g_hash_table_lookup (self->regexes, source);
  TlTokenTrie *trie = known ? NULL : vocabulary (self, tokenizer, error);
  if (known)
    return g_object_ref (known);
  if (!trie)
    return NULL;

  g_autoptr (TlGrammar) grammar = tl_grammar_new_regex (source, -1, TL_REGEX_NONE, error);
  if (!grammar || !tl_grammar_set_vocabulary (grammar, trie, error))
    return NULL;
  if (g_hash_table_size (self->regexes) >= MAX_COMPILED)
    g_hash_table_remove_all (self->regexes);
  g_hash_table_insert (self->regexes, g_strdup (source), g_object_ref (grammar));
  return g_steal_pointer (&grammar);
}

/* every token of @given is left out, special, or spelt as the model spells it */
static gboolean
is_spelt_alike (const TlTokenTrie *given, const TlTokenTrie *own, TlTokenizer *tokenizer)
{
  for (guint id = 0; id < given->vocab_size; id++) {
    gsize n, m = 0;
    const guint8 *a = tl_token_trie_bytes (given, id, &n), *b = id < own->vocab_size ? tl_token_trie_bytes (own, id, &m) : NULL;
    if (n && !(n == m && !memcmp (a, b, n)) && !tl_tokenizer_is_special (tokenizer, id))
      return FALSE;
  }
  return TRUE;
}

TlMatcher *
tl_model_grammars_matcher (TlModelGrammars *self, TlTokenizer *tokenizer, guint vocab_size, TlGrammar *grammar, GError **error)
{
  gboolean bound = tl_grammar_has_vocabulary (grammar);
  TlTokenTrie *own = tokenizer || !bound ? tl_model_grammars_vocabulary (self, tokenizer, error) : NULL;
  if ((!own && (tokenizer || !bound)) || (!bound && !tl_grammar_set_vocabulary (grammar, own, error)))
    return NULL;

  g_autoptr (TlMatcher) matcher = tl_grammar_create_matcher (grammar, error);
  TlTokenTrie *given = matcher ? tl_matcher_get_vocabulary (matcher) : NULL;
  if (given && given != own && (given->vocab_size > vocab_size || (own && !is_spelt_alike (given, own, tokenizer)))) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
        "tinyloop: grammar: it is bound to a vocabulary that is not the model's; make a new grammar");
    return NULL;
  }
  return g_steal_pointer (&matcher);
}
