/* engine/text/tl-chat-template.c — renders messages with a model's chat template.
 *
 * The variables are those Hugging Face gives: messages, add_generation_prompt, bos_token, eos_token; no tools, no date.
 */
#include "text/tl-chat-template.h"

#include "text/tl-jinja-render.h"

static const char chatml[] =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

struct _TlChatTemplate
{
  GObject parent;
  TlJinjaTree *tree;
  char *bos, *eos;
};

G_DEFINE_FINAL_TYPE (TlChatTemplate, tl_chat_template, G_TYPE_OBJECT)

static void
tl_chat_template_finalize (GObject *object)
{
  TlChatTemplate *self = TL_CHAT_TEMPLATE (object);
  g_clear_pointer (&self->tree, tl_jinja_tree_free);
  g_free (self->bos);
  g_free (self->eos);
  G_OBJECT_CLASS (tl_chat_template_parent_class)->finalize (object);
}

static void
tl_chat_template_class_init (TlChatTemplateClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_chat_template_finalize;
}

static void
tl_chat_template_init (TlChatTemplate *self)
{
}

/**
 * tl_chat_template_new:
 * @jinja: (nullable): the template, or %NULL for ChatML
 * @bos_token: (nullable): text of the token that begins a text
 * @eos_token: (nullable): text of the token that ends a reply
 * @error: TL_ERROR_UNSUPPORTED naming construct and line, TL_ERROR_BAD_FILE for broken syntax
 *
 * Returns: (transfer full): a template ready to render
 */
TlChatTemplate *
tl_chat_template_new (const char *jinja, const char *bos_token, const char *eos_token, GError **error)
{
  TlJinjaTree *tree = tl_jinja_parse (jinja ? jinja : chatml, error);
  if (!tree)
    return NULL;
  TlChatTemplate *self = g_object_new (TL_TYPE_CHAT_TEMPLATE, NULL);
  self->tree = tree;
  self->bos = g_strdup (bos_token ? bos_token : "");
  self->eos = g_strdup (eos_token ? eos_token : "");
  return self;
}

static TlJinjaValue *
make_variables (TlChatTemplate *self, TlJinjaRun *run, const TlChatMessage *messages, gsize n, TlChatFlags flags)
{
  TlJinjaValue *list = tl_jinja_list (run), *variables = tl_jinja_dict (run);
  if (!list || !variables)
    return NULL;
  for (gsize i = 0; i < n; i++) {
    TlJinjaValue *message = tl_jinja_dict (run);
    if (!message || !tl_jinja_put_name (run, message, "role", tl_jinja_string (run, messages[i].role, -1))
        || !tl_jinja_put_name (run, message, "content", tl_jinja_string (run, messages[i].content, -1))
        || !tl_jinja_append (run, list, message))
      return NULL;
  }
  gboolean fine = tl_jinja_put_name (run, variables, "messages", list)
      && tl_jinja_put_name (run, variables, "add_generation_prompt",
          tl_jinja_bool (run, flags & TL_CHAT_ADD_GENERATION_PROMPT))
      && tl_jinja_put_name (run, variables, "bos_token", tl_jinja_string (run, self->bos, -1))
      && tl_jinja_put_name (run, variables, "eos_token", tl_jinja_string (run, self->eos, -1))
      && tl_jinja_put_name (run, variables, "tools", tl_jinja_none (run))
      && tl_jinja_put_name (run, variables, "documents", tl_jinja_none (run));
  return fine ? variables : NULL;
}

/**
 * tl_chat_template_render: (skip)
 * @self: a template
 * @messages: (array length=n_messages): the conversation, oldest first
 * @n_messages: how many
 * @flags: whether to begin the reply
 * @error: TL_ERROR_INVALID_ARGUMENT when the template refuses the messages or a text is not UTF-8,
 *   TL_ERROR_UNSUPPORTED naming what is missing, TL_ERROR_NO_MEMORY beyond the limits
 *
 * Returns: (transfer full): the prompt
 */
char *
tl_chat_template_render (TlChatTemplate *self, const TlChatMessage *messages, gsize n_messages, TlChatFlags flags,
    GError **error)
{
  g_return_val_if_fail (TL_IS_CHAT_TEMPLATE (self), NULL);
  for (gsize i = 0; i < n_messages; i++) {
    if (!g_utf8_validate (messages[i].role, -1, NULL) || !g_utf8_validate (messages[i].content, -1, NULL)) {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: chat message %" G_GSIZE_FORMAT
          " is not UTF-8; convert it first", i);
      return NULL;
    }
  }
  TlJinjaRun run;
  GError *failure = NULL;
  tl_jinja_run_init (&run, &failure);
  char *text = tl_jinja_render (self->tree, &run, make_variables (self, &run, messages, n_messages, flags));
  tl_jinja_run_clear (&run);
  if (!text)
    g_propagate_error (error, failure);
  return text;
}

/**
 * tl_chat_template_render_strv:
 * @self: a template
 * @roles: (array zero-terminated=1): the messages' roles
 * @contents: (array zero-terminated=1): their texts, as many
 * @flags: whether to begin the reply
 * @error: as tl_chat_template_render(), and TL_ERROR_INVALID_ARGUMENT for different counts
 *
 * The same for language bindings.
 *
 * Returns: (transfer full): the prompt
 */
char *
tl_chat_template_render_strv (TlChatTemplate *self, const char *const *roles, const char *const *contents,
    TlChatFlags flags, GError **error)
{
  guint n = g_strv_length ((char **) roles);
  if (g_strv_length ((char **) contents) != n) {
    g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: %u roles but %u contents; give one of each per "
        "message", n, g_strv_length ((char **) contents));
    return NULL;
  }
  g_autofree TlChatMessage *messages = g_new0 (TlChatMessage, n + 1);
  for (guint i = 0; i < n; i++)
    messages[i] = (TlChatMessage) { roles[i], contents[i] };
  return tl_chat_template_render (self, messages, n, flags, error);
}
