/* decode/tl-generation.h — what a generation gives: TlToken on the way, TlGeneration at the end.
 *
 * Both immutable after they were handed out. Made by TlGenerator.
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

/**
 * TlFinishReason:
 * @TL_FINISH_NONE: not finished
 * @TL_FINISH_LENGTH: max-tokens were generated
 * @TL_FINISH_STOP: a stop sequence or stop string
 * @TL_FINISH_EOS: an end-of-sequence id
 * @TL_FINISH_GRAMMAR_COMPLETE: the grammar allows nothing but the end
 * @TL_FINISH_CANCELLED: cancelled, or a callback asked to end
 * @TL_FINISH_DOWNSTREAM_EOS: the receiver wants no more
 * @TL_FINISH_ERROR: an error ended it
 *
 * Why a generation ended.
 */
typedef enum
{
  TL_FINISH_NONE,
  TL_FINISH_LENGTH,
  TL_FINISH_STOP,
  TL_FINISH_EOS,
  TL_FINISH_GRAMMAR_COMPLETE,
  TL_FINISH_CANCELLED,
  TL_FINISH_DOWNSTREAM_EOS,
  TL_FINISH_ERROR,
} TlFinishReason;

TL_API GType tl_finish_reason_get_type (void) G_GNUC_CONST;
#define TL_TYPE_FINISH_REASON (tl_finish_reason_get_type ())

/**
 * tl_finish_reason_to_string:
 * @reason: a reason
 *
 * Returns: (transfer none): "length", "stop", "eos", "grammar-complete", "cancelled", "downstream-eos", "error" or "none"
 */
TL_API const char *tl_finish_reason_to_string (TlFinishReason reason);

/**
 * TlToken:
 * @id: token id
 * @index: ordinal among the generated tokens, from 0
 * @position: absolute position in the sequence
 * @loops: loops its logits took
 * @special: an end-of-sequence or other special token, which gives no text
 * @cut: bytes at its end that belong to a stop string, not to the text; for tl_detokenizer_push_cut()
 * @finish: the reason when this is the last token, else %TL_FINISH_NONE
 * @measured: whether token-stats was asked for, so that what follows is known; else it is 0
 * @logprob: natural logarithm of the id's probability
 * @entropy: of the distribution that it comes from, in nats
 *
 * One generated token. Probabilities are the model's own, softmax of the logits at @loops: before penalties, grammar,
 * temperature and cuts.
 */
typedef struct
{
  gint32 id;
  guint index, position, loops;
  gboolean special;
  guint cut;
  TlFinishReason finish;
  gboolean measured;
  double logprob, entropy;
  /*< private >*/
  gpointer stats;
} TlToken;

TL_API GType tl_token_get_type (void) G_GNUC_CONST;
#define TL_TYPE_TOKEN (tl_token_get_type ())

/**
 * tl_token_copy:
 * @token: a token
 *
 * Returns: (transfer full): a copy
 */
TL_API TlToken *tl_token_copy (const TlToken *token);

/**
 * tl_token_free:
 * @token: (transfer full): a token
 */
TL_API void tl_token_free (TlToken *token);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlToken, tl_token_free)

/**
 * tl_token_get_n_alternatives:
 * @token: a token
 *
 * Returns: how many of the likeliest ids it knows: top-logprobs, with token-stats
 */
TL_API guint tl_token_get_n_alternatives (const TlToken *token);

/**
 * tl_token_get_alternative_id:
 * @token: a token
 * @index: below tl_token_get_n_alternatives(); 0 is the likeliest
 *
 * Returns: the id, which may be the token's own
 */
TL_API gint32 tl_token_get_alternative_id (const TlToken *token, guint index);

/**
 * tl_token_get_alternative_logprob:
 * @token: a token
 * @index: below tl_token_get_n_alternatives()
 *
 * Returns: natural logarithm of its probability
 */
TL_API double tl_token_get_alternative_logprob (const TlToken *token, guint index);

#define TL_TYPE_GENERATION (tl_generation_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlGeneration, tl_generation, TL, GENERATION, GObject)

/**
 * tl_generation_get_tokens_bytes:
 * @self: a result
 *
 * Returns: (transfer none): native int32 ids, prompt then generated
 */
TL_API GBytes *tl_generation_get_tokens_bytes (TlGeneration *self);

/**
 * tl_generation_get_text:
 * @self: a result
 *
 * The generated text without special tokens and without a stop string; %NULL when the model has no tokenizer.
 *
 * Returns: (transfer none) (nullable): UTF-8
 */
TL_API const char *tl_generation_get_text (TlGeneration *self);

/**
 * tl_generation_get_finish_reason:
 * @self: a result
 *
 * Returns: why it ended
 */
TL_API TlFinishReason tl_generation_get_finish_reason (TlGeneration *self);

/**
 * tl_generation_get_n_tokens:
 * @self: a result
 *
 * Returns: how many tokens were generated
 */
TL_API guint tl_generation_get_n_tokens (TlGeneration *self);

/**
 * tl_generation_get_token:
 * @self: a result
 * @index: below tl_generation_get_n_tokens()
 *
 * A generated token once more, with its loops and, with token-stats, its probabilities.
 *
 * Returns: (transfer full): the token
 */
TL_API TlToken *tl_generation_get_token (TlGeneration *self, guint index);

/**
 * TL_GENERATION_EXITS:
 *
 * Entries of #TlGenerationFigures.exits: loops 0 to 64.
 */
#define TL_GENERATION_EXITS 65

/**
 * TlGenerationFigures:
 * @prompt_tokens: ids of the prompt
 * @cached_tokens: of those before the prompt or in it, positions that were not computed anew
 * @tokens_emitted: generated ids
 * @loops: loops per token asked for
 * @loops_run: loops run for generated tokens, together
 * @prefill_ms: wall clock of the prompt's passes
 * @first_token_ms: from the beginning to the first token
 * @decode_steady_ms: from the first token to the last
 * @exact: %FALSE when the result may depend on time or fast arithmetic
 * @drafted: ids that were drafted at fewer loops and verified
 * @accepted: of those, ids that became part of the reply
 * @draft_calls: passes that drafted
 * @verify_calls: passes that verified drafts
 * @exits: generated tokens by the loops they took, from 0
 *
 * Counters and timings of a generation.
 */
typedef struct
{
  guint prompt_tokens, cached_tokens, tokens_emitted, loops;
  guint64 loops_run;
  double prefill_ms, first_token_ms, decode_steady_ms;
  gboolean exact;
  guint drafted, accepted, draft_calls, verify_calls;
  guint exits[TL_GENERATION_EXITS];
  /*< private >*/
  guint64 reserved[8];
} TlGenerationFigures;

/**
 * tl_generation_get_figures:
 * @self: a result
 * @figures: (out caller-allocates): filled in
 */
TL_API void tl_generation_get_figures (TlGeneration *self, TlGenerationFigures *figures);

G_END_DECLS
