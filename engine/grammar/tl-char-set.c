/* engine/grammar/tl-char-set.c — union, complement and intersection of sorted ranges. */
#include "grammar/tl-char-set.h"

GArray *
tl_char_set_new (void)
{
  return g_array_new (FALSE, FALSE, sizeof (TlCharRange));
}

void
tl_char_set_add (GArray *set, guint32 lo, guint32 hi)
{
  TlCharRange range = { lo, hi };
  g_array_append_val (set, range);
}

void
tl_char_set_add_set (GArray *set, const GArray *other)
{
  g_array_append_vals (set, other->data, other->len);
}

static int
compare_ranges (gconstpointer a, gconstpointer b)
{
  const TlCharRange *x = a, *y = b;
  return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void
tl_char_set_normalise (GArray *set)
{
  TlCharRange *r = (TlCharRange *) set->data;
  gboolean sorted = TRUE;
  for (guint i = 1; i < set->len && sorted; i++)
    sorted = r[i].lo > r[i - 1].hi + 1;
  if (sorted)
    return;

  g_array_sort (set, compare_ranges);
  guint kept = 0;
  for (guint i = 1; i < set->len; i++)
    if (r[i].lo <= r[kept].hi + 1)
      r[kept].hi = MAX (r[kept].hi, r[i].hi);
    else
      r[++kept] = r[i];
  g_array_set_size (set, kept + 1);
}

gboolean
tl_char_set_contains (const GArray *set, guint32 c)
{
  const TlCharRange *r = (const TlCharRange *) set->data;
  guint i = tl_char_ranges_find (r, set->len, c);
  return i < set->len && r[i].lo <= c;
}

/* everything in 0…@max that is not in @set */
GArray *
tl_char_set_negate (const GArray *set, guint32 max)
{
  GArray *out = tl_char_set_new ();
  guint32 from = 0;
  for (guint i = 0; i < set->len; i++) {
    const TlCharRange *r = &g_array_index (set, TlCharRange, i);
    if (r->lo > from)
      tl_char_set_add (out, from, r->lo - 1);
    from = r->hi + 1;
  }
  if (from <= max)
    tl_char_set_add (out, from, max);
  return out;
}

GArray *
tl_char_set_intersect (const GArray *a, const GArray *b)
{
  GArray *out = tl_char_set_new ();
  for (guint i = 0, j = 0; i < a->len && j < b->len;) {
    const TlCharRange *x = &g_array_index (a, TlCharRange, i), *y = &g_array_index (b, TlCharRange, j);
    guint32 lo = MAX (x->lo, y->lo), hi = MIN (x->hi, y->hi);
    if (lo <= hi)
      tl_char_set_add (out, lo, hi);
    if (x->hi < y->hi)
      i++;
    else
      j++;
  }
  return out;
}
