/* tools/tokenize.c — `tinyloop tokenize MODEL`: text on stdin to ids on stdout, or back. */
#include <stdio.h>
#include <unistd.h>

#include <gio/gio.h>
#include <gio/gunixinputstream.h>

#include "options.h"
#include "tool.h"

static GBytes *
read_stdin (GError **error)
{
  g_autoptr (GInputStream) in = g_unix_input_stream_new (STDIN_FILENO, FALSE);
  g_autoptr (GOutputStream) out = g_memory_output_stream_new_resizable ();
  if (g_output_stream_splice (out, in, G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET, NULL, error) < 0)
    return NULL;
  return g_memory_output_stream_steal_as_bytes (G_MEMORY_OUTPUT_STREAM (out));
}

static gboolean
check_known (TlTokenizer *tokenizer, const gint32 *ids, gsize n, GError **error)
{
  guint size = tl_tokenizer_get_vocab_size (tokenizer);
  for (gsize i = 0; i < n; i++)
    if ((guint32) ids[i] >= size) {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "id %d at index %" G_GSIZE_FORMAT " is unknown; this vocabulary"
          " has 0…%u", ids[i], i, size - 1);
      return FALSE;
    }
  return TRUE;
}

static gboolean
decode (TlTokenizer *tokenizer, GBytes *input, gboolean json, GError **error)
{
  gsize size;
  const char *data = g_bytes_get_data (input, &size);
  g_autofree char *text = g_strndup (data, size);
  g_autoptr (GBytes) ids = tool_parse_ids (g_strdelimit (text, "[]\n\t", ' '), error);
  if (!ids)
    return FALSE;
  const gint32 *id = g_bytes_get_data (ids, &size);
  if (!check_known (tokenizer, id, size / sizeof (gint32), error))
    return FALSE;
  g_autoptr (GBytes) decoded = tl_tokenizer_decode (tokenizer, id, size / sizeof (gint32));
  data = g_bytes_get_data (decoded, &size);
  if (!json) {
    fwrite (data, 1, size, stdout);
    return TRUE;
  }
  g_autofree char *valid = g_utf8_make_valid (data ? data : "", size);
  g_autoptr (GString) out = g_string_new (NULL);
  tool_append_json_string (out, valid);
  puts (out->str);
  return TRUE;
}

static gboolean
encode (TlTokenizer *tokenizer, GBytes *input, TlEncodeFlags flags, gboolean json, GError **error)
{
  gsize size;
  g_autoptr (GBytes) ids = tl_tokenizer_encode_bytes (tokenizer, input, flags, error);
  if (!ids)
    return FALSE;
  const gint32 *id = g_bytes_get_data (ids, &size);
  fputs (json ? "[" : "", stdout);
  for (gsize i = 0; i < size / sizeof (gint32); i++)
    printf ("%s%d", i ? (json ? ", " : " ") : "", id[i]);
  puts (json ? "]" : "");
  return TRUE;
}

int
tool_tokenize (int argc, char **argv)
{
  gboolean special = FALSE, template = FALSE, back = FALSE, json = FALSE;
  GError *error = NULL;
  const GOptionEntry entries[] = {
    { "special", 0, 0, G_OPTION_ARG_NONE, &special, "special tokens in the text are recognised", NULL },
    { "add-bos", 0, 0, G_OPTION_ARG_NONE, &template, "add what the tokenizer's post-processor adds", NULL },
    { "decode", 0, 0, G_OPTION_ARG_NONE, &back, "ids on stdin, text on stdout", NULL },
    TOOL_OPTION_JSON (json), G_OPTION_ENTRY_NULL,
  };
  if (!tool_parse ("MODEL - text on stdin to token ids on stdout, or back", entries, NULL, &argc, &argv))
    return 2;
  g_autoptr (TlTokenizer) tokenizer = tl_tokenizer_new_for_path (argv[1], &error);
  g_autoptr (GBytes) input = tokenizer ? read_stdin (&error) : NULL;
  TlEncodeFlags flags = (special ? TL_ENCODE_SPECIAL : 0) | (template ? TL_ENCODE_ADD_BOS : 0);
  gboolean ok = input && (back ? decode (tokenizer, input, json, &error) : encode (tokenizer, input, flags, json, &error));
  return ok ? 0 : tool_failed (error);
}
