/* cache/tl-pass-run.c — tokens of one sequence in, logits out: chunk by chunk, or everything again where there is no cache.
 *
 * Called by score, and by the scheduler where all is recomputed.
 */
#include <string.h>

#include "cache/tl-pass-private.h"

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
  g_autoptr (TlPass) pass = tl_pass_new (backend, rows, count, skip ? NULL : o->keep_states, cancellable, error);
  if (!pass)
    return FALSE;
  if (!o->lens)
    {
      tl_passes_whole (&pass, 1);
      return tl_pass_end (pass, error);
    }
  guint known = at < skip ? skip - at : 0;      /* rows of this chunk that nobody wants */
  float *out = o->lens + (gsize) (at + known - skip) * p->vocab_size;
  return tl_pass_lens (pass, out, n - skip, known, error);
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
  if ((o->hidden || o->trace || o->keep_states) && !tl_pass_check_batches (backend, error))
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
  if (!tl_pass_check_rows (backend, rows, n, FALSE, error)
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
    return tl_pass_check_rows (backend, NULL, 0, FALSE, error);
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
  return n_rows > 0 || tl_pass_check_rows (backend, NULL, 0, FALSE, error);
}
