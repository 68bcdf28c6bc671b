/* tests/engine/conversation.c — TlConversation: turns keep what was computed, the head holds exactly what was pushed. */
#include <glib/gstdio.h>
#include <string.h>

#include "tiny-model.h"
#include "tl-conversation.h"

static const TinyModel tiny = { "tiny", TL_INT8, TL_OFFSET_NONE, TL_F16, 32, 64, 16, 4, 2, 96, 40, 256 };

typedef struct { char *path; TlModel *model; TlConversation *c; TlGenerateConfig *config; guint32 ids[64]; } Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->path = tiny_model_write (&tiny);
  f->model = tl_model_new (f->path);
  g_assert_true (tl_model_load (f->model, NULL, NULL));
  f->c = tl_conversation_new (f->model);
  f->config = g_object_new (TL_TYPE_GENERATE_CONFIG, "max-tokens", 5, "ignore-eos", TRUE, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (f->ids); i++)
    f->ids[i] = tiny_model_id (&tiny, i);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  g_object_unref (f->config);
  g_object_unref (f->c);
  g_object_unref (f->model);
  g_unlink (f->path);
  g_free (f->path);
}

static TlGenerator *
begin (Fixture *f, guint from, guint n, TlPromptPolicy policy, GError **error)
{
  g_autoptr (GBytes) prompt = g_bytes_new (f->ids + from, n * sizeof (guint32));
  return tl_conversation_begin (f->c, prompt, f->config, policy, TL_HISTORY_KEEP, NULL, error);
}

/* steps to the reply's end, or until n tokens have come; out: the tokens */
static guint
draw (TlGenerator *reply, guint n, guint32 *out)
{
  g_autoptr (GError) error = NULL;
  guint count = 0;
  while (count < n)
    {
      g_autoptr (TlToken) token = NULL;
      TlStep step = tl_generator_step (reply, &token, NULL, &error);
      g_assert_no_error (error);
      if (step == TL_STEP_END)
        break;
      if (step == TL_STEP_TOKEN)
        out[count++] = token->id;
    }
  return count;
}

static void
assert_head (Fixture *f, const guint32 *want, guint n)
{
  g_autoptr (GBytes) head = tl_conversation_dup_tokens (f->c);
  gsize size;
  const guint32 *got = g_bytes_get_data (head, &size);
  g_assert_cmpmem (got, size, want, n * sizeof (guint32));
}

/* prompt of 20, reply of 5: what the head is afterwards; `want` has room for 25 ids */
static void
first_turn (Fixture *f, guint n_pushed, guint32 *want)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGenerator) reply = begin (f, 0, 20, TL_PROMPT_QUEUE, &error);
  g_assert_no_error (error);
  memcpy (want, f->ids, 20 * sizeof (guint32));
  g_assert_cmpint (tl_conversation_get_state (f->c), ==, TL_CONVERSATION_PREFILL);
  g_assert_cmpuint (draw (reply, G_MAXUINT, want + 20), ==, 5);
  g_assert_cmpint (tl_conversation_get_state (f->c), ==, TL_CONVERSATION_DECODE);
  tl_conversation_commit (f->c, reply, n_pushed);
  g_assert_cmpint (tl_conversation_get_state (f->c), ==, TL_CONVERSATION_IDLE);
}

static void
the_head_holds_exactly_what_was_pushed (Fixture *f, gconstpointer data)
{
  guint32 want[25];
  first_turn (f, 3, want);
  assert_head (f, want, 23);
  g_assert_true (tl_conversation_truncate (f->c, 1));
  assert_head (f, want, 21);
}

/* the second turn computes only what is new, and gives what the whole text as one prompt gives */
static void
a_second_turn_keeps_what_was_computed (Fixture *f, gconstpointer data)
{
  guint32 text[64], reply_ids[5];
  g_autoptr (GError) error = NULL;
  first_turn (f, 3, text);
  g_autoptr (TlGenerator) reply = begin (f, 30, 4, TL_PROMPT_QUEUE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (draw (reply, G_MAXUINT, reply_ids), ==, 5);
  TlGenerationFigures figures;
  tl_generator_get_figures (reply, &figures);
  g_assert_cmpuint (figures.cached_tokens, ==, 23);

  memcpy (text + 23, f->ids + 30, 4 * sizeof (guint32));
  g_autoptr (GBytes) whole = g_bytes_new (text, 27 * sizeof (guint32));
  g_autoptr (TlGeneration) alone = tl_model_generate_bytes (f->model, whole, f->config, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpmem ((const guint32 *) g_bytes_get_data (tl_generation_get_tokens_bytes (alone), NULL) + 27, 20,
    reply_ids, 20);
  tl_conversation_abort (f->c, reply);
  assert_head (f, text, 23);
}

static void
a_second_prompt_is_dropped_when_told_so (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGenerator) reply = begin (f, 0, 8, TL_PROMPT_QUEUE, &error);
  g_assert_null (begin (f, 0, 8, TL_PROMPT_DROP, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_CANCELLED);
  tl_conversation_abort (f->c, reply);
  assert_head (f, NULL, 0);
}

static gboolean
has_head (Fixture *f)
{
  g_autoptr (GBytes) head = tl_conversation_dup_tokens (f->c);
  return g_bytes_get_size (head) > 0;
}

/* draws until it is interrupted, then commits two tokens */
static gpointer
talk (gpointer data)
{
  Fixture *f = data;
  g_autoptr (TlGenerator) reply = begin (f, 0, 8, TL_PROMPT_QUEUE, NULL);
  for (;;)
    {
      g_autoptr (TlToken) token = NULL;
      TlStep step = tl_generator_step (reply, &token, NULL, NULL);
      if (step == TL_STEP_END || step == TL_STEP_ERROR)
        break;
    }
  TlFinishReason reason = tl_generator_get_finish_reason (reply);
  tl_conversation_commit (f->c, reply, 2);
  return GINT_TO_POINTER (reason);
}

static void
an_interrupting_prompt_waits_for_the_commit (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_object_set (f->config, "max-tokens", 240, "loops", 4, NULL);
  GThread *talker = g_thread_new ("talks", talk, f);
  while (tl_conversation_get_state (f->c) != TL_CONVERSATION_DECODE && !has_head (f))
    g_thread_yield ();
  g_autoptr (TlGenerator) reply = begin (f, 40, 4, TL_PROMPT_INTERRUPT, &error);
  g_assert_no_error (error);
  TlFinishReason reason = GPOINTER_TO_INT (g_thread_join (talker));
  g_assert_true (reason == TL_FINISH_CANCELLED || reason == TL_FINISH_LENGTH);
  g_autoptr (GBytes) head = tl_conversation_dup_tokens (f->c);
  g_assert_cmpuint (g_bytes_get_size (head), <=, 10 * sizeof (guint32));
  g_assert_cmpuint (g_bytes_get_size (head), >=, 8 * sizeof (guint32));
  tl_conversation_abort (f->c, reply);
}

static void
a_reset_ends_the_reply_and_ignores_its_commit (Fixture *f, gconstpointer data)
{
  guint32 tokens[5];
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGenerator) reply = begin (f, 0, 8, TL_PROMPT_QUEUE, &error);
  draw (reply, 2, tokens);
  tl_conversation_reset (f->c);
  tl_conversation_commit (f->c, reply, 2);
  assert_head (f, NULL, 0);
  g_assert_cmpint (tl_conversation_get_state (f->c), ==, TL_CONVERSATION_IDLE);
}

int
main (int argc, char **argv)
{
  static const struct { const char *name; void (*test) (Fixture *, gconstpointer); } tests[] = {
    { "pushed", the_head_holds_exactly_what_was_pushed },
    { "turns", a_second_turn_keeps_what_was_computed },
    { "drop", a_second_prompt_is_dropped_when_told_so },
    { "interrupt", an_interrupting_prompt_waits_for_the_commit },
    { "reset", a_reset_ends_the_reply_and_ignores_its_commit },
  };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      g_autofree char *path = g_strdup_printf ("/engine/conversation/%s", tests[i].name);
      g_test_add (path, Fixture, NULL, set_up, tests[i].test, tear_down);
    }
  return g_test_run ();
}
