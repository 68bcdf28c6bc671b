/* tl-inspect.c — what a checkpoint is, for people and for programs. Reads the header only, unless asked to verify. */
#include <string.h>

#include <json-glib/json-glib.h>

#include "forward/tl-kv-layout.h"
#include "model/tl-descriptor-json.h"
#include "model/tl-weights.h"
#include "tl-convert.h"
#include "tl-svg.h"

typedef struct { guint64 outside, stack[TL_N_STACKS], tokenizer, total; } Bytes;

static const char *const stack_names[TL_N_STACKS] = { "pre", "loop", "coda" };

static Bytes
count_bytes (TlCheckpoint *c)
{
  Bytes b = { 0 };
  for (guint i = 0; i < tl_checkpoint_n_tensors (c); i++)
    {
      const TlTensorView *view = tl_checkpoint_tensor_at (c, i);
      guint64 *part = g_str_has_prefix (view->name, "tokenizer.") ? &b.tokenizer : &b.outside;
      for (guint s = 0; s < TL_N_STACKS; s++)
        {
          gsize n = strlen (stack_names[s]);
          if (strncmp (view->name, stack_names[s], n) == 0 && view->name[n] == '.')
            part = &b.stack[s];
        }
      *part += view->size;
      b.total += view->size;
    }
  return b;
}

static char *
as_json (TlCheckpoint *c, const Bytes *b)
{
  const TlDescriptor *d = tl_checkpoint_descriptor (c);
  g_autoptr (JsonObject) root = json_object_new ();
  JsonObject *bytes = json_object_new ();
  for (guint s = 0; s < TL_N_STACKS; s++)
    json_object_set_int_member (bytes, stack_names[s], b->stack[s]);
  json_object_set_int_member (bytes, "outside", b->outside);
  json_object_set_int_member (bytes, "tokenizer", b->tokenizer);
  json_object_set_int_member (bytes, "file", tl_checkpoint_file_size (c));
  json_object_set_object_member (root, "descriptor", tl_descriptor_to_object (d));
  json_object_set_object_member (root, "bytes", bytes);
  json_object_set_int_member (root, "cache_bytes_per_token", tl_kv_bytes_per_token (d, d->loops_default, TL_KV_FP16));
  JsonObject *modes = json_object_new ();
  for (TlKvMode mode = 0; mode < TL_N_KV_MODES; mode++)
    json_object_set_int_member (modes, tl_kv_mode_name (mode), tl_kv_bytes_per_token (d, d->loops_default, mode));
  json_object_set_object_member (root, "cache_bytes_per_token_by_mode", modes);
  g_autoptr (JsonNode) node = json_node_init_object (json_node_alloc (), root);
  return json_to_string (node, TRUE);
}

static char *
as_text (TlCheckpoint *c, const Bytes *b)
{
  const TlDescriptor *d = tl_checkpoint_descriptor (c);
  GString *s = g_string_new (NULL);
  g_string_append_printf (s, "%s: %s, %.2f MB\n\n", tl_checkpoint_name (c), d->family ? d->family : "unnamed family",
      tl_checkpoint_file_size (c) / 1e6);
  g_string_append_printf (s, "  embed  %u tokens x %u%s\n", d->vocab_size, d->d_model, d->tie_head ? ", also the head" : "");
  for (guint i = 0; i < TL_N_STACKS; i++)
    if (d->n_blocks[i])
      {
        g_string_append_printf (s, "    |\n  %-5s  %u block%s, %.2f MB", stack_names[i], d->n_blocks[i],
            d->n_blocks[i] == 1 ? "" : "s", b->stack[i] / 1e6);
        if (i == TL_STACK_LOOP)
          g_string_append_printf (s, "   <- applied %u times (%u to %u)", d->loops_default, d->loops_min, d->loops_max);
        g_string_append_c (s, '\n');
      }
  g_string_append_printf (s, "    |\n  head\n\n  width %u, mlp %u (%s), heads %u x %u, %u for keys and values\n", d->d_model,
      d->d_ff, tl_descriptor_enum_name ("mlp.kind", d->mlp), d->n_heads, d->head_dim, d->n_kv_heads);
  g_string_append_printf (s, "  norms %s, injection %s, positions %s, context %u\n",
      tl_descriptor_enum_name ("block.norm_placement", d->placement), tl_descriptor_enum_name ("inject.kind", d->inject),
      tl_descriptor_enum_name ("pos.kind", d->pos), d->max_seq_len);
  g_string_append_printf (s, "  cache bytes per token at %u loops:", d->loops_default);
  for (TlKvMode mode = 0; mode < TL_N_KV_MODES; mode++)
    g_string_append_printf (s, "%s %s %" G_GUINT64_FORMAT, mode ? "," : "", tl_kv_mode_name (mode),
        tl_kv_bytes_per_token (d, d->loops_default, mode));
  g_string_append_printf (s, "\n  tokenizer %s\n", b->tokenizer ? "inside" : "none");
  return g_string_free (s, FALSE);
}

static const char drawing_css[] =
    "text{font:15px sans-serif;text-anchor:middle}rect,path{stroke:#444}rect{fill:#eef}path{fill:none}marker path{fill:#444}"
    "rect.loop{fill:#fd8}rect.end{fill:#eee}.small{font-size:12px}.side{text-anchor:start}";

/* one box of the drawing; @second may be empty */
static void
draw_box (GString *s, int y, const char *css_class, const char *first, const char *second)
{
  g_string_append_printf (s, "<rect class=\"%s\" x=\"40\" y=\"%d\" width=\"300\" height=\"48\" rx=\"6\"/>\n", css_class, y);
  tl_svg_text (s, "name", 190, y + 20, first);
  tl_svg_text (s, "small", 190, y + 38, second);
}

static char *
as_svg (TlCheckpoint *c, const Bytes *b)
{
  const TlDescriptor *d = tl_checkpoint_descriptor (c);
  g_autoptr (GString) s = g_string_new (NULL);
  g_autofree char *embed = g_strdup_printf ("%u tokens × %u", d->vocab_size, d->d_model);
  int y = 20;
  g_string_append (s, "<marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\"/></marker>\n");
  draw_box (s, y, "end", "embed", embed);
  for (guint i = 0; i < TL_N_STACKS; i++)
    if (d->n_blocks[i])
      {
        g_autofree char *first = g_strdup_printf ("%s: %u block%s", stack_names[i], d->n_blocks[i], d->n_blocks[i] == 1 ? "" : "s");
        g_autofree char *second = g_strdup_printf ("%.2f MB", b->stack[i] / 1e6);
        y += 72;
        g_string_append_printf (s, "<path d=\"M190 %d v20\" marker-end=\"url(#tip)\"/>\n", y - 24);
        draw_box (s, y, i == TL_STACK_LOOP ? "loop" : "block", first, second);
        if (i == TL_STACK_LOOP)
          {
            g_autofree char *times = g_strdup_printf ("× %u (%u to %u)", d->loops_default, d->loops_min, d->loops_max);
            g_string_append_printf (s, "<path d=\"M340 %d h40 v-32 h-36\" marker-end=\"url(#tip)\"/>\n", y + 40);
            tl_svg_text (s, "side", 390, y + 28, times);
          }
      }
  y += 72;
  g_string_append_printf (s, "<path d=\"M190 %d v20\" marker-end=\"url(#tip)\"/>\n", y - 24);
  draw_box (s, y, "end", "head", d->tie_head ? "the embedding again" : "its own matrix");
  return tl_svg_document (520, y + 68, drawing_css, g_steal_pointer (&s));
}

char *
tl_inspect_file (const char *path, TlInspectFlags flags, GError **error)
{
  gboolean verify = flags & TL_INSPECT_VERIFY;
  g_autoptr (TlCheckpoint) c = verify ? tl_checkpoint_open (path, error) : tl_checkpoint_open_header (path, error);
  if (!c || (verify && !tl_checkpoint_verify (c, error)))
    return NULL;
  Bytes bytes = count_bytes (c);
  if (flags & TL_INSPECT_SVG)
    return as_svg (c, &bytes);
  return flags & TL_INSPECT_JSON ? as_json (c, &bytes) : as_text (c, &bytes);
}
