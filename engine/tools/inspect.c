/* tools/inspect.c — `tinyloop inspect FILE`. */
#include <stdio.h>

#include "tl-convert.h"
#include "tool.h"

int
tool_inspect (int argc, char **argv)
{
  gboolean json = FALSE, verify = FALSE;
  GError *error = NULL;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "as one JSON object", NULL },
    { "verify", 0, 0, G_OPTION_ARG_NONE, &verify, "read every byte and compare with the content hash", NULL },
    G_OPTION_ENTRY_NULL,
  };
  if (!tool_parse ("FILE", entries, &argc, &argv, 1))
    return 2;
  g_autofree char *text = tl_inspect_file (argv[1], (json ? TL_INSPECT_JSON : 0) | (verify ? TL_INSPECT_VERIFY : 0), &error);
  if (!text)
    return tool_failed (error);
  puts (text);
  return 0;
}
