/* model/tl-file.h — a file that is read by position, for code that must survive a file changing under it.
 *
 * A mapped file that shrinks kills the process; reads merely fail. Importers, `inspect` and `convert` read through this.
 */
#pragma once

#include "tl-error.h"

G_BEGIN_DECLS

typedef struct
{
  int fd;
  guint64 size;         /* bytes when it was opened */
  char *path;
  char *name;           /* last part of the path, for messages */
} TlFile;

TlFile *tl_file_open (const char *path, GError **error);
void tl_file_free (TlFile *file);
/* exactly `size` bytes from `offset`; a shorter file is an error */
gboolean tl_file_read (TlFile *file, guint64 offset, void *data, gsize size, GError **error);
/* the whole of a small file; longer than `limit` bytes is an error */
GBytes *tl_file_load (const char *path, gsize limit, GError **error);
/* FALSE with an error when @dst is the file that @src is: writing it would end what is read */
gboolean tl_file_check_apart (const char *src, const char *dst, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlFile, tl_file_free)

G_END_DECLS
