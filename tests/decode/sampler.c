/* tests/decode/sampler.c — the processors against the reference's, and the draw against its definition.
 *
 * Expected difference: top-k keeps exactly k, lowest ids first, where the reference keeps every tie of the k-th value.
 */
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "decode/tl-sampler.h"

static const TlSamplerParams neutral = { .temperature = 1, .top_p = 1, .repetition_penalty = 1 };

/* --- goldens --- */

typedef struct { char *bytes; gsize size; const char *data; JsonParser *parser; } Tensors;

static const float *
tensor (const Tensors *t, const char *name, guint row, guint *width)
{
  JsonObject *o = json_object_get_object_member (json_node_get_object (json_parser_get_root (t->parser)), name);
  JsonArray *shape = json_object_get_array_member (o, "shape");
  *width = json_array_get_int_element (shape, json_array_get_length (shape) - 1);
  gint64 begin = json_array_get_int_element (json_object_get_array_member (o, "data_offsets"), 0);
  return (const float *) (gconstpointer) (t->data + begin) + (gsize) row * *width;
}

static int
descending (const void *a, const void *b)
{
  float x = *(const float *) a, y = *(const float *) b;
  return (x < y) - (x > y);
}

static guint
to_probabilities (const float *logits, guint n, float *out)
{
  double sum = 0, largest = -INFINITY;
  guint kept = 0;
  for (guint i = 0; i < n; i++)
    largest = MAX (largest, logits[i]);
  for (guint i = 0; i < n; i++)
    sum += exp (logits[i] - largest);
  for (guint i = 0; i < n; i++) {
    out[i] = exp (logits[i] - largest) / sum;
    kept += out[i] > 1e-30f; /* less may be flushed to zero */
  }
  return kept;
}

static TlSampler *
sampler_after (guint n, const TlSamplerParams *params, JsonArray *seen)
{
  TlSampler *sampler = tl_sampler_new (n, params);
  for (guint i = 0; i < json_array_get_length (seen); i++)
    tl_sampler_see (sampler, json_array_get_int_element (seen, i), FALSE);
  return sampler;
}

/* the k-th and the next value are equal: the reference keeps both */
static gboolean
k_cuts_a_tie (const float *in, guint n, TlSamplerParams params, JsonArray *seen)
{
  guint k = params.top_k;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  g_autoptr (TlSampler) sampler = sampler_after (n, &params, seen);
  g_autofree float *p = g_new (float, n);
  g_assert_true (tl_sampler_probabilities (sampler, in, NULL, p, NULL));
  qsort (p, n, sizeof (float), descending);
  return p[k - 1] == p[k];
}

static void
check_case (const Tensors *t, JsonObject *c, JsonObject *history)
{
  const char *vector = json_object_get_string_member (c, "vector");
  g_autofree char *in_name = g_strconcat ("in.", vector, NULL), *out_name = g_strconcat ("out.", vector, NULL);
  guint n, m, k = 0;
  const float *in = tensor (t, in_name, 0, &n);
  const float *expected_logits = tensor (t, out_name, json_object_get_int_member (c, "row"), &m);
  TlSamplerParams params = neutral;
  JsonArray *chain = json_object_get_array_member (c, "chain");
  for (guint i = 0; i < json_array_get_length (chain); i++) {
    JsonArray *step = json_array_get_array_element (chain, i);
    const char *name = json_array_get_string_element (step, 0);
    double value = json_array_get_double_element (step, 1);
    if (g_str_equal (name, "repetition_penalty")) params.repetition_penalty = value;
    else if (g_str_equal (name, "temperature")) params.temperature = value;
    else if (g_str_equal (name, "top_k")) params.top_k = k = value;
    else if (g_str_equal (name, "top_p")) params.top_p = value;
    else if (g_str_equal (name, "min_p")) params.min_p = value;
    else g_assert_not_reached ();
  }
  if (json_object_has_member (c, "cut_margin") && json_object_get_double_member (c, "cut_margin") < 1e-6)
    return;

  JsonArray *seen = json_object_get_array_member (history, vector);
  g_autoptr (TlSampler) sampler = sampler_after (n, &params, seen);
  g_autofree float *ours = g_new (float, n), *theirs = g_new (float, n);
  g_autoptr (GError) error = NULL;
  g_assert_true (tl_sampler_probabilities (sampler, in, NULL, ours, &error));
  guint n_theirs = to_probabilities (expected_logits, n, theirs), n_ours = 0;
  for (guint i = 0; i < n; i++) {
    n_ours += ours[i] > 1e-30f;
    g_assert_false (ours[i] > 0 && theirs[i] == 0 && k == 0 && params.top_p == 1);
  }
  if (k && k < n && k_cuts_a_tie (in, n, params, seen)) {
    g_assert_cmpuint (n_ours, <=, k);
    return;
  }
  qsort (ours, n, sizeof (float), descending);
  qsort (theirs, n, sizeof (float), descending);
  if (n_ours != n_theirs)
    g_test_message ("case %d: %u kept, reference %u", (int) json_object_get_int_member (c, "id"), n_ours, n_theirs);
  g_assert_cmpuint (n_ours, ==, n_theirs);
  for (guint i = 0; i < n; i++)
    g_assert_cmpfloat_with_epsilon (ours[i], theirs[i], 1e-5 * theirs[i] + 1e-9);
}

static void
test_matches_the_reference (void)
{
  g_autofree char *json = g_build_filename (g_getenv ("TINYLOOP_SHARED"), "goldens", "sampling", "expected.json", NULL);
  g_autofree char *file = g_build_filename (g_getenv ("TINYLOOP_SHARED"), "goldens", "sampling", "expected.safetensors", NULL);
  if (!g_file_test (json, G_FILE_TEST_EXISTS)) {
    g_test_skip ("no golden data");
    return;
  }
  Tensors t = { .parser = json_parser_new () };
  g_autoptr (JsonParser) cases = json_parser_new ();
  g_assert_true (json_parser_load_from_file (cases, json, NULL));
  g_assert_true (g_file_get_contents (file, &t.bytes, &t.size, NULL));
  guint64 header;
  memcpy (&header, t.bytes, 8);
  t.data = t.bytes + 8 + header;
  g_assert_true (json_parser_load_from_data (t.parser, t.bytes + 8, header, NULL));

  JsonObject *root = json_node_get_object (json_parser_get_root (cases));
  JsonArray *list = json_object_get_array_member (root, "cases");
  g_assert_cmpuint (json_array_get_length (list), >, 100);
  for (guint i = 0; i < json_array_get_length (list); i++)
    check_case (&t, json_array_get_object_element (list, i), json_object_get_object_member (root, "history"));
  g_free (t.bytes);
  g_object_unref (t.parser);
}

/* --- rules --- */

static guint32
draw (const float *logits, guint n, TlSamplerParams params, guint position)
{
  g_autoptr (TlSampler) sampler = tl_sampler_new (n, &params);
  guint32 id = G_MAXUINT32;
  g_autoptr (GError) error = NULL;
  g_assert_true (tl_sampler_draw (sampler, logits, NULL, 0, position, 0, &id, &error));
  return id;
}

static void
test_philox_known_answers (void)
{
  /* known-answer vectors published with the Random123 generators */
  guint32 out[4];
  tl_philox4x32 ((guint32[4]) { 0 }, (guint32[2]) { 0 }, out);
  g_assert_cmphex (out[0], ==, 0x6627e8d5);
  g_assert_cmphex (out[1], ==, 0xe169c58d);
  g_assert_cmphex (out[2], ==, 0xbc57ac4c);
  g_assert_cmphex (out[3], ==, 0x9b00dbd8);
  tl_philox4x32 ((guint32[4]) { ~0u, ~0u, ~0u, ~0u }, (guint32[2]) { ~0u, ~0u }, out);
  g_assert_cmphex (out[0], ==, 0x408f276d);
  g_assert_cmphex (out[3], ==, 0x6d5451fd);
}

static void
test_draws_follow_the_distribution (void)
{
  const float logits[4] = { 0, logf (2), logf (3), logf (4) };
  guint counts[4] = { 0 };
  for (guint position = 0; position < 20000; position++)
    counts[draw (logits, 4, neutral, position)]++;
  for (guint i = 0; i < 4; i++)
    g_assert_cmpfloat_with_epsilon (counts[i] / 20000.0, (i + 1) / 10.0, 0.012);
}

static void
test_ties_go_to_the_lowest_id (void)
{
  const float logits[5] = { 1, 3, 3, 3, 2 };
  TlSamplerParams greedy = neutral, k2 = neutral;
  greedy.temperature = 0.01f;
  k2.top_k = 2;
  g_assert_cmpuint (draw (logits, 5, greedy, 0), ==, 1);

  float p[5];
  g_autoptr (TlSampler) sampler = tl_sampler_new (5, &k2);
  g_assert_true (tl_sampler_probabilities (sampler, logits, NULL, p, NULL));
  g_assert_cmpfloat (p[1], ==, 0.5f);
  g_assert_cmpfloat (p[2], ==, 0.5f);
  g_assert_cmpfloat (p[3], ==, 0);
}

static void
test_penalties_count_what_they_should (void)
{
  const float logits[4] = { 2, -2, 2, 2 };
  TlSamplerParams params = neutral;
  float p[4];
  params.repetition_penalty = 2;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  g_autoptr (TlSampler) sampler = tl_sampler_new (4, &params);
  tl_sampler_see (sampler, 0, FALSE);
  tl_sampler_see (sampler, 1, FALSE);
  tl_sampler_see (sampler, 2, TRUE);
  tl_sampler_see (sampler, 2, TRUE);
  g_assert_true (tl_sampler_probabilities (sampler, logits, NULL, p, NULL));
  g_assert_cmpfloat_with_epsilon (log (p[0] / p[3]), 1 - 2, 1e-5);
  g_assert_cmpfloat_with_epsilon (log (p[1] / p[3]), -4 - 2, 1e-5);
  g_assert_cmpfloat_with_epsilon (log (p[2] / p[3]), 1 - 0.5 - 0.5 - 2, 1e-5);
}

static void
test_nan_names_step_and_row (void)
{
  const float logits[2] = { 0, NAN };
  g_autoptr (TlSampler) sampler = tl_sampler_new (2, &neutral);
  g_autoptr (GError) error = NULL;
  guint32 id;
  g_assert_false (tl_sampler_draw (sampler, logits, NULL, 0, 17, 3, &id, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_NUMERIC);
  g_assert_nonnull (strstr (error->message, "step 3"));
  g_assert_nonnull (strstr (error->message, "row 17"));
}

static void
test_a_mask_is_law (void)
{
  const float logits[3] = { 9, 1, 5 };
  guint32 mask = 2, none = 0, id;
  g_autoptr (TlSampler) sampler = tl_sampler_new (3, &neutral);
  g_autoptr (GError) error = NULL;
  g_assert_true (tl_sampler_draw (sampler, logits, &mask, 0, 0, 0, &id, NULL));
  g_assert_cmpuint (id, ==, 1);
  g_assert_false (tl_sampler_draw (sampler, logits, &none, 0, 0, 0, &id, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_DEAD_END);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sampler/matches-the-reference", test_matches_the_reference);
  g_test_add_func ("/sampler/philox-known-answers", test_philox_known_answers);
  g_test_add_func ("/sampler/draws-follow-the-distribution", test_draws_follow_the_distribution);
  g_test_add_func ("/sampler/ties-go-to-the-lowest-id", test_ties_go_to_the_lowest_id);
  g_test_add_func ("/sampler/penalties-count-what-they-should", test_penalties_count_what_they_should);
  g_test_add_func ("/sampler/nan-names-step-and-row", test_nan_names_step_and_row);
  g_test_add_func ("/sampler/a-mask-is-law", test_a_mask_is_law);
  return g_test_run ();
}
