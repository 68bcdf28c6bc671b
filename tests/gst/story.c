/* tests/gst/story.c — the verbs of element tests: push a prompt, wait for the end of its reply, run a pipeline. */
#include "story.h"
#include "tl-generation-events.h"

GstHarness *
harness (const char *launch)
{
  GstHarness *h = gst_harness_new_parse (launch);

  gst_harness_set_src_caps_str (h, TEXT_CAPS);
  return h;
}

void
push_text (GstHarness *h, const char *text)
{
  GstBuffer *buffer = gst_buffer_new_memdup (text, strlen (text));

  GST_BUFFER_PTS (buffer) = GST_SECOND;
  GST_BUFFER_DURATION (buffer) = GST_SECOND;
  fail_unless_equals_int (gst_harness_push (h, buffer), GST_FLOW_OK);
}

/* tlgenerate inside of the harness's bin */
GstElement *
generator (GstHarness *h)
{
  GstElement *g = gst_bin_get_by_name (GST_BIN (h->element), "g");

  gst_object_unref (g);         /* the bin keeps it */
  return g;
}

/* reads serialized events until @name or @type; returns it */
GstEvent *
wait_event (GstHarness *h, const char *name, GstEventType type)
{
  for (;;) {
    GstEvent *event = gst_harness_pull_event (h);

    fail_unless (event != NULL, "no event %s came", name ? name : gst_event_type_get_name (type));
    if (name ? gst_event_has_name (event, name) : GST_EVENT_TYPE (event) == type)
      return event;
    gst_event_unref (event);
  }
}

char *
wait_end (GstHarness *h)
{
  GstEvent *end = wait_event (h, TL_EVENT_END, 0);
  char *reason = g_strdup (gst_structure_get_string (gst_event_get_structure (end), "reason"));

  gst_event_unref (end);
  return reason;
}

char *
all_text (GstHarness *h, const char *between)
{
  GString *text = g_string_new (NULL);
  GstBuffer *buffer;

  while ((buffer = gst_harness_try_pull (h))) {
    GstMapInfo map;

    gst_buffer_map (buffer, &map, GST_MAP_READ);
    fail_unless (g_utf8_validate_len ((const char *) map.data, map.size, NULL));
    fail_unless (GST_BUFFER_PTS_IS_VALID (buffer) && GST_BUFFER_DURATION_IS_VALID (buffer));
    g_string_append_len (text, (const char *) map.data, map.size);
    g_string_append (text, between);
    gst_buffer_unmap (buffer, &map);
    gst_buffer_unref (buffer);
  }
  return g_string_free (text, FALSE);
}

/* runs @launch on one prompt; returns the error's text, or NULL at EOS */
char *
run_pipeline (const char *launch, const char *text)
{
  GstElement *pipe = gst_parse_launch (launch, NULL);
  GstElement *a = gst_bin_get_by_name (GST_BIN (pipe), "a");
  GstBus *bus = gst_element_get_bus (pipe);
  GstFlowReturn flow;
  char *said = NULL;

  gst_element_set_state (pipe, GST_STATE_PLAYING);
  if (a) {
    GstBuffer *buffer = *text ? gst_buffer_new_memdup (text, strlen (text)) : gst_buffer_new ();

    g_signal_emit_by_name (a, "push-buffer", buffer, &flow);
    g_signal_emit_by_name (a, "end-of-stream", &flow);
    gst_buffer_unref (buffer);
    gst_object_unref (a);
  }
  GstMessage *message = gst_bus_timed_pop_filtered (bus, 10 * GST_SECOND, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING
      | GST_MESSAGE_EOS);
  fail_unless (message != NULL, "nothing on the bus of %s", launch);
  if (GST_MESSAGE_TYPE (message) != GST_MESSAGE_EOS) {
    g_autoptr (GError) error = NULL;

    if (GST_MESSAGE_TYPE (message) == GST_MESSAGE_ERROR)
      gst_message_parse_error (message, &error, NULL);
    else
      gst_message_parse_warning (message, &error, NULL);
    said = g_strdup (error->message);
  }
  gst_message_unref (message);
  gst_element_set_state (pipe, GST_STATE_NULL);
  gst_object_unref (bus);
  gst_object_unref (pipe);
  return said;
}

int
run_suite (Suite *suite)
{
  SRunner *runner = srunner_create (suite);
  srunner_run_all (runner, CK_ENV);
  int failed = srunner_ntests_failed (runner);
  srunner_free (runner);
  return failed != 0;
}
