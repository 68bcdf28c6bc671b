/* model/tl-file.c — a file read by position. Used by the safetensors reader and all importers. */
#include "model/tl-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

TlFile *
tl_file_open (const char *path, GError **error)
{
  g_autofree char *name = g_path_get_basename (path);
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);      /* a pipe that nobody writes to is not waited for */
  if (fd < 0)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: cannot be opened: %s", path, g_strerror (errno));
      return NULL;
    }

  struct stat info;
  if (fstat (fd, &info) < 0 || !S_ISREG (info.st_mode))
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE, "%s: is not a regular file", path);
      close (fd);
      return NULL;
    }

  TlFile *file = g_new0 (TlFile, 1);
  file->fd = fd;
  file->size = info.st_size;
  file->path = g_strdup (path);
  file->name = g_steal_pointer (&name);
  return file;
}

void
tl_file_free (TlFile *file)
{
  if (file == NULL)
    return;
  close (file->fd);
  g_free (file->path);
  g_free (file->name);
  g_free (file);
}

gboolean
tl_file_read (TlFile *file, guint64 offset, void *data, gsize size, GError **error)
{
  guint8 *to = data;
  while (size > 0)
    {
      ssize_t n = pread (file->fd, to, MIN (size, (gsize) 1 << 30), (off_t) offset);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE,
              "%s: ends too early, at byte %" G_GUINT64_FORMAT "%s%s; copy the file again",
              file->name, offset, n < 0 ? ": " : "", n < 0 ? g_strerror (errno) : "");
          return FALSE;
        }
      to += n;
      offset += n;
      size -= n;
    }
  return TRUE;
}

GBytes *
tl_file_load (const char *path, gsize limit, GError **error)
{
  g_autoptr (TlFile) file = tl_file_open (path, error);
  if (file == NULL)
    return NULL;
  if (file->size > limit)
    {
      g_set_error (error, TL_ERROR, TL_ERROR_BAD_FILE,
          "%s: has %" G_GUINT64_FORMAT " bytes, more than the %" G_GSIZE_FORMAT " allowed for this kind of file",
          file->name, file->size, limit);
      return NULL;
    }

  g_autofree guint8 *data = g_malloc (file->size + 1);
  if (!tl_file_read (file, 0, data, file->size, error))
    return NULL;
  data[file->size] = 0;
  return g_bytes_new_take (g_steal_pointer (&data), file->size);
}

gboolean
tl_file_check_apart (const char *src, const char *dst, GError **error)
{
  struct stat from, to;
  if (stat (src, &from) < 0 || stat (dst, &to) < 0 || from.st_dev != to.st_dev || from.st_ino != to.st_ino)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "%s: is the source too; name another file to write", dst);
  return FALSE;
}
