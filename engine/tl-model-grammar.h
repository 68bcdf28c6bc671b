/* tl-model-grammar.h — a model's vocabulary as grammars need it, and the grammars compiled for it; each made once.
 *
 * Owned by TlModel, with a lock of its own; usable from any thread.
 */
#pragma once

#include "grammar/tl-grammar.h"
#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

/* the tokenizer's vocabulary: special tokens never match text, all its end ids end a reply. transfer full */
TlTokenTrie *tl_token_trie_new_for_tokenizer (TlTokenizer *tokenizer, GError **error);

typedef struct _TlModelGrammars TlModelGrammars;

TlModelGrammars *tl_model_grammars_new (void);
void tl_model_grammars_free (TlModelGrammars *self);

/* the tokenizer's tokens; (transfer none), lives as long as @self */
TlTokenTrie *tl_model_grammars_vocabulary (TlModelGrammars *self, TlTokenizer *tokenizer, GError **error);
/* @source compiled and bound to that vocabulary; (transfer full) */
TlGrammar *tl_model_grammars_regex (TlModelGrammars *self, TlTokenizer *tokenizer, const char *source, GError **error);
/* a matcher for a reply of the model; an unbound grammar is bound to its vocabulary. tokenizer: or NULL. (transfer full) */
TlMatcher *tl_model_grammars_matcher (TlModelGrammars *self, TlTokenizer *tokenizer, guint vocab_size, TlGrammar *grammar,
  GError **error);

G_END_DECLS
