/* tools/convert.c — `tinyloop convert SRC DST`. */
#include <stdio.h>
#include <unistd.h>

#include "tl-convert.h"
#include "tool.h"

static void
show_progress (double fraction, gpointer data)
{
  fprintf (stderr, "\r%3.0f %%%s", fraction * 100, fraction < 1 ? "" : "\r     \r");
}

int
tool_convert (int argc, char **argv)
{
  g_autofree char *quantize = NULL;
  g_auto (GStrv) keep = NULL;
  gint group = 0;
  gboolean json = FALSE;
  GError *error = NULL;
  const GOptionEntry entries[] = {
    { "quantize", 0, 0, G_OPTION_ARG_STRING, &quantize, "none (default), int8 or int4", "FORMAT" },
    { "group", 0, 0, G_OPTION_ARG_INT, &group, "inputs per scale: 32, 64, 128; 0 = rows (int8) or 32 (int4)", "N" },
    { "keep", 0, 0, G_OPTION_ARG_STRING_ARRAY, &keep, "do not quantise tensors whose name begins so", "NAME" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "describe the result as JSON", NULL },
    G_OPTION_ENTRY_NULL,
  };
  if (!tool_parse ("SRC DST", entries, &argc, &argv, 2))
    return 2;
  if (!tl_convert_file (argv[1], argv[2], quantize ? quantize : "none", MAX (group, 0), (const char *const *) keep,
          isatty (STDERR_FILENO) ? show_progress : NULL, NULL, NULL, &error))
    return tool_failed (error);
  g_autofree char *text = tl_inspect_file (argv[2], json ? TL_INSPECT_JSON : TL_INSPECT_NONE, &error);
  if (!text)
    return tool_failed (error);
  puts (text);
  return 0;
}
