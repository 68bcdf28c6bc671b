/* engine/tl-sequence.c — TlSequence: a prefilled generator that replies are begun from.
 *
 * Until the first reply it is the conversation's running reply itself, so that nobody else gets a turn.
 */
#include "tl-sequence.h"

#include "tl-model-private.h"

struct _TlSequence
{
  GObject parent;
  TlConversation *conversation;
  TlGenerator *prompt;          /* through its prefill, never stepped */
  gint begun;                   /* atomic: somebody has the conversation's reply */
};

G_DEFINE_FINAL_TYPE (TlSequence, tl_sequence, G_TYPE_OBJECT)

static void
tl_sequence_finalize (GObject *object)
{
  TlSequence *self = TL_SEQUENCE (object);
  tl_conversation_abort (self->conversation, self->prompt);     /* does nothing once a reply has begun */
  g_object_unref (self->prompt);
  g_object_unref (self->conversation);
  G_OBJECT_CLASS (tl_sequence_parent_class)->finalize (object);
}

static void
tl_sequence_class_init (TlSequenceClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_sequence_finalize;
}

static void
tl_sequence_init (TlSequence *self)
{
}

TlSequence *
tl_conversation_prefill (TlConversation *self, GBytes *ids, TlGenerateConfig *config, TlHistory history,
    GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (TL_IS_CONVERSATION (self), NULL);
  g_autoptr (TlGenerator) prompt = tl_conversation_begin_prompt (self, ids, config, history, cancellable, error);
  if (!prompt)
    return NULL;
  if (!tl_generator_prefill (prompt, cancellable, error)) {
    tl_conversation_abort (self, prompt);
    return NULL;
  }
  TlSequence *sequence = g_object_new (TL_TYPE_SEQUENCE, NULL);
  sequence->conversation = g_object_ref (self);
  sequence->prompt = g_steal_pointer (&prompt);
  return sequence;
}

TlGenerator *
tl_sequence_begin (TlSequence *self, TlGenerateConfig *config, TlPromptPolicy policy, GError **error)
{
  g_return_val_if_fail (TL_IS_SEQUENCE (self), NULL);
  TlGenerator *reply = tl_model_begin_after (tl_conversation_get_model (self->conversation), self->prompt, config, error);
  if (reply && g_atomic_int_compare_and_exchange (&self->begun, FALSE, TRUE))
    tl_conversation_hand_over (self->conversation, self->prompt, reply, policy);
  return reply;
}

TlConversation *
tl_sequence_get_conversation (TlSequence *self)
{
  g_return_val_if_fail (TL_IS_SEQUENCE (self), NULL);
  return self->conversation;
}

GBytes *
tl_sequence_dup_tokens (TlSequence *self)
{
  g_return_val_if_fail (TL_IS_SEQUENCE (self), NULL);
  guint n;
  const guint32 *ids = tl_generator_prompt_ids (self->prompt, &n);
  return g_bytes_new (ids, n * sizeof (guint32));
}
