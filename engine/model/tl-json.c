/* model/tl-json.c — checks a JSON text before json-glib sees it. Called by every reader of JSON in model/ and import/. */
#include "model/tl-json.h"

#include <string.h>

/* index after the closing quote, or `length` + 1 when the string does not end */
static gsize
skip_string (const char *text, gsize length, gsize i)
{
  for (i++; i < length; i++)
    {
      if (text[i] == '\\')
        i++;
      else if (text[i] == '"')
        return i + 1;
    }
  return length + 1;
}

/* NULL when the text is one object within the limits, else what is wrong with it */
static const char *
find_fault (const char *text, gsize length, gsize max_values)
{
  gsize values = 0, i = 0;
  guint depth = 0;
  gboolean closed = FALSE;

  while (i < length)
    {
      char c = text[i];
      if (c == '\0')
        return "contains a zero byte";
      if (strchr (" \t\r\n", c) != NULL)
        {
          i++;
          continue;
        }
      if (closed)
        return "goes on after its end";
      if (depth == 0 && c != '{')
        return "does not begin with '{'";
      if (c == '/' || c == '=')
        return "contains something that is not JSON";
      if (c == '"')
        {
          i = skip_string (text, length, i);
          if (i > length)
            return "has a string without end";
          continue;
        }
      if (c == '{' || c == '[')
        {
          values++;
          if (++depth > TL_JSON_MAX_DEPTH)
            return "is nested too deeply";
        }
      else if (c == '}' || c == ']')
        closed = --depth == 0;
      else if (c == ',')
        values++;
      if (values > max_values)
        return "has too many values";
      i++;
    }
  return closed ? NULL : "is incomplete";
}

JsonNode *
tl_json_parse (const char *text, gsize length, gsize max_values, const char *where, GError **error)
{
  const char *fault = find_fault (text, length, max_values);
  if (fault == NULL && !g_utf8_validate (text, length, NULL))
    fault = "is not valid UTF-8";
  if (fault != NULL)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: the JSON text %s", where, fault);
      return NULL;
    }

  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (GError) local = NULL;
  if (!json_parser_load_from_data (parser, text, length, &local)
      || json_parser_get_root (parser) == NULL || !JSON_NODE_HOLDS_OBJECT (json_parser_get_root (parser)))
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: the JSON text is broken: %s", where,
          local ? local->message : "no object");
      return NULL;
    }
  return json_node_ref (json_parser_get_root (parser));
}
