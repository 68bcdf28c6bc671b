/* tests/grammar/bench.c — compile and mask times over a vocabulary, as a table; a program, not a test.
 *
 *   grammar-bench TOKENIZER.json.gz [PATTERN …]
 *
 * A walk takes, 200 times, the legal token with the highest of seeded random logits, and begins anew when the text is complete.
 */
#include <gio/gio.h>
#include <stdlib.h>

#include "grammar/tl-grammar.h"
#include "gzip.h"
#include "text/tl-tokenizer.h"

#define STEPS 200
#define COMPILES 20

static int
compare_doubles (gconstpointer a, gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return x < y ? -1 : x > y;
}

static void
print_percentiles (const char *what, double *times, guint n)
{
  qsort (times, n, sizeof *times, compare_doubles);
  g_print ("  %s %.1f / %.1f / %.1f", what, times[n / 2], times[n * 99 / 100], times[n - 1]);
}

static TlTokenTrie *
load (const char *path, gint32 *end_id)
{
  g_autoptr (GBytes) json = read_gzip (path);
  g_autoptr (TlTokenizer) tokenizer = json ? tl_tokenizer_new_from_json (json, path, NULL) : NULL;
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (GArray) offsets = g_array_new (FALSE, TRUE, sizeof (gint32));
  if (!tokenizer)
    g_error ("%s: not a gzipped tokenizer.json", path);
  g_array_set_size (offsets, 1);
  *end_id = tl_tokenizer_get_vocab_size (tokenizer);
  for (gint32 id = 0; id < *end_id; id++) {
    g_autoptr (GBytes) piece = tl_tokenizer_token_bytes (tokenizer, id);
    if (!tl_tokenizer_is_special (tokenizer, id) && g_bytes_get_size (piece))
      g_byte_array_append (bytes, g_bytes_get_data (piece, NULL), g_bytes_get_size (piece));
    gint32 at = bytes->len;
    g_array_append_val (offsets, at);
  }
  g_autoptr (GBytes) all = g_bytes_new (bytes->data, bytes->len), table = g_bytes_new (offsets->data, offsets->len * 4);
  g_autoptr (GBytes) ends = g_bytes_new (end_id, sizeof *end_id);
  gint64 began = g_get_monotonic_time ();
  TlTokenTrie *trie = tl_token_trie_new (all, table, ends, NULL);
  g_print ("vocabulary: %d tokens, set up in %.1f ms\n", *end_id, (g_get_monotonic_time () - began) / 1e3);
  return trie;
}

static gint32
best_token (const guint32 *words, gint32 n, GRand *rand)
{
  gint32 best = -1;
  guint32 highest = 0, logit;
  for (gint32 id = 0; id <= n; id++)
    if ((words[id / 32] >> id % 32 & 1) && ((logit = g_rand_int (rand)) >= highest || best < 0))
      highest = logit, best = id;
  return best;
}

static void
measure (const char *pattern, TlTokenTrie *trie, gint32 end_id)
{
  double compile[COMPILES], masks[STEPS], advances[STEPS];
  g_autoptr (TlMatcher) m = NULL;
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  g_autofree guint32 *words = g_new (guint32, end_id / 32 + 1);
  for (guint i = 0; i < COMPILES; i++) {
    gint64 began = g_get_monotonic_time ();
    g_autoptr (TlGrammar) grammar = tl_grammar_new_regex (pattern, -1, TL_REGEX_NONE, NULL);
    g_clear_object (&m);
    if (grammar && tl_grammar_set_vocabulary (grammar, trie, NULL))
      m = tl_grammar_create_matcher (grammar, NULL);
    compile[i] = g_get_monotonic_time () - began;
  }
  if (!m) {
    g_print ("%s: refused\n", pattern);
    return;
  }
  for (guint i = 0, taken = 0; i < STEPS; i++) {
    gint64 began = g_get_monotonic_time ();
    tl_matcher_fill_mask (m, words, end_id / 32 + 1, NULL);
    masks[i] = g_get_monotonic_time () - began;
    gint32 id = best_token (words, end_id, rand);
    began = g_get_monotonic_time ();
    if (id < 0 || id == end_id || !tl_matcher_advance (m, id, NULL))
      tl_matcher_rollback (m, taken, NULL), taken = 0;
    else
      taken++;
    advances[i] = g_get_monotonic_time () - began;
  }
  g_print ("%s\n ", pattern);
  print_percentiles ("compile", compile, COMPILES);
  print_percentiles ("mask", masks, STEPS);
  print_percentiles ("advance", advances, STEPS);
  g_print ("\n");
}

int
main (int argc, char **argv)
{
  static const char *patterns[] = { "\\d{4}-\\d{2}-\\d{2}", "[a-z]{1,1000}", "\\{\"name\":\"[a-z]+\"\\}", "(\\w+\\s){1,50}\\w+\\.",
    "[a-zA-Z0-9._%+-]+@[a-zA-Z0-9-]+(\\.[a-zA-Z0-9-]+)*\\.[a-zA-Z]{2,6}", ".{0,4000}x", "(.|\\n)*", "\\b\\w{1,200}\\b" };
  gint32 end_id;
  if (argc < 2) {
    g_printerr ("usage: grammar-bench TOKENIZER.json.gz [PATTERN …]\n");
    return 2;
  }
  g_autoptr (TlTokenTrie) trie = load (argv[1], &end_id);
  g_print ("times in µs: p50 / p99 / max\n");
  for (int i = 2; i < argc; i++)
    measure (argv[i], trie, end_id);
  for (guint i = 0; argc == 2 && i < G_N_ELEMENTS (patterns); i++)
    measure (patterns[i], trie, end_id);
  return 0;
}
