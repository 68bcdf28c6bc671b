/* engine/grammar/tl-grammar.h — TlGrammar: which texts may be generated; TlMatcher: where in it a generation stands.
 *
 * A grammar is made from a regex, bound once to a vocabulary and then immutable: any number of matchers in any threads share
 * it. A matcher belongs to one thread at a time: ask for a mask, advance by the token taken, roll back or fork.
 */
#pragma once

#include "grammar/tl-token-trie.h"

G_BEGIN_DECLS

/**
 * TlRegexFlags:
 * @TL_REGEX_NONE: Unicode: classes, case and word boundaries
 * @TL_REGEX_ASCII_CLASSES: \d \w \s \b and case are ASCII; `.` stays a code point
 * @TL_REGEX_BYTES: a pattern of bytes: `.` and classes match single bytes, everything is ASCII
 * @TL_REGEX_CASELESS: as if the pattern began with (?i)
 *
 * How a regex is read.
 */
typedef enum /*< flags >*/
{
  TL_REGEX_NONE = 0,
  TL_REGEX_ASCII_CLASSES = 1 << 0,
  TL_REGEX_BYTES = 1 << 1,
  TL_REGEX_CASELESS = 1 << 2,
} TlRegexFlags;

#define TL_TYPE_GRAMMAR (tl_grammar_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlGrammar, tl_grammar, TL, GRAMMAR, GObject)

#define TL_TYPE_MATCHER (tl_matcher_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlMatcher, tl_matcher, TL, MATCHER, GObject)

TL_API TlGrammar *tl_grammar_new_regex (const char *pattern, gssize length, TlRegexFlags flags, GError **error);
TL_API gboolean tl_grammar_set_vocabulary (TlGrammar *self, TlTokenTrie *vocabulary, GError **error);
TL_API gboolean tl_grammar_accepts (TlGrammar *self, GBytes *text, GError **error);
TL_API gboolean tl_grammar_has_vocabulary (TlGrammar *self);
TL_API TlMatcher *tl_grammar_create_matcher (TlGrammar *self, GError **error);

TL_API gboolean tl_matcher_fill_mask (TlMatcher *self, guint32 *words, gsize n_words, GError **error);
TL_API GBytes *tl_matcher_get_mask (TlMatcher *self, guint n_tokens, GError **error);
TL_API gboolean tl_matcher_advance (TlMatcher *self, gint32 id, GError **error);
TL_API guint tl_matcher_count_legal (TlMatcher *self, const gint32 *ids, gsize n_ids);
TL_API TlTokenTrie *tl_matcher_get_vocabulary (TlMatcher *self);
TL_API gboolean tl_matcher_is_accepting (TlMatcher *self);
TL_API gboolean tl_matcher_has_ended (TlMatcher *self);
TL_API gboolean tl_matcher_rollback (TlMatcher *self, guint n_tokens, GError **error);
TL_API TlMatcher *tl_matcher_fork (TlMatcher *self);

G_END_DECLS
