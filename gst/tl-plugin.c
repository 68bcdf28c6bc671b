/* gst/tl-plugin.c — the entry of libgsttinyloop.so; what it registers is in tl-plugin-elements.c. */
#include "tl-plugin.h"

#define PACKAGE "tinyloop"

static gboolean
plugin_init (GstPlugin *plugin)
{
  return tl_plugin_register (plugin);
}

GST_PLUGIN_DEFINE (GST_VERSION_MAJOR, GST_VERSION_MINOR, tinyloop, "Looped language models", plugin_init, TL_VERSION,
    "LGPL", "TinyLoop", "Unknown package origin")
