/* tests/gst/scores.c — what tokens say about themselves: the statistics of tldecode, the scores of tlscore. */
#include "story.h"
#include "tl-plugin.h"
#include "tl-token-meta.h"

static const GstStructure *
structure_of (GstBuffer *buffer, const char *name)
{
  GstCustomMeta *meta = gst_buffer_get_custom_meta (buffer, name);

  fail_unless (meta != NULL, "no %s", name);
  return gst_custom_meta_get_structure (meta);
}

static double
number (const GstStructure *s, const char *field)
{
  double value = -1;

  fail_unless (gst_structure_get_double (s, field, &value), "no %s", field);
  return value;
}

/* entry `index` of a list field, as a number */
static double
entry (const GstStructure *s, const char *field, guint index)
{
  const GValue *list = gst_structure_get_value (s, field);

  fail_unless (list && GST_VALUE_HOLDS_ARRAY (list) && index < gst_value_array_get_size (list), "no entry %u of %s", index, field);
  const GValue *value = gst_value_array_get_value (list, index);
  return G_VALUE_HOLDS_INT (value) ? g_value_get_int (value) : g_value_get_double (value);
}

GST_START_TEST (test_tokens_say_how_likely_they_were_only_when_asked)
{
  for (guint top = 0; top <= 2; top++) {
    g_autofree char *launch = g_strdup_printf ("tltokenize model-path=m ! tldecode token-stats=%d top-logprobs=%u", top > 0, top);
    GstHarness *h = harness (launch);

    fake_engine_script (ABC);
    push_text (h, "x");
    for (guint i = 0; i < 3; i++) {
      GstBuffer *buffer = gst_harness_pull (h);
      const GstStructure *s = structure_of (buffer, TL_TOKEN_META);

      fail_unless_equals_int (gst_structure_has_field (s, "logprob"), top > 0);
      fail_unless_equals_int (gst_structure_has_field (s, "entropy"), top > 0);
      fail_unless_equals_int (gst_structure_has_field (s, "top-ids"), top > 0);
      if (top) {
        fail_unless_equals_float (number (s, "logprob"), -0.5 * (i + 1));
        fail_unless_equals_float (number (s, "entropy"), 0.25 * (i + 1));
        for (guint n = 0; n < top; n++) {
          fail_unless_equals_float (entry (s, "top-ids", n), 256 + i + n);
          fail_unless_equals_float (entry (s, "top-logprobs", n), -0.5 * (i + 1 + n));
        }
      }
      gst_buffer_unref (buffer);
    }
    fail_unless_ends (h, "eos");
    gst_harness_teardown (h);
  }
}
GST_END_TEST;

GST_START_TEST (test_a_buffer_of_several_tokens_has_their_sum_and_mean)
{
  GstHarness *h = harness ("tltokenize model-path=m ! tldecode token-stats=true top-logprobs=1 tokens-per-buffer=2");
  const double sums[] = { -1.5, -1.5 }, means[] = { 0.375, 0.75 }, last[] = { 257, 258 };

  fake_engine_script (ABC);
  push_text (h, "x");
  for (guint i = 0; i < 2; i++) {
    GstBuffer *buffer = gst_harness_pull (h);
    const GstStructure *s = structure_of (buffer, TL_TOKEN_META);

    fail_unless_equals_float (number (s, "logprob"), sums[i]);
    fail_unless_equals_float (number (s, "entropy"), means[i]);
    fail_unless_equals_float (entry (s, "top-ids", 0), last[i]);
    gst_buffer_unref (buffer);
  }
  fail_unless_ends (h, "eos");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_statistics_of_a_cancelled_reply_are_let_go)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m token-stats=true top-logprobs=3");

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  g_signal_emit_by_name (generator (h), "cancel", TRUE);
  fail_unless_ends (h, "cancelled");
  gst_harness_teardown (h);
}
GST_END_TEST;

static Suite *
scores_suite (void)
{
  Suite *suite = suite_create ("scores");
  TCase *tests = tcase_create ("scores");

  tl_plugin_register (NULL);
  suite_add_tcase (suite, tests);
  tcase_add_checked_fixture (tests, fake_engine_reset, NULL);
  tcase_add_test (tests, test_tokens_say_how_likely_they_were_only_when_asked);
  tcase_add_test (tests, test_a_buffer_of_several_tokens_has_their_sum_and_mean);
  tcase_add_test (tests, test_statistics_of_a_cancelled_reply_are_let_go);
  return suite;
}

STORY_MAIN (scores)
