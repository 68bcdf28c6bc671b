/* tl-resume-handle.h — TlResumeHandle: a prompt at L1 loops that can be taken deeper without beginning again.
 *
 * It keeps the row states of all prompt rows beside their pages. Resuming at L2 > L1 runs only loops L1 + 1 … L2 of them and
 * equals a generation at L2 loops, bit for bit; L2 = L1 is a prefix cache. Immutable and used from any thread, like
 * #TlPrefixCache; what it was built with must hold for the reply, loops excepted.
 */
#pragma once

#include "tl-model.h"

G_BEGIN_DECLS

#define TL_TYPE_RESUME_HANDLE (tl_resume_handle_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlResumeHandle, tl_resume_handle, TL, RESUME_HANDLE, GObject)

/**
 * tl_model_build_resume_handle_bytes:
 * @self: a loaded model
 * @ids: native int32 ids of the prompt, at least one
 * @config: (nullable): loops, kv-mode, cache-window, exact-activations, state-seed, chunk-size and cache-salt are used
 * @cancellable: (nullable): polled at least once per loop
 * @error: return location
 *
 * Runs the ids and keeps their row states. Errors: as tl_model_begin(), CANCELLED.
 *
 * Returns: (transfer full): the handle
 */
TL_API TlResumeHandle *tl_model_build_resume_handle_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_model_begin_resumed:
 * @self: the model the handle was built with
 * @handle: a handle
 * @config: (nullable): parameters; loops 0 and kv-mode default mean the handle's
 * @error: return location
 *
 * Begins a generation whose prompt goes on from the handle's depth; runs no pass, and the handle stays as it is. Errors: as
 * tl_model_begin(), LOOPS_MISMATCH (fewer loops than the handle's, or a model whose loops depend on their number),
 * INVALID_ARGUMENT naming what else differs.
 *
 * Returns: (transfer full): the generator
 */
TL_API TlGenerator *tl_model_begin_resumed (TlModel *self, TlResumeHandle *handle, TlGenerateConfig *config, GError **error);

/**
 * tl_model_resume_generate_bytes:
 * @self: the model the handle was built with
 * @handle: a handle
 * @config: (nullable): parameters; loops 0 and kv-mode default mean the handle's
 * @cancellable: (nullable): see tl_generator_run()
 * @error: return location
 *
 * tl_model_begin_resumed() and tl_generator_run() in one.
 *
 * Returns: (transfer full): the result; its tokens are prompt and new ids
 */
TL_API TlGeneration *tl_model_resume_generate_bytes (TlModel *self, TlResumeHandle *handle, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_resume_handle_get_length:
 * @self: a handle
 *
 * Returns: tokens of the prompt
 */
TL_API guint tl_resume_handle_get_length (TlResumeHandle *self);

/**
 * tl_resume_handle_get_loops:
 * @self: a handle
 *
 * Returns: the loops it was built with
 */
TL_API guint tl_resume_handle_get_loops (TlResumeHandle *self);

/**
 * tl_resume_handle_get_size:
 * @self: a handle
 *
 * Returns: bytes of its pages and row states
 */
TL_API guint64 tl_resume_handle_get_size (TlResumeHandle *self);

/**
 * tl_resume_handle_dup_tokens_bytes:
 * @self: a handle
 *
 * Returns: (transfer full): native int32 ids of the prompt
 */
TL_API GBytes *tl_resume_handle_dup_tokens_bytes (TlResumeHandle *self);

/**
 * tl_resume_handle_save:
 * @self: a handle
 * @path: (type filename): file to write; written beside it first and then renamed
 * @error: return location
 *
 * Errors: BAD_FILE when it cannot be written, UNSUPPORTED on a device that keeps no pages.
 *
 * Returns: %FALSE with an error
 */
TL_API gboolean tl_resume_handle_save (TlResumeHandle *self, const char *path, GError **error);

/**
 * tl_model_load_resume_handle:
 * @self: a loaded model
 * @path: (type filename): a file of tl_resume_handle_save()
 * @error: return location
 *
 * Errors: BAD_FILE with file, field and reason (damaged, truncated, of another model), NO_MEMORY, CLOSED.
 *
 * Returns: (transfer full): the handle, as it was saved
 */
TL_API TlResumeHandle *tl_model_load_resume_handle (TlModel *self, const char *path, GError **error);

G_END_DECLS
