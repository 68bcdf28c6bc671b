/* engine/grammar/tl-stepper.c — closures over empty moves, UTF-8 inside classes, and which configurations others cover. */
#include "grammar/tl-stepper.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MAX (2 + TL_NFA_MAX_DEPTH)
#define PROGRESS(need, partial) ((guint32) (need) << 24 | (partial))
#define ANY_REST 0x1fffffu      /* partial value: every continuation is in the class */

/* second word of an open move: what may follow, what came before, which loops began an iteration since the last byte */
#define FLAGS(pending, before, fresh) ((pending) | (before) << 5 | (fresh) << 8)

typedef enum { MISS, PARTIAL, DONE } Consumed;

struct _TlStepper
{
  const TlNfa *nfa;
  const TlNfaInstruction *code;
  guint stride;
  guint32 *seen, generation;    /* per instruction, for moves without counters and assertions */
  GArray *stack, *out, *visited;   /* moves; configurations; moves with counters or assertions */
  guint32 *slots, n_slots;      /* hash of `visited`, index + 1 */
  gboolean counted, failed;
  gsize work;
};

TlStepper *
tl_stepper_new (const TlNfa *nfa)
{
  TlStepper *s = g_new0 (TlStepper, 1);
  s->nfa = nfa;
  s->code = (const TlNfaInstruction *) nfa->code->data;
  s->stride = 2 + nfa->max_depth;
  s->seen = g_new0 (guint32, nfa->code->len);
  s->stack = g_array_new (FALSE, FALSE, sizeof (guint32) * s->stride);
  s->out = g_array_new (FALSE, FALSE, sizeof (guint32) * s->stride);
  s->visited = g_array_new (FALSE, FALSE, sizeof (guint32) * s->stride);
  s->n_slots = 64;
  s->slots = g_new0 (guint32, s->n_slots);
  return s;
}

void
tl_stepper_free (TlStepper *s)
{
  g_free (s->seen);
  g_free (s->slots);
  g_array_unref (s->stack);
  g_array_unref (s->out);
  g_array_unref (s->visited);
  g_free (s);
}

guint
tl_stepper_get_stride (const TlStepper *s)
{
  return s->stride;
}

/* a new operation: its work is counted from here */
void
tl_stepper_begin (TlStepper *s)
{
  s->work = 0;
}

static guint32 *
row (TlStepper *s, GArray *array, guint i)
{
  return (guint32 *) array->data + (gsize) i * s->stride;
}

static guint32
hash_words (const guint32 *words, guint n)
{
  guint32 h = 2166136261u;
  for (guint i = 0; i < n; i++)
    h = (h ^ words[i]) * 16777619u, h ^= h >> 15;
  return h;
}

static guint32 *
find_slot (TlStepper *s, const guint32 *move)
{
  guint32 at = hash_words (move, s->stride) & (s->n_slots - 1);
  while (s->slots[at] && memcmp (row (s, s->visited, s->slots[at] - 1), move, s->stride * 4) != 0)
    at = (at + 1) & (s->n_slots - 1);
  return &s->slots[at];
}

static gboolean
first_visit (TlStepper *s, const guint32 *move)
{
  if (!s->nfa->has_asserts && s->code[move[0]].depth == 0) {
    gboolean first = s->seen[move[0]] != s->generation;
    s->seen[move[0]] = s->generation;
    return first;
  }
  guint32 *slot = find_slot (s, move);
  if (*slot)
    return FALSE;
  g_array_append_vals (s->visited, move, 1);
  *slot = s->visited->len;
  if (s->visited->len * 2 > s->n_slots) {
    s->n_slots *= 2;
    s->slots = g_renew (guint32, s->slots, s->n_slots);
    memset (s->slots, 0, s->n_slots * 4);
    for (guint i = 0; i < s->visited->len; i++)
      *find_slot (s, row (s, s->visited, i)) = i + 1;
  }
  return TRUE;
}

static void
push (TlStepper *s, guint32 *move, guint32 pc)
{
  move[0] = pc;
  for (guint i = s->code[pc].depth; i < s->nfa->max_depth; i++)
    move[2 + i] = 0;
  if (first_visit (s, move))
    g_array_append_vals (s->stack, move, 1);
}

/* an iteration of @loop ended: the same loop again, or out of it */
static void
push_loop (TlStepper *s, guint32 *move, const TlNfaInstruction *in)
{
  const TlNfaLoop *loop = &g_array_index (s->nfa->loops, TlNfaLoop, in->value);
  guint level = in->depth - 1;
  guint32 fresh = move[1] >> 8, done = move[2 + level] + 1, before = move[2 + level];
  if (fresh >> level & 1)
    return;                     /* an empty iteration */
  guint32 again[WORDS_MAX];
  memcpy (again, move, s->stride * 4);
  if (loop->max == TL_REPEAT_FOREVER || done < loop->max) {
    again[2 + level] = loop->max == TL_REPEAT_FOREVER ? MIN (done, loop->min - 1) : done;
    again[1] = FLAGS (again[1] & 0xff, 0, fresh | 1u << level);
    s->counted = s->counted || again[2 + level] != before;
    push (s, again, loop->body);
  } else
    s->counted = TRUE;
  if (done >= loop->min)
    push (s, move, in->next);
}

static void
emit_configuration (TlStepper *s, const guint32 *move, guint32 progress)
{
  guint32 c[WORDS_MAX];
  memcpy (c, move, s->stride * 4);
  c[1] = progress;
  g_array_append_vals (s->out, c, 1);
}

static void
follow (TlStepper *s, guint32 *move)
{
  const TlNfaInstruction *in = &s->code[move[0]];
  guint32 copy[WORDS_MAX], pending = move[1] & TL_KINDS_ALL, before = move[1] >> 5 & 7, fresh = move[1] >> 8;
  switch (in->op) {
    case TL_NFA_ACCEPT:
      if (pending >> TL_KIND_EDGE & 1)
        emit_configuration (s, move, 0);
      return;
    case TL_NFA_CLASS:
      if (!in->dead && (pending >> in->kind & 1))
        emit_configuration (s, move, 0);
      return;
    case TL_NFA_SPLIT:
      memcpy (copy, move, s->stride * 4);
      push (s, copy, in->other);
      push (s, move, in->next);
      return;
    case TL_NFA_ENTER:
      memcpy (copy, move, s->stride * 4);
      if (g_array_index (s->nfa->loops, TlNfaLoop, in->value).min == 0)
        push (s, copy, in->other);
      move[2 + in->depth] = 0;
      move[1] = FLAGS (pending, before, fresh | 1u << in->depth);
      push (s, move, in->next);
      return;
    case TL_NFA_LOOP:
      push_loop (s, move, in);
      return;
    default:
      pending &= tl_assert_allows (in->value, before);
      move[1] = FLAGS (pending, before, fresh);
      if (pending)
        push (s, move, in->next);
  }
}

/* every configuration that empty moves reach from @pc after a character of kind @before */
static void
close_over (TlStepper *s, const guint32 *from, guint32 pc, guint before)
{
  guint32 move[WORDS_MAX];
  memcpy (move, from, s->stride * 4);
  move[1] = FLAGS (TL_KINDS_ALL, s->nfa->has_asserts ? before : 0, 0);
  push (s, move, pc);
  while (s->stack->len && !s->failed) {
    memcpy (move, row (s, s->stack, s->stack->len - 1), s->stride * 4);
    g_array_set_size (s->stack, s->stack->len - 1);
    /* a fresh mark outlives its loop only as long as the loop is around */
    move[1] &= 0xff | ((1u << s->code[move[0]].depth) - 1) << 8;
    follow (s, move);
    s->failed = ++s->work > TL_STEPPER_MAX_WORK || s->out->len > 4 * TL_STEPPER_MAX_CONFIGURATIONS;
  }
  g_array_set_size (s->stack, 0);
}

/* ---- UTF-8 inside a class */

static void
narrow (TlStep *step, guint lo, guint hi)
{
  step->lo = MAX (step->lo, lo), step->hi = MIN (step->hi, hi);
}

/* is @c, one of @first … @last, in the class? Narrows to the neighbours of which the same holds; @shift: byte minus value */
static gboolean
member (TlStep *step, const TlCharClass *class, guint32 c, guint32 first, guint32 last, gint32 shift)
{
  const TlCharRange *r = (const TlCharRange *) class->ranges->data;
  guint n = class->ranges->len, i = tl_char_ranges_find (r, n, c);
  gboolean inside = i < n && r[i].lo <= c;
  guint32 lo = inside ? r[i].lo : i ? r[i - 1].hi + 1 : 0;
  guint32 hi = inside ? r[i].hi : i < n ? r[i].lo - 1 : last;
  narrow (step, MAX (lo, first) + shift, MIN (hi, last) + shift);
  return inside;
}

/* is any character that begins with @partial, @need bytes to come, in the class? all of them? */
static Consumed
begin_block (const TlCharClass *class, guint need, guint32 partial, guint32 *progress)
{
  const TlCharRange *r = (const TlCharRange *) class->ranges->data;
  guint32 lo = partial << 6 * need, hi = lo | ((1u << 6 * need) - 1);
  if (partial == 0)
    lo = need == 2 ? 0x800 : 0x10000;       /* shorter forms are not UTF-8 */
  guint i = tl_char_ranges_find (r, class->ranges->len, lo);
  if (i == class->ranges->len || r[i].lo > hi)
    return MISS;
  gboolean all = partial && r[i].lo <= lo && r[i].hi >= hi;
  *progress = PROGRESS (need, all ? ANY_REST : partial);
  return PARTIAL;
}

static Consumed
consume_lead (TlStep *step, const TlCharClass *class, guint8 byte, guint32 *progress)
{
  if (byte < 0x80)
    return member (step, class, byte, 0, 0x7f, 0) ? DONE : MISS;
  if (byte < 0xc2 || byte > 0xf4) {
    narrow (step, byte < 0xc2 ? 0x80 : 0xf5, byte < 0xc2 ? 0xc1 : 0xff);
    return MISS;
  }
  narrow (step, byte, byte);
  guint need = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  return begin_block (class, need, byte & (0x3f >> need), progress);
}

static Consumed
consume (TlStep *step, const TlCharClass *class, guint8 byte, guint32 *progress)
{
  guint need = *progress >> 24;
  guint32 partial = *progress & 0xffffff;
  if (class->bytes)
    return member (step, class, byte, 0, 0xff, 0) ? DONE : MISS;
  if (!need)
    return consume_lead (step, class, byte, progress);
  if (byte < 0x80 || byte > 0xbf) {
    narrow (step, byte < 0x80 ? 0 : 0xc0, byte < 0x80 ? 0x7f : 0xff);
    return MISS;
  }
  if (partial == ANY_REST) {
    narrow (step, 0x80, 0xbf);
    *progress = PROGRESS (need - 1, ANY_REST);
    return need == 1 ? DONE : PARTIAL;
  }
  guint8 first = partial ? 0x80 : need == 2 ? 0xa0 : 0x90;
  if (byte < first) {
    narrow (step, 0x80, first - 1);
    return MISS;
  }
  guint32 base = partial << 6, c = base | (byte & 0x3f);
  if (need == 1)
    return member (step, class, c, base, base + 0x3f, 0x80 - (gint32) base) ? DONE : MISS;
  narrow (step, byte, byte);
  return begin_block (class, need - 1, c, progress);
}

/* ---- order and cover */

static int
compare_words (gconstpointer a, gconstpointer b, gpointer stride)
{
  const guint32 *x = a, *y = b;
  for (guint i = 0; i < GPOINTER_TO_UINT (stride); i++)
    if (x[i] != y[i])
      return x[i] < y[i] ? -1 : 1;
  return 0;
}

/* everything @b can still match, @a can: counters that are both past the minimum want to be small, endless ones large */
static gboolean
covers (const TlStepper *s, const guint32 *a, const guint32 *b)
{
  const TlNfaInstruction *in = &s->code[a[0]];
  if (a[0] != b[0] || a[1] != b[1])
    return FALSE;
  guint32 index = in->loop;
  for (guint level = in->depth; level-- > 0;) {
    const TlNfaLoop *loop = &g_array_index (s->nfa->loops, TlNfaLoop, index);
    guint32 x = a[2 + level], y = b[2 + level];
    gboolean less = loop->max == TL_REPEAT_FOREVER ? x >= y : x <= y && x + 1 >= loop->min;
    if (x != y && !less)
      return FALSE;
    index = loop->parent;
  }
  return TRUE;
}

/* sorts @words and drops what others cover; the number left */
static guint
tidy (const TlStepper *s, guint32 *words, guint n)
{
  guint kept = 0, group = 0;
  gsize size = s->stride * 4;
  if (n > 1)
    g_qsort_with_data (words, n, size, compare_words, GUINT_TO_POINTER (s->stride));
  for (guint i = 0; i < n; i++) {
    const guint32 *c = words + (gsize) i * s->stride;
    if (kept && (words[(gsize) (kept - 1) * s->stride] != c[0] || words[(gsize) (kept - 1) * s->stride + 1] != c[1]))
      group = kept;
    guint first = MAX (group, kept > 16 ? kept - 16 : 0);
    gboolean covered = FALSE;
    for (guint j = first; j < kept && !covered; j++)
      covered = covers (s, words + (gsize) j * s->stride, c);
    if (covered)
      continue;
    while (kept > first && covers (s, c, words + (gsize) (kept - 1) * s->stride))
      kept--;
    memmove (words + (gsize) kept++ * s->stride, c, size);
  }
  return kept;
}

static TlStep
finish (TlStepper *s, TlStep step)
{
  step.n = tidy (s, (guint32 *) s->out->data, s->out->len);
  step.words = (const guint32 *) s->out->data;
  step.counted = s->counted;
  step.failed = s->failed || step.n > TL_STEPPER_MAX_CONFIGURATIONS;
  return step;
}

static void
clear (TlStepper *s)
{
  if (++s->generation == 0) {
    memset (s->seen, 0, s->nfa->code->len * 4);
    s->generation = 1;
  }
  if (s->visited->len)
    memset (s->slots, 0, s->n_slots * 4);
  g_array_set_size (s->visited, 0);
  g_array_set_size (s->out, 0);
  s->counted = s->failed = FALSE;
}

/* the set before the first byte */
TlStep
tl_stepper_start (TlStepper *s)
{
  guint32 none[WORDS_MAX] = { 0 };
  clear (s);
  if (s->nfa->start != TL_NFA_NONE)
    close_over (s, none, s->nfa->start, TL_KIND_EDGE);
  return finish (s, (TlStep) { .hi = 255 });
}

/* the set after @byte */
TlStep
tl_stepper_step (TlStepper *s, const guint32 *words, guint n, guint8 byte)
{
  TlStep step = { .hi = 255 };
  clear (s);
  for (guint i = 0; i < n && !s->failed; i++, words += s->stride) {
    const TlNfaInstruction *in = &s->code[words[0]];
    guint32 progress = words[1];
    if (in->op != TL_NFA_CLASS)
      continue;
    Consumed what = consume (&step, &g_array_index (s->nfa->classes, TlCharClass, in->value), byte, &progress);
    if (what == PARTIAL)
      emit_configuration (s, words, progress);
    if (what == DONE)
      close_over (s, words, in->next, in->kind);
    s->failed = s->failed || ++s->work > TL_STEPPER_MAX_WORK;
  }
  return finish (s, step);
}

/* replaces counters by the smallest that behave alike for @horizon more iterations; the number of configurations left */
guint
tl_stepper_generalise (const TlStepper *s, guint32 *words, guint n, guint horizon)
{
  for (guint i = 0; i < n; i++) {
    guint32 *c = words + (gsize) i * s->stride, index = s->code[c[0]].loop;
    for (guint level = s->code[c[0]].depth; level-- > 0;) {
      const TlNfaLoop *loop = &g_array_index (s->nfa->loops, TlNfaLoop, index);
      guint64 done = (guint64) c[2 + level] + 1;
      if (done + horizon < loop->min)
        c[2 + level] = 0;
      else if (done >= loop->min && loop->max != TL_REPEAT_FOREVER && done + horizon < loop->max)
        c[2 + level] = loop->min ? loop->min - 1 : 0;
      index = loop->parent;
    }
  }
  return tidy (s, words, n);
}

/* with assertions: marks the classes from which no acceptance can be reached. FALSE: too much work */
gboolean
tl_stepper_mark_dead (TlStepper *s, TlNfa *nfa)
{
  g_autoptr (GArray) edges = g_array_new (FALSE, FALSE, 2 * sizeof (guint32));   /* to, from */
  g_autoptr (GArray) todo = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 none[WORDS_MAX] = { 0 };
  for (guint32 pc = 0; pc < nfa->code->len; pc++) {
    TlNfaInstruction *in = &g_array_index (nfa->code, TlNfaInstruction, pc);
    if (in->op != TL_NFA_CLASS)
      continue;
    clear (s);
    close_over (s, none, in->next, in->kind);
    for (guint i = 0; i < s->out->len; i++) {
      guint32 edge[2] = { row (s, s->out, i)[0], pc };
      g_array_append_vals (edges, edge, 1);
    }
    if (s->failed || edges->len > TL_STEPPER_MAX_WORK)
      return FALSE;
  }
  g_qsort_with_data (edges->data, edges->len, 8, compare_words, GUINT_TO_POINTER (1));
  for (guint32 pc = 0; pc < nfa->code->len; pc++)
    g_array_index (nfa->code, TlNfaInstruction, pc).dead = g_array_index (nfa->code, TlNfaInstruction, pc).op == TL_NFA_CLASS;
  guint32 accept = 0;           /* the compiler's first instruction */
  g_array_append_val (todo, accept);
  while (todo->len) {
    guint32 to = g_array_index (todo, guint32, todo->len - 1), low = 0;
    const guint32 *e = (const guint32 *) edges->data;
    g_array_set_size (todo, todo->len - 1);
    for (guint32 high = edges->len; low < high;) {
      guint32 middle = (low + high) / 2;
      if (e[2 * middle] < to)
        low = middle + 1;
      else
        high = middle;
    }
    for (; low < edges->len && e[2 * low] == to; low++) {
      TlNfaInstruction *in = &g_array_index (nfa->code, TlNfaInstruction, e[2 * low + 1]);
      if (in->dead)
        g_array_append_val (todo, e[2 * low + 1]);
      in->dead = FALSE;
    }
  }
  return TRUE;
}
