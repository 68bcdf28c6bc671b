/* engine/text/tl-detokenizer.h — TlDetokenizer: ids in, text that has become final out, always valid UTF-8.
 *
 * One per reply; not shared between threads. Push every id, flush at the end.
 */
#pragma once

#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

#define TL_TYPE_DETOKENIZER (tl_detokenizer_get_type ())
TL_API G_DECLARE_FINAL_TYPE (TlDetokenizer, tl_detokenizer, TL, DETOKENIZER, GObject)

/**
 * TlDetokenizerFlags:
 * @TL_DETOKENIZER_NONE: special tokens appear as their text
 * @TL_DETOKENIZER_SKIP_SPECIAL: special tokens give no text
 *
 * What a detokenizer leaves out.
 */
typedef enum /*< flags >*/
{
  TL_DETOKENIZER_NONE = 0,
  TL_DETOKENIZER_SKIP_SPECIAL = 1 << 0,
} TlDetokenizerFlags;

TL_API TlDetokenizer *tl_detokenizer_new (TlTokenizer *tokenizer, TlDetokenizerFlags flags);
TL_API GBytes *tl_detokenizer_push (TlDetokenizer *self, gint32 id);
TL_API GBytes *tl_detokenizer_push_cut (TlDetokenizer *self, gint32 id, guint cut);
TL_API GBytes *tl_detokenizer_flush (TlDetokenizer *self);

G_END_DECLS
