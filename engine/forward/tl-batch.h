/* forward/tl-batch.h — rows: the one primitive of forward. Prefill chunks, decode steps, drafts, scoring and resume are
 * all batches of rows.
 *
 * A row is one token position of one sequence on its way through the program. The driver (cache/tl-pass.c) makes batches
 * whose pages exist and are writable; backends only compute. Rows of one sequence stand in position order.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

#define TL_PAGE_POSITIONS 32

/* How K and V are stored (tl-kv-layout.h) */
typedef enum
{
  TL_KV_FP16,
  TL_KV_FP32,
  TL_KV_INT8,                   /* a scale per head and token */
  TL_KV_INT4,                   /* a row reads its own page as fp16 and earlier ones as int4: K per channel, V per token */
  TL_KV_H,                      /* the attention input instead of K and V, fp16 */
  TL_KV_H_INT8,                 /* the same, a scale per 64 channels */
  TL_N_KV_MODES
} TlKvMode;

/* Index of a plane group in a page table: the loop groups come last, because they grow with depth. */
enum { TL_GROUP_PRE = 0, TL_GROUP_CODA = 1, TL_GROUP_LOOP = 2 };        /* loop l: TL_GROUP_LOOP + l */

/* One sequence's pages: pages[group][position / 32], 64-byte aligned; absent groups and freed pages are NULL. Rows are written
 * to `pages`. int4: images[group][position / 32] are the closed forms of earlier pages. Where both forms of a full page stand
 * and a row of a later page reads it, the backend makes the image anew from the page before anybody attends. */
typedef struct
{
  TlKvMode mode;
  guint n_groups;
  gpointer **pages, **images;
} TlPageTable;

typedef struct _TlStates TlStates;      /* row states of a backend: H (and E) by slot; see tl-backend.h */

/* What became of a row. One that failed takes no further part; the others of its batch are not touched by that. */
typedef enum { TL_ROW_GOOD, TL_ROW_NOT_FINITE, TL_ROW_CANCELLED } TlRowFate;

typedef struct
{
  guint32 token;
  guint position;               /* absolute */
  guint sequence;               /* index into the batch's tables */
  guint first_visible;          /* attends to first_visible … position, its own included */
  guint depth;                  /* loops done; the backend counts it up */
  guint stop;                   /* loops after which the row takes no further part in the body */
  TlStates *states;             /* where its state stands between entries; NULL: nowhere (a whole token in one entry) */
  guint slot;                   /* in `states`; unique in a batch */
  const float *initial_state;   /* [d_model] for programs with has_initial_state; NULL = zeros */
  float *logits;                /* [vocab_size], written by POST; NULL: deliver none */
  float *hidden;                /* [d_model], written by POST: the state that enters it (after the last loop); or NULL */
  GCancellable *cancellable;    /* looked at when a loop ends; or NULL */
  gint fate;                    /* TlRowFate, atomic; the backend sets it */
  float *trace;                 /* [1 + pre blocks + loops][d_model]: embedding, each pre block, each loop; or NULL */
} TlRow;

typedef struct
{
  TlRow *rows;
  guint n_rows;
  TlPageTable **tables;
  guint n_tables;
} TlBatch;

G_END_DECLS
