/* tools/tool.h — the sub-commands of `tinyloop`. Each returns its exit status and has reported its error on stderr. */
#pragma once

#include <glib-object.h>

typedef struct { const char *name, *summary; int (*run) (int argc, char **argv); } Tool;

int tool_bench (int argc, char **argv);
int tool_convert (int argc, char **argv);
int tool_generate (int argc, char **argv);
int tool_inspect (int argc, char **argv);
int tool_score (int argc, char **argv);
int tool_tokenize (int argc, char **argv);

/* prints "tinyloop: …" in one line and frees the error; returns 1 */
int tool_failed (GError *error);
/* parses options of a sub-command with exactly n_positional arguments; FALSE after reporting */
gboolean tool_parse (const char *usage, const GOptionEntry *entries, int *argc, char ***argv, int n_positional);
/* every writable parameter of a TlGenerateConfig as an option */
GOptionGroup *tool_config_options (gpointer config);
/* "1,2,3" to native int32 ids */
GBytes *tool_parse_ids (const char *text, GError **error);
