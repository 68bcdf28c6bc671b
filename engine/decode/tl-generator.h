/* decode/tl-generator.h — TlGenerator: one generation, pass by pass.
 *
 * Life: made by tl_model_begin() or tl_conversation_begin(); tl_generator_step() until it gives TL_STEP_END or
 * TL_STEP_ERROR; tl_generator_finish() for the result. A step runs at most one pass (a chunk of the prompt, or one token
 * through all loops), so that a caller may look, cancel or stop between. One thread steps; tl_generator_cancel() may come
 * from any thread.
 */
#pragma once

#include <gio/gio.h>

#include "decode/tl-generate-config.h"
#include "decode/tl-generation.h"

G_BEGIN_DECLS

/**
 * TlStep:
 * @TL_STEP_ERROR: failed; the error is set
 * @TL_STEP_PASS: a pass was run and no token left: more prompt to come, or a token is held back while a stop string may match
 * @TL_STEP_TOKEN: a token left; the last one carries its finish reason
 * @TL_STEP_END: it is over and tl_generator_get_finish_reason() says why; further steps give the same
 *
 * What a step came to.
 */
typedef enum
{
  TL_STEP_ERROR,
  TL_STEP_PASS,
  TL_STEP_TOKEN,
  TL_STEP_END,
} TlStep;

TL_API GType tl_step_get_type (void) G_GNUC_CONST;
#define TL_TYPE_STEP (tl_step_get_type ())

#define TL_TYPE_GENERATOR (tl_generator_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlGenerator, tl_generator, TL, GENERATOR, GObject)

/**
 * tl_generator_step:
 * @self: a generator
 * @token: (out) (optional) (nullable) (transfer full): the token that left with %TL_STEP_TOKEN
 * @cancellable: (nullable): polled at least once per loop; ends the generation like tl_generator_cancel()
 * @error: return location
 *
 * Runs at most one pass. Errors: CLOSED, NO_MEMORY, NUMERIC, DEVICE.
 *
 * Returns: what happened
 */
TL_API TlStep tl_generator_step (TlGenerator *self, TlToken **token, GCancellable *cancellable, GError **error);

/**
 * tl_generator_prefill:
 * @self: a generator
 * @cancellable: (nullable): polled at least once per loop
 * @error: return location
 *
 * Runs the passes of the prompt that are left, and draws nothing: the next step gives the first token. Does nothing on a
 * generator that has got beyond its prompt. Errors: as tl_generator_step(), and CANCELLED.
 *
 * Returns: %FALSE with an error
 */
TL_API gboolean tl_generator_prefill (TlGenerator *self, GCancellable *cancellable, GError **error);

/**
 * tl_generator_update:
 * @self: a generator
 * @config: a configuration
 * @error: return location
 *
 * Takes over how the next token comes about: temperature, top-k, top-p, min-p, the penalties, seed, ignore-eos and, after the
 * prompt and without drafts or beams, loops (0: as at the beginning). Everything else is as it was at the beginning. Called
 * between steps. Errors: INVALID_ARGUMENT, and nothing is changed.
 *
 * Returns: %FALSE with an error
 */
TL_API gboolean tl_generator_update (TlGenerator *self, TlGenerateConfig *config, GError **error);

/**
 * tl_generator_cancel:
 * @self: a generator
 *
 * Ends the generation from any thread; a running step gives %TL_STEP_END within one loop, with reason cancelled.
 */
TL_API void tl_generator_cancel (TlGenerator *self);

/**
 * tl_generator_stop:
 * @self: a generator
 * @reason: cancelled or downstream-eos
 *
 * The stepping thread wants no more: the generation is over after the tokens that have left.
 */
TL_API void tl_generator_stop (TlGenerator *self, TlFinishReason reason);

/**
 * tl_generator_get_finish_reason:
 * @self: a generator
 *
 * Returns: %TL_FINISH_NONE while it runs
 */
TL_API TlFinishReason tl_generator_get_finish_reason (TlGenerator *self);

/**
 * tl_generator_get_figures:
 * @self: a generator
 * @figures: (out caller-allocates): filled in; valid at any time
 */
TL_API void tl_generator_get_figures (TlGenerator *self, TlGenerationFigures *figures);

/**
 * tl_generator_finish:
 * @self: a generator
 *
 * The result of the tokens that have left so far.
 *
 * Returns: (transfer full): the result
 */
TL_API TlGeneration *tl_generator_finish (TlGenerator *self);

/**
 * tl_generator_run:
 * @self: a generator
 * @cancellable: (nullable): ends it early
 * @error: return location
 *
 * Steps to the end. Cancelled with tokens gives a result with reason cancelled; without any, %TL_ERROR_CANCELLED.
 *
 * Returns: (transfer full): the result, or %NULL with an error
 */
TL_API TlGeneration *tl_generator_run (TlGenerator *self, GCancellable *cancellable, GError **error);

G_END_DECLS
