/* engine/text/tl-pretokenizer.c — pre-tokenizers of tokenizer.json, one row of `kinds` each.
 *
 * Most kinds find matches in every word and cut there by one of five behaviours; ByteLevel and Metaspace also rewrite
 * the text. A kind without a row is refused by name.
 */
#include "text/tl-pretokenizer.h"

#include "text/tl-characters.h"
#include "text/tl-split-pattern.h"
#include "tl-error.h"

#include <string.h>

#define GPT2_PATTERN "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

typedef enum { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS } Behavior;
static const char *const behaviors[] = { "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous" };

typedef enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } Prepend;

typedef struct _Step Step;
typedef struct _Parts Parts;

struct _Step
{
  gboolean (*rewrite) (const Step *step, TlWords *words);       /* before the cut, may be NULL */
  gboolean (*matches) (gunichar c);     /* single characters, or … */
  TlSplitPattern *pattern;      /* … a pattern, or … */
  gunichar delimiter;           /* … one character, or … */
  void (*find) (const Step *step, const char *text, gsize length, Parts *parts);        /* … anything else */
  guint64 length;               /* FixedLength: characters */
  void (*finish) (TlWords *words);      /* after the cut, may be NULL */
  Behavior behavior;
  gboolean invert, cuts;
  Prepend prepend;
  char *replacement;
};

struct _TlPretokenizer
{
  GPtrArray *steps;
  gboolean byte_level;
};

/* --- cutting -------------------------------------------------------------------------------------------- */

typedef struct
{
  TlSpan span;
  gboolean match;
} Part;

struct _Parts
{
  GArray *parts;                /* of Part, covers the word */
  gsize done;
  gboolean invert;
};

static void
add_part (Parts *parts, gsize start, gsize end, gboolean match)
{
  Part part = { { start, end }, match != parts->invert };
  g_array_append_val (parts->parts, part);
}

static gboolean
add_match (gsize start, gsize end, gpointer data)
{
  Parts *parts = data;
  if (start > parts->done)
    add_part (parts, parts->done, start, FALSE);
  add_part (parts, start, end, TRUE);
  parts->done = end;
  return TRUE;
}

static void
add_word (GArray *out, gsize offset, TlSpan span)
{
  TlSpan word = { span.start + offset, span.end + offset };
  if (word.end > word.start)
    g_array_append_val (out, word);
}

/* joins neighbours as the behaviour says */
static void
emit_parts (GArray *parts, Behavior behavior, gsize offset, GArray *out)
{
  TlSpan current = { 0, 0 };
  gboolean open = FALSE;
  for (guint i = 0; i < parts->len; i++) {
    const Part *part = &g_array_index (parts, Part, i);
    const Part *before = i ? &g_array_index (parts, Part, i - 1) : NULL;
    if (behavior == REMOVED && part->match)
      continue;
    gboolean join = before && ((behavior == CONTIGUOUS && part->match == before->match)
        || (behavior == MERGED_WITH_PREVIOUS && part->match && !before->match)
        || (behavior == MERGED_WITH_NEXT && before->match && !part->match));
    if (join && open)
      current.end = part->span.end;
    else {
      if (open)
        add_word (out, offset, current);
      current = part->span;
      open = TRUE;
    }
  }
  if (open)
    add_word (out, offset, current);
}

static void
find_characters (const Step *step, const char *text, gsize length, Parts *parts)
{
  for (const char *p = text; p < text + length; p = g_utf8_next_char (p)) {
    gunichar c = g_utf8_get_char (p);
    if (step->matches ? step->matches (c) : c == step->delimiter)
      add_match (p - text, g_utf8_next_char (p) - text, parts);
  }
}

static void
find_fixed (const Step *step, const char *text, gsize length, Parts *parts)
{
  gsize start = 0;
  guint64 characters = 0;
  for (const char *p = text; p < text + length; p = g_utf8_next_char (p)) {
    if (characters++ == step->length) {
      add_match (start, p - text, parts);
      start = p - text;
      characters = 1;
    }
  }
  add_match (start, length, parts);
}

static gboolean
cut_words (const Step *step, TlWords *words, GError **error)
{
  g_autoptr (GArray) out = g_array_sized_new (FALSE, FALSE, sizeof (TlSpan), words->words->len);
  g_autoptr (GArray) list = g_array_new (FALSE, FALSE, sizeof (Part));
  for (guint i = 0; i < words->words->len; i++) {
    TlSpan word = g_array_index (words->words, TlSpan, i);
    const char *text = words->text->str + word.start;
    gsize length = word.end - word.start;
    Parts parts = { list, 0, step->invert };
    g_array_set_size (list, 0);
    if (step->pattern) {
      if (!tl_split_pattern_find (step->pattern, text, length, add_match, &parts, error))
        return FALSE;
    } else if (step->find)
      step->find (step, text, length, &parts);
    else
      find_characters (step, text, length, &parts);
    if (parts.done < length)
      add_part (&parts, parts.done, length, FALSE);
    emit_parts (list, step->behavior, word.start, out);
  }
  g_array_unref (words->words);
  words->words = g_steal_pointer (&out);
  return TRUE;
}

/* Katakana and Hiragana go with Han; spaces go with anything, and so do characters without a script */
static GUnicodeScript
fixed_script (gunichar c)
{
  GUnicodeScript script = g_unichar_get_script (c);
  if (c == ' ' || script == G_UNICODE_SCRIPT_UNKNOWN)
    return G_UNICODE_SCRIPT_INVALID_CODE;
  return c == 0x30fc || script == G_UNICODE_SCRIPT_HIRAGANA || script == G_UNICODE_SCRIPT_KATAKANA
      ? G_UNICODE_SCRIPT_HAN : script;
}

static void
find_scripts (const Step *step, const char *text, gsize length, Parts *parts)
{
  GUnicodeScript last = G_UNICODE_SCRIPT_INVALID_CODE;
  gssize start = -1;            /* what stands before the first script is dropped, as the reference does */
  for (const char *p = text; p < text + length; p = g_utf8_next_char (p)) {
    GUnicodeScript script = fixed_script (g_utf8_get_char (p));
    if (script == G_UNICODE_SCRIPT_INVALID_CODE)
      continue;
    if (script != last) {
      if (start >= 0)
        add_match (start, p - text, parts);
      start = p - text;
    }
    last = script;
  }
  if (start >= 0)
    add_match (start, length, parts);
}

/* --- rewriting ------------------------------------------------------------------------------------------ */

/* rebuilds text and spans; @append writes what a word becomes */
static void
rewrite_words (TlWords *words, void (*append) (const Step *, const char *, gsize, gboolean, GString *), const Step *step)
{
  GString *out = g_string_sized_new (words->text->len + 16);
  for (guint i = 0; i < words->words->len; i++) {
    TlSpan *word = &g_array_index (words->words, TlSpan, i);
    gsize start = out->len;
    append (step, words->text->str + word->start, word->end - word->start, i == 0 && words->at_start, out);
    *word = (TlSpan) { start, out->len };
  }
  g_string_free (words->text, TRUE);
  words->text = out;
}

static void
append_meta (const Step *step, const char *text, gsize length, gboolean first, GString *out)
{
  gsize n = strlen (step->replacement);
  gboolean has = *text == ' ' || (length >= n && memcmp (text, step->replacement, n) == 0);
  if (!has && (step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && first)))
    g_string_append (out, step->replacement);
  for (gsize i = 0; i < length; i++) {
    if (text[i] == ' ')
      g_string_append (out, step->replacement);
    else
      g_string_append_c (out, text[i]);
  }
}

static gboolean
rewrite_meta (const Step *step, TlWords *words)
{
  rewrite_words (words, append_meta, step);
  return TRUE;
}

static void
append_prefixed (const Step *step, const char *text, gsize length, gboolean first, GString *out)
{
  if (*text != ' ')
    g_string_append_c (out, ' ');
  g_string_append_len (out, text, length);
}

static gboolean
rewrite_prefix (const Step *step, TlWords *words)
{
  rewrite_words (words, append_prefixed, step);
  return TRUE;
}

static void
append_bytes (const Step *step, const char *text, gsize length, gboolean first, GString *out)
{
  tl_append_byte_level (out, text, length);
}

static void
finish_byte_level (TlWords *words)
{
  rewrite_words (words, append_bytes, NULL);
}

/* --- reading the configuration -------------------------------------------------------------------------- */

static gboolean
bad (const char *name, const char *type, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: pre_tokenizer %s: '%s' is missing or has a wrong value",
      name, type, what);
  return FALSE;
}

static gboolean
read_behavior (Step *step, const TlJsonTree *tree, guint32 node, const char *name, const char *type, GError **error)
{
  g_autofree char *behavior = tl_json_get_string (tree, node, "behavior");
  for (guint i = 0; i < G_N_ELEMENTS (behaviors); i++) {
    if (g_strcmp0 (behavior, behaviors[i]) == 0) {
      step->behavior = i;
      return TRUE;
    }
  }
  return bad (name, type, "behavior", error);
}

static gboolean
read_split (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  guint32 pattern = tl_json_get (tree, node, "pattern");
  g_autofree char *regex = pattern ? tl_json_get_string (tree, pattern, "Regex") : NULL;
  g_autofree char *literal = pattern ? tl_json_get_string (tree, pattern, "String") : NULL;
  if (!regex && !literal)
    return bad (name, "Split", "pattern", error);
  step->invert = tl_json_get_bool (tree, node, "invert", FALSE);
  step->pattern = regex ? tl_split_pattern_new_regex (regex, name, error)
      : tl_split_pattern_new_literal (literal, strlen (literal));
  return step->pattern && read_behavior (step, tree, node, name, "Split", error);
}

static gboolean
read_byte_level (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  if (tl_json_get_bool (tree, node, "add_prefix_space", TRUE))
    step->rewrite = rewrite_prefix;
  step->finish = finish_byte_level;
  step->cuts = tl_json_get_bool (tree, node, "use_regex", TRUE);
  if (step->cuts)
    step->pattern = tl_split_pattern_new_regex (GPT2_PATTERN, name, error);
  return !step->cuts || step->pattern;
}

static gboolean
read_metaspace (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  static const char *const schemes[] = { "never", "first", "always" };
  g_autofree char *scheme = tl_json_get_string (tree, node, "prepend_scheme");
  step->replacement = tl_json_get_string (tree, node, "replacement");
  if (!step->replacement || g_utf8_strlen (step->replacement, -1) != 1)
    return bad (name, "Metaspace", "replacement", error);
  gboolean prefix = tl_json_get_bool (tree, node, "add_prefix_space", TRUE);
  step->prepend = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
  for (guint i = 0; scheme && i < G_N_ELEMENTS (schemes); i++)
    if (strcmp (scheme, schemes[i]) == 0)
      step->prepend = i;
  step->rewrite = rewrite_meta;
  step->cuts = tl_json_get_bool (tree, node, "split", TRUE);
  step->behavior = MERGED_WITH_NEXT;
  step->delimiter = g_utf8_get_char (step->replacement);
  return TRUE;
}

static gboolean
read_digits (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  step->behavior = tl_json_get_bool (tree, node, "individual_digits", FALSE) ? ISOLATED : CONTIGUOUS;
  return TRUE;
}

static gboolean
read_punctuation (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  step->behavior = ISOLATED;
  return !tl_json_get (tree, node, "behavior") || read_behavior (step, tree, node, name, "Punctuation", error);
}

static gboolean
read_whitespace (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  step->pattern = tl_split_pattern_new_regex ("[\\w\\x{200c}\\x{200d}]+|[^\\w\\x{200c}\\x{200d}\\s]+", name, error);
  step->invert = TRUE;
  step->behavior = REMOVED;
  return step->pattern != NULL;
}

static gboolean
read_whitespace_split (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  step->behavior = REMOVED;
  return TRUE;
}

static gboolean
read_delimiter (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  g_autofree char *delimiter = tl_json_get_string (tree, node, "delimiter");
  if (!delimiter || g_utf8_strlen (delimiter, -1) != 1)
    return bad (name, "CharDelimiterSplit", "delimiter", error);
  step->delimiter = g_utf8_get_char (delimiter);
  step->behavior = REMOVED;
  return TRUE;
}

static gboolean
read_fixed (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  gint64 length = tl_json_get_int (tree, node, "length", 5);
  if (length < 1)
    return bad (name, "FixedLength", "length", error);
  step->length = length;
  step->find = find_fixed;
  return TRUE;
}

static gboolean
read_scripts (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  step->find = find_scripts;
  step->behavior = REMOVED;
  step->invert = TRUE;
  return TRUE;
}

static const struct
{
  const char *type;
  gboolean (*matches) (gunichar c);
  gboolean (*read) (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error);
} kinds[] = {
  { "Split", NULL, read_split },
  { "ByteLevel", NULL, read_byte_level },
  { "Metaspace", NULL, read_metaspace },
  { "Digits", tl_char_is_numeric, read_digits },
  { "Punctuation", tl_char_is_punctuation, read_punctuation },
  { "Whitespace", NULL, read_whitespace },
  { "WhitespaceSplit", tl_char_is_space, read_whitespace_split },
  { "CharDelimiterSplit", NULL, read_delimiter },
  { "FixedLength", NULL, read_fixed },
  { "UnicodeScripts", NULL, read_scripts },
};

static void
step_free (gpointer data)
{
  Step *step = data;
  g_clear_pointer (&step->pattern, tl_split_pattern_free);
  g_free (step->replacement);
  g_free (step);
}

static Step *
add_step (TlPretokenizer *pretokenizer)
{
  Step *step = g_new0 (Step, 1);
  step->cuts = TRUE;
  g_ptr_array_add (pretokenizer->steps, step);
  return step;
}

static gboolean
add_steps (TlPretokenizer *pretokenizer, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  g_autofree char *type = tl_json_get_string (tree, node, "type");
  if (g_strcmp0 (type, "Sequence") == 0) {
    guint32 list = tl_json_get (tree, node, "pretokenizers");
    guint32 child = list ? tl_json_first (tree, list) : TL_JSON_NONE;
    for (guint32 i = 0; child && i < tl_json_node (tree, list)->count; i++) {
      if (!add_steps (pretokenizer, tree, child, name, error))
        return FALSE;
      child = tl_json_node (tree, child)->next;
    }
    return TRUE;
  }
  if (g_strcmp0 (type, "BertPreTokenizer") == 0) {
    Step *space = add_step (pretokenizer), *mark = add_step (pretokenizer);
    space->matches = tl_char_is_space;
    space->behavior = REMOVED;
    mark->matches = tl_char_is_punctuation;
    return TRUE;
  }
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    if (g_strcmp0 (type, kinds[i].type) != 0)
      continue;
    Step *step = add_step (pretokenizer);
    step->matches = kinds[i].matches;
    pretokenizer->byte_level |= kinds[i].read == read_byte_level;
    return kinds[i].read (step, tree, node, name, error);
  }
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: pre_tokenizer '%s' is not supported", name,
      type ? type : "(no type)");
  return FALSE;
}

/* reads a pre-tokenizer; @node NONE = the whole text is one word. Errors: TL_ERROR_UNSUPPORTED, TL_ERROR_BAD_FILE */
TlPretokenizer *
tl_pretokenizer_new (const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  g_autoptr (TlPretokenizer) pretokenizer = g_new0 (TlPretokenizer, 1);
  pretokenizer->steps = g_ptr_array_new_with_free_func (step_free);
  if (node && !add_steps (pretokenizer, tree, node, name, error))
    return NULL;
  return g_steal_pointer (&pretokenizer);
}

void
tl_pretokenizer_free (TlPretokenizer *pretokenizer)
{
  g_ptr_array_unref (pretokenizer->steps);
  g_free (pretokenizer);
}

gboolean
tl_pretokenizer_is_byte_level (const TlPretokenizer *pretokenizer)
{
  return pretokenizer->byte_level;
}

/* cuts the words further, step by step */
gboolean
tl_pretokenizer_apply (const TlPretokenizer *pretokenizer, TlWords *words, GError **error)
{
  for (guint i = 0; i < pretokenizer->steps->len; i++) {
    const Step *step = g_ptr_array_index (pretokenizer->steps, i);
    if (step->rewrite)
      step->rewrite (step, words);
    if (step->cuts && !cut_words (step, words, error))
      return FALSE;
    if (step->finish)
      step->finish (words);
  }
  return TRUE;
}
