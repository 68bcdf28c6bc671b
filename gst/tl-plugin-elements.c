/* gst/tl-plugin-elements.c — the elements and metas of the plugin. Touches no device and opens no file: scanners run it. */
#include "tl-plugin.h"
#include "gsttldecode.h"
#include "gsttldetokenize.h"
#include "gsttlgenerate.h"
#include "gsttlgrammar.h"
#include "gsttlprefill.h"
#include "gsttlsink.h"
#include "gsttltokenize.h"
#include "tl-token-meta.h"

gboolean
tl_plugin_register (GstPlugin *plugin)
{
  tl_token_meta_register ();
  return GST_ELEMENT_REGISTER (tltokenize, plugin) && GST_ELEMENT_REGISTER (tlgrammar, plugin)
      && GST_ELEMENT_REGISTER (tlprefill, plugin) && GST_ELEMENT_REGISTER (tldecode, plugin)
      && GST_ELEMENT_REGISTER (tldetokenize, plugin)
      && GST_ELEMENT_REGISTER (tlsink, plugin) && GST_ELEMENT_REGISTER (tlgenerate, plugin);
}
