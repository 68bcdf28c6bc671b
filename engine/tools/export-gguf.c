/* tools/export-gguf.c — `tinyloop export-gguf SRC DST`: the loop unrolled, for programs that know no loops. */
#include <stdio.h>

#include <glib/gstdio.h>

#include "options.h"
#include "tool.h"

static gboolean
export_file (const char *src, const char *dst, guint loops, TlExportFlags flags, gboolean json, GError **error)
{
  GStatBuf status;
  if (!tl_export_gguf (src, dst, loops, flags, tool_progress (), NULL, NULL, error))
    return FALSE;
  gint64 size = g_stat (dst, &status) == 0 ? status.st_size : 0;
  if (!json) {
    printf ("%s: %.2f MB\n", dst, size / 1e6);
    return TRUE;
  }
  g_autoptr (GString) out = g_string_new ("{\"output\": ");
  tool_append_json_string (out, dst);
  printf ("%s, \"bytes\": %" G_GINT64_FORMAT "}\n", out->str, size);
  return TRUE;
}

int
tool_export_gguf (int argc, char **argv)
{
  GError *error = NULL;
  gboolean json = FALSE, without_tokenizer = FALSE;
  int loops = 0;
  const GOptionEntry entries[] = {
    { "loops", 0, 0, G_OPTION_ARG_INT, &loops, "how often the loop blocks are written, 0 = the model's default", "N" },
    { "without-tokenizer", 0, 0, G_OPTION_ARG_NONE, &without_tokenizer, "weights only", NULL },
    TOOL_OPTION_JSON (json), G_OPTION_ENTRY_NULL };
  if (!tool_parse ("SRC DST - a .tinyloop as a GGUF file with the loop unrolled", entries, NULL, &argc, &argv))
    return 2;
  if (!tool_check_not_negative ("loops", loops, &error))
    return tool_bad_usage (error);
  return export_file (argv[1], argv[2], loops, without_tokenizer ? TL_EXPORT_WITHOUT_TOKENIZER : 0, json, &error) ? 0
      : tool_failed (error);
}
