/* tests/gst/story.h — the verbs of element tests; every test program of this folder links story.c and the fake engine. */
#pragma once

#include "fake-engine.h"

#include <gst/check/gstcheck.h>
#include <gst/check/gstharness.h>

#define ABC ((const char *[]) { "a", " b", " c" }), 3
#define TEXT_CAPS "text/x-raw, format=utf8"
#define SRC "appsrc name=a format=time caps=text/x-raw,format=utf8 ! "

/* GST_CHECK_MAIN prints check's own summary between the lines of TAP; with CK_VERBOSITY=silent this prints TAP alone */
#define STORY_MAIN(name) int main (int argc, char **argv) { gst_check_init (&argc, &argv); return run_suite (name##_suite ()); }
int run_suite (Suite *suite);

/* ---- with a harness: text in, what comes out is looked at */
GstHarness *harness (const char *launch);
void push_text (GstHarness *h, const char *text);
GstElement *generator (GstHarness *h);
GstEvent *wait_event (GstHarness *h, const char *name, GstEventType type);
char *wait_end (GstHarness *h);
char *all_text (GstHarness *h, const char *between);

#define fail_unless_ends(h, expected) do { g_autofree char *r = wait_end (h); fail_unless_equals_string (r, expected); } while (0)
#define fail_unless_text(h, between, expected) do { g_autofree char *t = all_text (h, between); fail_unless_equals_string (t, expected); } while (0)

/* ---- whole pipelines: appsrc `a`, messages on the bus */
char *run_pipeline (const char *launch, const char *text);
