/* gst/tl-properties.h — every property of every element as rows of one table.
 *
 * An element installs the rows that carry its flag; tlgenerate installs those of its children and forwards by name.
 * The id of a property is its row, the same in every class.
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

typedef enum
{
  TL_ON_TOKENIZE = 1 << 0,
  TL_ON_GRAMMAR = 1 << 1,
  TL_ON_DECODE = 1 << 2,
  TL_ON_DETOKENIZE = 1 << 3,
  TL_ON_CONFIG = 1 << 4,        /* kept in the engine's config object */
  TL_ON_SINK = 1 << 5,
  TL_ON_PREFILL = 1 << 6,
} TlPropertyOwner;

typedef enum
{
  TL_PROP_0,
  TL_PROP_MODEL_PATH, TL_PROP_MODEL, TL_PROP_DEVICE, TL_PROP_MAX_CACHE_BYTES,
  TL_PROP_FRAMING, TL_PROP_SYSTEM_PROMPT, TL_PROP_CHAT_TEMPLATE, TL_PROP_MAX_PROMPT_TOKENS, TL_PROP_OVERFLOW,
  TL_PROP_TYPE, TL_PROP_GRAMMAR, TL_PROP_LOCATION,
  TL_PROP_HISTORY,
  TL_PROP_MAX_TOKENS, TL_PROP_LOOPS, TL_PROP_TEMPERATURE, TL_PROP_TOP_K, TL_PROP_TOP_P, TL_PROP_MIN_P,
  TL_PROP_REPETITION_PENALTY, TL_PROP_SEED, TL_PROP_CACHE_WINDOW, TL_PROP_KV_MODE, TL_PROP_CHUNK_SIZE, TL_PROP_IGNORE_EOS, TL_PROP_STOP,
  TL_PROP_ON_NEW_PROMPT, TL_PROP_MAX_QUEUED_PROMPTS, TL_PROP_TIMESTAMP_MODE, TL_PROP_TOKEN_DURATION,
  TL_PROP_TOKENS_PER_BUFFER, TL_PROP_LATENCY, TL_PROP_TIMEOUT, TL_PROP_ADAPTIVE_LOOPS, TL_PROP_MIN_LOOPS, TL_PROP_RESET_ON_FLUSH, TL_PROP_STATS,
  TL_PROP_TOKEN_STATS, TL_PROP_TOP_LOGPROBS,
  TL_PROP_MODE, TL_PROP_SEPARATOR, TL_PROP_SKIP_SPECIAL, TL_PROP_LANGUAGE, TL_PROP_POST_MESSAGES, TL_PROP_LAST_REPLY,
} TlProperty;

typedef enum { TL_FRAMING_AUTO, TL_FRAMING_LINE, TL_FRAMING_BUFFER, TL_FRAMING_EOS } GstTlFraming;
typedef enum { TL_OVERFLOW_ERROR, TL_OVERFLOW_TRUNCATE_LEFT } GstTlOverflow;
typedef enum { TL_GRAMMAR_NONE, TL_GRAMMAR_REGEX, TL_GRAMMAR_JSON_SCHEMA, TL_GRAMMAR_GBNF } GstTlGrammarType;
typedef enum { TL_KV_MODE_DEFAULT, TL_KV_MODE_FP16, TL_KV_MODE_FP32, TL_KV_MODE_INT8, TL_KV_MODE_INT4, TL_KV_MODE_H, TL_KV_MODE_H_INT8 } GstTlKvMode; /* as TlKvPrecision */
typedef enum { TL_HISTORY_AUTO, TL_HISTORY_KEEP, TL_HISTORY_NONE } GstTlHistory;
typedef enum { TL_NEW_PROMPT_QUEUE, TL_NEW_PROMPT_INTERRUPT, TL_NEW_PROMPT_DROP } GstTlOnNewPrompt;
typedef enum { TL_TIME_AUTO, TL_TIME_INPUT, TL_TIME_RUNNING, TL_TIME_PACED } GstTlTimestampMode;
typedef enum
{
  TL_MODE_DELTA, TL_MODE_WORD, TL_MODE_SENTENCE, TL_MODE_LINE, TL_MODE_REPLY, TL_MODE_CUMULATIVE
} GstTlTextMode;
typedef enum { TL_SEPARATOR_NONE, TL_SEPARATOR_NEWLINE, TL_SEPARATOR_BLANK_LINE } GstTlSeparator;

void tl_properties_install (GObjectClass *klass, guint owners);
gboolean tl_property_belongs (guint id, guint owner);
void tl_property_set_list (GObject *config, const char *name, const GValue *value);
void tl_property_get_list (GObject *config, const char *name, GValue *value);
void tl_properties_init_preset (gpointer interface, gpointer data);

G_END_DECLS
