/* cache/tl-pass-private.h — what the two files of passes share: a pass from inside, and its checks. */
#pragma once

#include "cache/tl-pass.h"

G_BEGIN_DECLS

struct _TlPass
{
  TlBackend *backend;
  TlPassRow *rows;
  TlRow *states_of;             /* the backend's view of the same rows */
  gboolean *filled;             /* deeper planes hold copies */
  guint *old_depth;             /* of resumed rows, to put back when the pass is dropped */
  guint n;
  TlStates *own_states;         /* of rows that were given none; made when a pass goes through in stages */
  GPtrArray *sequences;         /* TlKvSequence, one reference each */
  TlPageTable **tables;
  TlKvSequence *replaces;       /* its place the first sequence takes in the end; or NULL */
  GCancellable *cancellable;    /* or NULL */
  GError *failure;              /* drops out of all that follows */
  gboolean finished;
};

gboolean tl_pass_check_rows (TlBackend *backend, const TlPassRow *rows, guint n, gboolean has_states, GError **error);
/* UNSUPPORTED on devices that run whole sequences only */
gboolean tl_pass_check_batches (TlBackend *backend, GError **error);
/* logits of rows [skip, …) after every loop, row r to out + (loop * n + r - skip) * vocab_size; new rows of one stop */
gboolean tl_pass_lens (TlPass *pass, float *out, guint n, guint skip, GError **error);

G_END_DECLS
