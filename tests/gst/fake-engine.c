/* tests/gst/fake-engine.c — the engine interface of the elements with scripted tokens: no model, no time, no chance.
 *
 * Paths: "missing…" and "garbage…" do not open, "notokenizer…" has no text, "memory…" has no memory for a conversation;
 * any other opens, and its name is its vocabulary. A test can block a step or a load on a condition and release it.
 */
#include "fake-engine.h"
#include "tl-engine.h"

#include <string.h>

typedef struct { GObject parent; char *path, *hash; } FakeModel;
typedef struct { GObjectClass parent; } FakeModelClass;
GType fake_model_get_type (void);
G_DEFINE_TYPE (FakeModel, fake_model, G_TYPE_OBJECT)

typedef struct { GObject parent; guint64 seed; guint numbers[32]; double reals[32]; gboolean flags[32]; char **stop; GObject *grammar; } FakeConfig;
typedef struct { GObjectClass parent; } FakeConfigClass;
GType fake_config_get_type (void);
G_DEFINE_TYPE (FakeConfig, fake_config, G_TYPE_OBJECT)

typedef struct { GObject parent; guint last; gpointer reply; int policy; } FakeConversation;   /* reply: running, or its sequence */
typedef struct { GObjectClass parent; } FakeConversationClass;
GType fake_conversation_get_type (void);
G_DEFINE_TYPE (FakeConversation, fake_conversation, G_TYPE_OBJECT)

typedef struct { GObject parent; FakeConversation *conversation; guint n_prompt; } FakeSequence;
typedef struct { GObjectClass parent; } FakeSequenceClass;
GType fake_sequence_get_type (void);
G_DEFINE_TYPE (FakeSequence, fake_sequence, G_TYPE_OBJECT)

struct _TlEngineReply { FakeConversation *conversation; guint n_prompt, next, max, loops, top; gboolean prefilled, measures; int cancelled; };
struct _TlEngineDetokenizer { GByteArray *held; gboolean skip_special; };

static GMutex lock;
static GCond changed;
static GPtrArray *script;
static int fail_at = -1, block_at = -1;
static gboolean blocked, load_blocked;
static char *grammar;
static guint committed, truncated, truncations, loads, models, replies, sequences, updates;

#define SPECIAL_EOS 9999

/* ---- control */

#define SET(statement) do { g_mutex_lock (&lock); statement; g_cond_broadcast (&changed); g_mutex_unlock (&lock); } while (0)

void
fake_engine_script (const char *const *pieces, guint n)
{
  if (!script)
    script = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_set_size (script, 0);
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (script, g_strdup (pieces[i]));
}

void fake_engine_reset (void) { SET (fail_at = block_at = -1; load_blocked = FALSE; committed = truncated = truncations = 0); }
void fake_engine_fail_at (int token) { SET (fail_at = token); }
void fake_engine_block_at (int token) { SET (block_at = token); }
void fake_engine_release (void) { SET (block_at = -1); }
void fake_engine_block_load (gboolean block) { SET (load_blocked = block); }
guint fake_engine_committed (void) { return committed; }
guint fake_engine_truncated (void) { return truncated; }
guint fake_engine_truncations (void) { return truncations; }
guint fake_engine_loads (void) { return loads; }
guint fake_engine_models_alive (void) { return models; }
guint fake_engine_replies_alive (void) { return replies; }
guint fake_engine_sequences_alive (void) { return sequences; }
const char *fake_engine_grammar (void) { return grammar; }
guint fake_engine_updates (void) { return updates; }

void
fake_engine_wait_blocked (void)
{
  g_mutex_lock (&lock);
  while (!blocked)
    g_cond_wait (&changed, &lock);
  g_mutex_unlock (&lock);
}

/* A loader's thread may hold the last reference a moment longer than the pipeline: up to ten seconds for it to let go. */
guint
fake_engine_models_left (void)
{
  gint64 end = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;
  g_mutex_lock (&lock);
  while (models && g_cond_wait_until (&changed, &lock, end))
    continue;
  guint left = models;
  g_mutex_unlock (&lock);
  return left;
}

/* ---- model */

static void
fake_model_finalize (GObject *object)
{
  g_free (((FakeModel *) object)->path);
  g_free (((FakeModel *) object)->hash);
  SET (models--);
  G_OBJECT_CLASS (fake_model_parent_class)->finalize (object);
}

static void fake_model_class_init (FakeModelClass *klass) { G_OBJECT_CLASS (klass)->finalize = fake_model_finalize; }
static void fake_model_init (FakeModel *self) { SET (models++); }

GObject *
tl_engine_model_open (const char *path, const char *device, guint64 max_cache_bytes, GError **error)
{
  if (g_str_has_prefix (path, "missing") || g_str_has_prefix (path, "garbage")) {
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "tinyloop: %s: no such file, or not a model", path);
    return NULL;
  }
  FakeModel *model = g_object_new (fake_model_get_type (), NULL);
  model->path = g_strdup (path);
  model->hash = g_strdup_printf ("vocab-of-%s", path);
  return G_OBJECT (model);
}

static void
on_cancel (GCancellable *cancellable, gpointer data)
{
  SET ();
}

gboolean
tl_engine_model_load (GObject *model, TlEngineProgress progress, gpointer data, GCancellable *cancellable, GError **error)
{
  gulong id = g_cancellable_connect (cancellable, G_CALLBACK (on_cancel), NULL, NULL);

  progress (50, data);
  g_mutex_lock (&lock);
  loads++;
  while (load_blocked && !g_cancellable_is_cancelled (cancellable))
    g_cond_wait (&changed, &lock);
  g_mutex_unlock (&lock);
  g_cancellable_disconnect (cancellable, id);
  return !g_cancellable_set_error_if_cancelled (cancellable, error);
}

const char *tl_engine_model_vocab_hash (GObject *model) { return ((FakeModel *) model)->hash; }
guint tl_engine_model_vocab_size (GObject *model) { return 10000; }
guint tl_engine_model_context_size (GObject *model) { return 64; }
gboolean tl_engine_model_keeps_history (GObject *model) { return FALSE; }

/* ---- text */

static gboolean
has_text (GObject *model, GError **error)
{
  if (!g_str_has_prefix (((FakeModel *) model)->path, "notokenizer"))
    return TRUE;
  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "the model has no tokenizer");
  return FALSE;
}

GArray *
tl_engine_encode_turn (GObject *model, const TlEngineTurn *turn, guint *n_head, GError **error)
{
  if (!has_text (model, error))
    return NULL;
  gboolean system = turn->system_prompt && turn->first;
  g_autofree char *head = system ? g_strdup_printf ("%s|", turn->system_prompt) : g_strdup ("");
  g_autofree char *text = g_strconcat (head, turn->text, NULL);
  GArray *ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  for (gsize i = 0; text[i]; i++) {
    gint32 id = (guint8) text[i];
    g_array_append_val (ids, id);
  }
  *n_head = strlen (head);
  return ids;
}

TlEngineDetokenizer *
tl_engine_detokenizer_new (GObject *model, gboolean skip_special, GError **error)
{
  if (!has_text (model, error))
    return NULL;
  TlEngineDetokenizer *d = g_new0 (TlEngineDetokenizer, 1);
  d->held = g_byte_array_new ();
  d->skip_special = skip_special;
  return d;
}

GBytes *
tl_engine_detokenizer_push (TlEngineDetokenizer *d, gint32 id, guint cut)
{
  const char *end, *piece = id == SPECIAL_EOS ? (d->skip_special ? "" : "<eos>") : g_ptr_array_index (script, id - 256);

  g_byte_array_append (d->held, (const guint8 *) piece, strlen (piece) - cut);
  g_utf8_validate_len ((const char *) d->held->data, d->held->len, &end);
  gsize n = d->held->len ? end - (const char *) d->held->data : 0;
  GBytes *out = g_bytes_new (d->held->data, n);
  g_byte_array_remove_range (d->held, 0, n);
  return out;
}

GBytes *
tl_engine_detokenizer_flush (TlEngineDetokenizer *d)
{
  guint n = d->held->len;
  g_byte_array_set_size (d->held, 0);
  return g_bytes_new ("\xef\xbf\xbd", n ? 3 : 0);
}

void
tl_engine_detokenizer_free (TlEngineDetokenizer *d)
{
  g_byte_array_unref (d->held);
  g_free (d);
}

/* ---- generation */

static void
config_set (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  FakeConfig *c = (FakeConfig *) object;

  if (G_IS_PARAM_SPEC_UINT (pspec))
    c->numbers[id] = g_value_get_uint (value);
  else if (G_IS_PARAM_SPEC_DOUBLE (pspec))
    c->reals[id] = g_value_get_double (value);
  else if (G_IS_PARAM_SPEC_UINT64 (pspec))
    c->seed = g_value_get_uint64 (value);
  else if (G_IS_PARAM_SPEC_BOOLEAN (pspec))
    c->flags[id] = g_value_get_boolean (value);
  else if (G_IS_PARAM_SPEC_OBJECT (pspec))
    g_set_object (&c->grammar, g_value_get_object (value));
  else {
    g_strfreev (c->stop);
    c->stop = g_value_dup_boxed (value);
  }
}

static void
config_get (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  FakeConfig *c = (FakeConfig *) object;

  if (G_IS_PARAM_SPEC_UINT (pspec))
    g_value_set_uint (value, c->numbers[id]);
  else if (G_IS_PARAM_SPEC_DOUBLE (pspec))
    g_value_set_double (value, c->reals[id]);
  else if (G_IS_PARAM_SPEC_UINT64 (pspec))
    g_value_set_uint64 (value, c->seed);
  else if (G_IS_PARAM_SPEC_BOOLEAN (pspec))
    g_value_set_boolean (value, c->flags[id]);
  else if (G_IS_PARAM_SPEC_OBJECT (pspec))
    g_value_set_object (value, c->grammar);
  else
    g_value_set_boxed (value, c->stop);
}

static void
config_finalize (GObject *object)
{
  g_strfreev (((FakeConfig *) object)->stop);
  g_clear_object (&((FakeConfig *) object)->grammar);
  G_OBJECT_CLASS (fake_config_parent_class)->finalize (object);
}

static void
fake_config_class_init (FakeConfigClass *klass)
{
  GObjectClass *object = G_OBJECT_CLASS (klass);
  const char *numbers[] = { "max-tokens", "loops", "top-k", "cache-window", "kv-mode", "chunk-size", "top-logprobs" };
  const char *flags[] = { "ignore-eos", "token-stats" };
  const char *reals[] = { "temperature", "top-p", "min-p", "repetition-penalty" };
  guint id = 1;

  object->set_property = config_set;
  object->get_property = config_get;
  object->finalize = config_finalize;
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    g_object_class_install_property (object, id++, g_param_spec_uint (numbers[i], NULL, NULL, 0, G_MAXUINT, i == 0 ? 64 : 0, G_PARAM_READWRITE));
  for (guint i = 0; i < 4; i++)
    g_object_class_install_property (object, id++, g_param_spec_double (reals[i], NULL, NULL, 0, 100, 0, G_PARAM_READWRITE));
  g_object_class_install_property (object, id++, g_param_spec_uint64 ("seed", NULL, NULL, 0, G_MAXUINT64, 0, G_PARAM_READWRITE));
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    g_object_class_install_property (object, id++, g_param_spec_boolean (flags[i], NULL, NULL, FALSE, G_PARAM_READWRITE));
  g_object_class_install_property (object, id++, g_param_spec_boxed ("stop", NULL, NULL, G_TYPE_STRV, G_PARAM_READWRITE));
  g_object_class_install_property (object, id++, g_param_spec_object ("grammar", NULL, NULL, G_TYPE_OBJECT, G_PARAM_READWRITE));
}

static void fake_config_init (FakeConfig *self) { self->numbers[1] = 64; }

/* "(…" has no end; any other pattern is a grammar */
GObject *
tl_engine_grammar_new (GObject *model, const char *kind, const char *source, GError **error)
{
  if (g_str_has_prefix (source, "(") || !g_str_equal (kind, "regex")) {
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, "%s: byte 0: a bracket has no end", kind);
    return NULL;
  }
  GObject *made = g_object_new (G_TYPE_OBJECT, NULL);
  g_object_set_data_full (made, "source", g_strdup (source), g_free);
  return made;
}

GObject *tl_engine_config_new (void) { return g_object_new (fake_config_get_type (), NULL); }

static void fake_conversation_class_init (FakeConversationClass *klass) { }
static void fake_conversation_init (FakeConversation *self) { }

GObject *
tl_engine_conversation_new (GObject *model, GError **error)
{
  if (!g_str_has_prefix (((FakeModel *) model)->path, "memory"))
    return g_object_new (fake_conversation_get_type (), NULL);
  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE, "the cache needs 100 bytes, 10 are free");
  return NULL;
}

gboolean
tl_engine_conversation_truncate (GObject *conversation, guint n_tokens, GError **error)
{
  FakeConversation *c = (FakeConversation *) conversation;
  SET (truncations++; truncated = c->last = MIN (n_tokens, c->last));
  return TRUE;
}

static gboolean
fits (gsize n_ids, GError **error)
{
  if (n_ids > 63)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_MESSAGE_TOO_LARGE, "%zu tokens do not fit a context of 64", n_ids);
  return n_ids <= 63;
}

static void
fake_sequence_finalize (GObject *object)
{
  FakeSequence *sequence = (FakeSequence *) object;
  SET (sequences--; if (sequence->conversation->reply == object) sequence->conversation->reply = NULL);
  g_object_unref (sequence->conversation);
  G_OBJECT_CLASS (fake_sequence_parent_class)->finalize (object);
}

static void fake_sequence_class_init (FakeSequenceClass *klass) { G_OBJECT_CLASS (klass)->finalize = fake_sequence_finalize; }
static void fake_sequence_init (FakeSequence *self) { SET (sequences++); }

GObject *
tl_engine_prefill (GObject *conversation, const gint32 *ids, gsize n_ids, gboolean keep, GObject *config,
    GCancellable *cancellable, gboolean *dropped, GError **error)
{
  FakeConversation *c = (FakeConversation *) conversation;
  gulong id = g_cancellable_connect (cancellable, G_CALLBACK (on_cancel), NULL, NULL);

  g_mutex_lock (&lock);
  while (c->reply && c->policy != 2 && !g_cancellable_is_cancelled (cancellable)) {
    blocked = TRUE;             /* an upstream that waits, like a step that waits */
    g_cond_broadcast (&changed);
    g_cond_wait (&changed, &lock);
  }
  *dropped = c->reply && !g_cancellable_is_cancelled (cancellable);
  g_mutex_unlock (&lock);
  g_cancellable_disconnect (cancellable, id);
  if (g_cancellable_set_error_if_cancelled (cancellable, error) || !fits (n_ids, error))
    return NULL;
  if (*dropped) {
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "dropped");
    return NULL;
  }
  FakeSequence *sequence = g_object_new (fake_sequence_get_type (), NULL);
  sequence->conversation = g_object_ref (c);
  sequence->n_prompt = n_ids;
  SET (c->reply = sequence; c->policy = 0);
  return G_OBJECT (sequence);
}

GObject *
tl_engine_sequence_get_conversation (GObject *sequence)
{
  return (GObject *) ((FakeSequence *) sequence)->conversation;
}

static TlEngineReply *
reply_new (FakeConversation *conversation, gsize n_ids, GObject *config)
{
  TlEngineReply *reply = g_new0 (TlEngineReply, 1);
  *reply = (TlEngineReply) { g_object_ref (conversation), n_ids, 0, ((FakeConfig *) config)->numbers[1], 4 };
  g_object_get (config, "token-stats", &reply->measures, "top-logprobs", &reply->top, NULL);
  GObject *given = ((FakeConfig *) config)->grammar;
  SET (replies++; g_free (grammar); grammar = given ? g_strdup (g_object_get_data (given, "source")) : NULL);
  return reply;
}

TlEngineReply *
tl_engine_reply_begin (GObject *conversation, const gint32 *ids, gsize n_ids, gboolean keep, GObject *config,
    GError **error)
{
  if (!fits (n_ids, error))
    return NULL;
  TlEngineReply *reply = reply_new ((FakeConversation *) conversation, n_ids, config);
  SET (reply->conversation->reply = reply);
  return reply;
}

TlEngineReply *
tl_engine_reply_begin_after (GObject *object, GObject *config, int policy, GError **error)
{
  FakeSequence *sequence = (FakeSequence *) object;
  FakeConversation *c = sequence->conversation;
  TlEngineReply *reply = reply_new (c, sequence->n_prompt, config);

  reply->prefilled = TRUE;
  SET (if (c->reply == sequence) { c->reply = reply; c->policy = policy; });
  return reply;
}

gboolean
tl_engine_reply_update (TlEngineReply *reply, GObject *config, GError **error)
{
  guint loops = ((FakeConfig *) config)->numbers[2];

  SET (updates++; reply->loops = loops ? loops : 4);
  return TRUE;
}

/* token n, from 1: logprob −n/2, entropy n/4; the alternatives are the ids after it, each half as likely */
static void
measure (TlEngineToken *token, const TlEngineReply *reply)
{
  token->measured = TRUE;
  token->logprob = -0.5 * reply->next;
  token->entropy = 0.25 * reply->next;
  if (reply->top)
    token->top = g_array_new (FALSE, FALSE, sizeof (TlEngineAlternative));
  for (guint i = 0; i < reply->top; i++) {
    TlEngineAlternative one = { token->id + i, token->logprob - 0.5 * i };

    g_array_append_val (token->top, one);
  }
}

TlEngineStep
tl_engine_reply_step (TlEngineReply *reply, TlEngineToken *token, GError **error)
{
  guint n = script ? script->len : 0;

  if (!reply->prefilled) {
    reply->prefilled = TRUE;
    return TL_ENGINE_STEP_PREFILL;
  }
  g_mutex_lock (&lock);
  while (block_at == (int) reply->next && !reply->cancelled) {
    blocked = TRUE;
    g_cond_broadcast (&changed);
    g_cond_wait (&changed, &lock);
  }
  blocked = FALSE;
  gboolean fails = fail_at == (int) reply->next, cancelled = reply->cancelled;
  g_mutex_unlock (&lock);

  if (cancelled) {
    token->finish = "cancelled";
    return TL_ENGINE_STEP_END;
  }
  if (fails) {
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "a logit is not a number at token %u", reply->next);
    return TL_ENGINE_STEP_ERROR;
  }
  if (reply->next >= n) {
    token->finish = "eos";
    return TL_ENGINE_STEP_END;
  }
  token->id = 256 + reply->next++;
  token->loops = reply->loops;
  if (reply->measures)
    measure (token, reply);
  token->finish = reply->next == reply->max ? "length" : NULL;
  return TL_ENGINE_STEP_TOKEN;
}

void tl_engine_reply_cancel (TlEngineReply *reply) { SET (reply->cancelled = TRUE); }

void
tl_engine_reply_get_figures (TlEngineReply *reply, TlEngineFigures *figures)
{
  *figures = (TlEngineFigures) { reply->n_prompt, 0, 4, TRUE };
}

static gboolean
reply_free (TlEngineReply *reply, guint n_pushed)
{
  FakeConversation *c = reply->conversation;
  gboolean leads;

  SET (replies--; if ((leads = c->reply == reply)) { committed = c->last = n_pushed; c->reply = NULL; });
  g_object_unref (c);
  g_free (reply);
  return leads;
}

gboolean tl_engine_reply_commit (TlEngineReply *reply, guint n_pushed) { return reply_free (reply, n_pushed); }
void tl_engine_reply_abort (TlEngineReply *reply) { reply_free (reply, 0); }
