/* tl-svg.h — the few shapes that drawings of the library share. Called by tl-inspect.c and score/tl-drawing.c.
 *
 * A drawing is one self-contained file: shapes, a style sheet, no scripts, nothing fetched. Coordinates are whole pixels, so
 * that no locale gets into them; texts are escaped here and must be UTF-8 without control characters.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const char *name;             /* of its gradient; unique in a drawing */
  guint n_stops;
  guint32 stops[4];             /* 0xRRGGBB, evenly spaced */
} TlSvgRamp;

/* the ramp's colour at t, which is cut to 0 … 1 */
guint32 tl_svg_color (const TlSvgRamp *ramp, double t);
/* black or white, whichever can be read on that colour */
const char *tl_svg_ink (guint32 background);

/* css: the style sheet, where text and rect have their looks. Takes the body */
char *tl_svg_document (int width, int height, const char *css, GString *body);
void tl_svg_text (GString *s, const char *css_class, int x, int y, const char *text);
/* what a viewer shows when the pointer rests on the shape or group around it */
void tl_svg_title (GString *s, const char *text);
/* a bar of the ramp, 160 × 12, with `n` labels below it, evenly spaced */
void tl_svg_legend (GString *s, const TlSvgRamp *ramp, int x, int y, const char *const *labels, guint n);

G_END_DECLS
