/* forward/tl-backend.h — what a device must offer: prepare a program, run batches of rows, hold row states and pages.
 *
 * Life: a class (tl_backend_cpu_class (), …) prepares a program into a backend, which then runs passes from one thread at
 * a time. Row states outlive passes: they are all that is needed to continue a row deeper (drafts, resume, early exit).
 * Called by cache/tl-pass.c and tests only; decode and score go through tl-pass.
 */
#pragma once

#include <gio/gio.h>

#include "forward/tl-batch.h"
#include "forward/tl-program.h"

G_BEGIN_DECLS

typedef struct _TlBackend TlBackend;
typedef struct _TlBackendClass TlBackendClass;

typedef struct
{
  gboolean exact_activations;   /* activations stay F32, quantised weights are expanded inside the kernel */
  guint threads;                /* 0 = as many as the process may use */
} TlBackendOptions;

/* What one entry does, in this order. A whole token is PRE | BODY | POST. */
typedef enum
{
  TL_STAGE_PRE = 1 << 0,        /* embed, pre blocks, first state; depth becomes 0 */
  TL_STAGE_BODY = 1 << 1,       /* loops until every row is at MIN (stop, depth + max_loops) */
  TL_STAGE_POST = 1 << 2,       /* coda; logits and hidden of the rows that want them */
  TL_STAGE_FILL = 1 << 3,       /* alone: K and V of loops depth … stop - 1, projected from the state as it is; depth becomes
                                 * stop, states stay */
} TlStages;

typedef enum { TL_STATE_H, TL_STATE_E } TlStatePart;

/* A whole sequence, for devices that keep no cache. */
typedef struct
{
  const guint32 *tokens;
  guint n;
  const guint *depths;          /* [n] loops of each position */
  guint window;                 /* 0 = none */
  TlKvMode mode;                /* how keys and values would be stored */
  const float *initial_state;   /* [n][d_model] for programs with has_initial_state; or NULL */
} TlSequenceRun;

struct _TlBackend
{
  const TlBackendClass *klass;
  TlProgram *program;
  TlBackendOptions options;
};

struct _TlBackendClass
{
  const char *name;             /* "cpu" */
  TlBackend *(*prepare) (TlProgram *program, const TlBackendOptions *options, GError **error);
  void (*free) (TlBackend *backend);
  /* One entry per pass. A row that is cancelled (at a loop's end) or not finite gets its fate and drops out; its planes, state
   * and outputs are undefined then. Errors: CANCELLED (all rows, at a loop's end), DEVICE, NO_MEMORY: the same for all. */
  gboolean (*run) (TlBackend *backend, TlBatch *batch, TlStages stages, guint max_loops, GCancellable *cancellable,
    GError **error);

  /* In place of run, states and memory: logits [n][vocab_size] of all positions. NULL for devices that run batches.
   * Errors: NUMERIC, CANCELLED. */
  gboolean (*run_sequence) (TlBackend *backend, const TlSequenceRun *run, float *logits, GCancellable *cancellable,
    GError **error);

  TlStates *(*states_new) (TlBackend *backend, guint n_slots, GError **error);
  void (*states_free) (TlBackend *backend, TlStates *states);
  void (*state_read) (TlBackend *backend, TlStates *states, guint slot, TlStatePart part, float *out);
  void (*state_write) (TlBackend *backend, TlStates *states, guint slot, TlStatePart part, const float *in);

  /* memory for pages, 64-byte aligned and zeroed; NULL when there is none */
  gpointer (*memory_alloc) (TlBackend *backend, gsize size);
  void (*memory_free) (TlBackend *backend, gpointer memory, gsize size);
  void (*memory_copy) (TlBackend *backend, gpointer to, gconstpointer from, gsize size);
  /* the int4 image of a full fp16 page of a plane group */
  void (*close_page) (TlBackend *backend, guint group, gconstpointer page, gpointer image);

  gsize (*weights_bytes) (TlBackend *backend);  /* resident, after packing */
  char *(*device_info) (TlBackend *backend);    /* one line; transfer full */
};

TlBackend *tl_backend_prepare (const TlBackendClass *klass, TlProgram *program, const TlBackendOptions *options,
  GError **error);
void tl_backend_free (TlBackend *backend);
gboolean tl_backend_run (TlBackend *backend, TlBatch *batch, TlStages stages, guint max_loops, GCancellable *cancellable,
  GError **error);
TlStates *tl_backend_states_new (TlBackend *backend, guint n_slots, GError **error);
void tl_backend_states_free (TlBackend *backend, TlStates *states);
void tl_backend_state_read (TlBackend *backend, TlStates *states, guint slot, TlStatePart part, float *out);
void tl_backend_state_write (TlBackend *backend, TlStates *states, guint slot, TlStatePart part, const float *in);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlBackend, tl_backend_free)

G_END_DECLS
