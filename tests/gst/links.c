/* tests/gst/links.c — elements among others: caps at link time, streams that follow each other, branches, seeks, reuse. */
#include "story.h"
#include "tl-generation-events.h"
#include "tl-plugin.h"
#include "tl-token-meta.h"

/* ---- vocabularies at link time */

static gboolean
links (const char *from, const char *model, const char *to, const char *other, GstState state)
{
  GstElement *pipe = gst_pipeline_new (NULL);
  GstElement *a = gst_element_factory_make (from, NULL), *b = gst_element_factory_make (to, NULL);

  g_object_set (a, "model-path", model, NULL);
  g_object_set (b, "model-path", other, NULL);
  gst_bin_add_many (GST_BIN (pipe), a, b, NULL);
  gst_element_set_state (pipe, state);
  gboolean linked = gst_element_link (a, b);
  gst_element_set_state (pipe, GST_STATE_NULL);
  gst_object_unref (pipe);
  return linked;
}

GST_START_TEST (test_another_vocabulary_is_refused_at_link_time_when_both_are_ready)
{
  const char *pairs[][2] = { { "tltokenize", "tldecode" }, { "tldecode", "tldetokenize" } };

  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++) {
    fail_unless (links (pairs[i][0], "m", pairs[i][1], "m", GST_STATE_READY));
    fail_if (links (pairs[i][0], "m", pairs[i][1], "other", GST_STATE_READY));
    fail_unless (links (pairs[i][0], "m", pairs[i][1], "other", GST_STATE_NULL));       /* not known yet */
  }
}
GST_END_TEST;

GST_START_TEST (test_roles_do_not_mix)
{
  fail_if (links ("tltokenize", "m", "tldetokenize", "m", GST_STATE_NULL));
  fail_if (links ("tldecode", "m", "tldecode", "m", GST_STATE_NULL));
}
GST_END_TEST;

GST_START_TEST (test_another_vocabulary_is_named_behind_elements_that_know_nothing)
{
  g_autofree char *said = NULL;

  fake_engine_script (ABC);
  said = run_pipeline (SRC "tltokenize model-path=m ! identity ! queue ! tldecode model-path=other ! fakesink", "x");
  fail_unless (said && strstr (said, "vocab-of-m") && strstr (said, "vocab-of-other"), "%s", said);
}
GST_END_TEST;

/* ---- what tltokenize makes of streams: prompts as text, each followed by '/' */

static char *
prompts_of (GstHarness *h)
{
  GString *got = g_string_new (NULL);
  GstBuffer *buffer;

  while ((buffer = gst_harness_try_pull (h))) {
    gint32 ids[64];
    gsize n = gst_buffer_extract (buffer, 0, ids, sizeof (ids)) / sizeof (gint32);

    for (gsize i = 0; i < n; i++)
      g_string_append_c (got, ids[i]);
    g_string_append_c (got, '/');
    gst_buffer_unref (buffer);
  }
  return g_string_free (got, FALSE);
}

#define fail_unless_prompts(h, expected) do { g_autofree char *p = prompts_of (h); fail_unless_equals_string (p, expected); } while (0)

static void
push_options (GstHarness *h, const char *field, const char *value)
{
  gst_harness_push_event (h, gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM,
          gst_structure_new (TL_EVENT_OPTIONS, field, G_TYPE_STRING, value, NULL)));
}

GST_START_TEST (test_the_first_turn_of_each_conversation_has_the_system_prompt)
{
  GstHarness *h = harness ("tltokenize model-path=m system-prompt=S history=keep");

  push_text (h, "a");
  push_text (h, "b");
  push_options (h, "conversation", "two");
  push_text (h, "c");
  push_text (h, "d");
  push_options (h, "conversation", "two");
  push_text (h, "e");
  push_options (h, "history", "none");
  push_text (h, "f");
  fail_unless_prompts (h, "S|a/b/S|c/d/e/S|f/");
  gst_harness_push_upstream_event (h, gst_event_new_custom (GST_EVENT_CUSTOM_UPSTREAM,
          gst_structure_new_empty (TL_EVENT_RESET)));
  push_text (h, "g");
  push_text (h, "h");
  fail_unless_prompts (h, "S|g/h/");
  gst_harness_teardown (h);
}
GST_END_TEST;

static guint
prompt_tokens (GstHarness *h)
{
  g_autoptr (GstEvent) end = wait_event (h, TL_EVENT_END, 0);
  guint n = 0;

  gst_structure_get_uint (gst_event_get_structure (end), "prompt-tokens", &n);
  return n;
}

GST_START_TEST (test_reset_of_the_decoder_reaches_the_tokenizer)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m system-prompt=S history=keep");

  fake_engine_script (ABC);
  push_text (h, "a");
  fail_unless_equals_int (prompt_tokens (h), strlen ("S|a"));
  push_text (h, "b");
  fail_unless_equals_int (prompt_tokens (h), strlen ("b"));
  g_signal_emit_by_name (generator (h), "reset");
  gst_event_unref (wait_event (h, NULL, GST_EVENT_FLUSH_STOP));
  push_text (h, "c");
  fail_unless_equals_int (prompt_tokens (h), strlen ("S|c"));
  gst_harness_push_upstream_event (h, gst_event_new_custom (GST_EVENT_CUSTOM_UPSTREAM,
          gst_structure_new_empty (TL_EVENT_RESET)));
  gst_event_unref (wait_event (h, NULL, GST_EVENT_FLUSH_STOP));
  push_text (h, "d");
  fail_unless_equals_int (prompt_tokens (h), strlen ("S|d"));
  gst_harness_teardown (h);
}
GST_END_TEST;

static void
push_bytes_stream (GstHarness *h, const char *id, const char *text)
{
  GstSegment segment;

  gst_segment_init (&segment, GST_FORMAT_BYTES);
  gst_harness_push_event (h, gst_event_new_stream_start (id));
  gst_harness_push_event (h, gst_event_new_segment (&segment));
  gst_harness_push (h, gst_buffer_new_memdup (text, strlen (text)));
}

GST_START_TEST (test_a_new_stream_ends_the_old_ones_prompt)
{
  GstHarness *h = gst_harness_new_parse ("tltokenize model-path=m system-prompt=S history=keep");

  push_bytes_stream (h, "one", "first");
  push_bytes_stream (h, "two", "second");
  gst_harness_push_event (h, gst_event_new_eos ());
  fail_unless_prompts (h, "S|first/S|second/");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_a_flush_drops_text_and_options_of_a_prompt_that_did_not_end)
{
  GstHarness *h = gst_harness_new_parse ("tltokenize model-path=m system-prompt=S history=keep");

  push_bytes_stream (h, "one", "first");
  push_options (h, "history", "none");
  gst_harness_push_event (h, gst_event_new_flush_start ());
  gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
  push_bytes_stream (h, "two", "a");
  gst_harness_push_event (h, gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM,
          gst_structure_new_empty (TL_EVENT_FINAL_TRANSCRIPT)));
  gst_harness_push (h, gst_buffer_new_memdup ("b", 1));
  gst_harness_push_event (h, gst_event_new_eos ());
  fail_unless_prompts (h, "S|a/b/");
  gst_harness_teardown (h);
}
GST_END_TEST;

/* ---- whole pipelines */

/* the texts that tlsink `s` was told, replies separated by ';' */
static void
note_reply (GstElement *sink, guint64 prompt_id, const char *text, const char *reason, GString *log)
{
  g_string_append_printf (log, "%s:%s;", text, reason);
}

typedef struct { GstElement *pipe, *a; GstBus *bus; GString *log; } Run;

static Run
run_new (const char *launch)
{
  Run run = { gst_parse_launch (launch, NULL) };
  g_autoptr (GstElement) sink = gst_bin_get_by_name (GST_BIN (run.pipe), "s");

  run.a = gst_bin_get_by_name (GST_BIN (run.pipe), "a");
  run.bus = gst_element_get_bus (run.pipe);
  run.log = g_string_new (NULL);
  g_signal_connect (sink, "reply", G_CALLBACK (note_reply), run.log);
  return run;
}

static void
run_push (Run *run, const char *text, gboolean last)
{
  GstBuffer *buffer = gst_buffer_new_memdup (text, strlen (text));
  GstFlowReturn flow;

  g_signal_emit_by_name (run->a, "push-buffer", buffer, &flow);
  gst_buffer_unref (buffer);
  fail_unless_equals_int (flow, GST_FLOW_OK);
  if (last)
    g_signal_emit_by_name (run->a, "end-of-stream", &flow);
}

static void
run_until_eos (Run *run)
{
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (run->bus, 10 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);

  fail_unless (message != NULL && GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS);
}

static void
run_free (Run *run)
{
  fail_unless_equals_int (gst_element_set_state (run->pipe, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
  gst_object_unref (run->a);
  gst_object_unref (run->bus);
  gst_object_unref (run->pipe);
  g_string_free (run->log, TRUE);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
  fail_unless_equals_int (fake_engine_models_left (), 0);
}

GST_START_TEST (test_a_pipeline_is_used_again_after_eos_and_after_null)
{
  const GstState between[] = { GST_STATE_READY, GST_STATE_NULL, GST_STATE_READY };
  Run run = run_new (SRC "tlgenerate model-path=m ! tlsink name=s");

  fake_engine_script (ABC);
  for (guint i = 0; i < G_N_ELEMENTS (between); i++) {
    gst_element_set_state (run.pipe, GST_STATE_PLAYING);
    run_push (&run, "x", TRUE);
    run_until_eos (&run);
    fail_unless_equals_int (gst_element_set_state (run.pipe, between[i]), GST_STATE_CHANGE_SUCCESS);
  }
  fail_unless_equals_string (run.log->str, "a b c:eos;a b c:eos;a b c:eos;");
  run_free (&run);
}
GST_END_TEST;

static gboolean
accept_seek (GstElement *source, guint64 offset, gpointer data)
{
  return TRUE;
}

GST_START_TEST (test_a_seek_ends_the_reply_and_the_next_prompt_is_answered)
{
  Run run = run_new ("appsrc name=a format=time stream-type=seekable caps=text/x-raw,format=utf8 ! tlgenerate model-path=m ! "
      "tlsink name=s");

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  g_signal_connect (run.a, "seek-data", G_CALLBACK (accept_seek), NULL);
  gst_element_set_state (run.pipe, GST_STATE_PLAYING);
  run_push (&run, "x", FALSE);
  fake_engine_wait_blocked ();
  fail_unless (gst_element_seek_simple (run.pipe, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0));
  fail_unless_equals_string (run.log->str, "a:cancelled;");
  fake_engine_release ();
  run_push (&run, "y", TRUE);
  run_until_eos (&run);
  fail_unless_equals_string (run.log->str, "a:cancelled;a b c:eos;");
  run_free (&run);
}
GST_END_TEST;

GST_START_TEST (test_a_tee_gives_both_branches_every_token)
{
  Run run = run_new (SRC "tltokenize model-path=m ! tldecode ! tee name=t "
      "t. ! queue ! tldetokenize ! tlsink name=s  t. ! queue ! tldetokenize mode=reply ! fakesink name=f async=false");
  g_autoptr (GstElement) f = gst_bin_get_by_name (GST_BIN (run.pipe), "f");
  g_autoptr (GstSample) sample = NULL;
  char text[8] = "";

  fake_engine_script (ABC);
  gst_element_set_state (run.pipe, GST_STATE_PLAYING);
  run_push (&run, "x", TRUE);
  run_until_eos (&run);
  fail_unless_equals_string (run.log->str, "a b c:eos;");
  g_object_get (f, "last-sample", &sample, NULL);
  fail_unless (sample != NULL);
  gst_buffer_extract (gst_sample_get_buffer (sample), 0, text, sizeof (text) - 1);
  fail_unless_equals_string (text, "a b c");
  run_free (&run);
}
GST_END_TEST;

GST_START_TEST (test_one_prompt_for_two_decoders_behind_a_tee)
{
  Run run = run_new (SRC "tltokenize model-path=m ! tee name=t "
      "t. ! queue ! tldecode ! tldetokenize ! tlsink name=s  t. ! queue ! tldecode ! tldetokenize ! fakesink async=false");

  fake_engine_script (ABC);
  gst_element_set_state (run.pipe, GST_STATE_PLAYING);
  run_push (&run, "x", FALSE);
  run_push (&run, "y", TRUE);
  run_until_eos (&run);
  fail_unless_equals_string (run.log->str, "a b c:eos;a b c:eos;");
  run_free (&run);
}
GST_END_TEST;

GST_START_TEST (test_queues_anywhere_change_nothing)
{
  Run run = run_new (SRC "queue ! tltokenize model-path=m ! queue ! tlgrammar ! queue ! tldecode ! queue ! tldetokenize ! "
      "queue ! tlsink name=s");

  fake_engine_script (ABC);
  gst_element_set_state (run.pipe, GST_STATE_PLAYING);
  for (guint i = 0; i < 5; i++)
    run_push (&run, "x", i == 4);
  run_until_eos (&run);
  fail_unless_equals_string (run.log->str, "a b c:eos;a b c:eos;a b c:eos;a b c:eos;a b c:eos;");
  run_free (&run);
}
GST_END_TEST;

GST_START_TEST (test_concat_gives_a_reply_for_each_source)
{
  Run run = run_new ("concat name=c ! tlgenerate model-path=m ! tlsink name=s  "
      SRC "queue ! c.  appsrc name=b format=time caps=text/x-raw,format=utf8 ! queue ! c.");
  Run other = run;

  fake_engine_script (ABC);
  other.a = gst_bin_get_by_name (GST_BIN (run.pipe), "b");
  gst_element_set_state (run.pipe, GST_STATE_PLAYING);
  run_push (&run, "x", TRUE);
  run_push (&other, "y", TRUE);
  run_until_eos (&run);
  fail_unless_equals_string (run.log->str, "a b c:eos;a b c:eos;");
  gst_object_unref (other.a);
  run_free (&run);
}
GST_END_TEST;

GST_START_TEST (test_two_pipelines_at_once)
{
  Run runs[2] = { run_new (SRC "tlgenerate model-path=m ! tlsink name=s"), run_new (SRC "tlgenerate model-path=m ! tlsink name=s") };

  fake_engine_script (ABC);
  for (guint i = 0; i < 2; i++)
    gst_element_set_state (runs[i].pipe, GST_STATE_PLAYING);
  for (guint n = 0; n < 10; n++)
    for (guint i = 0; i < 2; i++)
      run_push (&runs[i], "x", n == 9);
  for (guint i = 0; i < 2; i++) {
    run_until_eos (&runs[i]);
    fail_unless_equals_int (runs[i].log->len, 10 * strlen ("a b c:eos;"));
    gst_element_set_state (runs[i].pipe, GST_STATE_NULL);
  }
  for (guint i = 0; i < 2; i++)
    run_free (&runs[i]);
}
GST_END_TEST;

/* ---- caps that come again, what a sink is told */

GST_START_TEST (test_caps_may_come_again)
{
  GstHarness *h = harness ("tlgenerate model-path=m");

  fake_engine_script (ABC);
  push_text (h, "x");
  fail_unless_ends (h, "eos");
  gst_harness_set_src_caps_str (h, "text/plain");
  push_text (h, "y");
  fail_unless_ends (h, "eos");
  fail_unless_text (h, "", "a b ca b c");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_an_upstream_flush_closes_the_reply_at_the_sink_once)
{
  Run run = run_new (SRC "tlgenerate model-path=m ! tlsink name=s");
  g_autoptr (GstElement) sink = gst_bin_get_by_name (GST_BIN (run.pipe), "s");

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  gst_element_set_state (run.pipe, GST_STATE_PLAYING);
  run_push (&run, "x", FALSE);
  fake_engine_wait_blocked ();
  fail_unless (gst_element_send_event (run.a, gst_event_new_flush_start ()));
  fail_unless (gst_element_send_event (run.a, gst_event_new_flush_stop (FALSE)));
  fail_unless_equals_string (run.log->str, "a:cancelled;");
  fake_engine_release ();
  run_free (&run);
}
GST_END_TEST;

GST_START_TEST (test_text_of_a_reply_begins_with_discont)
{
  GstHarness *h = harness ("tlgenerate model-path=m");

  fake_engine_script (ABC);
  for (guint reply = 0; reply < 2; reply++) {
    push_text (h, "x");
    for (guint i = 0; i < 3; i++) {
      g_autoptr (GstBuffer) buffer = gst_harness_pull (h);

      fail_unless_equals_int (GST_BUFFER_FLAG_IS_SET (buffer, GST_BUFFER_FLAG_DISCONT), i == 0);
    }
  }
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_halves_of_ids_are_refused)
{
  const char *roles[][2] = { { "tldecode", "prompt" }, { "tldetokenize", "reply" } };

  for (guint i = 0; i < G_N_ELEMENTS (roles); i++) {
    g_autofree char *launch = g_strdup_printf ("appsrc name=a format=time caps=application/x-tinyloop-tokens,format=U32LE,"
        "vocab=vocab-of-m,role=%s ! %s model-path=m ! fakesink", roles[i][1], roles[i][0]);
    g_autofree char *said = run_pipeline (launch, "12345");

    fail_unless (said && strstr (said, "5 bytes") && strstr (said, "whole"), "%s", said);
  }
}
GST_END_TEST;

GST_START_TEST (test_tokens_without_time_become_text)
{
  GstHarness *h = gst_harness_new_parse ("tldetokenize model-path=m mode=reply");
  gint32 ids[] = { 256, 257 };
  GstSegment segment;

  fake_engine_script (ABC);
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_harness_set_src_caps_str (h, "application/x-tinyloop-tokens,format=U32LE,vocab=vocab-of-m,role=reply");
  gst_harness_push (h, gst_buffer_new_memdup (ids, sizeof (ids)));
  gst_harness_push_event (h, gst_event_new_eos ());
  g_autoptr (GstBuffer) buffer = gst_harness_pull (h);
  fail_if (GST_BUFFER_PTS_IS_VALID (buffer));
  fail_unless_equals_int (gst_buffer_get_size (buffer), strlen ("a b"));
  gst_harness_teardown (h);
}
GST_END_TEST;

static Suite *
links_suite (void)
{
  Suite *suite = suite_create ("links");
  TCase *tests = tcase_create ("links");

  tl_plugin_register (NULL);
  suite_add_tcase (suite, tests);
  tcase_add_checked_fixture (tests, fake_engine_reset, NULL);
  tcase_add_test (tests, test_another_vocabulary_is_refused_at_link_time_when_both_are_ready);
  tcase_add_test (tests, test_roles_do_not_mix);
  tcase_add_test (tests, test_another_vocabulary_is_named_behind_elements_that_know_nothing);
  tcase_add_test (tests, test_the_first_turn_of_each_conversation_has_the_system_prompt);
  tcase_add_test (tests, test_reset_of_the_decoder_reaches_the_tokenizer);
  tcase_add_test (tests, test_a_new_stream_ends_the_old_ones_prompt);
  tcase_add_test (tests, test_a_flush_drops_text_and_options_of_a_prompt_that_did_not_end);
  tcase_add_test (tests, test_a_pipeline_is_used_again_after_eos_and_after_null);
  tcase_add_test (tests, test_a_seek_ends_the_reply_and_the_next_prompt_is_answered);
  tcase_add_test (tests, test_a_tee_gives_both_branches_every_token);
  tcase_add_test (tests, test_one_prompt_for_two_decoders_behind_a_tee);
  tcase_add_test (tests, test_queues_anywhere_change_nothing);
  tcase_add_test (tests, test_concat_gives_a_reply_for_each_source);
  tcase_add_test (tests, test_two_pipelines_at_once);
  tcase_add_test (tests, test_caps_may_come_again);
  tcase_add_test (tests, test_an_upstream_flush_closes_the_reply_at_the_sink_once);
  tcase_add_test (tests, test_text_of_a_reply_begins_with_discont);
  tcase_add_test (tests, test_halves_of_ids_are_refused);
  tcase_add_test (tests, test_tokens_without_time_become_text);
  return suite;
}

STORY_MAIN (links)
