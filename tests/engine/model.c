/* tests/engine/model.c — TlModel: loading, closing, devices, and requests from several threads. */
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "cache/tl-pass.h"
#include "cpu/tl-backend-cpu.h"
#include "tiny-model.h"
#include "tl-model.h"

static const TinyModel tiny = { "tiny", TL_F32, TL_OFFSET_NONE, TL_F32, 0, 64, 16, 4, 2, 96, 40, 256 };

typedef struct { char *path; guint32 ids[24]; GBytes *prompt; } Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->path = tiny_model_write (&tiny);
  for (guint i = 0; i < G_N_ELEMENTS (f->ids); i++)
    f->ids[i] = tiny_model_id (&tiny, i);
  f->prompt = g_bytes_new_static (f->ids, sizeof f->ids);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  g_bytes_unref (f->prompt);
  g_unlink (f->path);
  g_free (f->path);
}

static TlModel *
loaded (Fixture *f, const char *device)
{
  g_autoptr (GError) error = NULL;
  TlModel *model = g_object_new (TL_TYPE_MODEL, "path", f->path, "device", device, NULL);
  tl_model_load (model, NULL, &error);
  g_assert_no_error (error);
  return model;
}

static TlTensor *
score (TlModel *model, Fixture *f, const char *property, int value)
{
  g_autoptr (TlGenerateConfig) config = tl_generate_config_new ();
  g_autoptr (GError) error = NULL;
  if (property)
    g_object_set (config, property, value, NULL);
  TlTensor *out = tl_model_score_bytes (model, f->prompt, config, NULL, &error);
  g_assert_no_error (error);
  return out;
}

/* --- life --- */

static void
note_progress (TlModel *model, GParamSpec *pspec, gpointer data)
{
  guint percent;
  g_object_get (model, "load-progress", &percent, NULL);
  g_array_append_val (data, percent);
}

typedef struct { GMainLoop *loop; gboolean ok; GError *error; } Done;

static void
on_loaded (GObject *source, GAsyncResult *result, gpointer data)
{
  Done *done = data;
  done->ok = tl_model_load_finish (TL_MODEL (source), result, &done->error);
  g_main_loop_quit (done->loop);
}

static Done
load_async (TlModel *model, GCancellable *cancellable)
{
  Done done = { g_main_loop_new (NULL, FALSE) };
  tl_model_load_async (model, cancellable, on_loaded, &done);
  g_main_loop_run (done.loop);
  g_main_loop_unref (done.loop);
  return done;
}

static void
an_asynchronous_load_reports_rising_progress_up_to_100 (Fixture *f, gconstpointer data)
{
  g_autoptr (TlModel) model = tl_model_new (f->path);
  g_autoptr (GArray) seen = g_array_new (FALSE, FALSE, sizeof (guint));
  g_signal_connect (model, "notify::load-progress", G_CALLBACK (note_progress), seen);
  Done done = load_async (model, NULL);
  g_assert_no_error (done.error);
  g_assert_true (done.ok && tl_model_is_loaded (model));
  g_assert_cmpuint (seen->len, >=, 3);
  for (guint i = 1; i < seen->len; i++)
    g_assert_cmpuint (g_array_index (seen, guint, i), >, g_array_index (seen, guint, i - 1));
  g_assert_cmpuint (g_array_index (seen, guint, seen->len - 1), ==, 100);
}

static void
a_cancelled_load_can_be_tried_again (Fixture *f, gconstpointer data)
{
  g_autoptr (TlModel) model = tl_model_new (f->path);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_cancellable_cancel (cancellable);
  Done done = load_async (model, cancellable);
  g_assert_error (done.error, TL_ERROR, TL_ERROR_CANCELLED);
  g_clear_error (&done.error);
  g_assert_false (done.ok || tl_model_is_loaded (model));
  done = load_async (model, NULL);
  g_assert_no_error (done.error);
  g_assert_true (tl_model_is_loaded (model));
}

static void
a_missing_file_is_named (Fixture *f, gconstpointer data)
{
  g_autoptr (TlModel) model = tl_model_new ("/nowhere/at-all.tinyloop");
  g_autoptr (GError) error = NULL;
  g_assert_false (tl_model_load (model, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_BAD_FILE);
  g_assert_nonnull (strstr (error->message, "at-all.tinyloop"));
}

static void
memory_grows_with_a_sequence_and_goes_with_the_model (Fixture *f, gconstpointer data)
{
  g_autoptr (TlModel) model = tl_model_new (f->path);
  g_autoptr (GError) error = NULL;
  g_assert_cmpuint (tl_model_get_memory_usage (model), ==, 0);
  g_assert_true (tl_model_load (model, NULL, &error));
  guint64 weights = tl_model_get_memory_usage (model);
  g_assert_cmpuint (weights, >=, tl_model_get_weight_bytes (model, 1));
  g_autoptr (TlGenerator) generator = tl_model_begin (model, f->prompt, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (tl_generator_step (generator, NULL, NULL, &error), !=, TL_STEP_ERROR);
  g_assert_cmpuint (tl_model_get_memory_usage (model), >, weights);
  g_clear_object (&generator);
  g_assert_cmpuint (tl_model_get_memory_usage (model), ==, weights);
  tl_model_close (model);
  g_assert_cmpuint (tl_model_get_memory_usage (model), ==, 0);
}

static void
a_closed_model_ends_what_runs_and_refuses_more (Fixture *f, gconstpointer data)
{
  g_autoptr (TlModel) model = loaded (f, "cpu");
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGenerator) generator = tl_model_begin (model, f->prompt, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (tl_generator_step (generator, NULL, NULL, &error), !=, TL_STEP_ERROR);
  tl_model_close (model);
  tl_model_close (model);
  g_assert_true (tl_model_is_closed (model));
  g_assert_cmpint (tl_generator_step (generator, NULL, NULL, &error), ==, TL_STEP_ERROR);
  g_assert_error (error, TL_ERROR, TL_ERROR_CLOSED);
  g_clear_error (&error);
  g_assert_null (tl_model_begin (model, f->prompt, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_CLOSED);
  g_clear_error (&error);
  g_assert_null (tl_model_score_bytes (model, f->prompt, NULL, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_CLOSED);
}

/* --- devices and limits --- */

static void
the_reference_device_gives_the_cpus_logits_and_tokens (Fixture *f, gconstpointer data)
{
  g_autoptr (TlModel) cpu = loaded (f, "cpu"), reference = loaded (f, "reference");
  static const TlKvPrecision modes[] = { TL_KV_PRECISION_FP32, TL_KV_PRECISION_FP16 };
  for (guint m = 0; m < G_N_ELEMENTS (modes); m++)
    {
      g_autoptr (TlTensor) a = score (cpu, f, "kv-mode", modes[m]), b = score (reference, f, "kv-mode", modes[m]);
      const float *x = tl_tensor_get_data (a), *y = tl_tensor_get_data (b);
      for (gsize i = 0; i < G_N_ELEMENTS (f->ids) * tiny.vocab_size; i++)
        g_assert_cmpfloat_with_epsilon (x[i], y[i], m ? 5e-3 : 2e-4);
    }
  g_autoptr (TlGenerateConfig) config = g_object_new (TL_TYPE_GENERATE_CONFIG, "max-tokens", 6, "temperature", 0.8,
    "kv-mode", TL_KV_PRECISION_FP32, "cache-window", 9, "ignore-eos", TRUE, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (TlGeneration) one = tl_model_generate_bytes (cpu, f->prompt, config, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (TlGeneration) two = tl_model_generate_bytes (reference, f->prompt, config, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (tl_generation_get_tokens_bytes (one), tl_generation_get_tokens_bytes (two)));
}

static void
a_head_too_wide_is_refused_by_name (Fixture *f, gconstpointer data)
{
  TinyModel wide = tiny;
  wide.head_dim = 520;
  g_autofree char *path = tiny_model_write (&wide);
  g_autoptr (TlModel) model = tl_model_new (path);
  g_autoptr (GError) error = NULL;
  g_assert_false (tl_model_load (model, NULL, &error));
  g_assert_error (error, TL_ERROR, TL_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "dims.head_dim = more than 512"));
  g_unlink (path);
}

/* --- the cache switched off --- */

static guint rows_of_last_run;

static gboolean
counting_run (TlBackend *backend, TlBatch *batch, TlStages stages, guint max_loops, GCancellable *cancellable,
  GError **error)
{
  rows_of_last_run = batch->n_rows;
  return tl_backend_cpu_class ()->run (backend, batch, stages, max_loops, cancellable, error);
}

/* one more token after the prompt: how many rows went through the backend, and the logits */
static guint
rows_for_one_more_token (Fixture *f, float *logits)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (f->path, &error);
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, &error);
  g_autoptr (TlProgram) program = tl_program_new (weights, &error);
  g_autoptr (TlBackend) backend = tl_backend_prepare (tl_backend_cpu_class (), program, NULL, &error);
  g_assert_no_error (error);
  TlBackendClass counting = *backend->klass;
  counting.run = counting_run;
  backend->klass = &counting;
  g_autoptr (TlKvStore) store = tl_kv_store_new (backend, 0);
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (store, TL_KV_FP16, 0);
  TlPassOptions o = { .deliver = TL_DELIVER_LAST, .logits = logits };
  g_assert_true (tl_pass_run (backend, seq, f->ids, 20, &o, NULL, &error));
  g_assert_true (tl_pass_run (backend, seq, f->ids + 20, 1, &o, NULL, &error));
  g_assert_no_error (error);
  return rows_of_last_run;
}

static void
the_switch_recomputes_every_row_to_the_same_bits (Fixture *f, gconstpointer data)
{
  float cached[40], uncached[40];
  g_assert_cmpuint (rows_for_one_more_token (f, cached), ==, 1);
  g_setenv ("TINYLOOP_DISABLE_KV_CACHE", "1", TRUE);
  g_assert_cmpuint (rows_for_one_more_token (f, uncached), ==, 21);
  g_unsetenv ("TINYLOOP_DISABLE_KV_CACHE");
  g_assert_cmpmem (cached, sizeof cached, uncached, sizeof uncached);
}

/* --- threads --- */

typedef struct { TlModel *model; Fixture *f; TlTensor *want; GBytes *tokens; gboolean generates; } Request;

static gpointer
ask_again_and_again (gpointer data)
{
  Request *r = data;
  gsize size = G_N_ELEMENTS (r->f->ids) * tiny.vocab_size * sizeof (float);
  for (guint i = 0; i < 12; i++)
    if (r->generates)
      {
        g_autoptr (TlGeneration) got = tl_model_generate_bytes (r->model, r->f->prompt, NULL, NULL, NULL);
        g_assert_true (g_bytes_equal (tl_generation_get_tokens_bytes (got), r->tokens));
      }
    else
      {
        g_autoptr (TlTensor) got = score (r->model, r->f, NULL, 0);
        g_assert_cmpmem (tl_tensor_get_data (got), size, tl_tensor_get_data (r->want), size);
      }
  return NULL;
}

static void
requests_of_many_threads_do_not_disturb_each_other (Fixture *f, gconstpointer data)
{
  g_autoptr (TlModel) model = loaded (f, "cpu");
  g_autoptr (TlTensor) want = score (model, f, NULL, 0);
  g_autoptr (TlGeneration) tokens = tl_model_generate_bytes (model, f->prompt, NULL, NULL, NULL);
  GThread *threads[4];
  Request requests[4];
  for (guint i = 0; i < 4; i++)
    {
      requests[i] = (Request) { model, f, want, tl_generation_get_tokens_bytes (tokens), i % 2 };
      threads[i] = g_thread_new ("asks", ask_again_and_again, &requests[i]);
    }
  for (guint i = 0; i < 4; i++)
    g_thread_join (threads[i]);
}

int
main (int argc, char **argv)
{
  static const struct { const char *name; void (*test) (Fixture *, gconstpointer); } tests[] = {
    { "load-async", an_asynchronous_load_reports_rising_progress_up_to_100 },
    { "load-cancelled", a_cancelled_load_can_be_tried_again },
    { "load-missing", a_missing_file_is_named },
    { "memory", memory_grows_with_a_sequence_and_goes_with_the_model },
    { "close", a_closed_model_ends_what_runs_and_refuses_more },
    { "reference", the_reference_device_gives_the_cpus_logits_and_tokens },
    { "head-dim", a_head_too_wide_is_refused_by_name },
    { "cache-disabled", the_switch_recomputes_every_row_to_the_same_bits },
    { "threads", requests_of_many_threads_do_not_disturb_each_other },
  };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      g_autofree char *path = g_strdup_printf ("/engine/model/%s", tests[i].name);
      g_test_add (path, Fixture, NULL, set_up, tests[i].test, tear_down);
    }
  return g_test_run ();
}
