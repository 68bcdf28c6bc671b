/* tl-kept-rows.h — the row states of a prompt, all of one depth: what is needed to go on deeper than the prompt went.
 *
 * Filled while a prompt runs (its chunks name slots), read when a handle or a sequence is resumed. Immutable once filled and
 * shared by reference; who resumes works on a copy. Their bytes count against the model's cache limit.
 */
#pragma once

#include "tl-model-private.h"

G_BEGIN_DECLS

struct _TlKeptRows
{
  gint ref_count;
  TlModelCore *core;
  TlScheduler *scheduler;
  TlKvStore *store;
  TlBackend *backend;
  TlStates *states;             /* slot i: position first + i; NULL where everything is computed again anyway */
  guint first, n, depth;
  gsize bytes;
};

/* for positions first … first + n - 1 of the run's sequence at `depth` loops; NO_MEMORY */
TlKeptRows *tl_kept_rows_new (TlModelRun *run, guint first, guint n, guint depth, GError **error);
TlKeptRows *tl_kept_rows_copy (TlKeptRows *rows, GError **error);
TlKeptRows *tl_kept_rows_ref (TlKeptRows *rows);
void tl_kept_rows_unref (TlKeptRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlKeptRows, tl_kept_rows_unref)

/* floats of a row: its state, and its injected input where the family has one */
guint tl_kept_rows_width (TlBackend *backend);
/* row i as [width] floats */
void tl_kept_rows_read (TlKeptRows *rows, guint i, float *out);
void tl_kept_rows_write (TlKeptRows *rows, guint i, const float *in);

G_END_DECLS
