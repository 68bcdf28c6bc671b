/* engine/score/tl-drawing.c — see the header. Both drawings are one grid of cells that says what stands in a cell. */
#include "score/tl-drawing.h"

#include <math.h>

#include "forward/tl-math.h"
#include "text/tl-visible.h"
#include "tl-distribution.h"
#include "tl-svg.h"

enum { CELL_W = 76, CELL_H = 36, LEFT = 84, RIGHT = 24, TOP = 104, HEAD = 42, GAP = 8, BETWEEN = 26, BAND = 16, MOST = 512,
  TOKEN_COLUMNS = 9 };

static const TlSvgRamp probability_ramp = { "probability", 3, { 0xf7fbff, 0x6baed6, 0x08306b } };
static const TlSvgRamp divergence_ramp = { "divergence", 4, { 0xffffff, 0xfdd49e, 0xef6548, 0x7f0000 } };

static const char css[] =
    "text{font:12px sans-serif;text-anchor:middle;fill:#222}"
    "rect{stroke:#fff}.paper{fill:#fff}.scale{stroke:#999}"
    ".head{font-size:17px;font-weight:bold;text-anchor:start}.note{fill:#555;text-anchor:start}.tick{font-size:10px;fill:#555}"
    ".row{fill:#555;text-anchor:end}.at{font-size:10px;fill:#888}"
    ".read,.token,.bold{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace}.token,.bold{fill:inherit}"
    ".read,.bold{font-weight:bold}.number{font-size:10px;fill:inherit}.last rect{stroke:#222;stroke-width:1.5}"
    ".settled{fill:none;stroke:#e8590c;stroke-width:3;stroke-linecap:square}";

typedef struct _Grid Grid;

/* what stands in one cell: two lines, the colour under them, and what a viewer shows on asking */
typedef struct { char *first, *second, *title; guint32 color; } Cell;

struct _Grid
{
  const gint32 *ids;
  TlTokenizer *tokenizer;
  guint n_ids, n_drawn;         /* positions; drawn are the first of them */
  guint n_rows;                 /* without the one at the bottom, which stands apart */
  guint per_band;
  const char *row_name, *last_name;
  guint first_row;              /* number of the first row */
  Cell (*cell) (const Grid *grid, guint row, guint position);   /* row = n_rows: the one at the bottom */
  const void *data;
};

/* what an id looks like: its text, or its number where it has none. columns: tl_visible_text() */
static char *
name_of (const Grid *grid, guint32 id, guint columns)
{
  g_autoptr (GBytes) bytes = grid->tokenizer ? tl_tokenizer_token_bytes (grid->tokenizer, id) : NULL;
  if (!bytes || !g_bytes_get_size (bytes))
    return g_strdup_printf ("#%u", id);
  return tl_visible_text (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), columns);
}

static int
band_height (const Grid *grid)
{
  return HEAD + (grid->n_rows + 1) * CELL_H + GAP;
}

static int
row_y (const Grid *grid, guint row)
{
  return HEAD + row * CELL_H + (row == grid->n_rows ? GAP : 0);
}

static void
draw_cell (const Grid *grid, GString *s, guint row, guint position, int x, int y)
{
  Cell cell = grid->cell (grid, row, position);
  g_string_append_printf (s, "<g class=\"cell%s\" fill=\"%s\">", row == grid->n_rows ? " last" : "", tl_svg_ink (cell.color));
  tl_svg_title (s, cell.title);
  g_string_append_printf (s, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%06x\"/>\n", x, y, CELL_W, CELL_H,
      cell.color);
  tl_svg_text (s, row == grid->n_rows ? "bold" : "token", x + CELL_W / 2, y + (cell.second ? 16 : 22), cell.first);
  if (cell.second)
    tl_svg_text (s, "number", x + CELL_W / 2, y + 29, cell.second);
  g_string_append (s, "</g>\n");
  g_free (cell.first);
  g_free (cell.second);
  g_free (cell.title);
}

/* positions from … below `to`, with the tokens that are read there above and the rows' names to the left */
static void
draw_band (const Grid *grid, GString *s, guint from, guint to, int y)
{
  tl_svg_text (s, "row", LEFT - 8, y + 32, "reads");
  for (guint position = from; position < to; position++) {
    int middle = LEFT + (position - from) * CELL_W + CELL_W / 2;
    g_autofree char *at = g_strdup_printf ("%u", position), *name = name_of (grid, grid->ids[position], TOKEN_COLUMNS);
    tl_svg_text (s, "at", middle, y + 14, at);
    tl_svg_text (s, "read", middle, y + 32, name);
  }
  for (guint row = 0; row <= grid->n_rows; row++) {
    g_autofree char *name = row < grid->n_rows ? g_strdup_printf ("%s %u", grid->row_name, grid->first_row + row)
        : g_strdup (grid->last_name);
    tl_svg_text (s, "row", LEFT - 8, y + row_y (grid, row) + CELL_H / 2 + 4, name);
    for (guint position = from; position < to; position++)
      draw_cell (grid, s, row, position, LEFT + (position - from) * CELL_W, y + row_y (grid, row));
  }
}

static void
grid_init (Grid *grid, GBytes *ids, guint n_rows)
{
  grid->ids = g_bytes_get_data (ids, NULL);
  grid->n_ids = g_bytes_get_size (ids) / sizeof (gint32);
  grid->n_drawn = MIN (grid->n_ids, MOST);
  grid->n_rows = n_rows;
  guint n_bands = (grid->n_drawn + BAND - 1) / BAND;
  grid->per_band = (grid->n_drawn + n_bands - 1) / n_bands;    /* so that the last one is not the shortest by far */
}

/* over: drawn upon each band, or NULL. Takes the body, which holds what stands above the bands */
static char *
draw_grid (const Grid *grid, GString *body, void (*over) (const Grid *, GString *, guint from, guint to, int y))
{
  g_autoptr (GString) s = g_string_new ("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
  int y = TOP, width = LEFT + MAX (grid->per_band, 9) * CELL_W + RIGHT;
  g_string_append (s, body->str);
  g_string_free (body, TRUE);
  for (guint from = 0; from < grid->n_drawn; from += grid->per_band, y += band_height (grid) + BETWEEN) {
    guint to = MIN (from + grid->per_band, grid->n_drawn);
    draw_band (grid, s, from, to, y);
    if (over)
      over (grid, s, from, to, y);
  }
  if (grid->n_drawn < grid->n_ids) {
    g_autofree char *note = g_strdup_printf ("The first %u of %u positions; score fewer ids to see others.", grid->n_drawn,
        grid->n_ids);
    tl_svg_text (s, "note", LEFT, y, note);
    y += BETWEEN;
  }
  return tl_svg_document (width, y, css, g_steal_pointer (&s));
}

static gboolean
check_shape (TlTensor *tensor, guint n_dims, guint position_axis, GBytes *ids, GError **error)
{
  gsize n = g_bytes_get_size (ids) / sizeof (gint32);
  if (tl_tensor_get_n_dims (tensor) == n_dims && g_str_equal (tl_tensor_get_dtype (tensor), "float32")
      && g_bytes_get_size (ids) == n * sizeof (gint32) && n && tl_tensor_get_dim (tensor, position_axis) == n)
    return TRUE;
  g_set_error (error, TL_ERROR, TL_ERROR_INVALID_ARGUMENT, "a drawing needs a float32 tensor of %u dimensions with one entry"
      " for each of the %" G_GSIZE_FORMAT " ids; give it the scores of these ids", n_dims, n);
  return FALSE;
}

/* --- logit lens --- */

typedef struct
{
  guint loops, n, vocab;
  const float *logits;          /* [loops][n][vocab] */
  guint *best;                  /* [loops][n]: the likeliest id */
  guint *settled;               /* [n]: the first row from which on it is the final one */
} Lens;

static Cell
lens_cell (const Grid *grid, guint row, guint position)
{
  const Lens *lens = grid->data;
  gboolean last = row == grid->n_rows;
  gsize at = (gsize) (last ? row - 1 : row) * lens->n + position;
  const float *logits = lens->logits + at * lens->vocab;
  guint id = lens->best[at];
  double p = tl_exp (logits[id] - tl_log_sum (logits, lens->vocab));
  gboolean right = last && position + 1 < grid->n_ids && (guint32) grid->ids[position + 1] == id;
  g_autofree char *full = name_of (grid, id, 0);
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  return (Cell) {
    .first = name_of (grid, id, TOKEN_COLUMNS),
    .second = g_strdup_printf ("%d%%%s", (int) lround (100 * p), right ? " ✓" : ""),
    .title = g_strdup_printf ("position %u, loop %u: %s (id %u), p = %s", position, (last ? row : row + 1), full, id,
        g_ascii_formatd (digits, sizeof digits, "%.4f", p)),
    .color = tl_svg_color (&probability_ramp, p),
  };
}

/* above each column's settled cells, as one line through the band */
static void
draw_settled (const Grid *grid, GString *s, guint from, guint to, int y)
{
  const Lens *lens = grid->data;
  for (guint position = from; position < to; position++) {
    int line = y + row_y (grid, lens->settled[position]);
    if (position == from)
      g_string_append_printf (s, "<path class=\"settled\" d=\"M%d %d", LEFT, line);
    g_string_append_printf (s, "V%dh%d", line, CELL_W);
  }
  g_string_append (s, "\"/>\n");
}

static void
find_settled (Lens *lens)
{
  for (gsize i = 0; i < (gsize) lens->loops * lens->n; i++)
    lens->best[i] = tl_argmax (lens->logits + i * lens->vocab, lens->vocab);
  for (guint position = 0; position < lens->n; position++) {
    guint row = lens->loops - 1, final = lens->best[(gsize) row * lens->n + position];
    while (row > 0 && lens->best[(gsize) (row - 1) * lens->n + position] == final)
      row--;
    lens->settled[position] = row;
  }
}

char *
tl_draw_logit_lens (TlTensor *tensor, GBytes *ids, TlTokenizer *tokenizer, GError **error)
{
  static const char *const labels[] = { "0%", "50%", "100%" };
  if (!check_shape (tensor, 3, 1, ids, error))
    return NULL;
  Lens lens = { tl_tensor_get_dim (tensor, 0), tl_tensor_get_dim (tensor, 1), tl_tensor_get_dim (tensor, 2),
    tl_tensor_get_data (tensor) };
  g_autofree guint *best = lens.best = g_new (guint, (gsize) lens.loops * lens.n);
  g_autofree guint *settled = lens.settled = g_new (guint, lens.n);
  find_settled (&lens);

  Grid grid = { .tokenizer = tokenizer, .row_name = "loop", .last_name = "predicts", .first_row = 1, .cell = lens_cell, .data = &lens };
  grid_init (&grid, ids, lens.loops);
  GString *s = g_string_new (NULL);
  tl_svg_text (s, "head", LEFT, 30, "What the next token would be after every loop");
  tl_svg_legend (s, &probability_ramp, LEFT, 46, labels, G_N_ELEMENTS (labels));
  g_string_append_printf (s, "<path class=\"settled\" d=\"M%d 53h36\"/>\n", LEFT + 200);
  tl_svg_text (s, "note", LEFT + 246, 57, "from here down the likeliest token stays the same");
  tl_svg_text (s, "note", LEFT + 200, 77, "✓ is the token that follows in the text");
  return draw_grid (&grid, s, draw_settled);
}

/* --- divergences --- */

enum { LOWEST = -3, HIGHEST = 1 };      /* decades of the colour scale */

static char *
nats (double value)
{
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  const char *format = value >= 9.95 ? "%.0f" : value >= 0.995 ? "%.1f" : value >= 0.0995 ? "%.2f" : "%.3f";
  return g_strdup (value < 0.0005 ? "0" : g_ascii_formatd (digits, sizeof digits, format, value));
}

static Cell
divergence_cell (const Grid *grid, guint row, guint position)
{
  const float *kl = (const float *) grid->data + (gsize) position * grid->n_rows;
  double value = 0;
  for (guint i = 0; i < grid->n_rows; i++)
    value += kl[i] / grid->n_rows;
  gboolean last = row == grid->n_rows;
  if (!last)
    value = kl[row];
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd (digits, sizeof digits, "%.6f", value);
  return (Cell) {
    .first = nats (value),
    .title = last ? g_strdup_printf ("position %u: mean %s nats", position, digits)
        : g_strdup_printf ("position %u, loop %u: %s nats from the loop before", position, row + 2, digits),
    .color = tl_svg_color (&divergence_ramp, value > 0 ? (log10 (value) - LOWEST) / (HIGHEST - LOWEST) : 0),
  };
}

char *
tl_draw_uncertainty (TlTensor *kl, GBytes *ids, TlTokenizer *tokenizer, GError **error)
{
  static const char *const labels[] = { "≤ 0.001", "0.01", "0.1", "1", "≥ 10" };
  if (!check_shape (kl, 2, 0, ids, error))
    return NULL;
  Grid grid = { .tokenizer = tokenizer, .row_name = "loop", .last_name = "mean", .first_row = 2, .cell = divergence_cell,
    .data = tl_tensor_get_data (kl) };
  grid_init (&grid, ids, tl_tensor_get_dim (kl, 1));
  GString *s = g_string_new (NULL);
  tl_svg_text (s, "head", LEFT, 30, "How much every loop still changed the prediction");
  tl_svg_legend (s, &divergence_ramp, LEFT, 46, labels, G_N_ELEMENTS (labels));
  tl_svg_text (s, "note", LEFT + 200, 57, "KL(after this loop ‖ after the one before), in nats");
  tl_svg_text (s, "note", LEFT + 200, 77, grid.n_rows ? "mean: over the loops, the uncertainty of the position"
      : "one loop alone has none before it");
  return draw_grid (&grid, s, NULL);
}
