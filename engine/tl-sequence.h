/* tl-sequence.h — TlSequence: a prompt that is through the model and waits for its reply.
 *
 * Immutable and shareable among threads. Made by tl_conversation_prefill(), where the work on a prompt is to be done apart
 * from its reply, or once for several replies. The first tl_sequence_begin() goes on with the conversation; every other one
 * decodes a fork, which sees the same prompt and is never written back. While the first is not begun or not committed the
 * conversation is busy; a sequence that is dropped before leaves the conversation as it was before the prompt.
 */
#pragma once

#include "tl-conversation.h"

G_BEGIN_DECLS

#define TL_TYPE_SEQUENCE (tl_sequence_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlSequence, tl_sequence, TL, SEQUENCE, GObject)

/**
 * tl_conversation_prefill:
 * @self: a conversation
 * @ids: native int32 ids of the prompt, at least one
 * @config: (nullable): loops, kv-mode, cache-window, exact-activations, state-seed and chunk-size are used, and hold for the
 *   replies too
 * @history: whether the prompt sees the head
 * @cancellable: (nullable): ends the wait and the work, at least once per loop
 * @error: return location
 *
 * Waits by the policy that the last tl_sequence_begin() named (queue before the first), then runs the prompt's passes.
 * Errors: as tl_conversation_begin() and tl_generator_prefill().
 *
 * Returns: (transfer full): the sequence
 */
TL_API TlSequence *tl_conversation_prefill (TlConversation *self, GBytes *ids, TlGenerateConfig *config,
    TlHistory history, GCancellable *cancellable, GError **error);

/**
 * tl_sequence_begin:
 * @self: a sequence
 * @config: (nullable): parameters, copied; max-tokens is a ceiling that is cut to the room left, loops 0 means the
 *   sequence's; with other loops than the sequence's the last token of the prompt goes through the model again
 * @policy: what a prompt does that comes to the conversation while this reply runs
 * @error: return location
 *
 * Runs no pass. Errors: CLOSED, INVALID_ARGUMENT, NO_MEMORY.
 *
 * Returns: (transfer full): the reply's generator, to be given back to the conversation by commit or abort
 */
TL_API TlGenerator *tl_sequence_begin (TlSequence *self, TlGenerateConfig *config, TlPromptPolicy policy,
    GError **error);

/**
 * tl_sequence_get_conversation:
 * @self: a sequence
 *
 * Returns: (transfer none): the conversation the prompt belongs to
 */
TL_API TlConversation *tl_sequence_get_conversation (TlSequence *self);

/**
 * tl_sequence_dup_tokens:
 * @self: a sequence
 *
 * Returns: (transfer full): native int32 ids: what the prompt saw, and the prompt
 */
TL_API GBytes *tl_sequence_dup_tokens (TlSequence *self);

G_END_DECLS
