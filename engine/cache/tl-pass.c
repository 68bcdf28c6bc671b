/* cache/tl-pass.c — the driver: rows in, pages made writable, stages run, sequences committed. See tl-pass.h. */
#include "cache/tl-pass.h"

#include <string.h>

struct _TlPass
{
  TlBackend *backend;
  TlPassRow *rows;
  TlRow *states_of;             /* the backend's view of the same rows */
  gboolean *filled;             /* deeper planes hold copies */
  guint *old_depth;             /* of resumed rows, to put back when the pass is dropped */
  guint n;
  TlStates *states, *own_states;
  GPtrArray *sequences;         /* TlKvSequence, one reference each */
  TlPageTable **tables;
  gboolean finished;
};

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

static gboolean
check_rows (TlBackend *backend, const TlPassRow *rows, guint n, gboolean has_states, GError **error)
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

/* runs stages over those rows for which `chosen` holds; keeps their depths */
static gboolean
run_rows (TlPass *pass, const guint *chosen, guint n, TlStages stages, guint loops, GCancellable *cancellable,
  GError **error)
{
  g_autofree TlRow *rows = g_new (TlRow, n);
  TlBatch batch = { rows, n, pass->tables, pass->sequences->len };
  for (guint i = 0; i < n; i++)
    rows[i] = pass->states_of[chosen[i]];
  if (!tl_backend_run (pass->backend, &batch, stages, loops, cancellable, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    pass->states_of[chosen[i]].depth = rows[i].depth;
  return TRUE;
}

static void
make_rows (TlPass *pass)
{
  for (guint i = 0; i < pass->n; i++)
    {
      TlPassRow *r = &pass->rows[i];
      if (pass->own_states)
        r->slot = i;
      pass->states_of[i] = (TlRow) {
        .token = r->token, .position = r->position, .sequence = index_of_sequence (pass, r->sequence),
        .first_visible = first_visible (pass->backend, r->sequence, r->position),
        .depth = r->depth, .stop = r->stop, .states = pass->states, .slot = r->slot, .initial_state = r->initial_state,
        .logits = r->logits, .hidden = r->hidden, .trace = r->trace,
      };
      if (r->position < tl_kv_sequence_length (r->sequence))
        pass->old_depth[i] = tl_kv_sequence_depth (r->sequence, r->position);
    }
}

static gboolean
check_batches (TlBackend *backend, GError **error)
{
  if (backend->klass->run)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
    "tinyloop: device '%s' computes logits of whole sequences only; use device 'cpu' for this", backend->klass->name);
  return FALSE;
}

/* rows checked, pages reserved; nothing run yet */
static TlPass *
pass_new (TlBackend *backend, const TlPassRow *rows, guint n_rows, TlStates *states, GError **error)
{
  if (!check_rows (backend, rows, n_rows, states != NULL, error) || !check_batches (backend, error))
    return NULL;
  g_autoptr (TlPass) pass = g_new0 (TlPass, 1);
  pass->backend = backend;
  pass->n = n_rows;
  pass->rows = g_memdup2 (rows, n_rows * sizeof *rows);
  pass->states_of = g_new0 (TlRow, n_rows);
  pass->filled = g_new0 (gboolean, n_rows);
  pass->old_depth = g_new0 (guint, n_rows);
  pass->sequences = g_ptr_array_new_with_free_func ((GDestroyNotify) tl_kv_sequence_unref);
  if (!states && !(pass->own_states = tl_backend_states_new (backend, n_rows, error)))
    return NULL;
  pass->states = states ? states : pass->own_states;
  make_rows (pass);
  pass->tables = g_new0 (TlPageTable *, pass->sequences->len);
  return reserve_all (pass, error) ? g_steal_pointer (&pass) : NULL;
}

TlPass *
tl_pass_begin (TlBackend *backend, const TlPassRow *rows, guint n_rows, TlStates *states,
  GCancellable *cancellable, GError **error)
{
  g_autoptr (TlPass) pass = pass_new (backend, rows, n_rows, states, error);
  if (!pass)
    return NULL;
  g_autofree guint *fresh = g_new (guint, n_rows);
  guint n_fresh = 0;
  for (guint i = 0; i < n_rows; i++)
    if (rows[i].depth == 0)
      fresh[n_fresh++] = i;
  if (n_fresh && !run_rows (pass, fresh, n_fresh, TL_STAGE_PRE, 0, cancellable, error))
    return NULL;
  return g_steal_pointer (&pass);
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

gboolean
tl_pass_loops (TlPass *pass, guint n, GCancellable *cancellable, GError **error)
{
  g_autofree guint *going = g_new (guint, pass->n);
  gboolean singly = stops_differ (pass);
  while (n > 0)
    {
      guint n_going = 0, step = singly ? 1 : n;
      fill_stopped (pass);
      for (guint i = 0; i < pass->n; i++)
        if (pass->states_of[i].depth < pass->states_of[i].stop)
          going[n_going++] = i;
      if (n_going == 0)
        break;
      if (!run_rows (pass, going, n_going, TL_STAGE_BODY, step, cancellable, error))
        return FALSE;
      n -= step;
    }
  fill_stopped (pass);
  return TRUE;
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
  tl_backend_state_read (pass->backend, pass->states, pass->states_of[row].slot, part, out);
}

void
tl_pass_write_state (TlPass *pass, guint row, TlStatePart part, const float *in)
{
  g_return_if_fail (row < pass->n);
  tl_backend_state_write (pass->backend, pass->states, pass->states_of[row].slot, part, in);
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
  if (!run_rows (pass, &row, 1, TL_STAGE_FILL, 0, cancellable, error))
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
  gboolean ok = run_rows (pass, &row, 1, TL_STAGE_POST, 0, cancellable, error);
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

static gboolean
run_all (TlPass *pass, TlStages stages, GCancellable *cancellable, GError **error)
{
  g_autofree guint *all = g_new (guint, pass->n);
  for (guint i = 0; i < pass->n; i++)
    all[i] = i;
  return run_rows (pass, all, pass->n, stages, G_MAXUINT, cancellable, error);
}

gboolean
tl_pass_finish (TlPass *pass, GCancellable *cancellable, GError **error)
{
  for (guint i = 0; i < pass->n; i++)
    pass->states_of[i].stop = pass->states_of[i].depth;
  fill_stopped (pass);
  if (!run_all (pass, TL_STAGE_POST, cancellable, error))
    return FALSE;
  commit (pass);
  return TRUE;
}

/* new rows that all stop at one depth: the whole token in one entry of the backend */
static gboolean
run_whole (TlPass *pass, GCancellable *cancellable, GError **error)
{
  if (!run_all (pass, TL_STAGE_PRE | TL_STAGE_BODY | TL_STAGE_POST, cancellable, error))
    return FALSE;
  fill_stopped (pass);
  commit (pass);
  return TRUE;
}

gboolean
tl_pass_rows (TlBackend *backend, const TlPassRow *rows, guint n_rows, TlStates *states, GCancellable *cancellable,
  GError **error)
{
  g_autoptr (TlPass) pass = pass_new (backend, rows, n_rows, states, error);
  return pass && run_whole (pass, cancellable, error);
}

/* logits of rows [skip, …) after every loop, row r to out + (loop * n + r - skip) * vocab_size; new rows of one stop */
static gboolean
run_lens (TlPass *pass, float *out, guint n, guint skip, GCancellable *cancellable, GError **error)
{
  gsize vocab = pass->backend->program->vocab_size;
  if (!run_all (pass, TL_STAGE_PRE, cancellable, error))
    return FALSE;
  for (guint loop = 0; loop < pass->rows[0].stop; loop++)
    {
      for (guint r = skip; r < pass->n; r++)
        pass->states_of[r].logits = out + ((gsize) loop * n + r - skip) * vocab;
      if (!tl_pass_loops (pass, 1, cancellable, error) || !run_all (pass, TL_STAGE_POST, cancellable, error))
        return FALSE;
    }
  commit (pass);
  return TRUE;
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
  g_free (pass->tables);
  g_free (pass->rows);
  g_free (pass->states_of);
  g_free (pass->filled);
  g_free (pass->old_depth);
  g_free (pass);
}

/* --- one sequence --- */

gboolean
tl_pass_initial_state (TlProgram *program, const TlPassOptions *options, guint position, float *out)
{
  if (!program->has_initial_state)
    return FALSE;
  if (options->initial_state && position < options->n_initial)
    memcpy (out, options->initial_state + (gsize) position * program->d_model, program->d_model * sizeof (float));
  else if (options->zero_state || options->initial_state)
    memset (out, 0, program->d_model * sizeof (float));
  else
    tl_program_initial_state (program, options->state_seed, position, out);
  return TRUE;
}

/* where output row i of n stands in what was asked for; NULL when it was not */
static float *
output_of (float *base, gsize width, TlDeliver deliver, guint i, guint n)
{
  if (!base || deliver == TL_DELIVER_NONE || (deliver == TL_DELIVER_LAST && i + 1 < n))
    return NULL;
  return deliver == TL_DELIVER_LAST ? base : base + i * width;
}

static gboolean
run_chunk (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint at, guint count, guint n, guint skip,
  const TlPassOptions *o, GCancellable *cancellable, GError **error)
{
  TlProgram *p = backend->program;
  guint loops = o->loops ? o->loops : MAX (p->descriptor->loops_default, 1);
  guint base = tl_kv_sequence_length (seq);
  g_autofree TlPassRow *rows = g_new0 (TlPassRow, count);
  g_autofree float *initial = g_new0 (float, p->has_initial_state ? (gsize) count * p->d_model : 1);
  for (guint j = 0; j < count; j++)
    {
      guint i = at + j;
      gboolean wanted = i >= skip;
      float *start = initial + (p->has_initial_state ? (gsize) j * p->d_model : 0);
      rows[j] = (TlPassRow) { .sequence = seq, .position = base + j, .token = tokens[i], .stop = loops };
      if (tl_pass_initial_state (p, o, base + j, start))
        rows[j].initial_state = start;
      if (!wanted)
        continue;
      rows[j].slot = o->keep_slot + i - skip;
      rows[j].logits = output_of (o->logits, p->vocab_size, o->deliver, i - skip, n - skip);
      rows[j].hidden = output_of (o->hidden, p->d_model, o->deliver, i - skip, n - skip);
      if (o->trace)
        rows[j].trace = o->trace + (gsize) (i - skip) * tl_program_trace_length (p, loops) * p->d_model;
    }
  g_autoptr (TlPass) pass = pass_new (backend, rows, count, skip ? NULL : o->keep_states, error);
  if (!pass || !o->lens)
    return pass && run_whole (pass, cancellable, error);
  guint known = at < skip ? skip - at : 0;      /* rows of this chunk that nobody wants */
  float *out = o->lens + (gsize) (at + known - skip) * p->vocab_size;
  return run_lens (pass, out, n - skip, known, cancellable, error);
}

/* everything again from the first token, in one batch; the sequence then holds what was computed */
static gboolean
run_uncached (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, const TlPassOptions *o,
  GCancellable *cancellable, GError **error)
{
  guint old = tl_kv_sequence_length (seq);
  g_autofree guint32 *all = g_new (guint32, old + n);
  if (old)
    memcpy (all, tl_kv_sequence_tokens (seq), old * sizeof (guint32));
  memcpy (all + old, tokens, n * sizeof (guint32));
  g_autoptr (TlKvSequence) fresh = tl_kv_sequence_new (tl_kv_sequence_store (seq), tl_kv_sequence_mode (seq),
    tl_kv_sequence_window (seq));
  if (!run_chunk (backend, fresh, all, 0, old + n, old + n, old, o, cancellable, error))
    return FALSE;
  tl_kv_sequence_replace (seq, fresh);
  return TRUE;
}

/* the last n positions' logits after every loop: as many runs, no position deeper than the loop that is asked for */
static gboolean
run_sequence_lens (TlBackend *backend, TlSequenceRun run, guint n, guint loops, float *lens, GCancellable *cancellable,
  GError **error)
{
  gsize vocab = backend->program->vocab_size, count = (gsize) n * vocab;
  g_autofree guint *depths = g_new (guint, run.n);
  g_autofree float *logits = g_new (float, run.n * vocab);
  const guint *full = run.depths;
  run.depths = depths;
  for (guint loop = 0; loop < loops; loop++)
    {
      for (guint i = 0; i < run.n; i++)
        depths[i] = MIN (full[i], loop + 1);
      if (!backend->klass->run_sequence (backend, &run, logits, cancellable, error))
        return FALSE;
      memcpy (lens + loop * count, logits + (run.n - n) * vocab, count * sizeof (float));
    }
  return TRUE;
}

/* On a device without a cache: the sequence holds tokens and depths, no pages. */
static gboolean
run_sequence (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, const TlPassOptions *o,
  GCancellable *cancellable, GError **error)
{
  TlProgram *p = backend->program;
  guint loops = o->loops ? o->loops : MAX (p->descriptor->loops_default, 1), old = tl_kv_sequence_length (seq);
  guint total = old + n;
  if ((o->hidden || o->trace || o->keep_states) && !check_batches (backend, error))
    return FALSE;
  g_autofree TlPassRow *rows = g_new0 (TlPassRow, n);
  g_autofree guint32 *all = g_new (guint32, total);
  g_autofree guint *depths = g_new (guint, total);
  g_autofree float *logits = g_new (float, (gsize) total * p->vocab_size);
  g_autofree float *initial = p->has_initial_state ? g_new (float, (gsize) total * p->d_model) : NULL;
  for (guint i = 0; i < total; i++)
    {
      all[i] = i < old ? tl_kv_sequence_tokens (seq)[i] : tokens[i - old];
      depths[i] = i < old ? tl_kv_sequence_depth (seq, i) : loops;
      if (i >= old)
        rows[i - old] = (TlPassRow) { .sequence = seq, .position = i, .token = all[i], .stop = loops };
      if (initial)
        tl_pass_initial_state (p, o, i, initial + (gsize) i * p->d_model);
    }
  TlSequenceRun run = { all, total, depths, tl_kv_sequence_window (seq), tl_kv_sequence_mode (seq), initial };
  if (!check_rows (backend, rows, n, FALSE, error)
      || (o->lens && !run_sequence_lens (backend, run, n, loops, o->lens, cancellable, error))
      || !backend->klass->run_sequence (backend, &run, logits, cancellable, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      float *out = output_of (o->logits, p->vocab_size, o->deliver, i, n);
      if (out)
        memcpy (out, logits + (gsize) (old + i) * p->vocab_size, p->vocab_size * sizeof (float));
      tl_kv_sequence_commit (seq, old + i, tokens[i], loops);
    }
  return TRUE;
}

gboolean
tl_pass_lens_is_whole (TlBackend *backend)
{
  return backend->klass->run_sequence || tl_pass_cache_is_disabled ()
      || tl_program_n_planes (backend->program, TL_PLANES_CODA) > 0;
}

gboolean
tl_pass_cache_is_disabled (void)
{
  const char *value = g_getenv ("TINYLOOP_DISABLE_KV_CACHE");
  return value && strcmp (value, "1") == 0;
}

gboolean
tl_pass_run (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, const TlPassOptions *options,
  GCancellable *cancellable, GError **error)
{
  guint chunk = options->chunk ? options->chunk : 128, old = tl_kv_sequence_length (seq);
  if (n == 0)
    return check_rows (backend, NULL, 0, FALSE, error);
  if (backend->klass->run_sequence)
    return run_sequence (backend, seq, tokens, n, options, cancellable, error);
  if (options->uncached || tl_pass_cache_is_disabled ())
    return run_uncached (backend, seq, tokens, n, options, cancellable, error);
  if (options->lens && tl_pass_lens_is_whole (backend))
    {
      g_return_val_if_fail (old == 0, FALSE);
      chunk = n;
    }
  for (guint at = 0; at < n; at += chunk)
    if (!run_chunk (backend, seq, tokens, at, MIN (chunk, n - at), n, 0, options, cancellable, error))
      {
        tl_kv_sequence_truncate (seq, old);
        return FALSE;
      }
  return TRUE;
}

/* rows that follow one another in a sequence, of one stop, with nothing to deliver before the last */
static guint
rows_alike (const TlPassRow *rows, guint n)
{
  guint i = 0;
  while (i + 1 < n && !rows[i].logits && !rows[i].hidden && rows[i + 1].sequence == rows[0].sequence
      && rows[i + 1].stop == rows[0].stop)
    i++;
  return i + 1;
}

gboolean
tl_pass_recompute (TlBackend *backend, const TlPassRow *rows, guint n_rows, const TlPassOptions *start,
  GCancellable *cancellable, GError **error)
{
  g_autofree guint32 *tokens = g_new (guint32, n_rows + 1);
  for (guint i = 0, n; i < n_rows; i += n)
    {
      TlPassOptions options = start ? *start : (TlPassOptions) { 0 };
      n = rows_alike (rows + i, n_rows - i);
      for (guint j = 0; j < n; j++)
        tokens[j] = rows[i + j].token;
      options.loops = rows[i].stop;
      options.deliver = TL_DELIVER_LAST;
      options.logits = rows[i + n - 1].logits;
      options.hidden = rows[i + n - 1].hidden;
      tl_kv_sequence_truncate (rows[i].sequence, rows[i].position);
      if (!tl_pass_run (backend, rows[i].sequence, tokens, n, &options, cancellable, error))
        return FALSE;
    }
  return n_rows > 0 || check_rows (backend, NULL, 0, FALSE, error);
}
