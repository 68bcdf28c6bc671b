/* engine/tl-conversation.c — TlConversation: head, running reply, and those who wait.
 *
 * The lock guards everything; nobody runs a pass under it. The head is ids and, behind them, a run whose sequence may be
 * a few tokens short (the last sampled token has not been through a pass); the next prompt brings it up to date.
 */
#include "tl-conversation.h"

#include "tl-model-private.h"

struct _TlConversation
{
  GObject parent;
  TlModel *model;
  TlPrefixPool *pool;           /* or NULL */
  GMutex lock;
  GCond changed;
  GArray *head;                 /* guint32 */
  guint reply_begin;            /* where the last reply begins in head */
  TlModelRun *run;              /* of head, or NULL */
  TlGenerator *reply;           /* running, or a prompt that waits for its reply, or NULL */
  TlPromptPolicy policy;        /* of the reply: what a prompt does that is prefilled meanwhile */
};

G_DEFINE_FINAL_TYPE (TlConversation, tl_conversation, G_TYPE_OBJECT)

#define DEFINE_ENUM(Name, name, ...) \
  GType name##_get_type (void) \
  { \
    static gsize type = 0; \
    static const GEnumValue values[] = { __VA_ARGS__, { 0, NULL, NULL } }; \
    if (g_once_init_enter (&type)) \
      g_once_init_leave (&type, g_enum_register_static (#Name, values)); \
    return type; \
  }
DEFINE_ENUM (TlPromptPolicy, tl_prompt_policy, { TL_PROMPT_QUEUE, "TL_PROMPT_QUEUE", "queue" },
  { TL_PROMPT_INTERRUPT, "TL_PROMPT_INTERRUPT", "interrupt" }, { TL_PROMPT_DROP, "TL_PROMPT_DROP", "drop" })
DEFINE_ENUM (TlHistory, tl_history, { TL_HISTORY_DEFAULT, "TL_HISTORY_DEFAULT", "default" },
  { TL_HISTORY_KEEP, "TL_HISTORY_KEEP", "keep" }, { TL_HISTORY_NONE, "TL_HISTORY_NONE", "none" })
DEFINE_ENUM (TlConversationState, tl_conversation_state, { TL_CONVERSATION_IDLE, "TL_CONVERSATION_IDLE", "idle" },
  { TL_CONVERSATION_PREFILL, "TL_CONVERSATION_PREFILL", "prefill" },
  { TL_CONVERSATION_DECODE, "TL_CONVERSATION_DECODE", "decode" })

static void
tl_conversation_finalize (GObject *object)
{
  TlConversation *self = TL_CONVERSATION (object);
  g_clear_object (&self->reply);
  g_clear_pointer (&self->run, tl_model_run_free);
  g_clear_object (&self->pool);
  g_object_unref (self->model);
  g_array_unref (self->head);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  G_OBJECT_CLASS (tl_conversation_parent_class)->finalize (object);
}

static void
tl_conversation_class_init (TlConversationClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_conversation_finalize;
}

static void
tl_conversation_init (TlConversation *self)
{
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  self->head = g_array_new (FALSE, FALSE, sizeof (guint32));
}

TlConversation *
tl_conversation_new (TlModel *model)
{
  g_return_val_if_fail (TL_IS_MODEL (model), NULL);
  TlConversation *self = g_object_new (TL_TYPE_CONVERSATION, NULL);
  self->model = g_object_ref (model);
  return self;
}

void
tl_conversation_set_prefix_pool (TlConversation *self, TlPrefixPool *pool)
{
  g_return_if_fail (TL_IS_CONVERSATION (self));
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  g_set_object (&self->pool, pool);
}

static void
wake (GCancellable *cancellable, gpointer data)
{
  TlConversation *self = data;
  g_mutex_lock (&self->lock);
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
}

TlModel *
tl_conversation_get_model (TlConversation *self)
{
  return self->model;
}

/* until no reply runs; called and left without the lock. policy: NULL = the running reply's */
static gboolean
wait_for_turn (TlConversation *self, const TlPromptPolicy *policy, GCancellable *cancellable, GError **error)
{
  gulong link = cancellable ? g_cancellable_connect (cancellable, G_CALLBACK (wake), self, NULL) : 0;
  gboolean cancelled = FALSE, dropped = FALSE;
  g_mutex_lock (&self->lock);
  while (self->reply && !cancelled && !dropped) {
    TlPromptPolicy now = policy ? *policy : self->policy;
    dropped = now == TL_PROMPT_DROP;
    cancelled = cancellable && g_cancellable_is_cancelled (cancellable);
    if (now == TL_PROMPT_INTERRUPT)
      tl_generator_cancel (self->reply);
    if (!dropped && !cancelled)
      g_cond_wait (&self->changed, &self->lock);
  }
  g_mutex_unlock (&self->lock);
  if (cancellable)
    g_cancellable_disconnect (cancellable, link);
  if (cancelled || dropped) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CANCELLED, dropped ? "the prompt was dropped: a reply is running"
        : "waiting for the running reply was cancelled");
    return FALSE;
  }
  return TRUE;
}

static TlGenerator *
begin (TlConversation *self, GBytes *ids, TlGenerateConfig *config, const TlPromptPolicy *policy, TlHistory history,
    GCancellable *cancellable, GError **error)
{
  gsize n_prompt;
  const guint32 *prompt = tl_ids_from_bytes (ids, &n_prompt, error);
  if (!prompt)
    return NULL;

  for (;;) {
    if (!wait_for_turn (self, policy, cancellable, error))
      return NULL;
    g_mutex_lock (&self->lock);
    if (!self->reply)
      break;                    /* nobody was faster */
    g_mutex_unlock (&self->lock);
  }
  gboolean keep = history == TL_HISTORY_KEEP
      || (history == TL_HISTORY_DEFAULT && tl_model_get_keeps_history (self->model));
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (guint32));
  if (keep)
    g_array_append_vals (all, self->head->data, self->head->len);
  g_array_append_vals (all, prompt, n_prompt);
  TlBeginning on = { .ids = (guint32 *) all->data, .n_ids = all->len, .n_prompt = n_prompt,
    .base = keep ? self->run : NULL, .pool = self->pool, .ceiling = TRUE };
  TlGenerator *reply = tl_model_begin_on (self->model, &on, config, error);
  if (reply)
    self->reply = g_object_ref (reply);
  self->policy = TL_PROMPT_QUEUE;
  g_mutex_unlock (&self->lock);
  return reply;
}

TlGenerator *
tl_conversation_begin (TlConversation *self, GBytes *ids, TlGenerateConfig *config, TlPromptPolicy policy,
    TlHistory history, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (TL_IS_CONVERSATION (self), NULL);
  return begin (self, ids, config, &policy, history, cancellable, error);
}

TlGenerator *
tl_conversation_begin_prompt (TlConversation *self, GBytes *ids, TlGenerateConfig *config, TlHistory history,
    GCancellable *cancellable, GError **error)
{
  return begin (self, ids, config, NULL, history, cancellable, error);
}

void
tl_conversation_hand_over (TlConversation *self, TlGenerator *prompt, TlGenerator *reply, TlPromptPolicy policy)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->reply != prompt)
    return;                     /* the conversation was reset */
  g_set_object (&self->reply, reply);
  self->policy = policy;
  g_cond_broadcast (&self->changed);
}

static void
end_reply (TlConversation *self)
{
  g_clear_object (&self->reply);
  g_cond_broadcast (&self->changed);
}

gboolean
tl_conversation_commit (TlConversation *self, TlGenerator *reply, guint n_pushed)
{
  g_return_val_if_fail (TL_IS_CONVERSATION (self) && TL_IS_GENERATOR (reply), FALSE);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->reply != reply)
    return FALSE;

  guint n_ids, n_tokens;
  const guint32 *ids = tl_generator_prompt_ids (reply, &n_ids), *tokens = tl_generator_tokens (reply, &n_tokens);
  TlModelRun *run = tl_model_run_fork (tl_generator_source_data (reply));
  g_array_set_size (self->head, 0);
  g_array_append_vals (self->head, ids, n_ids);
  g_array_append_vals (self->head, tokens, MIN (n_pushed, n_tokens));
  self->reply_begin = n_ids;
  tl_model_run_truncate (run, self->head->len);
  g_clear_pointer (&self->run, tl_model_run_free);
  self->run = run;
  end_reply (self);
  return TRUE;
}

void
tl_conversation_abort (TlConversation *self, TlGenerator *reply)
{
  g_return_if_fail (TL_IS_CONVERSATION (self) && TL_IS_GENERATOR (reply));
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->reply == reply)
    end_reply (self);
}

gboolean
tl_conversation_truncate (TlConversation *self, guint n_tokens)
{
  g_return_val_if_fail (TL_IS_CONVERSATION (self), FALSE);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->reply || !self->run)
    return FALSE;
  guint length = MIN (self->head->len, self->reply_begin + MIN (n_tokens, self->head->len));
  g_array_set_size (self->head, length);
  tl_model_run_truncate (self->run, length);
  return TRUE;
}

void
tl_conversation_reset (TlConversation *self)
{
  g_return_if_fail (TL_IS_CONVERSATION (self));
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->reply) {
    tl_generator_cancel (self->reply);
    end_reply (self);
  }
  g_array_set_size (self->head, 0);
  self->reply_begin = 0;
  g_clear_pointer (&self->run, tl_model_run_free);
}

TlConversationState
tl_conversation_get_state (TlConversation *self)
{
  g_return_val_if_fail (TL_IS_CONVERSATION (self), TL_CONVERSATION_IDLE);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (!self->reply)
    return TL_CONVERSATION_IDLE;
  return tl_generator_is_prefilling (self->reply) ? TL_CONVERSATION_PREFILL : TL_CONVERSATION_DECODE;
}

GBytes *
tl_conversation_dup_tokens (TlConversation *self)
{
  g_return_val_if_fail (TL_IS_CONVERSATION (self), NULL);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  return g_bytes_new (self->head->data, self->head->len * sizeof (guint32));
}
