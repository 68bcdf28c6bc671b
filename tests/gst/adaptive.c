/* tests/gst/adaptive.c — adaptive-loops of tldecode: the estimate of a pass, and what becomes of a reply. */
#include "story.h"
#include "tl-deadline.h"
#include "tl-generation-events.h"
#include "tl-plugin.h"
#include "tl-token-meta.h"

#define TRUTH(loops) (3000 + 500 * (loops))     /* ns of a pass */

GST_START_TEST (test_nothing_measured_means_all_loops)
{
  TlDeadline deadline = { 0 };

  fail_unless_equals_int (tl_deadline_loops (&deadline, 0, 1, 8), 8);
  tl_deadline_note (&deadline, 0, 100);
  fail_unless_equals_int (tl_deadline_loops (&deadline, 0, 1, 8), 8);
}
GST_END_TEST;

GST_START_TEST (test_the_estimate_follows_the_passes)
{
  TlDeadline deadline = { 0 };

  for (guint i = 0; i < 400; i++)
    tl_deadline_note (&deadline, 1 + i % 8, TRUTH (1 + i % 8));
  for (guint loops = 1; loops <= 8; loops++) {
    fail_unless_equals_int (tl_deadline_loops (&deadline, TRUTH (loops) + 50, 1, 8), loops);
    fail_unless_equals_int (tl_deadline_loops (&deadline, TRUTH (loops) - 50, 1, 8), MAX (loops - 1, 1));
  }
  for (guint i = 0; i < 400; i++)       /* the machine is three times as slow now */
    tl_deadline_note (&deadline, 1 + i % 8, 3 * TRUTH (1 + i % 8));
  fail_unless_equals_int (tl_deadline_loops (&deadline, 3 * TRUTH (5) + 50, 1, 8), 5);
}
GST_END_TEST;

GST_START_TEST (test_bounds_hold)
{
  TlDeadline deadline = { 0 };

  tl_deadline_note (&deadline, 4, 4000);
  fail_unless_equals_int (tl_deadline_loops (&deadline, -GST_SECOND, 2, 8), 2);
  fail_unless_equals_int (tl_deadline_loops (&deadline, GST_SECOND, 2, 8), 8);
  fail_unless_equals_int (tl_deadline_loops (&deadline, 1500, 2, 8), 2);
}
GST_END_TEST;

/* the loops of a reply's tokens, as "4,1,1" */
static char *
loops_of_reply (const char *properties, gboolean *exact)
{
  g_autofree char *launch = g_strdup_printf ("tltokenize model-path=m ! tldecode name=d %s", properties);
  GstHarness *h = harness (launch);
  GString *out = g_string_new (NULL);

  fake_engine_script (ABC);
  push_text (h, "x");
  GstEvent *end = wait_event (h, TL_EVENT_END, GST_EVENT_CUSTOM_DOWNSTREAM);
  fail_unless (gst_structure_get_boolean (gst_event_get_structure (end), "exact", exact));
  gst_event_unref (end);
  for (guint n = gst_harness_buffers_in_queue (h); n > 0; n--) {
    GstBuffer *buffer = gst_harness_pull (h);
    TlTokenInfo info;

    fail_unless (tl_token_meta_get (buffer, &info));
    g_string_append_printf (out, "%s%u", out->len ? "," : "", info.loops);
    gst_buffer_unref (buffer);
  }
  gst_harness_teardown (h);
  return g_string_free (out, FALSE);
}

static void
expect_loops (const char *properties, const char *expected, gboolean expected_exact)
{
  gboolean exact;
  g_autofree char *loops = loops_of_reply (properties, &exact);

  fail_unless_equals_string (loops, expected);
  fail_unless_equals_int (exact, expected_exact);
}

GST_START_TEST (test_late_tokens_take_the_fewest_loops)
{
  /* the second pass is the first that is measured */
  expect_loops ("adaptive-loops=true token-duration=1", "4,4,1", FALSE);
  expect_loops ("adaptive-loops=true token-duration=1 min-loops=2", "4,4,2", FALSE);
  expect_loops ("adaptive-loops=true token-duration=1 min-loops=9", "4,4,4", FALSE);
}
GST_END_TEST;

GST_START_TEST (test_early_tokens_take_all_loops)
{
  expect_loops ("adaptive-loops=true token-duration=3600000000000", "4,4,4", FALSE);
}
GST_END_TEST;

GST_START_TEST (test_without_a_duration_nothing_is_due)
{
  expect_loops ("adaptive-loops=true", "4,4,4", TRUE);
  expect_loops ("token-duration=1", "4,4,4", TRUE);
}
GST_END_TEST;

static Suite *
adaptive_suite (void)
{
  Suite *suite = suite_create ("adaptive");
  TCase *tc = tcase_create ("adaptive");

  tl_plugin_register (NULL);
  suite_add_tcase (suite, tc);
  tcase_add_test (tc, test_nothing_measured_means_all_loops);
  tcase_add_test (tc, test_the_estimate_follows_the_passes);
  tcase_add_test (tc, test_bounds_hold);
  tcase_add_test (tc, test_late_tokens_take_the_fewest_loops);
  tcase_add_test (tc, test_early_tokens_take_all_loops);
  tcase_add_test (tc, test_without_a_duration_nothing_is_due);
  return suite;
}

STORY_MAIN (adaptive)
