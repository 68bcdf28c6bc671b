/* engine/text/tl-jinja-render.h — runs a parsed template over variables. */
#pragma once

#include "text/tl-jinja-parse.h"

G_BEGIN_DECLS

/* @variables: a DICT. NULL on an error */
char *tl_jinja_render (const TlJinjaTree *tree, TlJinjaRun *run, TlJinjaValue *variables);

G_END_DECLS
