/* model/tl-checkpoint.c — opens and validates a `.tinyloop` file; gives views of its tensors.
 *
 * Everything in the header is checked before a byte of a tensor is touched: sizes with overflow-safe arithmetic, offsets
 * without holes or overlaps, names once. The file stays mapped while the checkpoint lives.
 */
#include "model/tl-checkpoint.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/tl-descriptor-json.h"
#include "model/tl-file.h"
#include "model/tl-json.h"

#define MAX_HEADER (64u << 20)  /* bytes; a million tensors fit */
#define MAX_VALUES (8u << 20)   /* JSON values in a header */

typedef struct
{
  TlMatrix shape;               /* without pointers */
  char *source;                 /* format it was converted from, or NULL */
} MatrixInfo;

struct _TlCheckpoint
{
  gint ref_count;
  char *name;
  guint64 file_size;
  GMappedFile *mapped;          /* one of the two, or neither when only the header was read */
  GBytes *bytes;
  GArray *tensors;              /* TlTensorView, by offset */
  GHashTable *by_name;          /* name -> index + 1 */
  GHashTable *matrices;         /* name -> MatrixInfo */
  TlDescriptor *descriptor;
};

static const struct { const char *name; guint bytes; } dtypes[] = {
  { "F32", 4 }, { "F16", 2 }, { "BF16", 2 }, { "I8", 1 }, { "U8", 1 }, { "I32", 4 },
  { "I64", 8 },                 /* in foreign files only: shapes beside packed matrices */
};

static gboolean
bad_file (GError **error, const char *file, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
bad_file (GError **error, const char *file, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *what = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "tinyloop: %s: %s", file, what);
  return FALSE;
}

static void
matrix_info_free (gpointer data)
{
  MatrixInfo *info = data;
  g_free (info->source);
  g_free (info);
}

static void
tensor_clear (gpointer data)
{
  TlTensorView *view = data;
  g_free ((char *) view->name);
}

static gint
by_offset (gconstpointer a, gconstpointer b)
{
  const TlTensorView *x = a, *y = b;
  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->size < y->size ? -1 : x->size > y->size;
}

/* a non-negative integer member of an array; -1 when it is none */
static gint64
array_size (JsonArray *array, guint i)
{
  JsonNode *node = json_array_get_element (array, i);
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64)
    return -1;
  return json_node_get_int (node);
}

static JsonArray *
array_member (JsonObject *o, const char *name)
{
  JsonNode *node = json_object_get_member (o, name);
  return node && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

static const char *
string_member (JsonObject *o, const char *name)
{
  JsonNode *node = json_object_get_member (o, name);
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
      ? json_node_get_string (node) : NULL;
}

/* one header entry to a view; offset counts from the data section here */
static gboolean
read_entry (TlCheckpoint *c, const char *name, JsonNode *node, TlTensorView *view, GError **error)
{
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return bad_file (error, c->name, "tensor '%s' is not described by an object", name);
  JsonObject *o = json_node_get_object (node);
  const char *dtype = string_member (o, "dtype");
  JsonArray *shape = array_member (o, "shape"), *offsets = array_member (o, "data_offsets");
  if (!dtype || !shape || !offsets || json_array_get_length (offsets) != 2)
    return bad_file (error, c->name, "tensor '%s' lacks dtype, shape or data_offsets", name);

  guint element = 0;
  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    if (g_str_equal (dtype, dtypes[i].name))
      {
        element = dtypes[i].bytes;
        view->dtype = dtypes[i].name;
      }
  if (!element)
    return bad_file (error, c->name, "tensor '%s' has dtype '%s', which is not supported", name, dtype);

  view->n_dims = json_array_get_length (shape);
  if (view->n_dims > G_N_ELEMENTS (view->dims))
    return bad_file (error, c->name, "tensor '%s' has %u dimensions, at most %u are supported", name, view->n_dims,
        (guint) G_N_ELEMENTS (view->dims));
  gsize size = element;
  for (guint i = 0; i < view->n_dims; i++)
    {
      gint64 n = array_size (shape, i);
      if (n < 0 || __builtin_mul_overflow (size, (gsize) n, &size))
        return bad_file (error, c->name, "tensor '%s' has an impossible shape", name);
      view->dims[i] = n;
    }
  gint64 begin = array_size (offsets, 0), end = array_size (offsets, 1);
  if (begin < 0 || end < begin || (guint64) (end - begin) != size)
    return bad_file (error, c->name, "tensor '%s' has data_offsets that do not fit its shape (%" G_GSIZE_FORMAT " bytes)",
        name, size);
  view->offset = begin;
  view->size = size;
  view->name = g_strdup (name);
  return TRUE;
}

/* every tensor's view, sorted, without holes up to the end of the file */
static gboolean
read_entries (TlCheckpoint *c, JsonObject *header, guint64 data_start, const guint8 *base, GError **error)
{
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;
  json_object_iter_init (&iter, header);
  while (json_object_iter_next (&iter, &name, &node))
    {
      TlTensorView view = { 0 };
      if (g_str_equal (name, "__metadata__"))
        continue;
      if (!read_entry (c, name, node, &view, error))
        return FALSE;
      g_array_append_val (c->tensors, view);
    }
  g_array_sort (c->tensors, by_offset);

  guint64 at = 0, data_size = c->file_size - data_start;
  for (guint i = 0; i < c->tensors->len; i++)
    {
      TlTensorView *view = &g_array_index (c->tensors, TlTensorView, i);
      if (view->offset != at || view->size > data_size - at)
        return bad_file (error, c->name, "tensor '%s' %s", view->name,
            view->offset != at ? "leaves a hole or overlaps another one" : "reaches beyond the end of the file");
      at += view->size;
      view->offset += data_start;
      view->data = base ? base + view->offset : NULL;
      g_hash_table_insert (c->by_name, (char *) view->name, GUINT_TO_POINTER (i + 1));
    }
  if (at != data_size)
    return bad_file (error, c->name, "%" G_GUINT64_FORMAT " bytes after the last tensor belong to none", data_size - at);
  return TRUE;
}

static const struct { const char *name; TlFormat format; } float_formats[] = {
  { "F32", TL_F32 }, { "F16", TL_F16 }, { "BF16", TL_BF16 },
};

static gboolean
float_format (const char *dtype, TlFormat *format)
{
  for (guint i = 0; i < G_N_ELEMENTS (float_formats); i++)
    if (dtype && g_str_equal (dtype, float_formats[i].name))
      {
        *format = float_formats[i].format;
        return TRUE;
      }
  return FALSE;
}

/* one entry of the descriptor's "tensors": {"format": "int4", "group": 32, "scale": "F16", "offset": "none"} */
static gboolean
read_matrix_info (TlCheckpoint *c, const char *name, JsonNode *node, MatrixInfo *info, GError **error)
{
  static const char *offsets[] = { "none", "zero", "min" };
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return bad_file (error, c->name, "descriptor: tensors.%s is no object", name);
  JsonObject *o = json_node_get_object (node);
  const char *format = string_member (o, "format"), *scale = string_member (o, "scale");
  const char *offset = string_member (o, "offset");
  JsonNode *group = json_object_get_member (o, "group");
  gint64 n = group && JSON_NODE_HOLDS_VALUE (group) ? json_node_get_int (group) : 0;

  if (format && g_str_equal (format, "int8"))
    info->shape.format = TL_INT8;
  else if (format && g_str_equal (format, "int4"))
    info->shape.format = TL_INT4;
  else if (!float_format (format, &info->shape.format))
    return bad_file (error, c->name, "descriptor: tensors.%s has format '%s', which is not supported", name,
        format ? format : "(none)");
  info->source = g_strdup (string_member (o, "source"));
  if (info->shape.format < TL_INT8)
    return TRUE;
  if (n < 1 || n > G_MAXINT32 || !float_format (scale, &info->shape.scale_format))
    return bad_file (error, c->name, "descriptor: tensors.%s has no valid group and scale", name);
  info->shape.group = n;
  for (guint i = 0; i < G_N_ELEMENTS (offsets); i++)
    if (g_strcmp0 (offset, offsets[i]) == 0)
      {
        info->shape.offset = (TlOffset) i;
        return TRUE;
      }
  return bad_file (error, c->name, "descriptor: tensors.%s has offset '%s', which is not supported", name,
      offset ? offset : "(none)");
}

static gboolean
read_descriptor (TlCheckpoint *c, JsonObject *header, GError **error)
{
  JsonNode *metadata = json_object_get_member (header, "__metadata__");
  const char *text = metadata && JSON_NODE_HOLDS_OBJECT (metadata)
      ? string_member (json_node_get_object (metadata), "tinyloop") : NULL;
  if (!text)
    return bad_file (error, c->name, "has no TinyLoop descriptor; make a .tinyloop with 'tinyloop convert'");

  g_autofree char *where = g_strdup_printf ("%s: descriptor", c->name);
  g_autoptr (JsonNode) root = tl_json_parse (text, strlen (text), MAX_VALUES, where, error);
  if (!root)
    return FALSE;
  JsonObject *object = json_node_get_object (root);
  c->descriptor = tl_descriptor_from_object (object, c->name, error);
  if (!c->descriptor)
    return FALSE;
  g_free (c->descriptor->json);
  c->descriptor->json = g_strdup (text);

  JsonNode *tensors = json_object_get_member (object, "tensors");
  if (!tensors)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (tensors))
    return bad_file (error, c->name, "descriptor: 'tensors' is no object");
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;
  json_object_iter_init (&iter, json_node_get_object (tensors));
  while (json_object_iter_next (&iter, &name, &node))
    {
      MatrixInfo *info = g_new0 (MatrixInfo, 1);
      g_hash_table_insert (c->matrices, g_strdup (name), info);
      if (!read_matrix_info (c, name, node, info, error))
        return FALSE;
    }
  return TRUE;
}

/* length of the JSON header, checked against the file */
static gboolean
header_length (TlCheckpoint *c, const guint8 first[8], guint64 *length, GError **error)
{
  memcpy (length, first, 8);
  *length = GUINT64_FROM_LE (*length);
  if (*length > MAX_HEADER || *length > c->file_size - 8)
    return bad_file (error, c->name, "is no safetensors file: its header would be %" G_GUINT64_FORMAT " bytes long", *length);
  return TRUE;
}

static gboolean
read_header (TlCheckpoint *c, const char *text, guint64 length, const guint8 *base, gboolean foreign,
    GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s: header", c->name);
  g_autoptr (JsonNode) root = tl_json_parse (text, length, MAX_VALUES, where, error);
  if (!root)
    return FALSE;
  JsonObject *header = json_node_get_object (root);
  return read_entries (c, header, 8 + length, base, error) && (foreign || read_descriptor (c, header, error));
}

static TlCheckpoint *
checkpoint_new (const char *name, guint64 size)
{
  TlCheckpoint *c = g_new0 (TlCheckpoint, 1);
  c->ref_count = 1;
  c->name = g_strdup (name);
  c->file_size = size;
  c->tensors = g_array_new (FALSE, FALSE, sizeof (TlTensorView));
  g_array_set_clear_func (c->tensors, tensor_clear);
  c->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  c->matrices = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, matrix_info_free);
  return c;
}

/* header and views of a whole file in memory */
static gboolean
read_whole (TlCheckpoint *c, const guint8 *base, GError **error)
{
  guint64 length;
  if (c->file_size < 8)
    return bad_file (error, c->name, "is too short to be a checkpoint (%" G_GUINT64_FORMAT " bytes)", c->file_size);
  return header_length (c, base, &length, error) && read_header (c, (const char *) base + 8, length, base, FALSE, error);
}

TlCheckpoint *
tl_checkpoint_open (const char *path, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autoptr (TlFile) file = tl_file_open (path, error);
  if (!file)
    return NULL;
  g_autoptr (GMappedFile) mapped = g_mapped_file_new_from_fd (file->fd, FALSE, &cause);
  if (!mapped)
    {
      bad_file (error, file->name, "cannot be mapped: %s", cause->message);
      return NULL;
    }
  g_autoptr (TlCheckpoint) c = checkpoint_new (file->name, g_mapped_file_get_length (mapped));
  c->mapped = g_steal_pointer (&mapped);
  if (!read_whole (c, (const guint8 *) g_mapped_file_get_contents (c->mapped), error))
    return NULL;
  return g_steal_pointer (&c);
}

static TlCheckpoint *
open_header (const char *path, gboolean foreign, GError **error)
{
  g_autoptr (TlFile) file = tl_file_open (path, error);
  guint8 first[8];
  guint64 length;
  if (!file)
    return NULL;
  g_autoptr (TlCheckpoint) c = checkpoint_new (file->name, file->size);
  if (file->size < 8)
    {
      bad_file (error, c->name, "is too short to be a checkpoint (%" G_GUINT64_FORMAT " bytes)", file->size);
      return NULL;
    }
  if (!tl_file_read (file, 0, first, 8, error) || !header_length (c, first, &length, error))
    return NULL;
  g_autofree char *text = g_malloc (length + 1);
  if (!tl_file_read (file, 8, text, length, error) || !read_header (c, text, length, NULL, foreign, error))
    return NULL;
  return g_steal_pointer (&c);
}

TlCheckpoint *
tl_checkpoint_open_header (const char *path, GError **error)
{
  return open_header (path, FALSE, error);
}

TlCheckpoint *
tl_checkpoint_open_foreign (const char *path, GError **error)
{
  return open_header (path, TRUE, error);
}

TlCheckpoint *
tl_checkpoint_new_from_bytes (GBytes *bytes, const char *name, GError **error)
{
  g_autoptr (TlCheckpoint) c = checkpoint_new (name, g_bytes_get_size (bytes));
  c->bytes = g_bytes_ref (bytes);
  if (!read_whole (c, g_bytes_get_data (bytes, NULL), error))
    return NULL;
  return g_steal_pointer (&c);
}

TlCheckpoint *
tl_checkpoint_ref (TlCheckpoint *c)
{
  g_atomic_int_inc (&c->ref_count);
  return c;
}

void
tl_checkpoint_unref (TlCheckpoint *c)
{
  if (!g_atomic_int_dec_and_test (&c->ref_count))
    return;
  g_clear_pointer (&c->descriptor, tl_descriptor_unref);
  g_hash_table_unref (c->by_name);
  g_hash_table_unref (c->matrices);
  g_array_unref (c->tensors);
  g_clear_pointer (&c->mapped, g_mapped_file_unref);
  g_clear_pointer (&c->bytes, g_bytes_unref);
  g_free (c->name);
  g_free (c);
}

TlDescriptor *
tl_checkpoint_descriptor (TlCheckpoint *c)
{
  return c->descriptor;
}

const char *
tl_checkpoint_name (TlCheckpoint *c)
{
  return c->name;
}

gsize
tl_checkpoint_file_size (TlCheckpoint *c)
{
  return c->file_size;
}

guint
tl_checkpoint_n_tensors (TlCheckpoint *c)
{
  return c->tensors->len;
}

const TlTensorView *
tl_checkpoint_tensor_at (TlCheckpoint *c, guint i)
{
  return &g_array_index (c->tensors, TlTensorView, i);
}

const TlTensorView *
tl_checkpoint_find (TlCheckpoint *c, const char *name)
{
  guint i = GPOINTER_TO_UINT (g_hash_table_lookup (c->by_name, name));
  return i ? &g_array_index (c->tensors, TlTensorView, i - 1) : NULL;
}

/* NAME.weight -> NAME.scale and so on */
static char *
companion (const char *name, const char *part)
{
  g_autofree char *stem = g_strndup (name, strlen (name) - (g_str_has_suffix (name, ".weight") ? 7 : 0));
  return g_strconcat (stem, ".", part, NULL);
}

/* the tensor `name` with exactly this dtype and shape */
static const TlTensorView *
expect (TlCheckpoint *c, const char *name, const char *dtype, gsize rows, gsize cols, GError **error)
{
  const TlTensorView *view = tl_checkpoint_find (c, name);
  if (!view)
    bad_file (error, c->name, "tensor '%s' is missing", name);
  else if (view->n_dims != 2)
    bad_file (error, c->name, "tensor '%s' has %u dimensions, expected 2", name, view->n_dims);
  else if (view->dims[0] != rows || view->dims[1] != cols)
    bad_file (error, c->name, "tensor '%s' has shape [%" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT "], expected [%"
        G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT "]", name, view->dims[0], view->dims[1], rows, cols);
  else if (!g_str_equal (view->dtype, dtype))
    bad_file (error, c->name, "tensor '%s' has dtype %s, expected %s", name, view->dtype, dtype);
  else
    return view;
  return NULL;
}

const char *
tl_checkpoint_matrix_source (TlCheckpoint *c, const char *name)
{
  MatrixInfo *info = g_hash_table_lookup (c->matrices, name);
  return info ? info->source : NULL;
}

gboolean
tl_checkpoint_matrix (TlCheckpoint *c, const char *name, guint rows, guint cols, TlMatrix *out, GError **error)
{
  MatrixInfo *info = g_hash_table_lookup (c->matrices, name);
  const TlTensorView *view = tl_checkpoint_find (c, name);
  *out = info ? info->shape : (TlMatrix) { 0 };
  out->rows = rows;
  out->cols = cols;
  if (out->format < TL_INT8)
    {
      if (view && !float_format (view->dtype, &out->format))
        return bad_file (error, c->name, "tensor '%s' has dtype %s without a format in the descriptor", name, view->dtype);
      view = expect (c, name, float_formats[out->format].name, rows, cols, error);
      out->data = view ? view->data : NULL;
      return view != NULL;
    }

  if (out->group != cols && out->group != 32 && out->group != 64 && out->group != 128)
    return bad_file (error, c->name, "tensor '%s' has groups of %u; 32, 64, 128 or %u (a whole row) are supported", name,
        out->group, cols);
  gsize groups = tl_matrix_n_groups (out);
  g_autofree char *scale = companion (name, "scale"), *zero = companion (name, "zero"), *min = companion (name, "min");
  const TlTensorView *data = expect (c, name, out->format == TL_INT8 ? "I8" : "U8", rows, tl_matrix_row_bytes (out), error);
  const TlTensorView *scales = data ? expect (c, scale, float_formats[out->scale_format].name, rows, groups, error) : NULL;
  if (!scales)
    return FALSE;
  out->data = data->data;
  out->scale = scales->data;
  if (out->offset == TL_OFFSET_ZERO)
    {
      const TlTensorView *zeros = expect (c, zero, "U8", rows, groups, error);
      out->zero = zeros ? zeros->data : NULL;
      return zeros != NULL;
    }
  if (out->offset == TL_OFFSET_MIN)
    {
      const TlTensorView *minima = expect (c, min, "F16", rows, groups, error);
      out->minimum = minima ? minima->data : NULL;
      return minima != NULL;
    }
  return TRUE;
}

float *
tl_checkpoint_vector (TlCheckpoint *c, const char *name, gsize n, GError **error)
{
  const TlTensorView *view = tl_checkpoint_find (c, name);
  TlMatrix row = { .rows = 1, .cols = n };
  gsize elements = 1;
  if (!view)
    {
      bad_file (error, c->name, "tensor '%s' is missing", name);
      return NULL;
    }
  for (guint i = 0; i < view->n_dims; i++)
    elements *= view->dims[i];  /* cannot overflow: the product was checked against the tensor's bytes */
  if (elements != n || n > G_MAXUINT || !float_format (view->dtype, &row.format))
    {
      bad_file (error, c->name, "tensor '%s' has %" G_GSIZE_FORMAT " elements of %s, expected %" G_GSIZE_FORMAT
          " of F32, F16 or BF16", name, elements, view->dtype, n);
      return NULL;
    }
  if (!view->data)
    {
      bad_file (error, c->name, "was opened for its header only; open it whole to read tensor '%s'", name);
      return NULL;
    }
  float *out = g_new (float, MAX (n, 1));
  row.data = view->data;
  tl_matrix_row_to_f32 (&row, 0, out);
  return out;
}

void
tl_checkpoint_release_pages (TlCheckpoint *c, const void *data, gsize size)
{
  gsize page = sysconf (_SC_PAGESIZE);
  guintptr begin = ((guintptr) data + page - 1) & ~(page - 1), end = ((guintptr) data + size) & ~(page - 1);
  if (c->mapped && end > begin)
    madvise ((void *) begin, end - begin, MADV_DONTNEED);
}
