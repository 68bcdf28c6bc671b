/* tl-error.c — registers the error domain and its enum type. */
#include "tl-error.h"

G_DEFINE_QUARK (tl-error-quark, tl_error)

GType
tl_error_get_type (void)
{
  static gsize type = 0;
  static const GEnumValue values[] = {
    {TL_ERROR_CLOSED, "TL_ERROR_CLOSED", "closed"},
    {TL_ERROR_INVALID_ARGUMENT, "TL_ERROR_INVALID_ARGUMENT", "invalid-argument"},
    {TL_ERROR_SEQUENCE_TOO_LONG, "TL_ERROR_SEQUENCE_TOO_LONG", "sequence-too-long"},
    {TL_ERROR_LOOPS_MISMATCH, "TL_ERROR_LOOPS_MISMATCH", "loops-mismatch"},
    {TL_ERROR_NO_MEMORY, "TL_ERROR_NO_MEMORY", "no-memory"},
    {TL_ERROR_BAD_FILE, "TL_ERROR_BAD_FILE", "bad-file"},
    {TL_ERROR_UNSUPPORTED, "TL_ERROR_UNSUPPORTED", "unsupported"},
    {TL_ERROR_CANCELLED, "TL_ERROR_CANCELLED", "cancelled"},
    {TL_ERROR_DEAD_END, "TL_ERROR_DEAD_END", "dead-end"},
    {TL_ERROR_NUMERIC, "TL_ERROR_NUMERIC", "numeric"},
    {TL_ERROR_DEVICE, "TL_ERROR_DEVICE", "device"},
    {0, NULL, NULL},
  };

  if (g_once_init_enter (&type))
    g_once_init_leave (&type, g_enum_register_static ("TlError", values));
  return type;
}
