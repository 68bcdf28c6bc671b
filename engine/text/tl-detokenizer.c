/* engine/text/tl-detokenizer.c — incremental decoding that never splits a character.
 *
 * At most three bytes of an unfinished character are held; every maximal invalid subpart becomes one U+FFFD.
 */
#include "text/tl-detokenizer.h"

#include "text/tl-characters.h"

struct _TlDetokenizer
{
  GObject parent;
  TlTokenizer *tokenizer;
  TlDetokenizerFlags flags;
  GString *held;                /* bytes of an unfinished character */
  gboolean strip_space;         /* the next byte is the text's first */
};

G_DEFINE_FINAL_TYPE (TlDetokenizer, tl_detokenizer, G_TYPE_OBJECT)

static void
tl_detokenizer_finalize (GObject *object)
{
  TlDetokenizer *self = TL_DETOKENIZER (object);
  g_clear_object (&self->tokenizer);
  g_string_free (self->held, TRUE);
  G_OBJECT_CLASS (tl_detokenizer_parent_class)->finalize (object);
}

static void
tl_detokenizer_class_init (TlDetokenizerClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_detokenizer_finalize;
}

static void
tl_detokenizer_init (TlDetokenizer *self)
{
  self->held = g_string_new (NULL);
}

/**
 * tl_detokenizer_new:
 * @tokenizer: a tokenizer
 * @flags: what to leave out
 *
 * Returns: (transfer full): a detokenizer at the beginning of a text
 */
TlDetokenizer *
tl_detokenizer_new (TlTokenizer *tokenizer, TlDetokenizerFlags flags)
{
  TlDetokenizer *self = g_object_new (TL_TYPE_DETOKENIZER, NULL);
  self->tokenizer = g_object_ref (tokenizer);
  self->flags = flags;
  self->strip_space = tl_tokenizer_strips_leading_space (tokenizer);
  return self;
}

/* moves what is final from `held` to a new chunk; @end: nothing more comes */
static GBytes *
take_final (TlDetokenizer *self, gboolean end)
{
  g_autoptr (GString) out = g_string_new (NULL);
  gsize at = 0;
  while (at < self->held->len) {
    gsize invalid, valid = tl_utf8_valid_prefix (self->held->str + at, self->held->len - at, &invalid);
    g_string_append_len (out, self->held->str + at, valid);
    at += valid;
    guint8 lead = at < self->held->len ? (guint8) self->held->str[at] : 0;
    gsize need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    gboolean open = lead >= 0xc2 && lead < 0xf5 && at + invalid == self->held->len && invalid < need;
    if (!invalid || (open && !end))
      break;
    g_string_append (out, "\xef\xbf\xbd");
    at += invalid;
  }
  g_string_erase (self->held, 0, at);
  return g_string_free_to_bytes (g_steal_pointer (&out));
}

/**
 * tl_detokenizer_push:
 * @self: a detokenizer
 * @id: the next token
 *
 * Returns: (transfer full): the text that became final, valid UTF-8, often empty
 */
GBytes *
tl_detokenizer_push (TlDetokenizer *self, gint32 id)
{
  return tl_detokenizer_push_cut (self, id, 0);
}

/**
 * tl_detokenizer_push_cut:
 * @self: a detokenizer
 * @id: the next token
 * @cut: bytes at its end that are left out (#TlToken.cut: a stop string begins inside of the token)
 *
 * Returns: (transfer full): the text that became final, valid UTF-8, often empty
 */
GBytes *
tl_detokenizer_push_cut (TlDetokenizer *self, gint32 id, guint cut)
{
  gsize length;
  if ((self->flags & TL_DETOKENIZER_SKIP_SPECIAL) && tl_tokenizer_is_special (self->tokenizer, id))
    return g_bytes_new_static ("", 0);
  g_autoptr (GBytes) bytes = tl_tokenizer_token_bytes (self->tokenizer, id);
  const char *data = g_bytes_get_data (bytes, &length);
  length -= MIN (length, cut);
  if (length) {
    gsize skip = self->strip_space && data[0] == ' ';
    self->strip_space = FALSE;
    g_string_append_len (self->held, data + skip, length - skip);
  }
  return take_final (self, FALSE);
}

/**
 * tl_detokenizer_flush:
 * @self: a detokenizer
 *
 * Ends the text and starts a new one.
 *
 * Returns: (transfer full): U+FFFD for an unfinished character, else empty
 */
GBytes *
tl_detokenizer_flush (TlDetokenizer *self)
{
  GBytes *rest = take_final (self, TRUE);
  self->strip_space = tl_tokenizer_strips_leading_space (self->tokenizer);
  return rest;
}
