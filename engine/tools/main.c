/* tools/main.c — `tinyloop SUBCOMMAND …`: finds the sub-command; what they share. */
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static const Tool tools[] = {
  { "convert", "a Hugging Face folder or GGUF file to a .tinyloop checkpoint", tool_convert },
  { "generate", "the continuation of a prompt", tool_generate },
  { "bench", "speed, and how near it is to what memory allows", tool_bench },
  { "export-gguf", "a GGUF file with the loop unrolled", tool_export_gguf },
  { "grammar", "the token ids that a grammar allows, or whether a text matches it", tool_grammar },
  { "inspect", "what a checkpoint is", tool_inspect },
  { "score", "logits of given ids, and how they come about by depth", tool_score },
  { "tokenize", "text to token ids and back", tool_tokenize },
};

int
tool_failed (GError *error)
{
  gboolean named = g_str_has_prefix (error->message, "tinyloop: ");
  int status = error->domain == G_OPTION_ERROR ? 2 : 1;
  g_autofree char *line = g_strdelimit (g_strdup (error->message), "\r\n", ' ');
  fprintf (stderr, "%s%s%s\n", named ? "" : "tinyloop: ", line, status == 2 ? "; see --help" : "");
  g_error_free (error);
  return status;
}

int
tool_bad_usage (GError *error)
{
  error->domain = G_OPTION_ERROR;
  return tool_failed (error);
}

gboolean
tool_check_not_negative (const char *option, gint64 value, GError **error)
{
  if (value < 0)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--%s is %" G_GINT64_FORMAT ", but must not be negative",
        option, value);
  return value >= 0;
}

/* words of "SRC DST - what it does" before the dash */
static int
count_arguments (const char *usage)
{
  g_auto (GStrv) words = g_strsplit (usage, " ", -1);
  int n = 0;
  while (words[n] && !g_str_equal (words[n], "-"))
    n++;
  return n;
}

gboolean
tool_parse (const char *usage, const GOptionEntry *entries, GOptionGroup *group, int *argc, char ***argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new (usage);
  GError *error = NULL;
  int n = count_arguments (usage);
  g_option_context_add_main_entries (context, entries, NULL);
  if (group)
    g_option_context_add_group (context, group);
  g_option_context_set_description (context, "Exit status: 0 done, 1 failed, 2 asked wrongly.");
  if (g_option_context_parse (context, argc, argv, &error) && *argc != n + 1)
    g_set_error (&error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED, "%d argument%s given, but '%s %.*s' takes %d", *argc - 1,
        *argc == 2 ? "" : "s", g_get_prgname (), (int) (strstr (usage, " - ") - usage), usage, n);
  if (error)
    tool_failed (error);
  return error == NULL;
}

static void
show_progress (double fraction, gpointer data)
{
  enum { WIDTH = 40 };
  int full = fraction * WIDTH;
  if (fraction < 1)
    fprintf (stderr, "\r[%.*s%*s] %3.0f %%", full, "========================================", WIDTH - full, "", fraction * 100);
  else
    fprintf (stderr, "\r%*s\r", WIDTH + 8, "");
}

TlProgressFunc
tool_progress (void)
{
  return isatty (STDERR_FILENO) ? show_progress : NULL;
}

static int
usage (FILE *to, int status)
{
  fputs ("Usage: tinyloop COMMAND …\n\n", to);
  for (guint i = 0; i < G_N_ELEMENTS (tools); i++)
    fprintf (to, "  %-12s %s\n", tools[i].name, tools[i].summary);
  fputs ("\n'tinyloop COMMAND --help' tells a command's options, 'tinyloop --version' the version.\n", to);
  return status;
}

/* what could not be written is not done */
static int
check_output (int status)
{
  if (fflush (stdout) == 0 && !ferror (stdout))
    return status;
  fputs ("tinyloop: standard output could not be written; is the disk full?\n", stderr);
  return status ? status : 1;
}

int
main (int argc, char **argv)
{
  /* options are UTF-8 in every environment, numbers have a point */
  setlocale (LC_CTYPE, "C.UTF-8");
  if (argc < 2)
    return usage (stderr, 2);
  if (g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h"))
    return check_output (usage (stdout, 0));
  if (g_str_equal (argv[1], "--version"))
    return check_output (puts ("tinyloop " TL_VERSION) < 0);
  for (guint i = 0; i < G_N_ELEMENTS (tools); i++)
    if (g_str_equal (argv[1], tools[i].name))
      {
        g_autofree char *name = g_strdup_printf ("tinyloop %s", tools[i].name);
        g_set_prgname (name);
        return check_output (tools[i].run (argc - 1, argv + 1));
      }
  fprintf (stderr, "tinyloop: there is no command '%s'; 'tinyloop --help' lists them\n", argv[1]);
  return 2;
}
