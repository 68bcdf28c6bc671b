/* tests/decode/scheduler.c — jobs of many threads on one backend: the bits of lone runs, who goes with whom, who goes first. */
#include <glib/gstdio.h>
#include <string.h>

#include "cpu/tl-backend-cpu.h"
#include "decode/tl-peers.h"
#include "decode/tl-scheduler.h"
#include "tiny-model.h"

static const TinyModel tiny = { "streams", TL_INT8, TL_OFFSET_NONE, TL_F16, 32, 64, 16, 4, 2, 96, 61, 512 };

typedef struct
{
  TlBackendClass klass;         /* the CPU's, watched */
  TlBackend *backend;
  TlKvStore *store;
  TlScheduler *scheduler;

  GMutex lock;                  /* guards what follows */
  GCond changed;
  gboolean held;                /* passes wait in front of the backend */
  guint n_held, n_entries;
  guint poison;                 /* a row with this token is not finite */
  GArray *passes;               /* guint: rows of each entry that runs pre */
  GArray *tokens;               /* guint32: their tokens */
} Fixture;

static Fixture *fixture;        /* of the test that runs */

static gboolean
watched_run (TlBackend *backend, TlBatch *batch, TlStages stages, guint max_loops, GCancellable *cancellable, GError **error)
{
  Fixture *f = fixture;
  g_mutex_lock (&f->lock);
  f->n_entries++;
  f->n_held++;
  g_cond_broadcast (&f->changed);
  while (f->held)
    g_cond_wait (&f->changed, &f->lock);
  f->n_held--;
  if (stages & TL_STAGE_PRE)
    g_array_append_val (f->passes, batch->n_rows);
  for (guint r = 0; (stages & TL_STAGE_PRE) && r < batch->n_rows; r++)
    g_array_append_val (f->tokens, batch->rows[r].token);
  g_mutex_unlock (&f->lock);
  gboolean ok = tl_backend_cpu_class ()->run (backend, batch, stages, max_loops, cancellable, error);
  for (guint r = 0; r < batch->n_rows; r++)
    if (batch->rows[r].token == f->poison && batch->rows[r].fate == TL_ROW_GOOD)
      batch->rows[r].fate = TL_ROW_NOT_FINITE;
  return ok;
}

static void
set_up (Fixture *f, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = tiny_model_write (&tiny);
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (path, &error);
  g_autoptr (TlWeights) weights = checkpoint ? tl_weights_new (checkpoint, &error) : NULL;
  g_autoptr (TlProgram) program = weights ? tl_program_new (weights, &error) : NULL;
  TlBackendOptions options = { .threads = 2 };
  fixture = f;
  f->backend = program ? tl_backend_prepare (tl_backend_cpu_class (), program, &options, &error) : NULL;
  g_assert_no_error (error);
  f->klass = *f->backend->klass;
  f->klass.run = watched_run;
  f->backend->klass = &f->klass;
  f->store = tl_kv_store_new (f->backend, 0);
  f->scheduler = tl_scheduler_new (f->backend);
  f->poison = G_MAXUINT;
  f->passes = g_array_new (FALSE, FALSE, sizeof (guint));
  f->tokens = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_remove (path);
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  g_assert_cmpuint (tl_kv_store_used_bytes (f->store), ==, 0);
  tl_scheduler_free (f->scheduler);
  tl_kv_store_unref (f->store);
  tl_backend_free (f->backend);
  g_array_unref (f->passes);
  g_array_unref (f->tokens);
}

/* --- streams of every kind, alone and together --- */

#define STEPS 14
#define STREAMS 12

typedef struct
{
  guint number, prompt, loops, window, draft;   /* draft: loops before a row is resumed, 0 = not */
  TlKvMode mode;
  gboolean exits, cancels;
  int priority;
} Stream;

typedef struct { Fixture *f; Stream stream; char *hash; } Play;

static Stream
stream_of (guint i)
{
  return (Stream) { .number = i, .prompt = 3 + 23 * (i % 5), .loops = 1 + i % 4, .window = i % 3 == 1 ? 20 : 0,
    .draft = i % 4 == 3 ? 2 : 0, .mode = i % 5 == 2 ? TL_KV_FP32 : i % 5 == 4 ? TL_KV_INT8 : TL_KV_FP16,
    .exits = i % 4 == 2, .cancels = i % 3 == 0, .priority = i % 2 };
}

static guint32
argmax (const float *logits)
{
  guint32 best = 0;
  for (guint i = 1; i < tiny.vocab_size; i++)
    if (logits[i] > logits[best])
      best = i;
  return best;
}

/* a job that somebody cancels, at once or while it runs, changes nothing */
static gpointer
cancel (gpointer data)
{
  g_thread_yield ();
  g_cancellable_cancel (data);
  return NULL;
}

static gboolean
run_and_cancel (Fixture *f, const TlJob *job)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  GThread *other = g_thread_new ("cancel", cancel, cancellable);
  gboolean ok = tl_scheduler_run (f->scheduler, job, cancellable, &error);
  g_thread_join (other);
  if (!ok)
    g_assert_error (error, TL_ERROR, TL_ERROR_CANCELLED);
  return ok;
}

static void
run_job (Play *play, TlJob *job, GChecksum *hash)
{
  g_autoptr (GError) error = NULL;
  TlKvSequence *seq = job->rows[0].sequence;
  guint length = tl_kv_sequence_length (seq);
  gboolean done = FALSE;
  if (play->stream.cancels && job->rows[0].depth == 0)
    done = run_and_cancel (play->f, job);
  g_assert_cmpuint (tl_kv_sequence_length (seq), ==, done ? length + job->n_rows : length);
  if (!done)
    tl_scheduler_run (play->f->scheduler, job, NULL, &error);
  g_assert_no_error (error);
}

static gpointer
play_stream (gpointer data)
{
  Play *play = data;
  const Stream *s = &play->stream;
  g_autoptr (TlKvSequence) seq = tl_kv_sequence_new (play->f->store, s->mode, s->window);
  g_autoptr (GChecksum) hash = g_checksum_new (G_CHECKSUM_SHA256);
  g_autofree float *logits = g_new (float, tiny.vocab_size);
  g_autofree TlPassRow *rows = g_new0 (TlPassRow, s->prompt);
  TlStates *states = tl_backend_states_new (play->f->backend, s->prompt, NULL);
  TlExitRule rule = { .criterion = tl_exit_find_criterion ("hidden-l2"), .patience = 1, .min_loops = 1, .peek_every = 1,
    .threshold = 0.9f };
  for (guint step = 0; step < STEPS; step++)
    {
      guint n = step == 0 ? s->prompt : 1, length = tl_kv_sequence_length (seq), depth = 0;
      for (guint i = 0; i < n; i++)
        rows[i] = (TlPassRow) { .sequence = seq, .position = length + i, .stop = s->loops, .slot = i,
          .token = step == 0 ? tiny_model_id (&tiny, s->number * 100 + i) : argmax (logits),
          .logits = i + 1 == n ? logits : NULL };
      TlJob job = { .rows = rows, .n_rows = n, .states = states, .priority = s->priority };
      if (s->draft && step > 0)
        rows[0].stop = s->draft;
      if (s->exits && step > 0)
        {
          job.exit = &rule;
          job.depths = &depth;
        }
      run_job (play, &job, hash);
      if (s->draft && step > 0)
        {
          rows[0].depth = s->draft;
          rows[0].stop = s->loops;
          run_job (play, &job, hash);
        }
      depth = tl_kv_sequence_depth (seq, length + n - 1);
      g_checksum_update (hash, (guchar *) logits, tiny.vocab_size * sizeof (float));
      g_checksum_update (hash, (guchar *) &depth, sizeof depth);
    }
  tl_backend_states_free (play->f->backend, states);
  play->hash = g_strdup (g_checksum_get_string (hash));
  return NULL;
}

static void
streams_of_many_threads_have_the_bits_of_lone_ones (Fixture *f, gconstpointer data)
{
  Play alone[STREAMS], together[STREAMS];
  for (guint i = 0; i < STREAMS; i++)
    {
      alone[i] = (Play) { f, stream_of (i), NULL };
      play_stream (&alone[i]);
    }
  guint rounds = g_test_slow () ? 20 : 3;
  for (guint round = 0; round < rounds; round++)
    {
      GThread *threads[STREAMS];
      g_array_set_size (f->passes, 0);
      for (guint i = 0; i < STREAMS; i++)
        {
          together[i] = (Play) { f, stream_of (i), NULL };
          threads[i] = g_thread_new ("stream", play_stream, &together[i]);
        }
      for (guint i = 0; i < STREAMS; i++)
        g_thread_join (threads[i]);
      for (guint i = 0; i < STREAMS; i++)
        {
          g_assert_cmpstr (together[i].hash, ==, alone[i].hash);
          g_free (together[i].hash);
        }
    }
  for (guint i = 0; i < STREAMS; i++)
    g_free (alone[i].hash);
}

#define TEST(name, function) g_test_add ("/scheduler/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  TEST ("streams of many threads have the bits of lone ones", streams_of_many_threads_have_the_bits_of_lone_ones);
  return g_test_run ();
}
