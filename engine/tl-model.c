/* engine/tl-model.c — TlModel: properties, opening, loading in a thread, closing.
 *
 * The lock guards checkpoint, core and flags; loading holds `loading`, so that two loads load once.
 * What a loaded model can be asked: tl-model-requests.c.
 */
#include <string.h>

#include "cpu/tl-backend-cpu.h"
#include "forward/tl-reference.h"
#include "tl-model-private.h"

struct _TlModel
{
  GObject parent;
  char *path, *device;
  guint threads, max_seq_len;
  guint64 max_cache_bytes;
  TlKvMode kv_default;          /* of the environment when the model was opened */

  GMutex loading;
  GMutex lock;                  /* guards what follows */
  TlCheckpoint *checkpoint;
  TlDescriptor *descriptor;     /* of the checkpoint; stays after close */
  TlWeights *weights;
  TlTokenizer *tokenizer;
  char *vocab_hash;
  TlModelGrammars *grammars;    /* own lock */
  TlModelCore *core;
  gboolean closed;
  guint progress;
};

G_DEFINE_FINAL_TYPE (TlModel, tl_model, G_TYPE_OBJECT)

enum
{
  PROP_PATH = 1, PROP_DEVICE, PROP_THREADS, PROP_MAX_CACHE_BYTES, PROP_MAX_SEQ_LEN,
  PROP_DIM, PROP_VOCAB_SIZE, PROP_N_PRE_BLOCKS, PROP_DEFAULT_LOOPS, PROP_MIN_LOOPS, PROP_MAX_LOOPS, PROP_MEMORY_USAGE,
  PROP_DESCRIPTOR_JSON, PROP_TOKENIZER, PROP_VOCAB_HASH, PROP_LOAD_PROGRESS, PROP_LOADED, PROP_CLOSED, N_PROPS
};
static GParamSpec *props[N_PROPS];

static void
tl_model_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  TlModel *self = TL_MODEL (object);
  switch (id) {
    case PROP_PATH: self->path = g_value_dup_string (value); break;
    case PROP_DEVICE: self->device = g_value_dup_string (value); break;
    case PROP_THREADS: self->threads = g_value_get_uint (value); break;
    case PROP_MAX_CACHE_BYTES: self->max_cache_bytes = g_value_get_uint64 (value); break;
    case PROP_MAX_SEQ_LEN: self->max_seq_len = g_value_get_uint (value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
}

static void
tl_model_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  TlModel *self = TL_MODEL (object);
  switch (id) {
    case PROP_PATH: g_value_set_string (value, self->path); break;
    case PROP_DEVICE: g_value_set_string (value, self->device); break;
    case PROP_THREADS: g_value_set_uint (value, self->threads); break;
    case PROP_MAX_CACHE_BYTES: g_value_set_uint64 (value, self->max_cache_bytes); break;
    case PROP_MAX_SEQ_LEN: g_value_set_uint (value, tl_model_get_max_seq_len (self)); break;
    case PROP_DIM: g_value_set_uint (value, tl_model_get_dim (self)); break;
    case PROP_VOCAB_SIZE: g_value_set_uint (value, tl_model_get_vocab_size (self)); break;
    case PROP_N_PRE_BLOCKS: g_value_set_uint (value, tl_model_get_n_pre_blocks (self)); break;
    case PROP_DEFAULT_LOOPS: g_value_set_uint (value, tl_model_get_default_loops (self)); break;
    case PROP_MIN_LOOPS: g_value_set_uint (value, tl_model_get_min_loops (self)); break;
    case PROP_MAX_LOOPS: g_value_set_uint (value, tl_model_get_max_loops (self)); break;
    case PROP_MEMORY_USAGE: g_value_set_uint64 (value, tl_model_get_memory_usage (self)); break;
    case PROP_DESCRIPTOR_JSON: g_value_set_string (value, tl_model_get_descriptor_json (self)); break;
    case PROP_TOKENIZER: g_value_set_object (value, tl_model_get_tokenizer (self)); break;
    case PROP_VOCAB_HASH: g_value_set_string (value, tl_model_get_vocab_hash (self)); break;
    case PROP_LOAD_PROGRESS: g_value_set_uint (value, self->progress); break;
    case PROP_LOADED: g_value_set_boolean (value, tl_model_is_loaded (self)); break;
    case PROP_CLOSED: g_value_set_boolean (value, tl_model_is_closed (self)); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
  }
}

static void
tl_model_finalize (GObject *object)
{
  TlModel *self = TL_MODEL (object);
  if (self->core)
    tl_model_core_abandon (self->core);
  g_clear_pointer (&self->core, tl_model_core_unref);
  g_clear_pointer (&self->weights, tl_weights_unref);
  g_clear_pointer (&self->checkpoint, tl_checkpoint_unref);
  g_clear_pointer (&self->descriptor, tl_descriptor_unref);
  g_clear_object (&self->tokenizer);
  tl_model_grammars_free (self->grammars);
  g_free (self->vocab_hash);
  g_free (self->path);
  g_free (self->device);
  g_mutex_clear (&self->loading);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (tl_model_parent_class)->finalize (object);
}

static GParamSpec *
read_only_uint (const char *name, const char *blurb)
{
  return g_param_spec_uint (name, name, blurb, 0, G_MAXUINT, 0, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
}

static void
tl_model_class_init (TlModelClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags once = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;
  GParamFlags read = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;
  object_class->set_property = tl_model_set_property;
  object_class->get_property = tl_model_get_property;
  object_class->finalize = tl_model_finalize;

  props[PROP_PATH] = g_param_spec_string ("path", "path", "The .tinyloop file", NULL, once);
  props[PROP_DEVICE] = g_param_spec_string ("device", "device", "cpu, reference or cuda", "cpu", once);
  props[PROP_THREADS] = g_param_spec_uint ("threads", "threads", "0 = all that are allowed", 0, 4096, 0, once);
  props[PROP_MAX_CACHE_BYTES] = g_param_spec_uint64 ("max-cache-bytes", "max-cache-bytes",
      "Bytes of keys and values at most, 0 = no limit", 0, G_MAXUINT64, 0, once);
  props[PROP_MAX_SEQ_LEN] = g_param_spec_uint ("max-seq-len", "max-seq-len",
      "Positions of a sequence at most, 0 = the checkpoint's", 0, G_MAXINT32, 0, once);
  props[PROP_DIM] = read_only_uint ("dim", "Width of the model");
  props[PROP_VOCAB_SIZE] = read_only_uint ("vocab-size", "Number of token ids");
  props[PROP_N_PRE_BLOCKS] = read_only_uint ("n-pre-blocks", "Blocks before the loop");
  props[PROP_DEFAULT_LOOPS] = read_only_uint ("default-loops", "Loops unless told otherwise");
  props[PROP_MIN_LOOPS] = read_only_uint ("min-loops", "Fewest loops");
  props[PROP_MAX_LOOPS] = read_only_uint ("max-loops", "Most loops");
  props[PROP_MEMORY_USAGE] = g_param_spec_uint64 ("memory-usage", "memory-usage", "Bytes of weights and cache", 0,
      G_MAXUINT64, 0, read);
  props[PROP_DESCRIPTOR_JSON] = g_param_spec_string ("descriptor-json", "descriptor-json", "What it computes", NULL, read);
  props[PROP_TOKENIZER] = g_param_spec_object ("tokenizer", "tokenizer", "Its tokenizer", TL_TYPE_TOKENIZER, read);
  props[PROP_VOCAB_HASH] = g_param_spec_string ("vocab-hash", "vocab-hash", "Names the vocabulary", NULL, read);
  props[PROP_LOAD_PROGRESS] = g_param_spec_uint ("load-progress", "load-progress", "Percent", 0, 100, 0, read);
  props[PROP_LOADED] = g_param_spec_boolean ("loaded", "loaded", "Ready for requests", FALSE, read);
  props[PROP_CLOSED] = g_param_spec_boolean ("closed", "closed", "Closed", FALSE, read);
  g_object_class_install_properties (object_class, N_PROPS, props);
}

static void
tl_model_init (TlModel *self)
{
  self->grammars = tl_model_grammars_new ();
  g_mutex_init (&self->loading);
  g_mutex_init (&self->lock);
}

TlModel *
tl_model_new (const char *path)
{
  g_return_val_if_fail (path, NULL);
  return g_object_new (TL_TYPE_MODEL, "path", path, NULL);
}

static void
set_progress (TlModel *self, guint percent)
{
  self->progress = percent;
  g_object_notify_by_pspec (G_OBJECT (self), props[PROP_LOAD_PROGRESS]);
}

/* --- opening and loading --- */

/* whether a variable says 1; FALSE and error when it says neither 1 nor 0 (nor nothing) */
static gboolean
read_switch (const char *name, gboolean *on, GError **error)
{
  const char *value = g_getenv (name);
  *on = value && g_str_equal (value, "1");
  if (*on || !value || !*value || g_str_equal (value, "0"))
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "the environment sets %s=%s; use 1, 0 or nothing", name, value);
  return FALSE;
}

/* what kv-mode=default means for this model */
static gboolean
read_environment (TlModel *self, GError **error)
{
  static const char *const names[] = { "TINYLOOP_KV_H_MODE", "TINYLOOP_KV_INT8", "TINYLOOP_KV_INT4",
    "TINYLOOP_EXPERIMENTAL_FP16_BODY" };
  static const TlKvMode modes[8] = { TL_KV_FP16, TL_KV_H, TL_KV_INT8, TL_KV_H_INT8, TL_KV_INT4 };
  gboolean on[4];
  for (guint i = 0; i < 4; i++)
    if (!read_switch (names[i], &on[i], error))
      return FALSE;
  if (on[3]) {
    g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "the environment sets %s=1, which this version does not implement;"
        " unset it", names[3]);
    return FALSE;
  }
  if (on[2] && (on[0] || on[1])) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "the environment sets %s=1 and %s=1, which exclude each other;"
        " unset one", names[on[1] ? 1 : 0], names[2]);
    return FALSE;
  }
  self->kv_default = modes[on[0] | on[1] << 1 | on[2] << 2];
  return TRUE;
}

static gboolean
check_length (TlModel *self, const TlDescriptor *d, GError **error)
{
  if (self->max_seq_len <= d->max_seq_len)
    return TRUE;
  if (d->pos == TL_POS_LEARNED) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "%s: max-seq-len %u is more than the %u learned positions",
        self->path, self->max_seq_len, d->max_seq_len);
    return FALSE;
  }
  g_info ("%s: max-seq-len %u is more than the %u positions of the checkpoint", self->path, self->max_seq_len,
      d->max_seq_len);
  return TRUE;
}

static const TlBackendClass *
find_device (TlModel *self, GError **error)
{
  const char *device = self->device ? self->device : "cpu";
  if (g_str_equal (device, "cpu") || g_str_equal (device, "auto"))
    return tl_backend_cpu_class ();
  if (g_str_equal (device, "reference"))
    return tl_backend_reference_class ();
  if (g_str_equal (device, "cuda")) {
    gboolean gpu = g_file_test ("/dev/nvidiactl", G_FILE_TEST_EXISTS);
    g_set_error (error, TL_ERROR, TL_ERROR_DEVICE, "device 'cuda' is not available: %s, and this build has no CUDA"
        " backend; use device 'cpu'", gpu ? "an NVIDIA driver was found" : "no NVIDIA driver was found");
  } else {
    g_set_error (error, TL_ERROR, TL_ERROR_DEVICE, "device '%s' is unknown; use 'cpu', 'reference' or 'auto'", device);
  }
  return NULL;
}

gboolean
tl_model_open (TlModel *self, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), FALSE);
  if (!self->path) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "the model has no path; give it a .tinyloop file");
    return FALSE;
  }
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->closed) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CLOSED, "model was closed");
    return FALSE;
  }
  if (self->checkpoint)
    return TRUE;

  g_autoptr (GError) no_tokenizer = NULL;
  if (!read_environment (self, error) || !find_device (self, error))
    return FALSE;
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (self->path, error);
  if (!checkpoint || !check_length (self, tl_checkpoint_descriptor (checkpoint), error))
    return FALSE;
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, error);
  if (!weights)
    return FALSE;
  self->tokenizer = tl_tokenizer_from_checkpoint (checkpoint, &no_tokenizer);
  if (!self->tokenizer && !g_error_matches (no_tokenizer, TL_ERROR, TL_ERROR_UNSUPPORTED)) {
    g_propagate_error (error, g_steal_pointer (&no_tokenizer));
    return FALSE;
  }
  self->weights = g_steal_pointer (&weights);
  self->descriptor = tl_descriptor_ref (tl_checkpoint_descriptor (checkpoint));
  self->vocab_hash = self->tokenizer ? g_strdup (tl_tokenizer_get_vocab_hash (self->tokenizer))
      : g_strdup_printf ("ids-%u", self->descriptor->vocab_size);
  self->checkpoint = g_steal_pointer (&checkpoint);
  return TRUE;
}

static gboolean
load_locked (TlModel *self, GCancellable *cancellable, GError **error)
{
  if (tl_model_is_loaded (self))
    return TRUE;
  set_progress (self, 0);
  if (!tl_model_open (self, error))
    return FALSE;
  set_progress (self, 10);
  if (cancellable && g_cancellable_is_cancelled (cancellable)) {
    g_set_error (error, TL_ERROR, TL_ERROR_CANCELLED, "loading %s was cancelled", self->path);
    return FALSE;
  }

  g_autoptr (TlProgram) program = tl_program_new (self->weights, error);
  if (!program)
    return FALSE;
  set_progress (self, 30);
  g_autoptr (TlModelCore) core = tl_model_core_new (program, find_device (self, NULL), self->threads,
      self->max_cache_bytes, error);
  if (!core)
    return FALSE;
  tl_model_core_set_default_kv_mode (core, self->kv_default);

  g_mutex_lock (&self->lock);
  gboolean closed = self->closed;
  if (!closed)
    self->core = g_steal_pointer (&core);
  g_mutex_unlock (&self->lock);
  if (closed) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CLOSED, "model was closed");
    return FALSE;
  }
  set_progress (self, 100);
  g_object_notify_by_pspec (G_OBJECT (self), props[PROP_LOADED]);
  return TRUE;
}

gboolean
tl_model_load (TlModel *self, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), FALSE);
  g_mutex_lock (&self->loading);
  gboolean ok = load_locked (self, cancellable, error);
  g_mutex_unlock (&self->loading);
  return ok;
}

static void
load_in_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  GError *error = NULL;
  if (tl_model_load (source, cancellable, &error))
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

void
tl_model_load_async (TlModel *self, GCancellable *cancellable, GAsyncReadyCallback callback, gpointer user_data)
{
  g_return_if_fail (TL_IS_MODEL (self));
  g_autoptr (GTask) task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_check_cancellable (task, FALSE);
  g_task_run_in_thread (task, load_in_thread);
}

gboolean
tl_model_load_finish (TlModel *self, GAsyncResult *result, GError **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);
  return g_task_propagate_boolean (G_TASK (result), error);
}

void
tl_model_close (TlModel *self)
{
  g_return_if_fail (TL_IS_MODEL (self));
  g_mutex_lock (&self->lock);
  gboolean first = !self->closed;
  self->closed = TRUE;
  g_autoptr (TlModelCore) core = g_steal_pointer (&self->core);
  g_clear_pointer (&self->weights, tl_weights_unref);
  g_clear_pointer (&self->checkpoint, tl_checkpoint_unref);
  g_mutex_unlock (&self->lock);

  if (core)
    tl_model_core_close (core);
  if (first)
    g_object_notify_by_pspec (G_OBJECT (self), props[PROP_CLOSED]);
}

TlModelCore *
tl_model_get_core (TlModel *self, GError **error)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  if (self->closed)
    g_set_error_literal (error, TL_ERROR, TL_ERROR_CLOSED, "model was closed");
  else if (!self->core)
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "%s is not loaded; load it before asking it", self->path);
  return self->core ? tl_model_core_ref (self->core) : NULL;
}

/* --- properties as functions --- */

static const TlDescriptor *
descriptor_of (TlModel *self)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  return self->descriptor;
}

const char *
tl_model_get_path (TlModel *self)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return self->path;
}

gboolean
tl_model_is_loaded (TlModel *self)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  return self->core != NULL;
}

gboolean
tl_model_is_closed (TlModel *self)
{
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  return self->closed;
}

guint
tl_model_get_dim (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return d ? d->d_model : 0;
}

guint
tl_model_get_vocab_size (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return d ? d->vocab_size : 0;
}

guint
tl_model_get_n_pre_blocks (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return d ? d->n_blocks[TL_STACK_PRE] : 0;
}

guint
tl_model_get_default_loops (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return d ? d->loops_default : 0;
}

guint
tl_model_get_min_loops (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return d ? d->loops_min : 0;
}

guint
tl_model_get_max_loops (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return d ? d->loops_max : 0;
}

guint
tl_model_get_max_seq_len (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return self->max_seq_len ? self->max_seq_len : d ? d->max_seq_len : 0;
}

guint64
tl_model_get_memory_usage (TlModel *self)
{
  g_return_val_if_fail (TL_IS_MODEL (self), 0);
  g_autoptr (TlModelCore) core = tl_model_get_core (self, NULL);
  return core ? tl_model_core_memory (core) : 0;
}

const char *
tl_model_get_descriptor_json (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return d ? d->json : NULL;
}

const char *
tl_model_get_vocab_hash (TlModel *self)
{
  descriptor_of (self);
  return self->vocab_hash;
}

gboolean
tl_model_get_keeps_history (TlModel *self)
{
  const TlDescriptor *d = descriptor_of (self);
  return d && d->history_keep;
}

TlTokenizer *
tl_model_get_tokenizer (TlModel *self)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return self->tokenizer;
}

TlTokenTrie *
tl_model_get_vocabulary (TlModel *self, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self), NULL);
  return tl_model_grammars_vocabulary (self->grammars, self->tokenizer, error);
}

TlGrammar *
tl_model_compile_regex (TlModel *self, const char *pattern, GError **error)
{
  g_return_val_if_fail (TL_IS_MODEL (self) && pattern, NULL);
  return tl_model_grammars_regex (self->grammars, self->tokenizer, pattern, error);
}

TlMatcher *
tl_model_create_matcher (TlModel *self, TlGrammar *grammar, GError **error)
{
  return tl_model_grammars_matcher (self->grammars, self->tokenizer, tl_model_get_vocab_size (self), grammar, error);
}
