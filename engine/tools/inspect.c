/* tools/inspect.c — `tinyloop inspect FILE`: text, JSON, or a drawing. */
#include <stdio.h>

#include "tool.h"

static gboolean
write_drawing (const char *path, const char *svg, GError **error)
{
  g_autofree char *drawing = tl_inspect_file (path, TL_INSPECT_SVG, error);
  return drawing && g_file_set_contents (svg, drawing, -1, error);
}

int
tool_inspect (int argc, char **argv)
{
  gboolean json = FALSE, verify = FALSE;
  g_autofree char *svg = NULL;
  GError *error = NULL;
  const GOptionEntry entries[] = {
    { "verify", 0, 0, G_OPTION_ARG_NONE, &verify, "read every byte and compare with the content hash", NULL },
    { "svg", 0, 0, G_OPTION_ARG_FILENAME, &svg, "also draw the model", "F.svg" },
    TOOL_OPTION_JSON (json), G_OPTION_ENTRY_NULL,
  };
  if (!tool_parse ("FILE - what a checkpoint is", entries, NULL, &argc, &argv))
    return 2;
  g_autofree char *text = tl_inspect_file (argv[1], (json ? TL_INSPECT_JSON : 0) | (verify ? TL_INSPECT_VERIFY : 0), &error);
  if (!text)
    return tool_failed (error);
  if (svg && !write_drawing (argv[1], svg, &error))
    return tool_failed (error);
  puts (text);
  return 0;
}
