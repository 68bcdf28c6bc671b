/* cache/tl-sequence.c — tokens, depths and pages of one sequence.
 *
 * Invariants: every position in [start, length) has a page in group pre, coda and every existing loop group; in loop groups
 * at or beyond the position's depth stands a copy of its deepest plane (a shared page counts as a copy); a page is written
 * only while it has one reference. Called by tl-pass.c and by owners of sequences.
 */
#include "cache/tl-sequence.h"

#include <string.h>

struct _TlKvSequence
{
  gint ref_count;
  TlKvStore *store;
  TlKvReservation *reservation; /* on whose account pages are taken; or NULL */
  guint window, start;
  gboolean pinned;
  GArray *tokens;               /* guint32 [length] */
  GArray *depths;               /* guint16 [length] */
  guint n_slots;                /* page slots of every group */
  TlPage ***held;               /* [group][slot], the owners behind table.pages */
  TlPageTable table;            /* n_groups = TL_GROUP_LOOP + loop groups */
};

/* --- page slots --- */

static void
set_page (TlKvSequence *seq, guint group, guint slot, TlPage *page)
{
  tl_page_unref (seq->store, seq->held[group][slot]);
  seq->held[group][slot] = page;
  seq->table.pages[group][slot] = page ? tl_page_data (page) : NULL;
}

static void
grow_slots (TlKvSequence *seq, guint n)
{
  if (n <= seq->n_slots)
    return;
  n = MAX (n, seq->n_slots * 2);
  for (guint g = 0; g < seq->table.n_groups; g++)
    {
      seq->held[g] = g_renew (TlPage *, seq->held[g], n);
      seq->table.pages[g] = g_renew (gpointer, seq->table.pages[g], n);
      memset (seq->held[g] + seq->n_slots, 0, (n - seq->n_slots) * sizeof (TlPage *));
      memset (seq->table.pages[g] + seq->n_slots, 0, (n - seq->n_slots) * sizeof (gpointer));
    }
  seq->n_slots = n;
}

static void
grow_groups (TlKvSequence *seq, guint n)
{
  if (n <= seq->table.n_groups)
    return;
  seq->held = g_renew (TlPage **, seq->held, n);
  seq->table.pages = g_renew (gpointer *, seq->table.pages, n);
  for (guint g = seq->table.n_groups; g < n; g++)
    {
      seq->held[g] = g_new0 (TlPage *, seq->n_slots + 1);
      seq->table.pages[g] = g_new0 (gpointer, seq->n_slots + 1);
      /* the min rule for what is already there: share the deepest pages until somebody writes */
      for (guint s = 0; g > TL_GROUP_LOOP && s < seq->n_slots; s++)
        if (seq->held[g - 1][s])
          set_page (seq, g, s, tl_page_ref (seq->held[g - 1][s]));
    }
  seq->table.n_groups = n;
}

static void
drop_slots (TlKvSequence *seq, guint from, guint to)
{
  for (guint g = 0; g < seq->table.n_groups; g++)
    for (guint s = from; s < MIN (to, seq->n_slots); s++)
      set_page (seq, g, s, NULL);
}

/* the first position that the row at `position` sees */
static guint
first_seen (const TlKvSequence *seq, guint position)
{
  return seq->window && position + 1 > seq->window ? position + 1 - seq->window : 0;
}

/* --- life --- */

TlKvSequence *
tl_kv_sequence_new (TlKvStore *store, TlKvMode mode, guint window)
{
  TlKvSequence *seq = g_new0 (TlKvSequence, 1);
  seq->ref_count = 1;
  seq->store = tl_kv_store_ref (store);
  seq->window = window;
  seq->tokens = g_array_new (FALSE, FALSE, sizeof (guint32));
  seq->depths = g_array_new (FALSE, FALSE, sizeof (guint16));
  seq->table.mode = mode;
  grow_groups (seq, TL_GROUP_LOOP);
  return seq;
}

TlKvSequence *
tl_kv_sequence_ref (TlKvSequence *seq)
{
  g_atomic_int_inc (&seq->ref_count);
  return seq;
}

void
tl_kv_sequence_unref (TlKvSequence *seq)
{
  if (!g_atomic_int_dec_and_test (&seq->ref_count))
    return;
  drop_slots (seq, 0, seq->n_slots);
  for (guint g = 0; g < seq->table.n_groups; g++)
    {
      g_free (seq->held[g]);
      g_free (seq->table.pages[g]);
    }
  g_free (seq->held);
  g_free (seq->table.pages);
  g_array_unref (seq->tokens);
  g_array_unref (seq->depths);
  tl_kv_sequence_set_reservation (seq, NULL);
  tl_kv_store_unref (seq->store);
  g_free (seq);
}

void
tl_kv_sequence_set_reservation (TlKvSequence *seq, TlKvReservation *reservation)
{
  if (reservation)
    tl_kv_reservation_ref (reservation);
  g_clear_pointer (&seq->reservation, tl_kv_reservation_unref);
  seq->reservation = reservation;
}

TlKvReservation *
tl_kv_sequence_reservation (const TlKvSequence *seq)
{
  return seq->reservation;
}

TlKvSequence *
tl_kv_sequence_fork (TlKvSequence *seq)
{
  TlKvSequence *copy = tl_kv_sequence_new (seq->store, seq->table.mode, seq->window);
  copy->start = seq->start;
  tl_kv_sequence_set_reservation (copy, seq->reservation);
  g_array_append_vals (copy->tokens, seq->tokens->data, seq->tokens->len);
  g_array_append_vals (copy->depths, seq->depths->data, seq->depths->len);
  grow_groups (copy, seq->table.n_groups);
  grow_slots (copy, seq->n_slots);
  for (guint g = 0; g < seq->table.n_groups; g++)
    for (guint s = 0; s < seq->n_slots; s++)
      if (seq->held[g][s])
        set_page (copy, g, s, tl_page_ref (seq->held[g][s]));
  return copy;
}

void
tl_kv_sequence_truncate (TlKvSequence *seq, guint length)
{
  if (length < seq->tokens->len)
    {
      if (first_seen (seq, length) < seq->start)
        length = 0;
      g_array_set_size (seq->tokens, length);
      g_array_set_size (seq->depths, length);
      seq->start = MIN (seq->start, length);
    }
  drop_slots (seq, (seq->tokens->len + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS, seq->n_slots);
}

void
tl_kv_sequence_pin (TlKvSequence *seq, gboolean pinned)
{
  seq->pinned = pinned;
}

gboolean
tl_kv_sequence_set_window (TlKvSequence *seq, guint window)
{
  guint length = seq->tokens->len;
  gboolean same = window == seq->window;
  if (!same && ((seq->window && length > seq->window) || (window && length > window)))
    return FALSE;
  seq->window = window;
  return TRUE;
}

/* --- facts --- */

TlKvStore *
tl_kv_sequence_store (const TlKvSequence *seq)
{
  return seq->store;
}

TlKvMode
tl_kv_sequence_mode (const TlKvSequence *seq)
{
  return seq->table.mode;
}

guint
tl_kv_sequence_window (const TlKvSequence *seq)
{
  return seq->window;
}

guint
tl_kv_sequence_length (const TlKvSequence *seq)
{
  return seq->tokens->len;
}

guint
tl_kv_sequence_start (const TlKvSequence *seq)
{
  return seq->start;
}

const guint32 *
tl_kv_sequence_tokens (const TlKvSequence *seq)
{
  return (const guint32 *) seq->tokens->data;
}

guint
tl_kv_sequence_depth (const TlKvSequence *seq, guint position)
{
  g_return_val_if_fail (position < seq->depths->len, 0);
  return g_array_index (seq->depths, guint16, position);
}

guint
tl_kv_sequence_max_depth (const TlKvSequence *seq)
{
  return seq->table.n_groups - TL_GROUP_LOOP;
}

TlPage *
tl_kv_sequence_page (const TlKvSequence *seq, guint group, guint slot)
{
  return group < seq->table.n_groups && slot < seq->n_slots ? seq->held[group][slot] : NULL;
}

void
tl_kv_sequence_restore (TlKvSequence *seq, const guint32 *tokens, guint n, guint start, guint loops, const guint32 *table,
  TlPage *const *pages)
{
  guint n_slots = (n + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS;
  guint16 depth = loops;
  grow_groups (seq, TL_GROUP_LOOP + loops);
  grow_slots (seq, n_slots);
  for (guint g = 0; g < TL_GROUP_LOOP + loops; g++)
    for (guint s = 0; s < n_slots; s++)
      if (table[g * n_slots + s])
        set_page (seq, g, s, tl_page_ref (pages[table[g * n_slots + s] - 1]));
  g_array_append_vals (seq->tokens, tokens, n);
  for (guint i = 0; i < n; i++)
    g_array_append_val (seq->depths, depth);
  seq->start = start;
}

TlPageTable *
tl_kv_sequence_table (TlKvSequence *seq)
{
  return &seq->table;
}

/* --- growing --- */

static gboolean
needs_page (TlKvSequence *seq, guint group, guint slot)
{
  return !seq->held[group][slot] || tl_page_is_shared (seq->held[group][slot]);
}

static gsize
group_bytes (TlKvSequence *seq, guint group)
{
  return tl_kv_page_bytes (tl_kv_store_backend (seq->store)->program, group, seq->table.mode);
}

gboolean
tl_kv_sequence_reserve (TlKvSequence *seq, guint from, guint to, guint loops, GError **error)
{
  TlBackend *backend = tl_kv_store_backend (seq->store);
  guint first = from / TL_PAGE_POSITIONS, last = (to + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS;
  gsize needed = 0;
  grow_groups (seq, TL_GROUP_LOOP + loops);
  grow_slots (seq, last);
  for (guint g = 0; g < seq->table.n_groups; g++)
    for (guint s = first; s < last; s++)
      if (needs_page (seq, g, s))
        needed += group_bytes (seq, g);
  if (!tl_kv_store_check (seq->store, seq->reservation, needed, error))
    return FALSE;

  for (guint g = 0; g < seq->table.n_groups; g++)
    for (guint s = first; s < last && group_bytes (seq, g) > 0; s++)
      if (needs_page (seq, g, s))
        {
          TlPage *page = tl_kv_store_page_new (seq->store, seq->reservation, group_bytes (seq, g), error);
          if (!page)
            return FALSE;
          if (seq->held[g][s])
            backend->klass->memory_copy (backend, tl_page_data (page), tl_page_data (seq->held[g][s]),
              tl_page_size (page));
          set_page (seq, g, s, page);
        }
  return TRUE;
}

void
tl_kv_sequence_commit (TlKvSequence *seq, guint position, guint32 token, guint depth)
{
  guint16 d = depth;
  g_return_if_fail (position <= seq->tokens->len);
  if (position == seq->tokens->len)
    {
      g_array_append_val (seq->tokens, token);
      g_array_append_val (seq->depths, d);
      return;
    }
  g_array_index (seq->tokens, guint32, position) = token;
  g_array_index (seq->depths, guint16, position) = d;
}

/* one position of all planes of a page */
static void
copy_position (TlBackend *backend, const TlKvLayout *l, guint n_planes, guint row, const guint8 *from, guint8 *to)
{
  for (guint plane = 0; plane < n_planes; plane++)
    for (guint kind = 0; kind < l->n_kinds; kind++)
      for (guint head = 0; head < l->n_heads; head++)
        {
          const TlTile *t = &l->tile[kind];
          gsize at = tl_kv_tile_at (l, plane, kind, head), values = at + row * t->row_bytes;
          gsize scales = at + tl_tile_row_scales_at (t, row), n_scales = tl_tile_row_scale_bytes (t);
          backend->klass->memory_copy (backend, to + values, from + values, t->row_bytes);
          if (n_scales)
            backend->klass->memory_copy (backend, to + scales, from + scales, n_scales);
        }
}

void
tl_kv_sequence_fill_deeper (TlKvSequence *seq, guint position, guint depth)
{
  TlBackend *backend = tl_kv_store_backend (seq->store);
  TlKvLayout layout = tl_kv_layout (backend->program, tl_kv_open_mode (seq->table.mode));
  guint slot = position / TL_PAGE_POSITIONS, n_planes = tl_program_n_planes (backend->program, TL_PLANES_LOOP);
  if (depth == 0 || group_bytes (seq, TL_GROUP_LOOP) == 0)
    return;
  const guint8 *from = seq->table.pages[TL_GROUP_LOOP + depth - 1][slot];
  for (guint g = TL_GROUP_LOOP + depth; g < seq->table.n_groups; g++)
    copy_position (backend, &layout, n_planes, position % TL_PAGE_POSITIONS, from, seq->table.pages[g][slot]);
}

void
tl_kv_sequence_replace (TlKvSequence *seq, TlKvSequence *other)
{
  TlKvSequence kept = *seq;
  TlKvReservation *account = seq->reservation;
  gint other_count = other->ref_count;
  *seq = *other;
  *other = kept;
  other->reservation = seq->reservation;        /* accounts stay where they are */
  seq->reservation = account;
  seq->ref_count = kept.ref_count;
  other->ref_count = other_count;
  tl_kv_sequence_truncate (other, 0);
}

void
tl_kv_sequence_trim (TlKvSequence *seq)
{
  guint first = first_seen (seq, seq->tokens->len);     /* what the next row sees */
  if (seq->pinned || first < TL_KV_ROLLBACK + TL_PAGE_POSITIONS)
    return;
  first = (first - TL_KV_ROLLBACK) / TL_PAGE_POSITIONS * TL_PAGE_POSITIONS;
  if (first <= seq->start)
    return;
  drop_slots (seq, seq->start / TL_PAGE_POSITIONS, first / TL_PAGE_POSITIONS);
  seq->start = first;
}
