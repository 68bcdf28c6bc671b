/* tools/grammar.c — `tinyloop grammar MODEL --regex R`: the ids that are legal behind a text, or whether a text matches. */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "tool.h"

typedef struct
{
  char *regex, *after, *check;
  gboolean json;
} Asked;

/* how many bytes of @text some match begins with */
static gsize
count_matching (TlMatcher *matcher, TlTokenizer *tokenizer, GBytes *ids)
{
  gsize size, bytes = 0;
  const gint32 *id = g_bytes_get_data (ids, &size);
  for (gsize i = 0; i < size / sizeof (gint32) && tl_matcher_advance (matcher, id[i], NULL); i++) {
    g_autoptr (GBytes) piece = tl_tokenizer_token_bytes (tokenizer, id[i]);
    bytes += g_bytes_get_size (piece);
  }
  return bytes;
}

static gboolean
go_behind (TlMatcher *matcher, TlTokenizer *tokenizer, const char *text, GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new (text, strlen (text));
  g_autoptr (GBytes) ids = tl_tokenizer_encode_bytes (tokenizer, bytes, TL_ENCODE_NONE, error);
  if (!ids)
    return FALSE;
  gsize matching = count_matching (matcher, tokenizer, ids);
  if (matching >= strlen (text))
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "--after: no match goes on in the token at byte %" G_GSIZE_FORMAT
      " ('%.20s')", matching, text + matching);
  return FALSE;
}

static void
print_legal (GBytes *mask, TlMatcher *matcher, TlTokenizer *tokenizer, gboolean json)
{
  gsize size;
  const guint8 *bits = g_bytes_get_data (mask, &size);
  g_autoptr (GString) out = g_string_new (NULL);
  for (gsize id = 0; id < size * 8; id++) {
    if (!(bits[id / 8] >> id % 8 & 1))
      continue;
    if (json) {
      g_string_append_printf (out, "%s%" G_GSIZE_FORMAT, out->len ? ", " : "", id);
      continue;
    }
    gsize n;
    g_autoptr (GBytes) piece = tl_tokenizer_token_bytes (tokenizer, id);
    const char *data = g_bytes_get_data (piece, &n);
    g_autofree char *text = g_strndup (data ? data : "", n), *shown = g_strescape (text, NULL);
    g_string_append_printf (out, "%" G_GSIZE_FORMAT "\t%s\n", id, shown);
  }
  if (json)
    printf ("{\"legal\": [%s], \"accepting\": %s}\n", out->str, tl_matcher_is_accepting (matcher) ? "true" : "false");
  else
    fputs (out->str, stdout);
}

static gboolean
tell_legal (const Asked *asked, TlModel *model, TlGrammar *grammar, GError **error)
{
  TlTokenizer *tokenizer = tl_model_get_tokenizer (model);
  g_autoptr (TlMatcher) matcher = tl_grammar_create_matcher (grammar, error);
  if (!matcher || (asked->after && !go_behind (matcher, tokenizer, asked->after, error)))
    return FALSE;
  g_autoptr (GBytes) mask = tl_matcher_get_mask (matcher, 0, error);
  if (mask)
    print_legal (mask, matcher, tokenizer, asked->json);
  return mask != NULL;
}

static gboolean
tell_match (const Asked *asked, TlGrammar *grammar, GError **error)
{
  g_autoptr (GError) limit = NULL;
  g_autoptr (GBytes) text = g_bytes_new (asked->check, strlen (asked->check));
  gboolean accepted = tl_grammar_accepts (grammar, text, &limit);
  if (limit) {
    g_propagate_error (error, g_steal_pointer (&limit));
    return FALSE;
  }
  if (asked->json)
    printf ("{\"matches\": %s}\n", accepted ? "true" : "false");
  else
    puts (accepted ? "matches" : "does not match");
  return TRUE;
}

static gboolean
tell (const Asked *asked, const char *path, GError **error)
{
  g_autoptr (TlModel) model = tl_model_new (path);
  g_autoptr (TlGrammar) grammar = tl_model_open (model, error) ? tl_model_compile_regex (model, asked->regex, error) : NULL;
  if (!grammar)
    return FALSE;
  return asked->check ? tell_match (asked, grammar, error) : tell_legal (asked, model, grammar, error);
}

int
tool_grammar (int argc, char **argv)
{
  Asked asked = { NULL };
  GError *error = NULL;
  int status = 2;
  const GOptionEntry entries[] = {
    { "regex", 0, 0, G_OPTION_ARG_STRING, &asked.regex, "what the whole text must match", "R" },
    { "after", 0, 0, G_OPTION_ARG_STRING, &asked.after, "the ids that are legal behind this text (else at the beginning)", "TEXT" },
    { "check", 0, 0, G_OPTION_ARG_STRING, &asked.check, "say whether this text matches", "TEXT" },
    TOOL_OPTION_JSON (asked.json), G_OPTION_ENTRY_NULL,
  };
  if (tool_parse ("MODEL - the token ids that a grammar allows, or whether a text matches it", entries, NULL, &argc, &argv)) {
    if (!asked.regex)
      g_set_error_literal (&error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "give the grammar by --regex R");
    else if (asked.after && asked.check)
      g_set_error_literal (&error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "give --after or --check, not both");
    status = error ? tool_bad_usage (error) : tell (&asked, argv[1], &error) ? 0 : tool_failed (error);
  }
  g_free (asked.regex);
  g_free (asked.after);
  g_free (asked.check);
  return status;
}
