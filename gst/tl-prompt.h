/* gst/tl-prompt.h — what stands between a prompt buffer and the engine: model, conversation, settings; and the sequence
 * that a buffer carries when its prompt is through the model already. Used by tlprefill and tldecode.
 */
#pragma once

#include "tl-model-context.h"
#include "tl-properties.h"

G_BEGIN_DECLS

#define TL_SEQUENCE_META "GstTlSequenceMeta"

/* the element's model, loaded; waits for it */
GObject *tl_prompt_wait_model (TlModelHolder *holder, GCancellable *cancellable, GError **error);
/* the ids of a prompt; g_array_unref */
GArray *tl_prompt_ids (GstBuffer *prompt, GError **error);
/* conversations: id → conversation; options: of the prompt, or NULL. transfer none */
GObject *tl_prompt_conversation (GHashTable *conversations, GObject *model, const GstStructure *options, GError **error);
gboolean tl_prompt_keeps_history (GstTlHistory history, GObject *model, const GstStructure *options);
/* a copy of an element's config with the options of one prompt on top */
GObject *tl_prompt_config_new (GObject *config, const GstStructure *options);
/* a property of an element that is kept in its config; lists and enums have another type there */
void tl_prompt_config_set (GObject *config, const GValue *value, GParamSpec *pspec);
void tl_prompt_config_get (GObject *config, GValue *value, GParamSpec *pspec);

/* refused: static string, why there is no sequence, or NULL */
void tl_sequence_meta_add (GstBuffer *buffer, GObject *sequence, const char *refused);
/* transfer none; NULL and no reason: the buffer has no such meta */
GObject *tl_sequence_meta_get (GstBuffer *buffer, const char **refused);

G_END_DECLS
