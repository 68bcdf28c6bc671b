/* gst/tl-model-context.c — the weak table of open models, their loading threads, and the GstContext that shares them.
 *
 * The table is the one global of the plugin: it holds weak references only, keyed by file identity and device; an
 * entry being opened makes others wait, so two elements that start together load once. The state of a load hangs on
 * the model itself, so whoever gets the model by context can wait for it.
 */
#include "tl-model-context.h"
#include "tl-engine.h"
#include "tl-properties.h"

#include <glib/gstdio.h>

#define LOAD_KEY "gst-tl-load"

typedef enum { LOAD_IDLE, LOAD_RUNNING, LOAD_DONE, LOAD_FAILED } LoadState;

typedef struct
{
  GMutex lock;
  GCond changed;
  LoadState state;
  GError *error;
  guint users;                  /* holders; the last one cancels a running load */
  GCancellable *cancellable;
  GThread *thread;              /* the last load's, until somebody joins it */
} Load;

typedef struct
{
  GWeakRef model;
  gboolean opening;
} Entry;

static GMutex table_lock;
static GCond table_changed;
static GHashTable *table;       /* key → Entry, under table_lock */

/* ---- loading */

static void
load_free (Load *load)
{
  g_clear_error (&load->error);
  g_clear_pointer (&load->thread, g_thread_unref);
  g_object_unref (load->cancellable);
  g_mutex_clear (&load->lock);
  g_cond_clear (&load->changed);
  g_free (load);
}

static Load *
load_attach (GObject *model)
{
  Load *load = g_new0 (Load, 1);

  g_mutex_init (&load->lock);
  g_cond_init (&load->changed);
  load->cancellable = g_cancellable_new ();
  g_object_set_data_full (model, LOAD_KEY, load, (GDestroyNotify) load_free);
  return load;
}

static void
post_progress (GstElement *element, GstProgressType type, const char *text)
{
  gst_element_post_message (element, gst_message_new_progress (GST_OBJECT (element), type, "load-model", text));
}

static void
on_progress (guint percent, gpointer data)
{
  g_autofree char *text = g_strdup_printf ("Loading model: %u %%", percent);

  post_progress (data, GST_PROGRESS_TYPE_CONTINUE, text);
}

typedef struct
{
  GObject *model;
  GstElement *element;
} LoadJob;

static gpointer
load_thread (gpointer data)
{
  LoadJob *job = data;
  Load *load = g_object_get_data (job->model, LOAD_KEY);
  g_autoptr (GError) error = NULL;
  gboolean ok;

  post_progress (job->element, GST_PROGRESS_TYPE_START, "Loading model");
  ok = tl_engine_model_load (job->model, on_progress, job->element, load->cancellable, &error);
  if (ok)
    post_progress (job->element, GST_PROGRESS_TYPE_COMPLETE, "Model loaded");
  else if (g_cancellable_is_cancelled (load->cancellable))
    post_progress (job->element, GST_PROGRESS_TYPE_CANCELED, "Loading the model was cancelled");
  else {
    post_progress (job->element, GST_PROGRESS_TYPE_ERROR, error->message);
    GST_ELEMENT_ERROR (job->element, RESOURCE, READ, ("%s", error->message), (NULL));
  }

  g_mutex_lock (&load->lock);
  load->state = ok ? LOAD_DONE : LOAD_FAILED;
  load->error = g_steal_pointer (&error);
  g_cond_broadcast (&load->changed);
  g_mutex_unlock (&load->lock);

  g_object_unref (job->model);
  gst_object_unref (job->element);
  g_free (job);
  return NULL;
}

/* counts the element in and starts the load unless it runs or is done */
static void
load_use (GObject *model, GstElement *element)
{
  Load *load = g_object_get_data (model, LOAD_KEY);

  if (!load)                    /* an application's own model: loaded */
    return;
  g_mutex_lock (&load->lock);
  load->users++;
  while (load->state == LOAD_RUNNING && g_cancellable_is_cancelled (load->cancellable))
    g_cond_wait (&load->changed, &load->lock);
  if (load->state == LOAD_IDLE || load->state == LOAD_FAILED) {
    LoadJob *job = g_new (LoadJob, 1);

    *job = (LoadJob) { g_object_ref (model), gst_object_ref (element) };
    g_clear_error (&load->error);
    g_clear_pointer (&load->thread, g_thread_unref);
    g_cancellable_reset (load->cancellable);
    load->state = LOAD_RUNNING;
    load->thread = g_thread_new ("tl-load", load_thread, job);
  }
  g_mutex_unlock (&load->lock);
}

/* counts the element out; the last one ends a running load and waits for its thread */
static void
load_leave (GObject *model)
{
  Load *load = g_object_get_data (model, LOAD_KEY);

  if (!load)
    return;
  g_mutex_lock (&load->lock);
  GThread *thread = --load->users == 0 ? g_steal_pointer (&load->thread) : NULL;
  if (thread && load->state == LOAD_RUNNING)
    g_cancellable_cancel (load->cancellable);
  g_mutex_unlock (&load->lock);
  if (thread)
    g_thread_join (thread);
}

static void
on_wait_cancelled (GCancellable *cancellable, Load *load)
{
  g_mutex_lock (&load->lock);
  g_cond_broadcast (&load->changed);
  g_mutex_unlock (&load->lock);
}

/* until the model is loaded; FALSE with CANCELLED (G_IO_ERROR) or the load's error */
gboolean
tl_model_holder_wait (TlModelHolder *holder, GCancellable *cancellable, GError **error)
{
  g_autoptr (GObject) model = tl_model_holder_get (holder);
  Load *load = model ? g_object_get_data (model, LOAD_KEY) : NULL;
  gboolean ok;

  if (!load)
    return TRUE;
  gulong id = g_cancellable_connect (cancellable, G_CALLBACK (on_wait_cancelled), load, NULL);
  g_mutex_lock (&load->lock);
  while (load->state == LOAD_RUNNING && !g_cancellable_is_cancelled (cancellable))
    g_cond_wait (&load->changed, &load->lock);
  ok = load->state == LOAD_DONE;
  if (load->state == LOAD_FAILED && load->error)
    g_propagate_error (error, g_error_copy (load->error));
  else if (!ok)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "waiting for the model was cancelled");
  g_mutex_unlock (&load->lock);
  g_cancellable_disconnect (cancellable, id);
  return ok;
}

/* ---- the weak table */

static void
entry_free (Entry *entry)
{
  g_weak_ref_clear (&entry->model);
  g_free (entry);
}

static char *
table_key (const char *path, const char *device, guint64 max_cache_bytes)
{
  GStatBuf st;

  if (g_stat (path, &st) != 0)
    return g_strdup_printf ("%s|%s|%" G_GUINT64_FORMAT, path, device, max_cache_bytes);
  return g_strdup_printf ("%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT ":%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT ".%ld|%s|%"
      G_GUINT64_FORMAT,
      (guint64) st.st_dev, (guint64) st.st_ino, (gint64) st.st_size, (gint64) st.st_mtime, (long) st.st_mtim.tv_nsec,
      device, max_cache_bytes);
}

static GObject *
table_open (const char *path, const char *device, guint64 max_cache_bytes, GError **error)
{
  g_autofree char *key = table_key (path, device, max_cache_bytes);
  GObject *model;
  Entry *entry;

  g_mutex_lock (&table_lock);
  if (!table)
    table = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) entry_free);
  entry = g_hash_table_lookup (table, key);
  if (!entry) {
    entry = g_new0 (Entry, 1);
    g_weak_ref_init (&entry->model, NULL);
    g_hash_table_insert (table, g_strdup (key), entry);
  }
  while (entry->opening)
    g_cond_wait (&table_changed, &table_lock);
  model = g_weak_ref_get (&entry->model);
  if (!model) {
    entry->opening = TRUE;
    g_mutex_unlock (&table_lock);
    model = tl_engine_model_open (path, device, max_cache_bytes, error);
    if (model)
      load_attach (model);
    g_mutex_lock (&table_lock);
    g_weak_ref_set (&entry->model, model);
    entry->opening = FALSE;
    g_cond_broadcast (&table_changed);
  }
  g_mutex_unlock (&table_lock);
  return model;
}

/* ---- the holder */

void
tl_model_holder_init (TlModelHolder *holder, GstElement *element)
{
  g_mutex_init (&holder->lock);
  holder->element = element;
  holder->device = g_strdup ("auto");
}

void
tl_model_holder_clear (TlModelHolder *holder)
{
  g_clear_object (&holder->given);
  g_clear_object (&holder->model);
  g_clear_pointer (&holder->path, g_free);
  g_clear_pointer (&holder->device, g_free);
  g_mutex_clear (&holder->lock);
}

/* takes @model over; FALSE when there was one already */
static void
holder_adopt (TlModelHolder *holder, GObject *model)
{
  gboolean taken;

  g_mutex_lock (&holder->lock);
  taken = holder->model == NULL;
  if (taken)
    holder->model = g_object_ref (model);
  g_mutex_unlock (&holder->lock);
  if (taken)
    load_use (model, holder->element);
}

/* not persistent: element and bin forget it in NULL, and with it the model */
static GstContext *
context_new (GObject *model)
{
  GstContext *context = gst_context_new (TL_MODEL_CONTEXT, FALSE);

  gst_structure_set (gst_context_writable_structure (context), "model", G_TYPE_OBJECT, model, NULL);
  return context;
}

/* NULL→READY: opens what the element itself names; nothing named is no error */
gboolean
tl_model_holder_open (TlModelHolder *holder)
{
  g_autoptr (GObject) model = NULL;
  g_autoptr (GError) error = NULL;

  g_mutex_lock (&holder->lock);
  g_autofree char *path = g_strdup (holder->path), *device = g_strdup (holder->device);
  guint64 max_cache_bytes = holder->max_cache_bytes;
  if (holder->given)
    model = g_object_ref (holder->given);
  g_mutex_unlock (&holder->lock);
  if (!model && !path)
    return TRUE;
  if (!model && !(model = table_open (path, device, max_cache_bytes, &error))) {
    GST_ELEMENT_ERROR (holder->element, RESOURCE, OPEN_READ, ("%s", error->message), ("model-path=%s", path));
    return FALSE;
  }
  holder_adopt (holder, model);

  GstContext *context = context_new (model);
  gst_element_set_context (holder->element, context);
  gst_element_post_message (holder->element, gst_message_new_have_context (GST_OBJECT (holder->element), context));
  return TRUE;
}

static gboolean
ask_peer (const GValue *item, GValue *result, gpointer query)
{
  GstPad *pad = g_value_get_object (item);

  if (!gst_pad_peer_query (pad, query))
    return TRUE;
  g_value_set_boolean (result, TRUE);
  return FALSE;
}

static gboolean
ask_peers (GstElement *element, GstIterator *pads, GstQuery *query)
{
  GValue found = G_VALUE_INIT;
  gboolean answered;

  g_value_init (&found, G_TYPE_BOOLEAN);
  while (gst_iterator_fold (pads, ask_peer, &found, query) == GST_ITERATOR_RESYNC)
    gst_iterator_resync (pads);
  gst_iterator_free (pads);
  answered = g_value_get_boolean (&found);
  g_value_unset (&found);
  return answered;
}

/* the model in use, without looking for one; transfer full */
GObject *
tl_model_holder_get (TlModelHolder *holder)
{
  g_mutex_lock (&holder->lock);
  GObject *model = holder->model ? g_object_ref (holder->model) : NULL;
  g_mutex_unlock (&holder->lock);
  return model;
}

/* the model, looked for in peers and application when there is none yet; transfer full, NULL without message */
GObject *
tl_model_holder_find (TlModelHolder *holder)
{
  GObject *model = NULL;

  for (int attempt = 0; attempt < 3; attempt++) {
    model = tl_model_holder_get (holder);
    if (model || attempt == 2)
      return model;
    if (attempt == 0) {
      g_autoptr (GstQuery) query = gst_query_new_context (TL_MODEL_CONTEXT);
      GstContext *context = NULL;

      if (ask_peers (holder->element, gst_element_iterate_sink_pads (holder->element), query)
          || ask_peers (holder->element, gst_element_iterate_src_pads (holder->element), query))
        gst_query_parse_context (query, &context);
      if (context)
        gst_element_set_context (holder->element, context);
    } else
      gst_element_post_message (holder->element,
          gst_message_new_need_context (GST_OBJECT (holder->element), TL_MODEL_CONTEXT));
  }
  return model;
}

/* as find, but the lack of a model is an element error */
GObject *
tl_model_holder_require (TlModelHolder *holder)
{
  GObject *model = tl_model_holder_find (holder);

  if (!model)
    GST_ELEMENT_ERROR (holder->element, RESOURCE, NOT_FOUND,
        ("%s: no model; set model-path on it or on an element before it", GST_ELEMENT_NAME (holder->element)), (NULL));
  return model;
}

void
tl_model_holder_release (TlModelHolder *holder)
{
  g_mutex_lock (&holder->lock);
  g_autoptr (GObject) model = g_steal_pointer (&holder->model);
  g_mutex_unlock (&holder->lock);

  if (!model)
    return;
  load_leave (model);
}

/* answers a CONTEXT query with the model in use */
gboolean
tl_model_holder_answer (TlModelHolder *holder, GstQuery *query)
{
  const char *type;

  if (GST_QUERY_TYPE (query) != GST_QUERY_CONTEXT || !gst_query_parse_context_type (query, &type)
      || g_strcmp0 (type, TL_MODEL_CONTEXT) != 0)
    return FALSE;
  g_autoptr (GObject) model = tl_model_holder_get (holder);
  if (!model)
    return FALSE;
  g_autoptr (GstContext) context = context_new (model);
  gst_query_set_context (query, context);
  return TRUE;
}

/* an element that names no model of its own takes the one offered */
void
tl_model_holder_set_context (TlModelHolder *holder, GstContext *context)
{
  g_autoptr (GObject) model = NULL;

  if (!context || !gst_context_has_context_type (context, TL_MODEL_CONTEXT))
    return;
  gst_structure_get (gst_context_get_structure (context), "model", G_TYPE_OBJECT, &model, NULL);
  g_mutex_lock (&holder->lock);
  gboolean wants = model && !holder->path && !holder->given && GST_STATE (holder->element) > GST_STATE_NULL;
  wants = wants || (model && !holder->path && !holder->given && GST_STATE_PENDING (holder->element) > GST_STATE_NULL);
  g_mutex_unlock (&holder->lock);
  if (wants)
    holder_adopt (holder, model);
}

static gboolean
is_ours (guint id)
{
  return id == TL_PROP_MODEL_PATH || id == TL_PROP_MODEL || id == TL_PROP_DEVICE || id == TL_PROP_MAX_CACHE_BYTES;
}

/* the properties every element with a model has; FALSE: not one of them */
gboolean
tl_model_holder_set_property (TlModelHolder *holder, guint id, const GValue *value)
{
  g_mutex_lock (&holder->lock);
  if (id == TL_PROP_MODEL_PATH) {
    g_free (holder->path);
    holder->path = g_value_dup_string (value);
  } else if (id == TL_PROP_DEVICE) {
    g_free (holder->device);
    holder->device = g_strdup (g_value_get_string (value) ? g_value_get_string (value) : "auto");
  } else if (id == TL_PROP_MODEL)
    g_set_object (&holder->given, g_value_get_object (value));
  else if (id == TL_PROP_MAX_CACHE_BYTES)
    holder->max_cache_bytes = g_value_get_uint64 (value);
  g_mutex_unlock (&holder->lock);
  return is_ours (id);
}

gboolean
tl_model_holder_get_property (TlModelHolder *holder, guint id, GValue *value)
{
  g_mutex_lock (&holder->lock);
  if (id == TL_PROP_MODEL_PATH)
    g_value_set_string (value, holder->path);
  else if (id == TL_PROP_DEVICE)
    g_value_set_string (value, holder->device);
  else if (id == TL_PROP_MODEL)
    g_value_set_object (value, holder->given ? holder->given : holder->model);
  else if (id == TL_PROP_MAX_CACHE_BYTES)
    g_value_set_uint64 (value, holder->max_cache_bytes);
  g_mutex_unlock (&holder->lock);
  return is_ours (id);
}
