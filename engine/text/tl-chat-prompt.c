/* engine/text/tl-chat-prompt.c — one text as the ids of a prompt, rendered with the tokenizer's own chat template.
 *
 * The template's text may hold special tokens; the user's text is only text, whatever it looks like.
 */
#include <string.h>

#include "text/tl-chat-template.h"

static char *
token_text (TlTokenizer *tokenizer, gint32 id)
{
  g_autoptr (GBytes) bytes = id >= 0 ? tl_tokenizer_token_bytes (tokenizer, id) : NULL;
  gsize size = 0;
  const char *data = bytes ? g_bytes_get_data (bytes, &size) : NULL;
  return size ? g_strndup (data, size) : NULL;
}

static char *
render (TlTokenizer *self, const char *system, const char *text, GError **error)
{
  gsize n_eos;
  const gint32 *eos = tl_tokenizer_get_eos (self, &n_eos);
  g_autofree char *bos_text = token_text (self, tl_tokenizer_get_bos (self));
  g_autofree char *eos_text = n_eos ? token_text (self, eos[0]) : NULL;
  g_autoptr (TlChatTemplate) template = tl_chat_template_new (tl_tokenizer_get_chat_template (self), bos_text, eos_text,
      error);
  const TlChatMessage messages[] = { { "system", system }, { "user", text } };
  gsize skipped = system ? 0 : 1;
  return template ? tl_chat_template_render (template, messages + skipped, G_N_ELEMENTS (messages) - skipped,
      TL_CHAT_ADD_GENERATION_PROMPT, error) : NULL;
}

static gboolean
append (TlTokenizer *self, GArray *ids, const char *text, gsize length, TlEncodeFlags flags, GError **error)
{
  g_autoptr (GArray) part = tl_tokenizer_encode (self, text, length, flags, error);
  if (part)
    g_array_append_vals (ids, part->data, part->len);
  return part != NULL;
}

GBytes *
tl_tokenizer_encode_chat_bytes (TlTokenizer *self, const char *system, const char *text, GError **error)
{
  g_return_val_if_fail (TL_IS_TOKENIZER (self) && text, NULL);
  if (!tl_tokenizer_get_chat_template (self)) {
    g_set_error_literal (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "the tokenizer has no chat template; encode the text as it is");
    return NULL;
  }
  g_autofree char *whole = render (self, system, text, error), *inner = g_strstrip (g_strdup (text));
  if (!whole)
    return NULL;
  const char *user = strstr (whole, text) ? text : inner;       /* templates may trim it */
  const char *at = *user ? g_strrstr (whole, user) : NULL;
  gsize head = at ? at - whole : strlen (whole), length = at ? strlen (user) : 0;
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  if (!append (self, ids, whole, head, TL_ENCODE_SPECIAL, error)
      || !append (self, ids, whole + head, length, TL_ENCODE_NONE, error)
      || !append (self, ids, whole + head + length, strlen (whole + head + length), TL_ENCODE_SPECIAL, error))
    return NULL;
  return g_bytes_new (ids->data, ids->len * sizeof (gint32));
}
