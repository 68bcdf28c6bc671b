/* tests/gst/elements.c — the contract of the elements on the fake engine: tokens, brackets, EOS, cancel, bad input. */
#include "story.h"
#include "tl-generation-events.h"
#include "tl-plugin.h"
#include "tl-token-meta.h"

#include <glib/gstdio.h>

GST_START_TEST (test_a_prompt_gives_its_reply_then_eos)
{
  GstHarness *h = harness ("tlgenerate model-path=m");

  fake_engine_script (ABC);
  push_text (h, "x");
  gst_harness_push_event (h, gst_event_new_eos ());
  fail_unless_ends (h, "eos");
  gst_event_unref (wait_event (h, NULL, GST_EVENT_EOS));
  fail_unless_text (h, "/", "a/ b/ c/");
  fail_unless_equals_int (fake_engine_committed (), 3);
  gst_harness_teardown (h);
  fail_unless_equals_int (fake_engine_models_left (), 0);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
}
GST_END_TEST;

GST_START_TEST (test_every_token_is_a_buffer_with_time_and_meta)
{
  GstHarness *h = harness ("tltokenize model-path=m ! tldecode max-tokens=2 timestamp-mode=input");

  fake_engine_script (ABC);
  push_text (h, "x");
  for (guint i = 0; i < 2; i++) {
    GstBuffer *buffer = gst_harness_pull (h);
    TlTokenInfo info;

    fail_unless (tl_token_meta_get (buffer, &info));
    fail_unless_equals_int (info.index, i);
    fail_unless_equals_uint64 (info.prompt_id, 1);
    fail_unless_equals_uint64 (GST_BUFFER_PTS (buffer), GST_SECOND);
    fail_unless (GST_BUFFER_DURATION (buffer) > 0);
    fail_unless_equals_string (info.finish, i == 1 ? "length" : NULL);
    fail_unless_equals_int (GST_BUFFER_FLAG_IS_SET (buffer, GST_BUFFER_FLAG_DISCONT), i == 0);
    fail_unless_equals_int (GST_BUFFER_FLAG_IS_SET (buffer, GST_BUFFER_FLAG_MARKER), i == 1);
    gst_buffer_unref (buffer);
  }
  fail_unless_ends (h, "length");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_a_reply_without_tokens_still_ends_once)
{
  GstHarness *h = harness ("tlgenerate model-path=m");

  fake_engine_script (NULL, 0);
  push_text (h, "x");
  gst_harness_push_event (h, gst_event_new_eos ());
  gst_event_unref (wait_event (h, TL_EVENT_START, 0));
  fail_unless_ends (h, "eos");
  gst_event_unref (wait_event (h, NULL, GST_EVENT_EOS));
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_modes_cut_the_text)
{
  const struct { const char *mode, *expected; } cases[] = {
    { "delta", "Hi/ you./ Go/ on!\n/ ok/" }, { "word", "Hi/ you./ Go/ on!/\n ok/" },
    { "sentence", "Hi you./ Go on!\n/ ok/" }, { "line", "Hi you. Go on!\n/ ok/" },
    { "reply", "Hi you. Go on!\n ok/" },
    { "cumulative", "Hi/Hi you./Hi you. Go/Hi you. Go on!\n/Hi you. Go on!\n ok/" },
  };
  const char *pieces[] = { "Hi", " you.", " Go", " on!\n", " ok" };

  fake_engine_script (pieces, 5);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *launch = g_strdup_printf ("tlgenerate model-path=m mode=%s", cases[i].mode);
    GstHarness *h = harness (launch);

    push_text (h, "x");
    fail_unless_ends (h, "eos");
    fail_unless_text (h, "/", cases[i].expected);
    gst_harness_teardown (h);
  }
}
GST_END_TEST;

GST_START_TEST (test_a_separator_stands_behind_every_reply_that_gave_text)
{
  const struct { const char *options, *expected; } cases[] = {
    { "", "a/ b/ c/a/ b/ c/" }, { "separator=newline", "a/ b/ c/\n/a/ b/ c/\n/" },
    { "separator=blank-line mode=reply", "a b c/\n\n/a b c/\n\n/" },
    { "separator=newline mode=cumulative", "a/a b/a b c/\n/a/a b/a b c/\n/" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *launch = g_strdup_printf ("tlgenerate model-path=m %s", cases[i].options);
    GstHarness *h = harness (launch);

    fake_engine_script (ABC);
    for (guint n = 0; n < 2; n++) {
      push_text (h, "x");
      fail_unless_ends (h, "eos");
    }
    fake_engine_script (NULL, 0);       /* a reply without text has none */
    push_text (h, "x");
    fail_unless_ends (h, "eos");
    fail_unless_text (h, "/", cases[i].expected);
    gst_harness_teardown (h);
  }
}
GST_END_TEST;

GST_START_TEST (test_a_separator_stands_behind_a_cancelled_reply)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m separator=newline");

  fake_engine_script (ABC);
  fake_engine_block_at (2);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  g_signal_emit_by_name (generator (h), "cancel", TRUE);
  fail_unless_ends (h, "cancelled");
  fake_engine_release ();
  push_text (h, "y");
  fail_unless_ends (h, "eos");
  gst_buffer_unref (gst_harness_pull (h));      /* what a flush does not take back from a sink that has written it */
  gst_buffer_unref (gst_harness_pull (h));
  fail_unless_text (h, "/", "\n/a/ b/ c/\n/");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_characters_split_over_tokens_stay_whole)
{
  const char *word = "aä€😀b";

  for (gsize cut = 1; cut < strlen (word); cut++) {
    g_autofree char *head = g_strndup (word, cut);
    const char *pieces[] = { head, word + cut };
    GstHarness *h = harness ("tlgenerate model-path=m");

    fake_engine_script (pieces, 2);
    push_text (h, "x");
    fail_unless_ends (h, "eos");
    fail_unless_text (h, "", word);
    gst_harness_teardown (h);
  }
}
GST_END_TEST;

static void
check_framing (const char *launch, GstFormat format, const char *const *chunks, const char *expected)
{
  GstHarness *h = gst_harness_new_parse (launch);
  GstSegment segment;
  GString *got = g_string_new (NULL);
  GstBuffer *buffer;

  gst_segment_init (&segment, format);
  gst_harness_push_event (h, gst_event_new_stream_start ("s"));
  gst_harness_push_event (h, gst_event_new_segment (&segment));
  for (; *chunks; chunks++)
    gst_harness_push (h, gst_buffer_new_memdup (*chunks, strlen (*chunks)));
  gst_harness_push_event (h, gst_event_new_eos ());
  while ((buffer = gst_harness_try_pull (h))) {
    gint32 ids[64];
    gsize n = gst_buffer_extract (buffer, 0, ids, sizeof (ids)) / sizeof (gint32);

    for (gsize i = 0; i < n; i++)
      g_string_append_c (got, ids[i]);
    g_string_append_c (got, '/');
    gst_buffer_unref (buffer);
  }
  fail_unless_equals_string (got->str, expected);
  g_string_free (got, TRUE);
  GstEvent *event = gst_pad_get_sticky_event (h->sinkpad, GST_EVENT_SEGMENT, 0);
  const GstSegment *sent;
  gst_event_parse_segment (event, &sent);
  fail_unless_equals_int (sent->format, GST_FORMAT_TIME);
  gst_event_unref (event);
  gst_harness_teardown (h);
}

GST_START_TEST (test_framing_cuts_prompts_and_makes_a_time_segment)
{
  const char *chunks[] = { "one\r\ntw", "o\n\nthree", NULL }, *two[] = { "one", "two", NULL };

  check_framing ("tltokenize model-path=m framing=line", GST_FORMAT_BYTES, chunks, "one/two/three/");
  check_framing ("tltokenize model-path=m", GST_FORMAT_BYTES, two, "onetwo/");
  check_framing ("tltokenize model-path=m", GST_FORMAT_TIME, two, "one/two/");
  check_framing ("tltokenize model-path=m framing=eos", GST_FORMAT_TIME, two, "onetwo/");
  check_framing ("tltokenize model-path=m framing=buffer", GST_FORMAT_BYTES, two, "one/two/");
  check_framing ("tltokenize model-path=m system-prompt=S max-prompt-tokens=4 overflow=truncate-left", GST_FORMAT_TIME,
      two, "S|ne/S|wo/");
}
GST_END_TEST;

GST_START_TEST (test_cancel_ends_the_reply_and_keeps_the_next_prompt)
{
  GstHarness *h = harness ("tlgenerate model-path=m name=g");
  GstElement *g = generator (h);

  fake_engine_script (ABC);
  fake_engine_block_at (2);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  push_text (h, "y");
  g_signal_emit_by_name (g, "cancel", TRUE);
  gst_event_unref (wait_event (h, NULL, GST_EVENT_FLUSH_STOP));
  gst_event_unref (wait_event (h, NULL, GST_EVENT_SEGMENT));
  fail_unless_ends (h, "cancelled");
  fail_unless_equals_int (fake_engine_committed (), 2);
  fake_engine_wait_blocked ();
  fake_engine_release ();
  fail_unless_ends (h, "eos");
  gst_harness_teardown (h);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
}
GST_END_TEST;

GST_START_TEST (test_prompt_two_interrupts_reply_one)
{
  GstHarness *h = harness ("tlgenerate model-path=m on-new-prompt=interrupt");

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  push_text (h, "y");
  fail_unless_ends (h, "cancelled");
  fake_engine_wait_blocked ();
  fake_engine_release ();
  fail_unless_ends (h, "eos");
  fail_unless_equals_int (fake_engine_committed (), 3);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_a_late_reply_ends_after_its_pass)
{
  GstHarness *h = harness ("tlgenerate model-path=m");

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  gst_harness_set (h, "tlgenerate", "timeout", 1, NULL); /* not before: a slow machine would be late for the second pass */
  for (gint64 end = g_get_monotonic_time () + 2 * G_TIME_SPAN_MILLISECOND; g_get_monotonic_time () < end;)
    continue;
  fake_engine_release ();
  fail_unless_ends (h, "timeout");
  fail_unless_equals_int (fake_engine_committed (), 2);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_a_dropped_prompt_ends_as_dropped)
{
  GstHarness *h = harness ("tlgenerate model-path=m on-new-prompt=drop");

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  push_text (h, "y");
  fake_engine_release ();
  fail_unless_ends (h, "eos");
  fail_unless_ends (h, "dropped");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_stop_and_state_change_during_a_reply_do_not_wait_for_it)
{
  GstHarness *h = harness ("tlgenerate model-path=m");

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  gst_harness_teardown (h);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
  fail_unless_equals_int (fake_engine_models_left (), 0);
}
GST_END_TEST;

GST_START_TEST (test_a_load_that_never_ends_can_be_left)
{
  GstHarness *h;
  guint before = fake_engine_loads ();

  fake_engine_block_load (TRUE);
  fake_engine_script (ABC);
  h = harness ("tlgenerate model-path=m");
  push_text (h, "x");
  gst_event_unref (wait_event (h, TL_EVENT_START, 0));
  gst_harness_teardown (h);
  fake_engine_block_load (FALSE);
  fail_unless_equals_int (fake_engine_loads (), before + 1);
}
GST_END_TEST;

GST_START_TEST (test_upstream_flush_during_a_reply_then_a_new_prompt)
{
  GstHarness *h = harness ("tlgenerate model-path=m");
  GstSegment segment;

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  gst_harness_push_event (h, gst_event_new_flush_start ());
  gst_harness_push_event (h, gst_event_new_flush_stop (TRUE));
  fake_engine_release ();
  gst_segment_init (&segment, GST_FORMAT_TIME);
  gst_harness_push_event (h, gst_event_new_segment (&segment));
  push_text (h, "y");
  fail_unless_ends (h, "eos");
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_the_queue_blocks_upstream_until_there_is_room)
{
  GstHarness *h = harness ("tlgenerate model-path=m max-queued-prompts=2");

  fake_engine_script (ABC);
  for (guint i = 0; i < 20; i++)
    push_text (h, "x");
  for (guint i = 0; i < 20; i++)
    fail_unless_ends (h, "eos");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_downstream_eos_ends_the_reply)
{
  GstElement *pipe = gst_parse_launch ("appsrc name=a format=time caps=" "text/x-raw,format=utf8"
      " ! tlgenerate name=g model-path=m ! identity eos-after=1 ! fakesink async=false", NULL);
  GstElement *a = gst_bin_get_by_name (GST_BIN (pipe), "a");
  GstBus *bus = gst_element_get_bus (pipe);
  GstFlowReturn flow;

  fake_engine_script (ABC);
  gst_element_set_state (pipe, GST_STATE_PLAYING);
  GstBuffer *buffer = gst_buffer_new_memdup ("x", 1);
  g_signal_emit_by_name (a, "push-buffer", buffer, &flow);
  gst_buffer_unref (buffer);
  GstMessage *message;
  for (;;) {
    message = gst_bus_timed_pop_filtered (bus, 10 * GST_SECOND, GST_MESSAGE_ELEMENT);
    fail_unless (message != NULL);
    if (gst_message_has_name (message, TL_MESSAGE_GENERATION))
      break;
    gst_message_unref (message);
  }
  fail_unless_equals_string (gst_structure_get_string (gst_message_get_structure (message), "reason"), "downstream-eos");
  gst_message_unref (message);
  gst_element_set_state (pipe, GST_STATE_NULL);
  gst_object_unref (bus);
  gst_object_unref (a);
  gst_object_unref (pipe);
}
GST_END_TEST;

/* ---- whole pipelines, messages on the bus */

GST_START_TEST (test_bad_input_is_said_on_the_bus)
{
  const struct { const char *launch, *text, *says; } cases[] = {
    { SRC "tlgenerate model-path=missing.tinyloop ! fakesink", "x", "no such file" },
    { SRC "tlgenerate model-path=garbage.tinyloop ! fakesink", "x", "not a model" },
    { SRC "tlgenerate ! fakesink", "x", "no model" },
    { SRC "tlgenerate model-path=m ! fakesink", "\xff\xfe", "not valid UTF-8" },
    { SRC "tlgenerate model-path=m ! fakesink", "", "empty prompt" },
    { SRC "tlgenerate model-path=m ! fakesink",
      "0123456789012345678901234567890123456789012345678901234567890123456789", "70 tokens, 63 are allowed" },
    { SRC "tlgenerate model-path=notokenizer ! fakesink", "x", "no tokenizer" },
    { SRC "tlgenerate model-path=memory ! fakesink", "x", "needs 100 bytes" },
    { SRC "tlgenerate model-path=m type=regex ! fakesink", "x", "set grammar or location" },
    { SRC "tlgenerate model-path=m type=regex grammar=a location=b ! fakesink", "x", "both set" },
    { SRC "tlgenerate model-path=m type=regex grammar=( ! fakesink", "x", "byte 0" },
    { SRC "tlgenerate model-path=m type=regex location=no-such-file ! fakesink", "x", "no-such-file" },
    { SRC "tlgenerate model-path=m type=json-schema grammar={} ! fakesink", "x", "json-schema are not available" },
    { SRC "tlgenerate model-path=m type=gbnf grammar=root ! fakesink", "x", "gbnf are not available" },
    { "fakesrc num-buffers=20 filltype=zero sizetype=fixed sizemax=1000000 ! tltokenize framing=line model-path=m ! fakesink", "",
      "more than 16 MiB and no end" },
    { SRC "tltokenize model-path=m ! tldecode model-path=other ! fakesink", "x", "vocab-of-m" },
    { SRC "tltokenize model-path=m ! tldecode ! tldetokenize model-path=other ! fakesink", "x", "vocab-of-other" },
  };

  fake_engine_script (ABC);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *said = run_pipeline (cases[i].launch, cases[i].text);

    fail_unless (said && strstr (said, cases[i].says), "%s said: %s", cases[i].launch, said);
  }
  fail_unless_equals_int (fake_engine_models_left (), 0);
}
GST_END_TEST;

GST_START_TEST (test_an_engine_error_ends_the_reply_and_is_said)
{
  g_autofree char *said = NULL;

  fake_engine_script (ABC);
  fake_engine_fail_at (1);
  said = run_pipeline (SRC "tlgenerate model-path=m ! fakesink", "x");
  fail_unless (said && strstr (said, "not a number"), "%s", said);
  fail_unless_equals_int (fake_engine_committed (), 0);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
}
GST_END_TEST;

GST_START_TEST (test_elements_of_a_pipeline_share_one_model)
{
  guint before = fake_engine_loads ();

  fake_engine_script (ABC);
  fail_unless (run_pipeline (SRC "tltokenize model-path=m ! queue ! tldecode ! tldetokenize ! fakesink", "x") == NULL);
  fail_unless_equals_int (fake_engine_loads (), before + 1);
  fail_unless (run_pipeline (SRC "tlgenerate model-path=m ! tlsink", "x") == NULL);
  fail_unless_equals_int (fake_engine_loads (), before + 2);
  fail_unless_equals_int (fake_engine_models_left (), 0);
}
GST_END_TEST;

static void
cancel_on_text (GstElement *sink, guint64 prompt_id, const char *text, GstElement *g)
{
  if (g_str_equal (text, " b"))
    g_signal_emit_by_name (g, "cancel", TRUE);
}

static void
note_reply (GstElement *sink, guint64 prompt_id, const char *text, const char *reason, GString *log)
{
  g_string_append_printf (log, "%s:%s;", text, reason);
}

GST_START_TEST (test_cancel_from_the_sinks_text_handler)
{
  const char *launches[] = { SRC "tlgenerate name=g model-path=m ! tlsink name=s",
    SRC "tlgenerate name=g model-path=m ! queue ! tlsink name=s" };

  fake_engine_script (ABC);
  for (guint i = 0; i < 2; i++) {
    GstElement *pipe = gst_parse_launch (launches[i], NULL);
    g_autoptr (GstElement) g = gst_bin_get_by_name (GST_BIN (pipe), "g"), s = gst_bin_get_by_name (GST_BIN (pipe), "s");
    g_autoptr (GstElement) a = gst_bin_get_by_name (GST_BIN (pipe), "a");
    g_autoptr (GstBus) bus = gst_element_get_bus (pipe);
    g_autoptr (GString) log = g_string_new (NULL);
    GstFlowReturn flow;
    GstBuffer *buffer = gst_buffer_new_memdup ("x", 1);

    fake_engine_block_at (2);
    g_signal_connect (s, "text", G_CALLBACK (cancel_on_text), g);
    g_signal_connect (s, "reply", G_CALLBACK (note_reply), log);
    gst_element_set_state (pipe, GST_STATE_PLAYING);
    g_signal_emit_by_name (a, "push-buffer", buffer, &flow);
    g_signal_emit_by_name (a, "end-of-stream", &flow);
    gst_buffer_unref (buffer);
    GstMessage *message = gst_bus_timed_pop_filtered (bus, 10 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    fail_unless (message && GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS);
    gst_message_unref (message);
    gst_element_set_state (pipe, GST_STATE_NULL);
    fail_unless_equals_string (log->str, "a b:cancelled;");
    fail_unless_equals_int (fake_engine_committed (), 2);
    gst_object_unref (pipe);
  }
}
GST_END_TEST;

GST_START_TEST (test_every_element_goes_up_and_down)
{
  const char *names[] = { "tltokenize", "tlgrammar", "tlprefill", "tldecode", "tldetokenize", "tlsink", "tlgenerate" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    GstElement *e = gst_element_factory_make (names[i], NULL);

    for (guint n = 0; n < 3; n++) {
      gst_element_set_state (e, GST_STATE_PLAYING);
      gst_element_set_state (e, GST_STATE_READY);
      gst_element_set_state (e, GST_STATE_PAUSED);
      fail_unless_equals_int (gst_element_set_state (e, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
    }
    gst_object_unref (e);
  }
}
GST_END_TEST;

GST_START_TEST (test_stop_strings_and_options_reach_the_engine)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m");
  GstEvent *options = gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM,
      gst_structure_new (TL_EVENT_OPTIONS, "max-tokens", G_TYPE_INT, 1, NULL));
  g_auto (GValue) stop = G_VALUE_INIT;

  gst_util_set_object_arg (G_OBJECT (generator (h)), "stop", "<\"User:\", \"END\">");
  g_value_init (&stop, GST_TYPE_ARRAY);
  g_object_get_property (G_OBJECT (generator (h)), "stop", &stop);
  fail_unless_equals_int (gst_value_array_get_size (&stop), 2);
  fake_engine_script (ABC);
  gst_harness_push_event (h, options);
  push_text (h, "x");
  fail_unless_ends (h, "length");
  push_text (h, "x");
  fail_unless_ends (h, "eos");
  gst_harness_teardown (h);
}
GST_END_TEST;

static void
fail_unless_grammar (GstHarness *h, const char *expected)
{
  push_text (h, "x");
  fail_unless_ends (h, "eos");
  fail_unless_equals_string (fake_engine_grammar (), expected);
}

static void
push_options (GstHarness *h, const char *type, const char *grammar)
{
  gst_harness_push_event (h, gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new (TL_EVENT_OPTIONS,
              "grammar-type", G_TYPE_STRING, type, "grammar", G_TYPE_STRING, grammar, NULL)));
}

GST_START_TEST (test_a_grammar_holds_from_the_next_prompt)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m type=regex grammar=yes");
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "tinyloop-elements.regex", NULL);

  fake_engine_script (ABC);
  fail_unless_grammar (h, "yes");
  g_object_set (generator (h), "grammar", "no", NULL);
  fail_unless_grammar (h, "no");
  push_options (h, "regex", "maybe");
  fail_unless_grammar (h, "maybe");     /* for one prompt only */
  fail_unless_grammar (h, "no");
  push_options (h, "none", "");
  fail_unless_grammar (h, NULL);
  fail_unless (g_file_set_contents (path, "from a file\n", -1, NULL));
  g_object_set (generator (h), "grammar", NULL, "location", path, NULL);
  fail_unless_grammar (h, "from a file");
  gst_util_set_object_arg (G_OBJECT (generator (h)), "type", "none");
  fail_unless_grammar (h, NULL);
  g_remove (path);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_a_grammar_comes_through_tlprefill)
{
  GstHarness *h = harness ("tltokenize model-path=m ! tlgrammar name=g type=regex grammar=yes ! tlprefill ! tldecode");

  fake_engine_script (ABC);
  fail_unless_grammar (h, "yes");
  gst_harness_teardown (h);
}
GST_END_TEST;

static void
fail_unless_said (GstHarness *h, const char *words)
{
  g_autoptr (GstBus) bus = gst_element_get_bus (h->element);
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (bus, 10 * GST_SECOND, GST_MESSAGE_ERROR);
  g_autoptr (GError) error = NULL;

  fail_unless (message != NULL);
  gst_message_parse_error (message, &error, NULL);
  fail_unless (strstr (error->message, words), "%s", error->message);
}

GST_START_TEST (test_a_bad_grammar_gives_no_token)
{
  const char *decoders[] = { "tlgenerate name=g model-path=m", "tltokenize model-path=m ! tlgrammar name=g ! tldecode" };

  fake_engine_script (ABC);
  for (guint i = 0; i < 2; i++) {       /* changed before the prompt; then an option of the prompt */
    GstHarness *h = harness (decoders[i]);
    g_autoptr (GstBus) bus = gst_bus_new ();

    gst_element_set_bus (h->element, bus);
    if (i == 0)
      g_object_set (generator (h), "grammar", "(", NULL), gst_util_set_object_arg (G_OBJECT (generator (h)), "type", "regex");
    else
      push_options (h, "regex", "(");
    gst_harness_push (h, gst_buffer_new_memdup ("x", 1));       /* the first is refused at once, the second in the task */
    fail_unless_said (h, "byte 0");
    fail_unless (gst_harness_try_pull (h) == NULL);
    gst_element_set_bus (h->element, NULL);
    gst_harness_teardown (h);
  }
}
GST_END_TEST;

GST_START_TEST (test_a_grammar_option_that_is_no_string_is_refused)
{
  GstHarness *h = harness ("tltokenize model-path=m ! tldecode");
  g_autoptr (GstBus) bus = gst_bus_new ();

  fake_engine_script (ABC);
  gst_element_set_bus (h->element, bus);
  gst_harness_push_event (h, gst_event_new_custom (GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new (TL_EVENT_OPTIONS,
              "grammar", G_TYPE_INT, 5, NULL)));
  push_text (h, "x");
  fail_unless_said (h, "is a gint");
  fail_unless (gst_harness_try_pull (h) == NULL);
  gst_element_set_bus (h->element, NULL);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_segment_is_followed_by_a_gap_that_prerolls)
{
  GstHarness *h = harness ("tlgenerate model-path=m");

  fake_engine_script (ABC);
  gst_event_unref (wait_event (h, NULL, GST_EVENT_SEGMENT));
  gst_event_unref (wait_event (h, NULL, GST_EVENT_GAP));
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_latency_is_added_when_live)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m latency=50");

  gst_harness_set_upstream_latency (h, 7 * GST_MSECOND);
  fail_unless_equals_uint64 (gst_harness_query_latency (h), 57 * GST_MSECOND);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_paced_time_moves_by_the_token_duration)
{
  GstHarness *h = harness ("tlgenerate model-path=m timestamp-mode=paced token-duration=300000000");

  fake_engine_script (ABC);
  push_text (h, "x");
  for (guint i = 0; i < 3; i++) {
    GstBuffer *buffer = gst_harness_pull (h);

    fail_unless_equals_uint64 (GST_BUFFER_PTS (buffer), GST_SECOND + i * 300 * GST_MSECOND);
    fail_unless_equals_uint64 (GST_BUFFER_DURATION (buffer), 300 * GST_MSECOND);
    gst_buffer_unref (buffer);
  }
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_tokens_per_buffer_collects_and_the_rest_still_comes)
{
  GstHarness *h = harness ("tltokenize model-path=m ! tldecode tokens-per-buffer=2");
  const gsize sizes[] = { 8, 4 };

  fake_engine_script (ABC);
  push_text (h, "x");
  for (guint i = 0; i < 2; i++) {
    GstBuffer *buffer = gst_harness_pull (h);
    TlTokenInfo info;

    fail_unless_equals_int (gst_buffer_get_size (buffer), sizes[i]);
    fail_unless (tl_token_meta_get (buffer, &info));
    fail_unless_equals_int (info.index, 2 * i);
    gst_buffer_unref (buffer);
  }
  fail_unless_ends (h, "eos");
  fail_unless_equals_int (fake_engine_committed (), 3);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_meta_survives_queue_tee_and_identity)
{
  GstHarness *h = harness ("tltokenize model-path=m ! tldecode ! queue ! tee ! identity");
  TlTokenInfo info;

  fake_engine_script (ABC);
  push_text (h, "x");
  GstBuffer *buffer = gst_harness_pull (h);
  fail_unless (tl_token_meta_get (buffer, &info));
  fail_unless_equals_int (info.loops, 4);
  gst_buffer_unref (buffer);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_truncate_keeps_what_was_heard)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m");

  fake_engine_script (ABC);
  push_text (h, "x");
  fail_unless_ends (h, "eos");
  g_signal_emit_by_name (generator (h), "truncate", G_GUINT64_CONSTANT (1), 0u);
  push_text (h, "y");           /* commands run before the next prompt */
  fail_unless_ends (h, "eos");
  fail_unless_equals_int (fake_engine_truncated (), 1);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_reset_ends_the_reply_and_goes_on)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m");

  fake_engine_script (ABC);
  fake_engine_block_at (1);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  g_signal_emit_by_name (generator (h), "reset");
  fail_unless_ends (h, "cancelled");
  fake_engine_release ();
  push_text (h, "y");
  fail_unless_ends (h, "eos");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_cancel_after_eos_sends_eos_again)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m");

  fake_engine_script (ABC);
  push_text (h, "x");
  gst_harness_push_event (h, gst_event_new_eos ());
  gst_event_unref (wait_event (h, NULL, GST_EVENT_EOS));
  g_signal_emit_by_name (generator (h), "cancel", TRUE);
  gst_event_unref (wait_event (h, NULL, GST_EVENT_FLUSH_STOP));
  gst_event_unref (wait_event (h, NULL, GST_EVENT_SEGMENT));
  gst_event_unref (wait_event (h, NULL, GST_EVENT_EOS));
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_cancel_without_flush_keeps_what_was_sent)
{
  GstHarness *h = harness ("tlgenerate name=g model-path=m");

  fake_engine_script (ABC);
  fake_engine_block_at (2);
  push_text (h, "x");
  fake_engine_wait_blocked ();
  g_signal_emit_by_name (generator (h), "cancel", FALSE);
  fail_unless_ends (h, "cancelled");
  fail_unless_text (h, "/", "a/ b/");
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_two_pipelines_share_a_model_and_go_in_any_order)
{
  guint before = fake_engine_loads ();

  fake_engine_script (ABC);
  for (guint order = 0; order < 2; order++) {
    GstHarness *h[2] = { harness ("tlgenerate model-path=m"), harness ("tlgenerate model-path=m") };

    for (guint i = 0; i < 2; i++) {
      push_text (h[i], "x");
      fail_unless_ends (h[i], "eos");
    }
    fail_unless_equals_int (fake_engine_models_alive (), 1);
    gst_harness_teardown (h[order]);
    push_text (h[1 - order], "y");
    fail_unless_ends (h[1 - order], "eos");
    gst_harness_teardown (h[1 - order]);
    fail_unless_equals_int (fake_engine_models_left (), 0);
  }
  fail_unless_equals_int (fake_engine_loads (), before + 2);
}
GST_END_TEST;

GST_START_TEST (test_a_drain_query_waits_for_the_reply)
{
  GstHarness *h = harness ("tltokenize model-path=m ! tldecode ! fakesink async=false");
  g_autoptr (GstQuery) query = gst_query_new_drain ();

  fake_engine_script (ABC);
  push_text (h, "x");
  gst_pad_peer_query (h->srcpad, query);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
  fail_unless_equals_int (fake_engine_committed (), 3);
  gst_harness_teardown (h);
}
GST_END_TEST;

GST_START_TEST (test_tlsink_takes_an_empty_buffer)
{
  GstHarness *h = gst_harness_new_parse ("tlsink sync=false");

  gst_harness_set_src_caps_str (h, TEXT_CAPS);
  fail_unless_equals_int (gst_harness_push (h, gst_buffer_new ()), GST_FLOW_OK);
  gst_harness_teardown (h);
}
GST_END_TEST;

static Suite *
elements_suite (void)
{
  Suite *suite = suite_create ("elements");
  TCase *fast = tcase_create ("contract");

  tl_plugin_register (NULL);
  suite_add_tcase (suite, fast);
  tcase_add_checked_fixture (fast, fake_engine_reset, NULL);
  tcase_add_test (fast, test_a_prompt_gives_its_reply_then_eos);
  tcase_add_test (fast, test_every_token_is_a_buffer_with_time_and_meta);
  tcase_add_test (fast, test_a_reply_without_tokens_still_ends_once);
  tcase_add_test (fast, test_modes_cut_the_text);
  tcase_add_test (fast, test_a_separator_stands_behind_every_reply_that_gave_text);
  tcase_add_test (fast, test_a_separator_stands_behind_a_cancelled_reply);
  tcase_add_test (fast, test_characters_split_over_tokens_stay_whole);
  tcase_add_test (fast, test_framing_cuts_prompts_and_makes_a_time_segment);
  tcase_add_test (fast, test_cancel_ends_the_reply_and_keeps_the_next_prompt);
  tcase_add_test (fast, test_prompt_two_interrupts_reply_one);
  tcase_add_test (fast, test_a_late_reply_ends_after_its_pass);
  tcase_add_test (fast, test_a_dropped_prompt_ends_as_dropped);
  tcase_add_test (fast, test_stop_and_state_change_during_a_reply_do_not_wait_for_it);
  tcase_add_test (fast, test_a_load_that_never_ends_can_be_left);
  tcase_add_test (fast, test_upstream_flush_during_a_reply_then_a_new_prompt);
  tcase_add_test (fast, test_the_queue_blocks_upstream_until_there_is_room);
  tcase_add_test (fast, test_downstream_eos_ends_the_reply);
  tcase_add_test (fast, test_bad_input_is_said_on_the_bus);
  tcase_add_test (fast, test_an_engine_error_ends_the_reply_and_is_said);
  tcase_add_test (fast, test_elements_of_a_pipeline_share_one_model);
  tcase_add_test (fast, test_cancel_from_the_sinks_text_handler);
  tcase_add_test (fast, test_every_element_goes_up_and_down);
  tcase_add_test (fast, test_stop_strings_and_options_reach_the_engine);
  tcase_add_test (fast, test_a_grammar_holds_from_the_next_prompt);
  tcase_add_test (fast, test_a_grammar_comes_through_tlprefill);
  tcase_add_test (fast, test_a_bad_grammar_gives_no_token);
  tcase_add_test (fast, test_a_grammar_option_that_is_no_string_is_refused);
  tcase_add_test (fast, test_segment_is_followed_by_a_gap_that_prerolls);
  tcase_add_test (fast, test_latency_is_added_when_live);
  tcase_add_test (fast, test_paced_time_moves_by_the_token_duration);
  tcase_add_test (fast, test_tokens_per_buffer_collects_and_the_rest_still_comes);
  tcase_add_test (fast, test_meta_survives_queue_tee_and_identity);
  tcase_add_test (fast, test_truncate_keeps_what_was_heard);
  tcase_add_test (fast, test_reset_ends_the_reply_and_goes_on);
  tcase_add_test (fast, test_cancel_after_eos_sends_eos_again);
  tcase_add_test (fast, test_cancel_without_flush_keeps_what_was_sent);
  tcase_add_test (fast, test_two_pipelines_share_a_model_and_go_in_any_order);
  tcase_add_test (fast, test_a_drain_query_waits_for_the_reply);
  tcase_add_test (fast, test_tlsink_takes_an_empty_buffer);
  return suite;
}

STORY_MAIN (elements)
