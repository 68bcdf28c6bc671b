/* model/tl-checkpoint-writer.c — writes a `.tinyloop`: sizes first, then bytes in the same order, never all in memory.
 *
 * The bytes go to a temporary file beside the target, which is renamed when everything is there. Tensors start at
 * multiples of 64 bytes; gaps are tensors of their own, because the format forbids holes.
 */
#include "model/tl-checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "model/tl-descriptor-json.h"

#define ALIGNMENT 64
#define HASH_PLACE "0000000000000000000000000000000000000000000000000000000000000000"

typedef struct { char *name; const char *dtype; guint n_dims; gsize dims[8]; gsize size; gboolean padding; } Entry;

struct _TlCheckpointWriter
{
  char *path, *temporary, *name;
  TlDescriptor *descriptor;
  GArray *entries;
  JsonObject *tensors;          /* the descriptor's "tensors" */
  int fd;
  guint current;                /* entry being written */
  gsize written;                /* of it */
  guint64 data_size;            /* declared so far, padding included */
  guint64 hash_at;              /* offset of the hash's digits in the file */
  GChecksum *hash;
};

static void
entry_clear (gpointer data)
{
  g_free (((Entry *) data)->name);
}

TlCheckpointWriter *
tl_checkpoint_writer_new (const char *path, TlDescriptor *descriptor)
{
  TlCheckpointWriter *w = g_new0 (TlCheckpointWriter, 1);
  w->path = g_strdup (path);
  w->name = g_path_get_basename (path);
  w->descriptor = tl_descriptor_ref (descriptor);
  w->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  g_array_set_clear_func (w->entries, entry_clear);
  w->tensors = json_object_new ();
  w->hash = g_checksum_new (G_CHECKSUM_SHA256);
  w->fd = -1;
  return w;
}

static void
append_entry (TlCheckpointWriter *w, char *name, const char *dtype, guint n_dims, const gsize *dims, gboolean padding)
{
  Entry e = { .name = name, .dtype = dtype, .n_dims = n_dims, .padding = padding };
  e.size = g_str_equal (dtype, "F32") || g_str_equal (dtype, "I32") ? 4 : g_str_has_suffix (dtype, "F16") ? 2 : 1;
  for (guint i = 0; i < n_dims; i++)
    {
      e.dims[i] = dims[i];
      e.size *= dims[i];
    }
  w->data_size += e.size;
  g_array_append_val (w->entries, e);
}

void
tl_checkpoint_writer_add (TlCheckpointWriter *w, const char *name, const char *dtype, guint n_dims, const gsize *dims)
{
  gsize gap = (ALIGNMENT - w->data_size % ALIGNMENT) % ALIGNMENT;
  if (gap)
    append_entry (w, g_strdup_printf ("_pad.%u", w->entries->len), "U8", 1, &gap, TRUE);
  append_entry (w, g_strdup (name), g_intern_string (dtype), n_dims, dims, FALSE);
}

static const char *const format_names[] = { "F32", "F16", "BF16", "int8", "int4" };
static const char *const offset_names[] = { "none", "zero", "min" };

static JsonObject *
matrix_info (TlCheckpointWriter *w, const char *name)
{
  if (!json_object_has_member (w->tensors, name))
    json_object_set_object_member (w->tensors, name, json_object_new ());
  return json_object_get_object_member (w->tensors, name);
}

void
tl_checkpoint_writer_add_matrix (TlCheckpointWriter *w, const char *name, const TlMatrix *m)
{
  gsize dims[2] = { m->rows, m->cols }, groups[2] = { m->rows, tl_matrix_n_groups (m) };
  g_autofree char *stem = g_strndup (name, strlen (name) - strlen (".weight"));
  g_autofree char *scale = g_strconcat (stem, ".scale", NULL), *zero = g_strconcat (stem, ".zero", NULL);
  g_autofree char *min = g_strconcat (stem, ".min", NULL);

  if (m->format < TL_INT8)
    {
      tl_checkpoint_writer_add (w, name, format_names[m->format], 2, dims);
      return;
    }
  JsonObject *info = matrix_info (w, name);
  json_object_set_string_member (info, "format", format_names[m->format]);
  json_object_set_int_member (info, "group", m->group);
  json_object_set_string_member (info, "scale", format_names[m->scale_format]);
  json_object_set_string_member (info, "offset", offset_names[m->offset]);
  dims[1] = tl_matrix_row_bytes (m);
  tl_checkpoint_writer_add (w, name, m->format == TL_INT8 ? "I8" : "U8", 2, dims);
  tl_checkpoint_writer_add (w, scale, format_names[m->scale_format], 2, groups);
  if (m->offset == TL_OFFSET_ZERO)
    tl_checkpoint_writer_add (w, zero, "U8", 2, groups);
  if (m->offset == TL_OFFSET_MIN)
    tl_checkpoint_writer_add (w, min, "F16", 2, groups);
}

void
tl_checkpoint_writer_set_source (TlCheckpointWriter *w, const char *name, const char *source)
{
  JsonObject *info = matrix_info (w, name);
  for (guint i = 0; i < w->entries->len && !json_object_has_member (info, "format"); i++)
    if (g_str_equal (g_array_index (w->entries, Entry, i).name, name))
      json_object_set_string_member (info, "format", g_array_index (w->entries, Entry, i).dtype);
  json_object_set_string_member (info, "source", source);
}

static char *
object_to_text (JsonObject *object)
{
  g_autoptr (JsonNode) node = json_node_init_object (json_node_alloc (), object);
  return json_to_string (node, FALSE);
}

/* the whole header, padded with spaces so that data starts aligned */
static GString *
header_text (TlCheckpointWriter *w)
{
  g_autoptr (JsonObject) header = json_object_new ();
  JsonObject *descriptor = tl_descriptor_to_object (w->descriptor);
  json_object_set_string_member (descriptor, "content_hash", HASH_PLACE);
  json_object_set_object_member (descriptor, "tensors", json_object_ref (w->tensors));
  g_autofree char *text = object_to_text (descriptor);
  json_object_unref (descriptor);

  JsonObject *metadata = json_object_new ();
  json_object_set_string_member (metadata, "tinyloop", text);
  json_object_set_object_member (header, "__metadata__", metadata);
  guint64 at = 0;
  for (guint i = 0; i < w->entries->len; i++)
    {
      const Entry *e = &g_array_index (w->entries, Entry, i);
      JsonObject *o = json_object_new ();
      JsonArray *shape = json_array_new (), *offsets = json_array_new ();
      for (guint k = 0; k < e->n_dims; k++)
        json_array_add_int_element (shape, e->dims[k]);
      json_array_add_int_element (offsets, at);
      json_array_add_int_element (offsets, at += e->size);
      json_object_set_string_member (o, "dtype", e->dtype);
      json_object_set_array_member (o, "shape", shape);
      json_object_set_array_member (o, "data_offsets", offsets);
      json_object_set_object_member (header, e->name, o);
    }
  g_autofree char *json = object_to_text (header);
  GString *s = g_string_new (json);
  while ((8 + s->len) % ALIGNMENT)
    g_string_append_c (s, ' ');
  return s;
}

static gboolean
write_all (TlCheckpointWriter *w, const void *data, gsize size, GError **error)
{
  const guint8 *at = data;
  while (size)
    {
      gssize n = write (w->fd, at, size);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: cannot be written: %s", w->path,
              g_strerror (errno));
          return FALSE;
        }
      at += n;
      size -= n;
    }
  return TRUE;
}

gboolean
tl_checkpoint_writer_begin (TlCheckpointWriter *w, GError **error)
{
  if (!tl_descriptor_validate (w->descriptor, w->name, error))
    return FALSE;
  w->temporary = g_strconcat (w->path, ".XXXXXX", NULL);
  w->fd = g_mkstemp_full (w->temporary, O_WRONLY | O_CLOEXEC, 0644);
  if (w->fd < 0)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: cannot be created: %s", w->path, g_strerror (errno));
      g_clear_pointer (&w->temporary, g_free);
      return FALSE;
    }
  g_autoptr (GString) header = header_text (w);
  guint64 length = GUINT64_TO_LE (header->len);
  w->hash_at = 8 + (strstr (header->str, HASH_PLACE) - header->str);
  return write_all (w, &length, 8, error) && write_all (w, header->str, header->len, error);
}

/* writes the padding entries that come next */
static gboolean
write_padding (TlCheckpointWriter *w, GError **error)
{
  static const guint8 zeros[ALIGNMENT];
  while (w->current < w->entries->len && g_array_index (w->entries, Entry, w->current).padding)
    if (!write_all (w, zeros, g_array_index (w->entries, Entry, w->current++).size, error))
      return FALSE;
  return TRUE;
}

gboolean
tl_checkpoint_writer_write (TlCheckpointWriter *w, const void *data, gsize size, GError **error)
{
  if (w->written == 0 && !write_padding (w, error))
    return FALSE;
  g_return_val_if_fail (w->current < w->entries->len, FALSE);
  const Entry *e = &g_array_index (w->entries, Entry, w->current);
  g_return_val_if_fail (size <= e->size - w->written, FALSE);
  if (w->written == 0)
    g_checksum_update (w->hash, (const guchar *) e->name, strlen (e->name) + 1);
  g_checksum_update (w->hash, data, size);
  if (!write_all (w, data, size, error))
    return FALSE;
  w->written += size;
  if (w->written == e->size)
    {
      w->current++;
      w->written = 0;
    }
  return TRUE;
}

gboolean
tl_checkpoint_writer_write_matrix (TlCheckpointWriter *w, const TlMatrix *m, GError **error)
{
  gsize groups = (gsize) m->rows * tl_matrix_n_groups (m);
  if (!tl_checkpoint_writer_write (w, m->data, m->rows * tl_matrix_row_bytes (m), error))
    return FALSE;
  if (m->format < TL_INT8)
    return TRUE;
  if (!tl_checkpoint_writer_write (w, m->scale, groups * (m->scale_format == TL_F32 ? 4 : 2), error))
    return FALSE;
  if (m->offset == TL_OFFSET_ZERO)
    return tl_checkpoint_writer_write (w, m->zero, groups, error);
  if (m->offset == TL_OFFSET_MIN)
    return tl_checkpoint_writer_write (w, m->minimum, groups * 2, error);
  return TRUE;
}

gboolean
tl_checkpoint_writer_finish (TlCheckpointWriter *w, GError **error)
{
  if (!write_padding (w, error))
    return FALSE;
  g_return_val_if_fail (w->current == w->entries->len, FALSE);
  const char *digits = g_checksum_get_string (w->hash);
  if (pwrite (w->fd, digits, strlen (digits), w->hash_at) != (gssize) strlen (digits) || fsync (w->fd) != 0
      || g_rename (w->temporary, w->path) != 0)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: cannot be finished: %s", w->path, g_strerror (errno));
      return FALSE;
    }
  g_clear_pointer (&w->temporary, g_free);
  return TRUE;
}

void
tl_checkpoint_writer_free (TlCheckpointWriter *w)
{
  if (w->fd >= 0)
    close (w->fd);
  if (w->temporary)
    g_unlink (w->temporary);
  g_array_unref (w->entries);
  json_object_unref (w->tensors);
  tl_descriptor_unref (w->descriptor);
  g_checksum_free (w->hash);
  g_free (w->temporary);
  g_free (w->path);
  g_free (w->name);
  g_free (w);
}

/* the hash of a finished file, in the order it was written */
gboolean
tl_checkpoint_verify (TlCheckpoint *c, GError **error)
{
  g_autoptr (GChecksum) hash = g_checksum_new (G_CHECKSUM_SHA256);
  const char *expected = tl_checkpoint_descriptor (c)->content_hash;
  for (guint i = 0; i < tl_checkpoint_n_tensors (c); i++)
    {
      const TlTensorView *view = tl_checkpoint_tensor_at (c, i);
      if (g_str_has_prefix (view->name, "_pad.") || !view->data)
        continue;
      g_checksum_update (hash, (const guchar *) view->name, strlen (view->name) + 1);
      g_checksum_update (hash, view->data, view->size);
    }
  if (g_strcmp0 (g_checksum_get_string (hash), expected) == 0)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: contents do not match the content hash%s",
      tl_checkpoint_name (c), expected ? "; the file was damaged or edited" : ": the descriptor has none");
  return FALSE;
}
