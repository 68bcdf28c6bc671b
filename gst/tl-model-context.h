/* gst/tl-model-context.h — how an element comes to its model: own property, a peer's context, the application's.
 *
 * Every element embeds a TlModelHolder. open in NULL→READY, find in READY→PAUSED, release in READY→NULL.
 * One file is loaded once per process however many elements and pipelines name it (weak table).
 */
#pragma once

#include <gio/gio.h>
#include <gst/gst.h>

G_BEGIN_DECLS

#define TL_MODEL_CONTEXT "gst.tinyloop.model"

typedef struct
{
  GstElement *element;          /* not owned */
  GMutex lock;                  /* of everything below */
  char *path, *device;
  guint64 max_cache_bytes;
  GObject *given;               /* property `model` */
  GObject *model;               /* in use, or NULL */
} TlModelHolder;

void tl_model_holder_init (TlModelHolder *holder, GstElement *element);
void tl_model_holder_clear (TlModelHolder *holder);
gboolean tl_model_holder_open (TlModelHolder *holder);
GObject *tl_model_holder_get (TlModelHolder *holder);
GObject *tl_model_holder_find (TlModelHolder *holder);
GObject *tl_model_holder_require (TlModelHolder *holder);
gboolean tl_model_holder_wait (TlModelHolder *holder, GCancellable *cancellable, GError **error);
void tl_model_holder_release (TlModelHolder *holder);
gboolean tl_model_holder_answer (TlModelHolder *holder, GstQuery *query);
gboolean tl_model_holder_set_property (TlModelHolder *holder, guint id, const GValue *value);
gboolean tl_model_holder_get_property (TlModelHolder *holder, guint id, GValue *value);
void tl_model_holder_set_context (TlModelHolder *holder, GstContext *context);

G_END_DECLS
