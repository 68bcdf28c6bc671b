/* cpu/tl-backend-cpu.c — the CPU backend: every worker walks the program together over a batch of rows.
 *
 * One entry per pass. Each operation is split in a fixed way (linears by output rows, attention by row and head, the rest by
 * rows), a barrier stands between operations, norm and quantisation of a linear's input are done redundantly by every
 * worker. Nothing is allocated or locked inside a pass. Each worker runs in the default floating-point environment.
 * Row buffers are [batch rows][width]; an operation takes a list of active rows, so rows at different depths, and rows that
 * deliver nothing, share one walk. Called through tl-backend.h.
 */
#include "cpu/tl-backend-cpu.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "cpu/tl-scalar.h"

struct _TlStates
{
  guint n, width;
  float *h, *e;                 /* [n][width]; e NULL when nothing is injected */
};

/* one worker's own memory */
typedef struct
{
  TlPanel panel;
  float *row;                   /* a weight row and its groups */
  float *y, *y2;                /* [rows]: one output of every row */
  float *attention;
} Worker;

typedef struct
{
  TlBackend base;
  guint n_workers, capacity, max_width;
  float *buffer[TL_N_BUFFERS];
  guint width[TL_N_BUFFERS];
  float *rope_cos, *rope_sin;   /* [capacity][rope_dims / 2] */
  guint *active, *delivering, *later;   /* row lists of the operation at hand */
  Worker *workers;
} Cpu;

typedef struct
{
  Cpu *cpu;
  TlBatch *batch;
  TlStages stages;
  guint max_loops;
  GCancellable *cancellable;
  pthread_barrier_t barrier;
  guint n_active, n_delivering, n_later;
  gint not_finite, cancelled;
} Pass;

typedef struct { Pass *pass; guint id; } Walk;

/* --- memory --- */

static gpointer
aligned_new (gsize size)
{
  gpointer p = NULL;
  if (posix_memalign (&p, 64, MAX (size, 64)))
    return NULL;
  return memset (p, 0, size);
}

static void
worker_clear (Worker *w)
{
  g_free (w->panel.x);
  g_free (w->panel.q);
  g_free (w->panel.scale);
  g_free (w->panel.sum);
  g_free (w->row);
  g_free (w->y);
  g_free (w->attention);
}

static void
ensure_capacity (Cpu *cpu, guint rows)
{
  const TlProgram *p = cpu->base.program;
  if (rows <= cpu->capacity)
    return;
  cpu->capacity = MAX (rows, 16);
  for (guint b = TL_BUFFER_H; b < TL_N_BUFFERS; b++)
    {
      g_free (cpu->buffer[b]);
      cpu->buffer[b] = g_new0 (float, (gsize) cpu->capacity * cpu->width[b]);
    }
  gsize half = p->rope_dims / 2;
  cpu->rope_cos = g_renew (float, cpu->rope_cos, cpu->capacity * half + 1);
  cpu->rope_sin = g_renew (float, cpu->rope_sin, cpu->capacity * half + 1);
  cpu->active = g_renew (guint, cpu->active, cpu->capacity);
  cpu->delivering = g_renew (guint, cpu->delivering, cpu->capacity);
  cpu->later = g_renew (guint, cpu->later, cpu->capacity);
  for (guint i = 0; i < cpu->n_workers; i++)
    {
      Worker *w = &cpu->workers[i];
      gsize values = (gsize) cpu->capacity * cpu->max_width, groups = values / 32 + 2 * cpu->capacity;
      worker_clear (w);
      w->panel.x = g_new (float, values);
      w->panel.q = g_new (gint8, values);
      w->panel.scale = g_new (float, groups);
      w->panel.sum = g_new (gint32, groups);
      w->row = g_new (float, 2 * cpu->max_width + 64);
      w->y = g_new (float, 2 * cpu->capacity);
      w->y2 = w->y + cpu->capacity;
      w->attention = g_new (float, 256 + 2 * p->head_dim);
    }
}

/* --- operations --- */

static inline float *
row_of (Cpu *cpu, TlBuffer b, guint row)
{
  return cpu->buffer[b] + (gsize) row * cpu->width[b];
}

/* the panel of a linear: gathered rows, normed, and quantised for the groups of this matrix */
static void
fill_panel (Pass *pass, Worker *w, const TlOp *op, const guint *rows, guint n)
{
  Cpu *cpu = pass->cpu;
  guint k1 = cpu->width[op->in], k2 = op->in2 ? cpu->width[op->in2] : 0;
  w->panel.m = n;
  w->panel.k = k1 + k2;
  w->panel.group = 0;
  for (guint i = 0; i < n; i++)
    {
      float *x = w->panel.x + (gsize) i * (k1 + k2);
      const float *in = row_of (cpu, op->in, rows[i]);
      if (!op->norm.used)
        memcpy (x, in, k1 * sizeof (float));
      else if (!tl_scalar_norm (&op->norm, in, k1, x))
        g_atomic_int_set (&pass->not_finite, 1);
      if (k2)
        memcpy (x + k1, row_of (cpu, op->in2, rows[i]), k2 * sizeof (float));
    }
}

static void
panel_for (Pass *pass, Worker *w, const TlMatrix *m)
{
  if (m->group == 0 || pass->cpu->base.options.exact_activations || w->panel.group == tl_matrix_arith_group (m))
    return;
  w->panel.group = tl_matrix_arith_group (m);
  if (!tl_scalar_quantise (&w->panel))
    g_atomic_int_set (&pass->not_finite, 1);
}

static void
op_linear (Pass *pass, guint id, const TlOp *op, const guint *rows, guint n)
{
  Cpu *cpu = pass->cpu;
  Worker *w = &cpu->workers[id];
  gboolean exact = cpu->base.options.exact_activations;
  gboolean gated = op->epilogue == TL_EPILOGUE_SWIGLU;

  fill_panel (pass, w, op, rows, n);
  for (guint i = 0; i < (gated ? 1 : op->n_matrices); i++)
    {
      const TlMatrix *m = &op->matrix[i];
      guint from = (guint64) m->rows * id / cpu->n_workers, to = (guint64) m->rows * (id + 1) / cpu->n_workers;
      for (guint r = from; r < to; r++)
        {
          panel_for (pass, w, m);
          tl_scalar_linear (m, r, &w->panel, exact, w->row, w->y);
          if (gated)
            {
              panel_for (pass, w, &op->matrix[1]);
              tl_scalar_linear (&op->matrix[1], r, &w->panel, exact, w->row, w->y2);
            }
          for (guint j = 0; j < n; j++)
            {
              float y = op->bias[i] ? w->y[j] + op->bias[i][r] : w->y[j];
              float *out = row_of (cpu, op->out[i], rows[j]) + r;
              if (gated)
                *out = tl_scalar_silu (y) * (op->bias[1] ? w->y2[j] + op->bias[1][r] : w->y2[j]);
              else
                *out = op->epilogue == TL_EPILOGUE_ADD ? *out + y : y;
            }
        }
    }
}

static void
op_head (Pass *pass, guint id, const TlOp *op, const guint *rows, guint n)
{
  Cpu *cpu = pass->cpu;
  Worker *w = &cpu->workers[id];
  guint vocab = cpu->base.program->vocab_size;
  guint from = (guint64) vocab * id / cpu->n_workers, to = (guint64) vocab * (id + 1) / cpu->n_workers;
  fill_panel (pass, w, op, rows, n);
  panel_for (pass, w, &op->matrix[0]);
  for (guint r = from; r < to; r++)
    {
      tl_scalar_linear (&op->matrix[0], r, &w->panel, cpu->base.options.exact_activations, w->row, w->y);
      for (guint j = 0; j < n; j++)
        {
          float y = op->bias[0] ? w->y[j] + op->bias[0][r] : w->y[j];
          if (op->scale != 1.0f)
            y *= op->scale;
          if (op->softcap > 0)
            y = op->softcap * tl_scalar_tanh (y / op->softcap);
          pass->batch->rows[rows[j]].logits[r] = y;
        }
    }
}

static gpointer *
group_of (Pass *pass, const TlOp *op, const TlRow *row)
{
  guint group = op->planes == TL_PLANES_PRE ? TL_GROUP_PRE
                : op->planes == TL_PLANES_CODA ? TL_GROUP_CODA : TL_GROUP_LOOP + row->depth;
  return pass->batch->tables[row->sequence]->pages[group];
}

/* elements from a page's start to [plane][which][head] */
static gsize
plane_offset (const TlProgram *p, const TlOp *op, guint which, guint head)
{
  return ((gsize) (op->plane * 2 + which) * p->n_kv_heads + head) * TL_PAGE_POSITIONS * p->head_dim;
}

static void
prepare_heads (Pass *pass, const TlOp *op, guint row, float *x, guint n_heads, const TlNorm *norm, const float *bias)
{
  const TlProgram *p = pass->cpu->base.program;
  gsize half = p->rope_dims / 2;
  guint width = op->norm_full_width ? n_heads * p->head_dim : p->head_dim;
  for (guint i = 0; bias && i < n_heads * p->head_dim; i++)
    x[i] += bias[i];
  for (guint when = 0; when < 2; when++)
    {
      if (norm->used && op->norm_after_rope == (when == 1))
        for (guint at = 0; at < n_heads * p->head_dim; at += width)
          if (!tl_scalar_norm (norm, x + at, width, x + at))
            g_atomic_int_set (&pass->not_finite, 1);
      if (when == 0 && half)
        for (guint h = 0; h < n_heads; h++)
          tl_scalar_rope (p->rope_layout, p->rope_dims, pass->cpu->rope_cos + row * half,
            pass->cpu->rope_sin + row * half, x + h * p->head_dim);
    }
}

static void
store_row (const TlProgram *p, gboolean fp32, gpointer page, gsize at, const float *x)
{
  if (fp32)
    memcpy ((float *) page + at, x, p->head_dim * sizeof (float));
  else
    for (guint c = 0; c < p->head_dim; c++)
      ((guint16 *) page)[at + c] = tl_f32_to_f16_saturate (x[c]);
}

static void
op_append (Pass *pass, const TlOp *op, guint r)
{
  Cpu *cpu = pass->cpu;
  const TlProgram *p = cpu->base.program;
  const TlRow *row = &pass->batch->rows[r];
  float *q = row_of (cpu, TL_BUFFER_Q, r), *k = row_of (cpu, TL_BUFFER_K, r), *v = row_of (cpu, TL_BUFFER_V, r);
  prepare_heads (pass, op, r, q, p->n_heads, &op->q_norm, op->qk_bias);
  prepare_heads (pass, op, r, k, p->n_kv_heads, &op->k_norm,
    op->qk_bias ? op->qk_bias + p->n_heads * p->head_dim : NULL);

  gpointer page = group_of (pass, op, row)[row->position / TL_PAGE_POSITIONS];
  gboolean fp32 = pass->batch->tables[row->sequence]->mode == TL_KV_FP32;
  gsize in_page = (gsize) (row->position % TL_PAGE_POSITIONS) * p->head_dim;
  for (guint h = 0; h < p->n_kv_heads; h++)
    {
      store_row (p, fp32, page, plane_offset (p, op, 0, h) + in_page, k + h * p->head_dim);
      store_row (p, fp32, page, plane_offset (p, op, 1, h) + in_page, v + h * p->head_dim);
    }
}

static void
op_attend (Pass *pass, guint id, const TlOp *op, const guint *rows, guint n)
{
  Cpu *cpu = pass->cpu;
  const TlProgram *p = cpu->base.program;
  for (guint item = id; item < n * p->n_heads; item += cpu->n_workers)
    {
      guint r = rows[item / p->n_heads], head = item % p->n_heads;
      guint kv_head = head / (p->n_heads / p->n_kv_heads);
      const TlRow *row = &pass->batch->rows[r];
      TlAttention a = {
        .pages = group_of (pass, op, row),
        .k_offset = plane_offset (p, op, 0, kv_head), .v_offset = plane_offset (p, op, 1, kv_head),
        .fp32 = pass->batch->tables[row->sequence]->mode == TL_KV_FP32,
        .first = row->first_visible, .last = row->position, .head_dim = p->head_dim,
        .scale = p->attn_scale, .softcap = op->softcap,
      };
      tl_scalar_attend (&a, row_of (cpu, TL_BUFFER_Q, r) + head * p->head_dim, cpu->workers[id].attention,
        row_of (cpu, TL_BUFFER_A, r) + head * p->head_dim);
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
  float *normed = cpu->workers[id].panel.x;

  switch (op->kind)
    {
    case TL_OP_EMBED:
      tl_matrix_row_to_f32 (&op->matrix[0], row->token, h);
      for (guint i = 0; op->scale != 1.0f && i < p->d_model; i++)
        h[i] *= op->scale;
      break;
    case TL_OP_TAP:
      if (row->trace)
        memcpy (row->trace + (gsize) (op->index + row->depth) * p->d_model, h, p->d_model * sizeof (float));
      break;
    case TL_OP_NORM:
    case TL_OP_NORM_ADD:
      if (!tl_scalar_norm (&op->norm, in, width, normed))
        g_atomic_int_set (&pass->not_finite, 1);
      for (guint i = 0; i < width; i++)
        out[i] = op->kind == TL_OP_NORM ? normed[i] : out[i] + normed[i];
      break;
    case TL_OP_COPY:
      memcpy (out, in, width * sizeof (float));
      break;
    case TL_OP_ADD:
      for (guint i = 0; i < width; i++)
        out[i] += in[i];
      break;
    case TL_OP_ZERO:
      if (row->initial_state)
        memcpy (out, row->initial_state, width * sizeof (float));
      else
        memset (out, 0, width * sizeof (float));
      break;
    case TL_OP_APPEND_KV:
      op_append (pass, op, r);
      break;
    default:
      g_assert_not_reached ();
    }
}

/* --- the walk --- */

static void
meet (Pass *pass)
{
  if (pass->cpu->n_workers > 1)
    pthread_barrier_wait (&pass->barrier);
}

static void
walk_list (Pass *pass, guint id, const TlOpList *list)
{
  Cpu *cpu = pass->cpu;
  for (guint i = 0; i < list->n; i++)
    {
      const TlOp *op = &list->ops[i];
      const guint *rows = cpu->active;
      guint n = pass->n_active;
      if (op->flags & TL_OP_FLAG_DELIVERING)
        rows = cpu->delivering, n = pass->n_delivering;
      else if (op->flags & TL_OP_FLAG_NOT_FIRST_LOOP)
        rows = cpu->later, n = pass->n_later;
      if (n == 0)
        continue;
      if (op->kind == TL_OP_LINEAR)
        op_linear (pass, id, op, rows, n);
      else if (op->kind == TL_OP_HEAD)
        op_head (pass, id, op, rows, n);
      else if (op->kind == TL_OP_ATTEND)
        op_attend (pass, id, op, rows, n);
      else
        for (guint j = id; j < n; j += cpu->n_workers)
          op_row (pass, id, op, rows[j]);
      meet (pass);
    }
}

/* worker 0 between two barriers: which rows take part in the next list. body: only rows with loops to go */
static void
choose_rows (Pass *pass, gboolean body)
{
  Cpu *cpu = pass->cpu;
  pass->n_active = pass->n_later = pass->n_delivering = 0;
  if (g_cancellable_is_cancelled (pass->cancellable))
    pass->cancelled = 1;
  if (pass->cancelled || g_atomic_int_get (&pass->not_finite))
    return;
  for (guint r = 0; r < pass->batch->n_rows; r++)
    {
      const TlRow *row = &pass->batch->rows[r];
      if (body && row->depth >= row->stop)
        continue;
      cpu->active[pass->n_active++] = r;
      if (row->depth > 0)
        cpu->later[pass->n_later++] = r;
      if (row->logits)
        cpu->delivering[pass->n_delivering++] = r;
    }
}

static void
walk_body (Pass *pass, guint id)
{
  for (guint loop = 0; loop < pass->max_loops; loop++)
    {
      if (id == 0)
        choose_rows (pass, TRUE);
      meet (pass);
      if (pass->n_active == 0)
        break;
      walk_list (pass, id, &pass->cpu->base.program->body);
      if (id == 0)
        for (guint i = 0; i < pass->n_active; i++)
          pass->batch->rows[pass->cpu->active[i]].depth++;
    }
  meet (pass);
}

/* row states to or from the slots, or to the callers' `hidden` */
static void
move_states (Pass *pass, guint id, gboolean load)
{
  Cpu *cpu = pass->cpu;
  gsize size = cpu->base.program->d_model * sizeof (float);
  TlStates *s = pass->batch->states;
  for (guint r = id; r < pass->batch->n_rows; r += cpu->n_workers)
    {
      gsize at = s ? (gsize) pass->batch->rows[r].slot * s->width : 0;
      float *h = row_of (cpu, TL_BUFFER_H, r), *e = row_of (cpu, TL_BUFFER_E, r);
      if (s)
        memcpy (load ? h : s->h + at, load ? s->h + at : h, size);
      if (s && s->e)
        memcpy (load ? e : s->e + at, load ? s->e + at : e, size);
    }
  meet (pass);
}

static void
walk (Pass *pass, guint id)
{
  const TlProgram *p = pass->cpu->base.program;
  fenv_t saved;
  fegetenv (&saved);
  fesetenv (FE_DFL_ENV);

  if (!(pass->stages & TL_STAGE_PRE))
    move_states (pass, id, TRUE);
  else
    {
      if (id == 0)
        choose_rows (pass, FALSE);
      meet (pass);
      walk_list (pass, id, &p->pre);
    }
  if (pass->stages & TL_STAGE_BODY)
    walk_body (pass, id);
  if (pass->stages & (TL_STAGE_PRE | TL_STAGE_BODY))
    move_states (pass, id, FALSE);
  if (pass->stages & TL_STAGE_POST)
    {
      if (id == 0)
        choose_rows (pass, FALSE);
      meet (pass);
      for (guint i = id; i < pass->n_active; i += pass->cpu->n_workers)
        {
          guint r = pass->cpu->active[i];
          if (pass->batch->rows[r].hidden)
            memcpy (pass->batch->rows[r].hidden, row_of (pass->cpu, TL_BUFFER_H, r), p->d_model * sizeof (float));
        }
      meet (pass);
      walk_list (pass, id, &p->post);
    }
  fesetenv (&saved);
}

static gpointer
walk_thread (gpointer data)
{
  Walk *w = data;
  walk (w->pass, w->id);
  return NULL;
}

static gboolean
cpu_run (TlBackend *backend, TlBatch *batch, TlStages stages, guint max_loops, GCancellable *cancellable,
  GError **error)
{
  Cpu *cpu = (Cpu *) backend;
  const TlProgram *p = backend->program;
  Pass pass = { .cpu = cpu, .batch = batch, .stages = stages, .max_loops = max_loops, .cancellable = cancellable };
  GThread *threads[64];
  Walk walks[64];

  ensure_capacity (cpu, batch->n_rows);
  for (guint r = 0; r < batch->n_rows; r++)
    {
      if (stages & TL_STAGE_PRE)
        batch->rows[r].depth = 0;
      tl_program_rope_row (p, batch->rows[r].position, cpu->rope_cos + (gsize) r * (p->rope_dims / 2),
        cpu->rope_sin + (gsize) r * (p->rope_dims / 2));
    }
  if (cpu->n_workers > 1)
    pthread_barrier_init (&pass.barrier, NULL, cpu->n_workers);
  for (guint i = 1; i < cpu->n_workers; i++)
    {
      walks[i] = (Walk) { &pass, i };
      threads[i] = g_thread_new ("tinyloop", walk_thread, &walks[i]);
    }
  walk (&pass, 0);
  for (guint i = 1; i < cpu->n_workers; i++)
    g_thread_join (threads[i]);
  if (cpu->n_workers > 1)
    pthread_barrier_destroy (&pass.barrier);

  if (pass.cancelled)
    g_set_error (error, TL_ERROR, TL_ERROR_CANCELLED, "tinyloop: the pass was cancelled");
  else if (pass.not_finite)
    g_set_error (error, TL_ERROR, TL_ERROR_NUMERIC,
      "tinyloop: %s: a value became infinite or not a number; the weights are damaged or the depth is too large",
      tl_checkpoint_name (p->weights->checkpoint));
  return !pass.cancelled && !pass.not_finite;
}

/* --- the rest of the class --- */

static void
cpu_free (TlBackend *backend)
{
  Cpu *cpu = (Cpu *) backend;
  for (guint i = 0; i < cpu->n_workers; i++)
    worker_clear (&cpu->workers[i]);
  for (guint b = 0; b < TL_N_BUFFERS; b++)
    g_free (cpu->buffer[b]);
  g_free (cpu->workers);
  g_free (cpu->rope_cos);
  g_free (cpu->rope_sin);
  g_free (cpu->active);
  g_free (cpu->delivering);
  g_free (cpu->later);
  tl_program_unref (backend->program);
  g_free (cpu);
}

static const TlMatrix *
widest (const TlMatrix *a, const TlMatrix *b)
{
  return b->cols > a->cols ? b : a;
}

static TlBackend *
cpu_prepare (TlProgram *program, const TlBackendOptions *options, GError **error)
{
  Cpu *cpu = g_new0 (Cpu, 1);
  TlMatrix none = { 0 };
  const TlMatrix *wide = &none;
  const TlOpList *lists[] = { &program->pre, &program->body, &program->post };

  cpu->base.klass = tl_backend_cpu_class ();
  cpu->base.program = tl_program_ref (program);
  cpu->base.options = *options;
  cpu->n_workers = CLAMP (options->threads ? options->threads : 1, 1, 63);
  cpu->workers = g_new0 (Worker, cpu->n_workers);
  for (guint b = TL_BUFFER_H; b < TL_N_BUFFERS; b++)
    {
      cpu->width[b] = tl_program_buffer_width (program, b);
      cpu->max_width = MAX (cpu->max_width, cpu->width[b]);
    }
  for (guint l = 0; l < G_N_ELEMENTS (lists); l++)
    for (guint i = 0; i < lists[l]->n; i++)
      for (guint m = 0; m < lists[l]->ops[i].n_matrices; m++)
        wide = widest (wide, &lists[l]->ops[i].matrix[m]);
  cpu->max_width = MAX (cpu->max_width, wide->cols);
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
  return tl_checkpoint_file_size (backend->program->weights->checkpoint);
}

static char *
cpu_device_info (TlBackend *backend)
{
  return g_strdup_printf ("cpu, scalar kernels, %u thread%s", ((Cpu *) backend)->n_workers,
    ((Cpu *) backend)->n_workers == 1 ? "" : "s");
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
