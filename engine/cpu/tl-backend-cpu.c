/* cpu/tl-backend-cpu.c — the CPU backend: every worker walks the program together over a batch of rows.
 *
 * One entry per pass. Each operation is split in a fixed way (linears by output rows, attention as tl-cpu-attend.c says, the
 * rest by rows), a barrier stands between operations, norm and quantisation of a linear's input are done redundantly by
 * every worker. Nothing is allocated or locked inside a pass. Each worker runs in the default floating-point environment.
 * Row buffers are [batch rows][width]; an operation takes a list of active rows, so rows at different depths, and rows that
 * deliver nothing, share one walk. Called through tl-backend.h.
 */
#include "cpu/tl-cpu-private.h"

#include <math.h>
#include <string.h>

/* outputs of a linear that are computed before their epilogue */
#define OUTPUT_ROWS 256
/* of a linear's weights, fetched before the barrier in front of it: as far as its kernels look ahead */
#define FETCH_BYTES 8192u

/* --- memory --- */

static void
worker_clear (Cpu *cpu, Worker *w)
{
  for (guint i = 0; w->panels && i < cpu->n_shapes; i++)
    free (w->panels[i].memory);
  g_free (w->panels);
  g_free (w->row);
  g_free (w->y);
  g_free (w->y2);
  g_free (w->q);
  memset (w, 0, sizeof *w);
}

static gpointer
aligned_new (gsize size)
{
  gpointer p = NULL;
  if (posix_memalign (&p, 64, MAX (size, 64)))
    return NULL;
  return memset (p, 0, size);
}

static gboolean
worker_init (Cpu *cpu, Worker *w)
{
  worker_clear (cpu, w);
  w->panels = g_new0 (Panel, cpu->n_shapes);
  for (guint i = 0; i < cpu->n_shapes; i++)
    {
      const Shape *s = &cpu->shapes[i];
      w->panels[i].memory = aligned_new (tl_activations_size (cpu->capacity, s->cols, s->group));
      if (!w->panels[i].memory)
        return FALSE;
      tl_activations_init (&w->panels[i].a, w->panels[i].memory, cpu->capacity, s->cols, s->group);
    }
  w->row = g_new (float, cpu->max_width);
  w->y = g_new (float, (gsize) cpu->capacity * OUTPUT_ROWS);
  w->y2 = g_new (float, (gsize) cpu->capacity * OUTPUT_ROWS);
  w->q = g_new (float, (gsize) cpu->attend_rows * cpu->n_q * cpu->base.program->head_dim);
  return TRUE;
}

/* everything a pass of these rows needs, before it begins */
static gboolean
ensure_capacity (Cpu *cpu, const TlBatch *batch, GError **error)
{
  guint splits = 1;
  for (guint r = 0; r < batch->n_rows; r++)
    splits = MAX (splits, batch->rows[r].position / TL_SPLIT_POSITIONS + 1);
  if (batch->n_rows <= cpu->capacity && splits <= cpu->max_splits)
    return TRUE;
  cpu->capacity = MAX (cpu->capacity, MAX (batch->n_rows, 16));
  cpu->max_splits = MAX (cpu->max_splits, splits + 3);
  for (guint b = TL_BUFFER_H; b < TL_N_BUFFERS; b++)
    {
      g_free (cpu->buffer[b]);
      cpu->buffer[b] = g_new0 (float, (gsize) cpu->capacity * cpu->width[b]);
    }
  g_free (cpu->partial);
  cpu->partial = g_new (float, MAX (cpu->base.program->n_kv_heads, cpu->n_workers) * partial_floats (cpu));
  gsize half = cpu->base.program->rope_dims / 2;
  cpu->rope_cos = g_renew (float, cpu->rope_cos, cpu->capacity * half + 1);
  cpu->rope_sin = g_renew (float, cpu->rope_sin, cpu->capacity * half + 1);
  cpu->active = g_renew (guint, cpu->active, cpu->capacity);
  cpu->delivering = g_renew (guint, cpu->delivering, cpu->capacity);
  cpu->later = g_renew (guint, cpu->later, cpu->capacity);
  for (guint i = 0; i < cpu->n_workers; i++)
    if (!worker_init (cpu, &cpu->workers[i]))
      {
        g_set_error (error, TL_ERROR, TL_ERROR_NO_MEMORY,
          "tinyloop: no memory for a pass of %u rows; use a smaller chunk-size", batch->n_rows);
        cpu->capacity = 0;
        return FALSE;
      }
  return TRUE;
}

/* --- operations --- */

static void
norm_row (Cpu *cpu, const TlNorm *norm, const float *in, guint n, float *out)
{
  if (norm->kind == TL_NORM_RMS)
    cpu->kernels->rms_norm (in, norm->weight, n, norm->eps, out);
  else
    cpu->kernels->layer_norm (in, norm->weight, norm->bias, n, norm->eps, out);
}

static gboolean
is_quantised (Cpu *cpu, const TlPackedMatrix *p)
{
  return (p->format == TL_INT8 || p->format == TL_INT4) && !cpu->base.options.exact_activations;
}

/* the input of a matrix: gathered rows, normed, and quantised where its weights are */
static const TlActivations *
fill_panel (Pass *pass, Worker *w, const TlOp *op, const TlPackedMatrix *p, const guint *rows, guint n)
{
  Cpu *cpu = pass->cpu;
  guint k1 = cpu->width[op->in], k2 = op->in2 ? cpu->width[op->in2] : 0, shape = 0;
  while (cpu->shapes[shape].cols != p->cols || cpu->shapes[shape].group != p->group)
    shape++;
  TlActivations *a = &w->panels[shape].a;
  for (guint i = 0; i < n; i++)
    {
      float *x = a->x + i * a->stride;
      const float *in = row_of (cpu, op->in, rows[i]);
      if (op->norm.used)
        norm_row (cpu, &op->norm, in, k1, x);
      else
        memcpy (x, in, k1 * sizeof (float));
      if (k2)
        memcpy (x + k1, row_of (cpu, op->in2, rows[i]), k2 * sizeof (float));
      if (is_quantised (cpu, p) && !cpu->kernels->quantise_row (x, p->cols, p->group, a->q + i * a->stride,
            a->scale + (gsize) i * a->n_groups, a->sum + (gsize) i * a->n_groups))
        g_atomic_int_set (&pass->batch->rows[rows[i]].fate, TL_ROW_NOT_FINITE);
    }
  return a;
}

/* outputs begin … end - 1 (at most OUTPUT_ROWS) of n rows, bias added: y [n][OUTPUT_ROWS] */
static void
multiply (Cpu *cpu, const TlPackedMatrix *p, const TlActivations *a, const float *bias, guint n, guint begin, guint end,
  float *y)
{
  if (cpu->base.options.exact_activations && (p->format == TL_INT8 || p->format == TL_INT4))
    cpu->kernels->linear_exact (p, a, 0, n, begin, end, y - begin, OUTPUT_ROWS);
  else
    cpu->kernels->linear (p, a, 0, n, begin, end, y - begin, OUTPUT_ROWS);
  for (guint j = 0; bias && j < n; j++)
    cpu->kernels->add (y + (gsize) j * OUTPUT_ROWS, bias + begin, end - begin);
}

/* this worker's share of `rows` outputs, in whole tiles */
static void
share_of (Cpu *cpu, guint id, guint rows, guint *begin, guint *end)
{
  tl_pool_share ((rows + TL_TILE_ROWS - 1) / TL_TILE_ROWS, id, cpu->n_workers, begin, end);
  *begin *= TL_TILE_ROWS;
  *end *= TL_TILE_ROWS;
}

/* fetches the beginning of this worker's share of a list's next linear while it waits for the others */
static void
fetch_next (Cpu *cpu, guint id, const TlOpList *list, const TlPackedMatrix *packed, guint i)
{
  while (i < list->n && list->ops[i].n_matrices == 0)
    i++;
  for (guint m = 0; i < list->n && m < list->ops[i].n_matrices; m++)
    {
      const TlPackedMatrix *p = &packed[3 * i + m];
      guint begin, end;
      share_of (cpu, id, p->rows, &begin, &end);
      const guint8 *from = p->blocks + begin / TL_TILE_ROWS * p->block_bytes;
      gsize n = MIN (FETCH_BYTES, (end - begin) / TL_TILE_ROWS * p->block_bytes);
      for (gsize at = 0; at < n; at += 64)
        __builtin_prefetch (from + at);
    }
}

static void
epilogue (Cpu *cpu, const TlOp *op, const float *y, const float *y2, guint n, float *out)
{
  switch (op->epilogue)
    {
    case TL_EPILOGUE_STORE: memcpy (out, y, n * sizeof (float)); break;
    case TL_EPILOGUE_ADD: cpu->kernels->add (out, y, n); break;
    case TL_EPILOGUE_SWIGLU: cpu->kernels->swiglu (y, y2, n, out); break;
    case TL_EPILOGUE_GEGLU_TANH: cpu->kernels->geglu_tanh (y, y2, n, out); break;
    case TL_EPILOGUE_GELU_ERF: cpu->kernels->gelu_erf (y, n, out); break;
    case TL_EPILOGUE_GELU_TANH: cpu->kernels->gelu_tanh (y, n, out); break;
    case TL_EPILOGUE_RELU2: cpu->kernels->relu2 (y, n, op->scale, out); break;
    }
}

static void
op_linear (Pass *pass, guint id, const TlOp *op, const TlPackedMatrix *packed, const guint *rows, guint n)
{
  Cpu *cpu = pass->cpu;
  Worker *w = &cpu->workers[id];
  gboolean gated = op->epilogue == TL_EPILOGUE_SWIGLU || op->epilogue == TL_EPILOGUE_GEGLU_TANH;
  const TlActivations *a = NULL, *a2 = NULL;

  for (guint i = 0; i < (gated ? 1 : op->n_matrices); i++)
    {
      const TlPackedMatrix *p = &packed[i];
      guint begin, end;
      share_of (cpu, id, p->rows, &begin, &end);
      if (begin == end)
        continue;
      if (!a || a->group != p->group)
        a = fill_panel (pass, w, op, p, rows, n);
      if (gated)
        a2 = packed[1].group == p->group ? a : fill_panel (pass, w, op, &packed[1], rows, n);
      for (guint from = begin; from < end; from += OUTPUT_ROWS)
        {
          guint to = MIN (MIN (from + OUTPUT_ROWS, end), p->rows);
          multiply (cpu, p, a, op->bias[i], n, from, to, w->y);
          if (gated)
            multiply (cpu, &packed[1], a2, op->bias[1], n, from, to, w->y2);
          for (guint j = 0; j < n; j++)
            {
              const float *y = w->y + (gsize) j * OUTPUT_ROWS;
              float *out = row_of (cpu, op->out[i], rows[j]) + from;
              epilogue (cpu, op, y, w->y2 + (gsize) j * OUTPUT_ROWS, to - from, out);
            }
        }
    }
}

/* scale and softcap of n logits of a row; a value that is not finite makes it fail */
static void
finish_logits (Pass *pass, const TlOp *op, TlRow *row, float *logits, guint n)
{
  for (guint i = 0; op->scale != 1.0f && i < n; i++)
    logits[i] *= op->scale;
  if (op->softcap > 0)
    pass->cpu->kernels->softcap (logits, n, op->softcap);
  for (guint i = 0; i < n; i++)
    if (!isfinite (logits[i]))
      g_atomic_int_set (&row->fate, TL_ROW_NOT_FINITE);
}

static void
op_head (Pass *pass, guint id, const TlOp *op, const TlPackedMatrix *p, const guint *rows, guint n)
{
  Cpu *cpu = pass->cpu;
  Worker *w = &cpu->workers[id];
  guint vocab = cpu->base.program->vocab_size, begin, end;
  const TlActivations *a = fill_panel (pass, w, op, p, rows, n);
  share_of (cpu, id, vocab, &begin, &end);
  for (guint from = begin; from < end; from += OUTPUT_ROWS)
    {
      guint to = MIN (MIN (from + OUTPUT_ROWS, end), p->rows), wanted = MIN (to, vocab) - from;
      multiply (cpu, p, a, op->bias[0], n, from, to, w->y);
      for (guint j = 0; j < n; j++)
        {
          TlRow *row = &pass->batch->rows[rows[j]];
          memcpy (row->logits + from, w->y + (gsize) j * OUTPUT_ROWS, wanted * sizeof (float));
          finish_logits (pass, op, row, row->logits + from, wanted);
        }
    }
}

/* operations of one row */
static void
op_row (Pass *pass, guint id, const TlOp *op, guint r)
{
  Cpu *cpu = pass->cpu;
  const TlProgram *p = cpu->base.program;
  TlRow *row = &pass->batch->rows[r];
  float *h = row_of (cpu, TL_BUFFER_H, r);
  float *out = op->out[0] ? row_of (cpu, op->out[0], r) : NULL;
  const float *in = op->in ? row_of (cpu, op->in, r) : NULL;
  guint width = op->out[0] ? cpu->width[op->out[0]] : 0;
  float *normed = cpu->workers[id].row;

  switch (op->kind)
    {
    case TL_OP_EMBED:
      tl_matrix_row_to_f32 (&op->matrix[0], row->token, h);
      for (guint i = 0; op->scale != 1.0f && i < p->d_model; i++)
        h[i] *= op->scale;
      if (op->matrix[1].data)
        {
          tl_matrix_row_to_f32 (&op->matrix[1], row->position, normed);
          cpu->kernels->add (h, normed, p->d_model);
        }
      break;
    case TL_OP_TAP:
      if (row->trace)
        memcpy (row->trace + (gsize) (op->index + row->depth) * p->d_model, h, p->d_model * sizeof (float));
      break;
    case TL_OP_NORM:
    case TL_OP_NORM_ADD:
      norm_row (cpu, &op->norm, in, width, normed);
      if (op->kind == TL_OP_NORM)
        memcpy (out, normed, width * sizeof (float));
      else
        cpu->kernels->add (out, normed, width);
      break;
    case TL_OP_COPY:
      memcpy (out, in, width * sizeof (float));
      break;
    case TL_OP_ADD:
      cpu->kernels->add (out, in, width);
      break;
    case TL_OP_ZERO:
      if (row->initial_state)
        memcpy (out, row->initial_state, width * sizeof (float));
      else
        memset (out, 0, width * sizeof (float));
      break;
    case TL_OP_APPEND_KV:
      tl_cpu_prepare_queries (cpu, op, r, 0, p->n_kv_heads, row_of (cpu, TL_BUFFER_Q, r));
      tl_cpu_append_heads (pass, op, r, 0, p->n_kv_heads);
      break;
    default:
      g_assert_not_reached ();
    }
}

/* --- the walk --- */

/* a barrier; then: what the last worker to come does before all go on, or NULL */
static void
meet (Pass *pass, void (*then) (gpointer pass))
{
  tl_pool_barrier_then (pass->pool, then, pass);
}

/* Barriers stand between the operations; the one after the last is the caller's. */
static void
walk_list (Pass *pass, guint id, const TlOpList *list, const TlPackedMatrix *packed)
{
  Cpu *cpu = pass->cpu;
  gboolean worked = FALSE;
  for (guint i = 0; i < list->n; i++)
    {
      const TlOp *op = &list->ops[i];
      const guint *rows = cpu->active;
      guint n = pass->n_active;
      if (op->flags & TL_OP_FLAG_DELIVERING)
        rows = cpu->delivering, n = pass->n_delivering;
      else if (op->flags & TL_OP_FLAG_NOT_FIRST_LOOP)
        rows = cpu->later, n = pass->n_later;
      if (n == 0 || (op->kind == TL_OP_TAP && !pass->traced)
          || (i + 1 < list->n && tl_cpu_appends_itself (pass, op, op + 1, rows, n)))
        continue;
      if (worked)
        meet (pass, NULL);
      worked = TRUE;
      if (op->kind == TL_OP_LINEAR)
        op_linear (pass, id, op, packed + 3 * i, rows, n);
      else if (op->kind == TL_OP_HEAD)
        op_head (pass, id, op, packed + 3 * i, rows, n);
      else if (op->kind == TL_OP_ATTEND)
        tl_cpu_attend (pass, id, op, i && tl_cpu_appends_itself (pass, op - 1, op, rows, n) ? op - 1 : NULL, rows, n);
      else
        for (guint j = id; j < n; j += cpu->n_workers)
          op_row (pass, id, op, rows[j]);
      fetch_next (cpu, id, list, packed, i + 1);
    }
}

/* one worker alone: which rows take part in the next list. body: only rows with loops to go */
static void
choose_rows (Pass *pass, gboolean body)
{
  Cpu *cpu = pass->cpu;
  pass->n_active = pass->n_later = pass->n_delivering = 0;
  if (g_cancellable_is_cancelled (pass->cancellable))
    pass->cancelled = 1;
  if (pass->cancelled)
    return;
  for (guint r = 0; r < pass->batch->n_rows; r++)
    {
      TlRow *row = &pass->batch->rows[r];
      if (row->cancellable && g_cancellable_is_cancelled (row->cancellable))
        g_atomic_int_set (&row->fate, TL_ROW_CANCELLED);
      if (g_atomic_int_get (&row->fate) != TL_ROW_GOOD || (body && row->depth >= row->stop))
        continue;
      cpu->active[pass->n_active++] = r;
      if (row->depth > 0)
        cpu->later[pass->n_later++] = r;
      if (row->logits)
        cpu->delivering[pass->n_delivering++] = r;
    }
}

static void
choose_all_rows (gpointer pass)
{
  choose_rows (pass, FALSE);
}

static void
choose_rows_to_loop (gpointer pass)
{
  choose_rows (pass, TRUE);
}

static void
end_loop (gpointer data)
{
  Pass *pass = data;
  for (guint i = 0; i < pass->n_active; i++)
    pass->batch->rows[pass->cpu->active[i]].depth++;
  choose_rows (pass, TRUE);
}

/* begins and ends at a barrier; the next loop's first weights are fetched while the last operation's others are waited for */
static void
walk_loops (Pass *pass, guint id, const TlOpList *list, const TlPackedMatrix *packed, guint max_loops)
{
  for (guint loop = 0; loop < max_loops && pass->n_active > 0; loop++)
    {
      walk_list (pass, id, list, packed);
      fetch_next (pass->cpu, id, list, packed, 0);
      meet (pass, end_loop);
    }
}

/* row states to or from the slots */
static void
move_states (Pass *pass, guint id, gboolean load)
{
  Cpu *cpu = pass->cpu;
  gsize size = cpu->base.program->d_model * sizeof (float);
  for (guint r = id; r < pass->batch->n_rows; r += cpu->n_workers)
    {
      TlStates *s = pass->batch->rows[r].states;
      gsize at = s ? (gsize) pass->batch->rows[r].slot * s->width : 0;
      float *h = row_of (cpu, TL_BUFFER_H, r), *e = row_of (cpu, TL_BUFFER_E, r);
      if (s)
        memcpy (load ? h : s->h + at, load ? s->h + at : h, size);
      if (s && s->e)
        memcpy (load ? e : s->e + at, load ? s->e + at : e, size);
    }
}

/* row states to the callers' `hidden` */
static void
copy_hidden (Pass *pass, guint id)
{
  gsize size = pass->cpu->base.program->d_model * sizeof (float);
  for (guint i = id; i < pass->n_active; i += pass->cpu->n_workers)
    {
      guint r = pass->cpu->active[i];
      if (pass->batch->rows[r].hidden)
        memcpy (pass->batch->rows[r].hidden, row_of (pass->cpu, TL_BUFFER_H, r), size);
    }
}

/* the caller has chosen all rows */
static void
walk (TlPool *pool, guint id, guint n_workers, gpointer data)
{
  Pass *pass = data;
  const TlProgram *p = pass->cpu->base.program;

  if (pass->stages & TL_STAGE_PRE)
    walk_list (pass, id, &p->pre, pass->cpu->packed[0]);
  else
    move_states (pass, id, TRUE);
  meet (pass, pass->stages & (TL_STAGE_BODY | TL_STAGE_FILL) ? choose_rows_to_loop : NULL);
  if (pass->stages & TL_STAGE_BODY)
    walk_loops (pass, id, &p->body, pass->cpu->packed[1], pass->max_loops);
  if (pass->stages & TL_STAGE_FILL)
    walk_loops (pass, id, &p->fill, pass->cpu->packed[3], G_MAXUINT);
  if (pass->stages & (TL_STAGE_PRE | TL_STAGE_BODY))
    move_states (pass, id, FALSE);
  if (pass->stages & TL_STAGE_POST)
    {
      meet (pass, choose_all_rows);
      copy_hidden (pass, id);
      meet (pass, NULL);
      walk_list (pass, id, &p->post, pass->cpu->packed[2]);
    }
}

static gboolean
cpu_run (TlBackend *backend, TlBatch *batch, TlStages stages, guint max_loops, GCancellable *cancellable,
  GError **error)
{
  Cpu *cpu = (Cpu *) backend;
  const TlProgram *p = backend->program;
  Pass pass = { .cpu = cpu, .pool = tl_pool_get (), .batch = batch, .stages = stages, .max_loops = max_loops,
    .cancellable = cancellable };

  if (!ensure_capacity (cpu, batch, error))
    return FALSE;
  for (guint r = 0; r < batch->n_rows; r++)
    {
      if (stages & TL_STAGE_PRE)
        batch->rows[r].depth = 0;
      batch->rows[r].fate = TL_ROW_GOOD;
      pass.traced |= batch->rows[r].trace != NULL;
      tl_program_rope_row (p, batch->rows[r].position, cpu->rope_cos + (gsize) r * (p->rope_dims / 2),
        cpu->rope_sin + (gsize) r * (p->rope_dims / 2));
    }
  choose_rows (&pass, FALSE);
  tl_pool_run (pass.pool, cpu->n_workers, walk, &pass);

  if (pass.cancelled)
    g_set_error (error, TL_ERROR, TL_ERROR_CANCELLED, "tinyloop: the pass was cancelled");
  return !pass.cancelled;
}

/* --- the rest of the class --- */

static void
cpu_free (TlBackend *backend)
{
  Cpu *cpu = (Cpu *) backend;
  for (guint i = 0; i < cpu->n_workers; i++)
    worker_clear (cpu, &cpu->workers[i]);
  for (guint b = 0; b < TL_N_BUFFERS; b++)
    g_free (cpu->buffer[b]);
  for (guint l = 0; l < G_N_ELEMENTS (cpu->packed); l++)
    g_free (cpu->packed[l]);
  tl_packed_memory_free (cpu->slab, cpu->slab_size);
  g_free (cpu->workers);
  g_free (cpu->rope_cos);
  g_free (cpu->rope_sin);
  g_free (cpu->active);
  g_free (cpu->delivering);
  g_free (cpu->later);
  g_free (cpu->partial);
  g_free (cpu->splits_done);
  tl_program_unref (backend->program);
  g_free (cpu);
}

static void
remember_shape (Cpu *cpu, guint cols, guint group)
{
  cpu->max_width = MAX (cpu->max_width, cols);
  for (guint i = 0; i < cpu->n_shapes; i++)
    if (cpu->shapes[i].cols == cols && cpu->shapes[i].group == group)
      return;
  g_assert (cpu->n_shapes < G_N_ELEMENTS (cpu->shapes));
  cpu->shapes[cpu->n_shapes++] = (Shape) { cols, group };
}

static gsize
packed_size (const TlOpList *list)
{
  gsize size = 0;
  for (guint i = 0; i < list->n; i++)
    for (guint m = 0; m < list->ops[i].n_matrices; m++)
      size += tl_packed_matrix_size (&list->ops[i].matrix[m]);
  return size;
}

/* packs one list's matrices in the order of their use into memory `at`; the file's pages are given back at once (the
 * embedding's come again one by one as tokens are looked up) */
static TlPackedMatrix *
pack_list (Cpu *cpu, const TlOpList *list, guint8 *at)
{
  TlWeights *weights = cpu->base.program->weights;
  TlPackedMatrix *packed = g_new0 (TlPackedMatrix, 3 * list->n + 1);
  for (guint i = 0; i < list->n; i++)
    for (guint m = 0; m < list->ops[i].n_matrices; m++)
      {
        const TlMatrix *matrix = &list->ops[i].matrix[m];
        TlPackedMatrix *p = &packed[3 * i + m];
        tl_packed_matrix_init (p, matrix, at);
        at += p->bytes;
        cpu->packed_bytes += p->bytes;
        remember_shape (cpu, p->cols, p->group);
        tl_checkpoint_release_pages (weights->checkpoint, matrix->data, matrix->rows * tl_matrix_row_bytes (matrix));
      }
  return packed;
}

/* the matrices of a list that body has too, where they stand */
static TlPackedMatrix *
find_packed (Cpu *cpu, const TlOpList *list)
{
  const TlOpList *body = &cpu->base.program->body;
  TlPackedMatrix *packed = g_new0 (TlPackedMatrix, 3 * list->n + 1);
  for (guint i = 0; i < list->n; i++)
    for (guint m = 0; m < list->ops[i].n_matrices; m++)
      for (guint j = 0; j < 3 * body->n; j++)
        if (body->ops[j / 3].n_matrices > j % 3 && body->ops[j / 3].matrix[j % 3].data == list->ops[i].matrix[m].data)
          packed[3 * i + m] = cpu->packed[1][j];
  return packed;
}

/* below this much work a barrier costs more than a second worker brings */
#define ONE_THREAD_BYTES (1u << 20)

static TlBackend *
cpu_prepare (TlProgram *program, const TlBackendOptions *options, GError **error)
{
  const TlKernels *kernels = tl_kernels_get (error);
  if (!kernels)
    return NULL;
  Cpu *cpu = g_new0 (Cpu, 1);
  cpu->kernels = kernels;
  cpu->base.klass = tl_backend_cpu_class ();
  cpu->base.program = tl_program_ref (program);
  cpu->base.options = *options;
  cpu->n_q = program->n_heads / program->n_kv_heads;
  cpu->attend_rows = MAX (1, TL_ATTEND_QUERIES / cpu->n_q);
  for (TlKvMode mode = 0; mode < TL_N_KV_MODES; mode++)
    cpu->layout[mode] = tl_kv_layout (program, mode);
  for (guint b = TL_BUFFER_H; b < TL_N_BUFFERS; b++)
    {
      cpu->width[b] = tl_program_buffer_width (program, b);
      cpu->max_width = MAX (cpu->max_width, cpu->width[b]);
    }
  gsize body = packed_size (&program->body), pre = packed_size (&program->pre);
  cpu->slab_size = body + pre + packed_size (&program->post);
  guint8 *slab = cpu->slab = tl_packed_memory_new (cpu->slab_size);
  /* the head, mostly the largest, is packed first: the peak is then little more than what stays */
  cpu->packed[2] = pack_list (cpu, &program->post, slab + body + pre);
  cpu->packed[1] = pack_list (cpu, &program->body, slab);
  cpu->packed[0] = pack_list (cpu, &program->pre, slab + body);
  cpu->packed[3] = find_packed (cpu, &program->fill);
  cpu->n_workers = options->threads ? options->threads
                   : cpu->packed_bytes < ONE_THREAD_BYTES ? 1 : tl_pool_size (tl_pool_get ());
  cpu->workers = g_new0 (Worker, cpu->n_workers);
  cpu->splits_done = g_new0 (gint, program->n_kv_heads);
  return &cpu->base;
}

static TlStates *
cpu_states_new (TlBackend *backend, guint n_slots, GError **error)
{
  TlStates *s = g_new0 (TlStates, 1);
  s->n = n_slots;
  s->width = backend->program->d_model;
  s->h = g_new0 (float, (gsize) n_slots * s->width);
  if (backend->program->uses_e)
    s->e = g_new0 (float, (gsize) n_slots * s->width);
  return s;
}

static void
cpu_states_free (TlBackend *backend, TlStates *s)
{
  g_free (s->h);
  g_free (s->e);
  g_free (s);
}

static void
cpu_state_read (TlBackend *backend, TlStates *s, guint slot, TlStatePart part, float *out)
{
  const float *from = part == TL_STATE_H ? s->h : s->e;
  if (from)
    memcpy (out, from + (gsize) slot * s->width, s->width * sizeof (float));
}

static void
cpu_state_write (TlBackend *backend, TlStates *s, guint slot, TlStatePart part, const float *in)
{
  float *to = part == TL_STATE_H ? s->h : s->e;
  if (to)
    memcpy (to + (gsize) slot * s->width, in, s->width * sizeof (float));
}

static gpointer
cpu_memory_alloc (TlBackend *backend, gsize size)
{
  return aligned_new (size);
}

static void
cpu_memory_free (TlBackend *backend, gpointer memory, gsize size)
{
  free (memory);
}

static void
cpu_memory_copy (TlBackend *backend, gpointer to, gconstpointer from, gsize size)
{
  memcpy (to, from, size);
}

static gsize
cpu_weights_bytes (TlBackend *backend)
{
  const TlMatrix *embed = &backend->program->weights->embed;
  return ((Cpu *) backend)->packed_bytes + embed->rows * tl_matrix_row_bytes (embed);
}

static char *
cpu_device_info (TlBackend *backend)
{
  Cpu *cpu = (Cpu *) backend;
  return g_strdup_printf ("cpu, %s kernels, %u thread%s, %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT
    " bytes of weights in huge pages", cpu->kernels->name, cpu->n_workers, cpu->n_workers == 1 ? "" : "s",
    tl_packed_memory_huge_bytes (cpu->slab, cpu->slab_size), cpu->packed_bytes);
}

const TlBackendClass *
tl_backend_cpu_class (void)
{
  static const TlBackendClass klass = {
    .name = "cpu", .prepare = cpu_prepare, .free = cpu_free, .run = cpu_run,
    .states_new = cpu_states_new, .states_free = cpu_states_free,
    .state_read = cpu_state_read, .state_write = cpu_state_write,
    .memory_alloc = cpu_memory_alloc, .memory_free = cpu_memory_free, .memory_copy = cpu_memory_copy,
    .weights_bytes = cpu_weights_bytes, .device_info = cpu_device_info,
  };
  return &klass;
}
