/* tools/convert.c — `tinyloop convert SRC DST`. */
#include <stdio.h>

#include "tool.h"

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
    TOOL_OPTION_JSON (json), G_OPTION_ENTRY_NULL,
  };
  if (!tool_parse ("SRC DST - a Hugging Face folder or GGUF file as a .tinyloop checkpoint", entries, NULL, &argc, &argv))
    return 2;
  if (!tool_check_not_negative ("group", group, &error))
    return tool_failed (error);
  if (!tl_convert_file (argv[1], argv[2], quantize ? quantize : "none", group, (const char *const *) keep,
          tool_progress (), NULL, NULL, &error))
    return tool_failed (error);
  g_autofree char *text = tl_inspect_file (argv[2], json ? TL_INSPECT_JSON : TL_INSPECT_NONE, &error);
  if (!text)
    return tool_failed (error);
  puts (text);
  return 0;
}
