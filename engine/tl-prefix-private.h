/* tl-prefix-private.h — what prefix caches, pools and resume handles share: the key, and a sequence under it.
 *
 * A key says under which circumstances a computed prefix may be used again, part by part, so that a mismatch can be named.
 * The window is no part of it as long as the prefix is shorter (tl_kv_sequence_set_window() knows). Prompt rows never exit
 * early, so exit rules are no part either.
 */
#pragma once

#include "tl-kept-rows.h"
#include "tl-prefix-cache.h"
#include "tl-prefix-pool.h"
#include "tl-resume-handle.h"

G_BEGIN_DECLS

typedef enum
{
  TL_KEY_MODEL,                 /* the checkpoint's content hash */
  TL_KEY_ARITHMETIC,
  TL_KEY_LOOPS,
  TL_KEY_KV_MODE,
  TL_KEY_EXACT_ACTIVATIONS,
  TL_KEY_STATE_SEED,
  TL_KEY_SALT,
  TL_N_KEY_PARTS
} TlKeyPart;

struct _TlPrefixKey { char *parts[TL_N_KEY_PARTS]; };

TlPrefixKey *tl_prefix_key_new (TlModelCore *core, const TlGenerateConfig *config);
TlPrefixKey *tl_prefix_key_copy (const TlPrefixKey *key);
void tl_prefix_key_free (TlPrefixKey *key);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlPrefixKey, tl_prefix_key_free)
const char *tl_prefix_key_name (TlKeyPart part);
/* the first part in which the two differ, TL_N_KEY_PARTS when none does */
TlKeyPart tl_prefix_key_compare (const TlPrefixKey *a, const TlPrefixKey *b);
/* one string that is equal for equal keys */
char *tl_prefix_key_to_string (const TlPrefixKey *key);

/* A computed prompt: a run that nobody steps, under its key. what: "prefix cache" or "resume handle", for messages. */
typedef struct
{
  const char *what;
  TlPrefixKey *key;
  TlModelRun *run;
} TlPrefix;

/* runs the ids to their end; keep_states in the config leaves run->keep. FALSE: nothing to clear */
gboolean tl_prefix_build (TlPrefix *out, const char *what, TlModel *model, GBytes *ids, TlGenerateConfig *config,
  GCancellable *cancellable, GError **error);
void tl_prefix_clear (TlPrefix *prefix);
guint tl_prefix_length (const TlPrefix *prefix);
guint tl_prefix_loops (const TlPrefix *prefix);
guint64 tl_prefix_bytes (const TlPrefix *prefix);       /* of its pages, shared ones too, and row states */
GBytes *tl_prefix_dup_tokens (const TlPrefix *prefix);
/* The configuration to go on with: a copy in which what is left to the prefix (loops 0, kv-mode default) is the prefix's.
 * NULL: CLOSED, LOOPS_MISMATCH (unless deeper) or INVALID_ARGUMENT naming the part of the key that differs. */
TlGenerateConfig *tl_prefix_config (const TlPrefix *prefix, TlModel *model, TlGenerateConfig *config, gboolean deeper,
  GError **error);
/* begins on prefix and suffix (may be NULL) */
TlGenerator *tl_prefix_begin (const TlPrefix *prefix, TlModel *model, GBytes *suffix, gboolean deeper,
  TlGenerateConfig *config, GError **error);

/* Errors: BAD_FILE with file, field and reason, UNSUPPORTED */
gboolean tl_prefix_save (const TlPrefix *prefix, const char *path, GError **error);
gboolean tl_prefix_load (TlPrefix *out, const char *what, TlModel *model, const char *path, GError **error);

/* --- caches and pools --- */
const TlPrefix *tl_prefix_cache_get_prefix (TlPrefixCache *self);
/* takes key and run */
TlPrefixCache *tl_prefix_cache_new (TlPrefixKey *key, TlModelRun *run);

typedef struct
{
  TlPrefixCache *cache;
  TlModelRun *run;              /* the cache's */
  guint length;                 /* positions that may be taken from it */
} TlPrefixHit;

void tl_prefix_hit_free (TlPrefixHit *hit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlPrefixHit, tl_prefix_hit_free)

/* more than `held` of the ids' beginning, or NULL */
TlPrefixHit *tl_prefix_pool_find (TlPrefixPool *self, TlModelCore *core, TlGenerateConfig *config, const guint32 *ids,
  guint n_ids, guint held);
/* lets go of the entry of this model that was used least recently; FALSE: there is none */
gboolean tl_prefix_pool_evict (TlPrefixPool *self, TlModelCore *core);
/* a prompt took so many positions: a hit, or with none a miss */
void tl_prefix_pool_count (TlPrefixPool *self, guint taken, guint n_ids);
/* the run's prompt is through; takes the key */
void tl_prefix_pool_learn (TlPrefixPool *self, TlModelRun *run, TlPrefixKey *key);

G_END_DECLS
