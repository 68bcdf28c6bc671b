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

G_BEGIN_DECLS

typedef struct _TlModelCore TlModelCore;

typedef struct
{
  TlModelCore *core;
  TlBackend *backend;
  TlScheduler *scheduler;
  TlKvSequence *sequence;
  gboolean exact;
  TlPassOptions options;
} TlModelRun;

TlModelCore *tl_model_core_new (TlProgram *program, const TlBackendClass *klass, guint threads, gsize cache_limit,
  GError **error);
/* what kv-mode=default means, but for exact activations, which are kept in fp32 */
void tl_model_core_set_default_kv_mode (TlModelCore *core, TlKvMode mode);
TlModelCore *tl_model_core_ref (TlModelCore *core);
void tl_model_core_unref (TlModelCore *core);
void tl_model_core_close (TlModelCore *core);
gsize tl_model_core_memory (TlModelCore *core);
TlProgram *tl_model_core_program (TlModelCore *core);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlModelCore, tl_model_core_unref)

/* A run on a fork of base->sequence when the configuration allows it, else on an empty sequence; reserves nothing, but
 * refuses what cannot fit: `positions` in total. */
TlModelRun *tl_model_run_new (TlModelCore *core, TlModelRun *base, TlGenerateConfig *config, guint positions,
  GError **error);
void tl_model_run_free (TlModelRun *run);
guint tl_model_run_length (TlModelRun *run);
void tl_model_run_truncate (TlModelRun *run, guint length);
/* a run that shares the sequence's pages */
TlModelRun *tl_model_run_fork (TlModelRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlModelRun, tl_model_run_free)

/* the core of a loaded model, or CLOSED, or INVALID_ARGUMENT before it is loaded. transfer full */
TlModelCore *tl_model_get_core (TlModel *self, GError **error);
/* for a reply of the model, which @grammar must be bound to, or is now; transfer full */
TlMatcher *tl_model_create_matcher (TlModel *self, TlGrammar *grammar, GError **error);
/* ids: history and prompt; ceiling: max-tokens is cut to the room left instead of refused */
TlGenerator *tl_model_begin_on (TlModel *self, TlModelRun *base, const guint32 *ids, gsize n_ids, gsize n_prompt,
  TlGenerateConfig *config, gboolean ceiling, GError **error);
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
