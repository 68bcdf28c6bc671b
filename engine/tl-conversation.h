/* tl-conversation.h — TlConversation: the sequence between turns, and who may go on with it.
 *
 * The head is what was said and heard so far. A prompt begins on a fork of it; committing makes the fork the head, with
 * exactly the tokens that were pushed on; aborting leaves the head as it was. One reply at a time: while one runs, a
 * further begin waits, interrupts or is refused, as its policy says. All functions may be called from any thread.
 *
 *   TlGenerator *reply = tl_conversation_begin (c, ids, config, TL_PROMPT_QUEUE, TL_HISTORY_DEFAULT, cancellable, &error);
 *   … tl_generator_step (reply, …) …
 *   tl_conversation_commit (c, reply, n_pushed);   or   tl_conversation_abort (c, reply);
 */
#pragma once

#include "tl-model.h"
#include "tl-prefix-pool.h"

G_BEGIN_DECLS

/**
 * TlPromptPolicy:
 * @TL_PROMPT_QUEUE: wait for the running reply
 * @TL_PROMPT_INTERRUPT: cancel it and wait for its commit (at most a pass)
 * @TL_PROMPT_DROP: refuse the new prompt
 *
 * What a prompt does that comes while a reply runs.
 */
typedef enum
{
  TL_PROMPT_QUEUE,
  TL_PROMPT_INTERRUPT,
  TL_PROMPT_DROP,
} TlPromptPolicy;

TL_API GType tl_prompt_policy_get_type (void) G_GNUC_CONST;
#define TL_TYPE_PROMPT_POLICY (tl_prompt_policy_get_type ())

/**
 * TlHistory:
 * @TL_HISTORY_DEFAULT: as the checkpoint says
 * @TL_HISTORY_KEEP: the prompt sees earlier turns
 * @TL_HISTORY_NONE: the prompt stands alone
 *
 * Whether a prompt sees earlier turns.
 */
typedef enum
{
  TL_HISTORY_DEFAULT,
  TL_HISTORY_KEEP,
  TL_HISTORY_NONE,
} TlHistory;

TL_API GType tl_history_get_type (void) G_GNUC_CONST;
#define TL_TYPE_HISTORY (tl_history_get_type ())

/**
 * TlConversationState:
 * @TL_CONVERSATION_IDLE: nothing runs
 * @TL_CONVERSATION_PREFILL: a prompt is being read
 * @TL_CONVERSATION_DECODE: a reply is being generated
 *
 * What a conversation does at the moment.
 */
typedef enum
{
  TL_CONVERSATION_IDLE,
  TL_CONVERSATION_PREFILL,
  TL_CONVERSATION_DECODE,
} TlConversationState;

TL_API GType tl_conversation_state_get_type (void) G_GNUC_CONST;
#define TL_TYPE_CONVERSATION_STATE (tl_conversation_state_get_type ())

#define TL_TYPE_CONVERSATION (tl_conversation_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlConversation, tl_conversation, TL, CONVERSATION, GObject)

/**
 * tl_conversation_new:
 * @model: a model; loaded before the first prompt begins
 *
 * Returns: (transfer full): an empty conversation
 */
TL_API TlConversation *tl_conversation_new (TlModel *model);

/**
 * tl_conversation_set_prefix_pool:
 * @self: a conversation
 * @pool: (nullable): where prompts that begin from now on look for what was computed before
 */
TL_API void tl_conversation_set_prefix_pool (TlConversation *self, TlPrefixPool *pool);

/**
 * tl_conversation_begin:
 * @self: a conversation
 * @ids: native int32 ids of the prompt, at least one
 * @config: (nullable): parameters, copied; max-tokens is a ceiling that is cut to the room left
 * @policy: what to do while a reply runs
 * @history: whether the prompt sees the head
 * @cancellable: (nullable): ends the wait
 * @error: return location
 *
 * Runs no pass. Errors: CLOSED, INVALID_ARGUMENT, SEQUENCE_TOO_LONG (history and prompt leave no room), NO_MEMORY,
 * CANCELLED (the wait, or policy drop).
 *
 * Returns: (transfer full): the reply's generator, to be given back by commit or abort
 */
TL_API TlGenerator *tl_conversation_begin (TlConversation *self, GBytes *ids, TlGenerateConfig *config,
    TlPromptPolicy policy, TlHistory history, GCancellable *cancellable, GError **error);

/**
 * tl_conversation_commit:
 * @self: a conversation
 * @reply: the running reply
 * @n_pushed: how many of its tokens the listener got
 *
 * Head := what the prompt saw, the prompt, and the first @n_pushed tokens. Wakes who waits.
 *
 * Returns: FALSE when @reply is not the conversation's (a fork, or the conversation was reset): nothing changed
 */
TL_API gboolean tl_conversation_commit (TlConversation *self, TlGenerator *reply, guint n_pushed);

/**
 * tl_conversation_abort:
 * @self: a conversation
 * @reply: the running reply
 *
 * The head is as before the prompt. Wakes who waits.
 */
TL_API void tl_conversation_abort (TlConversation *self, TlGenerator *reply);

/**
 * tl_conversation_truncate:
 * @self: an idle conversation
 * @n_tokens: tokens of the last committed reply to keep
 *
 * Forgets what the listener did not hear.
 *
 * Returns: %FALSE while a reply runs or when there is none
 */
TL_API gboolean tl_conversation_truncate (TlConversation *self, guint n_tokens);

/**
 * tl_conversation_reset:
 * @self: a conversation
 *
 * Cancels a running reply and empties the head; the reply's commit is then ignored.
 */
TL_API void tl_conversation_reset (TlConversation *self);

/**
 * tl_conversation_get_state:
 * @self: a conversation
 *
 * Returns: what it does at the moment
 */
TL_API TlConversationState tl_conversation_get_state (TlConversation *self);

/**
 * tl_conversation_dup_tokens:
 * @self: a conversation
 *
 * Returns: (transfer full): native int32 ids of the head
 */
TL_API GBytes *tl_conversation_dup_tokens (TlConversation *self);

G_END_DECLS
