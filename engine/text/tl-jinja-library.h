/* engine/text/tl-jinja-library.h — the filters, tests and methods a chat template may call. */
#pragma once

#include "text/tl-jinja-value.h"

G_BEGIN_DECLS

/* arguments of a call: by place, and by name in a DICT */
typedef struct
{
  TlJinjaValue **items;
  gsize length;
  TlJinjaValue *named;
} TlJinjaArguments;

TlJinjaValue *tl_jinja_call_filter (TlJinjaRun *run, const char *name, TlJinjaValue *value, const TlJinjaArguments *args);
TlJinjaValue *tl_jinja_call_test (TlJinjaRun *run, const char *name, TlJinjaValue *value, const TlJinjaArguments *args);
TlJinjaValue *tl_jinja_call_method (TlJinjaRun *run, const char *name, TlJinjaValue *value, const TlJinjaArguments *args);
TlJinjaValue *tl_jinja_argument (const TlJinjaArguments *args, gsize place, const char *name);
TlJinjaValue *tl_jinja_elements (TlJinjaRun *run, TlJinjaValue *value);

G_END_DECLS
