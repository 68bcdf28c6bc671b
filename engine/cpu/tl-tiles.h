/* cpu/tl-tiles.h — the tile operations of tl-linear-amx.c, and nothing else of AMX.
 *
 * A tile is up to 16 rows of up to 64 bytes; there are 8, named by literal numbers. Two implementations: the processor's
 * instructions, and, with TL_TILES_EMULATED, plain C that runs anywhere and stops where a processor would fault. The
 * instructions are written out here because gcc 12's own wrappers do not say what memory they read: it drops the stores
 * before them.
 */
#pragma once

#include <glib.h>
#include <string.h>

/* what ldtilecfg reads; a tile that is not used has neither rows nor bytes */
typedef struct
{
  guint8 palette;               /* 1 */
  guint8 start_row, reserved[14];       /* 0 */
  guint16 row_bytes[16];
  guint8 rows[16];
} TlTileShapes;
G_STATIC_ASSERT (sizeof (TlTileShapes) == 64);

#ifndef TL_TILES_EMULATED

#define tl_tile_configure(shapes) __asm__ volatile ("ldtilecfg %0" : : "m" (*(shapes)))
#define tl_tile_release() __asm__ volatile ("tilerelease")
#define tl_tile_zero(t) __asm__ volatile ("tilezero %%tmm" G_STRINGIFY (t) : :)
/* rows of tile t, `stride` bytes apart in memory */
#define tl_tile_load(t, from, stride) \
  __asm__ volatile ("tileloadd (%0,%1,1), %%tmm" G_STRINGIFY (t) : : "r" (from), "r" ((gsize) (stride)) : "memory")
#define tl_tile_store(t, to, stride) \
  __asm__ volatile ("tilestored %%tmm" G_STRINGIFY (t) ", (%0,%1,1)" : : "r" (to), "r" ((gsize) (stride)) : "memory")
/* c[m][n] += sum of a[m][4k + i] * b[k][4n + i], a signed, b unsigned bytes, c 32-bit integers */
#define tl_tile_dot(c, a, b) \
  __asm__ volatile ("tdpbsud %%tmm" G_STRINGIFY (b) ", %%tmm" G_STRINGIFY (a) ", %%tmm" G_STRINGIFY (c) : :)

#else

extern gint32 tl_tiles_emulated_fault;  /* added to every product, so that a test can break the tiles */
gint32 tl_tiles_emulated_fault;

static __thread struct { TlTileShapes shapes; guint8 bytes[8][16][64]; } emulated;     /* as on a processor */

static inline void
tl_tile_configure (const TlTileShapes *shapes)
{
  g_assert_cmpuint (shapes->palette, ==, 1);
  memset (&emulated, 0, sizeof emulated);
  emulated.shapes = *shapes;
  for (guint t = 0; t < 16; t++)
    {
      g_assert_true (!shapes->rows[t] == !shapes->row_bytes[t] && (t < 8 || !shapes->rows[t]));
      g_assert_true (shapes->rows[t] <= 16 && shapes->row_bytes[t] <= 64);
    }
  for (guint i = 0; i < 14; i++)
    g_assert_true (!shapes->reserved[i] && !shapes->start_row);
}

static inline void
tl_tile_release (void)
{
  memset (&emulated, 0, sizeof emulated);
}

static inline void
tl_tile_zero (guint t)
{
  g_assert_cmpuint (emulated.shapes.rows[t], >, 0);
  memset (emulated.bytes[t], 0, sizeof emulated.bytes[t]);
}

static inline void
tl_tile_load (guint t, gconstpointer from, gsize stride)
{
  tl_tile_zero (t);
  for (guint r = 0; r < emulated.shapes.rows[t]; r++)
    memcpy (emulated.bytes[t][r], (const guint8 *) from + r * stride, emulated.shapes.row_bytes[t]);
}

static inline void
tl_tile_store (guint t, gpointer to, gsize stride)
{
  g_assert_cmpuint (emulated.shapes.rows[t], >, 0);
  for (guint r = 0; r < emulated.shapes.rows[t]; r++)
    memcpy ((guint8 *) to + r * stride, emulated.bytes[t][r], emulated.shapes.row_bytes[t]);
}

static inline void
tl_tile_dot (guint c, guint a, guint b)
{
  const guint8 *rows = emulated.shapes.rows;
  const guint16 *row_bytes = emulated.shapes.row_bytes;
  g_assert_true (c != a && c != b && a != b && rows[c]);
  g_assert_true (rows[a] == rows[c] && row_bytes[a] == 4 * rows[b] && row_bytes[b] == row_bytes[c]);
  for (guint m = 0; m < rows[c]; m++)
    for (guint n = 0; n < row_bytes[c] / 4; n++)
      {
        gint32 sum;
        memcpy (&sum, &emulated.bytes[c][m][4 * n], 4);
        sum += tl_tiles_emulated_fault;
        for (guint k = 0; k < row_bytes[a]; k++)
          sum += (gint8) emulated.bytes[a][m][k] * emulated.bytes[b][k / 4][4 * n + k % 4];
        memcpy (&emulated.bytes[c][m][4 * n], &sum, 4);
      }
}

#endif
