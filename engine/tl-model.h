/* tl-model.h — TlModel: a checkpoint that can be asked.
 *
 * Life: new (nothing read) → open (milliseconds: maps and validates) → load (weights prepared for the device) → begin,
 * generate, score from any thread → close. load opens when needed. Passes of one model take turns. close ends running
 * requests with TL_ERROR_CLOSED and waits for them.
 *
 * Properties: path, device ("cpu", "reference", "cuda"; default "cpu"), threads (0 = all allowed), max-cache-bytes
 * (0 = no limit), max-seq-len (0 = the checkpoint's; larger only with rotary positions) — construct only; and read-only:
 * dim, vocab-size, n-pre-blocks, default-loops, min-loops, max-loops, memory-usage (bytes of weights and cache),
 * descriptor-json, tokenizer, vocab-hash, load-progress (0…100, notify from the loading thread), loaded, closed.
 */
#pragma once

#include "decode/tl-generator.h"
#include "grammar/tl-grammar.h"
#include "score/tl-scores.h"
#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

#define TL_TYPE_MODEL (tl_model_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlModel, tl_model, TL, MODEL, GObject)

/**
 * tl_model_new:
 * @path: a `.tinyloop` file
 *
 * A model that has read nothing yet; device and limits are construct properties.
 *
 * Returns: (transfer full): the model
 */
TL_API TlModel *tl_model_new (const char *path);

/**
 * tl_model_open:
 * @self: a model
 * @error: return location
 *
 * Maps the file and checks descriptor, tensors and tokenizer; the properties are valid afterwards. Errors: BAD_FILE,
 * UNSUPPORTED, CLOSED.
 *
 * Returns: %TRUE, also when it was open already
 */
TL_API gboolean tl_model_open (TlModel *self, GError **error);

/**
 * tl_model_load:
 * @self: a model
 * @cancellable: (nullable): polled between the steps of loading
 * @error: return location
 *
 * Opens and prepares the weights. Concurrent calls load once. Errors: those of tl_model_open(), DEVICE, NO_MEMORY,
 * CANCELLED.
 *
 * Returns: %TRUE, also when it was loaded already
 */
TL_API gboolean tl_model_load (TlModel *self, GCancellable *cancellable, GError **error);

/**
 * tl_model_load_async:
 * @self: a model
 * @cancellable: (nullable): see tl_model_load()
 * @callback: (scope async): called in the caller's main context when done
 * @user_data: for @callback
 *
 * Loads in a thread of its own; progress is `notify::load-progress`.
 */
TL_API void tl_model_load_async (TlModel *self, GCancellable *cancellable, GAsyncReadyCallback callback,
    gpointer user_data);

/**
 * tl_model_load_finish:
 * @self: a model
 * @result: what the callback was given
 * @error: return location
 *
 * Returns: %TRUE when loaded
 */
TL_API gboolean tl_model_load_finish (TlModel *self, GAsyncResult *result, GError **error);

/**
 * tl_model_close:
 * @self: a model
 *
 * Cancels what runs (it fails with %TL_ERROR_CLOSED), waits for it and gives the memory back as soon as no generator or
 * conversation holds any. Calling it again does nothing.
 */
TL_API void tl_model_close (TlModel *self);

/* Properties as functions; 0, NULL or FALSE before tl_model_open(). */
TL_API const char *tl_model_get_path (TlModel *self);
TL_API gboolean tl_model_is_loaded (TlModel *self);
TL_API gboolean tl_model_is_closed (TlModel *self);
TL_API guint tl_model_get_dim (TlModel *self);
TL_API guint tl_model_get_vocab_size (TlModel *self);
TL_API guint tl_model_get_n_pre_blocks (TlModel *self);
TL_API guint tl_model_get_default_loops (TlModel *self);
TL_API guint tl_model_get_min_loops (TlModel *self);
TL_API guint tl_model_get_max_loops (TlModel *self);
TL_API guint tl_model_get_max_seq_len (TlModel *self);
TL_API guint64 tl_model_get_memory_usage (TlModel *self);
/**
 * tl_model_get_weight_bytes:
 * @self: a model
 * @loops: loops, 0 = the default
 *
 * Bytes of weights that one generated token has to read.
 *
 * Returns: bytes
 */
TL_API guint64 tl_model_get_weight_bytes (TlModel *self, guint loops);
TL_API const char *tl_model_get_descriptor_json (TlModel *self);
/**
 * tl_model_get_vocab_hash:
 * @self: a model
 *
 * Returns: (transfer none) (nullable): the tokenizer's hash, or "ids-N" with the vocabulary's size when there is none
 */
TL_API const char *tl_model_get_vocab_hash (TlModel *self);
/**
 * tl_model_get_keeps_history:
 * @self: a model
 *
 * Returns: whether a conversation keeps earlier turns unless told otherwise
 */
TL_API gboolean tl_model_get_keeps_history (TlModel *self);
/**
 * tl_model_get_tokenizer:
 * @self: a model
 *
 * Returns: (transfer none) (nullable): the checkpoint's tokenizer
 */
TL_API TlTokenizer *tl_model_get_tokenizer (TlModel *self);
/**
 * tl_model_get_vocabulary:
 * @self: a model
 * @error: return location
 *
 * Made when first asked for. UNSUPPORTED when the model has no tokenizer.
 *
 * Returns: (transfer none): its tokens as grammars need them, for tl_grammar_set_vocabulary()
 */
TL_API TlTokenTrie *tl_model_get_vocabulary (TlModel *self, GError **error);
/**
 * tl_model_compile_regex:
 * @self: a model
 * @pattern: a regex that a whole reply must match (docs/grammar.md)
 * @error: return location
 *
 * Compiled once a pattern and kept with the model. Errors: as tl_grammar_new_regex() and tl_model_get_vocabulary().
 *
 * Returns: (transfer full): the grammar, bound to the model's vocabulary
 */
TL_API TlGrammar *tl_model_compile_regex (TlModel *self, const char *pattern, GError **error);

/**
 * tl_model_begin:
 * @self: a loaded model
 * @ids: native int32 ids of the prompt, at least one
 * @config: (nullable): parameters, copied; %NULL = defaults
 * @error: return location
 *
 * Begins a generation on its own sequence; runs no pass. Errors: CLOSED, INVALID_ARGUMENT (parameters, ids), UNSUPPORTED
 * (stop strings without a tokenizer), SEQUENCE_TOO_LONG, NO_MEMORY.
 *
 * Returns: (transfer full): the generator
 */
TL_API TlGenerator *tl_model_begin (TlModel *self, GBytes *ids, TlGenerateConfig *config, GError **error);

/**
 * tl_model_generate_bytes:
 * @self: a loaded model
 * @ids: native int32 ids of the prompt
 * @config: (nullable): parameters
 * @cancellable: (nullable): see tl_generator_run()
 * @error: return location
 *
 * tl_model_begin() and tl_generator_run() in one.
 *
 * Returns: (transfer full): the result
 */
TL_API TlGeneration *tl_model_generate_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_model_score_bytes:
 * @self: a loaded model
 * @ids: native int32 ids, T of them
 * @config: (nullable): loops, kv-mode, exact-activations, cache-window, state-seed, chunk-size are used
 * @cancellable: (nullable): polled once per loop
 * @error: return location
 *
 * Logits of every position. Errors: as tl_model_begin(), CANCELLED, NUMERIC.
 *
 * Returns: (transfer full): float32 [T × vocab-size]
 */
TL_API TlTensor *tl_model_score_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config, GCancellable *cancellable,
    GError **error);

/**
 * tl_model_score_last_bytes:
 * @self: a loaded model
 * @ids: native int32 ids
 * @config: (nullable): see tl_model_score_bytes()
 * @cancellable: (nullable): polled once per loop
 * @error: return location
 *
 * Logits of the last position.
 *
 * Returns: (transfer full): float32 [vocab-size]
 */
TL_API TlTensor *tl_model_score_last_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_model_score_logit_lens_bytes:
 * @self: a loaded model
 * @ids: native int32 ids, T of them
 * @config: (nullable): see tl_model_score_bytes(); L = its loops, or the model's default
 * @cancellable: (nullable): polled once per loop
 * @error: return location
 *
 * Logits of every position after every loop: entry l equals tl_model_score_bytes() with l + 1 loops, bit for bit. Errors:
 * as tl_model_score_bytes().
 *
 * Returns: (transfer full): float32 [L × T × vocab-size]
 */
TL_API TlTensor *tl_model_score_logit_lens_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_model_score_trajectory_bytes:
 * @self: a loaded model
 * @ids: native int32 ids, T of them
 * @config: (nullable): see tl_model_score_bytes(); L = its loops, or the model's default
 * @cancellable: (nullable): polled once per loop
 * @error: return location
 *
 * The hidden state of every position behind the embedding, each pre block and each loop (behind the loop's own norm where
 * the family has one). Errors: as tl_model_score_bytes().
 *
 * Returns: (transfer full): float32 [(1 + n-pre-blocks + L) × T × dim]
 */
TL_API TlTensor *tl_model_score_trajectory_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_model_score_with_uncertainty_bytes:
 * @self: a loaded model
 * @ids: native int32 ids, T of them
 * @config: (nullable): see tl_model_score_bytes(); L = its loops, or the model's default
 * @cancellable: (nullable): polled once per loop
 * @error: return location
 *
 * How much each further loop still changes the prediction. "logits": float32 [T × vocab-size] after the last loop; "kl":
 * float32 [T × (L − 1)], entry l is KL(softmax after l + 2 loops ‖ softmax after l + 1 loops) in nats; "uncertainty":
 * float32 [T], the mean of a position's kl, 0 when L is 1. Errors: as tl_model_score_bytes().
 *
 * Returns: (transfer full): the three tensors
 */
TL_API TlScores *tl_model_score_with_uncertainty_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_model_score_with_consistency_bytes:
 * @self: a loaded model
 * @ids: native int32 ids, T of them
 * @config: (nullable): see tl_model_score_bytes(); L = its loops, or the model's default
 * @cancellable: (nullable): polled once per loop
 * @error: return location
 *
 * From which depth on the likeliest id stays the same. "logits": float32 [T × vocab-size] after the last loop; "argmax":
 * int32 [L × T], the likeliest id after every loop (the lowest on ties); "stable_from": int32 [T], the fewest loops from
 * which on it is the final one, 1…L; "consistent": bool [T], whether it is so after every loop. Errors: as
 * tl_model_score_bytes().
 *
 * Returns: (transfer full): the four tensors
 */
TL_API TlScores *tl_model_score_with_consistency_bytes (TlModel *self, GBytes *ids, TlGenerateConfig *config,
    GCancellable *cancellable, GError **error);

/**
 * tl_process_logits:
 * @logits: native float32, one per vocabulary entry
 * @history: (nullable): native int32 ids seen so far, for the repetition penalty
 * @mask: (nullable): one byte per entry, 0 = illegal
 * @config: (nullable): the sampling parameters
 * @error: return location
 *
 * The processors of a generation on a caller's own logits: what would be drawn from. Errors: INVALID_ARGUMENT, NUMERIC,
 * DEAD_END.
 *
 * Returns: (transfer full): float32 probabilities, one per entry
 */
TL_API TlTensor *tl_process_logits (GBytes *logits, GBytes *history, GBytes *mask, TlGenerateConfig *config,
    GError **error);

/**
 * tl_tokenizer_new_for_path:
 * @path: a `.tinyloop` file, a tokenizer.json, or a folder that holds one
 * @error: return location
 *
 * Opens only the tokenizer. Errors: BAD_FILE, UNSUPPORTED.
 *
 * Returns: (transfer full): the tokenizer
 */
TL_API TlTokenizer *tl_tokenizer_new_for_path (const char *path, GError **error);

G_END_DECLS
