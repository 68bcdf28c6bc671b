/* tl-svg.c — see the header. */
#include "tl-svg.h"

#include <math.h>

guint32
tl_svg_color (const TlSvgRamp *ramp, double t)
{
  double at = CLAMP (t, 0, 1) * (ramp->n_stops - 1);
  guint from = MIN ((guint) at, ramp->n_stops - 2);
  guint32 color = 0;
  for (int shift = 16; shift >= 0; shift -= 8) {
    int a = ramp->stops[from] >> shift & 0xff, b = ramp->stops[from + 1] >> shift & 0xff;
    color |= (guint32) lround (a + (b - a) * (at - from)) << shift;
  }
  return color;
}

const char *
tl_svg_ink (guint32 background)
{
  guint light = 299 * (background >> 16 & 0xff) + 587 * (background >> 8 & 0xff) + 114 * (background & 0xff);
  return light > 140000 ? "#000" : "#fff";
}

char *
tl_svg_document (int width, int height, const char *css, GString *body)
{
  char *document = g_strdup_printf ("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "viewBox=\"0 0 %d %d\">\n<style>%s</style>\n%s</svg>\n", width, height, width, height, css, body->str);
  g_string_free (body, TRUE);
  return document;
}

void
tl_svg_text (GString *s, const char *css_class, int x, int y, const char *text)
{
  g_autofree char *escaped = g_markup_escape_text (text, -1);
  g_string_append_printf (s, "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>\n", css_class, x, y, escaped);
}

void
tl_svg_title (GString *s, const char *text)
{
  g_autofree char *escaped = g_markup_escape_text (text, -1);
  g_string_append_printf (s, "<title>%s</title>", escaped);
}

void
tl_svg_legend (GString *s, const TlSvgRamp *ramp, int x, int y, const char *const *labels, guint n)
{
  g_string_append_printf (s, "<linearGradient id=\"%s\">", ramp->name);
  for (guint i = 0; i < ramp->n_stops; i++)
    g_string_append_printf (s, "<stop offset=\"%u%%\" stop-color=\"#%06x\"/>", 100 * i / (ramp->n_stops - 1), ramp->stops[i]);
  g_string_append_printf (s, "</linearGradient>\n<rect class=\"scale\" x=\"%d\" y=\"%d\" width=\"160\" height=\"12\" "
      "fill=\"url(#%s)\"/>\n", x, y, ramp->name);
  for (guint i = 0; i < n; i++)
    tl_svg_text (s, "tick", x + 160 * (int) i / (int) (n - 1), y + 25, labels[i]);
}
