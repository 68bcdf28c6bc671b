/* import/tl-gguf.c — reads a GGUF file's metadata and tensor list; every length is checked before it is used. */
#include "import/tl-gguf.h"

#include <string.h>

#define MAX_VALUES 65536
#define MAX_TENSORS 100000
#define MAX_NAME 65535
#define MAX_TEXT (16u << 20)

enum { TEXT = 8, LIST = 9 };
static const guint8 type_sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

/* reads forward through a window on the file */
typedef struct
{
  TlFile *file;
  guint64 at;
  guint8 window[65536];
  guint64 window_start;
  gsize window_size;
} Reader;

static gboolean
bad (Reader *r, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: %s (at byte %" G_GUINT64_FORMAT ")", r->file->name, what,
      r->at);
  return FALSE;
}

static gboolean
skip (Reader *r, guint64 n, GError **error)
{
  if (n > r->file->size - r->at)
    return bad (r, "the GGUF header ends too early; the file is truncated or damaged", error);
  r->at += n;
  return TRUE;
}

static gboolean
take (Reader *r, void *out, gsize n, GError **error)
{
  guint64 from = r->at;
  if (!skip (r, n, error))
    return FALSE;
  if (n > sizeof r->window)
    return tl_file_read (r->file, from, out, n, error);
  if (from < r->window_start || from + n > r->window_start + r->window_size)
    {
      r->window_start = from;
      r->window_size = MIN (sizeof r->window, r->file->size - from);
      if (!tl_file_read (r->file, from, r->window, r->window_size, error))
        return FALSE;
    }
  memcpy (out, r->window + (from - r->window_start), n);
  return TRUE;
}

static gboolean
take_u32 (Reader *r, guint32 *out, GError **error)
{
  gboolean ok = take (r, out, 4, error);
  *out = GUINT32_FROM_LE (*out);
  return ok;
}

static gboolean
take_u64 (Reader *r, guint64 *out, GError **error)
{
  gboolean ok = take (r, out, 8, error);
  *out = GUINT64_FROM_LE (*out);
  return ok;
}

static char *
take_text (Reader *r, gsize limit, GError **error)
{
  guint64 n = 0;
  if (!take_u64 (r, &n, error))
    return NULL;
  if (n > limit || n > r->file->size - r->at)
    {
      bad (r, "a text in the GGUF header is too long", error);
      return NULL;
    }
  g_autofree char *text = g_malloc (n + 1);
  if (!take (r, text, n, error))
    return NULL;
  text[n] = '\0';
  if (!g_utf8_validate (text, n, NULL))
    {
      bad (r, "a text in the GGUF header is not UTF-8", error);
      return NULL;
    }
  return g_steal_pointer (&text);
}

/* the lists of the vocabulary: NULL for any other key */
static GPtrArray **
text_list (TlGguf *g, const char *key)
{
  return g_str_equal (key, "tokenizer.ggml.tokens") ? &g->tokens
      : g_str_equal (key, "tokenizer.ggml.merges") ? &g->merges : NULL;
}

static GByteArray **
number_list (TlGguf *g, const char *key, guint32 type)
{
  return g_str_equal (key, "tokenizer.ggml.scores") && type == 6 ? &g->scores
      : g_str_equal (key, "tokenizer.ggml.token_type") && (type == 4 || type == 5) ? &g->types : NULL;
}

static gboolean
read_texts (Reader *r, guint64 n, GPtrArray **list, GError **error)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  if (n > (r->file->size - r->at) / 8)
    return bad (r, "a list in the GGUF header is longer than the file", error);
  for (; n > 0; n--)
    {
      char *text = take_text (r, MAX_NAME, error);
      if (!text)
        return FALSE;
      g_ptr_array_add (texts, text);
    }
  g_clear_pointer (list, g_ptr_array_unref);
  *list = g_steal_pointer (&texts);
  return TRUE;
}

static gboolean
read_numbers (Reader *r, guint64 n, GByteArray **list, GError **error)
{
  if (n > (r->file->size - r->at) / 4 || n > 1 << 24)
    return bad (r, "a list in the GGUF header is longer than the file", error);
  g_clear_pointer (list, g_byte_array_unref);
  *list = g_byte_array_new ();
  g_byte_array_set_size (*list, n * 4);
  return take (r, (*list)->data, n * 4, error);
}

static gboolean
read_list (Reader *r, TlGguf *g, const char *key, GError **error)
{
  guint32 type = 0;
  guint64 n = 0, bytes;
  if (!take_u32 (r, &type, error) || !take_u64 (r, &n, error))
    return FALSE;
  if (type >= G_N_ELEMENTS (type_sizes) || type == LIST)
    return bad (r, "a list in the GGUF header has an unknown type", error);
  if (type == TEXT && text_list (g, key))
    return read_texts (r, n, text_list (g, key), error);
  if (number_list (g, key, type))
    return read_numbers (r, n, number_list (g, key, type), error);
  if (type != TEXT)
    return g_uint64_checked_mul (&bytes, n, type_sizes[type]) ? skip (r, bytes, error)
                                                              : bad (r, "a list in the GGUF header is too long", error);
  for (; n > 0; n--)
    if (!take_u64 (r, &bytes, error) || !skip (r, bytes, error))
      return FALSE;
  return TRUE;
}

static double
number_of (guint32 type, const guint8 *raw)
{
  union { guint8 b[8]; gint8 i8; guint16 u16; gint16 i16; guint32 u32; gint32 i32; float f32; guint64 u64; gint64 i64;
    double f64; } v;
  memcpy (v.b, raw, 8);
  switch (type)
    {
    case 1: return v.i8;
    case 2: return GUINT16_FROM_LE (v.u16);
    case 3: return GINT16_FROM_LE (v.i16);
    case 4: return GUINT32_FROM_LE (v.u32);
    case 5: return GINT32_FROM_LE (v.i32);
    case 6: return v.f32;
    case 10: return GUINT64_FROM_LE (v.u64);
    case 11: return GINT64_FROM_LE (v.i64);
    case 12: return v.f64;
    default: return v.b[0];
    }
}

static gboolean
read_value (Reader *r, TlGguf *g, GError **error)
{
  guint32 type = 0;
  g_autofree char *key = take_text (r, MAX_NAME, error);
  if (!key || !take_u32 (r, &type, error))
    return FALSE;
  if (type >= G_N_ELEMENTS (type_sizes))
    return bad (r, "a value in the GGUF header has an unknown type", error);
  if (type == LIST)
    return read_list (r, g, key, error);
  if (type == TEXT)
    {
      char *text = take_text (r, MAX_TEXT, error);
      if (text)
        g_hash_table_replace (g->texts, g_steal_pointer (&key), text);
      return text != NULL;
    }
  guint8 raw[8] = { 0 };
  if (!take (r, raw, type_sizes[type], error))
    return FALSE;
  double *number = g_new (double, 1);
  *number = number_of (type, raw);
  g_hash_table_replace (g->numbers, g_steal_pointer (&key), number);
  return TRUE;
}

static void
free_tensor (gpointer data)
{
  g_free (((TlGgufTensor *) data)->name);
  g_free (data);
}

static gboolean
bad_tensor (Reader *r, const TlGgufTensor *t, const char *what, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: tensor '%s' %s", r->file->name, t->name, what);
  return FALSE;
}

static gboolean
read_tensor (Reader *r, TlGguf *g, GError **error)
{
  TlGgufTensor *t = g_new0 (TlGgufTensor, 1);
  guint32 type = 0, n_dims = 0;
  guint64 values = 1;

  if (!(t->name = take_text (r, MAX_NAME, error)))
    {
      g_free (t);
      return FALSE;
    }
  if (!g_hash_table_replace (g->tensors, t->name, t))
    return bad (r, "two tensors have the same name", error);
  if (!take_u32 (r, &n_dims, error))
    return FALSE;
  if (n_dims < 1 || n_dims > 4)
    return bad_tensor (r, t, "does not have 1 to 4 dimensions", error);
  t->n_dims = n_dims;
  for (guint i = 0; i < n_dims; i++)
    {
      if (!take_u64 (r, &t->dims[i], error))
        return FALSE;
      if (t->dims[i] == 0 || t->dims[i] > G_MAXINT32 || !g_uint64_checked_mul (&values, values, t->dims[i])
          || values > G_MAXINT64 / 8)
        return bad_tensor (r, t, "has an impossible dimension", error);
    }
  if (!take_u32 (r, &type, error) || !take_u64 (r, &t->offset, error))
    return FALSE;

  t->type = tl_gguf_type (type);
  if (!t->type || !t->type->to_f32)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: tensor '%s' has the format %s (%u), which is not "
          "implemented; use F16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K", r->file->name, t->name,
          t->type ? t->type->name : "unknown", type);
      return FALSE;
    }
  if (t->dims[0] % t->type->values != 0)
    return bad_tensor (r, t, "has rows that are no whole number of blocks", error);
  t->size = values / t->type->values * t->type->bytes;
  return TRUE;
}

/* offsets in the list are relative to the data, whose start is known only after the list */
static gboolean
place_tensors (Reader *r, TlGguf *g, GError **error)
{
  const double *wish = g_hash_table_lookup (g->numbers, "general.alignment");
  guint64 alignment = wish && *wish >= 1 && *wish <= 1 << 20 ? (guint64) *wish : wish ? 0 : 32;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0)
    return bad (r, "general.alignment is no power of two", error);

  guint64 start = (r->at + alignment - 1) / alignment * alignment;
  GHashTableIter iter;
  TlGgufTensor *t;
  g_hash_table_iter_init (&iter, g->tensors);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &t))
    {
      if (t->offset % alignment != 0)
        return bad_tensor (r, t, "is not aligned", error);
      if (start > r->file->size || t->offset > r->file->size - start || t->size > r->file->size - start - t->offset)
        return bad_tensor (r, t, "lies outside the file; the file is truncated or damaged", error);
      t->offset += start;
    }
  return TRUE;
}

static gboolean
read_header (Reader *r, TlGguf *g, GError **error)
{
  guint32 magic = 0, version = 0;
  guint64 n_tensors = 0, n_values = 0;

  if (!take_u32 (r, &magic, error) || !take_u32 (r, &version, error))
    return FALSE;
  if (magic != 0x46554747)
    return bad (r, "is no GGUF file", error);
  if (version != 2 && version != 3)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "tinyloop: %s: GGUF version %u; versions 2 and 3, little endian, "
          "are read", r->file->name, version);
      return FALSE;
    }
  if (!take_u64 (r, &n_tensors, error) || !take_u64 (r, &n_values, error))
    return FALSE;
  if (n_tensors > MAX_TENSORS || n_values > MAX_VALUES)
    return bad (r, "the GGUF header claims too many tensors or values", error);
  while (n_values-- > 0)
    if (!read_value (r, g, error))
      return FALSE;
  while (n_tensors-- > 0)
    if (!read_tensor (r, g, error))
      return FALSE;
  return place_tensors (r, g, error);
}

TlGguf *
tl_gguf_open (const char *path, GError **error)
{
  TlFile *file = tl_file_open (path, error);
  if (!file)
    return NULL;
  g_autoptr (TlGguf) g = g_new0 (TlGguf, 1);
  g->file = file;
  g->numbers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g->texts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g->tensors = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, free_tensor);

  g_autofree Reader *reader = g_new0 (Reader, 1);
  reader->file = file;
  return read_header (reader, g, error) ? g_steal_pointer (&g) : NULL;
}

void
tl_gguf_free (TlGguf *g)
{
  if (!g)
    return;
  g_hash_table_unref (g->numbers);
  g_hash_table_unref (g->texts);
  g_hash_table_unref (g->tensors);
  g_clear_pointer (&g->tokens, g_ptr_array_unref);
  g_clear_pointer (&g->merges, g_ptr_array_unref);
  g_clear_pointer (&g->scores, g_byte_array_unref);
  g_clear_pointer (&g->types, g_byte_array_unref);
  tl_file_free (g->file);
  g_free (g);
}
