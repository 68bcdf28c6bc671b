/* cpu/tl-cpu-attend.c — the CPU backend's attention: append to the cache, how the work is dealt out, splits joined in order.
 *
 * Rows that share pages attend together. When all do (decoding, a small chunk), the units of work are splits of 256 positions
 * of a kv head, and the append is done on the way; else they are groups of rows. Neither changes a bit.
 */
#include "cpu/tl-cpu-private.h"

#include <string.h>

static gpointer *
group_of (Pass *pass, const TlOp *op, const TlRow *row)
{
  guint group = op->planes == TL_PLANES_PRE ? TL_GROUP_PRE
                : op->planes == TL_PLANES_CODA ? TL_GROUP_CODA : TL_GROUP_LOOP + row->depth;
  return pass->batch->tables[row->sequence]->pages[group];
}

/* of the pages that a row is written to */
static const TlKvLayout *
layout_of (Pass *pass, const TlRow *row)
{
  return &pass->cpu->layout[tl_kv_open_mode (pass->batch->tables[row->sequence]->mode)];
}

static void
prepare_heads (Cpu *cpu, const TlOp *op, guint row, float *x, guint n_heads, const TlNorm *norm, const float *bias)
{
  const TlProgram *p = cpu->base.program;
  gsize half = p->rope_dims / 2;
  guint width = op->norm_full_width ? n_heads * p->head_dim : p->head_dim;
  if (bias)
    cpu->kernels->add (x, bias, n_heads * p->head_dim);
  for (guint when = 0; when < 2; when++)
    {
      if (norm->used && op->norm_after_rope == (when == 1))
        for (guint at = 0; at < n_heads * p->head_dim; at += width)
          cpu->kernels->rms_norm (x + at, norm->weight, width, norm->eps, x + at);
      if (when == 0 && half)
        for (guint h = 0; h < n_heads; h++)
          cpu->kernels->rope (x + h * p->head_dim, cpu->rope_cos + row * half, cpu->rope_sin + row * half,
            p->rope_dims, p->rope_layout == TL_ROPE_INTERLEAVED);
    }
}

void
tl_cpu_prepare_queries (Cpu *cpu, const TlOp *op, guint r, guint first, guint n, float *x)
{
  gsize at = (gsize) first * cpu->n_q * cpu->base.program->head_dim;
  prepare_heads (cpu, op, r, x, n * cpu->n_q, &op->q_norm, op->qk_bias ? op->qk_bias + at : NULL);
}

void
tl_cpu_append_heads (Pass *pass, const TlOp *op, guint r, guint first, guint n)
{
  Cpu *cpu = pass->cpu;
  const TlProgram *p = cpu->base.program;
  const TlRow *row = &pass->batch->rows[r];
  gsize k_at = (gsize) first * p->head_dim;
  float *k = row_of (cpu, TL_BUFFER_K, r), *v = row_of (cpu, TL_BUFFER_V, r);
  prepare_heads (cpu, op, r, k + k_at, n, &op->k_norm,
    op->qk_bias ? op->qk_bias + p->n_heads * p->head_dim + k_at : NULL);

  const TlKvLayout *l = layout_of (pass, row);
  guint8 *page = group_of (pass, op, row)[row->position / TL_PAGE_POSITIONS];
  for (guint h = first; h < first + n; h++)
    for (guint kind = 0; kind < 2; kind++)
      cpu->kernels->encode_row (&l->tile[kind], page + tl_kv_tile_at (l, op->plane, kind, h),
        row->position % TL_PAGE_POSITIONS, (kind ? v : k) + h * p->head_dim);
}

/* how many of the rows from the first on attend to the same pages, at most `most` */
static guint
rows_together (Pass *pass, const TlOp *op, const guint *rows, guint n, guint most)
{
  const gpointer *pages = group_of (pass, op, &pass->batch->rows[rows[0]]);
  guint i = 1;
  while (i < MIN (n, most) && group_of (pass, op, &pass->batch->rows[rows[i]]) == pages)
    i++;
  return i;
}

/* Rows that share their pages and attend together, and the splits that one of them sees */
typedef struct
{
  const TlOp *op, *append;      /* append: not done yet; or NULL */
  const guint *rows;
  guint n, from, to;
} Together;

static Together
together_new (Pass *pass, const TlOp *op, const TlOp *append, const guint *rows, guint n)
{
  Together t = { op, append, rows, n, G_MAXUINT, 0 };
  for (guint i = 0; i < n; i++)
    {
      const TlRow *row = &pass->batch->rows[rows[i]];
      t.from = MIN (t.from, row->first_visible / TL_SPLIT_POSITIONS);
      t.to = MAX (t.to, row->position / TL_SPLIT_POSITIONS + 1);
    }
  return t;
}

/* The append of one kv head as far as a split needs it: K and V of the rows that lie in it, and the query heads of all rows,
 * in the worker's own memory since other splits need them too. */
static void
append_for_split (Pass *pass, guint id, const Together *t, guint kv_head, guint split)
{
  Cpu *cpu = pass->cpu;
  gsize width = (gsize) cpu->n_q * cpu->base.program->head_dim;
  for (guint i = 0; i < t->n; i++)
    {
      float *q = cpu->workers[id].q + i * width;
      memcpy (q, row_of (cpu, TL_BUFFER_Q, t->rows[i]) + kv_head * width, width * sizeof (float));
      tl_cpu_prepare_queries (cpu, t->append, t->rows[i], kv_head, 1, q);
      if (pass->batch->rows[t->rows[i]].position / TL_SPLIT_POSITIONS == split)
        tl_cpu_append_heads (pass, t->append, t->rows[i], kv_head, 1);
    }
}

static TlAttendPages
pages_of (const TlKvLayout *l, gpointer const *pages, const TlOp *op, guint kv_head)
{
  return (TlAttendPages) { pages, l->tile[0], l->tile[1], tl_kv_tile_at (l, op->plane, 0, kv_head),
    tl_kv_tile_at (l, op->plane, 1, kv_head) };
}

/* one split of one kv head: partial [n][split_floats ()] */
static void
attend_split (Pass *pass, guint id, const Together *t, guint kv_head, guint split, float *partial)
{
  Cpu *cpu = pass->cpu;
  const TlProgram *p = cpu->base.program;
  const TlRow *first_row = &pass->batch->rows[t->rows[0]];
  gsize width = (gsize) cpu->n_q * p->head_dim;
  TlAttend a = { .head_dim = p->head_dim, .n_q = cpu->n_q, .n_rows = t->n, .scale = p->attn_scale, .softcap = t->op->softcap,
    .open = pages_of (layout_of (pass, first_row), group_of (pass, t->op, first_row), t->op, kv_head) };

  if (t->append)
    append_for_split (pass, id, t, kv_head, split);
  for (guint i = 0; i < t->n; i++)
    {
      const TlRow *row = &pass->batch->rows[t->rows[i]];
      a.q[i] = t->append ? cpu->workers[id].q + i * width : row_of (cpu, TL_BUFFER_Q, t->rows[i]) + kv_head * width;
      a.begin[i] = MAX (row->first_visible, split * TL_SPLIT_POSITIONS);
      a.end[i] = MIN (row->position + 1, (split + 1) * TL_SPLIT_POSITIONS);
    }
  cpu->kernels->attend_split (&a, partial);
}

/* all splits of one kv head, joined in order: partial [splits][n][split_floats ()] */
static void
combine_splits (Pass *pass, const Together *t, guint kv_head, const float *partial)
{
  Cpu *cpu = pass->cpu;
  const TlProgram *p = cpu->base.program;
  gsize row_floats = split_floats (cpu), stride = t->n * row_floats;
  for (guint i = 0; i < t->n; i++)
    {
      const TlRow *row = &pass->batch->rows[t->rows[i]];
      guint begin = row->first_visible / TL_SPLIT_POSITIONS, end = row->position / TL_SPLIT_POSITIONS + 1;
      cpu->kernels->attend_combine (partial + (begin - t->from) * stride + i * row_floats, end - begin, stride, cpu->n_q,
        p->head_dim, row_of (cpu, TL_BUFFER_A, t->rows[i]) + (gsize) kv_head * cpu->n_q * p->head_dim);
    }
}

gboolean
tl_cpu_appends_itself (Pass *pass, const TlOp *append, const TlOp *attend, const guint *rows, guint n)
{
  return append->kind == TL_OP_APPEND_KV && attend->kind == TL_OP_ATTEND && append->flags == attend->flags
    && !append->norm_full_width && rows_together (pass, attend, rows, n, pass->cpu->attend_rows) == n;
}

/* all rows together: units of work are (split, kv head), dealt out in turn; whoever ends a kv head's last one joins them */
static void
attend_by_split (Pass *pass, guint id, const Together *t)
{
  Cpu *cpu = pass->cpu;
  guint n_kv = cpu->base.program->n_kv_heads, n_splits = t->to - t->from;
  for (guint unit = id; unit < n_kv * n_splits; unit += cpu->n_workers)
    {
      guint kv_head = unit % n_kv, split = unit / n_kv;
      float *partial = cpu->partial + kv_head * partial_floats (cpu);
      attend_split (pass, id, t, kv_head, t->from + split, partial + split * t->n * split_floats (cpu));
      if ((guint) g_atomic_int_add (&cpu->splits_done[kv_head], 1) + 1 == n_splits)
        {
          g_atomic_int_set (&cpu->splits_done[kv_head], 0);
          combine_splits (pass, t, kv_head, partial);
        }
    }
}

/* Several groups of rows: units of work are (group, kv head), dealt out in turn. */
void
tl_cpu_attend (Pass *pass, guint id, const TlOp *op, const TlOp *append, const guint *rows, guint n)
{
  Cpu *cpu = pass->cpu;
  guint unit = 0, n_kv = cpu->base.program->n_kv_heads;
  float *partial = cpu->partial + id * partial_floats (cpu);
  for (guint i = 0, together; i < n; i += together)
    {
      together = rows_together (pass, op, rows + i, n - i, cpu->attend_rows);
      Together t = together_new (pass, op, append, rows + i, together);
      if (together == n)
        attend_by_split (pass, id, &t);
      else
        for (guint kv_head = 0; kv_head < n_kv; kv_head++, unit++)
          if (unit % cpu->n_workers == id)
            {
              for (guint split = t.from; split < t.to; split++)
                attend_split (pass, id, &t, kv_head, split, partial + (split - t.from) * together * split_floats (cpu));
              combine_splits (pass, &t, kv_head, partial);
            }
    }
}
