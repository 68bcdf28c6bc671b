/* tools/tool.h — the sub-commands of `tinyloop`. Each returns its exit status and has reported its error on stderr.
 *
 * Exit status: 0 done, 1 it failed, 2 it was asked wrongly (options, number of arguments).
 */
#pragma once

#include "tinyloop.h"

typedef struct { const char *name, *summary; int (*run) (int argc, char **argv); } Tool;

int tool_bench (int argc, char **argv);
int tool_convert (int argc, char **argv);
int tool_export_gguf (int argc, char **argv);
int tool_generate (int argc, char **argv);
int tool_grammar (int argc, char **argv);
int tool_inspect (int argc, char **argv);
int tool_score (int argc, char **argv);
int tool_tokenize (int argc, char **argv);

/* prints "tinyloop: …" in one line and frees the error; returns 1, or 2 for an error of options */
int tool_failed (GError *error);
/* the same for a value that an option does not take; returns 2 */
int tool_bad_usage (GError *error);
/* FALSE with an error that names the option */
gboolean tool_check_not_negative (const char *option, gint64 value, GError **error);
/* Parses options and takes the arguments that @usage names ("SRC DST - what it does"); group may be NULL and is taken.
 * FALSE after reporting. */
gboolean tool_parse (const char *usage, const GOptionEntry *entries, GOptionGroup *group, int *argc, char ***argv);
#define TOOL_OPTION_JSON(flag) \
  { "json", 0, 0, G_OPTION_ARG_NONE, &flag, "print one JSON value and nothing else", NULL }
/* a bar on stderr when that is a terminal, else NULL */
TlProgressFunc tool_progress (void);
/* every writable parameter of a TlGenerateConfig as an option */
GOptionGroup *tool_config_options (gpointer config);
/* "1,2,3" to native int32 ids */
GBytes *tool_parse_ids (const char *text, GError **error);
