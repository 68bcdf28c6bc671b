/* engine/text/tl-chat-prompt.c — one turn of a conversation as the ids of a prompt.
 *
 * A turn is dressed by a Jinja template, the tokenizer's own or a given one, or by a form that the vocabulary's special
 * tokens give away. The dress may hold special tokens; the user's text is only text, whatever it looks like.
 */
#include <string.h>

#include "text/tl-chat-template.h"

typedef struct
{
  const char *name;             /* as chat_template of a turn */
  const char *marks[2];         /* special tokens that give the convention away */
  const char *system_head, *system_tail;
  const char *next_turn;        /* before a turn that continues */
  const char *head, *tail;      /* around the text; head may name the role by %s */
} ChatForm;

static const ChatForm chat_forms[] = {
  { "chatml", { "<|im_start|>", "<|im_end|>" }, "<|im_start|>system\n", "<|im_end|>\n", "\n", "<|im_start|>%s\n",
      "<|im_end|>\n<|im_start|>assistant\n" },
  { "command", { "<|cmd|>", "<|json|>" }, "", "", "", "<|cmd|>", "<|json|>" },
};

/* --- dress --- */

static const ChatForm *
find_form (TlTokenizer *tokenizer, const char *wanted)
{
  for (guint i = 0; i < G_N_ELEMENTS (chat_forms); i++) {
    const ChatForm *form = &chat_forms[i];
    if (g_str_equal (wanted, form->name) || (g_str_equal (wanted, "auto")
            && tl_tokenizer_find (tokenizer, form->marks[0]) >= 0
            && tl_tokenizer_find (tokenizer, form->marks[1]) >= 0))
      return form;
  }
  return NULL;
}

static char *
render_form (const ChatForm *form, const TlChatTurn *turn)
{
  g_autoptr (GString) out = g_string_new (NULL);
  g_auto (GStrv) head = g_strsplit (form->head, "%s", 2);

  if (!turn->first)
    g_string_append (out, form->next_turn);
  else if (turn->system && *turn->system)
    g_string_append_printf (out, "%s%s%s", form->system_head, turn->system, form->system_tail);
  g_string_append (out, head[0]);
  if (head[1])
    g_string_append_printf (out, "%s%s", turn->role, head[1]);
  g_string_append_printf (out, "%s%s", turn->text, form->tail);
  return g_string_free (g_steal_pointer (&out), FALSE);
}

static char *
token_text (TlTokenizer *tokenizer, gint32 id)
{
  g_autoptr (GBytes) bytes = id >= 0 ? tl_tokenizer_token_bytes (tokenizer, id) : NULL;
  gsize size = 0;
  const char *data = bytes ? g_bytes_get_data (bytes, &size) : NULL;
  return size ? g_strndup (data, size) : NULL;
}

/* a further turn is what the template puts behind an earlier reply and its end token, which are in the sequence already */
static char *
render_jinja (TlTokenizer *tokenizer, const char *jinja, const TlChatTurn *turn, GError **error)
{
  static const char earlier[] = "(earlier reply)";
  gsize n_eos, n = 0;
  const gint32 *eos = tl_tokenizer_get_eos (tokenizer, &n_eos);
  g_autofree char *bos_text = token_text (tokenizer, tl_tokenizer_get_bos (tokenizer));
  g_autofree char *eos_text = n_eos ? token_text (tokenizer, eos[0]) : NULL;
  g_autoptr (TlChatTemplate) template = tl_chat_template_new (jinja, bos_text, eos_text, error);
  TlChatMessage messages[4];

  if (!template)
    return NULL;
  if (turn->system && *turn->system)
    messages[n++] = (TlChatMessage) { "system", turn->system };
  if (!turn->first) {
    messages[n++] = (TlChatMessage) { "user", "(earlier prompt)" };
    messages[n++] = (TlChatMessage) { "assistant", earlier };
  }
  messages[n++] = (TlChatMessage) { turn->role, turn->text };
  g_autofree char *whole = tl_chat_template_render (template, messages, n, TL_CHAT_ADD_GENERATION_PROMPT, error);
  const char *behind = whole && !turn->first ? strstr (whole, earlier) : NULL;
  if (!behind)
    return g_steal_pointer (&whole);
  behind += strlen (earlier);
  if (eos_text && g_str_has_prefix (behind, eos_text))
    behind += strlen (eos_text);
  return g_strdup (behind);
}

/* the turn's text in its dress; *bare: there is none */
static char *
render (TlTokenizer *self, const TlChatTurn *turn, gboolean *bare, GError **error)
{
  const char *wanted = turn->chat_template ? turn->chat_template : "auto";
  const char *jinja = strchr (wanted, '{') ? wanted
      : g_str_equal (wanted, "auto") ? tl_tokenizer_get_chat_template (self) : NULL;
  const ChatForm *form = jinja ? NULL : find_form (self, wanted);

  *bare = !jinja && !form;
  if (jinja)
    return render_jinja (self, jinja, turn, error);
  if (form)
    return render_form (form, turn);
  if (g_str_equal (wanted, "none") || g_str_equal (wanted, "auto"))
    return g_strdup (turn->text);
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED,
      "chat template '%.40s' is not known; use auto, none, chatml, command or a Jinja template", wanted);
  return NULL;
}

/* --- ids --- */

static gboolean
append (TlTokenizer *self, GArray *ids, const char *text, gsize length, TlEncodeFlags flags, GError **error)
{
  g_autoptr (GArray) part = length ? tl_tokenizer_encode (self, text, length, flags, error) : NULL;
  if (part)
    g_array_append_vals (ids, part->data, part->len);
  return part || length == 0;
}

GArray *
tl_tokenizer_encode_turn (TlTokenizer *self, const TlChatTurn *turn, guint *n_head, GError **error)
{
  g_return_val_if_fail (TL_IS_TOKENIZER (self) && turn->text, NULL);
  gboolean bare;
  g_autofree char *whole = render (self, turn, &bare, error), *trimmed = g_strstrip (g_strdup (turn->text));
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  *n_head = 0;
  if (!whole)
    return NULL;
  if (bare)
    return tl_tokenizer_encode (self, whole, strlen (whole), turn->first ? TL_ENCODE_ADD_BOS : TL_ENCODE_NONE, error);

  const char *user = strstr (whole, turn->text) ? turn->text : trimmed; /* templates may trim it */
  const char *at = *user ? g_strrstr (whole, user) : NULL;
  gsize head = at ? at - whole : strlen (whole), length = at ? strlen (user) : 0;
  if (!append (self, ids, whole, head, TL_ENCODE_SPECIAL, error))
    return NULL;
  *n_head = ids->len;
  if (!append (self, ids, whole + head, length, TL_ENCODE_NONE, error)
      || !append (self, ids, whole + head + length, strlen (whole + head + length), TL_ENCODE_SPECIAL, error))
    return NULL;
  return g_steal_pointer (&ids);
}

GBytes *
tl_tokenizer_encode_chat_bytes (TlTokenizer *self, const char *system, const char *text, GError **error)
{
  g_return_val_if_fail (TL_IS_TOKENIZER (self) && text, NULL);
  const TlChatTurn turn = { NULL, system, "user", text, TRUE };
  guint n_head;
  g_autoptr (GArray) ids = tl_tokenizer_encode_turn (self, &turn, &n_head, error);
  return ids ? g_bytes_new (ids->data, ids->len * sizeof (gint32)) : NULL;
}

gboolean
tl_tokenizer_has_chat (TlTokenizer *self)
{
  g_return_val_if_fail (TL_IS_TOKENIZER (self), FALSE);
  return tl_tokenizer_get_chat_template (self) || find_form (self, "auto");
}
