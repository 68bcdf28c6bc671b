/* tests/score/drawing.c — what drawings are made of: visible texts, figures of a distribution, refused shapes. */
#include <math.h>
#include <string.h>

#include "score/tl-drawing.h"
#include "text/tl-visible.h"
#include "tl-distribution.h"

static void
test_blanks_and_broken_bytes_are_visible (void)
{
  static const struct { const char *bytes, *shown; guint columns; } rows[] = {
    { " a\n\tb\r", "␣a⏎⇥b␍", 0 }, { "gr\xc3\xb6\xc3\x9f", "größ", 0 }, { "\xe6\x97", "⟨e6⟩⟨97⟩", 0 },
    { "\x01\x7f", "U+0001U+007F", 0 }, { "\xe2\x80\x8b", "U+200B", 0 }, { "\xc2\xa0", "U+00A0", 0 },
    { "\xcc\x81", "◌\xcc\x81", 0 }, { "", "", 4 }, { "abcd", "abcd", 4 }, { "abcde", "abc…", 4 }, { "日本語", "日本語", 6 },
    { "日本語", "日…", 4 }, { "\xef\xbf\xbe", "U+FFFE", 0 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *shown = tl_visible_text (rows[i].bytes, strlen (rows[i].bytes), rows[i].columns);
    g_assert_cmpstr (shown, ==, rows[i].shown);
  }
  g_autofree char *nul = tl_visible_text ("a\0b", 3, 0);
  g_assert_cmpstr (nul, ==, "a⟨00⟩b");
}

static void
test_figures_are_those_of_a_softmax (void)
{
  float logits[] = { 1, 3, 3, -2, -INFINITY }, even[] = { 2, 2, 2, 2 };
  double sum = exp (1) + 2 * exp (3) + exp (-2), entropy = 0;
  for (guint i = 0; i < 4; i++)
    entropy -= exp (logits[i]) / sum * log (exp (logits[i]) / sum);
  double log_sum = tl_log_sum (logits, 5);
  g_assert_cmpfloat_with_epsilon (log_sum, log (sum), 1e-12);
  g_assert_cmpfloat_with_epsilon (tl_entropy (logits, 5, log_sum), entropy, 1e-12);
  g_assert_cmpfloat_with_epsilon (tl_entropy (even, 4, tl_log_sum (even, 4)), log (4), 1e-12);
  g_assert_cmpfloat (tl_divergence (logits, logits, 5), ==, 0);
  g_assert_cmpfloat (tl_divergence (logits, even, 4), >, 0.1);
  g_assert_cmpuint (tl_argmax (logits, 5), ==, 1);
}

static void
test_the_largest_come_in_order_the_lower_id_first (void)
{
  float logits[] = { 1, 3, 3, -2, 7, 1 };
  static const guint32 expected[] = { 4, 1, 2, 0, 5, 3 };
  for (guint k = 0; k <= 8; k++) {
    guint32 ids[8];
    guint n = tl_largest (logits, 6, k, ids);
    g_assert_cmpuint (n, ==, MIN (k, 6));
    g_assert_cmpmem (ids, n * sizeof *ids, expected, n * sizeof *ids);
  }
}

static void
test_scores_of_other_ids_are_refused (void)
{
  static const gint32 three[] = { 1, 2, 3 };
  gsize dims[] = { 2, 2, 4 };
  g_autoptr (TlTensor) lens = tl_tensor_new (3, dims, NULL), kl = tl_tensor_new (2, dims, NULL);
  g_autoptr (GBytes) ids = g_bytes_new_static (three, sizeof three), part = g_bytes_new_static (three, 7),
      none = g_bytes_new_static (three, 0);
  GBytes *wrong[] = { ids, part, none };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++) {
    g_autoptr (GError) a = NULL, b = NULL, c = NULL;
    g_assert_null (tl_draw_logit_lens (lens, wrong[i], NULL, &a));
    g_assert_null (tl_draw_uncertainty (kl, wrong[i], NULL, &b));
    g_assert_null (tl_draw_uncertainty (lens, wrong[i], NULL, &c));
    g_assert_error (a, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
    g_assert_error (b, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
    g_assert_error (c, TL_ERROR, TL_ERROR_INVALID_ARGUMENT);
  }
}

static void
test_ids_without_a_tokenizer_are_numbers (void)
{
  static const gint32 two[] = { 11, 12 };
  gsize dims[] = { 1, 2, 4 };
  g_autoptr (TlTensor) lens = tl_tensor_new (3, dims, NULL);
  g_autoptr (GBytes) ids = g_bytes_new_static (two, sizeof two);
  g_autofree char *drawing = tl_draw_logit_lens (lens, ids, NULL, NULL);
  g_assert_nonnull (strstr (drawing, ">#12</text>"));
  g_assert_nonnull (strstr (drawing, ">25%</text>"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/drawing/blanks and broken bytes are visible", test_blanks_and_broken_bytes_are_visible);
  g_test_add_func ("/drawing/figures are those of a softmax", test_figures_are_those_of_a_softmax);
  g_test_add_func ("/drawing/the largest come in order, the lower id first", test_the_largest_come_in_order_the_lower_id_first);
  g_test_add_func ("/drawing/scores of other ids are refused", test_scores_of_other_ids_are_refused);
  g_test_add_func ("/drawing/ids without a tokenizer are numbers", test_ids_without_a_tokenizer_are_numbers);
  return g_test_run ();
}
