/* decode/tl-generate-config-private.h — the fields of a configuration, for those who run one. */
#pragma once

#include "decode/tl-generate-config.h"
#include "decode/tl-sampler.h"
#include "grammar/tl-grammar.h"

G_BEGIN_DECLS

struct _TlGenerateConfig
{
  GObject parent;
  guint max_tokens, loops, top_k, cache_window, chunk_size, top_logprobs;
  double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  guint64 seed, state_seed;
  gboolean ignore_eos, exact_activations, token_stats, keep_states;
  TlKvPrecision kv_mode;
  char *cache_salt;             /* or NULL */
  char **stop;                  /* strings, or NULL */
  GPtrArray *stop_sequences;    /* of GBytes: native int32 ids */
  TlGrammar *grammar;           /* or NULL */
};

TlSamplerParams tl_generate_config_sampler (const TlGenerateConfig *self);

G_END_DECLS
