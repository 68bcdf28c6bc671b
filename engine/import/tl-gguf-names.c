/* import/tl-gguf-names.c — canonical names to GGUF's, and the row order of llama files. Called by reader and exporter. */
#include "import/tl-gguf-names.h"

#include <string.h>

/* an entry ending in '.' translates every name that begins with it */
static const struct { const char *canonical, *foreign; } names[] = {
  { "embed.weight", "token_embd.weight" }, { "head.weight", "output.weight" }, { "final_norm.weight", "output_norm.weight" },
  { "rope.factors", "rope_freqs.weight" }, { "attn_norm.weight", "attn_norm.weight" }, { "mlp_norm.weight", "ffn_norm.weight" },
  { "attn.q_norm.weight", "attn_q_norm.weight" }, { "attn.k_norm.weight", "attn_k_norm.weight" },
  { "attn.q.", "attn_q." }, { "attn.k.", "attn_k." }, { "attn.v.", "attn_v." }, { "attn.o.", "attn_output." },
  { "mlp.gate.", "ffn_gate." }, { "mlp.up.", "ffn_up." }, { "mlp.down.", "ffn_down." },
};

const char *
tl_gguf_slot_tail (const TlWeightSlot *slot)
{
  return slot->stack < 0 ? slot->name : strchr (strchr (slot->name, '.') + 1, '.') + 1;
}

char *
tl_gguf_tensor_name (const TlWeightSlot *slot, guint block)
{
  const char *tail = tl_gguf_slot_tail (slot);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      gsize n = strlen (names[i].canonical);
      gboolean prefix = names[i].canonical[n - 1] == '.';
      if (prefix ? strncmp (tail, names[i].canonical, n) != 0 : !g_str_equal (tail, names[i].canonical))
        continue;
      const char *rest = prefix ? tail + n : "";
      return slot->stack < 0 ? g_strconcat (names[i].foreign, rest, NULL)
                             : g_strdup_printf ("blk.%u.%s%s", block, names[i].foreign, rest);
    }
  return g_strdup (slot->name);
}

guint
tl_gguf_row (const TlWeightSlot *slot, gboolean pairs, guint head_dim, guint r)
{
  const char *tail = tl_gguf_slot_tail (slot);
  if (!pairs || !(g_str_has_prefix (tail, "attn.q.") || g_str_has_prefix (tail, "attn.k.")))
    return r;
  guint head = r / head_dim, c = r % head_dim;
  return head * head_dim + c % (head_dim / 2) * 2 + c / (head_dim / 2);
}
