/* tl-convert.c — the converter: walks the slots of a source's descriptor, one tensor in memory at a time.
 *
 * Reads through import/, rounds through quantize/, compiles the tokenizer, writes through model/.
 */
#include "tl-convert.h"

#include <math.h>
#include <string.h>

#include "import/tl-import.h"
#include "model/tl-file.h"
#include "quantize/tl-round.h"
#include "text/tl-tokenizer.h"

typedef struct
{
  TlFormat quantize;            /* TL_F32: keep the source's own formats */
  guint group;                  /* 0: per channel for INT8, 32 for INT4 */
  char **keep;                  /* names (or their beginnings) that stay as they are, or NULL */
  TlProgressFunc progress;
  gpointer progress_data;
} Options;

static gboolean
kept (const Options *options, const TlWeightSlot *slot)
{
  for (char **k = options->keep; k && *k; k++)
    if (g_str_has_prefix (slot->name, *k))
      return TRUE;
  return FALSE;
}

/* what the slot is written as; group 0 for floats */
static TlMatrix
target_shape (TlImportSource *source, const TlWeightSlot *slot, const Options *options)
{
  TlMatrix m = { .format = source->format (source, slot), .rows = slot->rows, .cols = slot->cols,
    .scale_format = TL_F16 };
  if (options->quantize < TL_INT8 || kept (options, slot))
    {
      if (source->stored)
        source->stored (source, slot, &m);
      return m;
    }
  m.format = options->quantize;
  /* tables that are looked up and read out keep eight bits: four cost them the most accuracy */
  if (g_str_equal (slot->name, "embed.weight") || g_str_equal (slot->name, "head.weight"))
    m.format = TL_INT8;
  m.group = options->group ? options->group : m.format == TL_INT8 ? slot->cols : 32;
  return m;
}

static gboolean
all_finite (const float *x, gsize n)
{
  for (gsize i = 0; i < n; i++)
    if (!isfinite (x[i]))
      return FALSE;
  return TRUE;
}

/* floats back to the two-byte format they came from: exact */
static gpointer
narrow (const float *x, gsize n, TlFormat format)
{
  guint16 *out = g_new (guint16, n);
  for (gsize i = 0; i < n; i++)
    out[i] = format == TL_F16 ? tl_f32_to_f16 (x[i]) : tl_f32_to_bf16 (x[i]);
  return out;
}

/* a matrix that the source holds quantised, taken over value by value */
static gboolean
write_stored (TlCheckpointWriter *w, TlImportSource *source, const TlWeightSlot *slot, TlMatrix *m, GError **error)
{
  gsize groups = (gsize) m->rows * tl_matrix_n_groups (m);
  g_autofree guint8 *data = g_malloc (m->rows * tl_matrix_row_bytes (m));
  g_autofree guint8 *scale = g_malloc (groups * (m->scale_format == TL_F32 ? 4 : 2));
  g_autofree guint8 *zero = m->offset == TL_OFFSET_ZERO ? g_malloc (groups) : NULL;
  g_autofree guint16 *minimum = m->offset == TL_OFFSET_MIN ? g_new (guint16, groups) : NULL;

  m->data = data;
  m->scale = scale;
  m->zero = zero;
  m->minimum = minimum;
  if (!source->read_stored (source, slot, m, error))
    return FALSE;
  return tl_checkpoint_writer_write_matrix (w, m, error);
}

static gboolean
write_slot (TlCheckpointWriter *w, TlImportSource *source, const TlWeightSlot *slot, const Options *options,
    GError **error)
{
  gsize n = (gsize) slot->rows * slot->cols;
  TlMatrix shape = target_shape (source, slot, options), stored;
  if (slot->is_matrix && source->stored && (options->quantize < TL_INT8 || kept (options, slot))
      && source->stored (source, slot, &stored))
    return write_stored (w, source, slot, &stored, error);

  g_autofree float *values = g_new (float, n);

  if (!source->read (source, slot, values, error))
    return FALSE;
  if (!all_finite (values, n))
    {
      g_set_error (error, TL_ERROR, TL_ERROR_NUMERIC, "tinyloop: tensor '%s' holds values that are infinite or not numbers",
          slot->name);
      return FALSE;
    }
  if (!slot->is_matrix)
    return tl_checkpoint_writer_write (w, values, n * sizeof (float), error);
  if (shape.format >= TL_INT8)
    {
      g_autoptr (TlMatrix) m = tl_quantize_round (values, slot->rows, slot->cols, shape.format, shape.group);
      return tl_checkpoint_writer_write_matrix (w, m, error);
    }
  g_autofree gpointer narrowed = shape.format == TL_F32 ? NULL : narrow (values, n, shape.format);
  shape.data = narrowed ? narrowed : values;
  return tl_checkpoint_writer_write_matrix (w, &shape, error);
}

static void
declare_slot (TlCheckpointWriter *w, TlImportSource *source, const TlWeightSlot *slot, const Options *options)
{
  gsize n = slot->cols;
  TlMatrix shape = target_shape (source, slot, options);
  if (slot->is_matrix)
    {
      const char *origin = source->origin ? source->origin (source, slot) : NULL;
      tl_checkpoint_writer_add_matrix (w, slot->name, &shape);
      if (origin)
        tl_checkpoint_writer_set_source (w, slot->name, origin);
    }
  else
    tl_checkpoint_writer_add (w, slot->name, "F32", 1, &n);
}

static gboolean
write_all (TlCheckpointWriter *w, TlImportSource *source, GPtrArray *slots, GPtrArray *tokenizer,
    const Options *options, GCancellable *cancellable, GError **error)
{
  if (!tl_checkpoint_writer_begin (w, error))
    return FALSE;
  for (guint i = 0; i < slots->len; i++)
    {
      if (g_cancellable_is_cancelled (cancellable))
        {
          g_set_error (error, TL_ERROR, TL_ERROR_CANCELLED, "tinyloop: the conversion was cancelled");
          return FALSE;
        }
      if (!write_slot (w, source, g_ptr_array_index (slots, i), options, error))
        return FALSE;
      if (options->progress)
        options->progress ((i + 1.0) / slots->len, options->progress_data);
    }
  for (guint i = 0; tokenizer && i < tokenizer->len; i++)
    {
      TlTokenizerTensor *t = g_ptr_array_index (tokenizer, i);
      if (!tl_checkpoint_writer_write (w, g_bytes_get_data (t->data, NULL), g_bytes_get_size (t->data), error))
        return FALSE;
    }
  return tl_checkpoint_writer_finish (w, error);
}

static gboolean
convert (const char *src, const char *dst, const Options *options, GCancellable *cancellable, GError **error)
{
  if (options->group != 0 && options->group != 32 && options->group != 64 && options->group != 128)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: group %u: use 32, 64, 128, or 0 for whole rows",
          options->group);
      return FALSE;
    }
  TlImportSource *source = tl_import_open (src, error);
  if (!source)
    return FALSE;

  g_autofree char *name = g_path_get_basename (src);
  g_autoptr (GPtrArray) slots = tl_weight_slots (source->descriptor, name, error);
  g_autoptr (GPtrArray) tokenizer = source->tokenizer ? tl_tokenizer_to_tensors (source->tokenizer) : NULL;
  gboolean ok = slots != NULL;
  if (ok)
    {
      g_autoptr (TlCheckpointWriter) w = tl_checkpoint_writer_new (dst, source->descriptor);
      for (guint i = 0; i < slots->len; i++)
        declare_slot (w, source, g_ptr_array_index (slots, i), options);
      for (guint i = 0; tokenizer && i < tokenizer->len; i++)
        {
          TlTokenizerTensor *t = g_ptr_array_index (tokenizer, i);
          gsize n = g_bytes_get_size (t->data) / (t->is_i32 ? 4 : 1);
          tl_checkpoint_writer_add (w, t->name, t->is_i32 ? "I32" : "U8", 1, &n);
        }
      ok = write_all (w, source, slots, tokenizer, options, cancellable, error);
    }
  source->free (source);
  return ok;
}

gboolean
tl_convert_file (const char *src, const char *dst, const char *quantize, guint group, const char *const *keep,
    TlProgressFunc progress, gpointer data, GCancellable *cancellable, GError **error)
{
  static const struct { const char *name; TlFormat format; } formats[] = {
    { "none", TL_F32 }, { "int8", TL_INT8 }, { "int4", TL_INT4 },
  };
  Options options = { .group = group, .keep = (char **) keep, .progress = progress, .progress_data = data };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (g_str_equal (quantize, formats[i].name))
      {
        options.quantize = formats[i].format;
        return tl_file_check_apart (src, dst, error) && convert (src, dst, &options, cancellable, error);
      }
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "tinyloop: quantize '%s': use none, int8 or int4", quantize);
  return FALSE;
}
