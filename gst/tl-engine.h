/* gst/tl-engine.h — all that the elements ask of the engine: the one seam between gst/ and libtinyloop.
 *
 * Declared here, defined once per program: the plugin links a file that maps these functions to the public API of
 * libtinyloop, the element tests link tests/gst/fake-engine.c. A model is a GObject, so that a GstContext can carry it.
 * Every call that may last takes a cancel from any thread and returns after at most one pass.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _TlEngineReply TlEngineReply;
typedef struct _TlEngineDetokenizer TlEngineDetokenizer;

/* percent: 0…100; called on the loading thread */
typedef void (*TlEngineProgress) (guint percent, gpointer data);

/* ---- model: open maps and validates in milliseconds, load does the rest */
/* max_cache_bytes: 0 = no limit */
GObject *tl_engine_model_open (const char *path, const char *device, guint64 max_cache_bytes, GError **error);
gboolean tl_engine_model_load (GObject *model, TlEngineProgress progress, gpointer data, GCancellable *cancellable,
    GError **error);
const char *tl_engine_model_vocab_hash (GObject *model);
guint tl_engine_model_vocab_size (GObject *model);
guint tl_engine_model_context_size (GObject *model);
gboolean tl_engine_model_keeps_history (GObject *model);

/* ---- text: GError UNSUPPORTED when the model has no tokenizer */
typedef struct
{
  const char *chat_template;    /* "auto", "none", the name of a form or a Jinja template */
  const char *system_prompt;    /* or NULL */
  const char *role, *text;      /* special tokens written out in the text are plain text */
  gboolean first;               /* FALSE: continues a conversation */
} TlEngineTurn;

/* the prompt of a turn; *n_head: ids before the user's text */
GArray *tl_engine_encode_turn (GObject *model, const TlEngineTurn *turn, guint *n_head, GError **error);
TlEngineDetokenizer *tl_engine_detokenizer_new (GObject *model, gboolean skip_special, GError **error);
/* cut: bytes at the token's end that are no text */
GBytes *tl_engine_detokenizer_push (TlEngineDetokenizer *detokenizer, gint32 id, guint cut);
GBytes *tl_engine_detokenizer_flush (TlEngineDetokenizer *detokenizer);
void tl_engine_detokenizer_free (TlEngineDetokenizer *detokenizer);

/* ---- generation */
typedef enum
{
  TL_ENGINE_STEP_PREFILL,       /* a chunk of the prompt is done, more or the first token follows */
  TL_ENGINE_STEP_TOKEN,         /* *token is set; token.finish names the reason on the last one */
  TL_ENGINE_STEP_END,           /* the reply ends without a further token; token.finish is set */
  TL_ENGINE_STEP_ERROR,
} TlEngineStep;

typedef struct { gint32 id; double logprob; } TlEngineAlternative;

typedef struct
{
  gint32 id;
  gboolean special;
  guint loops;
  guint cut;                    /* bytes at its end that belong to a stop string */
  const char *finish;           /* static string or NULL */
  gboolean measured;            /* token-stats was asked for: logprob and entropy are known */
  double logprob, entropy;      /* natural logarithm, nats */
  GArray *top;                  /* the likeliest ids (TlEngineAlternative) as many as top-logprobs, or NULL; the caller's */
} TlEngineToken;

typedef struct
{
  guint prompt_tokens, cached_tokens, loops;    /* loops: at the beginning */
  gboolean exact;
} TlEngineFigures;

/* one property per parameter of generation, by the names in the table of gst/tl-properties.c; `stop` is a GStrv */
GObject *tl_engine_config_new (void);

/* what a reply must match, for the property `grammar` of a config; kind: "regex". model: or NULL, then it is only checked.
 * Errors name what is wrong and its byte */
GObject *tl_engine_grammar_new (GObject *model, const char *kind, const char *source, GError **error);

/* conversations and sequences are objects, so that buffers can carry them */
GObject *tl_engine_conversation_new (GObject *model, GError **error);
/* keeps the first n_tokens of the last committed reply */
gboolean tl_engine_conversation_truncate (GObject *conversation, guint n_tokens, GError **error);

/* waits for the conversation's running reply, then runs the prompt; NULL with *dropped when that reply's policy is drop */
GObject *tl_engine_prefill (GObject *conversation, const gint32 *ids, gsize n_ids, gboolean keep, GObject *config,
    GCancellable *cancellable, gboolean *dropped, GError **error);
GObject *tl_engine_sequence_get_conversation (GObject *sequence);

/* begins on ids[n_ids]; keep: the prompt sees earlier turns. Runs no pass */
TlEngineReply *tl_engine_reply_begin (GObject *conversation, const gint32 *ids, gsize n_ids,
    gboolean keep, GObject *config, GError **error);
/* begins on a prefilled prompt; policy: GstTlOnNewPrompt for prompts that are prefilled meanwhile. Runs no pass */
TlEngineReply *tl_engine_reply_begin_after (GObject *sequence, GObject *config, int policy, GError **error);
/* how the next token is drawn */
gboolean tl_engine_reply_update (TlEngineReply *reply, GObject *config, GError **error);
TlEngineStep tl_engine_reply_step (TlEngineReply *reply, TlEngineToken *token, GError **error);
void tl_engine_reply_cancel (TlEngineReply *reply);     /* any thread; a running step returns END */
void tl_engine_reply_get_figures (TlEngineReply *reply, TlEngineFigures *figures);
/* head := prompt + the first n_pushed tokens; frees the reply. FALSE: it was a fork's, nothing changed */
gboolean tl_engine_reply_commit (TlEngineReply *reply, guint n_pushed);
/* the conversation is as before the prompt; frees the reply */
void tl_engine_reply_abort (TlEngineReply *reply);

G_END_DECLS
