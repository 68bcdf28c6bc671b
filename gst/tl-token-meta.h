/* gst/tl-token-meta.h — what a token or text buffer says about itself, as GstCustomMeta readable from any language.
 *
 * Fields and types: docs/wire-format.md. Registered once, by plugin_init.
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define TL_TOKEN_META "GstTlTokenMeta"
#define TL_TEXT_META "GstTlTextMeta"

typedef struct
{
  guint64 prompt_id;
  guint index;                  /* of the buffer's first token in its reply */
  gboolean special;
  guint loops;
  const char *finish;           /* on the last token only */
  guint text_cut;               /* bytes at the end of the buffer's last token that belong to a stop string */
  gboolean measured;            /* what follows is known; not read by tl_token_meta_get() */
  double logprob, entropy;      /* sum and mean over the buffer's tokens */
  const GArray *top;            /* TlEngineAlternative: of the buffer's last token; or NULL */
} TlTokenInfo;

typedef struct
{
  guint64 prompt_id;
  guint first_index, last_index;
} TlTextInfo;

void tl_token_meta_register (void);
void tl_token_meta_add (GstBuffer *buffer, const TlTokenInfo *info);
gboolean tl_token_meta_get (GstBuffer *buffer, TlTokenInfo *info);
void tl_text_meta_add (GstBuffer *buffer, const TlTextInfo *info);
gboolean tl_text_meta_get (GstBuffer *buffer, TlTextInfo *info);

G_END_DECLS
