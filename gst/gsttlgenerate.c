/* gst/gsttlgenerate.c — tlgenerate: tltokenize ! tlgrammar ! tldecode ! tldetokenize behind one set of properties.
 *
 * gst-launch-1.0 fdsrc ! tlgenerate model-path=demo.tinyloop ! fdsink
 *
 * The children are named tokenize, grammar, decode and detokenize. A property goes to every child that has it by that
 * name; controllers are bound to the child `decode`. Actions are those of tldecode.
 */
#include "gsttlgenerate.h"
#include "gsttldecode.h"
#include "gsttldetokenize.h"
#include "gsttlgrammar.h"
#include "gsttltokenize.h"
#include "tl-caps.h"
#include "tl-properties.h"

static GstStaticPadTemplate sink_template =
GST_STATIC_PAD_TEMPLATE ("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TEXT_IN_CAPS));
static GstStaticPadTemplate src_template =
GST_STATIC_PAD_TEMPLATE ("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS (GST_TL_TEXT_CAPS));

enum { TOKENIZE, GRAMMAR, DECODE, DETOKENIZE, N_CHILDREN };

struct _GstTlGenerate
{
  GstBin parent;
  GstElement *children[N_CHILDREN];     /* owned by the bin */
};

G_DEFINE_FINAL_TYPE_WITH_CODE (GstTlGenerate, gst_tl_generate, GST_TYPE_BIN,
    G_IMPLEMENT_INTERFACE (GST_TYPE_PRESET, tl_properties_init_preset))
GST_ELEMENT_REGISTER_DEFINE (tlgenerate, "tlgenerate", GST_RANK_NONE, GST_TYPE_TL_GENERATE)

/* ---- actions */

static void
gst_tl_generate_cancel (GstTlGenerate *self, gboolean flush)
{
  g_signal_emit_by_name (self->children[DECODE], "cancel", flush);
}

static void
gst_tl_generate_reset (GstTlGenerate *self)
{
  g_signal_emit_by_name (self->children[DECODE], "reset");
}

static void
gst_tl_generate_truncate (GstTlGenerate *self, guint64 prompt_id, guint index)
{
  g_signal_emit_by_name (self->children[DECODE], "truncate", prompt_id, index);
}

/* ---- properties */

static gboolean
child_has (GstElement *child, const char *name)
{
  return g_object_class_find_property (G_OBJECT_GET_CLASS (child), name) != NULL;
}

static void
gst_tl_generate_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  GstTlGenerate *self = GST_TL_GENERATE (object);

  for (guint i = 0; i < N_CHILDREN; i++)
    if (child_has (self->children[i], pspec->name))
      g_object_set_property (G_OBJECT (self->children[i]), pspec->name, value);
}

static void
gst_tl_generate_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  GstTlGenerate *self = GST_TL_GENERATE (object);

  for (guint i = 0; i < N_CHILDREN; i++)
    if (child_has (self->children[i], pspec->name)) {
      g_object_get_property (G_OBJECT (self->children[i]), pspec->name, value);
      return;
    }
}

/* a child's property changed, by whatever way: so did the bin's of that name */
static void
on_child_notify (GObject *child, GParamSpec *pspec, GstTlGenerate *self)
{
  GParamSpec *own = g_object_class_find_property (G_OBJECT_GET_CLASS (self), pspec->name);

  if (own && own->owner_type == GST_TYPE_TL_GENERATE)
    g_object_notify_by_pspec (G_OBJECT (self), own);
}

/* ---- class */

static void
gst_tl_generate_class_init (GstTlGenerateClass *klass)
{
  GObjectClass *object = G_OBJECT_CLASS (klass);
  GstElementClass *element = GST_ELEMENT_CLASS (klass);
  GType type = G_TYPE_FROM_CLASS (klass);
  GSignalFlags flags = G_SIGNAL_RUN_LAST | G_SIGNAL_ACTION;

  object->set_property = gst_tl_generate_set_property;
  object->get_property = gst_tl_generate_get_property;
  tl_properties_install (object, TL_ON_TOKENIZE | TL_ON_GRAMMAR | TL_ON_DECODE | TL_ON_DETOKENIZE);
  g_signal_new_class_handler ("cancel", type, flags, G_CALLBACK (gst_tl_generate_cancel), NULL, NULL, NULL,
      G_TYPE_NONE, 1, G_TYPE_BOOLEAN);
  g_signal_new_class_handler ("reset", type, flags, G_CALLBACK (gst_tl_generate_reset), NULL, NULL, NULL,
      G_TYPE_NONE, 0);
  g_signal_new_class_handler ("truncate", type, flags, G_CALLBACK (gst_tl_generate_truncate), NULL, NULL, NULL,
      G_TYPE_NONE, 2, G_TYPE_UINT64, G_TYPE_UINT);
  gst_element_class_add_static_pad_template (element, &sink_template);
  gst_element_class_add_static_pad_template (element, &src_template);
  gst_element_class_set_static_metadata (element, "Language model", "Text/LLM/Filter",
      "Answers text with text, token by token", "The TinyLoop authors");
}

static void
add_ghost (GstTlGenerate *self, const char *name, GstElement *child)
{
  g_autoptr (GstPad) target = gst_element_get_static_pad (child, name);
  g_autoptr (GstPadTemplate) template = gst_static_pad_template_get (name[1] == 'i' ? &sink_template : &src_template);

  gst_element_add_pad (GST_ELEMENT (self), gst_ghost_pad_new_from_template (name, target, template));
}

static void
gst_tl_generate_init (GstTlGenerate *self)
{
  const GType types[N_CHILDREN] = { GST_TYPE_TL_TOKENIZE, GST_TYPE_TL_GRAMMAR, GST_TYPE_TL_DECODE,
    GST_TYPE_TL_DETOKENIZE };
  static const char *names[N_CHILDREN] = { "tokenize", "grammar", "decode", "detokenize" };

  for (guint i = 0; i < N_CHILDREN; i++) {
    self->children[i] = g_object_new (types[i], "name", names[i], NULL);
    g_signal_connect_object (self->children[i], "notify", G_CALLBACK (on_child_notify), self, 0);
    gst_bin_add (GST_BIN (self), self->children[i]);
    if (i > 0)
      gst_element_link_pads (self->children[i - 1], "src", self->children[i], "sink");
  }
  add_ghost (self, "sink", self->children[TOKENIZE]);
  add_ghost (self, "src", self->children[DETOKENIZE]);
}
