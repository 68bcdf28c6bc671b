/* cache/tl-prefix-file.h — the disk form of a computed prefix: a key, tokens, pages, and row states when it can be resumed.
 *
 * Little-endian; in this order: 8 bytes "TLPREFIX"; the numbers of TlPrefixFileHead as u32; the key's text; tokens u32 [n];
 * page numbers u32 [groups × slots], 0 = none, pages of several groups may be one; page sizes u64 [pages]; the pages; row
 * states F32 [rows × row width]; SHA-256 of all before. Every size is checked before anything is taken from the model's memory.
 * Called by the public objects; the key is theirs.
 */
#pragma once

#include "cache/tl-sequence.h"

G_BEGIN_DECLS

#define TL_PREFIX_FILE_VERSION 1

typedef struct
{
  guint32 version, kind, key_bytes, n_tokens, start, window, loops, n_slots, n_pages, row_width;        /* row_width 0: no rows */
} TlPrefixFileHead;

typedef struct
{
  char *name;                   /* of the file, for messages */
  GBytes *bytes;
  TlPrefixFileHead head;
  char *key;
  guint32 *tokens;              /* [n_tokens] */
  guint32 *table;               /* [TL_GROUP_LOOP + loops][n_slots] */
  guint64 *sizes;               /* [n_pages] */
  const guint8 *pages, *rows;   /* into bytes, not aligned */
} TlPrefixFile;

/* Reads and checks all that does not depend on a model; BAD_FILE with file, field and reason. name: for messages */
TlPrefixFile *tl_prefix_file_parse (GBytes *bytes, const char *name, GError **error);
TlPrefixFile *tl_prefix_file_read (const char *path, GError **error);
void tl_prefix_file_free (TlPrefixFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlPrefixFile, tl_prefix_file_free)
/* Checks the file against the sequence's model and mode and puts its tokens and pages into the empty sequence. BAD_FILE,
 * NO_MEMORY; the sequence is dropped after an error. */
gboolean tl_prefix_file_restore (const TlPrefixFile *file, TlKvSequence *seq, GError **error);

/* row i of the kept states as [row_width] floats */
typedef void (*TlPrefixFileRow) (gpointer data, guint i, float *out);
/* Writes a temporary file beside path and renames it. All positions of the sequence have the same depth. BAD_FILE when it
 * cannot be written, UNSUPPORTED for a sequence without pages. */
gboolean tl_prefix_file_write (const char *path, guint kind, const char *key, const TlKvSequence *seq, guint row_width,
  TlPrefixFileRow row, gpointer row_data, GError **error);

G_END_DECLS
