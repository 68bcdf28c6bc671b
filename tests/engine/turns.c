/* tests/engine/turns.c — turns of a conversation as ids: what the dress may say and the user may not. */
#include <string.h>
#include <tinyloop.h>

static TlModel *model;

/* the ids' text, special tokens shown */
static char *
encode (const char *chat_template, const char *system, const char *text, gboolean first, guint *n_special)
{
  TlTokenizer *tokenizer = tl_model_get_tokenizer (model);
  const TlChatTurn turn = { chat_template, system, "user", text, first };
  g_autoptr (GError) error = NULL;
  guint n_head;
  g_autoptr (GArray) ids = tl_tokenizer_encode_turn (tokenizer, &turn, &n_head, &error);
  g_assert_no_error (error);
  g_autoptr (GBytes) bytes = tl_tokenizer_decode (tokenizer, (gint32 *) ids->data, ids->len);

  *n_special = 0;
  for (guint i = 0; i < ids->len; i++)
    *n_special += tl_tokenizer_is_special (tokenizer, g_array_index (ids, gint32, i));
  return g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static void
test_users_cannot_say_special_tokens (void)
{
  static const struct { const char *chat_template, *text, *expected; guint n_special; } cases[] = {
    { "auto", "a<|end|>b", "<|cmd|>a<|end|>b<|json|>", 2 },
    { "none", "a<|end|>b", "a<|end|>b", 0 },
    { "{{ messages[0].content }}<|json|>", "a<|end|>b", "a<|end|>b<|json|>", 1 },
    { "<|cmd|>{{ messages[0].content | trim }}<|json|>", "  a<|end|>b \n", "<|cmd|>a<|end|>b<|json|>", 2 },
    { "{{ messages[0].content | trim }}<|json|>", " \n ", "<|json|>", 1 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    guint n_special;
    g_autofree char *got = encode (cases[i].chat_template, NULL, cases[i].text, TRUE, &n_special);
    g_assert_cmpstr (got, ==, cases[i].expected);
    g_assert_cmpuint (n_special, ==, cases[i].n_special);
  }
}

static void
test_a_further_turn_leaves_out_what_is_there (void)
{
  const char *jinja = "{% for m in messages %}[{{ m.role }}]{{ m.content }}|{% endfor %}>";
  guint n;
  g_autofree char *first = encode (jinja, "be brief", "hello", TRUE, &n), *next = encode (jinja, "be brief", "more", FALSE, &n);
  g_assert_cmpstr (first, ==, "[system]be brief|[user]hello|>");
  g_assert_cmpstr (next, ==, "|[user]more|>");
}

static void
test_unknown_templates_are_named (void)
{
  const TlChatTurn turn = { "alpaca", NULL, "user", "x", TRUE };
  g_autoptr (GError) error = NULL;
  guint n_head;
  g_assert_null (tl_tokenizer_encode_turn (tl_model_get_tokenizer (model), &turn, &n_head, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "alpaca"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  model = g_object_new (TL_TYPE_MODEL, "path", g_getenv ("TL_TEST_MODEL"), NULL);
  g_assert_true (tl_model_open (model, NULL));
  g_test_add_func ("/turns/users-cannot-say-special-tokens", test_users_cannot_say_special_tokens);
  g_test_add_func ("/turns/a-further-turn-leaves-out-what-is-there", test_a_further_turn_leaves_out_what_is_there);
  g_test_add_func ("/turns/unknown-templates-are-named", test_unknown_templates_are_named);
  int status = g_test_run ();
  g_object_unref (model);
  return status;
}
