/* tools/main.c — `tinyloop SUBCOMMAND …`: finds the sub-command; what they share. */
#include <stdio.h>
#include <string.h>

#include "tool.h"

static const Tool tools[] = {
  { "convert", "a Hugging Face folder or GGUF file to a .tinyloop checkpoint", tool_convert },
  { "generate", "the continuation of a prompt", tool_generate },
  { "bench", "speed, and how near it is to what memory allows", tool_bench },
  { "inspect", "what a checkpoint is", tool_inspect },
  { "score", "logits of given ids", tool_score },
  { "tokenize", "text to token ids and back", tool_tokenize },
};

int
tool_failed (GError *error)
{
  gboolean named = g_str_has_prefix (error->message, "tinyloop: ");
  fprintf (stderr, "%s%s\n", named ? "" : "tinyloop: ", error->message);
  g_error_free (error);
  return 1;
}

gboolean
tool_parse (const char *usage, const GOptionEntry *entries, int *argc, char ***argv, int n_positional)
{
  g_autoptr (GOptionContext) context = g_option_context_new (usage);
  GError *error = NULL;
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, &error))
    {
      tool_failed (error);
      return FALSE;
    }
  if (*argc == n_positional + 1)
    return TRUE;
  g_autofree char *help = g_option_context_get_help (context, TRUE, NULL);
  fprintf (stderr, "tinyloop: %d argument%s expected\n%s", n_positional, n_positional == 1 ? "" : "s", help);
  return FALSE;
}

static int
usage (FILE *to, int status)
{
  fputs ("Usage: tinyloop COMMAND …\n\n", to);
  for (guint i = 0; i < G_N_ELEMENTS (tools); i++)
    fprintf (to, "  %-10s %s\n", tools[i].name, tools[i].summary);
  fputs ("\n'tinyloop COMMAND --help' tells a command's options.\n", to);
  return status;
}

int
main (int argc, char **argv)
{
  if (argc < 2)
    return usage (stderr, 2);
  if (g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h"))
    return usage (stdout, 0);
  for (guint i = 0; i < G_N_ELEMENTS (tools); i++)
    if (g_str_equal (argv[1], tools[i].name))
      {
        g_autofree char *name = g_strdup_printf ("tinyloop %s", tools[i].name);
        g_set_prgname (name);
        return tools[i].run (argc - 1, argv + 1);
      }
  fprintf (stderr, "tinyloop: no command '%s'\n", argv[1]);
  return usage (stderr, 2);
}
