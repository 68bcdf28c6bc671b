/* gst/tl-engine-real.c — the engine interface of the elements on libtinyloop's public API.
 *
 * Linked into the plugin only; element tests link a fake instead.
 */
#include "tl-engine.h"

#include "tinyloop.h"

#include <string.h>

struct _TlEngineReply
{
  TlConversation *conversation;
  TlGenerator *generator;
};

struct _TlEngineDetokenizer
{
  TlDetokenizer *detokenizer;
};

/* ---- model */

GObject *
tl_engine_model_open (const char *path, const char *device, guint64 max_cache_bytes, GError **error)
{
  const char *actual = g_str_equal (device, "auto") ? "cpu" : device;
  g_autoptr (TlModel) model = g_object_new (TL_TYPE_MODEL, "path", path, "device", actual, "max-cache-bytes",
      max_cache_bytes, NULL);
  g_autoptr (GError) why = NULL;

  if (tl_model_open (model, &why))
    return G_OBJECT (g_steal_pointer (&model));
  if (why->domain == TL_ERROR && why->code != TL_ERROR_BAD_FILE)
    g_propagate_error (error, g_steal_pointer (&why));
  else
    g_set_error (error, why->domain, why->code,
        "%s; model-path must name a whole .tinyloop file, which 'tinyloop convert' makes", why->message);
  return NULL;
}

typedef struct
{
  TlEngineProgress progress;
  gpointer data;
} Listener;

static void
on_load_progress (TlModel *model, GParamSpec *pspec, Listener *listener)
{
  g_auto (GValue) percent = G_VALUE_INIT;

  g_value_init (&percent, G_TYPE_UINT);
  g_object_get_property (G_OBJECT (model), "load-progress", &percent);
  listener->progress (g_value_get_uint (&percent), listener->data);
}

gboolean
tl_engine_model_load (GObject *model, TlEngineProgress progress, gpointer data, GCancellable *cancellable,
    GError **error)
{
  Listener listener = { progress, data };
  gulong id = g_signal_connect (model, "notify::load-progress", G_CALLBACK (on_load_progress), &listener);
  gboolean ok = tl_model_load (TL_MODEL (model), cancellable, error);

  g_signal_handler_disconnect (model, id);
  return ok;
}

const char *
tl_engine_model_vocab_hash (GObject *model)
{
  return tl_model_get_vocab_hash (TL_MODEL (model));
}

guint
tl_engine_model_vocab_size (GObject *model)
{
  return tl_model_get_vocab_size (TL_MODEL (model));
}

guint
tl_engine_model_context_size (GObject *model)
{
  return tl_model_get_max_seq_len (TL_MODEL (model));
}

gboolean
tl_engine_model_keeps_history (GObject *model)
{
  return tl_model_get_keeps_history (TL_MODEL (model));
}

/* ---- text */

static TlTokenizer *
tokenizer_of (GObject *model, GError **error)
{
  TlTokenizer *tokenizer = tl_model_get_tokenizer (TL_MODEL (model));

  if (!tokenizer)
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
        "%s has no tokenizer; convert it again with one, or send it tokens", tl_model_get_path (TL_MODEL (model)));
  return tokenizer;
}

GArray *
tl_engine_encode_turn (GObject *model, const TlEngineTurn *turn, guint *n_head, GError **error)
{
  const TlChatTurn own = { turn->chat_template, turn->system_prompt, turn->role, turn->text, turn->first };
  TlTokenizer *tokenizer = tokenizer_of (model, error);

  return tokenizer ? tl_tokenizer_encode_turn (tokenizer, &own, n_head, error) : NULL;
}

TlEngineDetokenizer *
tl_engine_detokenizer_new (GObject *model, gboolean skip_special, GError **error)
{
  TlTokenizer *tokenizer = tokenizer_of (model, error);

  if (!tokenizer)
    return NULL;
  TlEngineDetokenizer *detokenizer = g_new (TlEngineDetokenizer, 1);
  detokenizer->detokenizer = tl_detokenizer_new (tokenizer,
      skip_special ? TL_DETOKENIZER_SKIP_SPECIAL : TL_DETOKENIZER_NONE);
  return detokenizer;
}

GBytes *
tl_engine_detokenizer_push (TlEngineDetokenizer *detokenizer, gint32 id, guint cut)
{
  GBytes *text = tl_detokenizer_push_cut (detokenizer->detokenizer, id, cut);

  return text ? text : g_bytes_new (NULL, 0);
}

GBytes *
tl_engine_detokenizer_flush (TlEngineDetokenizer *detokenizer)
{
  GBytes *text = tl_detokenizer_flush (detokenizer->detokenizer);

  return text ? text : g_bytes_new (NULL, 0);
}

void
tl_engine_detokenizer_free (TlEngineDetokenizer *detokenizer)
{
  g_object_unref (detokenizer->detokenizer);
  g_free (detokenizer);
}

/* ---- generation */

GObject *
tl_engine_config_new (void)
{
  return G_OBJECT (tl_generate_config_new ());
}

GObject *
tl_engine_grammar_new (GObject *model, const char *kind, const char *source, GError **error)
{
  if (!g_str_equal (kind, "regex")) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "a grammar of type '%.20s' is not available; use regex", kind);
    return NULL;
  }
  TlGrammar *grammar = model ? tl_model_compile_regex (TL_MODEL (model), source, error)
      : tl_grammar_new_regex (source, -1, TL_REGEX_NONE, error);
  return grammar ? G_OBJECT (grammar) : NULL;
}

GObject *
tl_engine_conversation_new (GObject *model, GError **error)
{
  return G_OBJECT (tl_conversation_new (TL_MODEL (model)));
}

gboolean
tl_engine_conversation_truncate (GObject *conversation, guint n_tokens, GError **error)
{
  if (tl_conversation_truncate (TL_CONVERSATION (conversation), n_tokens))
    return TRUE;
  g_set_error_literal (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "no finished reply to truncate");
  return FALSE;
}

GObject *
tl_engine_prefill (GObject *conversation, const gint32 *ids, gsize n_ids, gboolean keep, GObject *config,
    GCancellable *cancellable, gboolean *dropped, GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new (ids, n_ids * sizeof (gint32));
  g_autoptr (GError) why = NULL;
  TlSequence *sequence = tl_conversation_prefill (TL_CONVERSATION (conversation), bytes, TL_GENERATE_CONFIG (config),
      keep ? TL_HISTORY_KEEP : TL_HISTORY_NONE, cancellable, &why);

  *dropped = g_error_matches (why, TL_ERROR, TL_ERROR_CANCELLED) && !g_cancellable_is_cancelled (cancellable);
  if (why)
    g_propagate_error (error, g_steal_pointer (&why));
  return sequence ? G_OBJECT (sequence) : NULL;
}

GObject *
tl_engine_sequence_get_conversation (GObject *sequence)
{
  return G_OBJECT (tl_sequence_get_conversation (TL_SEQUENCE (sequence)));
}

static TlEngineReply *
reply_new (TlConversation *conversation, TlGenerator *generator)
{
  if (!generator)
    return NULL;
  TlEngineReply *reply = g_new (TlEngineReply, 1);
  *reply = (TlEngineReply) { g_object_ref (conversation), generator };
  return reply;
}

TlEngineReply *
tl_engine_reply_begin (GObject *conversation, const gint32 *ids, gsize n_ids, gboolean keep, GObject *config,
    GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new (ids, n_ids * sizeof (gint32));

  return reply_new (TL_CONVERSATION (conversation), tl_conversation_begin (TL_CONVERSATION (conversation), bytes,
          TL_GENERATE_CONFIG (config), TL_PROMPT_QUEUE, keep ? TL_HISTORY_KEEP : TL_HISTORY_NONE, NULL, error));
}

TlEngineReply *
tl_engine_reply_begin_after (GObject *sequence, GObject *config, int policy, GError **error)
{
  return reply_new (tl_sequence_get_conversation (TL_SEQUENCE (sequence)), tl_sequence_begin (TL_SEQUENCE (sequence),
          TL_GENERATE_CONFIG (config), (TlPromptPolicy) policy, error));
}

gboolean
tl_engine_reply_update (TlEngineReply *reply, GObject *config, GError **error)
{
  return tl_generator_update (reply->generator, TL_GENERATE_CONFIG (config), error);
}

static GArray *
alternatives_of (const TlToken *token)
{
  guint n = tl_token_get_n_alternatives (token);
  GArray *top = n ? g_array_new (FALSE, FALSE, sizeof (TlEngineAlternative)) : NULL;

  for (guint i = 0; i < n; i++) {
    TlEngineAlternative one = { tl_token_get_alternative_id (token, i), tl_token_get_alternative_logprob (token, i) };

    g_array_append_val (top, one);
  }
  return top;
}

TlEngineStep
tl_engine_reply_step (TlEngineReply *reply, TlEngineToken *token, GError **error)
{
  g_autoptr (TlToken) given = NULL;

  switch (tl_generator_step (reply->generator, &given, NULL, error)) {
    case TL_STEP_PASS:
      return TL_ENGINE_STEP_PREFILL;
    case TL_STEP_TOKEN:
      *token = (TlEngineToken) { given->id, given->special, given->loops, given->cut,
        given->finish == TL_FINISH_NONE ? NULL : tl_finish_reason_to_string (given->finish), given->measured,
        given->logprob, given->entropy, alternatives_of (given) };
      return TL_ENGINE_STEP_TOKEN;
    case TL_STEP_END:
      token->finish = tl_finish_reason_to_string (tl_generator_get_finish_reason (reply->generator));
      return TL_ENGINE_STEP_END;
    case TL_STEP_ERROR:
      break;
  }
  return TL_ENGINE_STEP_ERROR;
}

void
tl_engine_reply_cancel (TlEngineReply *reply)
{
  tl_generator_cancel (reply->generator);
}

void
tl_engine_reply_get_figures (TlEngineReply *reply, TlEngineFigures *figures)
{
  TlGenerationFigures given;

  tl_generator_get_figures (reply->generator, &given);
  *figures = (TlEngineFigures) { given.prompt_tokens, given.cached_tokens, given.loops, given.exact };
}

static void
reply_free (TlEngineReply *reply)
{
  g_object_unref (reply->generator);
  g_object_unref (reply->conversation);
  g_free (reply);
}

gboolean
tl_engine_reply_commit (TlEngineReply *reply, guint n_pushed)
{
  gboolean ours = tl_conversation_commit (reply->conversation, reply->generator, n_pushed);

  reply_free (reply);
  return ours;
}

void
tl_engine_reply_abort (TlEngineReply *reply)
{
  tl_conversation_abort (reply->conversation, reply->generator);
  reply_free (reply);
}
