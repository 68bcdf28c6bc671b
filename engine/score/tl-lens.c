/* engine/score/tl-lens.c — what the logits would be after every loop, and two measures of how they settle.
 *
 * The measures look at one chunk's lens at a time, so that no more than a chunk is held at every depth where the model
 * allows it (tl_pass_lens_is_whole()).
 */
#include <string.h>

#include "score/tl-score.h"
#include "tl-distribution.h"

TlScores *
tl_score_logit_lens (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlPassOptions *options,
    GCancellable *cancellable, GError **error)
{
  gsize dims[] = { options->loops, n, backend->program->vocab_size };
  g_autoptr (TlScores) out = tl_scores_new ();
  TlTensor *lens = tl_scores_add (out, "logit-lens", tl_tensor_new (3, dims, error));
  if (!lens)
    return NULL;
  options->deliver = TL_DELIVER_NONE;
  options->lens = tl_tensor_get_data (lens);
  if (!tl_pass_run (backend, seq, tokens, n, options, cancellable, error))
    return NULL;
  return g_steal_pointer (&out);
}

/* --- measures --- */

typedef struct { guint loops, n_rows; gsize vocab; } Shape;     /* of everything that is asked */

/* looks at rows [at, at + count); lens: [loops][count][vocab] */
typedef void (*Measure) (const Shape *shape, const float *lens, guint at, guint count, gpointer data);

/* lens by lens of a chunk through `measure`, and the last loop's logits of all rows to `logits` */
static gboolean
measure_chunks (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, const Shape *shape, TlPassOptions *options,
    float *logits, Measure measure, gpointer data, GCancellable *cancellable, GError **error)
{
  guint n = shape->n_rows, chunk = options->chunk ? options->chunk : 128;
  chunk = tl_pass_lens_is_whole (backend) ? n : MIN (chunk, n);
  gsize dims[] = { shape->loops, chunk, shape->vocab };
  g_autoptr (TlTensor) lens = tl_tensor_new (3, dims, error);
  if (!lens)
    return FALSE;

  options->deliver = TL_DELIVER_NONE;
  options->lens = tl_tensor_get_data (lens);
  for (guint at = 0, count; at < n; at += count) {
    count = MIN (chunk, n - at);
    if (!tl_pass_run (backend, seq, tokens + at, count, options, cancellable, error))
      return FALSE;
    measure (shape, options->lens, at, count, data);
    memcpy (logits + at * shape->vocab, options->lens + (gsize) (shape->loops - 1) * count * shape->vocab,
        count * shape->vocab * sizeof (float));
  }
  return TRUE;
}

/* the scores every measure starts with: "logits" [T, V] */
static TlScores *
scores_with_logits (const Shape *shape, float **logits, GError **error)
{
  gsize dims[] = { shape->n_rows, shape->vocab };
  g_autoptr (TlScores) out = tl_scores_new ();
  TlTensor *tensor = tl_scores_add (out, "logits", tl_tensor_new (2, dims, error));
  if (!tensor)
    return NULL;
  *logits = tl_tensor_get_data (tensor);
  return g_steal_pointer (&out);
}

/* --- uncertainty --- */

typedef struct { float *kl, *uncertainty; } Uncertainty;

static void
measure_uncertainty (const Shape *shape, const float *lens, guint at, guint count, gpointer data)
{
  Uncertainty *out = data;
  guint pairs = shape->loops - 1;
  for (guint row = 0; row < count; row++) {
    float *kl = out->kl + (gsize) (at + row) * pairs;
    double sum = 0;
    for (guint l = 0; l < pairs; l++) {
      const float *shallow = lens + ((gsize) l * count + row) * shape->vocab;
      kl[l] = (float) tl_divergence (shallow + count * shape->vocab, shallow, shape->vocab);
      sum += kl[l];
    }
    out->uncertainty[at + row] = pairs ? (float) (sum / pairs) : 0;
  }
}

TlScores *
tl_score_with_uncertainty (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlPassOptions *options,
    GCancellable *cancellable, GError **error)
{
  Shape shape = { options->loops, n, backend->program->vocab_size };
  gsize pairs[] = { n, options->loops - 1 };
  float *logits = NULL;
  g_autoptr (TlScores) out = scores_with_logits (&shape, &logits, error);
  TlTensor *kl = out ? tl_scores_add (out, "kl", tl_tensor_new (2, pairs, error)) : NULL;
  TlTensor *mean = kl ? tl_scores_add (out, "uncertainty", tl_tensor_new (1, pairs, error)) : NULL;
  if (!mean)
    return NULL;
  Uncertainty data = { tl_tensor_get_data (kl), tl_tensor_get_data (mean) };
  return measure_chunks (backend, seq, tokens, &shape, options, logits, measure_uncertainty, &data, cancellable, error)
      ? g_steal_pointer (&out) : NULL;
}

/* --- consistency --- */

typedef struct { gint32 *argmax, *stable_from; guint8 *consistent; } Consistency;

static void
measure_consistency (const Shape *shape, const float *lens, guint at, guint count, gpointer data)
{
  Consistency *out = data;
  for (guint row = 0; row < count; row++) {
    gint32 *column = out->argmax + at + row;
    for (guint l = 0; l < shape->loops; l++)
      column[(gsize) l * shape->n_rows] = tl_argmax (lens + ((gsize) l * count + row) * shape->vocab, shape->vocab);
    gint32 final = column[(gsize) (shape->loops - 1) * shape->n_rows];
    guint from = shape->loops;
    while (from > 1 && column[(gsize) (from - 2) * shape->n_rows] == final)
      from--;
    out->stable_from[at + row] = from;
    out->consistent[at + row] = from == 1;
  }
}

TlScores *
tl_score_with_consistency (TlBackend *backend, TlKvSequence *seq, const guint32 *tokens, guint n, TlPassOptions *options,
    GCancellable *cancellable, GError **error)
{
  Shape shape = { options->loops, n, backend->program->vocab_size };
  gsize by_depth[] = { options->loops, n }, rows = n;
  float *logits = NULL;
  g_autoptr (TlScores) out = scores_with_logits (&shape, &logits, error);
  TlTensor *best = out ? tl_scores_add (out, "argmax", tl_tensor_new_typed (TL_TENSOR_INT32, 2, by_depth, error)) : NULL;
  TlTensor *from = best ? tl_scores_add (out, "stable_from", tl_tensor_new_typed (TL_TENSOR_INT32, 1, &rows, error)) : NULL;
  TlTensor *same = from ? tl_scores_add (out, "consistent", tl_tensor_new_typed (TL_TENSOR_BOOL, 1, &rows, error)) : NULL;
  if (!same)
    return NULL;
  Consistency data = { tl_tensor_get_data (best), tl_tensor_get_data (from), tl_tensor_get_data (same) };
  return measure_chunks (backend, seq, tokens, &shape, options, logits, measure_consistency, &data, cancellable, error)
      ? g_steal_pointer (&out) : NULL;
}
