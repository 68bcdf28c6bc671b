/* decode/tl-generator-private.h — how a generator is made: from a source of logits and the ids before it.
 *
 * The source is whatever runs passes: a model's sequence, or a script in tests.
 */
#pragma once

#include "decode/tl-generator.h"
#include "decode/tl-scheduler.h"
#include "grammar/tl-grammar.h"
#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

typedef struct
{
  /* appends n tokens to the source's sequence; logits: [vocab_size] of the last one, or NULL */
  gboolean (*run) (gpointer data, const guint32 *tokens, guint n, float *logits, GCancellable *cancellable,
    GError **error);
  gpointer data;
  GDestroyNotify free;
  /* of a model, where several rows of several sequences may go through a pass; NULL for scripts, which run plainly */
  TlScheduler *scheduler;
  TlKvSequence *sequence;       /* data's; what `run` appends to. Another one moves in by tl_kv_sequence_replace() */
  const TlPassOptions *options; /* data's; loops, chunk, where initial states come from */
  /* loops of the passes to come, within loops_min … loops_max; NULL: they cannot be changed */
  void (*set_loops) (gpointer data, guint loops);
  guint vocab_size, loops, loops_min, loops_max, chunk;
  TlTokenizer *tokenizer;       /* or NULL */
  TlMatcher *matcher;           /* at the beginning of the reply, or NULL; taken */
} TlGeneratorSource;

/* ids: everything up to the end of the prompt; the first n_cached of them are in the sequence already, the last n_prompt
 * are the prompt. config is valid (and copied), max_tokens may be less than its own. Takes the source's data
 * and matcher. */
TlGenerator *tl_generator_new (const TlGeneratorSource *source, const guint32 *ids, guint n_ids, guint n_cached,
  guint n_prompt, TlGenerateConfig *config, guint max_tokens);
gpointer tl_generator_source_data (TlGenerator *self);
TlGenerateConfig *tl_generator_config (TlGenerator *self);
guint tl_generator_loops (TlGenerator *self);
guint tl_generator_prompt_length (TlGenerator *self);
/* self has not run yet and its prompt is that of `prompt`, which is through: its logits and its figures are taken over */
void tl_generator_go_on_from (TlGenerator *self, TlGenerator *prompt);
/* everything up to the end of the prompt */
const guint32 *tl_generator_prompt_ids (TlGenerator *self, guint *n);
/* tokens that have left, in order */
const guint32 *tl_generator_tokens (TlGenerator *self, guint *n);
gboolean tl_generator_is_prefilling (TlGenerator *self);

/* generated: of TlToken, with its free function. Takes all three */
TlGeneration *tl_generation_new (GBytes *tokens, GPtrArray *generated, char *text, TlFinishReason finish, const TlGenerationFigures *figures);

G_END_DECLS
