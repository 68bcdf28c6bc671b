/* gst/tl-properties.c — the table of properties and the fresh pspecs made from it.
 *
 * A pspec belongs to one class, so a bin cannot re-install its children's: every class gets its own from the same row.
 */
#include "tl-properties.h"

static GType
enum_type (const char *name, const GEnumValue *values)
{
  GType type = g_type_from_name (name);

  if (!type) {
    type = g_enum_register_static (name, values);
    gst_type_mark_as_plugin_api (type, 0);
  }
  return type;
}

#define ENUM(function, name, ...)                               \
  static GType function (void)                                  \
  {                                                             \
    static gsize type = 0;                                      \
    static const GEnumValue values[] = { __VA_ARGS__, { 0 } };  \
    if (g_once_init_enter (&type))                              \
      g_once_init_leave (&type, enum_type (name, values));      \
    return type;                                                \
  }

ENUM (framing_type, "GstTlFraming",
    { TL_FRAMING_AUTO, "until EOS in a BYTES segment, else a buffer is a prompt", "auto" },
    { TL_FRAMING_LINE, "a line is a prompt", "line" },
    { TL_FRAMING_BUFFER, "a buffer is a prompt", "buffer" },
    { TL_FRAMING_EOS, "everything until EOS is one prompt", "eos" })
ENUM (overflow_type, "GstTlOverflow",
    { TL_OVERFLOW_ERROR, "a prompt that is too long is an error", "error" },
    { TL_OVERFLOW_TRUNCATE_LEFT, "the oldest tokens after the system prompt are left out", "truncate-left" })
ENUM (grammar_type, "GstTlGrammarType",
    { TL_GRAMMAR_NONE, "no constraint", "none" },
    { TL_GRAMMAR_REGEX, "regular expression", "regex" },
    { TL_GRAMMAR_JSON_SCHEMA, "JSON Schema", "json-schema" },
    { TL_GRAMMAR_GBNF, "GBNF grammar", "gbnf" })
ENUM (kv_mode_type, "GstTlKvMode",
    { TL_KV_MODE_DEFAULT, "half precision, unless the environment says otherwise", "default" },
    { TL_KV_MODE_FP16, "half precision", "fp16" },
    { TL_KV_MODE_FP32, "single precision", "fp32" },
    { TL_KV_MODE_INT8, "8 bits", "int8" },
    { TL_KV_MODE_INT4, "4 bits", "int4" },
    { TL_KV_MODE_H, "attention inputs in half precision", "h" },
    { TL_KV_MODE_H_INT8, "attention inputs in 8 bits", "h-int8" })
ENUM (history_type, "GstTlHistory",
    { TL_HISTORY_AUTO, "as the checkpoint says", "auto" },
    { TL_HISTORY_KEEP, "a prompt sees earlier turns", "keep" },
    { TL_HISTORY_NONE, "every prompt starts anew", "none" })
ENUM (on_new_prompt_type, "GstTlOnNewPrompt",
    { TL_NEW_PROMPT_QUEUE, "wait for the running reply", "queue" },
    { TL_NEW_PROMPT_INTERRUPT, "cancel the running reply, flushing what was not consumed", "interrupt" },
    { TL_NEW_PROMPT_DROP, "drop the new prompt", "drop" })
ENUM (timestamp_mode_type, "GstTlTimestampMode",
    { TL_TIME_AUTO, "running-time when live, else input", "auto" },
    { TL_TIME_INPUT, "every token carries its prompt's time", "input" },
    { TL_TIME_RUNNING, "the time a token was decoded", "running-time" },
    { TL_TIME_PACED, "prompt time + index x token-duration", "paced" })
ENUM (mode_type, "GstTlTextMode",
    { TL_MODE_DELTA, "the new text of each token", "delta" },
    { TL_MODE_WORD, "whole words", "word" },
    { TL_MODE_SENTENCE, "whole sentences", "sentence" },
    { TL_MODE_LINE, "whole lines", "line" },
    { TL_MODE_REPLY, "the whole reply at its end", "reply" },
    { TL_MODE_CUMULATIVE, "with each token all text so far", "cumulative" })

ENUM (separator_type, "GstTlSeparator",
    { TL_SEPARATOR_NONE, "nothing stands between replies", "none" },
    { TL_SEPARATOR_NEWLINE, "the end of the line", "newline" },
    { TL_SEPARATOR_BLANK_LINE, "the end of the line and an empty one", "blank-line" })

typedef enum { KIND_STRING, KIND_OBJECT, KIND_BOOL, KIND_UINT, KIND_UINT64, KIND_DOUBLE, KIND_ENUM, KIND_LIST, KIND_STATS } Kind;

typedef struct
{
  guint id;
  guint owners;
  const char *name, *blurb;
  Kind kind;
  double min, max, preset;
  GType (*type) (void);
  const char *text;             /* default of a string */
  guint flags;
} Row;

/* keeps a share off the end of its range that the engine refuses; a controller maps 0…1 onto the range that is left */
#define LEAST 0.000001

#define RW G_PARAM_READWRITE
#define READY (RW | GST_PARAM_MUTABLE_READY)
#define PLAY (RW | GST_PARAM_MUTABLE_PLAYING)
#define CONTROL (PLAY | GST_PARAM_CONTROLLABLE)
#define MODELLED (TL_ON_TOKENIZE | TL_ON_GRAMMAR | TL_ON_PREFILL | TL_ON_DECODE | TL_ON_DETOKENIZE)
#define SAMPLING (TL_ON_DECODE | TL_ON_CONFIG)
#define PREFILLING (SAMPLING | TL_ON_PREFILL)

static const Row rows[] = {
  { TL_PROP_MODEL_PATH, MODELLED, "model-path", "File of the model (.tinyloop); not set: the model of a neighbouring element or of the application", KIND_STRING, .flags = READY },
  { TL_PROP_MODEL, MODELLED, "model", "Model object to use instead of a file; the model in use when read", KIND_OBJECT, .flags = READY },
  { TL_PROP_DEVICE, MODELLED, "device", "Compute device: auto (the best there is), cpu or cuda", KIND_STRING, .text = "auto", .flags = READY },
  { TL_PROP_MAX_CACHE_BYTES, MODELLED, "max-cache-bytes", "Most bytes of keys and values, of all conversations of the model together; 0: no limit", KIND_UINT64, 0, 0, 0, .flags = READY },
  { TL_PROP_FRAMING, TL_ON_TOKENIZE, "framing", "What makes a prompt of the text that comes in", KIND_ENUM, .type = framing_type, .flags = READY },
  { TL_PROP_SYSTEM_PROMPT, TL_ON_TOKENIZE, "system-prompt", "System message that the chat template puts before the first prompt; not set: none", KIND_STRING, .flags = PLAY },
  { TL_PROP_CHAT_TEMPLATE, TL_ON_TOKENIZE, "chat-template", "How a prompt is dressed: auto (the model's own way), none, chatml, command, or a Jinja template", KIND_STRING, .text = "auto", .flags = PLAY },
  { TL_PROP_MAX_PROMPT_TOKENS, TL_ON_TOKENIZE, "max-prompt-tokens", "Longest prompt in tokens; 0: the model's context less one token", KIND_UINT, 0, G_MAXINT, 0, .flags = PLAY },
  { TL_PROP_OVERFLOW, TL_ON_TOKENIZE, "overflow", "What happens to a prompt that is longer than max-prompt-tokens", KIND_ENUM, .type = overflow_type, .flags = PLAY },
  { TL_PROP_TYPE, TL_ON_GRAMMAR, "type", "Kind of grammar that replies must follow", KIND_ENUM, .type = grammar_type, .flags = PLAY },
  { TL_PROP_GRAMMAR, TL_ON_GRAMMAR, "grammar", "Source text of the grammar", KIND_STRING, .flags = PLAY },
  { TL_PROP_LOCATION, TL_ON_GRAMMAR, "location", "File that holds the source text of the grammar", KIND_STRING, .flags = PLAY },
  { TL_PROP_HISTORY, TL_ON_TOKENIZE | TL_ON_PREFILL | TL_ON_DECODE, "history", "Whether a prompt sees the earlier turns of its conversation", KIND_ENUM, .type = history_type, .flags = READY },
  { TL_PROP_MAX_TOKENS, SAMPLING, "max-tokens", "Most tokens of a reply; cut to what the context leaves", KIND_UINT, 1, G_MAXINT, 256, .flags = CONTROL },
  { TL_PROP_LOOPS, PREFILLING, "loops", "Times the loop block is applied to a token; 0: the model's default", KIND_UINT, 0, 1024, 0, .flags = CONTROL },
  { TL_PROP_TEMPERATURE, SAMPLING, "temperature", "Divides the logits before a draw; up to 0.01: always the most likely token", KIND_DOUBLE, 0, 100, 0, .flags = CONTROL },
  { TL_PROP_TOP_K, SAMPLING, "top-k", "Draw among this many of the most likely tokens; 0: among all", KIND_UINT, 0, G_MAXINT, 50, .flags = CONTROL },
  { TL_PROP_TOP_P, SAMPLING, "top-p", "Draw among the smallest set of tokens with this probability in sum; 1: among all", KIND_DOUBLE, LEAST, 1, 1, .flags = CONTROL },
  { TL_PROP_MIN_P, SAMPLING, "min-p", "Draw among tokens at least this probable relative to the most likely one; 0: among all", KIND_DOUBLE, 0, 1 - LEAST, 0, .flags = CONTROL },
  { TL_PROP_REPETITION_PENALTY, SAMPLING, "repetition-penalty", "Divides the positive logits of tokens already seen and multiplies the negative ones; 1: off", KIND_DOUBLE, 0.01, 100, 1, .flags = CONTROL },
  { TL_PROP_SEED, SAMPLING, "seed", "Seed of the draws; the same seed gives the same reply", KIND_UINT64, 0, 0, 0, .flags = CONTROL },
  { TL_PROP_CACHE_WINDOW, PREFILLING, "cache-window", "Positions that a token sees, in tokens; 0: all", KIND_UINT, 0, G_MAXINT, 0, .flags = READY },
  { TL_PROP_KV_MODE, PREFILLING, "kv-mode", "How keys and values are kept; fp32 for parity with a reference", KIND_ENUM, .type = kv_mode_type, .flags = READY },
  { TL_PROP_CHUNK_SIZE, PREFILLING, "chunk-size", "Most tokens of a prompt in one pass, which is how long a cancel waits; 0: 128", KIND_UINT, 0, 65536, 0, .flags = READY },
  { TL_PROP_IGNORE_EOS, SAMPLING, "ignore-eos", "Go on after a token that ends the reply", KIND_BOOL, .flags = CONTROL },
  { TL_PROP_STOP, SAMPLING, "stop", "Strings that end a reply; they are not part of it", KIND_LIST, .flags = PLAY },
  { TL_PROP_ON_NEW_PROMPT, TL_ON_DECODE, "on-new-prompt", "What happens when a prompt comes during a reply", KIND_ENUM, .type = on_new_prompt_type, .flags = PLAY },
  { TL_PROP_MAX_QUEUED_PROMPTS, TL_ON_DECODE, "max-queued-prompts", "Prompts that may wait before upstream blocks", KIND_UINT, 1, 65535, 1, .flags = PLAY },
  { TL_PROP_TIMESTAMP_MODE, TL_ON_DECODE, "timestamp-mode", "Where the PTS of a token comes from", KIND_ENUM, .type = timestamp_mode_type, .flags = PLAY },
  { TL_PROP_TOKEN_DURATION, TL_ON_DECODE, "token-duration", "Duration of a token in ns; 0: the measured mean", KIND_UINT64, 0, 0, 0, .flags = PLAY },
  { TL_PROP_TOKENS_PER_BUFFER, TL_ON_DECODE, "tokens-per-buffer", "Tokens collected into one buffer", KIND_UINT, 1, 4096, 1, .flags = PLAY },
  { TL_PROP_LATENCY, TL_ON_DECODE, "latency", "Latency in ms that is added to a live pipeline; 0: none", KIND_UINT, 0, G_MAXINT, 0, .flags = PLAY },
  { TL_PROP_TIMEOUT, TL_ON_DECODE, "timeout", "Longest time of a reply in ms, from its begin to its last pass; 0: no limit", KIND_UINT, 0, G_MAXINT, 0, .flags = PLAY },
  { TL_PROP_ADAPTIVE_LOOPS, TL_ON_DECODE, "adaptive-loops", "Whether a token gets only as many loops, of min-loops to loops, as fit before it is due: one token-duration after the token before it. The reply then depends on the machine's speed (exact=false)", KIND_BOOL, .flags = PLAY },
  { TL_PROP_MIN_LOOPS, TL_ON_DECODE, "min-loops", "Fewest loops of a token with adaptive-loops", KIND_UINT, 1, 1024, 1, .flags = PLAY },
  { TL_PROP_RESET_ON_FLUSH, TL_ON_DECODE, "reset-on-flush", "Whether an upstream flush makes the element forget the conversation", KIND_BOOL, .flags = PLAY },
  { TL_PROP_STATS, TL_ON_DECODE, "stats", "Figures of the last reply and totals (fields: tinyloop-generation in docs/wire-format.md)", KIND_STATS, .flags = G_PARAM_READABLE },
  { TL_PROP_TOKEN_STATS, SAMPLING, "token-stats", "Whether every token's meta says its log-probability and the entropy; counts from the next prompt", KIND_BOOL, .flags = PLAY },
  { TL_PROP_TOP_LOGPROBS, SAMPLING, "top-logprobs", "Likeliest ids that a token's meta names, with token-stats", KIND_UINT, 0, 1024, 0, .flags = PLAY },
  { TL_PROP_MODE, TL_ON_DETOKENIZE, "mode", "What a text buffer holds", KIND_ENUM, .type = mode_type, .flags = READY },
  { TL_PROP_SEPARATOR, TL_ON_DETOKENIZE, "separator", "What follows every reply that gave text, as a buffer of its own; for sinks that write replies one behind the other", KIND_ENUM, .type = separator_type, .flags = READY },
  { TL_PROP_SKIP_SPECIAL, TL_ON_DETOKENIZE, "skip-special", "Whether special tokens give no text", KIND_BOOL, .preset = TRUE, .flags = READY },
  { TL_PROP_LANGUAGE, TL_ON_DETOKENIZE, "language", "Language of the replies as ISO 639 code, sent as a tag; not set: none is sent", KIND_STRING, .flags = READY },
  { TL_PROP_POST_MESSAGES, TL_ON_DECODE | TL_ON_SINK, "post-messages", "Whether to post element messages on the bus", KIND_BOOL, .preset = TRUE, .flags = PLAY },
  { TL_PROP_LAST_REPLY, TL_ON_SINK, "last-reply", "Text of the last whole reply; not set before the first", KIND_STRING, .flags = G_PARAM_READABLE },
};

static GParamSpec *
pspec_new (const Row *row)
{
  GParamFlags flags = row->flags | G_PARAM_STATIC_STRINGS;

  switch (row->kind) {
    case KIND_STRING:
      return g_param_spec_string (row->name, row->name, row->blurb, row->text, flags);
    case KIND_OBJECT:
      return g_param_spec_object (row->name, row->name, row->blurb, G_TYPE_OBJECT, flags);
    case KIND_BOOL:
      return g_param_spec_boolean (row->name, row->name, row->blurb, row->preset != 0, flags);
    case KIND_UINT:
      return g_param_spec_uint (row->name, row->name, row->blurb, row->min, row->max, row->preset, flags);
    case KIND_UINT64:
      return g_param_spec_uint64 (row->name, row->name, row->blurb, 0, G_MAXUINT64, row->preset, flags);
    case KIND_DOUBLE:
      return g_param_spec_double (row->name, row->name, row->blurb, row->min, row->max, row->preset, flags);
    case KIND_ENUM:
      return g_param_spec_enum (row->name, row->name, row->blurb, row->type (), row->preset, flags);
    case KIND_LIST:
      return gst_param_spec_array (row->name, row->name, row->blurb,
          g_param_spec_string ("string", "string", "One string", NULL, RW | G_PARAM_STATIC_STRINGS), flags);
    case KIND_STATS:
      return g_param_spec_boxed (row->name, row->name, row->blurb, GST_TYPE_STRUCTURE, flags);
  }
  return NULL;
}

void
tl_properties_install (GObjectClass *klass, guint owners)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].owners & owners)
      g_object_class_install_property (klass, rows[i].id, pspec_new (&rows[i]));
}

gboolean
tl_property_belongs (guint id, guint owner)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].id == id)
      return (rows[i].owners & owner) != 0;
  return FALSE;
}

/* ---- lists */

/* lists are GstValueArray on elements, so that gst-launch can write them, and GStrv in the engine */
void
tl_property_set_list (GObject *config, const char *name, const GValue *value)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < gst_value_array_get_size (value); i++)
    if (g_value_get_string (gst_value_array_get_value (value, i)))
      g_strv_builder_add (builder, g_value_get_string (gst_value_array_get_value (value, i)));
  g_auto (GStrv) list = g_strv_builder_end (builder);
  g_object_set (config, name, list, NULL);
}

void
tl_property_get_list (GObject *config, const char *name, GValue *value)
{
  g_auto (GStrv) list = NULL;

  g_object_get (config, name, &list, NULL);
  for (guint i = 0; list && list[i]; i++) {
    GValue item = G_VALUE_INIT;

    g_value_init (&item, G_TYPE_STRING);
    g_value_set_string (&item, list[i]);
    gst_value_array_append_and_take_value (value, &item);
  }
}

/* ---- presets: what is written to a file and read from one is how to generate, never which model */

static char **
preset_names (GstPreset *preset)
{
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if ((rows[i].flags & RW) == RW && rows[i].owners != MODELLED
        && g_object_class_find_property (G_OBJECT_GET_CLASS (preset), rows[i].name))
      g_strv_builder_add (names, rows[i].name);
  return g_strv_builder_end (names);
}

/* GInterfaceInitFunc of GstPreset on every element that has presets */
void
tl_properties_init_preset (gpointer interface, gpointer data)
{
  ((GstPresetInterface *) interface)->get_property_names = preset_names;
}
