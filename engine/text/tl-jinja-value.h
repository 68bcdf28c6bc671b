/* engine/text/tl-jinja-value.h — the values of a chat template's run, all owned by one arena that ends with the run.
 *
 * The arena counts bytes and steps, so no template can take the machine. Used by the files of the interpreter.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TL_JINJA_UNDEFINED,
  TL_JINJA_NONE,
  TL_JINJA_BOOL,
  TL_JINJA_INT,
  TL_JINJA_FLOAT,
  TL_JINJA_STRING,
  TL_JINJA_LIST,
  TL_JINJA_DICT,                /* also namespaces and `loop` */
} TlJinjaKind;

typedef struct _TlJinjaValue TlJinjaValue;

struct _TlJinjaValue
{
  TlJinjaKind kind;
  gint64 number;                /* INT, BOOL */
  double real;
  const char *text;             /* STRING (NUL-terminated), or the name of what is undefined */
  gsize length;                 /* bytes of STRING, elements of LIST and DICT */
  TlJinjaValue **items;         /* LIST elements, DICT values */
  TlJinjaValue **keys;          /* DICT */
  gsize capacity;
  gboolean is_namespace;        /* `set ns.x` is allowed */
};

typedef struct
{
  GPtrArray *blocks;
  gsize bytes, steps;
  guint line;                   /* of the construct being run, for messages */
  GError **error;
} TlJinjaRun;

void tl_jinja_run_init (TlJinjaRun *run, GError **error);
void tl_jinja_run_clear (TlJinjaRun *run);
gpointer tl_jinja_alloc (TlJinjaRun *run, gsize size);
gboolean tl_jinja_step (TlJinjaRun *run);
TlJinjaValue *tl_jinja_fail (TlJinjaRun *run, int code, const char *format, ...) G_GNUC_PRINTF (3, 4);

TlJinjaValue *tl_jinja_none (TlJinjaRun *run);
TlJinjaValue *tl_jinja_undefined (TlJinjaRun *run, const char *name);
TlJinjaValue *tl_jinja_bool (TlJinjaRun *run, gboolean value);
TlJinjaValue *tl_jinja_int (TlJinjaRun *run, gint64 value);
TlJinjaValue *tl_jinja_float (TlJinjaRun *run, double value);
TlJinjaValue *tl_jinja_string (TlJinjaRun *run, const char *text, gssize length);
TlJinjaValue *tl_jinja_list (TlJinjaRun *run);
TlJinjaValue *tl_jinja_dict (TlJinjaRun *run);
gboolean tl_jinja_append (TlJinjaRun *run, TlJinjaValue *list, TlJinjaValue *item);
gboolean tl_jinja_put (TlJinjaRun *run, TlJinjaValue *dict, TlJinjaValue *key, TlJinjaValue *item);
gboolean tl_jinja_put_name (TlJinjaRun *run, TlJinjaValue *dict, const char *key, TlJinjaValue *item);
TlJinjaValue *tl_jinja_lookup (const TlJinjaValue *dict, const TlJinjaValue *key);
TlJinjaValue *tl_jinja_lookup_name (const TlJinjaValue *dict, const char *key);

gboolean tl_jinja_truth (const TlJinjaValue *value);
gboolean tl_jinja_equal (const TlJinjaValue *a, const TlJinjaValue *b);
void tl_jinja_print (const TlJinjaValue *value, gboolean quoted, guint depth, GString *out);
void tl_jinja_print_json (const TlJinjaValue *value, gint64 indent, guint depth, GString *out);
TlJinjaValue *tl_jinja_to_string (TlJinjaRun *run, const TlJinjaValue *value);

G_END_DECLS
