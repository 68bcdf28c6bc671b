/* engine/grammar/tl-char-set.h — a set of code points or bytes as sorted, disjoint ranges.
 *
 * A set under construction is a GArray of TlCharRange in any order; tl_char_set_normalise() makes it canonical, and every
 * operation below wants and gives canonical sets. Used by the regex parser and the Unicode tables.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TL_CHAR_MAX 0x10ffffu

typedef struct
{
  guint32 lo, hi;               /* both inclusive */
} TlCharRange;

GArray *tl_char_set_new (void);
void tl_char_set_add (GArray *set, guint32 lo, guint32 hi);
void tl_char_set_add_set (GArray *set, const GArray *other);
void tl_char_set_normalise (GArray *set);
gboolean tl_char_set_contains (const GArray *set, guint32 c);
GArray *tl_char_set_negate (const GArray *set, guint32 max);
GArray *tl_char_set_intersect (const GArray *a, const GArray *b);

/* index of the first range whose end is not below @c; @n when there is none */
static inline guint
tl_char_ranges_find (const TlCharRange *ranges, guint n, guint32 c)
{
  guint low = 0;
  while (n > low) {
    guint middle = low + (n - low) / 2;
    if (ranges[middle].hi < c)
      low = middle + 1;
    else
      n = middle;
  }
  return low;
}

G_END_DECLS
