/* tests/forward/identity.c — promise 1, one arithmetic: a row's bits and the tokens drawn from them depend on nothing but
 * what the row sees. One hash per weight format, the same for every instruction set, thread count, chunk and batch.
 *
 * The hash itself is written down here: a change of it is a change of the arithmetic (docs/arithmetic.md), so that a fault
 * that every kernel shares is seen too. Without arguments: short contexts and a part of the matrix in which every set, thread
 * count, chunk and batch occurs; `--full`: contexts of 270 positions, and with TINYLOOP_LONG=1 every product of them.
 */
#include <glib/gstdio.h>
#include <string.h>

#include "cache/tl-pass.h"
#include "cpu/tl-backend-cpu.h"
#include "cpu/tl-isa.h"
#include "decode/tl-sampler.h"
#include "tiny-model.h"

#define STEPS 6                 /* sampled tokens after the prompt */
#define OTHERS 7                /* sequences in the same passes */

typedef struct { TinyModel model; const char *fast, *full; } Format;

#define MODEL(name, format, offset, scale, group, head_dim) \
  { name, format, offset, scale, group, 576, head_dim, 4, 2, 160, 48, 1024 }

static const Format formats[] = {
  { MODEL ("f32", TL_F32, TL_OFFSET_NONE, TL_F32, 0, 18),
    "c8ce1f3235c55f0e", "f8fb498239e194ee" },
  { MODEL ("f16", TL_F16, TL_OFFSET_NONE, TL_F32, 0, 12),
    "073dda9c03b9124f", "32d2fb14b1cdde66" },
  { MODEL ("bf16", TL_BF16, TL_OFFSET_NONE, TL_F32, 0, 64),
    "19774440719f98b9", "e410d161a1742d34" },
  { MODEL ("int8", TL_INT8, TL_OFFSET_NONE, TL_F16, 128, 64),
    "e9950f81f35b0685", "1fbbc797807a3f3d" },
  { MODEL ("int8-channel", TL_INT8, TL_OFFSET_NONE, TL_F32, G_MAXUINT, 18),
    "a11dd3d77b45322c", "e7ce8d68d9cc1074" },
  { MODEL ("int4", TL_INT4, TL_OFFSET_NONE, TL_F16, 128, 18),
    "5d1b361e2d75145b", "97ac31872938c36c" },
  { MODEL ("int4-zero", TL_INT4, TL_OFFSET_ZERO, TL_BF16, 128, 12),
    "e23e444b8807cf88", "1368b12fe7aa710b" },
  { MODEL ("int4-min", TL_INT4, TL_OFFSET_MIN, TL_F16, 128, 64),
    "b8d58b45207960a4", "ebd2b450094f3ecf" },
};

static const char *const sets[] = { "scalar", "avx2", "avx512", "vnni", "amx" };

typedef struct
{
  const TinyModel *model;
  char *path;
  TlProgram *program;
  guint prompt;                 /* tokens */
} Fixture;

static TlBackend *
backend_of (Fixture *f, TlIsa isa, guint threads)
{
  g_autoptr (GError) error = NULL;
  TlBackendOptions options = { .threads = threads };
  g_setenv ("TINYLOOP_CPU", sets[isa], TRUE);
  TlBackend *backend = tl_backend_prepare (tl_backend_cpu_class (), f->program, &options, &error);
  g_unsetenv ("TINYLOOP_CPU");
  g_assert_no_error (error);
  return backend;
}

/* --- one way of computing --- */

typedef struct
{
  Fixture *f;
  TlBackend *backend;
  TlKvStore *store;
  TlKvSequence *sequences[1 + OTHERS];  /* [0]: whose bits are hashed */
  guint n_sequences;
  GChecksum *hash;
} Way;

static void
fill_row (Way *way, guint s, guint32 token, guint position, float *logits, TlPassRow *row)
{
  /* others: at other depths, some rows wanted, some not */
  guint stop = s == 0 ? way->f->program->descriptor->loops_default : 1 + s % 4;
  *row = (TlPassRow) { .sequence = way->sequences[s], .position = position, .token = token, .stop = stop, .logits = logits };
}

/* one pass: n tokens of sequence 0 and one token of each other, before or after it in the batch */
static void
run_pass (Way *way, const guint32 *tokens, guint n, float *logits, float *junk)
{
  g_autoptr (GError) error = NULL;
  guint vocab = way->f->program->vocab_size, at = tl_kv_sequence_length (way->sequences[0]), n_rows = 0;
  g_autofree TlPassRow *rows = g_new0 (TlPassRow, n + OTHERS);
  for (guint s = 1; s < way->n_sequences; s += 2)
    fill_row (way, s, tiny_model_id (way->f->model, at * s), tl_kv_sequence_length (way->sequences[s]),
      s % 4 == 1 ? junk : NULL, &rows[n_rows++]);
  for (guint i = 0; i < n; i++)
    fill_row (way, 0, tokens[i], at + i, logits + (gsize) i * vocab, &rows[n_rows++]);
  for (guint s = 2; s < way->n_sequences; s += 2)
    fill_row (way, s, tiny_model_id (way->f->model, at * s), tl_kv_sequence_length (way->sequences[s]),
      s % 4 == 2 ? junk : NULL, &rows[n_rows++]);
  g_autoptr (TlPass) pass = tl_pass_begin (way->backend, rows, n_rows, NULL, NULL, &error);
  g_assert_no_error (error);
  tl_pass_loops (pass, G_MAXUINT, NULL, &error);
  g_assert_no_error (error);
  tl_pass_finish (pass, NULL, &error);
  g_assert_no_error (error);
}

/* the prompt in chunks, then sampled tokens; the hash of all logits and tokens */
static char *
hash_of (Fixture *f, TlBackend *backend, guint chunk, gboolean with_others)
{
  static const TlSamplerParams params = { .temperature = 1.1f, .top_k = 20, .top_p = 0.95f, .min_p = 0.01f,
    .repetition_penalty = 1.1f, .seed = 1234567890123ull };
  guint vocab = f->program->vocab_size;
  g_autoptr (TlKvStore) store = tl_kv_store_new (backend, 0);
  g_autoptr (TlSampler) sampler = tl_sampler_new (vocab, &params);
  g_autoptr (GError) error = NULL;
  Way way = { f, backend, store, .n_sequences = with_others ? 1 + OTHERS : 1, .hash = g_checksum_new (G_CHECKSUM_SHA256) };
  g_autofree guint32 *ids = g_new (guint32, f->prompt + STEPS + 1);
  g_autofree float *logits = g_new0 (float, (gsize) (f->prompt + 1) * vocab), *junk = g_new0 (float, vocab);
  const float *last = logits;
  for (guint s = 0; s < way.n_sequences; s++)
    way.sequences[s] = tl_kv_sequence_new (store, TL_KV_FP16, s == 3 ? 5 : 0);
  for (guint i = 0; i < f->prompt; i++)
    tl_sampler_see (sampler, ids[i] = tiny_model_id (f->model, i), FALSE);

  for (guint at = 0, n; at < f->prompt; at += n)
    {
      n = MIN (chunk ? chunk : f->prompt, f->prompt - at);
      run_pass (&way, ids + at, n, logits, junk);
      g_checksum_update (way.hash, (guchar *) logits, (gsize) n * vocab * sizeof (float));
      last = logits + (gsize) (n - 1) * vocab;
    }
  for (guint step = 0; step < STEPS; step++)
    {
      guint32 id;
      tl_sampler_draw (sampler, last, NULL, 0, f->prompt + step, step, &id, &error);
      g_assert_no_error (error);
      tl_sampler_see (sampler, id, TRUE);
      ids[f->prompt + step] = id;
      run_pass (&way, &id, 1, logits, junk);
      g_checksum_update (way.hash, (guchar *) logits, vocab * sizeof (float));
      last = logits;
    }
  g_checksum_update (way.hash, (guchar *) (ids + f->prompt), STEPS * sizeof (guint32));
  for (guint s = 0; s < way.n_sequences; s++)
    tl_kv_sequence_unref (way.sequences[s]);
  char *text = g_strndup (g_checksum_get_string (way.hash), 16);
  g_checksum_free (way.hash);
  return text;
}

/* --- the matrix --- */

static void
check_way (Fixture *f, TlBackend *backend, const char *set, guint threads, guint chunk, gboolean others, const char *want)
{
  g_autofree char *got = hash_of (f, backend, chunk, others);
  if (!g_str_equal (got, want))
    g_error ("%s: %s, %u threads, chunk %u, %s: hash %s, not %s", f->model->name, set, threads, chunk,
      others ? "with 7 others" : "alone", got, want);
}

static void
set_up (Fixture *f, const TinyModel *model, guint prompt)
{
  g_autoptr (GError) error = NULL;
  *f = (Fixture) { .model = model, .path = tiny_model_write (model), .prompt = prompt };
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_open (f->path, &error);
  g_assert_no_error (error);
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, &error);
  g_assert_no_error (error);
  f->program = tl_program_new (weights, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *f)
{
  tl_program_unref (f->program);
  g_unlink (f->path);
  g_free (f->path);
}

/* way i of a set's 16: some of each; the scalar kernels are slow */
static gboolean
is_in_part (TlIsa isa, guint i)
{
  static const guint16 parts[] = { 0x0400, 0x1084, 0x4108, 0x8241, 0x6090 };
  return parts[isa] >> i & 1;
}

static void
every_way_gives_the_written_bits (const Format *format, gboolean full)
{
  static const guint chunks[] = { 1, 7, 32, 0 };
  Fixture f;
  gboolean all = full && g_getenv ("TINYLOOP_LONG");
  guint run = 0;
  set_up (&f, &format->model, full ? 270 : 40);
  for (TlIsa isa = TL_ISA_SCALAR; isa < G_N_ELEMENTS (sets) && tl_isa_present (isa); isa++)
    for (guint threads = 1; threads <= 2; threads++)
      {
        TlBackend *backend = backend_of (&f, isa, threads);
        for (guint i = 0; i < 8; i++)
          if (all || is_in_part (isa, 8 * (threads - 1) + i))
            {
              check_way (&f, backend, sets[isa], threads, chunks[i / 2], i % 2, full ? format->full : format->fast);
              run++;
            }
        tl_backend_free (backend);
      }
  g_test_message ("%s: %u ways of computing, hash %s", format->model.name, run, full ? format->full : format->fast);
  tear_down (&f);
}

static void
fast_part (gconstpointer format)
{
  every_way_gives_the_written_bits (format, FALSE);
}

static void
full_matrix (gconstpointer format)
{
  every_way_gives_the_written_bits (format, TRUE);
}

static void
an_absent_set_is_named (gconstpointer isa)
{
  if (!tl_isa_present (GPOINTER_TO_UINT (isa)))
    g_test_skip ("this processor or system lacks it: its part of the matrix was not run");
}

int
main (int argc, char **argv)
{
  gboolean full = argc > 1 && g_str_equal (argv[argc - 1], "--full");
  argc -= full;
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      g_autofree char *path = g_strdup_printf ("/identity/%s", formats[i].model.name);
      g_test_add_data_func (path, &formats[i], full ? full_matrix : fast_part);
    }
  for (guint i = 0; i < G_N_ELEMENTS (sets); i++)
    {
      g_autofree char *path = g_strdup_printf ("/identity/set/%s", sets[i]);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), an_absent_set_is_named);
    }
  return g_test_run ();
}
