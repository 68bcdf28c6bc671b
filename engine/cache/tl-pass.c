/* cache/tl-pass.c — the driver: rows in, pages made writable, stages run, sequences committed. See tl-pass.h.
 *
 * Passes of several callers share the backend's entries: their chosen rows are gathered into one batch, and what became of
 * each row is scattered back, so that one that fails or is cancelled leaves the others alone.
 */
#include "cache/tl-pass-private.h"

static const char *
model_name (TlBackend *backend)
{
  return tl_checkpoint_name (backend->program->weights->checkpoint);
}

/* --- checks --- */

static gboolean
check_mode (TlKvMode mode, GError **error)
{
  if (mode <= TL_KV_INT8)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
    "tinyloop: kv-mode = %s is not implemented by this version; use fp16, fp32 or int8", tl_kv_mode_name (mode));
  return FALSE;
}

gboolean
tl_pass_check_rows (TlBackend *backend, const TlPassRow *rows, guint n, gboolean has_states, GError **error)
{
  const TlDescriptor *d = backend->program->descriptor;
  if (n == 0)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: a pass needs at least one token");
      return FALSE;
    }
  for (guint i = 0; i < n; i++)
    {
      const TlPassRow *r = &rows[i];
      if (!check_mode (tl_kv_sequence_mode (r->sequence), error))
        return FALSE;
      if (r->token >= d->vocab_size)
        {
          g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
            "tinyloop: %s: token %u is outside of the vocabulary of %u ids", model_name (backend), r->token,
            d->vocab_size);
          return FALSE;
        }
      if (r->stop > d->loops_max || (r->depth == 0 && r->stop < 1) || r->stop < r->depth)
        {
          g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
            "tinyloop: %s: %u loops asked for, this model takes %u to %u", model_name (backend), r->stop,
            MAX (d->loops_min, 1), d->loops_max);
          return FALSE;
        }
      if (d->pos == TL_POS_LEARNED && r->position >= d->max_seq_len)
        {
          g_set_error (error, TL_ERROR, TL_ERROR_SEQUENCE_TOO_LONG,
            "tinyloop: %s: position %u is beyond the %u learned ones; shorten the prompt", model_name (backend),
            r->position, d->max_seq_len);
          return FALSE;
        }
      if (r->depth > 0 && !has_states)
        {
          g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT,
            "tinyloop: a row cannot go on from depth %u without its kept state", r->depth);
          return FALSE;
        }
    }
  return TRUE;
}

/* --- running --- */

typedef gboolean (*Chooser) (const TlPass *pass, guint row);

static gboolean
is_fresh (const TlPass *pass, guint row)
{
  return pass->rows[row].depth == 0;
}

static gboolean
is_going (const TlPass *pass, guint row)
{
  return pass->states_of[row].depth < pass->states_of[row].stop;
}

static gboolean
is_any (const TlPass *pass, guint row)
{
  return TRUE;
}

static void
fail (TlPass *pass, TlRowFate fate)
{
  if (pass->failure || fate == TL_ROW_GOOD)
    return;
  if (fate == TL_ROW_CANCELLED)
    g_set_error (&pass->failure, TL_ERROR, TL_ERROR_CANCELLED, "tinyloop: the pass was cancelled");
  else
    g_set_error (&pass->failure, TL_ERROR, TL_ERROR_NUMERIC,
      "tinyloop: %s: a value became infinite or not a number; the weights are damaged or the depth is too large",
      model_name (pass->backend));
}

/* the chosen rows of those passes that have not failed, and where each stands */
typedef struct { TlBatch batch; GArray *rows; GPtrArray *tables; GArray *from; } Gathered;
typedef struct { TlPass *pass; guint row; } From;

static void
gather (Gathered *g, TlPass *pass, Chooser chosen)
{
  guint base = g->tables->len;
  for (guint s = 0; s < pass->sequences->len; s++)
    g_ptr_array_add (g->tables, pass->tables[s]);
  for (guint i = 0; i < pass->n; i++)
    if (chosen (pass, i))
      {
        TlRow row = pass->states_of[i];
        From from = { pass, i };
        row.sequence += base;
        row.cancellable = pass->cancellable;
        g_array_append_val (g->rows, row);
        g_array_append_val (g->from, from);
      }
}

/* depths and fates back to the passes */
static void
scatter (const Gathered *g, const GError *error)
{
  for (guint i = 0; i < g->from->len; i++)
    {
      const From *from = &g_array_index (g->from, From, i);
      const TlRow *row = &g_array_index (g->rows, TlRow, i);
      if (error && !from->pass->failure)
        from->pass->failure = g_error_copy (error);
      fail (from->pass, row->fate);
      from->pass->states_of[from->row].depth = row->depth;
    }
}

/* stages over the chosen rows of several passes in one entry of the backend */
static void
run_passes (TlPass **passes, guint n, Chooser chosen, TlStages stages, guint loops)
{
  Gathered g = { .rows = g_array_new (FALSE, FALSE, sizeof (TlRow)), .tables = g_ptr_array_new (),
    .from = g_array_new (FALSE, FALSE, sizeof (From)) };
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < n; i++)
    if (!passes[i]->failure)
      gather (&g, passes[i], chosen);
  g.batch = (TlBatch) { (TlRow *) g.rows->data, g.rows->len, (TlPageTable **) g.tables->pdata, g.tables->len };
  if (g.rows->len)
    tl_backend_run (passes[0]->backend, &g.batch, stages, loops, NULL, &error);
  scatter (&g, error);
  g_array_unref (g.rows);
  g_array_unref (g.from);
  g_ptr_array_unref (g.tables);
}

/* stages over one row; keeps its depth */
static gboolean
run_row (TlPass *pass, guint row, TlStages stages, GCancellable *cancellable, GError **error)
{
  TlRow *r = &pass->states_of[row], kept = *r;
  TlBatch batch = { r, 1, pass->tables, pass->sequences->len };
  r->cancellable = cancellable;
  gboolean ok = tl_backend_run (pass->backend, &batch, stages, 0, NULL, error);
  TlRowFate fate = r->fate;
  r->cancellable = kept.cancellable;
  if (ok && fate != TL_ROW_GOOD)
    {
      fail (pass, fate);
      g_propagate_error (error, g_error_copy (pass->failure));
    }
  return ok && fate == TL_ROW_GOOD;
}

/* --- begin --- */

static guint
index_of_sequence (TlPass *pass, TlKvSequence *seq)
{
  for (guint i = pass->sequences->len; i-- > 0;)
    if (g_ptr_array_index (pass->sequences, i) == seq)
      return i;
  g_ptr_array_add (pass->sequences, tl_kv_sequence_ref (seq));
  return pass->sequences->len - 1;
}

static guint
first_visible (TlBackend *backend, TlKvSequence *seq, guint position)
{
  guint window = tl_kv_sequence_window (seq), own = backend->program->descriptor->window;
  if (own && (window == 0 || own < window))
    window = own;
  guint first = window && position + 1 > window ? position + 1 - window : 0;
  return MAX (first, tl_kv_sequence_start (seq));
}

static gboolean
reserve_all (TlPass *pass, GError **error)
{
  for (guint s = 0; s < pass->sequences->len; s++)
    {
      TlKvSequence *seq = g_ptr_array_index (pass->sequences, s);
      guint from = G_MAXUINT, to = 0, loops = 0;
      for (guint i = 0; i < pass->n; i++)
        if (pass->rows[i].sequence == seq)
          {
            from = MIN (from, pass->rows[i].position);
            to = MAX (to, pass->rows[i].position + 1);
            loops = MAX (loops, pass->rows[i].stop);
          }
      if (!tl_kv_sequence_reserve (seq, from, to, loops, error))
        return FALSE;
    }
  for (guint s = 0; s < pass->sequences->len; s++)
    pass->tables[s] = tl_kv_sequence_table (g_ptr_array_index (pass->sequences, s));
  return TRUE;
}

static void
make_rows (TlPass *pass, TlStates *states)
{
  for (guint i = 0; i < pass->n; i++)
    {
      const TlPassRow *r = &pass->rows[i];
      pass->states_of[i] = (TlRow) {
        .token = r->token, .position = r->position, .sequence = index_of_sequence (pass, r->sequence),
        .first_visible = first_visible (pass->backend, r->sequence, r->position),
        .depth = r->depth, .stop = r->stop, .states = states, .slot = r->slot, .initial_state = r->initial_state,
        .logits = r->logits, .hidden = r->hidden, .trace = r->trace,
      };
      if (r->position < tl_kv_sequence_length (r->sequence))
        pass->old_depth[i] = tl_kv_sequence_depth (r->sequence, r->position);
    }
}

gboolean
tl_pass_check_batches (TlBackend *backend, GError **error)
{
  if (backend->klass->run)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
    "tinyloop: device '%s' computes logits of whole sequences only; use device 'cpu' for this", backend->klass->name);
  return FALSE;
}

TlPass *
tl_pass_new (TlBackend *backend, const TlPassRow *rows, guint n_rows, TlStates *states, GCancellable *cancellable,
  GError **error)
{
  if (!tl_pass_check_rows (backend, rows, n_rows, states != NULL, error) || !tl_pass_check_batches (backend, error))
    return NULL;
  g_autoptr (TlPass) pass = g_new0 (TlPass, 1);
  pass->backend = backend;
  pass->n = n_rows;
  pass->rows = g_memdup2 (rows, n_rows * sizeof *rows);
  pass->states_of = g_new0 (TlRow, n_rows);
  pass->filled = g_new0 (gboolean, n_rows);
  pass->old_depth = g_new0 (guint, n_rows);
  pass->sequences = g_ptr_array_new_with_free_func ((GDestroyNotify) tl_kv_sequence_unref);
  g_set_object (&pass->cancellable, cancellable);
  make_rows (pass, states);
  pass->tables = g_new0 (TlPageTable *, pass->sequences->len);
  return reserve_all (pass, error) ? g_steal_pointer (&pass) : NULL;
}

/* between stages every row's state has a place */
static void
place_states (TlPass *pass)
{
  for (guint i = 0; !pass->failure && i < pass->n; i++)
    {
      TlRow *row = &pass->states_of[i];
      if (row->states)
        continue;
      if (!pass->own_states)
        pass->own_states = tl_backend_states_new (pass->backend, pass->n, &pass->failure);
      row->states = pass->own_states;
      row->slot = i;
    }
}

void
tl_passes_pre (TlPass **passes, guint n)
{
  for (guint i = 0; i < n; i++)
    place_states (passes[i]);
  run_passes (passes, n, is_fresh, TL_STAGE_PRE, 0);
}

static gboolean
has_failed (TlPass *pass, GError **error)
{
  if (pass->failure)
    g_propagate_error (error, g_error_copy (pass->failure));
  return pass->failure != NULL;
}

TlPass *
tl_pass_begin (TlBackend *backend, const TlPassRow *rows, guint n_rows, TlStates *states,
  GCancellable *cancellable, GError **error)
{
  g_autoptr (TlPass) pass = tl_pass_new (backend, rows, n_rows, states, cancellable, error);
  if (!pass)
    return NULL;
  tl_passes_pre (&pass, 1);
  return has_failed (pass, error) ? NULL : g_steal_pointer (&pass);
}

/* --- loops --- */

/* rows of one sequence that stop at different depths must be filled between loops */
static gboolean
stops_differ (TlPass *pass)
{
  for (guint i = 1; i < pass->n; i++)
    if (pass->states_of[i].sequence == pass->states_of[i - 1].sequence
        && pass->states_of[i].stop != pass->states_of[i - 1].stop)
      return TRUE;
  return FALSE;
}

static void
fill_stopped (TlPass *pass)
{
  for (guint i = 0; i < pass->n; i++)
    {
      TlRow *r = &pass->states_of[i];
      if (pass->filled[i] || r->depth < r->stop)
        continue;
      if (r->depth < tl_kv_sequence_max_depth (pass->rows[i].sequence))
        tl_kv_sequence_fill_deeper (pass->rows[i].sequence, r->position, r->depth);
      pass->filled[i] = TRUE;
    }
}

guint
tl_pass_loops_left (const TlPass *pass)
{
  guint left = 0;
  for (guint i = 0; !pass->failure && i < pass->n; i++)
    left = MAX (left, pass->states_of[i].stop - pass->states_of[i].depth);
  return left;
}

gboolean
tl_pass_failed (const TlPass *pass)
{
  return pass->failure != NULL;
}

void
tl_pass_fail (TlPass *pass, const GError *error)
{
  if (!pass->failure)
    pass->failure = g_error_copy (error);
}

static void
fill_all_stopped (TlPass **passes, guint n)
{
  for (guint i = 0; i < n; i++)
    if (!passes[i]->failure)
      fill_stopped (passes[i]);
}

void
tl_passes_loops (TlPass **passes, guint n, guint loops)
{
  gboolean going = TRUE, singly = FALSE;
  for (guint i = 0; i < n; i++)
    singly |= stops_differ (passes[i]);
  for (guint step = singly ? 1 : loops; going && loops > 0; loops -= step)
    {
      fill_all_stopped (passes, n);
      going = FALSE;
      for (guint i = 0; i < n; i++)
        going |= tl_pass_loops_left (passes[i]) > 0;
      if (going)
        run_passes (passes, n, is_going, TL_STAGE_BODY, step);
    }
  fill_all_stopped (passes, n);
}

static void
use_cancellable (TlPass *pass, GCancellable *cancellable)
{
  if (cancellable)
    g_set_object (&pass->cancellable, cancellable);
}

gboolean
tl_pass_loops (TlPass *pass, guint n, GCancellable *cancellable, GError **error)
{
  use_cancellable (pass, cancellable);
  tl_passes_loops (&pass, 1, n);
  return !has_failed (pass, error);
}

guint
tl_pass_row_depth (const TlPass *pass, guint row)
{
  g_return_val_if_fail (row < pass->n, 0);
  return pass->states_of[row].depth;
}

gboolean
tl_pass_row_is_going (const TlPass *pass, guint row)
{
  g_return_val_if_fail (row < pass->n, FALSE);
  return pass->states_of[row].depth < pass->states_of[row].stop;
}

TlProgram *
tl_pass_program (const TlPass *pass)
{
  return pass->backend->program;
}

guint
tl_pass_row_slot (const TlPass *pass, guint row)
{
  g_return_val_if_fail (row < pass->n, 0);
  return pass->states_of[row].slot;
}

gboolean
tl_pass_row_delivers (const TlPass *pass, guint row)
{
  g_return_val_if_fail (row < pass->n, FALSE);
  return pass->states_of[row].logits != NULL;
}

void
tl_pass_read_state (TlPass *pass, guint row, TlStatePart part, float *out)
{
  g_return_if_fail (row < pass->n);
  tl_backend_state_read (pass->backend, pass->states_of[row].states, pass->states_of[row].slot, part, out);
}

void
tl_pass_write_state (TlPass *pass, guint row, TlStatePart part, const float *in)
{
  g_return_if_fail (row < pass->n);
  tl_backend_state_write (pass->backend, pass->states_of[row].states, pass->states_of[row].slot, part, in);
}

void
tl_pass_stop_row (TlPass *pass, guint row)
{
  g_return_if_fail (row < pass->n);
  pass->states_of[row].stop = pass->states_of[row].depth;
}

gboolean
tl_pass_propagate (TlPass *pass, guint row, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (row < pass->n, FALSE);
  TlRow *r = &pass->states_of[row];
  TlKvSequence *seq = pass->rows[row].sequence;
  guint depth = r->depth;
  if (!run_row (pass, row, TL_STAGE_FILL, cancellable, error))
    return FALSE;
  if (r->stop < tl_kv_sequence_max_depth (seq))
    tl_kv_sequence_fill_deeper (seq, r->position, r->stop);
  r->stop = r->depth = depth;
  pass->filled[row] = TRUE;
  return TRUE;
}

/* The row's own coda planes are rewritten by finish, so the probe may use their place. */
gboolean
tl_pass_peek (TlPass *pass, guint row, float *logits, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (row < pass->n, FALSE);
  TlRow kept = pass->states_of[row];
  pass->states_of[row].logits = logits;
  pass->states_of[row].hidden = NULL;
  gboolean ok = run_row (pass, row, TL_STAGE_POST, cancellable, error);
  pass->states_of[row] = kept;
  return ok;
}

/* --- end --- */

static void
commit (TlPass *pass)
{
  for (guint i = 0; i < pass->n; i++)
    tl_kv_sequence_commit (pass->rows[i].sequence, pass->rows[i].position, pass->rows[i].token,
      pass->states_of[i].depth);
  for (guint s = 0; s < pass->sequences->len; s++)
    tl_kv_sequence_trim (g_ptr_array_index (pass->sequences, s));
  pass->finished = TRUE;
}

void
tl_passes_post (TlPass **passes, guint n)
{
  for (guint p = 0; p < n; p++)
    for (guint i = 0; i < passes[p]->n; i++)
      passes[p]->states_of[i].stop = passes[p]->states_of[i].depth;
  fill_all_stopped (passes, n);
  run_passes (passes, n, is_any, TL_STAGE_POST, 0);
}

void
tl_passes_whole (TlPass **passes, guint n)
{
  run_passes (passes, n, is_any, TL_STAGE_PRE | TL_STAGE_BODY | TL_STAGE_POST, G_MAXUINT);
  fill_all_stopped (passes, n);
}

gboolean
tl_pass_end (TlPass *pass, GError **error)
{
  if (has_failed (pass, error))
    return FALSE;
  commit (pass);
  if (pass->replaces)
    tl_kv_sequence_replace (pass->replaces, g_ptr_array_index (pass->sequences, 0));
  return TRUE;
}

gboolean
tl_pass_finish (TlPass *pass, GCancellable *cancellable, GError **error)
{
  use_cancellable (pass, cancellable);
  tl_passes_post (&pass, 1);
  return tl_pass_end (pass, error);
}

gboolean
tl_pass_lens (TlPass *pass, float *out, guint n, guint skip, GError **error)
{
  gsize vocab = pass->backend->program->vocab_size;
  place_states (pass);
  run_passes (&pass, 1, is_any, TL_STAGE_PRE, 0);
  for (guint loop = 0; loop < pass->rows[0].stop; loop++)
    {
      for (guint r = skip; r < pass->n; r++)
        pass->states_of[r].logits = out + ((gsize) loop * n + r - skip) * vocab;
      tl_passes_loops (&pass, 1, 1);
      run_passes (&pass, 1, is_any, TL_STAGE_POST, 0);
    }
  return tl_pass_end (pass, error);
}

/* an unfinished pass: pages beyond the length go, resumed rows get their copies back */
static void
undo (TlPass *pass)
{
  for (guint i = 0; pass->tables && i < pass->n; i++)
    if (pass->old_depth[i] && pass->tables[pass->states_of[i].sequence])
      tl_kv_sequence_fill_deeper (pass->rows[i].sequence, pass->rows[i].position, pass->old_depth[i]);
  for (guint s = 0; s < pass->sequences->len; s++)
    {
      TlKvSequence *seq = g_ptr_array_index (pass->sequences, s);
      tl_kv_sequence_truncate (seq, tl_kv_sequence_length (seq));
    }
}

void
tl_pass_free (TlPass *pass)
{
  if (!pass)
    return;
  if (!pass->finished)
    undo (pass);
  tl_backend_states_free (pass->backend, pass->own_states);
  g_ptr_array_unref (pass->sequences);
  g_clear_pointer (&pass->replaces, tl_kv_sequence_unref);
  g_clear_object (&pass->cancellable);
  g_clear_error (&pass->failure);
  g_free (pass->tables);
  g_free (pass->rows);
  g_free (pass->states_of);
  g_free (pass->filled);
  g_free (pass->old_depth);
  g_free (pass);
}
