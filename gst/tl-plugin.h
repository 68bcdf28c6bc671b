/* gst/tl-plugin.h — registers everything of the plugin; called by plugin_init and by tests that link it statically. */
#pragma once

#include <gst/gst.h>

gboolean tl_plugin_register (GstPlugin *plugin);
