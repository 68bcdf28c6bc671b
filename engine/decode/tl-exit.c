/* decode/tl-exit.c — early exit: the table of criteria, and what probes remember of each row.
 *
 * A criterion says whether a row is stable now; the rule counts, and stops the row after `patience` stable probes in a row.
 * Measures are F64 sums over 16 lanes in the order of the other arithmetic, so that an exit never depends on the machine.
 * Sources: hidden-l2 and KL as in Geiping et al., "Scaling up test-time compute with latent reasoning" (2025); the gate is
 * the hazard of Zhu et al., "Scaling latent reasoning via looped language models" (2025).
 */
#include "decode/tl-exit.h"

#include <math.h>
#include <string.h>

#include "forward/tl-math.h"

typedef struct
{
  guint depth;                  /* of the last look */
  guint stable;                 /* probes in a row */
  guint exit_depth;             /* 0: none */
  gboolean asked;               /* a probe has been made */
  gboolean swapped;             /* h is the row's state, and its slot holds what is read out */
  float *h;                     /* [d_model] at the last look; after the exit, what is read out */
  float *before;                /* [vocab_size] log-probabilities of the last probe, criteria that compare them; or NULL */
  double number;                /* of the last probe: entropy */
  guint32 best;                 /* of the last probe: argmax */
  float survival, cdf;          /* gate */
} Memory;

/* what a criterion may look at */
typedef struct
{
  const float *h, *h_before;    /* [d_model] what the next loop would receive, and one loop earlier */
  const float *logits;          /* [vocab_size] or NULL */
  const TlProgram *program;
  float threshold;
} Look;

struct _TlExitMemory
{
  guint n;
  Memory rows[];
};

struct _TlExit
{
  TlExitRule rule;
  TlPass *pass;
  const TlProgram *program;
  guint first, n;
  TlExitMemory *own;            /* of rows that do not pause, by index */
  float *h, *logits;            /* scratch */
};

/* --- measures --- */

/* element i to lane i mod 16, lanes by a neighbour tree */
static double
sum_lanes (double *lane)
{
  for (guint step = 1; step < 16; step *= 2)
    for (guint i = 0; i < 16; i += 2 * step)
      lane[i] += lane[i + step];
  return lane[0];
}

/* ‖a − b‖ of [n]; b NULL = zeros */
static double
distance (const float *a, const float *b, guint n)
{
  double lane[16] = { 0 };
  for (guint i = 0; i < n; i++)
    {
      double d = (double) a[i] - (b ? b[i] : 0);
      lane[i % 16] += d * d;
    }
  return sqrt (sum_lanes (lane));
}

static guint32
best_of (const float *x, guint n)
{
  guint32 best = 0;
  for (guint i = 1; i < n; i++)
    if (x[i] > x[best])
      best = i;
  return best;
}

static void
log_softmax (const float *x, guint n, float *out)
{
  float largest = x[best_of (x, n)];
  double lane[16] = { 0 };
  for (guint i = 0; i < n; i++)
    lane[i % 16] += tl_exp ((double) x[i] - largest);
  double log_sum = tl_log (sum_lanes (lane));
  for (guint i = 0; i < n; i++)
    out[i] = (float) ((double) x[i] - largest - log_sum);
}

/* Σ p (log p − log q) of log-probabilities; q NULL: the negative entropy of p */
static double
divergence (const float *log_p, const float *log_q, guint n)
{
  double lane[16] = { 0 };
  for (guint i = 0; i < n; i++)
    if (log_p[i] > -80)         /* less than any rounding of the sum */
      lane[i % 16] += tl_exp (log_p[i]) * ((double) log_p[i] - (log_q ? log_q[i] : 0));
  return sum_lanes (lane);
}

/* --- criteria: whether the row is stable --- */

static gboolean
hidden_l2 (Memory *m, const Look *look)
{
  guint n = look->program->d_model;
  return distance (look->h, look->h_before, n) / distance (look->h, NULL, n) < look->threshold;
}

static gboolean
logit_margin (Memory *m, const Look *look)
{
  guint n = look->program->vocab_size;
  guint32 best = best_of (look->logits, n);
  float second = -INFINITY;
  for (guint i = 0; i < n; i++)
    if (i != best && look->logits[i] > second)
      second = look->logits[i];
  return look->logits[best] - second > look->threshold;
}

/* KL (now ‖ last probe) */
static gboolean
kl (Memory *m, const Look *look)
{
  guint n = look->program->vocab_size;
  g_autofree float *now = g_new (float, n);
  log_softmax (look->logits, n, now);
  gboolean stable = m->asked && divergence (now, m->before, n) < look->threshold;
  g_free (m->before);
  m->before = g_steal_pointer (&now);
  return stable;
}

static gboolean
entropy (Memory *m, const Look *look)
{
  guint n = look->program->vocab_size;
  g_autofree float *now = g_new (float, n);
  log_softmax (look->logits, n, now);
  double last = m->number;
  m->number = -divergence (now, NULL, n);
  return m->asked && fabs (m->number - last) < look->threshold;
}

static gboolean
argmax (Memory *m, const Look *look)
{
  guint32 last = m->best;
  m->best = best_of (look->logits, look->program->vocab_size);
  return m->asked && m->best == last;
}

/* the probability of having stopped by now, each loop's gate being the hazard of stopping there */
static gboolean
gate (Memory *m, const Look *look)
{
  const TlWeights *w = look->program->weights;
  float lane[16] = { 0 };
  for (guint i = 0; i < look->program->d_model; i++)
    lane[i % 16] = fmaf (w->exit_gate[i], look->h[i], lane[i % 16]);
  for (guint step = 1; step < 16; step *= 2)
    for (guint i = 0; i < 16; i += 2 * step)
      lane[i] += lane[i + step];
  float hazard = tl_sigmoidf (lane[0] + w->exit_gate_bias[0]), survival = m->asked ? m->survival : 1;
  m->cdf = (m->asked ? m->cdf : 0) + hazard * survival;
  m->survival = survival * (1 - hazard);
  return m->cdf >= look->threshold;
}

static const struct
{
  const char *name;
  gboolean (*is_stable) (Memory *memory, const Look *look);
  gboolean reads_logits, reads_gate, reads_change;
} criteria[] = {
  { "hidden-l2", hidden_l2, FALSE, FALSE, TRUE },
  { "logit-margin", logit_margin, TRUE, FALSE, FALSE },
  { "kl", kl, TRUE, FALSE, FALSE },
  { "entropy", entropy, TRUE, FALSE, FALSE },
  { "argmax", argmax, TRUE, FALSE, FALSE },
  { "gate", gate, FALSE, TRUE, FALSE },
};

int
tl_exit_find_criterion (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (criteria); i++)
    if (g_str_equal (name, criteria[i].name))
      return i;
  return -1;
}

char *
tl_exit_criterion_names (void)
{
  GString *names = g_string_new (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (criteria); i++)
    g_string_append_printf (names, "%s%s", i ? ", " : "", criteria[i].name);
  return g_string_free (names, FALSE);
}

gboolean
tl_exit_reads_logits (const TlExitRule *rule)
{
  return criteria[rule->criterion].reads_logits;
}

gboolean
tl_exit_check (const TlExitRule *rule, const TlProgram *program, GError **error)
{
  if (!criteria[rule->criterion].reads_gate || program->weights->exit_gate)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: the model has no exit gate; leave exit-threshold at 1, or"
    " use early-exit-patience", tl_checkpoint_name (program->weights->checkpoint));
  return FALSE;
}

/* --- memory --- */

TlExitMemory *
tl_exit_memory_new (const TlProgram *program, guint n_slots)
{
  TlExitMemory *memory = g_malloc0 (sizeof *memory + n_slots * sizeof (Memory));
  memory->n = n_slots;
  for (guint i = 0; i < n_slots; i++)
    memory->rows[i].h = g_new0 (float, program->d_model);
  return memory;
}

void
tl_exit_memory_free (TlExitMemory *memory)
{
  if (!memory)
    return;
  for (guint i = 0; i < memory->n; i++)
    {
      g_free (memory->rows[i].h);
      g_free (memory->rows[i].before);
    }
  g_free (memory);
}

gboolean
tl_exit_memory_is_final (const TlExitMemory *memory, guint slot)
{
  g_return_val_if_fail (slot < memory->n, FALSE);
  return memory->rows[slot].exit_depth > 0;
}

static Memory *
memory_of (const TlExit *exit, guint i)
{
  if (exit->own)
    return &exit->own->rows[i];
  guint slot = tl_pass_row_slot (exit->pass, exit->first + i);
  g_assert (slot < exit->rule.memory->n);
  return &exit->rule.memory->rows[slot];
}

static void
start_anew (Memory *m)
{
  g_free (m->before);
  *m = (Memory) { .h = m->h };
}

/* the row's state and what is read out of it change places */
static void
swap_state (TlExit *exit, Memory *m, guint row)
{
  gsize size = exit->program->d_model * sizeof (float);
  memcpy (exit->h, m->h, size);
  tl_pass_read_state (exit->pass, row, TL_STATE_H, m->h);
  tl_pass_write_state (exit->pass, row, TL_STATE_H, exit->h);
  m->swapped = !m->swapped;
}

/* --- when a row is looked at --- */

static gboolean
is_due (const TlExitRule *rule, guint depth)
{
  guint first = MAX (rule->min_loops, 1);
  return depth >= first && (depth - first) % MAX (rule->peek_every, 1) == 0;
}

/* a probe, or the state that the next loop's probe will compare with */
static gboolean
is_look (const TlExitRule *rule, guint depth)
{
  return is_due (rule, depth) || (criteria[rule->criterion].reads_change && is_due (rule, depth + 1));
}

static gboolean
is_watched (const TlExit *exit, guint i)
{
  guint row = exit->first + i;
  return tl_pass_row_is_going (exit->pass, row) && tl_pass_row_delivers (exit->pass, row)
    && memory_of (exit, i)->exit_depth == 0;
}

guint
tl_exit_loops_to_probe (const TlExit *exit)
{
  guint least = G_MAXUINT;
  for (guint i = 0; i < exit->n; i++)
    if (is_watched (exit, i))
      {
        guint depth = tl_pass_row_depth (exit->pass, exit->first + i), next = depth;
        if (depth == memory_of (exit, i)->depth)
          next++;
        while (next - depth < least && !is_look (&exit->rule, next))
          next++;
        least = MIN (least, next - depth);
      }
  return least;
}

/* --- rows of a pass --- */

TlExit *
tl_exit_new (const TlExitRule *rule, TlPass *pass, guint first, guint n)
{
  TlExit *exit = g_new0 (TlExit, 1);
  exit->rule = *rule;
  exit->pass = pass;
  exit->program = tl_pass_program (pass);
  exit->first = first;
  exit->n = n;
  exit->own = rule->memory ? NULL : tl_exit_memory_new (exit->program, n);
  exit->h = g_new (float, exit->program->d_model);
  exit->logits = criteria[rule->criterion].reads_logits ? g_new (float, exit->program->vocab_size) : NULL;
  for (guint i = 0; i < n; i++)
    {
      Memory *m = memory_of (exit, i);
      if (tl_pass_row_depth (pass, first + i) == 0)
        {
          start_anew (m);
          tl_pass_read_state (pass, first + i, TL_STATE_H, m->h);
        }
      else if (m->swapped)
        swap_state (exit, m, first + i);
      else if (m->exit_depth && rule->fill != TL_EXIT_FILL_FULL)
        tl_pass_stop_row (pass, first + i);
    }
  return exit;
}

static gboolean
probe_row (TlExit *exit, guint i, GCancellable *cancellable, GError **error)
{
  const TlExitRule *rule = &exit->rule;
  guint row = exit->first + i, depth = tl_pass_row_depth (exit->pass, row);
  Memory *m = memory_of (exit, i);
  Look look = { exit->h, m->h, exit->logits, exit->program, rule->threshold };
  gboolean comparable = m->depth + 1 == depth || !criteria[rule->criterion].reads_change;

  tl_pass_read_state (exit->pass, row, TL_STATE_H, exit->h);
  if (is_due (rule, depth) && comparable)
    {
      if (exit->logits && !tl_pass_peek (exit->pass, row, exit->logits, cancellable, error))
        return FALSE;
      m->stable = criteria[rule->criterion].is_stable (m, &look) ? m->stable + 1 : 0;
      m->asked = TRUE;
    }
  m->depth = depth;
  memcpy (m->h, exit->h, exit->program->d_model * sizeof (float));
  if (m->stable < MAX (rule->patience, 1))
    return TRUE;
  m->exit_depth = depth;
  if (rule->fill == TL_EXIT_FILL_COPY)
    tl_pass_stop_row (exit->pass, row);
  return rule->fill != TL_EXIT_FILL_PROPAGATE || tl_pass_propagate (exit->pass, row, cancellable, error);
}

gboolean
tl_exit_probe (TlExit *exit, GCancellable *cancellable, GError **error)
{
  for (guint i = 0; i < exit->n; i++)
    {
      guint depth = tl_pass_row_depth (exit->pass, exit->first + i);
      if (is_watched (exit, i) && memory_of (exit, i)->depth != depth && is_look (&exit->rule, depth)
          && !probe_row (exit, i, cancellable, error))
        return FALSE;
    }
  return TRUE;
}

void
tl_exit_end (TlExit *exit, guint *depths)
{
  for (guint i = 0; i < exit->n; i++)
    {
      Memory *m = memory_of (exit, i);
      if (m->exit_depth && exit->rule.fill == TL_EXIT_FILL_FULL)
        swap_state (exit, m, exit->first + i);
      if (depths)
        depths[i] = m->exit_depth ? m->exit_depth : tl_pass_row_depth (exit->pass, exit->first + i);
    }
}

void
tl_exit_free (TlExit *exit)
{
  if (!exit)
    return;
  tl_exit_memory_free (exit->own);
  g_free (exit->h);
  g_free (exit->logits);
  g_free (exit);
}
