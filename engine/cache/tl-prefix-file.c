/* cache/tl-prefix-file.c — computed prefixes to and from a file. See tl-prefix-file.h. */
#include "cache/tl-prefix-file.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "model/tl-file.h"

#define MAGIC "TLPREFIX"
#define MAX_TOKENS (1u << 24)
#define MAX_KEY (1u << 16)
#define HASH_BYTES 32

G_STATIC_ASSERT (sizeof (TlPrefixFileHead) % sizeof (guint32) == 0);

static const char *const head_names[] = { "version", "kind", "key size", "tokens", "start", "window", "loops", "slots", "pages",
  "row width" };
G_STATIC_ASSERT (G_N_ELEMENTS (head_names) * sizeof (guint32) == sizeof (TlPrefixFileHead));

static gboolean G_GNUC_PRINTF (4, 5)
bad (const TlPrefixFile *file, const char *field, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *reason = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: %s: %s; save the prefix again", file->name, field, reason);
  return FALSE;
}

/* --- reading --- */

typedef struct { const guint8 *at; gsize left; } Cursor;

/* the next count × size bytes, or NULL with an error */
static const guint8 *
take (TlPrefixFile *file, Cursor *cursor, const char *field, guint64 count, guint64 size, GError **error)
{
  if (count && size > cursor->left / count)
    {
      bad (file, field, error, "needs %" G_GUINT64_FORMAT " × %" G_GUINT64_FORMAT " bytes, %" G_GSIZE_FORMAT
        " are left in the file", count, size, cursor->left);
      return NULL;
    }
  const guint8 *at = cursor->at;
  cursor->at += count * size;
  cursor->left -= count * size;
  return at;
}

static guint32 *
take_u32 (TlPrefixFile *file, Cursor *cursor, const char *field, guint64 count, GError **error)
{
  const guint8 *from = take (file, cursor, field, count, sizeof (guint32), error);
  guint32 *out = from ? g_new (guint32, count + 1) : NULL;
  if (!out)
    return NULL;
  memcpy (out, from, count * sizeof (guint32));
  for (guint64 i = 0; i < count; i++)
    out[i] = GUINT32_FROM_LE (out[i]);
  return out;
}

static gboolean
check_head (TlPrefixFile *file, GError **error)
{
  const TlPrefixFileHead *h = &file->head;
  const guint32 *value = (const guint32 *) h;
  const guint32 limits[][2] = { { TL_PREFIX_FILE_VERSION, TL_PREFIX_FILE_VERSION }, { 0, 1 }, { 1, MAX_KEY },
    { 1, MAX_TOKENS }, { 0, h->n_tokens }, { 0, G_MAXUINT32 }, { 1, 65535 },
    { (h->n_tokens + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS, (h->n_tokens + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS },
    { 0, G_MAXUINT32 }, { 0, 1u << 20 } };
  for (guint i = 0; i < G_N_ELEMENTS (head_names); i++)
    if (value[i] < limits[i][0] || value[i] > limits[i][1])
      return bad (file, head_names[i], error, "is %u, expected %u…%u", value[i], limits[i][0], limits[i][1]);
  if (h->start % TL_PAGE_POSITIONS)
    return bad (file, "start", error, "%u is within a page", h->start);
  return TRUE;
}

static gboolean
read_head (TlPrefixFile *file, Cursor *cursor, GError **error)
{
  if (cursor->left < strlen (MAGIC) || memcmp (cursor->at, MAGIC, strlen (MAGIC)))
    return bad (file, "magic", error, "this is no saved prefix");
  take (file, cursor, "magic", 1, strlen (MAGIC), NULL);
  g_autofree guint32 *head = take_u32 (file, cursor, "head", G_N_ELEMENTS (head_names), error);
  if (!head)
    return FALSE;
  memcpy (&file->head, head, sizeof file->head);
  if (!check_head (file, error))
    return FALSE;
  const guint8 *key = take (file, cursor, "key", file->head.key_bytes, 1, error);
  if (!key)
    return FALSE;
  file->key = g_strndup ((const char *) key, file->head.key_bytes);
  if (strlen (file->key) != file->head.key_bytes)
    return bad (file, "key", error, "has a NUL byte");
  return TRUE;
}

static gboolean
read_pages (TlPrefixFile *file, Cursor *cursor, GError **error)
{
  guint64 total = 0, n_table = (guint64) (TL_GROUP_LOOP + file->head.loops) * file->head.n_slots;
  if (!(file->table = take_u32 (file, cursor, "page numbers", n_table, error)))
    return FALSE;
  for (guint64 i = 0; i < n_table; i++)
    if (file->table[i] > file->head.n_pages)
      return bad (file, "page numbers", error, "%u is more than the %u pages", file->table[i], file->head.n_pages);
  const guint8 *sizes = take (file, cursor, "page sizes", file->head.n_pages, sizeof (guint64), error);
  if (!sizes)
    return FALSE;
  file->sizes = g_new (guint64, file->head.n_pages + 1);
  memcpy (file->sizes, sizes, file->head.n_pages * sizeof (guint64));
  for (guint i = 0; i < file->head.n_pages; i++)
    {
      file->sizes[i] = GUINT64_FROM_LE (file->sizes[i]);
      if (file->sizes[i] == 0 || file->sizes[i] > cursor->left - total)
        return bad (file, "page sizes", error, "page %u of %" G_GUINT64_FORMAT " bytes is not in the file", i, file->sizes[i]);
      total += file->sizes[i];
    }
  return (file->pages = take (file, cursor, "pages", total, 1, error)) != NULL;
}

static gboolean
check_end (TlPrefixFile *file, Cursor *cursor, GError **error)
{
  gsize size;
  const guint8 *all = g_bytes_get_data (file->bytes, &size);
  if (cursor->left != HASH_BYTES)
    return bad (file, "checksum", error, "%" G_GSIZE_FORMAT " bytes are left, expected %d", cursor->left, HASH_BYTES);
  guint8 digest[HASH_BYTES];
  gsize n = sizeof digest;
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  for (gsize at = 0; at < size - HASH_BYTES; at += 1 << 30)
    g_checksum_update (sum, all + at, MIN (size - HASH_BYTES - at, 1 << 30));
  g_checksum_get_digest (sum, digest, &n);
  return memcmp (digest, cursor->at, HASH_BYTES) == 0 || bad (file, "checksum", error, "the file was damaged");
}

TlPrefixFile *
tl_prefix_file_parse (GBytes *bytes, const char *name, GError **error)
{
  g_autoptr (TlPrefixFile) file = g_new0 (TlPrefixFile, 1);
  file->name = g_strdup (name);
  file->bytes = g_bytes_ref (bytes);
  Cursor cursor;
  cursor.at = g_bytes_get_data (bytes, &cursor.left);
  if (!read_head (file, &cursor, error)
      || !(file->tokens = take_u32 (file, &cursor, "tokens", file->head.n_tokens, error))
      || !read_pages (file, &cursor, error)
      || !(file->rows = take (file, &cursor, "row states", file->head.row_width ? file->head.n_tokens : 0,
          (guint64) file->head.row_width * sizeof (float), error))
      || !check_end (file, &cursor, error))
    return NULL;
  return g_steal_pointer (&file);
}

TlPrefixFile *
tl_prefix_file_read (const char *path, GError **error)
{
  g_autofree char *name = g_path_get_basename (path);
  g_autoptr (GBytes) bytes = tl_file_load (path, G_MAXSSIZE, error);
  return bytes ? tl_prefix_file_parse (bytes, name, error) : NULL;
}

void
tl_prefix_file_free (TlPrefixFile *file)
{
  g_free (file->name);
  g_clear_pointer (&file->bytes, g_bytes_unref);
  g_free (file->key);
  g_free (file->tokens);
  g_free (file->table);
  g_free (file->sizes);
  g_free (file);
}

/* --- into a sequence --- */

/* which page stands in a slot fits what the mode makes of a group, and is there exactly where rows are seen */
static gboolean
check_pages (const TlPrefixFile *file, const TlKvSequence *seq, GError **error)
{
  const TlProgram *p = tl_kv_store_backend (tl_kv_sequence_store (seq))->program;
  TlKvMode mode = tl_kv_sequence_mode (seq);
  for (guint g = 0; g < TL_GROUP_LOOP + file->head.loops; g++)
    for (guint s = 0; s < file->head.n_slots; s++)
      {
        guint number = file->table[g * file->head.n_slots + s];
        gsize full = tl_kv_page_bytes (p, g, mode), open = tl_kv_page_bytes (p, g, tl_kv_open_mode (mode));
        gboolean expected = full > 0 && s >= file->head.start / TL_PAGE_POSITIONS;
        if (expected != (number > 0))
          return bad (file, "page numbers", error, "group %u %s page %u", g, expected ? "lacks" : "has an odd", s);
        if (number && file->sizes[number - 1] != full && file->sizes[number - 1] != open)
          return bad (file, "page sizes", error, "page %u has %" G_GUINT64_FORMAT " bytes, the model's have %" G_GSIZE_FORMAT,
            s, file->sizes[number - 1], full);
      }
  return TRUE;
}

static gboolean
check_model (const TlPrefixFile *file, const TlKvSequence *seq, GError **error)
{
  const TlProgram *p = tl_kv_store_backend (tl_kv_sequence_store (seq))->program;
  for (guint i = 0; i < file->head.n_tokens; i++)
    if (file->tokens[i] >= p->descriptor->vocab_size)
      return bad (file, "tokens", error, "id %u is outside of the vocabulary of %u", file->tokens[i],
        p->descriptor->vocab_size);
  if (file->head.loops > p->descriptor->loops_max)
    return bad (file, "loops", error, "%u are more than the model's %u", file->head.loops, p->descriptor->loops_max);
  if (file->head.start && tl_kv_sequence_window (seq) == 0)
    return bad (file, "start", error, "%u without a window", file->head.start);
  return check_pages (file, seq, error);
}

gboolean
tl_prefix_file_restore (const TlPrefixFile *file, TlKvSequence *seq, GError **error)
{
  TlKvStore *store = tl_kv_sequence_store (seq);
  TlBackend *backend = tl_kv_store_backend (store);
  if (!check_model (file, seq, error))
    return FALSE;
  g_autofree TlPage **pages = g_new0 (TlPage *, file->head.n_pages + 1);
  const guint8 *from = file->pages;
  gboolean ok = TRUE;
  for (guint i = 0; ok && i < file->head.n_pages; from += file->sizes[i++])
    if ((ok = (pages[i] = tl_kv_store_page_new (store, NULL, file->sizes[i], error)) != NULL))
      backend->klass->memory_copy (backend, tl_page_data (pages[i]), from, file->sizes[i]);
  if (ok)
    tl_kv_sequence_restore (seq, file->tokens, file->head.n_tokens, file->head.start, file->head.loops, file->table, pages);
  for (guint i = 0; i < file->head.n_pages; i++)
    tl_page_unref (store, pages[i]);
  return ok;
}

/* --- writing --- */

typedef struct { FILE *stream; GChecksum *sum; gboolean failed; } Writer;

static void
put (Writer *w, gconstpointer data, gsize size)
{
  if (!w->failed)
    w->failed = fwrite (data, 1, size, w->stream) != size;
  for (gsize at = 0; at < size; at += 1 << 30)
    g_checksum_update (w->sum, (const guint8 *) data + at, MIN (size - at, 1 << 30));
}

static void
put_u32 (Writer *w, const guint32 *values, gsize n)
{
  for (gsize i = 0; i < n; i++)
    {
      guint32 value = GUINT32_TO_LE (values[i]);
      put (w, &value, sizeof value);
    }
}

/* every page once, in the order of its first place; table: its number there, from 1 */
static GPtrArray *
number_pages (const TlKvSequence *seq, guint n_groups, guint n_slots, guint32 *table)
{
  GPtrArray *pages = g_ptr_array_new ();
  g_autoptr (GHashTable) numbers = g_hash_table_new (NULL, NULL);
  for (guint g = 0; g < n_groups; g++)
    for (guint s = 0; s < n_slots; s++)
      {
        TlPage *page = tl_kv_sequence_page (seq, g, s);
        if (page && !g_hash_table_contains (numbers, page))
          {
            g_ptr_array_add (pages, page);
            g_hash_table_insert (numbers, page, GUINT_TO_POINTER (pages->len));
          }
        table[g * n_slots + s] = page ? GPOINTER_TO_UINT (g_hash_table_lookup (numbers, page)) : 0;
      }
  return pages;
}

static void
put_pages (Writer *w, TlBackend *backend, const GPtrArray *pages)
{
  for (guint i = 0; i < pages->len; i++)
    {
      guint64 size = GUINT64_TO_LE (tl_page_size (pages->pdata[i]));
      put (w, &size, sizeof size);
    }
  for (guint i = 0; i < pages->len; i++)
    {
      gsize size = tl_page_size (pages->pdata[i]);
      g_autofree guint8 *host = g_malloc (size);        /* a device's memory is its own */
      backend->klass->memory_copy (backend, host, tl_page_data (pages->pdata[i]), size);
      put (w, host, size);
    }
}

static void
put_all (Writer *w, guint kind, const char *key, const TlKvSequence *seq, guint row_width, TlPrefixFileRow row, gpointer data)
{
  guint n = tl_kv_sequence_length (seq), n_groups = TL_GROUP_LOOP + tl_kv_sequence_max_depth (seq);
  guint n_slots = (n + TL_PAGE_POSITIONS - 1) / TL_PAGE_POSITIONS;
  g_autofree guint32 *table = g_new (guint32, (gsize) n_groups * n_slots);
  g_autofree float *floats = g_new (float, row_width + 1);
  g_autoptr (GPtrArray) pages = number_pages (seq, n_groups, n_slots, table);
  TlPrefixFileHead head = { TL_PREFIX_FILE_VERSION, kind, strlen (key), n, tl_kv_sequence_start (seq),
    tl_kv_sequence_window (seq), n_groups - TL_GROUP_LOOP, n_slots, pages->len, row_width };
  put (w, MAGIC, strlen (MAGIC));
  put_u32 (w, (const guint32 *) &head, G_N_ELEMENTS (head_names));
  put (w, key, strlen (key));
  put_u32 (w, tl_kv_sequence_tokens (seq), n);
  put_u32 (w, table, (gsize) n_groups * n_slots);
  put_pages (w, tl_kv_store_backend (tl_kv_sequence_store (seq)), pages);
  for (guint i = 0; row_width && i < n; i++)
    {
      row (data, i, floats);
      put (w, floats, row_width * sizeof (float));
    }
  guint8 digest[HASH_BYTES];
  gsize size = sizeof digest;
  g_checksum_get_digest (w->sum, digest, &size);
  if (!w->failed)
    w->failed = fwrite (digest, 1, size, w->stream) != size;
}

gboolean
tl_prefix_file_write (const char *path, guint kind, const char *key, const TlKvSequence *seq, guint row_width,
  TlPrefixFileRow row, gpointer row_data, GError **error)
{
  if (tl_kv_store_backend (tl_kv_sequence_store (seq))->klass->run_sequence)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED, "%s: device '%s' keeps no pages to save; use device 'cpu'", path,
        tl_kv_store_backend (tl_kv_sequence_store (seq))->klass->name);
      return FALSE;
    }
  g_autofree char *temporary = g_strconcat (path, ".XXXXXX", NULL);
  int fd = g_mkstemp (temporary);
  FILE *stream = fd < 0 ? NULL : fdopen (fd, "wb");
  gboolean ok = FALSE;
  if (stream)
    {
      g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
      Writer w = { stream, sum, FALSE };
      put_all (&w, kind, key, seq, row_width, row, row_data);
      ok = fclose (stream) == 0 && !w.failed && g_rename (temporary, path) == 0;
    }
  int why = errno;
  if (!ok && fd >= 0)
    g_unlink (temporary);
  if (!ok)
    g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: cannot be written: %s", path, g_strerror (why));
  return ok;
}
