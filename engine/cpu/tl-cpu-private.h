/* cpu/tl-cpu-private.h — what the files of the CPU backend share: the backend, one pass of it, and its attention. */
#pragma once

#include "cpu/tl-backend-cpu.h"
#include "cpu/tl-kernels.h"
#include "cpu/tl-pool.h"

G_BEGIN_DECLS

struct _TlStates
{
  guint n, width;
  float *h, *e;                 /* [n][width]; e NULL when nothing is injected */
};

/* inputs of linears, one per shape that occurs: padding stays zero */
typedef struct
{
  TlActivations a;
  gpointer memory;
} Panel;

/* one worker's own memory */
typedef struct
{
  Panel *panels;                /* [n_shapes] */
  float *row;                   /* [max_width] */
  float *y, *y2;                /* [capacity][OUTPUT_ROWS] */
  float *q;                     /* [rows together][heads per kv head][head_dim] */
} Worker;

typedef struct { guint cols, group; } Shape;

typedef struct
{
  TlBackend base;
  const TlKernels *kernels;
  guint n_workers, capacity, max_splits, max_width;
  guint n_q, attend_rows;       /* query heads per kv head; rows that attend together at most */
  TlKvLayout layout[TL_N_KV_MODES];
  TlPackedMatrix *packed[4];    /* by list, [op][3]; fill shares those of body */
  gpointer slab;                /* all of them, one after another in the order of their use */
  gsize slab_size, packed_bytes;
  Shape shapes[16];
  guint n_shapes;
  float *buffer[TL_N_BUFFERS];
  guint width[TL_N_BUFFERS];
  float *rope_cos, *rope_sin;   /* [capacity][rope_dims / 2] */
  guint *active, *delivering, *later;   /* row lists of the operation at hand */
  float *partial;               /* [kv heads, at least workers][splits][rows together][split_floats()] */
  gint *splits_done;            /* [kv heads] of the attention at hand; zeros between operations */
  Worker *workers;
} Cpu;

typedef struct
{
  Cpu *cpu;
  TlPool *pool;
  TlBatch *batch;
  TlStages stages;
  guint max_loops;
  GCancellable *cancellable;
  guint n_active, n_delivering, n_later;
  gint cancelled;
  gboolean traced;              /* a row wants a trace */
} Pass;

static inline float *
row_of (Cpu *cpu, TlBuffer b, guint row)
{
  return cpu->buffer[b] + (gsize) row * cpu->width[b];
}

/* one row's part of a split of one kv head */
static inline gsize
split_floats (Cpu *cpu)
{
  const TlProgram *p = cpu->base.program;
  return (gsize) cpu->n_q * TL_PARTIAL_STRIDE (p->head_dim);
}

/* all splits of one kv head, or of one worker */
static inline gsize
partial_floats (Cpu *cpu)
{
  return cpu->max_splits * cpu->attend_rows * split_floats (cpu);
}

/* the query heads of kv heads first … first + n - 1 of a row, rotated in place: x [n][n_q][head_dim] */
void tl_cpu_prepare_queries (Cpu *cpu, const TlOp *op, guint r, guint first, guint n, float *x);
/* K and V of kv heads first … first + n - 1 of a row: K rotated, both stored */
void tl_cpu_append_heads (Pass *pass, const TlOp *op, guint r, guint first, guint n);
/* Whether an attention does the append before it as well, which saves a barrier: when all rows attend together, the worker of
 * a split reads no K or V in it but those of earlier passes and those it has stored. */
gboolean tl_cpu_appends_itself (Pass *pass, const TlOp *append, const TlOp *attend, const guint *rows, guint n);
/* Worker id's part of an attention. append: done here; or NULL. */
void tl_cpu_attend (Pass *pass, guint id, const TlOp *op, const TlOp *append, const guint *rows, guint n);

G_END_DECLS
