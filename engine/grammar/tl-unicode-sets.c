/* engine/grammar/tl-unicode-sets.c — character sets from GLib's tables of categories, scripts and simple case mappings.
 *
 * \w is Alphabetic, marks, decimal digits, connectors and joiners; of Alphabetic only the circled letters are neither letter,
 * mark nor letter number, so they are listed. Case variants are the orbits of simple case folding.
 */
#include "grammar/tl-unicode-sets.h"

#include <glib-object.h>
#include <string.h>

typedef struct
{
  guint32 lo, hi;
  int value;
} Run;

typedef struct
{
  guint32 key, c;               /* all c with one key are variants of each other */
} Fold;

#define LAST_CASED 0x1ffffu     /* no code point above has a case mapping */
#define BIT(type) (1u << G_UNICODE_##type)
#define LETTERS (BIT (UPPERCASE_LETTER) | BIT (LOWERCASE_LETTER) | BIT (TITLECASE_LETTER) | BIT (MODIFIER_LETTER) | \
    BIT (OTHER_LETTER))
#define MARKS (BIT (SPACING_MARK) | BIT (ENCLOSING_MARK) | BIT (NON_SPACING_MARK))

/* ---- tables, made on first use */

static int
category_of (gunichar c)
{
  return g_unichar_type (c);
}

static int
script_of (gunichar c)
{
  return g_unichar_get_script (c);
}

static GArray *
gather_runs (int (*value_of) (gunichar))
{
  GArray *runs = g_array_new (FALSE, FALSE, sizeof (Run));
  Run run = { 0, 0, value_of (0) };
  for (guint32 c = 1; c <= TL_CHAR_MAX; c++) {
    int value = value_of (c);
    if (value != run.value) {
      g_array_append_val (runs, run);
      run = (Run) { c, c, value };
    }
    run.hi = c;
  }
  g_array_append_val (runs, run);
  return runs;
}

static const GArray *
category_runs (void)
{
  static gsize once;
  if (g_once_init_enter (&once))
    g_once_init_leave (&once, (gsize) gather_runs (category_of));
  return (const GArray *) once;
}

static const GArray *
script_runs (void)
{
  static gsize once;
  if (g_once_init_enter (&once))
    g_once_init_leave (&once, (gsize) gather_runs (script_of));
  return (const GArray *) once;
}

/* simple case folding; the dotted and the dotless i fold to themselves */
static guint32
fold (guint32 c)
{
  return c == 0x130 || c == 0x131 ? c : g_unichar_tolower (g_unichar_toupper (c));
}

static int
compare_folds (gconstpointer a, gconstpointer b)
{
  const Fold *x = a, *y = b;
  if (x->key != y->key)
    return x->key < y->key ? -1 : 1;
  return x->c < y->c ? -1 : x->c > y->c;
}

static GArray *
gather_folds (void)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (Fold));
  GArray *folds = g_array_new (FALSE, FALSE, sizeof (Fold));
  for (guint32 c = 0; c <= LAST_CASED; c++) {
    Fold f = { fold (c), c };
    if (f.key != c || g_unichar_toupper (c) != c)
      g_array_append_val (all, f);
  }
  /* a capital whose small letter has no capital of its own still belongs to that letter */
  for (guint i = 0, n = all->len; i < n; i++) {
    Fold f = { g_array_index (all, Fold, i).key, g_array_index (all, Fold, i).key };
    g_array_append_val (all, f);
  }
  g_array_sort (all, compare_folds);
  for (guint i = 0; i < all->len; i++)
    if (i == 0 || compare_folds (&g_array_index (all, Fold, i), &g_array_index (all, Fold, i - 1)) != 0)
      g_array_append_val (folds, g_array_index (all, Fold, i));
  return folds;
}

static const GArray *
case_folds (void)
{
  static gsize once;
  if (g_once_init_enter (&once))
    g_once_init_leave (&once, (gsize) gather_folds ());
  return (const GArray *) once;
}

/* ---- sets */

static GArray *
set_of (const TlCharRange *ranges, guint n)
{
  GArray *set = tl_char_set_new ();
  g_array_append_vals (set, ranges, n);
  tl_char_set_normalise (set);
  return set;
}
#define SET_OF(...) set_of ((TlCharRange[]) { __VA_ARGS__ }, sizeof ((TlCharRange[]) { __VA_ARGS__ }) / sizeof (TlCharRange))

static GArray *
set_of_categories (guint32 bits)
{
  const GArray *runs = category_runs ();
  GArray *set = tl_char_set_new ();
  for (guint i = 0; i < runs->len; i++) {
    const Run *run = &g_array_index (runs, Run, i);
    if (bits & (1u << run->value))
      tl_char_set_add (set, run->lo, run->hi);
  }
  tl_char_set_normalise (set);
  return set;
}

GArray *
tl_unicode_digits (gboolean ascii)
{
  return ascii ? SET_OF ({ '0', '9' }) : set_of_categories (BIT (DECIMAL_NUMBER));
}

GArray *
tl_unicode_words (gboolean ascii)
{
  static const TlCharRange more[] = { { 0x200c, 0x200d }, { 0x24b6, 0x24e9 }, { 0x1f130, 0x1f149 }, { 0x1f150, 0x1f169 },
    { 0x1f170, 0x1f189 } };
  if (ascii)
    return SET_OF ({ '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' });
  GArray *set = set_of_categories (LETTERS | MARKS | BIT (LETTER_NUMBER) | BIT (DECIMAL_NUMBER) | BIT (CONNECT_PUNCTUATION));
  g_array_append_vals (set, more, G_N_ELEMENTS (more));
  tl_char_set_normalise (set);
  return set;
}

GArray *
tl_unicode_spaces (gboolean ascii)
{
  if (ascii)
    return SET_OF ({ '\t', '\r' }, { ' ', ' ' });
  return SET_OF ({ '\t', '\r' }, { ' ', ' ' }, { 0x85, 0x85 }, { 0xa0, 0xa0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200a },
      { 0x2028, 0x2029 }, { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 });
}

/* the ASCII set [:@name:]; NULL: no such name */
GArray *
tl_unicode_posix (const char *name, gsize length)
{
  static const struct { const char *name; TlCharRange ranges[4]; guint n; } table[] = {
    { "alnum", { { '0', '9' }, { 'A', 'Z' }, { 'a', 'z' } }, 3 },
    { "alpha", { { 'A', 'Z' }, { 'a', 'z' } }, 2 },
    { "ascii", { { 0, 0x7f } }, 1 },
    { "blank", { { '\t', '\t' }, { ' ', ' ' } }, 2 },
    { "cntrl", { { 0, 0x1f }, { 0x7f, 0x7f } }, 2 },
    { "digit", { { '0', '9' } }, 1 },
    { "graph", { { '!', '~' } }, 1 },
    { "lower", { { 'a', 'z' } }, 1 },
    { "print", { { ' ', '~' } }, 1 },
    { "punct", { { '!', '/' }, { ':', '@' }, { '[', '`' }, { '{', '~' } }, 4 },
    { "space", { { '\t', '\r' }, { ' ', ' ' } }, 2 },
    { "upper", { { 'A', 'Z' } }, 1 },
    { "word", { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } }, 4 },
    { "xdigit", { { '0', '9' }, { 'A', 'F' }, { 'a', 'f' } }, 3 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (strlen (table[i].name) == length && memcmp (table[i].name, name, length) == 0)
      return set_of (table[i].ranges, table[i].n);
  return NULL;
}

/* ---- \p{…} */

static const struct { const char *names; guint32 bits; } categories[] = {
  { "l letter", LETTERS },
  { "lc l& casedletter", BIT (UPPERCASE_LETTER) | BIT (LOWERCASE_LETTER) | BIT (TITLECASE_LETTER) },
  { "lu uppercaseletter", BIT (UPPERCASE_LETTER) },
  { "ll lowercaseletter", BIT (LOWERCASE_LETTER) },
  { "lt titlecaseletter", BIT (TITLECASE_LETTER) },
  { "lm modifierletter", BIT (MODIFIER_LETTER) },
  { "lo otherletter", BIT (OTHER_LETTER) },
  { "m mark combiningmark", MARKS },
  { "mn nonspacingmark", BIT (NON_SPACING_MARK) },
  { "mc spacingmark", BIT (SPACING_MARK) },
  { "me enclosingmark", BIT (ENCLOSING_MARK) },
  { "n number", BIT (DECIMAL_NUMBER) | BIT (LETTER_NUMBER) | BIT (OTHER_NUMBER) },
  { "nd decimalnumber digit", BIT (DECIMAL_NUMBER) },
  { "nl letternumber", BIT (LETTER_NUMBER) },
  { "no othernumber", BIT (OTHER_NUMBER) },
  { "p punctuation punct", BIT (CONNECT_PUNCTUATION) | BIT (DASH_PUNCTUATION) | BIT (CLOSE_PUNCTUATION) |
    BIT (FINAL_PUNCTUATION) | BIT (INITIAL_PUNCTUATION) | BIT (OTHER_PUNCTUATION) | BIT (OPEN_PUNCTUATION) },
  { "pc connectorpunctuation", BIT (CONNECT_PUNCTUATION) },
  { "pd dashpunctuation", BIT (DASH_PUNCTUATION) },
  { "ps openpunctuation", BIT (OPEN_PUNCTUATION) },
  { "pe closepunctuation", BIT (CLOSE_PUNCTUATION) },
  { "pi initialpunctuation", BIT (INITIAL_PUNCTUATION) },
  { "pf finalpunctuation", BIT (FINAL_PUNCTUATION) },
  { "po otherpunctuation", BIT (OTHER_PUNCTUATION) },
  { "s symbol", BIT (CURRENCY_SYMBOL) | BIT (MODIFIER_SYMBOL) | BIT (MATH_SYMBOL) | BIT (OTHER_SYMBOL) },
  { "sm mathsymbol", BIT (MATH_SYMBOL) },
  { "sc currencysymbol", BIT (CURRENCY_SYMBOL) },
  { "sk modifiersymbol", BIT (MODIFIER_SYMBOL) },
  { "so othersymbol", BIT (OTHER_SYMBOL) },
  { "z separator", BIT (LINE_SEPARATOR) | BIT (PARAGRAPH_SEPARATOR) | BIT (SPACE_SEPARATOR) },
  { "zs spaceseparator", BIT (SPACE_SEPARATOR) },
  { "zl lineseparator", BIT (LINE_SEPARATOR) },
  { "zp paragraphseparator", BIT (PARAGRAPH_SEPARATOR) },
  { "c other", BIT (CONTROL) | BIT (FORMAT) | BIT (UNASSIGNED) | BIT (PRIVATE_USE) | BIT (SURROGATE) },
  { "cc control cntrl", BIT (CONTROL) },
  { "cf format", BIT (FORMAT) },
  { "cn unassigned", BIT (UNASSIGNED) },
  { "co privateuse", BIT (PRIVATE_USE) },
  { "cs surrogate", BIT (SURROGATE) },
};

/* lower case without blanks, hyphens and underscores: the loose matching of UAX #44 */
static char *
loose_name (const char *name, gsize length)
{
  GString *out = g_string_new (NULL);
  for (gsize i = 0; i < length; i++)
    if (name[i] != ' ' && name[i] != '_' && name[i] != '-')
      g_string_append_c (out, g_ascii_tolower (name[i]));
  return g_string_free (out, FALSE);
}

static gboolean
is_one_of (const char *name, const char *words)
{
  gsize length = strlen (name);
  for (const char *at = strstr (words, name); length && at; at = strstr (at + 1, name))
    if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
      return TRUE;
  return FALSE;
}

static GArray *
category_set (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (categories); i++)
    if (is_one_of (name, categories[i].names))
      return set_of_categories (categories[i].bits);
  return NULL;
}

/* a script by its long name or its ISO 15924 code */
static GArray *
script_set (const char *name)
{
  g_autoptr (GTypeClass) class = g_type_class_ref (G_TYPE_UNICODE_SCRIPT);
  const GEnumClass *scripts = (const GEnumClass *) class;
  for (guint i = 0; i < scripts->n_values; i++) {
    const GEnumValue *script = &scripts->values[i];
    guint32 iso = GUINT32_TO_BE (g_unicode_script_to_iso15924 (script->value));
    g_autofree char *code = loose_name ((const char *) &iso, iso ? 4 : 0);
    g_autofree char *nick = loose_name (script->value_nick, strlen (script->value_nick));
    if (script->value == G_UNICODE_SCRIPT_MATH || script->value == G_UNICODE_SCRIPT_INVALID_CODE)
      continue;               /* no values of Script: \p{Math} is another property */
    if (strcmp (name, nick) != 0 && (!*code || strcmp (name, code) != 0))
      continue;
    const GArray *runs = script_runs ();
    GArray *set = tl_char_set_new ();
    for (guint j = 0; j < runs->len; j++)
      if (g_array_index (runs, Run, j).value == script->value)
        tl_char_set_add (set, g_array_index (runs, Run, j).lo, g_array_index (runs, Run, j).hi);
    return set;
  }
  return NULL;
}

/* the set \p{@name}: a general category, a script (also gc=… and script=…) or Any, ASCII, Assigned, White_Space.
 * NULL: GLib's tables do not have it */
GArray *
tl_unicode_property (const char *name, gsize length)
{
  const char *equals = memchr (name, '=', length);
  if (equals) {
    g_autofree char *key = loose_name (name, equals - name);
    g_autofree char *value = loose_name (equals + 1, length - (equals - name) - 1);
    if (is_one_of (key, "gc generalcategory"))
      return category_set (value);
    return is_one_of (key, "sc script") ? script_set (value) : NULL;
  }
  g_autofree char *loose = loose_name (name, length);
  if (strcmp (loose, "any") == 0)
    return SET_OF ({ 0, TL_CHAR_MAX });
  if (strcmp (loose, "ascii") == 0)
    return SET_OF ({ 0, 0x7f });
  if (is_one_of (loose, "whitespace wspace space"))
    return tl_unicode_spaces (FALSE);
  if (strcmp (loose, "assigned") == 0) {
    g_autoptr (GArray) unassigned = set_of_categories (BIT (UNASSIGNED));
    return tl_char_set_negate (unassigned, TL_CHAR_MAX);
  }
  GArray *set = category_set (loose);
  return set ? set : script_set (loose);
}

/* ---- case */

static void
add_ascii_variants (GArray *set)
{
  for (guint i = 0, n = set->len; i < n; i++) {
    TlCharRange r = g_array_index (set, TlCharRange, i);
    guint32 lo = MAX (r.lo, 'A'), hi = MIN (r.hi, 'Z');
    if (lo <= hi)
      tl_char_set_add (set, lo + 32, hi + 32);
    lo = MAX (r.lo, 'a'), hi = MIN (r.hi, 'z');
    if (lo <= hi)
      tl_char_set_add (set, lo - 32, hi - 32);
  }
}

/* @set and every character that differs from one of its members by case only */
void
tl_unicode_add_case_variants (GArray *set, gboolean ascii)
{
  if (ascii) {
    add_ascii_variants (set);
    tl_char_set_normalise (set);
    return;
  }
  const GArray *folds = case_folds ();
  g_autoptr (GArray) more = tl_char_set_new ();
  for (guint i = 0, end; i < folds->len; i = end) {
    gboolean inside = FALSE;
    guint32 key = g_array_index (folds, Fold, i).key;
    for (end = i; end < folds->len && g_array_index (folds, Fold, end).key == key; end++)
      inside = inside || tl_char_set_contains (set, g_array_index (folds, Fold, end).c);
    for (guint j = i; inside && j < end; j++)
      tl_char_set_add (more, g_array_index (folds, Fold, j).c, g_array_index (folds, Fold, j).c);
  }
  tl_char_set_add_set (set, more);
  tl_char_set_normalise (set);
}
