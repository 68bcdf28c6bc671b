/* decode/tl-generate-config.h — TlGenerateConfig: everything one generation may be told, as GObject properties.
 *
 * One property per parameter, by the command line's names. Not thread-safe while being changed; a generator reads it
 * once, when it begins. Property ranges document; tl_generate_config_validate() decides.
 *
 * Properties (type, default): max-tokens (uint, 64) · loops (uint, 0 = the model's) · temperature (double, 0; <= 0.01 is
 * greedy) · top-k (uint, 50; 0 = off) · top-p (double, 1) · min-p (double, 0) · repetition-penalty (double, 1) ·
 * presence-penalty, frequency-penalty (double, 0) · seed (uint64, 0) · stop (strv, none) · stop-sequences (boxed pointer
 * array, see tl_generate_config_add_stop_sequence()) · ignore-eos (boolean, false) · cache-window (uint, 0 = all) ·
 * kv-mode (enum, default) · exact-activations (boolean, false) · state-seed (uint64, 0) · chunk-size (uint, 0 = chosen) ·
 * token-stats (boolean, false): every token says its log-probability and the entropy, of softmax (logits) before penalties,
 * grammar, temperature and cuts; top-logprobs (uint, 0): and that many likeliest ids ·
 * keep-states (boolean, false): the prompt's row states stay in memory, so that a reply may go deeper than it · cache-salt
 * (string, none): prefixes are shared only between equal ones ·
 * grammar (TlGrammar, none): what the whole reply must match; bound to the model's vocabulary when a generation begins
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

/**
 * TlKvPrecision:
 * @TL_KV_PRECISION_DEFAULT: fp32 with exact activations, else what the environment said when the model was opened
 *   (TINYLOOP_KV_INT8, TINYLOOP_KV_INT4, TINYLOOP_KV_H_MODE), else fp16
 * @TL_KV_PRECISION_FP16: half precision
 * @TL_KV_PRECISION_FP32: single precision, for parity with a reference
 * @TL_KV_PRECISION_INT8: 8 bits, a scale per head and token
 * @TL_KV_PRECISION_INT4: 4 bits, keys with a scale per channel and values with one per token; the newest 32 positions stay in
 *   half precision
 * @TL_KV_PRECISION_H: attention inputs in half precision; keys and values are computed anew whenever they are read
 * @TL_KV_PRECISION_H_INT8: attention inputs in 8 bits
 *
 * How keys and values are stored.
 */
typedef enum
{
  TL_KV_PRECISION_DEFAULT,
  TL_KV_PRECISION_FP16,
  TL_KV_PRECISION_FP32,
  TL_KV_PRECISION_INT8,
  TL_KV_PRECISION_INT4,
  TL_KV_PRECISION_H,
  TL_KV_PRECISION_H_INT8,
} TlKvPrecision;

TL_API GType tl_kv_precision_get_type (void) G_GNUC_CONST;
#define TL_TYPE_KV_PRECISION (tl_kv_precision_get_type ())

#define TL_TYPE_GENERATE_CONFIG (tl_generate_config_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlGenerateConfig, tl_generate_config, TL, GENERATE_CONFIG, GObject)

/**
 * tl_generate_config_new:
 *
 * A configuration with every parameter at its default.
 *
 * Returns: (transfer full): the configuration
 */
TL_API TlGenerateConfig *tl_generate_config_new (void);

/**
 * tl_generate_config_copy:
 * @self: a configuration
 *
 * Returns: (transfer full): an independent copy
 */
TL_API TlGenerateConfig *tl_generate_config_copy (TlGenerateConfig *self);

/**
 * tl_generate_config_validate:
 * @self: a configuration
 * @error: return location
 *
 * Checks every range and combination that does not depend on a model. What depends on one (loops, length) is checked
 * when a generation begins.
 *
 * Returns: %TRUE, or %FALSE with %TL_ERROR_INVALID_ARGUMENT naming parameter, value and range
 */
TL_API gboolean tl_generate_config_validate (TlGenerateConfig *self, GError **error);

/**
 * tl_generate_config_add_stop_sequence:
 * @self: a configuration
 * @ids: native int32 token ids
 *
 * Generation ends when the generated ids end with @ids (never reaching into the prompt; the match stays in the output;
 * of several the shorter one wins). Empty sequences are refused by tl_generate_config_validate().
 */
TL_API void tl_generate_config_add_stop_sequence (TlGenerateConfig *self, GBytes *ids);

/**
 * tl_generate_config_clear_stop_sequences:
 * @self: a configuration
 */
TL_API void tl_generate_config_clear_stop_sequences (TlGenerateConfig *self);

G_END_DECLS
