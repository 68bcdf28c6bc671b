/* tools/options.h — options that sub-commands share: which model, which ids, how to generate. */
#pragma once

#include "tinyloop.h"

typedef struct
{
  /* model */
  char *device;
  int threads, max_seq_len;
  gint64 max_cache_bytes;
  gboolean json;
  /* input */
  char *prompt, *system, *tokens;
  gboolean raw, special;
  char **stop_sequences;
  TlGenerateConfig *config;     /* every parameter of a generation */
} ToolOptions;

typedef enum { TOOL_OPTIONS_MODEL = 1, TOOL_OPTIONS_INPUT = 2 } ToolOptionSets;

void tool_options_init (ToolOptions *o);
void tool_options_clear (ToolOptions *o);
/* parses the sets and `own` entries; FALSE after reporting */
gboolean tool_options_parse (ToolOptions *o, const char *usage, ToolOptionSets sets, const GOptionEntry *own, int *argc,
  char ***argv);
TlModel *tool_options_load (const ToolOptions *o, const char *path, GError **error);
GBytes *tool_options_ids (const ToolOptions *o, TlModel *model, GError **error);
void tool_append_ids (GString *out, GBytes *ids);
void tool_append_json_string (GString *out, const char *text);
