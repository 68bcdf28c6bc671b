/* forward/tl-reference.c — plain loops in F64 over all positions of one sequence; see tl-reference.h. */
#include "forward/tl-reference.h"

#include <math.h>
#include <string.h>

typedef struct
{
  const TlProgram *p;
  const TlDescriptor *d;
  const TlReferenceOptions *o;
  guint n;
} Ref;

static guint
depth_of (const Ref *r, guint t)
{
  return r->o->depths ? r->o->depths[t] : r->o->loops;
}

/* --- rows --- */

static void
norm (const Ref *r, const double *x, const float *weight, guint n, double eps, double *out)
{
  double sum = 0;
  for (guint i = 0; i < n; i++)
    sum += x[i] * x[i];
  double scale = 1.0 / sqrt (sum / n + eps);
  for (guint i = 0; i < n; i++)
    out[i] = x[i] * scale * (weight ? weight[i] + (r->d->norm_unit_offset ? 1.0 : 0.0) : 1.0);
}

static double
model_eps (const Ref *r)
{
  return r->d->norm_eps_from_dtype ? 1.1920928955078125e-07 : r->d->norm_eps;
}

static void
model_norm (const Ref *r, const double *x, const float *weight, const float *bias, double *out)
{
  guint n = r->d->d_model;
  const float *w = r->d->norm_affine ? weight : NULL;
  double mean = 0, sum = 0;
  if (r->d->norm == TL_NORM_RMS)
    {
      norm (r, x, w, n, model_eps (r), out);
      return;
    }
  for (guint i = 0; i < n; i++)
    mean += x[i] / n;
  for (guint i = 0; i < n; i++)
    sum += (x[i] - mean) * (x[i] - mean);
  double scale = 1.0 / sqrt (sum / n + model_eps (r));
  for (guint i = 0; i < n; i++)
    out[i] = (x[i] - mean) * scale * (w ? w[i] : 1.0) + (bias ? bias[i] : 0.0);
}

static void
norm_at (const Ref *r, TlNormRef ref, const float *own, double *x)
{
  if (ref != TL_NORM_REF_NONE)
    model_norm (r, x, ref == TL_NORM_REF_FINAL ? r->p->weights->final_norm : own,
      own == r->p->weights->final_norm || ref == TL_NORM_REF_FINAL ? r->p->weights->final_norm_bias : NULL, x);
}

static void
linear (const TlMatrix *m, const float *bias, const double *x, guint rows, double *y)
{
  g_autofree float *w = g_new (float, m->cols);
  for (guint i = 0; i < rows; i++)
    {
      double sum = bias ? bias[i] : 0;
      tl_matrix_row_to_f32 (m, i, w);
      for (guint c = 0; c < m->cols; c++)
        sum += (double) w[c] * x[c];
      y[i] = sum;
    }
}

static void
rotate (const Ref *r, guint position, double *head)
{
  guint half = r->p->rope_dims / 2;
  for (guint i = 0; i < half; i++)
    {
      double angle = (double) (float) ((float) position * r->p->inv_freq[i]) * r->p->rope_sign;
      gboolean split = r->p->rope_layout == TL_ROPE_HALF;
      double *a = &head[split ? i : 2 * i], *b = &head[split ? i + half : 2 * i + 1], x = *a, y = *b;
      *a = x * cos (angle) - y * sin (angle);
      *b = y * cos (angle) + x * sin (angle);
    }
}

/* --- what storing does to keys, values and attention inputs --- */

#define PAGE 32u

static double
half (double x)
{
  return tl_f16_to_f32 (tl_f32_to_f16_saturate ((float) x));
}

static double
within (double x, double low, double high)
{
  return x < low ? low : x > high ? high : x;
}

static void
round_int8 (double *x, guint n, guint group)
{
  for (guint at = 0; at < n; at += group)
    {
      guint end = MIN (at + group, n);
      double most = 0;
      for (guint i = at; i < end; i++)
        most = MAX (most, fabs (x[i]));
      double scale = half (most / 127);
      for (guint i = at; i < end; i++)
        x[i] = scale > 0 ? scale * within (rint (x[i] / scale), -127, 127) : 0;
    }
}

/* n values that lie `step` apart */
static void
round_int4 (const double *x, guint n, gsize step, double *out)
{
  double least = x[0], most = x[0];
  for (guint i = 0; i < n; i++)
    {
      least = MIN (least, x[i * step]);
      most = MAX (most, x[i * step]);
    }
  double scale = half ((most - least) / 15), minimum = half (least);
  for (guint i = 0; i < n; i++)
    out[i * step] = minimum + (scale > 0 ? scale * within (rint ((x[i * step] - minimum) / scale), 0, 15) : 0);
}

/* a key or value row, read back from its own page */
static void
store (const Ref *r, double *x, guint n)
{
  if (r->o->mode == TL_KV_INT8)
    round_int8 (x, n, r->d->head_dim);
  for (guint i = 0; (r->o->mode == TL_KV_FP16 || r->o->mode == TL_KV_INT4) && i < n; i++)
    x[i] = half (x[i]);
}

/* an attention input, read back: keys and values are made from it */
static void
store_input (const Ref *r, double *x, guint n)
{
  if (r->o->mode == TL_KV_H_INT8)
    round_int8 (x, n, 64);
  for (guint i = 0; r->o->mode == TL_KV_H && i < n; i++)
    x[i] = half (x[i]);
}

/* whether the row at t reads position j from a closed page */
static gboolean
is_closed (const Ref *r, guint j, guint t)
{
  return r->o->mode == TL_KV_INT4 && j / PAGE < t / PAGE;
}

/* closed forms of all full pages: keys per channel over the page, values per token over groups of 64 channels of a head */
static void
close_pages (const Ref *r, const double *k, const double *v, double *closed_k, double *closed_v)
{
  guint hd = r->d->head_dim, kv = r->d->n_kv_heads * hd;
  for (guint t = 0; r->o->mode == TL_KV_INT4 && t < r->n / PAGE * PAGE; t += PAGE)
    {
      for (guint c = 0; c < kv; c++)
        round_int4 (k + (gsize) t * kv + c, PAGE, kv, closed_k + (gsize) t * kv + c);
      for (guint row = t; row < t + PAGE; row++)
        for (guint head = 0; head < kv; head += hd)
          for (guint c = 0; c < hd; c += 64)
            round_int4 (v + (gsize) row * kv + head + c, MIN (64, hd - c), 1, closed_v + (gsize) row * kv + head + c);
    }
}

/* --- attention of one row --- */

static void
prepare (const Ref *r, guint position, guint heads, const float *bias, const float *weight, double *x)
{
  const TlDescriptor *d = r->d;
  guint width = d->qk_norm == TL_QK_NORM_FULL_WIDTH ? heads * d->head_dim : d->head_dim;
  double eps = d->qk_norm_eps > 0 ? d->qk_norm_eps : d->norm_eps;
  for (guint i = 0; bias && i < heads * d->head_dim; i++)
    x[i] += bias[i];
  for (guint step = 0; step < 2; step++)
    {
      gboolean now = d->qk_norm != TL_QK_NORM_NONE && (d->qk_norm_when == TL_QK_NORM_POST_ROPE) == (step == 1);
      for (guint at = 0; now && at < heads * d->head_dim; at += width)
        norm (r, x + at, weight, width, eps, x + at);
      for (guint h = 0; step == 0 && h < heads; h++)
        rotate (r, position, x + h * d->head_dim);
    }
}

/* a block's keys and values of all positions [n][kv heads * head_dim], and what rows of later pages read of them (int4) */
typedef struct { double *k, *v, *closed_k, *closed_v; } Kept;

static void
attend (const Ref *r, const double *q, const Kept *kept, guint t, double *out)
{
  const TlDescriptor *d = r->d;
  guint hd = d->head_dim, kv = d->n_kv_heads * hd, window = r->o->window, first;
  if (d->window && (!window || d->window < window))
    window = d->window;
  first = window && t + 1 > window ? t + 1 - window : 0;
  g_autofree double *s = g_new (double, t + 1);
  for (guint h = 0; h < d->n_heads; h++)
    {
      guint at = h / (d->n_heads / d->n_kv_heads) * hd;
      double max = -INFINITY, sum = 0;
      for (guint j = first; j <= t; j++)
        {
          const double *k = is_closed (r, j, t) ? kept->closed_k : kept->k;
          s[j] = 0;
          for (guint c = 0; c < hd; c++)
            s[j] += q[h * hd + c] * k[(gsize) j * kv + at + c];
          s[j] *= d->attn_scale != 0 ? d->attn_scale : 1.0 / sqrt (hd);
          if (d->attn_softcap > 0)
            s[j] = d->attn_softcap * tanh (s[j] / d->attn_softcap);
          max = MAX (max, s[j]);
        }
      for (guint j = first; j <= t; j++)
        sum += s[j] = exp (s[j] - max);
      for (guint c = 0; c < hd; c++)
        {
          double o = 0;
          for (guint j = first; j <= t; j++)
            o += s[j] * (is_closed (r, j, t) ? kept->closed_v : kept->v)[(gsize) j * kv + at + c];
          out[h * hd + c] = o / sum;
        }
    }
}

/* --- one block over all rows that take part --- */

/* x += or its normed forms, as the placement says */
static void
join (const Ref *r, const double *y, const float *out_norm, const float *out_bias, double *x)
{
  guint n = r->d->d_model;
  g_autofree double *normed = g_memdup2 (y, n * sizeof (double));
  if (r->d->placement == TL_PLACEMENT_SANDWICH_OUT || r->d->placement == TL_PLACEMENT_POST_OUT)
    model_norm (r, y, out_norm, out_bias, normed);
  for (guint i = 0; i < n; i++)
    x[i] += normed[i];
  if (r->d->placement == TL_PLACEMENT_SANDWICH_RESID)
    model_norm (r, x, out_norm, out_bias, x);
}

static double
activate (const TlDescriptor *d, double gate, double up)
{
  const double root = sqrt (2.0 / G_PI);
  switch (d->mlp)
    {
    case TL_MLP_SWIGLU: return gate / (1.0 + exp (-gate)) * up;
    case TL_MLP_GEGLU_TANH: return 0.5 * gate * (1.0 + tanh (root * (gate + 0.044715 * gate * gate * gate))) * up;
    case TL_MLP_GELU_ERF: return 0.5 * up * (1.0 + erf (up / sqrt (2.0)));
    case TL_MLP_GELU_TANH: return 0.5 * up * (1.0 + tanh (root * (up + 0.044715 * up * up * up)));
    default: return (d->mlp_act_scale != 0 ? d->mlp_act_scale : 1.0) * (up > 0 ? up * up : 0);
    }
}

/* kept by the caller, so that stopped rows leave their keys and values behind, unless those are projected anew from the state
 * they stopped with */
static void
block (const Ref *r, const TlBlockWeights *w, double *h, const gboolean *active, const Kept *kept)
{
  double *k = kept->k, *v = kept->v;
  const TlDescriptor *d = r->d;
  guint dm = d->d_model, nq = d->n_heads * d->head_dim, kv = d->n_kv_heads * d->head_dim;
  gboolean pre = d->placement != TL_PLACEMENT_POST_OUT;
  g_autofree double *q = g_new (double, (gsize) r->n * nq), *in = g_new (double, dm), *a = g_new (double, nq);
  g_autofree double *y = g_new (double, dm), *gate = g_new0 (double, d->d_ff), *up = g_new (double, d->d_ff);
  for (guint t = 0; t < r->n; t++)
    {
      if (!active[t] && !r->o->propagate)
        continue;
      memcpy (in, h + (gsize) t * dm, dm * sizeof (double));
      if (pre)
        model_norm (r, in, w->attn_norm, w->attn_norm_bias, in);
      linear (&w->q, w->q_bias, in, nq, q + (gsize) t * nq);
      store_input (r, in, dm);
      linear (&w->k, w->k_bias, in, kv, k + (gsize) t * kv);
      linear (&w->v, w->v_bias, in, kv, v + (gsize) t * kv);
      prepare (r, t, d->n_heads, w->qk_bias, w->q_norm, q + (gsize) t * nq);
      prepare (r, t, d->n_kv_heads, w->qk_bias ? w->qk_bias + nq : NULL, w->k_norm, k + (gsize) t * kv);
      store (r, k + (gsize) t * kv, kv);
      store (r, v + (gsize) t * kv, kv);
    }
  close_pages (r, k, v, kept->closed_k, kept->closed_v);
  for (guint t = 0; t < r->n; t++)
    {
      double *x = h + (gsize) t * dm;
      if (!active[t])
        continue;
      attend (r, q + (gsize) t * nq, kept, t, a);
      linear (&w->o, w->o_bias, a, dm, y);
      join (r, y, w->attn_out_norm, w->attn_out_norm_bias, x);
      memcpy (in, x, dm * sizeof (double));
      if (pre)
        model_norm (r, in, w->mlp_norm, w->mlp_norm_bias, in);
      if (w->gate.data)
        linear (&w->gate, w->gate_bias, in, d->d_ff, gate);
      linear (&w->up, w->up_bias, in, d->d_ff, up);
      for (guint i = 0; i < d->d_ff; i++)
        up[i] = activate (d, gate[i], up[i]);
      linear (&w->down, w->down_bias, up, dm, y);
      join (r, y, w->mlp_out_norm, w->mlp_out_norm_bias, x);
    }
}

/* kept: four arrays of all of a stack's planes, one after another */
static void
stack (const Ref *r, TlStack which, double *h, const gboolean *active, double *kept, gsize size)
{
  gsize plane = (gsize) r->n * r->d->n_kv_heads * r->d->head_dim;
  for (guint b = 0; b < r->d->n_blocks[which]; b++)
    {
      double *k = kept + b * plane;
      block (r, &r->p->weights->blocks[which][b], h, active, &(Kept) { k, k + size, k + 2 * size, k + 3 * size });
    }
}

static void
inject (const Ref *r, guint loop, const double *e, double *h)
{
  guint dm = r->d->d_model;
  gboolean state_first = r->d->inject_order == TL_INJECT_STATE_FIRST;
  g_autofree double *both = g_new (double, 2 * dm);
  if (r->d->inject == TL_INJECT_NONE || (loop == 0 && !r->d->inject_first_step))
    return;
  if (r->d->inject == TL_INJECT_ADD)
    {
      for (guint i = 0; i < dm; i++)
        h[i] += e[i];
      return;
    }
  memcpy (both + (state_first ? 0 : dm), h, dm * sizeof (double));
  memcpy (both + (state_first ? dm : 0), e, dm * sizeof (double));
  linear (&r->p->weights->inject, r->p->weights->inject_bias, both, dm, h);
}

static void
head (const Ref *r, const double *h, float *logits)
{
  const TlDescriptor *d = r->d;
  g_autofree double *x = g_memdup2 (h, d->d_model * sizeof (double)), *y = g_new (double, d->vocab_size);
  norm_at (r, d->norm_final, r->p->weights->final_norm, x);
  linear (&r->p->weights->head, r->p->weights->head_bias, x, d->vocab_size, y);
  for (guint i = 0; i < d->vocab_size; i++)
    {
      y[i] *= d->logit_scale;
      logits[i] = d->logit_softcap > 0 ? d->logit_softcap * tanh (y[i] / d->logit_softcap) : y[i];
    }
}

gboolean
tl_reference_logits (const TlProgram *program, const guint32 *tokens, guint n, const TlReferenceOptions *options,
  float *logits)
{
  const TlDescriptor *d = program->descriptor;
  Ref ref = { program, d, options, n }, *r = &ref;
  guint dm = d->d_model;
  guint planes = MAX (MAX (d->n_blocks[0], d->n_blocks[1]), MAX (d->n_blocks[2], 1));
  gsize size = (gsize) planes * n * d->n_kv_heads * d->head_dim;
  g_autofree double *h = g_new0 (double, (gsize) n * dm), *e = NULL, *kept = g_new0 (double, 4 * size);
  g_autofree gboolean *active = g_new (gboolean, n);
  g_autofree float *row = g_new (float, dm);

  for (guint t = 0; t < n; t++)
    {
      tl_matrix_row_to_f32 (&program->weights->embed, tokens[t], row);
      for (guint i = 0; i < dm; i++)
        h[(gsize) t * dm + i] = (double) row[i] * d->embed_scale;
      if (d->pos == TL_POS_LEARNED)
        {
          tl_matrix_row_to_f32 (&program->weights->pos, t, row);
          for (guint i = 0; i < dm; i++)
            h[(gsize) t * dm + i] += row[i];
        }
      norm_at (r, d->norm_embed, program->weights->embed_norm, h + (gsize) t * dm);
      active[t] = TRUE;
    }
  stack (r, TL_STACK_PRE, h, active, kept, size);
  for (guint t = 0; t < n; t++)
    norm_at (r, d->norm_prelude_out, program->weights->prelude_norm, h + (gsize) t * dm);
  e = g_memdup2 (h, (gsize) n * dm * sizeof (double));
  for (gsize i = 0; d->state_init >= TL_STATE_INIT_ZEROS && i < (gsize) n * dm; i++)
    h[i] = options->initial_state ? options->initial_state[i] : 0;
  /* keys and values of the loop stay where a stopped row left them: plane min (d, e) */
  for (guint loop = 0; loop < options->loops; loop++)
    {
      if (g_cancellable_is_cancelled (options->cancellable))
        return FALSE;
      for (guint t = 0; t < n; t++)
        if ((active[t] = loop < depth_of (r, t)))
          inject (r, loop, e + (gsize) t * dm, h + (gsize) t * dm);
      stack (r, TL_STACK_LOOP, h, active, kept, size);
      for (guint t = 0; t < n; t++)
        if (active[t])
          norm_at (r, d->norm_loop_end, program->weights->loop_norm, h + (gsize) t * dm);
    }
  for (guint t = 0; t < n; t++)
    {
      active[t] = TRUE;
      norm_at (r, d->norm_pre_coda, program->weights->pre_coda_norm, h + (gsize) t * dm);
    }
  stack (r, TL_STACK_CODA, h, active, kept, size);
  for (guint t = 0; t < n; t++)
    head (r, h + (gsize) t * dm, logits + (gsize) t * d->vocab_size);
  return TRUE;
}
