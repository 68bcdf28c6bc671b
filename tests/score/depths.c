/* tests/score/depths.c — scores by depth: the lens is a score with fewer loops, bit for bit, and the trajectory is the
 * reference's hidden states.
 *
 * Every folder of tests/goldens must pass; of those under $TINYLOOP_SHARED/goldens the implemented ones. Between them they
 * have pre blocks, injection, loop-end norms and codas.
 */
#include "golden.h"
#include "score/tl-score.h"

#define TOLERANCE 2e-4f
#define LOOPS 4

/* how a score is asked for */
typedef struct { TlKvMode mode; guint window, chunk; gboolean uncached; } Way;

static TlPassOptions
options_of_mode (Golden *g, const char *mode, guint loops)
{
  gsize n = 0;
  TlPassOptions o = { .loops = MIN (loops, g->program->descriptor->loops_max), .zero_state = TRUE };
  if (g_str_equal (mode, "given.")) {
    o.initial_state = golden_tensor (g, "init_state", &n);
    o.n_initial = n / g->program->d_model;
  }
  return o;
}

/* the first tensor of a score of the prompt in a new sequence */
static TlTensor *
score_on (TlBackend *backend, Golden *g, TlScoreFunc func, const char *prompt, TlPassOptions o, Way way)
{
  g_autoptr (TlKvStore) store = tl_kv_store_new (backend, 0);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, way.mode, way.window);
  g_autoptr (GError) error = NULL;
  guint n;
  g_autofree guint32 *ids = golden_prompt (g, prompt, &n);
  o.chunk = way.chunk;
  o.uncached = way.uncached;
  g_autoptr (TlScores) scores = func (backend, seq, ids, n, &o, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (scores);
  g_assert_cmpuint (tl_kv_sequence_length (seq), ==, n);
  return tl_scores_get_tensor (scores, 0);
}

static TlTensor *
score (Golden *g, TlScoreFunc func, const char *prompt, TlPassOptions o, Way way)
{
  return score_on (g->backend, g, func, prompt, o, way);
}

static void
assert_same_bits (TlTensor *a, TlTensor *b)
{
  g_assert_cmpmem (tl_tensor_get_data (a), tl_tensor_get_n_bytes (a), tl_tensor_get_data (b), tl_tensor_get_n_bytes (b));
}

static const Way ways[] = {
  { TL_KV_FP32, 0, 0 }, { TL_KV_FP32, 0, 9, TRUE }, { TL_KV_FP16, 0, 5 }, { TL_KV_FP16, 3, 0 }, { TL_KV_FP16, 3, 2 },
};

static void
check_lens (Golden *g, const char *mode)
{
  TlPassOptions o = options_of_mode (g, mode, LOOPS);
  for (guint w = 0; w < G_N_ELEMENTS (ways); w++) {
    g_autoptr (TlTensor) lens = score (g, tl_score_logit_lens, "long", o, ways[w]);
    g_assert_cmpuint (tl_tensor_get_dim (lens, 0), ==, o.loops);
    gsize size = tl_tensor_get_n_bytes (lens) / o.loops;
    for (guint l = 0; l < o.loops; l++) {
      TlPassOptions shallow = o;
      shallow.loops = l + 1;
      g_autoptr (TlTensor) want = score (g, tl_score_logits, "long", shallow, ways[w]);
      g_assert_cmpmem ((guint8 *) tl_tensor_get_data (lens) + l * size, size, tl_tensor_get_data (want),
          tl_tensor_get_n_bytes (want));
    }
  }
}

/* the device that computes from the definition, without a cache, has the same lens */
static void
check_reference (Golden *g, const char *mode)
{
  const Way exact = { TL_KV_FP32 };
  TlPassOptions o = options_of_mode (g, mode, LOOPS);
  TlBackendOptions options = { .exact_activations = TRUE };
  g_autoptr (GError) error = NULL;
  g_autoptr (TlBackend) reference = tl_backend_prepare (tl_backend_reference_class (), g->program, &options, &error);
  g_assert_no_error (error);
  g_autoptr (TlTensor) want = score_on (reference, g, tl_score_logit_lens, "short", o, exact);
  g_autoptr (TlTensor) lens = score (g, tl_score_logit_lens, "short", o, exact);
  g_assert_cmpuint (tl_tensor_get_n_bytes (lens), ==, tl_tensor_get_n_bytes (want));
  g_assert_cmpfloat (golden_max_diff (tl_tensor_get_data (lens), tl_tensor_get_data (want),
      tl_tensor_get_n_bytes (lens) / sizeof (float)), <=, TOLERANCE);
}

static void
check_measures (Golden *g, const char *mode)
{
  TlPassOptions o = options_of_mode (g, mode, LOOPS);
  const TlScoreFunc measures[] = { tl_score_with_uncertainty, tl_score_with_consistency };
  for (guint m = 0; m < G_N_ELEMENTS (measures); m++)
    for (guint w = 0; w < G_N_ELEMENTS (ways); w++) {
      g_autoptr (TlTensor) logits = score (g, measures[m], "long", o, ways[w]);
      g_autoptr (TlTensor) want = score (g, tl_score_logits, "long", o, ways[w]);
      assert_same_bits (logits, want);
    }
}

/* how many of the reference's states there were */
static guint
check_trajectory (Golden *g, const char *mode)
{
  TlPassOptions o = options_of_mode (g, mode, 8);
  const Way whole = { TL_KV_FP32 }, pieces = { TL_KV_FP32, 0, 3 };
  g_autoptr (TlTensor) trajectory = score (g, tl_score_trajectory, "short", o, whole);
  g_autoptr (TlTensor) chunked = score (g, tl_score_trajectory, "short", o, pieces);
  assert_same_bits (trajectory, chunked);

  guint first_loop = tl_tensor_get_dim (trajectory, 0) - o.loops, found = 0;
  gsize size = tl_tensor_get_dim (trajectory, 1) * tl_tensor_get_dim (trajectory, 2), n = 0;
  for (guint l = 0; l <= o.loops; l++) {
    g_autofree char *name = l ? g_strdup_printf ("short.%shidden.loop%u", mode, l) : g_strdup ("short.hidden.embed");
    const float *want = golden_tensor (g, name, &n);
    if (!want)
      continue;
    g_assert_cmpuint (n, ==, size);
    const float *got = (const float *) tl_tensor_get_data (trajectory) + (l ? first_loop + l - 1 : 0) * size;
    float worst = golden_max_diff (got, want, n);
    g_test_message ("%s: %s max |dh| = %.2e", g->folder, name, worst);
    g_assert_cmpfloat (worst, <=, TOLERANCE);
    found++;
  }
  return found;
}

static void
depths_of_a_family (gconstpointer data)
{
  static const char *const modes[] = { "", "zero.", "given." };
  const GoldenFolder *f = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (Golden) g = golden_open (f->folder, 1, TRUE, &error);
  if (!g && !f->required) {
    g_test_skip (error->message);
    return;
  }
  g_assert_no_error (error);
  guint found = 0;
  for (guint m = 0; m < G_N_ELEMENTS (modes); m++) {
    if (g->program->has_initial_state != (modes[m][0] != '\0'))
      continue;
    check_lens (g, modes[m]);
    check_reference (g, modes[m]);
    check_measures (g, modes[m]);
    found += check_trajectory (g, modes[m]);
  }
  g_test_message ("%s: %u hidden states of the reference", f->folder, found);
  g_assert_true (found > 0 || f->required);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  golden_add_tests ("/score/depths", depths_of_a_family);
  return g_test_run ();
}
