/* engine/text/tl-charsmap.c — looks up replacements in SentencePiece's precompiled character map.
 *
 * Layout: u32 bytes of the trie, the trie's u32 units (Darts-clone), then NUL-terminated replacements.
 * Every position is checked, so a damaged map finds nothing instead of reading outside.
 */
#include "text/tl-charsmap.h"

#include "text/tl-split-pattern.h"
#include "tl-error.h"

#include <string.h>

struct _TlCharsmap
{
  guchar *data;
  gsize n_units;
  const guchar *units;
  const char *replacements;
  gsize replacements_length;
  TlSplitPattern *clusters;     /* one grapheme cluster */
};

/* @base64: the map, "" = none. Errors: TL_ERROR_BAD_FILE */
TlCharsmap *
tl_charsmap_new (const char *base64, const char *name, GError **error)
{
  TlCharsmap *map = g_new0 (TlCharsmap, 1);
  gsize size;
  map->data = g_base64_decode (base64, &size);
  map->clusters = tl_split_pattern_new_regex ("\\X", name, error);
  if (!map->clusters || !size)
    return map->clusters ? map : (tl_charsmap_free (map), NULL);
  guint32 trie_size = 0;
  if (size >= 4) {
    memcpy (&trie_size, map->data, 4);
    trie_size = GUINT32_FROM_LE (trie_size);
  }
  if (size < 4 || trie_size % 4 || trie_size > size - 4 || trie_size < 4 || map->data[size - 1] != 0) {
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: normalizer: 'precompiled_charsmap' is damaged", name);
    tl_charsmap_free (map);
    return NULL;
  }
  map->units = map->data + 4;
  map->n_units = trie_size / 4;
  map->replacements = (const char *) map->data + 4 + trie_size;
  map->replacements_length = size - 4 - trie_size;
  return map;
}

void
tl_charsmap_free (TlCharsmap *map)
{
  g_clear_pointer (&map->clusters, tl_split_pattern_free);
  g_free (map->data);
  g_free (map);
}

static gboolean
read_unit (const TlCharsmap *map, gsize at, guint32 *unit)
{
  if (at >= map->n_units)
    return FALSE;
  memcpy (unit, map->units + 4 * at, 4);
  *unit = GUINT32_FROM_LE (*unit);
  return TRUE;
}

static gsize
unit_offset (guint32 unit)
{
  return (gsize) (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* the replacement of the first (@longest: the longest) key that begins @text; NULL when there is none */
static const char *
find (const TlCharsmap *map, const char *text, gsize length, gboolean longest, gsize *used)
{
  const char *found = NULL;
  guint32 unit;
  if (!read_unit (map, 0, &unit))
    return NULL;
  gsize at = unit_offset (unit);
  for (gsize i = 0; i < length && text[i]; i++) {
    at ^= (guchar) text[i];
    if (!read_unit (map, at, &unit) || (unit & (1u << 31 | 0xff)) != (guchar) text[i])
      break;
    at ^= unit_offset (unit);
    guint32 leaf;
    if ((unit >> 8 & 1) && read_unit (map, at, &leaf) && (leaf & 0x7fffffff) < map->replacements_length
        && g_utf8_validate (map->replacements + (leaf & 0x7fffffff), -1, NULL)) {
      found = map->replacements + (leaf & 0x7fffffff);
      *used = i + 1;
      if (!longest)
        break;
    }
  }
  return found;
}

/* SentencePiece's own rule: the longest key here, or one character as it is.
 * @used: bytes of @text taken; @out_length: bytes returned */
const char *
tl_charsmap_longest (const TlCharsmap *map, const char *text, gsize length, gsize *used, gsize *out_length)
{
  const char *replacement = find (map, text, length, TRUE, used);
  if (replacement) {
    *out_length = strlen (replacement);
    return replacement;
  }
  *used = *out_length = MIN ((gsize) (g_utf8_next_char (text) - text), length);
  return text;
}

typedef struct
{
  const TlCharsmap *map;
  const char *text;
  GString *out;
} Applying;

static gboolean
replace_cluster (gsize start, gsize end, gpointer data)
{
  Applying *a = data;
  gsize used;
  const char *whole = end - start < 6 ? find (a->map, a->text + start, end - start, FALSE, &used) : NULL;
  if (whole) {
    g_string_append (a->out, whole);
    return TRUE;
  }
  for (const char *p = a->text + start; p < a->text + end; p = g_utf8_next_char (p)) {
    gsize length = g_utf8_next_char (p) - p;
    const char *part = find (a->map, p, length, FALSE, &used);
    if (part)
      g_string_append (a->out, part);
    else
      g_string_append_len (a->out, p, length);
  }
  return TRUE;
}

/* tokenizer.json's rule: a grapheme cluster below six bytes is looked up whole, else character by character */
gboolean
tl_charsmap_apply_clusters (const TlCharsmap *map, GString *text, GError **error)
{
  g_autoptr (GString) out = g_string_sized_new (text->len);
  Applying applying = { map, text->str, out };
  if (!tl_split_pattern_find (map->clusters, text->str, text->len, replace_cluster, &applying, error))
    return FALSE;
  g_string_truncate (text, 0);
  g_string_append_len (text, out->str, out->len);
  return TRUE;
}
