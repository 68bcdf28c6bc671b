/* forward/tl-batch.h — rows: the one primitive of forward. Prefill chunks, decode steps, drafts, scoring and resume are
 * all batches of rows.
 *
 * A row is one token position of one sequence on its way through the program. The driver (cache/tl-pass.c) makes batches
 * whose pages exist and are writable; backends only compute. Rows of one sequence stand in position order.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TL_PAGE_POSITIONS 32

/* How K and V are stored. FP16 and FP32 are implemented; the others are reserved and refused by name. */
typedef enum { TL_KV_FP16, TL_KV_FP32, TL_KV_INT8, TL_KV_INT4, TL_KV_H, TL_KV_H_INT8 } TlKvMode;

/* Index of a plane group in a page table: the loop groups come last, because they grow with depth. */
enum { TL_GROUP_PRE = 0, TL_GROUP_CODA = 1, TL_GROUP_LOOP = 2 };        /* loop l: TL_GROUP_LOOP + l */

/* One sequence's pages: pages[group][position / 32]; absent groups and freed pages are NULL.
 * A page is [plane][K, then V][kv head][32 * head_dim] elements of the mode's dtype, 64-byte aligned. */
typedef struct
{
  TlKvMode mode;
  guint n_groups;
  gpointer **pages;
} TlPageTable;

typedef struct _TlStates TlStates;      /* row states of a backend: H (and E) by slot; see tl-backend.h */

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
