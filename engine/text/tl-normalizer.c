/* engine/text/tl-normalizer.c — text normalizers of tokenizer.json, one row of `kinds` each.
 *
 * A kind that has no row is refused by name. Normal forms come from GLib.
 */
#include "text/tl-normalizer.h"

#include "text/tl-characters.h"
#include "text/tl-charsmap.h"
#include "text/tl-split-pattern.h"
#include "tl-error.h"

#include <string.h>

typedef struct _Step Step;
typedef gboolean (*ApplyFunc) (const Step *step, GString *text, GError **error);

struct _Step
{
  ApplyFunc apply;
  int mode;                     /* GNormalizeMode of the normal forms */
  gboolean left, right;         /* Strip */
  gboolean clean, chinese, accents, lower;      /* BertNormalizer */
  char *content;                /* Prepend, Replace */
  TlSplitPattern *pattern;      /* Replace */
  TlCharsmap *charsmap;         /* Precompiled, SentencePiece */
  gboolean squeeze, prefix;     /* SentencePiece */
};

struct _TlNormalizer
{
  GPtrArray *steps;
};

/* whether no normal form joins @c to what stands before it */
static gboolean
begins_anew (gunichar c)
{
  if (c < 0x300)
    return TRUE;
  gboolean jamo = (c >= 0x1100 && c <= 0x11ff) || (c >= 0x3130 && c <= 0x318f) || (c >= 0xa960 && c <= 0xa97f)
      || (c >= 0xd7b0 && c <= 0xd7ff) || (c >= 0xff9e && c <= 0xffdc);
  return !jamo && !g_unichar_ismark (c) && g_unichar_combining_class (c) == 0;
}

/* GLib stops at NUL and needs quadratic time, so the text goes through it in parts */
static gboolean
apply_form (const Step *step, GString *text, GError **error)
{
  const char *start = text->str, *end = start + text->len, *p = start;
  while (p < end && (guchar) *p < 0x80)
    p++;
  if (p == end)
    return TRUE;
  g_autoptr (GString) out = g_string_sized_new (text->len);
  for (p = start; p < end; start = p) {
    while (p < end && *p && (p - start < 256 || !begins_anew (g_utf8_get_char (p))))
      p = g_utf8_next_char (p);
    g_autofree char *form = g_utf8_normalize (start, p - start, step->mode);
    g_string_append (out, form ? form : "");
    for (; p < end && !*p; p++)
      g_string_append_c (out, '\0');
  }
  g_string_truncate (text, 0);
  g_string_append_len (text, out->str, out->len);
  return TRUE;
}

/* rewrites the text character by character; @map appends what a character becomes */
static void
map_characters (GString *text, void (*map) (const Step *, gunichar, GString *), const Step *step)
{
  g_autoptr (GString) out = g_string_sized_new (text->len);
  for (const char *p = text->str; p < text->str + text->len; p = g_utf8_next_char (p))
    map (step, g_utf8_get_char (p), out);
  g_string_truncate (text, 0);
  g_string_append_len (text, out->str, out->len);
}

static void
append_char (GString *out, gunichar c)
{
  if (c)
    g_string_append_unichar (out, c);
  else
    g_string_append_c (out, '\0');
}

static void
lower_char (const Step *step, gunichar c, GString *out)
{
  append_char (out, c == 0x130 ? 'i' : tl_char_to_lower (c));
  if (c == 0x130)
    append_char (out, 0x307);
}

static void
drop_mark (const Step *step, gunichar c, GString *out)
{
  if (g_unichar_type (c) != G_UNICODE_NON_SPACING_MARK && g_unichar_type (c) != G_UNICODE_SPACING_MARK
      && g_unichar_type (c) != G_UNICODE_ENCLOSING_MARK)
    append_char (out, c);
}

static void
nmt_char (const Step *step, gunichar c, GString *out)
{
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
    return;
  gboolean space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f)
      || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  append_char (out, space ? ' ' : c);
}

static gboolean
apply_lowercase (const Step *step, GString *text, GError **error)
{
  map_characters (text, lower_char, step);
  return TRUE;
}

static gboolean
apply_strip_accents (const Step *step, GString *text, GError **error)
{
  map_characters (text, drop_mark, step);
  return TRUE;
}

static gboolean
apply_nmt (const Step *step, GString *text, GError **error)
{
  map_characters (text, nmt_char, step);
  return TRUE;
}

static gboolean
apply_strip (const Step *step, GString *text, GError **error)
{
  while (step->right && text->len) {
    const char *last = g_utf8_prev_char (text->str + text->len);
    if (!tl_char_is_space (g_utf8_get_char (last)))
      break;
    g_string_truncate (text, last - text->str);
  }
  const char *p = text->str;
  while (step->left && p < text->str + text->len && tl_char_is_space (g_utf8_get_char (p)))
    p = g_utf8_next_char (p);
  g_string_erase (text, 0, p - text->str);
  return TRUE;
}

static gboolean
apply_prepend (const Step *step, GString *text, GError **error)
{
  if (text->len)
    g_string_prepend (text, step->content);
  return TRUE;
}

typedef struct
{
  const Step *step;
  const GString *text;
  GString *out;
  gsize done;
} Replacing;

static gboolean
replace_match (gsize start, gsize end, gpointer data)
{
  Replacing *r = data;
  g_string_append_len (r->out, r->text->str + r->done, start - r->done);
  g_string_append (r->out, r->step->content);
  r->done = end;
  return r->out->len < ((gsize) 1 << 31);
}

static gboolean
apply_replace (const Step *step, GString *text, GError **error)
{
  g_autoptr (GString) out = g_string_sized_new (text->len);
  Replacing replacing = { step, text, out, 0 };
  if (!tl_split_pattern_find (step->pattern, text->str, text->len, replace_match, &replacing, error))
    return FALSE;
  g_string_append_len (out, text->str + replacing.done, text->len - replacing.done);
  g_string_truncate (text, 0);
  g_string_append_len (text, out->str, out->len);
  return TRUE;
}

static gboolean
apply_byte_level (const Step *step, GString *text, GError **error)
{
  g_autoptr (GString) out = g_string_sized_new (text->len * 2);
  tl_append_byte_level (out, text->str, text->len);
  g_string_truncate (text, 0);
  g_string_append_len (text, out->str, out->len);
  return TRUE;
}

static void
clean_char (const Step *step, gunichar c, GString *out)
{
  GUnicodeType type = g_unichar_type (c);
  gboolean break_or_tab = c == 9 || c == 10 || c == 13;
  if (!c || c == 0xfffd || (!break_or_tab && (type == G_UNICODE_CONTROL || type == G_UNICODE_FORMAT
      || type == G_UNICODE_PRIVATE_USE)))
    return;
  append_char (out, tl_char_is_space (c) ? ' ' : c);
}

static void
pad_ideograph (const Step *step, gunichar c, GString *out)
{
  gboolean pad = (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df)
      || (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf)
      || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
  if (pad)
    g_string_append_c (out, ' ');
  append_char (out, c);
  if (pad)
    g_string_append_c (out, ' ');
}

static void
drop_nonspacing (const Step *step, gunichar c, GString *out)
{
  if (g_unichar_type (c) != G_UNICODE_NON_SPACING_MARK)
    append_char (out, c);
}

static gboolean
apply_bert (const Step *step, GString *text, GError **error)
{
  if (step->clean)
    map_characters (text, clean_char, step);
  if (step->chinese)
    map_characters (text, pad_ideograph, step);
  if (step->accents) {
    Step decompose = { .mode = G_NORMALIZE_NFD };
    apply_form (&decompose, text, error);
    map_characters (text, drop_nonspacing, step);
  }
  if (step->lower)
    map_characters (text, lower_char, step);
  return TRUE;
}

static gboolean
apply_precompiled (const Step *step, GString *text, GError **error)
{
  return tl_charsmap_apply_clusters (step->charsmap, text, error);
}

static gboolean
apply_sentencepiece (const Step *step, GString *text, GError **error)
{
  g_autoptr (GString) out = g_string_sized_new (text->len + 3);
  gsize at = 0;
  gboolean after_space = step->squeeze;
  if (!text->len)
    return TRUE;
  if (step->prefix)
    g_string_append (out, TL_META);
  gsize start = out->len;
  while (at < text->len) {
    gsize used, length;
    const char *piece = tl_charsmap_longest (step->charsmap, text->str + at, text->len - at, &used, &length);
    for (gsize i = 0; i < length; i++) {
      gboolean space = piece[i] == ' ';
      if (space && !(after_space && step->squeeze))
        g_string_append (out, TL_META);
      else if (!space)
        g_string_append_c (out, piece[i]);
      after_space = space;
    }
    at += used;
  }
  while (step->squeeze && out->len >= start + 3 && memcmp (out->str + out->len - 3, TL_META, 3) == 0)
    g_string_truncate (out, out->len - 3);
  if (out->len == start && step->squeeze)
    g_string_truncate (out, 0);
  g_string_truncate (text, 0);
  g_string_append_len (text, out->str, out->len);
  return TRUE;
}

/* `node` holds the row's own members. TRUE when the step is complete */
typedef gboolean (*ReadFunc) (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error);

static gboolean
read_strip (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  step->left = tl_json_get_bool (tree, node, "strip_left", TRUE);
  step->right = tl_json_get_bool (tree, node, "strip_right", TRUE);
  return TRUE;
}

static gboolean
missing (const char *name, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: normalizer: '%s' is missing or no string", name, what);
  return FALSE;
}

static gboolean
read_prepend (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  step->content = tl_json_get_string (tree, node, "prepend");
  return step->content || missing (name, "prepend", error);
}

static gboolean
read_replace (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  guint32 pattern = tl_json_get (tree, node, "pattern");
  g_autofree char *regex = pattern ? tl_json_get_string (tree, pattern, "Regex") : NULL;
  g_autofree char *literal = pattern ? tl_json_get_string (tree, pattern, "String") : NULL;
  step->content = tl_json_get_string (tree, node, "content");
  if (!step->content || (!regex && !literal))
    return missing (name, step->content ? "pattern" : "content", error);
  step->pattern = regex ? tl_split_pattern_new_regex (regex, name, error)
      : tl_split_pattern_new_literal (literal, strlen (literal));
  return step->pattern != NULL;
}

static gboolean
read_bert (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  step->clean = tl_json_get_bool (tree, node, "clean_text", TRUE);
  step->chinese = tl_json_get_bool (tree, node, "handle_chinese_chars", TRUE);
  step->lower = tl_json_get_bool (tree, node, "lowercase", TRUE);
  step->accents = tl_json_get_bool (tree, node, "strip_accents", step->lower);
  return TRUE;
}

static gboolean
read_charsmap (Step *step, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  g_autofree char *map = tl_json_get_string (tree, node, "precompiled_charsmap");
  step->squeeze = tl_json_get_bool (tree, node, "remove_extra_whitespaces", FALSE);
  step->prefix = tl_json_get_bool (tree, node, "add_dummy_prefix", FALSE);
  step->charsmap = tl_charsmap_new (map ? map : "", name, error);
  return step->charsmap != NULL;
}

static const struct
{
  const char *type;
  ApplyFunc apply;
  int mode;
  ReadFunc read;
} kinds[] = {
  { "NFC", apply_form, G_NORMALIZE_NFC },
  { "NFD", apply_form, G_NORMALIZE_NFD },
  { "NFKC", apply_form, G_NORMALIZE_NFKC },
  { "NFKD", apply_form, G_NORMALIZE_NFKD },
  { "Lowercase", apply_lowercase },
  { "StripAccents", apply_strip_accents },
  { "Nmt", apply_nmt },
  { "Strip", apply_strip, 0, read_strip },
  { "Prepend", apply_prepend, 0, read_prepend },
  { "Replace", apply_replace, 0, read_replace },
  { "ByteLevel", apply_byte_level },
  { "BertNormalizer", apply_bert, 0, read_bert },
  { "Precompiled", apply_precompiled, 0, read_charsmap },
  { "SentencePiece", apply_sentencepiece, 0, read_charsmap },     /* ours: what a .model file does */
};

static void
step_free (gpointer data)
{
  Step *step = data;
  g_free (step->content);
  g_clear_pointer (&step->pattern, tl_split_pattern_free);
  g_clear_pointer (&step->charsmap, tl_charsmap_free);
  g_free (step);
}

static gboolean
add_steps (TlNormalizer *normalizer, const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  g_autofree char *type = tl_json_get_string (tree, node, "type");
  if (g_strcmp0 (type, "Sequence") == 0) {
    guint32 list = tl_json_get (tree, node, "normalizers");
    guint32 child = list ? tl_json_first (tree, list) : TL_JSON_NONE;
    for (guint32 i = 0; child && i < tl_json_node (tree, list)->count; i++) {
      if (!add_steps (normalizer, tree, child, name, error))
        return FALSE;
      child = tl_json_node (tree, child)->next;
    }
    return TRUE;
  }
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    if (g_strcmp0 (type, kinds[i].type) != 0)
      continue;
    Step *step = g_new0 (Step, 1);
    step->apply = kinds[i].apply;
    step->mode = kinds[i].mode;
    g_ptr_array_add (normalizer->steps, step);
    return !kinds[i].read || kinds[i].read (step, tree, node, name, error);
  }
  g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: normalizer '%s' is not supported", name,
      type ? type : "(no type)");
  return FALSE;
}

/* reads a normalizer; @node NONE = no change. Errors: TL_ERROR_UNSUPPORTED, TL_ERROR_BAD_FILE */
TlNormalizer *
tl_normalizer_new (const TlJsonTree *tree, guint32 node, const char *name, GError **error)
{
  g_autoptr (TlNormalizer) normalizer = g_new0 (TlNormalizer, 1);
  normalizer->steps = g_ptr_array_new_with_free_func (step_free);
  if (node && !add_steps (normalizer, tree, node, name, error))
    return NULL;
  return g_steal_pointer (&normalizer);
}

void
tl_normalizer_free (TlNormalizer *normalizer)
{
  g_ptr_array_unref (normalizer->steps);
  g_free (normalizer);
}

gboolean
tl_normalizer_apply (const TlNormalizer *normalizer, GString *text, GError **error)
{
  for (guint i = 0; i < normalizer->steps->len; i++) {
    const Step *step = g_ptr_array_index (normalizer->steps, i);
    if (!step->apply (step, text, error))
      return FALSE;
  }
  return TRUE;
}
