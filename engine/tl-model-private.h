/* tl-model-private.h — what the public objects share: a model's core, and runs that hold a sequence of it.
 *
 * The core outlives the model object as long as a run holds it. Passes go through the backend's scheduler.
 */
#pragma once

#include "cache/tl-pass.h"
#include "decode/tl-generate-config-private.h"
#include "decode/tl-generator-private.h"
#include "decode/tl-scheduler.h"
#include "tl-conversation.h"
#include "tl-model-grammar.h"
#include "tl-model.h"
#include "tl-prefix-pool.h"

G_BEGIN_DECLS

typedef struct _TlModelCore TlModelCore;
typedef struct _TlKeptRows TlKeptRows;          /* tl-kept-rows.h */
typedef struct _TlPrefixKey TlPrefixKey;        /* tl-prefix-private.h */

typedef struct
{
  TlModelCore *core;
  TlBackend *backend;
  TlScheduler *scheduler;
  TlKvSequence *sequence;
  gboolean exact;
  TlPassOptions options;
  TlKeptRows *keep;             /* where the prompt's rows leave their states; or NULL */
  TlKeptRows *resume;           /* rows of the prompt that go on from their states; or NULL */
  guint resumed;                /* positions before it are through */
  TlPrefixPool *learner;        /* gets the prompt once it is through; or NULL */
  TlPrefixKey *key;             /* for it */
  guint prompt_end;
} TlModelRun;

/* What a generation begins on. */
typedef struct
{
  const guint32 *ids;           /* history and prompt */
  gsize n_ids, n_prompt;
  TlModelRun *base;             /* may hold the first of them; or NULL */
  TlKeptRows *resume;           /* states of rows that base holds at fewer loops; or NULL */
  TlPrefixPool *pool;           /* where more of them may be found; or NULL */
  gboolean ceiling;             /* max-tokens is cut to the room left instead of refused */
  gboolean whole;               /* base may hold all ids, because the logits behind them are known; else the last runs again */
} TlBeginning;

TlModelCore *tl_model_core_new (TlProgram *program, const TlBackendClass *klass, guint threads, gsize cache_limit,
  GError **error);
/* what kv-mode=default means, but for exact activations, which are kept in fp32 */
void tl_model_core_set_default_kv_mode (TlModelCore *core, TlKvMode mode);
TlModelCore *tl_model_core_ref (TlModelCore *core);
void tl_model_core_unref (TlModelCore *core);
void tl_model_core_close (TlModelCore *core);
gsize tl_model_core_memory (TlModelCore *core);
TlProgram *tl_model_core_program (TlModelCore *core);
/* nobody asks it any more: closed, or its model is gone */
void tl_model_core_abandon (TlModelCore *core);
gboolean tl_model_core_is_abandoned (TlModelCore *core);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlModelCore, tl_model_core_unref)

/* A run on a fork of the first `at_most` positions of base->sequence when the configuration allows it, else on an empty
 * sequence; reserves nothing, but refuses what cannot fit: `positions` in total. */
TlModelRun *tl_model_run_new (TlModelCore *core, TlModelRun *base, guint at_most, TlGenerateConfig *config, guint positions,
  GError **error);
void tl_model_run_free (TlModelRun *run);
/* the position of the next row: its length, or less while a prompt is being resumed */
guint tl_model_run_length (TlModelRun *run);
void tl_model_run_truncate (TlModelRun *run, guint length);
/* the mode a configuration asks for */
TlKvMode tl_model_kv_mode (const TlModelCore *core, const TlGenerateConfig *config);
void tl_model_set_kv_mode (TlGenerateConfig *config, TlKvMode mode);
/* a run that shares the sequence's pages */
TlModelRun *tl_model_run_fork (TlModelRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlModelRun, tl_model_run_free)

/* the core of a loaded model, or CLOSED, or INVALID_ARGUMENT before it is loaded. transfer full */
TlModelCore *tl_model_get_core (TlModel *self, GError **error);
/* for a reply of the model, which @grammar must be bound to, or is now; transfer full */
TlMatcher *tl_model_create_matcher (TlModel *self, TlGrammar *grammar, GError **error);
TlGenerator *tl_model_begin_on (TlModel *self, const TlBeginning *on, TlGenerateConfig *config, GError **error);
/* a reply to a prompt that another generator has prefilled: on a fork of its run, what holds for the run taken over */
TlGenerator *tl_model_begin_after (TlModel *self, TlGenerator *prompt, TlGenerateConfig *config, GError **error);

/* begin, with the policy of the reply that runs at the moment */
TlGenerator *tl_conversation_begin_prompt (TlConversation *self, GBytes *ids, TlGenerateConfig *config, TlHistory history,
  GCancellable *cancellable, GError **error);
/* the running reply is no longer `prompt` but `reply`, unless it was reset meanwhile */
void tl_conversation_hand_over (TlConversation *self, TlGenerator *prompt, TlGenerator *reply, TlPromptPolicy policy);
TlModel *tl_conversation_get_model (TlConversation *self);

/* the bytes as ids; INVALID_ARGUMENT when their size is none of int32s, or there are none */
const guint32 *tl_ids_from_bytes (GBytes *bytes, gsize *n, GError **error);
TlTokenizer *tl_tokenizer_from_checkpoint (TlCheckpoint *checkpoint, GError **error);

G_END_DECLS
