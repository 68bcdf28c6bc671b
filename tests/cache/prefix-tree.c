/* tests/cache/prefix-tree.c — the radix tree finds what a plain search over all stored sequences finds, through any order of
 * insertions and removals. */
#include "cache/tl-prefix-tree.h"

#define N 60
#define LONGEST 12

typedef struct { guint32 ids[LONGEST]; guint n; gboolean stored; } Stored;

static guint
shared_with (const Stored *s, const guint32 *ids, guint n)
{
  guint i = 0;
  while (i < MIN (n, s->n) && s->ids[i] == ids[i])
    i++;
  return i;
}

static void
check (TlPrefixTree *tree, const Stored *all, const guint32 *ids, guint n)
{
  guint best = 0, best_whole = 0, shared, whole;
  for (guint i = 0; i < N; i++)
    if (all[i].stored)
      {
        guint k = shared_with (&all[i], ids, n);
        best = MAX (best, k);
        if (k == all[i].n)
          best_whole = MAX (best_whole, k);
      }
  const Stored *a = tl_prefix_tree_find (tree, ids, n, &shared), *b = tl_prefix_tree_find_whole (tree, ids, n, &whole);
  g_assert_cmpuint (shared, ==, best);
  g_assert_cmpuint (whole, ==, best_whole);
  g_assert_true ((a != NULL) == (best > 0) && (b != NULL) == (best_whole > 0));
  if (a)
    g_assert_cmpuint (shared_with (a, ids, n), ==, best);
  if (b)
    g_assert_true (b->n == whole && shared_with (b, ids, n) == whole);
}

static void
test_it_finds_what_a_plain_search_finds (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  g_autoptr (TlPrefixTree) tree = tl_prefix_tree_new ();
  Stored all[N] = { 0 };
  for (guint round = 0; round < 20000; round++)
    {
      Stored *s = &all[g_rand_int_range (rand, 0, N)];
      if (s->stored)
        {
          g_assert_true (tl_prefix_tree_remove (tree, s->ids, s->n) == s);
          g_assert_null (tl_prefix_tree_remove (tree, s->ids, s->n));
          s->stored = FALSE;
        }
      else
        {
          s->n = g_rand_int_range (rand, 1, LONGEST + 1);
          for (guint i = 0; i < s->n; i++)
            s->ids[i] = g_rand_int_range (rand, 0, 3);
          Stored *old = tl_prefix_tree_insert (tree, s->ids, s->n, s);
          if (old)
            old->stored = FALSE;
          s->stored = TRUE;
        }
      guint32 ids[LONGEST];
      guint n = g_rand_int_range (rand, 1, LONGEST + 1);
      for (guint i = 0; i < n; i++)
        ids[i] = g_rand_int_range (rand, 0, 3);
      check (tree, all, ids, n);
    }
  for (guint i = 0; i < N; i++)
    if (all[i].stored)
      tl_prefix_tree_remove (tree, all[i].ids, all[i].n);
  g_assert_true (tl_prefix_tree_is_empty (tree));
}

static void
test_ids_are_compared_not_their_hash (void)
{
  g_autoptr (TlPrefixTree) tree = tl_prefix_tree_new ();
  guint32 a[] = { 5, 6, 7 }, b[] = { 5, 6, 8, 9 }, c[] = { 4, 6, 7 };
  guint shared;
  tl_prefix_tree_insert (tree, a, 3, a);
  g_assert_true (tl_prefix_tree_find (tree, b, 4, &shared) == a);
  g_assert_cmpuint (shared, ==, 2);
  g_assert_null (tl_prefix_tree_find_whole (tree, b, 4, &shared));
  g_assert_null (tl_prefix_tree_find (tree, c, 3, &shared));
  g_assert_cmpuint (shared, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cache/prefix-tree/it-finds-what-a-plain-search-finds", test_it_finds_what_a_plain_search_finds);
  g_test_add_func ("/cache/prefix-tree/ids-are-compared-not-their-hash", test_ids_are_compared_not_their_hash);
  return g_test_run ();
}
