/* engine/text/tl-chat-template.h — TlChatTemplate: messages to the prompt text a chat model was trained on.
 *
 * ChatML is built in; a model's own Jinja template is run by a small interpreter. Immutable, usable from any thread.
 */
#pragma once

#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

#define TL_TYPE_CHAT_TEMPLATE (tl_chat_template_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlChatTemplate, tl_chat_template, TL, CHAT_TEMPLATE, GObject)

/**
 * TlChatFlags:
 * @TL_CHAT_NONE: the messages only
 * @TL_CHAT_ADD_GENERATION_PROMPT: end with what begins the assistant's reply
 *
 * How messages are rendered.
 */
typedef enum /*< flags >*/
{
  TL_CHAT_NONE = 0,
  TL_CHAT_ADD_GENERATION_PROMPT = 1 << 0,
} TlChatFlags;

/**
 * TlChatMessage:
 * @role: `system`, `user`, `assistant` …
 * @content: UTF-8 text
 *
 * One message of a conversation.
 */
typedef struct
{
  const char *role;
  const char *content;
} TlChatMessage;

TL_API TlChatTemplate *tl_chat_template_new (const char *jinja, const char *bos_token, const char *eos_token, GError **error);
TL_API char *tl_chat_template_render (TlChatTemplate *self, const TlChatMessage *messages, gsize n_messages,
    TlChatFlags flags, GError **error);
TL_API char *tl_chat_template_render_strv (TlChatTemplate *self, const char *const *roles, const char *const *contents,
    TlChatFlags flags, GError **error);

/**
 * TlChatTurn: (skip)
 * @chat_template: (nullable): auto (the tokenizer's own template, or the form its special tokens give away), none, chatml,
 *   command, or a Jinja template; %NULL is auto
 * @system: (nullable): the system message, of a first turn
 * @role: who speaks, mostly "user"
 * @text: what is said; special tokens in it are plain text
 * @first: nothing of the conversation is in the sequence yet
 *
 * What somebody says in a conversation.
 */
typedef struct
{
  const char *chat_template, *system, *role, *text;
  gboolean first;
} TlChatTurn;

/**
 * tl_tokenizer_encode_turn: (skip)
 * @self: a tokenizer
 * @turn: a turn
 * @n_head: (out): of the ids, those that stand before the text
 * @error: TL_ERROR_UNSUPPORTED for a template that is not known, and as tl_chat_template_render()
 *
 * The prompt of a turn, ending with what begins the reply; without template and form the text alone (with the
 * beginning-of-sequence token of a tokenizer that adds one, in a first turn).
 *
 * Returns: (transfer full): int32 ids
 */
TL_API GArray *tl_tokenizer_encode_turn (TlTokenizer *self, const TlChatTurn *turn, guint *n_head, GError **error);

/**
 * tl_tokenizer_encode_chat_bytes:
 * @self: a tokenizer
 * @system: (nullable): the system message
 * @text: what the user says; special tokens in it are plain text
 * @error: as tl_tokenizer_encode_turn()
 *
 * The prompt of a user's first turn, dressed in the tokenizer's own way.
 *
 * Returns: (transfer full): int32 ids in native byte order
 */
TL_API GBytes *tl_tokenizer_encode_chat_bytes (TlTokenizer *self, const char *system, const char *text, GError **error);

/**
 * tl_tokenizer_has_chat:
 * @self: a tokenizer
 *
 * Returns: whether it has a chat template, or special tokens that stand for one
 */
TL_API gboolean tl_tokenizer_has_chat (TlTokenizer *self);

G_END_DECLS
