/* tools/config-options.c — every parameter of a generation as a command line option, from the object's own properties.
 *
 * A parameter that the library gains is an option at once: name, type, range and help come from its GParamSpec.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "decode/tl-generate-config.h"
#include "tool.h"

/* what stands for the value in the help: the names of an enum, nothing for a flag, else a word */
static const char *
value_name (GParamSpec *pspec)
{
  if (pspec->value_type == G_TYPE_BOOLEAN)
    return NULL;
  if (!G_IS_PARAM_SPEC_ENUM (pspec))
    return pspec->value_type == G_TYPE_STRV ? "TEXT" : "VALUE";
  GEnumClass *names = G_PARAM_SPEC_ENUM (pspec)->enum_class;
  g_autoptr (GString) all = g_string_new (NULL);
  for (guint i = 0; i < names->n_values; i++)
    g_string_append_printf (all, "%s%s", i ? "|" : "", names->values[i].value_nick);
  return g_intern_string (all->str);
}

static gboolean
bad_value (GParamSpec *pspec, const char *text, GError **error)
{
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--%s=%s: '%s' is not a value it takes (%s)", pspec->name,
      value_name (pspec), text, g_param_spec_get_blurb (pspec));
  return FALSE;
}

static gboolean
set_number (GValue *value, GParamSpec *pspec, const char *text, GError **error)
{
  char *end;
  errno = 0;
  if (G_IS_PARAM_SPEC_FLOAT (pspec) || G_IS_PARAM_SPEC_DOUBLE (pspec))
    {
      double number = g_ascii_strtod (text, &end);
      if (G_VALUE_HOLDS_FLOAT (value))
        g_value_set_float (value, number);
      else
        g_value_set_double (value, number);
    }
  else
    {
      guint64 number = g_ascii_strtoull (text, &end, 10);
      if (G_VALUE_HOLDS_UINT64 (value))
        g_value_set_uint64 (value, number);
      else if (G_VALUE_HOLDS_UINT (value) && number <= G_MAXUINT)
        g_value_set_uint (value, number);
      else if (G_VALUE_HOLDS_INT (value) && number <= G_MAXINT)
        g_value_set_int (value, number);
      else
        return bad_value (pspec, text, error);
    }
  /* validation changes a value that is out of range: then it was none it takes */
  if (errno || *end || end == text || *text == '-' || g_param_value_validate (pspec, value))
    return bad_value (pspec, text, error);
  return TRUE;
}

static gboolean
set_enum (GValue *value, GParamSpec *pspec, const char *text, GError **error)
{
  GEnumValue *entry = g_enum_get_value_by_nick (G_PARAM_SPEC_ENUM (pspec)->enum_class, text);
  if (!entry)
    return bad_value (pspec, text, error);
  g_value_set_enum (value, entry->value);
  return TRUE;
}

/* one more element of a list parameter */
static void
append_string (GObject *config, GParamSpec *pspec, const char *text)
{
  g_auto (GStrv) old = NULL;
  g_object_get (config, pspec->name, &old, NULL);
  guint n = old ? g_strv_length (old) : 0;
  g_autofree char **longer = g_new0 (char *, n + 2);
  for (guint i = 0; i < n; i++)
    longer[i] = old[i];
  longer[n] = (char *) text;
  g_object_set (config, pspec->name, longer, NULL);
}

static gboolean
set_option (const char *option, const char *text, gpointer data, GError **error)
{
  GObject *config = data;
  GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (config), option + 2);
  g_auto (GValue) value = G_VALUE_INIT;
  if (pspec->value_type == G_TYPE_STRV)
    {
      append_string (config, pspec, text);
      return TRUE;
    }
  g_value_init (&value, pspec->value_type);
  if (pspec->value_type == G_TYPE_BOOLEAN)
    g_value_set_boolean (&value, TRUE);
  else if (G_IS_PARAM_SPEC_ENUM (pspec) ? !set_enum (&value, pspec, text, error) : !set_number (&value, pspec, text, error))
    return FALSE;
  g_object_set_property (config, pspec->name, &value);
  return TRUE;
}

GOptionGroup *
tool_config_options (gpointer config)
{
  guint n, used = 0;
  g_autofree GParamSpec **pspecs = g_object_class_list_properties (G_OBJECT_GET_CLASS (config), &n);
  GOptionEntry *entries = g_new0 (GOptionEntry, n + 1);
  for (guint i = 0; i < n; i++)
    {
      GType type = pspecs[i]->value_type;
      gboolean known = type == G_TYPE_STRV || type == G_TYPE_BOOLEAN || G_TYPE_IS_ENUM (type) || type == G_TYPE_UINT
          || type == G_TYPE_INT || type == G_TYPE_UINT64 || type == G_TYPE_FLOAT || type == G_TYPE_DOUBLE;
      if (!known || !(pspecs[i]->flags & G_PARAM_WRITABLE))
        continue;
      entries[used++] = (GOptionEntry) { pspecs[i]->name, 0, type == G_TYPE_BOOLEAN ? G_OPTION_FLAG_NO_ARG : 0,
        G_OPTION_ARG_CALLBACK, set_option, g_param_spec_get_blurb (pspecs[i]), value_name (pspecs[i]) };
    }
  GOptionGroup *group = g_option_group_new ("parameters", "Parameters of the generation:",
      "Show the parameters of the generation", config, NULL);
  g_option_group_add_entries (group, entries);
  g_free (entries);
  return group;
}
