/* tests/glib-sync.c — tells the thread sanitizer what orders threads inside GLib, which is not instrumented itself.
 *
 * Linked into the tests of a build with -Db_sanitize=thread: GLib's functions of the same names, each announced to the sanitizer
 * and passed on. What is left of GLib's own is named at the end. Run such tests with G_SLICE=always-malloc: blocks that its
 * allocator hands from thread to thread look like races.
 */
#pragma GCC visibility push (default)

#include <dlfcn.h>
#include <gio/gio.h>
#include <sanitizer/tsan_interface.h>

#define NEXT(name) ((__typeof__ (&name)) dlsym (RTLD_NEXT, #name))

void
g_mutex_lock (GMutex *mutex)
{
  NEXT (g_mutex_lock) (mutex);
  __tsan_acquire (mutex);
}

gboolean
g_mutex_trylock (GMutex *mutex)
{
  gboolean locked = NEXT (g_mutex_trylock) (mutex);
  if (locked)
    __tsan_acquire (mutex);
  return locked;
}

void
g_mutex_unlock (GMutex *mutex)
{
  __tsan_release (mutex);
  NEXT (g_mutex_unlock) (mutex);
}

void
g_cond_wait (GCond *cond, GMutex *mutex)
{
  __tsan_release (mutex);
  NEXT (g_cond_wait) (cond, mutex);
  __tsan_acquire (mutex);
}

gboolean
(g_once_init_enter) (volatile void *location)
{
  gboolean first = NEXT (g_once_init_enter) (location);
  if (!first)
    __tsan_acquire ((void *) location);
  return first;
}

void
(g_once_init_leave) (volatile void *location, gsize result)
{
  __tsan_release ((void *) location);
  NEXT (g_once_init_leave) (location, result);
}

/* the last reference is dropped after every other one */
void
g_object_unref (gpointer object)
{
  __tsan_release (object);
  __tsan_acquire (object);
  NEXT (g_object_unref) (object);
}

static void
run_task (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  __tsan_acquire (task);
  GTaskThreadFunc function = (GTaskThreadFunc) g_object_get_data (G_OBJECT (task), "function");
  function (task, source, data, cancellable);
}

void
g_task_run_in_thread (GTask *task, GTaskThreadFunc function)
{
  g_object_set_data (G_OBJECT (task), "function", (gpointer) function);
  __tsan_release (task);
  NEXT (g_task_run_in_thread) (task, run_task);
}

void
g_task_return_boolean (GTask *task, gboolean result)
{
  __tsan_release (task);
  NEXT (g_task_return_boolean) (task, result);
}

void
g_task_return_error (GTask *task, GError *error)
{
  __tsan_release (task);
  NEXT (g_task_return_error) (task, error);
}

gboolean
g_task_propagate_boolean (GTask *task, GError **error)
{
  __tsan_acquire (task);
  return NEXT (g_task_propagate_boolean) (task, error);
}

/* the queue of its thread pools */
const char *__tsan_default_suppressions (void);

const char *
__tsan_default_suppressions (void)
{
  return "race:g_queue_pop_tail\n";
}
