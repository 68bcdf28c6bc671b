/* tests/gst/properties.c — what an element says about itself: blurbs, ranges, flags, presets, and its page in the docs.
 *
 * Every page of docs/elements holds a part that is generated from the element; this program compares it, and writes it anew
 * when TL_UPDATE_DOCS is set: TL_UPDATE_DOCS=1 meson test -C build elements-properties
 */
#include "story.h"
#include "tl-plugin.h"

#define BEGIN "<!-- generated: pads, properties, signals -->\n"
#define END "<!-- /generated -->\n"

/* every element of the plugin, by factory */
static GList *
all_factories (void)
{
  GList *all = gst_registry_get_feature_list (gst_registry_get (), GST_TYPE_ELEMENT_FACTORY), *ours = NULL;

  for (GList *l = all; l; l = l->next)
    if (g_str_has_prefix (GST_OBJECT_NAME (l->data), "tl"))
      ours = g_list_prepend (ours, gst_object_ref (l->data));
  gst_plugin_feature_list_free (all);
  fail_unless (g_list_length (ours) >= 6);
  return ours;
}

static GParamSpec **
own_properties (GObject *element)
{
  guint n, kept = 0;
  GParamSpec **all = g_object_class_list_properties (G_OBJECT_GET_CLASS (element), &n);

  for (guint i = 0; i < n; i++)
    if (all[i]->owner_type == G_OBJECT_TYPE (element))
      all[kept++] = all[i];
  all[kept] = NULL;             /* the list has room: GObject's own properties fell out */
  return all;
}

static void
check_property (const char *element, GParamSpec *pspec)
{
  const char *nick = g_param_spec_get_nick (pspec), *blurb = g_param_spec_get_blurb (pspec);
  guint changeable = GST_PARAM_MUTABLE_READY | GST_PARAM_MUTABLE_PAUSED | GST_PARAM_MUTABLE_PLAYING;
  g_auto (GValue) preset = G_VALUE_INIT;
  g_auto (GStrv) words = g_strsplit (blurb ? blurb : "", " ", -1);

  fail_unless (nick && *nick, "%s:%s has no nick", element, pspec->name);
  fail_unless (g_strv_length (words) >= 3, "%s:%s: '%s' says too little", element, pspec->name, blurb);
  fail_unless (g_ascii_isupper (blurb[0]), "%s:%s: '%s' is no phrase", element, pspec->name, blurb);
  fail_if (g_str_has_suffix (blurb, "."), "%s:%s: '%s' ends with a stop", element, pspec->name, blurb);
  fail_unless (!(pspec->flags & G_PARAM_WRITABLE) || (pspec->flags & changeable), "%s:%s does not say when it may change",
      element, pspec->name);
  g_value_init (&preset, pspec->value_type);
  g_param_value_set_default (pspec, &preset);
  fail_if (g_param_value_validate (pspec, &preset), "%s:%s: the default is out of range", element, pspec->name);
  if (G_IS_PARAM_SPEC_ENUM (pspec))
    for (guint i = 0; i < G_PARAM_SPEC_ENUM (pspec)->enum_class->n_values; i++)
      fail_unless (strchr (G_PARAM_SPEC_ENUM (pspec)->enum_class->values[i].value_name, ' ') != NULL,
          "%s:%s: a value is not explained", element, pspec->name);
}

GST_START_TEST (test_every_property_says_what_it_is)
{
  GList *factories = all_factories ();

  for (GList *l = factories; l; l = l->next) {
    g_autoptr (GstElement) element = gst_object_ref_sink (gst_element_factory_create (l->data, NULL));
    g_autofree GParamSpec **properties = own_properties (G_OBJECT (element));

    for (guint i = 0; properties[i]; i++)
      check_property (GST_OBJECT_NAME (l->data), properties[i]);
    fail_unless (strlen (gst_element_factory_get_metadata (l->data, GST_ELEMENT_METADATA_DESCRIPTION)) > 20);
    fail_unless_equals_int (gst_plugin_feature_get_rank (l->data), GST_RANK_NONE);
  }
  gst_plugin_feature_list_free (factories);
}
GST_END_TEST;

/* ---- pages */

static char *
range_of (GParamSpec *pspec)
{
  if (G_IS_PARAM_SPEC_UINT (pspec))
    return g_strdup_printf ("uint %u…%u", G_PARAM_SPEC_UINT (pspec)->minimum, G_PARAM_SPEC_UINT (pspec)->maximum);
  if (G_IS_PARAM_SPEC_INT (pspec))
    return g_strdup_printf ("int %d…%d", G_PARAM_SPEC_INT (pspec)->minimum, G_PARAM_SPEC_INT (pspec)->maximum);
  if (G_IS_PARAM_SPEC_UINT64 (pspec))
    return g_strdup_printf ("uint64 %" G_GUINT64_FORMAT "…%" G_GUINT64_FORMAT, G_PARAM_SPEC_UINT64 (pspec)->minimum,
        G_PARAM_SPEC_UINT64 (pspec)->maximum);
  if (G_IS_PARAM_SPEC_DOUBLE (pspec))
    return g_strdup_printf ("double %g…%g", G_PARAM_SPEC_DOUBLE (pspec)->minimum, G_PARAM_SPEC_DOUBLE (pspec)->maximum);
  if (G_IS_PARAM_SPEC_ENUM (pspec)) {
    GEnumClass *values = G_PARAM_SPEC_ENUM (pspec)->enum_class;
    GString *names = g_string_new (NULL);

    for (guint i = 0; i < values->n_values; i++)
      g_string_append_printf (names, "%s`%s` (%s)", i ? ", " : "", values->values[i].value_nick, values->values[i].value_name);
    return g_string_free (names, FALSE);
  }
  if (GST_IS_PARAM_SPEC_ARRAY_LIST (pspec))
    return g_strdup ("array of strings");
  return g_strdup (pspec->value_type == G_TYPE_STRING ? "string" : pspec->value_type == G_TYPE_BOOLEAN ? "boolean"
      : g_type_name (pspec->value_type));
}

static char *
default_of (GParamSpec *pspec)
{
  g_auto (GValue) value = G_VALUE_INIT;

  if (!(pspec->flags & G_PARAM_WRITABLE) || GST_IS_PARAM_SPEC_ARRAY_LIST (pspec) || G_IS_PARAM_SPEC_OBJECT (pspec))
    return g_strdup ("");
  g_value_init (&value, pspec->value_type);
  g_param_value_set_default (pspec, &value);
  if (G_IS_PARAM_SPEC_DOUBLE (pspec))
    return g_strdup_printf ("%g", g_value_get_double (&value));
  if (G_IS_PARAM_SPEC_STRING (pspec))
    return g_strdup (g_value_get_string (&value) ? g_value_get_string (&value) : "");
  return gst_value_serialize (&value);
}

static const char *
changeable_of (GParamSpec *pspec)
{
  if (!(pspec->flags & G_PARAM_WRITABLE))
    return "read only";
  if (pspec->flags & GST_PARAM_CONTROLLABLE)
    return "always, controllable";
  return pspec->flags & GST_PARAM_MUTABLE_PLAYING ? "always" : "NULL, READY";
}

static void
describe_pads (GString *out, GstElementFactory *factory)
{
  g_string_append (out, "| Pad | Caps |\n|---|---|\n");
  for (const GList *l = gst_element_factory_get_static_pad_templates (factory); l; l = l->next) {
    GstStaticPadTemplate *pad = l->data;
    g_autoptr (GstCaps) caps = gst_static_caps_get (&pad->static_caps);
    g_autofree char *text = gst_caps_to_string (caps);

    g_string_append_printf (out, "| `%s` | `%s` |\n", pad->name_template, text);
  }
}

static void
describe_signals (GString *out, GstElement *element)
{
  guint n;
  g_autofree guint *ids = g_signal_list_ids (G_OBJECT_TYPE (element), &n);

  if (n > 0)
    g_string_append (out, "\n| Signal | Arguments |\n|---|---|\n");
  for (guint i = 0; i < n; i++) {
    GSignalQuery query;

    g_signal_query (ids[i], &query);
    g_string_append_printf (out, "| `%s`%s | ", query.signal_name, query.signal_flags & G_SIGNAL_ACTION ? " (action)" : "");
    for (guint p = 0; p < query.n_params; p++)
      g_string_append_printf (out, "%s%s", p ? ", " : "", g_type_name (query.param_types[p]));
    g_string_append (out, " |\n");
  }
}

/* the part of an element's page that the element itself knows */
static char *
describe (GstElementFactory *factory)
{
  g_autoptr (GstElement) element = gst_object_ref_sink (gst_element_factory_create (factory, NULL));
  g_autofree GParamSpec **properties = own_properties (G_OBJECT (element));
  GString *out = g_string_new (BEGIN);

  describe_pads (out, factory);
  g_string_append (out, "\n| Property | Type | Default | Changeable in | |\n|---|---|---|---|---|\n");
  for (guint i = 0; properties[i]; i++) {
    g_autofree char *range = range_of (properties[i]), *preset = default_of (properties[i]);

    g_string_append_printf (out, "| `%s` | %s | %s | %s | %s |\n", properties[i]->name, range, preset,
        changeable_of (properties[i]), g_param_spec_get_blurb (properties[i]));
  }
  describe_signals (out, element);
  g_string_append (out, END);
  return g_string_free (out, FALSE);
}

static void
check_page (GstElementFactory *factory)
{
  const char *name = GST_OBJECT_NAME (factory);
  g_autofree char *file = g_strdup_printf ("%s/%s.md", g_getenv ("TL_TEST_PAGES"), name), *page = NULL;
  g_autofree char *expected = describe (factory);

  fail_unless (g_file_get_contents (file, &page, NULL, NULL), "docs/elements/%s.md is missing", name);
  char *begin = strstr (page, BEGIN), *end = begin ? strstr (begin, END) : NULL;
  fail_unless (end != NULL, "docs/elements/%s.md has no generated part", name);
  gsize length = end + strlen (END) - begin;

  if (g_getenv ("TL_UPDATE_DOCS")) {
    g_autofree char *anew = g_strdup_printf ("%.*s%s%s", (int) (begin - page), page, expected, begin + length);

    g_file_set_contents (file, anew, -1, NULL);
  } else
    fail_unless (strlen (expected) == length && memcmp (begin, expected, length) == 0,
        "docs/elements/%s.md is out of date; run TL_UPDATE_DOCS=1 meson test elements-properties", name);
  fail_unless (strstr (page, "gst-launch-1.0") != NULL, "docs/elements/%s.md shows no pipeline", name);
}

GST_START_TEST (test_every_element_has_a_page_that_is_true)
{
  GList *factories = all_factories ();

  for (GList *l = factories; l; l = l->next)
    check_page (l->data);
  gst_plugin_feature_list_free (factories);
}
GST_END_TEST;

/* ---- presets, notification, tag */

GST_START_TEST (test_presets_set_how_to_generate)
{
  const char *names[] = { "tldecode", "tlgenerate" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autoptr (GstElement) element = gst_object_ref_sink (gst_element_factory_make (names[i], NULL));
    g_auto (GStrv) presets = gst_preset_get_preset_names (GST_PRESET (element));
    g_auto (GStrv) properties = gst_preset_get_property_names (GST_PRESET (element));
    g_autofree char *comment = NULL;
    double temperature, top_p;

    fail_unless (g_strv_contains ((const char *const *) presets, "precise"));
    fail_unless (g_strv_contains ((const char *const *) properties, "temperature"));
    fail_if (g_strv_contains ((const char *const *) properties, "model-path"));
    fail_if (g_strv_contains ((const char *const *) properties, "name"));
    for (guint n = 0; presets[n]; n++)
      fail_unless (gst_preset_load_preset (GST_PRESET (element), presets[n]), "%s does not load", presets[n]);
    fail_unless (gst_preset_load_preset (GST_PRESET (element), "creative"));
    g_object_get (element, "temperature", &temperature, "top-p", &top_p, NULL);
    fail_unless (temperature == 1 && top_p == 0.95);
    fail_unless (gst_preset_get_meta (GST_PRESET (element), "creative", "comment", &comment));
  }
}
GST_END_TEST;

static void
count (GObject *object, GParamSpec *pspec, guint *n)
{
  ++*n;
}

GST_START_TEST (test_the_bin_tells_of_a_childs_property)
{
  g_autoptr (GstElement) bin = gst_object_ref_sink (gst_element_factory_make ("tlgenerate", NULL));
  guint told = 0;
  double temperature;

  g_signal_connect (bin, "notify::temperature", G_CALLBACK (count), &told);
  gst_child_proxy_set (GST_CHILD_PROXY (bin), "decode::temperature", 0.5, NULL);
  fail_unless_equals_int (told, 1);
  g_object_get (bin, "temperature", &temperature, NULL);
  fail_unless (temperature == 0.5);
  g_object_set (bin, "temperature", 0.25, NULL);
  fail_unless_equals_int (told, 2);
  gst_child_proxy_get (GST_CHILD_PROXY (bin), "decode::temperature", &temperature, NULL);
  fail_unless (temperature == 0.25);
  g_signal_connect (bin, "notify::model-path", G_CALLBACK (count), &told);
  g_object_set (bin, "model-path", "m", NULL);
  fail_unless_equals_int (told, 3);     /* four children have it; it changed once */
}
GST_END_TEST;

GST_START_TEST (test_the_language_is_told_once_a_stream)
{
  GstHarness *h = harness ("tlgenerate model-path=m language=de");
  g_autoptr (GstEvent) tag = NULL;
  g_autofree char *language = NULL;
  GstTagList *tags;

  fake_engine_script (ABC);
  push_text (h, "x");
  tag = wait_event (h, NULL, GST_EVENT_TAG);
  gst_event_parse_tag (tag, &tags);
  fail_unless (gst_tag_list_get_string (tags, GST_TAG_LANGUAGE_CODE, &language));
  fail_unless_equals_string (language, "de");
  fail_unless_ends (h, "eos");
  gst_harness_teardown (h);
}
GST_END_TEST;

static Suite *
properties_suite (void)
{
  Suite *suite = suite_create ("properties");
  TCase *tests = tcase_create ("properties");

  tl_plugin_register (NULL);
  suite_add_tcase (suite, tests);
  tcase_add_checked_fixture (tests, fake_engine_reset, NULL);
  tcase_add_test (tests, test_every_property_says_what_it_is);
  tcase_add_test (tests, test_every_element_has_a_page_that_is_true);
  tcase_add_test (tests, test_presets_set_how_to_generate);
  tcase_add_test (tests, test_the_bin_tells_of_a_childs_property);
  tcase_add_test (tests, test_the_language_is_told_once_a_stream);
  return suite;
}

STORY_MAIN (properties)
