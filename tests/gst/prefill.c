/* tests/gst/prefill.c — tlprefill and the tldecode behind it: whose turn it is, forks behind a tee, what ends a wait. */
#include "story.h"
#include "tl-caps.h"
#include "tl-generation-events.h"
#include "tl-plugin.h"
#include "tl-prompt.h"

#define CHAIN "tltokenize model-path=m ! queue ! tlprefill ! tldecode name=d "

static void
tear_down (GstHarness *h)
{
  gst_harness_teardown (h);
  fail_unless_equals_int (fake_engine_models_left (), 0);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
  fail_unless_equals_int (fake_engine_sequences_alive (), 0);
}

GST_START_TEST (test_a_prefilled_prompt_gives_the_same_reply)
{
  GstHarness *h = harness (CHAIN "! tldetokenize");

  fake_engine_script (ABC);
  for (guint i = 0; i < 3; i++) {
    push_text (h, "x");
    fail_unless_ends (h, "eos");
    fail_unless_text (h, "/", "a/ b/ c/");
    fail_unless_equals_int (fake_engine_committed (), 3);
  }
  tear_down (h);
}
GST_END_TEST;

GST_START_TEST (test_options_pass_to_the_decoder)
{
  GstHarness *h = harness (CHAIN);

  fake_engine_script (ABC);
  gst_harness_push_event (h, gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new (TL_EVENT_OPTIONS,
              "max-tokens", G_TYPE_UINT, 2, NULL)));
  push_text (h, "x");
  fail_unless_ends (h, "length");
  push_text (h, "x");           /* for one prompt only */
  fail_unless_ends (h, "eos");
  tear_down (h);
}
GST_END_TEST;

/* a reply that stands at its second token, and prompt two behind it */
static GstHarness *
meet (const char *policy)
{
  gboolean waits = !g_str_equal (policy, "drop");       /* then in a thread of its own */
  g_autofree char *launch = g_strdup_printf ("tltokenize model-path=m ! %s tlprefill ! tldecode on-new-prompt=%s",
      waits ? "queue !" : "", policy);
  GstHarness *h = harness (launch);

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  push_text (h, "y");
  return h;
}

GST_START_TEST (test_the_next_prompt_waits_for_the_reply)
{
  GstHarness *h = meet ("queue");

  fake_engine_release ();
  fail_unless_ends (h, "eos");
  fail_unless_ends (h, "eos");
  tear_down (h);
}
GST_END_TEST;

GST_START_TEST (test_prompt_two_interrupts_reply_one)
{
  GstHarness *h = meet ("interrupt");

  fail_unless_ends (h, "cancelled");
  fake_engine_release ();
  fail_unless_ends (h, "eos");
  fail_unless_equals_int (fake_engine_committed (), 3);
  tear_down (h);
}
GST_END_TEST;

GST_START_TEST (test_a_dropped_prompt_begins_and_ends)
{
  GstHarness *h = meet ("drop");

  fake_engine_release ();
  fail_unless_ends (h, "eos");
  fail_unless_ends (h, "dropped");
  tear_down (h);
}
GST_END_TEST;

GST_START_TEST (test_a_wait_ends_with_the_state_and_with_a_flush)
{
  GstHarness *h = meet ("queue");

  tear_down (h);
  h = meet ("queue");
  gst_harness_push_event (h, gst_event_new_flush_start ());
  fake_engine_release ();
  gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
  g_autoptr (GstCaps) caps = gst_caps_from_string (TEXT_CAPS);
  GstSegment segment;
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_harness_push_event (h, gst_event_new_segment (&segment));
  push_text (h, "x");
  fail_unless_ends (h, "eos");
  tear_down (h);
}
GST_END_TEST;

GST_START_TEST (test_what_fails_is_said_and_still_ends)
{
  GstHarness *h = gst_harness_new_parse ("tlprefill name=p model-path=m ! tldecode");
  g_autoptr (GstBus) bus = gst_bus_new ();
  gint32 ids[64] = { 0 };
  g_autofree char *no_memory = run_pipeline (SRC "tltokenize model-path=memory ! tlprefill ! tldecode ! fakesink", "x");

  fail_unless (no_memory && strstr (no_memory, "needs 100 bytes"), "%s", no_memory);
  gst_element_set_bus (h->element, bus);
  gst_harness_set_src_caps_str (h, GST_TL_TOKENS_CAPS ("prompt") ", vocab=vocab-of-m");
  fail_unless_equals_int (gst_harness_push (h, gst_buffer_new_memdup (ids, sizeof ids)), GST_FLOW_ERROR);
  fail_unless_ends (h, "error");
  g_autoptr (GstMessage) message = gst_bus_pop_filtered (bus, GST_MESSAGE_ERROR);
  g_autoptr (GError) error = NULL;
  gst_message_parse_error (message, &error, NULL);
  fail_unless (strstr (error->message, "p: 64 tokens do not fit"), "%s", error->message);
  gst_element_set_bus (h->element, NULL);
  tear_down (h);
}
GST_END_TEST;

GST_START_TEST (test_a_buffer_without_a_sequence_is_refused)
{
  GstHarness *h = gst_harness_new_parse ("tldecode model-path=m");
  gint32 id = 7;

  fake_engine_script (ABC);
  gst_harness_set_src_caps_str (h, GST_TL_SEQUENCE_TYPE ", vocab=vocab-of-m");
  gst_harness_push (h, gst_buffer_new_memdup (&id, sizeof id));
  fail_unless_ends (h, "error");
  tear_down (h);
}
GST_END_TEST;

GST_START_TEST (test_another_vocabulary_is_named)
{
  g_autofree char *said = run_pipeline (SRC "tltokenize model-path=m ! tlprefill ! identity ! tldecode model-path=other"
      " ! fakesink", "x");

  fail_unless (said && strstr (said, "vocab-of-m") && strstr (said, "vocab-of-other"), "%s", said);
}
GST_END_TEST;

GST_START_TEST (test_each_branch_of_a_tee_gives_the_whole_reply)
{
  GstElement *pipe = gst_parse_launch (SRC "tltokenize model-path=m ! tlprefill ! tee name=t"
      " t. ! queue ! tldecode ! tldetokenize mode=reply ! tlsink name=one"
      " t. ! queue ! tldecode max-tokens=2 ! tldetokenize mode=reply ! tlsink name=two", NULL);
  g_autoptr (GstElement) a = gst_bin_get_by_name (GST_BIN (pipe), "a");
  g_autoptr (GstBus) bus = gst_element_get_bus (pipe);
  GstFlowReturn flow;

  fake_engine_script (ABC);
  gst_element_set_state (pipe, GST_STATE_PLAYING);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (GstBuffer) buffer = gst_buffer_new_memdup ("x", 1);
    g_signal_emit_by_name (a, "push-buffer", buffer, &flow);
  }
  g_signal_emit_by_name (a, "end-of-stream", &flow);
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (bus, 10 * GST_SECOND, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
  fail_unless (message && GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS);
  for (guint i = 0; i < 2; i++) {
    g_autoptr (GstElement) sink = gst_bin_get_by_name (GST_BIN (pipe), i ? "two" : "one");
    g_autofree char *reply = NULL;
    g_object_get (sink, "last-reply", &reply, NULL);
    fail_unless_equals_string (reply, i ? "a b" : "a b c");
  }
  gst_element_set_state (pipe, GST_STATE_NULL);
  gst_object_unref (pipe);
  fail_unless_equals_int (fake_engine_sequences_alive (), 0);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
}
GST_END_TEST;

GST_START_TEST (test_truncate_and_reset_reach_the_conversation)
{
  GstHarness *h = harness (CHAIN);
  g_autoptr (GstElement) decode = gst_bin_get_by_name (GST_BIN (h->element), "d");

  fake_engine_script (ABC);
  push_text (h, "x");
  fail_unless_ends (h, "eos");
  g_signal_emit_by_name (decode, "truncate", (guint64) 1, 0);
  push_text (h, "x");
  fail_unless_ends (h, "eos");
  fail_unless_equals_int (fake_engine_truncated (), 1);
  g_signal_emit_by_name (decode, "reset");
  push_text (h, "x");
  fail_unless_ends (h, "eos");
  tear_down (h);
}
GST_END_TEST;

/* pushes a prompt into @source and waits until @n decoders have ended their reply to it */
static void
ask_and_wait (GstElement *source, GstBus *bus, guint n)
{
  g_autoptr (GstBuffer) buffer = gst_buffer_new_memdup ("x", 1);
  GstFlowReturn flow;

  g_signal_emit_by_name (source, "push-buffer", buffer, &flow);
  while (n > 0) {
    g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (bus, 10 * GST_SECOND, GST_MESSAGE_ERROR | GST_MESSAGE_ELEMENT);
    fail_unless (message && GST_MESSAGE_TYPE (message) == GST_MESSAGE_ELEMENT);
    n -= gst_message_has_name (message, TL_MESSAGE_GENERATION);
  }
}

GST_START_TEST (test_only_the_branch_that_leads_truncates)
{
  GstElement *pipe = gst_parse_launch (SRC "tltokenize model-path=m ! tlprefill ! tee name=t"
      " t. ! tldecode name=one ! fakesink async=false t. ! tldecode name=two ! fakesink async=false", NULL);
  g_autoptr (GstElement) a = gst_bin_get_by_name (GST_BIN (pipe), "a");
  g_autoptr (GstElement) one = gst_bin_get_by_name (GST_BIN (pipe), "one"), two = gst_bin_get_by_name (GST_BIN (pipe), "two");
  g_autoptr (GstBus) bus = gst_element_get_bus (pipe);

  guint before = fake_engine_truncations ();    /* of tests in the same process */
  fake_engine_script (ABC);
  gst_element_set_state (pipe, GST_STATE_PLAYING);
  ask_and_wait (a, bus, 2);
  g_signal_emit_by_name (one, "truncate", (guint64) 1, 0u);
  g_signal_emit_by_name (two, "truncate", (guint64) 1, 1u);
  ask_and_wait (a, bus, 2);
  fail_unless_equals_int (fake_engine_truncations (), before + 1);
  gst_element_set_state (pipe, GST_STATE_NULL);
  gst_object_unref (pipe);
}
GST_END_TEST;

static Suite *
prefill_suite (void)
{
  Suite *suite = suite_create ("prefill");
  TCase *tests = tcase_create ("prefill");

  tl_plugin_register (NULL);
  suite_add_tcase (suite, tests);
  tcase_add_test (tests, test_a_prefilled_prompt_gives_the_same_reply);
  tcase_add_test (tests, test_options_pass_to_the_decoder);
  tcase_add_test (tests, test_the_next_prompt_waits_for_the_reply);
  tcase_add_test (tests, test_prompt_two_interrupts_reply_one);
  tcase_add_test (tests, test_a_dropped_prompt_begins_and_ends);
  tcase_add_test (tests, test_a_wait_ends_with_the_state_and_with_a_flush);
  tcase_add_test (tests, test_what_fails_is_said_and_still_ends);
  tcase_add_test (tests, test_a_buffer_without_a_sequence_is_refused);
  tcase_add_test (tests, test_another_vocabulary_is_named);
  tcase_add_test (tests, test_each_branch_of_a_tee_gives_the_whole_reply);
  tcase_add_test (tests, test_truncate_and_reset_reach_the_conversation);
  tcase_add_test (tests, test_only_the_branch_that_leads_truncates);
  return suite;
}

STORY_MAIN (prefill)
