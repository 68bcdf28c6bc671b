/* tests/forward/goldens.c — logits, hidden states and greedy continuations against each family's reference code, kv fp32.
 *
 * Every folder of tests/goldens must pass; of the folders under $TINYLOOP_SHARED/goldens those whose axes are not
 * implemented are skipped by name. Messages that begin with | are the rows of the table in docs/agreement.md.
 */
#include "golden.h"

#define TOLERANCE 2e-4f

typedef struct { float logits, hidden; guint cases, states, tokens; } Figures;

static guint
argmax (const float *x, guint n)
{
  guint best = 0;
  for (guint i = 1; i < n; i++)
    if (x[i] > x[best])
      best = i;
  return best;
}

/* what makes a case one that plain fixed-depth runs cannot show */
static gboolean
case_is_special (JsonObject *c)
{
  static const char *const keys[] = { "exit", "dt", "mask", "skip_loop_final_norm" };
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (json_object_has_member (c, keys[i]))
      return TRUE;
  return json_object_has_member (c, "init") && g_str_equal (json_object_get_string_member (c, "init"), "mode");
}

static TlPassOptions
options_of_case (Golden *g, JsonObject *c)
{
  TlPassOptions o = { .loops = json_object_get_int_member (c, "loops"), .zero_state = TRUE };
  gsize n = 0;
  if (json_object_has_member (c, "init") && g_str_equal (json_object_get_string_member (c, "init"), "given"))
    {
      o.initial_state = golden_tensor (g, "init_state", &n);
      o.n_initial = n / g->program->d_model;
    }
  if (g->program->descriptor->loops_max <= 1)
    o.loops = 1;
  return o;
}

/* embedding and every loop of the short prompt, where the golden has them */
static void
check_hidden (Golden *g, const float *trace, guint n, guint loops, const char *key, Figures *figures)
{
  guint d = g->program->d_model, length = tl_program_trace_length (g->program, loops);
  const char *dot = strrchr (key, '.');
  g_autofree char *mode = dot ? g_strndup (key, dot + 1 - key) : g_strdup ("");
  for (guint loop = 0; loop <= loops; loop++)
    {
      g_autofree char *name = loop ? g_strdup_printf ("short.%shidden.loop%u", mode, loop) : g_strdup ("short.hidden.embed");
      gsize count;
      const float *want = golden_tensor (g, name, &count);
      if (!want)
        continue;
      g_assert_cmpuint (count, ==, n * d);
      guint entry = loop ? length - loops + loop - 1 : 0;
      for (guint t = 0; t < n; t++)
        figures->hidden = MAX (figures->hidden,
            golden_max_diff (trace + ((gsize) t * length + entry) * d, want + t * d, d));
      figures->states++;
    }
  g_assert_cmpfloat (figures->hidden, <=, TOLERANCE);
}

static void
check_greedy (Golden *g, TlKvSequence *seq, TlPassOptions o, const float *last, const char *prompt, const char *key, Figures *figures)
{
  guint vocab = g->program->vocab_size, n;
  JsonObject *greedy = json_object_get_object_member (json_object_get_object_member (g->expected, "greedy"), prompt);
  g_autofree guint32 *want = golden_ids (json_object_get_array_member (greedy, key), &n);
  g_autofree float *logits = g_memdup2 (last, vocab * sizeof (float));
  g_autoptr (GError) error = NULL;
  o.deliver = TL_DELIVER_LAST;
  o.logits = logits;
  for (guint i = 0; i < n; i++)
    {
      guint32 id = argmax (logits, vocab);
      g_assert_cmpuint (id, ==, want[i]);
      figures->tokens++;
      gboolean ok = tl_pass_run (g->backend, seq, &id, 1, &o, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (ok);
    }
}

static void
check_case (Golden *g, TlKvStore *store, const char *prompt, JsonObject *c, Figures *figures)
{
  const char *key = json_object_get_string_member (c, "key");
  g_autofree char *name = g_strdup_printf ("%s.%s.logits", prompt, key);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, TL_KV_FP32, 0);
  g_autoptr (GError) error = NULL;
  guint n, vocab = g->program->vocab_size;
  gsize count = 0;
  g_autofree guint32 *ids = golden_prompt (g, prompt, &n);
  const float *want = golden_tensor (g, name, &count);
  g_assert_cmpuint (count, ==, (gsize) n * vocab);
  g_autofree float *logits = g_new0 (float, count);
  TlPassOptions o = options_of_case (g, c);
  o.deliver = TL_DELIVER_ALL;
  o.logits = logits;
  o.chunk = 7;
  g_autofree float *trace = g_new0 (float, (gsize) n * tl_program_trace_length (g->program, o.loops) * g->program->d_model);
  o.trace = trace;
  gboolean ok = tl_pass_run (g->backend, seq, ids, n, &o, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  float worst = golden_max_diff (logits, want, count);
  g_test_message ("%s: %s max |dlogit| = %.2e", g->folder, name, worst);
  g_assert_cmpfloat (worst, <=, TOLERANCE);
  figures->logits = MAX (figures->logits, worst);
  o.trace = NULL;
  if (g_str_equal (prompt, "short"))
    check_hidden (g, trace, n, o.loops, key, figures);
  check_greedy (g, seq, o, logits + (gsize) (n - 1) * vocab, prompt, key, figures);
}

static void
logits_and_greedy_equal_the_reference (gconstpointer data)
{
  const GoldenFolder *f = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (Golden) g = golden_open (f->folder, 1, TRUE, &error);
  if (!g && !f->required)
    {
      g_test_skip (error->message);
      return;
    }
  g_assert_no_error (error);
  g_autoptr (TlKvStore) store = tl_kv_store_new (g->backend, 0);
  JsonArray *cases = json_object_get_array_member (g->expected, "cases");
  Figures figures = { 0 };
  for (guint i = 0; i < json_array_get_length (cases); i++)
    {
      JsonObject *c = json_array_get_object_element (cases, i);
      if (case_is_special (c))
        continue;
      check_case (g, store, "short", c, &figures);
      check_case (g, store, "long", c, &figures);
      figures.cases++;
    }
  g_assert_cmpuint (figures.cases, >, 0);
  g_assert_cmpuint (tl_kv_store_used_bytes (store), ==, 0);
  g_autofree char *name = g_path_get_basename (f->folder);
  g_autofree char *hidden = figures.states ? g_strdup_printf ("%.1e (%u)", figures.hidden, figures.states) : g_strdup ("–");
  g_test_message ("| %s | %u | %.1e | %s | %u of %u |", name, figures.cases, figures.logits, hidden, figures.tokens,
    figures.tokens);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  golden_add_tests ("/forward/goldens", logits_and_greedy_equal_the_reference);
  return g_test_run ();
}
