/* tests/gst/cycles.c — flush, cancel and stop at random moments, over and over: nothing hangs, nothing is left.
 *
 * The moments come from a seed, which is printed when a test fails: TL_TEST_SEED=N repeats a run, TL_TEST_CYCLES sets how many.
 */
#include "story.h"
#include "tl-generation-events.h"
#include "tl-plugin.h"

static guint32 seed;
static guint cycles;

typedef struct
{
  GstElement *pipe, *source, *g;
  GstBus *bus;
  GRand *chance;
  int starts, ends;             /* atomic: brackets that left tldecode */
  int unpaired;                 /* ends without a start of the same prompt */
  guint64 open;
} Ride;

static GstPadProbeReturn
count_brackets (GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
  GstEvent *event = gst_pad_probe_info_get_event (info);
  Ride *ride = data;
  guint64 id = 0;

  if (!tl_event_is (event, TL_EVENT_START) && !tl_event_is (event, TL_EVENT_END))
    return GST_PAD_PROBE_OK;
  gst_structure_get_uint64 (gst_event_get_structure (event), "prompt-id", &id);
  if (tl_event_is (event, TL_EVENT_START)) {
    g_atomic_int_inc (&ride->starts);
    ride->open = id;
  } else {
    g_atomic_int_inc (&ride->ends);
    ride->unpaired += ride->open != id;
    ride->open = 0;
  }
  return GST_PAD_PROBE_OK;
}

static void
ride_begin (Ride *ride, const char *launch, guint32 number)
{
  *ride = (Ride) { gst_parse_launch (launch, NULL) };
  ride->source = gst_bin_get_by_name (GST_BIN (ride->pipe), "a");
  ride->g = gst_bin_get_by_name (GST_BIN (ride->pipe), "g");
  ride->bus = gst_element_get_bus (ride->pipe);
  ride->chance = g_rand_new_with_seed (seed + number);
  g_autoptr (GstElement) decode = GST_IS_BIN (ride->g) ? gst_bin_get_by_name (GST_BIN (ride->g), "decode")
      : gst_object_ref (ride->g);
  g_autoptr (GstPad) pad = gst_element_get_static_pad (decode, "src");
  gst_pad_add_probe (pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, count_brackets, ride, NULL);
  gst_element_set_state (ride->pipe, GST_STATE_PLAYING);
}

static void
ride_end (Ride *ride)
{
  fail_unless_equals_int (gst_element_set_state (ride->pipe, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
  gst_object_unref (ride->source);
  gst_object_unref (ride->g);
  gst_object_unref (ride->bus);
  gst_object_unref (ride->pipe);
  g_rand_free (ride->chance);
  fail_unless_equals_int (fake_engine_replies_alive (), 0);
  fail_unless_equals_int (fake_engine_sequences_alive (), 0);
  fail_unless_equals_int (fake_engine_models_left (), 0);
}

static void
ask (Ride *ride)
{
  GstBuffer *buffer = gst_buffer_new_memdup ("x", 1);
  GstFlowReturn flow;

  g_signal_emit_by_name (ride->source, "push-buffer", buffer, &flow);
  gst_buffer_unref (buffer);
}

static void
some_moments (Ride *ride)
{
  for (guint i = g_rand_int_range (ride->chance, 0, 400); i > 0; i--)
    g_thread_yield ();
}

static void
flush (Ride *ride)
{
  gst_element_send_event (ride->source, gst_event_new_flush_start ());
  some_moments (ride);
  gst_element_send_event (ride->source, gst_event_new_flush_stop (TRUE));
}

/* one of the things an application may do at any moment */
static void
disturb (Ride *ride)
{
  const GstState down[] = { GST_STATE_PAUSED, GST_STATE_READY, GST_STATE_NULL };

  switch (g_rand_int_range (ride->chance, 0, 8)) {
    case 0: flush (ride); break;
    case 1: g_signal_emit_by_name (ride->g, "cancel", TRUE); break;
    case 2: g_signal_emit_by_name (ride->g, "cancel", FALSE); break;
    case 3: g_signal_emit_by_name (ride->g, "reset"); break;
    case 4: g_signal_emit_by_name (ride->g, "truncate", (guint64) g_rand_int_range (ride->chance, 1, 5), 0u); break;
    case 5: {
      gst_element_set_state (ride->pipe, down[g_rand_int_range (ride->chance, 0, 3)]);
      some_moments (ride);
      gst_element_set_state (ride->pipe, GST_STATE_PLAYING);
      break;
    }
    default: ask (ride);
  }
}

static void
wait_for_eos (Ride *ride, guint number)
{
  GstFlowReturn flow;

  g_signal_emit_by_name (ride->source, "end-of-stream", &flow);
  g_autoptr (GstMessage) message = gst_bus_timed_pop_filtered (ride->bus, 10 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
  fail_unless (message != NULL, "no EOS in cycle %u of TL_TEST_SEED=%u", number, seed);
  fail_unless (GST_MESSAGE_TYPE (message) == GST_MESSAGE_EOS, "an error in cycle %u of TL_TEST_SEED=%u", number, seed);
}

#define PREFILL SRC "tltokenize model-path=m ! queue ! tlprefill ! "

static const char *launches[] = {
  SRC "tlgenerate name=g model-path=m ! tlsink",
  SRC "tlgenerate name=g model-path=m on-new-prompt=interrupt ! queue ! tlsink",
  SRC "queue ! tlgenerate name=g model-path=m on-new-prompt=drop history=keep ! queue max-size-buffers=1 ! tlsink",
  SRC "tlgenerate name=g model-path=m max-queued-prompts=3 reset-on-flush=true mode=sentence ! queue ! fakesink async=false",
  PREFILL "tldecode name=g ! tldetokenize ! tlsink",
  PREFILL "queue ! tldecode name=g on-new-prompt=interrupt ! tldetokenize ! queue ! tlsink",
  PREFILL "tldecode name=g on-new-prompt=drop ! queue max-size-buffers=1 ! tldetokenize ! tlsink",
  PREFILL "tee name=t t. ! queue ! tldecode name=g on-new-prompt=interrupt ! tldetokenize ! tlsink"
      " t. ! queue ! tldecode max-tokens=2 ! tldetokenize ! queue ! tlsink async=false t. ! valve drop=true drop-mode=forward-sticky-events ! fakesink async=false",
};

GST_START_TEST (test_random_disturbances_end_in_eos)
{
  fake_engine_script (ABC);
  for (guint i = 0; i < cycles; i++) {
    Ride ride;

    ride_begin (&ride, launches[i % G_N_ELEMENTS (launches)], i);
    for (guint n = g_rand_int_range (ride.chance, 1, 12); n > 0; n--) {
      disturb (&ride);
      some_moments (&ride);
    }
    ask (&ride);
    wait_for_eos (&ride, i);
    ride_end (&ride);
  }
}
GST_END_TEST;

GST_START_TEST (test_a_stop_at_a_random_moment_waits_for_nothing)
{
  fake_engine_script (ABC);
  for (guint i = 0; i < cycles; i++) {
    Ride ride;

    ride_begin (&ride, launches[i % G_N_ELEMENTS (launches)], i);
    fake_engine_block_at (g_rand_int_range (ride.chance, -1, 4));       /* a pass that ends only by a cancel */
    for (guint n = g_rand_int_range (ride.chance, 1, 5); n > 0; n--)
      ask (&ride);
    some_moments (&ride);
    ride_end (&ride);
    fake_engine_release ();
  }
}
GST_END_TEST;

/* without an upstream flush or a state change every start has its end */
GST_START_TEST (test_brackets_stay_paired_under_cancels)
{
  fake_engine_script (ABC);
  for (guint i = 0; i < cycles; i++) {
    Ride ride;

    ride_begin (&ride, launches[i % G_N_ELEMENTS (launches)], i);
    for (guint n = g_rand_int_range (ride.chance, 1, 12); n > 0; n--) {
      ask (&ride);
      some_moments (&ride);
      g_signal_emit_by_name (ride.g, "cancel", (gboolean) g_rand_boolean (ride.chance));
    }
    wait_for_eos (&ride, i);
    gst_element_set_state (ride.pipe, GST_STATE_NULL);
    fail_unless_equals_int (ride.unpaired, 0);
    fail_unless_equals_int (ride.starts, ride.ends);
    ride_end (&ride);
  }
}
GST_END_TEST;

static void
cancel_in_handler (GstElement *sink, guint64 prompt_id, const char *text, Ride *ride)
{
  if (strstr (text, "b"))
    g_signal_emit_by_name (ride->g, "cancel", TRUE);
}

GST_START_TEST (test_cancels_from_the_sinks_handler_while_the_application_flushes)
{
  fake_engine_script (ABC);
  for (guint i = 0; i < cycles; i++) {
    Ride ride;

    ride_begin (&ride, i & 1 ? SRC "tlgenerate name=g model-path=m ! queue ! tlsink name=s"
        : SRC "tlgenerate name=g model-path=m ! tlsink name=s", i);
    g_autoptr (GstElement) sink = gst_bin_get_by_name (GST_BIN (ride.pipe), "s");
    g_signal_connect (sink, "text", G_CALLBACK (cancel_in_handler), &ride);
    for (guint n = g_rand_int_range (ride.chance, 1, 6); n > 0; n--) {
      ask (&ride);
      some_moments (&ride);
      if (g_rand_boolean (ride.chance))
        flush (&ride);
    }
    ask (&ride);
    wait_for_eos (&ride, i);
    ride_end (&ride);
  }
}
GST_END_TEST;

static Suite *
cycles_suite (void)
{
  Suite *suite = suite_create ("cycles");
  TCase *tests = tcase_create ("cycles");

  seed = g_getenv ("TL_TEST_SEED") ? atoi (g_getenv ("TL_TEST_SEED")) : 20240517;
  cycles = g_getenv ("TL_TEST_CYCLES") ? atoi (g_getenv ("TL_TEST_CYCLES")) : 100;
  tl_plugin_register (NULL);
  suite_add_tcase (suite, tests);
  tcase_add_checked_fixture (tests, fake_engine_reset, NULL);
  tcase_set_timeout (tests, 150);
  tcase_add_test (tests, test_random_disturbances_end_in_eos);
  tcase_add_test (tests, test_a_stop_at_a_random_moment_waits_for_nothing);
  tcase_add_test (tests, test_brackets_stay_paired_under_cancels);
  tcase_add_test (tests, test_cancels_from_the_sinks_handler_while_the_application_flushes);
  return suite;
}

STORY_MAIN (cycles)
