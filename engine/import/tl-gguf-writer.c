/* import/tl-gguf-writer.c — GGUF version 3, little endian, tensors aligned to 32 bytes. */
#include "import/tl-gguf-writer.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#define ALIGNMENT 32

/* GGUF's types of values */
enum { COUNT = 4, ID = 5, FLOAT = 6, FLAG = 7, TEXT = 8, LIST = 9 };

struct _TlGgufWriter
{
  char *path, *temporary;
  FILE *file;
  GByteArray *values, *tensors;
  guint64 n_values, n_tensors, data_size;
};

TlGgufWriter *
tl_gguf_writer_new (const char *path)
{
  TlGgufWriter *w = g_new0 (TlGgufWriter, 1);
  w->path = g_strdup (path);
  w->values = g_byte_array_new ();
  w->tensors = g_byte_array_new ();
  return w;
}

void
tl_gguf_writer_free (TlGgufWriter *w)
{
  if (w->file)
    fclose (w->file);
  if (w->temporary)
    g_unlink (w->temporary);
  g_byte_array_unref (w->values);
  g_byte_array_unref (w->tensors);
  g_free (w->temporary);
  g_free (w->path);
  g_free (w);
}

static void
put_u32 (GByteArray *out, guint32 value)
{
  value = GUINT32_TO_LE (value);
  g_byte_array_append (out, (const guint8 *) &value, 4);
}

static void
put_u64 (GByteArray *out, guint64 value)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (out, (const guint8 *) &value, 8);
}

static void
put_float (GByteArray *out, float value)
{
  guint32 bits;
  memcpy (&bits, &value, 4);
  put_u32 (out, bits);
}

static void
put_text (GByteArray *out, const char *text)
{
  put_u64 (out, strlen (text));
  g_byte_array_append (out, (const guint8 *) text, strlen (text));
}

static void
begin_value (TlGgufWriter *w, const char *key, guint32 type)
{
  put_text (w->values, key);
  put_u32 (w->values, type);
  w->n_values++;
}

static void
begin_list (TlGgufWriter *w, const char *key, guint32 type, gsize n)
{
  begin_value (w, key, LIST);
  put_u32 (w->values, type);
  put_u64 (w->values, n);
}

void
tl_gguf_writer_add_text (TlGgufWriter *w, const char *key, const char *text)
{
  begin_value (w, key, TEXT);
  put_text (w->values, text);
}

void
tl_gguf_writer_add_count (TlGgufWriter *w, const char *key, guint32 value)
{
  begin_value (w, key, COUNT);
  put_u32 (w->values, value);
}

void
tl_gguf_writer_add_float (TlGgufWriter *w, const char *key, float value)
{
  begin_value (w, key, FLOAT);
  put_float (w->values, value);
}

void
tl_gguf_writer_add_flag (TlGgufWriter *w, const char *key, gboolean value)
{
  guint8 byte = value ? 1 : 0;
  begin_value (w, key, FLAG);
  g_byte_array_append (w->values, &byte, 1);
}

void
tl_gguf_writer_add_texts (TlGgufWriter *w, const char *key, const char *const *texts, gsize n)
{
  begin_list (w, key, TEXT, n);
  for (gsize i = 0; i < n; i++)
    put_text (w->values, texts[i]);
}

void
tl_gguf_writer_add_floats (TlGgufWriter *w, const char *key, const float *values, gsize n)
{
  begin_list (w, key, FLOAT, n);
  for (gsize i = 0; i < n; i++)
    put_float (w->values, values[i]);
}

void
tl_gguf_writer_add_ids (TlGgufWriter *w, const char *key, const gint32 *values, gsize n)
{
  begin_list (w, key, ID, n);
  for (gsize i = 0; i < n; i++)
    put_u32 (w->values, values[i]);
}

static guint64
aligned (guint64 size)
{
  return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void
tl_gguf_writer_add_tensor (TlGgufWriter *w, const char *name, guint32 type, guint64 rows, guint64 cols, guint64 size)
{
  put_text (w->tensors, name);
  put_u32 (w->tensors, rows ? 2 : 1);
  put_u64 (w->tensors, cols);
  if (rows)
    put_u64 (w->tensors, rows);
  put_u32 (w->tensors, type);
  put_u64 (w->tensors, w->data_size);
  w->data_size += aligned (size);
  w->n_tensors++;
}

static gboolean
cannot (TlGgufWriter *w, GError **error)
{
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: cannot be written: %s", w->path, g_strerror (errno));
  return FALSE;
}

/* @size bytes, then zeros up to the alignment */
static gboolean
write_padded (TlGgufWriter *w, const void *data, gsize size, gsize padding, GError **error)
{
  static const guint8 zeros[ALIGNMENT];
  if (fwrite (data, 1, size, w->file) == size && fwrite (zeros, 1, padding, w->file) == padding)
    return TRUE;
  return cannot (w, error);
}

gboolean
tl_gguf_writer_begin (TlGgufWriter *w, GError **error)
{
  g_autoptr (GByteArray) head = g_byte_array_new ();
  g_byte_array_append (head, (const guint8 *) "GGUF", 4);
  put_u32 (head, 3);
  put_u64 (head, w->n_tensors);
  put_u64 (head, w->n_values);
  g_byte_array_append (head, w->values->data, w->values->len);
  g_byte_array_append (head, w->tensors->data, w->tensors->len);

  char *temporary = g_strconcat (w->path, ".XXXXXX", NULL);
  int fd = g_mkstemp_full (temporary, O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0)
    {
      g_free (temporary);
      return cannot (w, error);
    }
  w->temporary = temporary;
  w->file = fdopen (fd, "wb");
  return w->file ? write_padded (w, head->data, head->len, aligned (head->len) - head->len, error) : cannot (w, error);
}

gboolean
tl_gguf_writer_write (TlGgufWriter *w, const void *data, gsize size, GError **error)
{
  return write_padded (w, data, size, aligned (size) - size, error);
}

gboolean
tl_gguf_writer_finish (TlGgufWriter *w, GError **error)
{
  int failed = fclose (g_steal_pointer (&w->file));
  if (failed || g_rename (w->temporary, w->path) != 0)
    return cannot (w, error);
  g_clear_pointer (&w->temporary, g_free);
  return TRUE;
}
