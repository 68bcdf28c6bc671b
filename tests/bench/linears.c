/* tests/bench/linears.c — what the linears of a model cost: whole tokens of four shapes, norms and attention left out.
 *
 *   tests/bench/linears [threads] [isa] [rows]
 *
 * 4-bit weights in groups of 32. Every token walks each block's matrices with a barrier after each operation, as the
 * backend does. Prints tokens/s and weight bytes/s, the best of several stretches.
 */
#include "../cpu/matrices.h"

#include <stdlib.h>

#include "cpu/tl-pool.h"

typedef struct { const char *name; guint dim, kv, ffn, stored, applied, vocab; } Shape;

static const Shape shapes[] = {
  { "loop 512", 512, 128, 1408, 1, 13, 8192 }, { "loop 1024", 1024, 256, 2816, 1, 13, 8192 },
  { "loop 2048", 2048, 512, 5632, 1, 13, 8192 }, { "30 layers 576", 576, 192, 1536, 30, 30, 49152 },
};

typedef struct { TlPackedMatrix qkv, o, up, down; } Block;

typedef struct
{
  const Shape *shape;
  const TlKernels *k;
  Block *blocks;
  TlPackedMatrix head;
  TlActivations ffn[16];       /* per worker two: model width and MLP width, quantised redundantly */
  float *out;
  guint rows, tokens, ld;
} Run;

static void
multiply (Run *run, TlPool *pool, guint w, guint n, const TlPackedMatrix *p, TlActivations *a)
{
  guint begin, end;
  for (guint m = 0; m < run->rows; m++)
    run->k->quantise_row (a->x + m * a->stride, a->cols, 32, a->q + m * a->stride, a->scale + m * a->n_groups,
      a->sum + m * a->n_groups);
  tl_pool_share (p->rows / 16, w, n, &begin, &end);
  run->k->linear (p, a, 0, run->rows, begin * 16, end * 16, run->out, run->ld);
  tl_pool_barrier (pool);
}

static void
walk (TlPool *pool, guint w, guint n, gpointer data)
{
  Run *run = data;
  TlActivations *x = &run->ffn[2 * w], *y = &run->ffn[2 * w + 1];
  for (guint t = 0; t < run->tokens; t++)
    {
      for (guint i = 0; i < run->shape->applied; i++)
        {
          Block *b = &run->blocks[i % run->shape->stored];
          multiply (run, pool, w, n, &b->qkv, x);
          multiply (run, pool, w, n, &b->o, x);
          multiply (run, pool, w, n, &b->up, x);
          multiply (run, pool, w, n, &b->down, y);
        }
      multiply (run, pool, w, n, &run->head, x);
    }
}

static void
pack (TlPackedMatrix *p, guint rows, guint cols, GRand *rand, guint8 **memory)
{
  static const Case int4 = { "int4", TL_INT4, TL_F16, TL_OFFSET_NONE, 32 };
  TlMatrix m = matrix_new (&int4, rows, cols, rand);
  tl_packed_matrix_init (p, &m, *memory);
  *memory += p->bytes;
  matrix_free (&m);
}

int
main (int argc, char **argv)
{
  TlPool *pool = tl_pool_get ();
  guint threads = argc > 1 ? atoi (argv[1]) : tl_pool_size (pool);
  if (argc > 2)
    g_setenv ("TINYLOOP_CPU", argv[2], TRUE);
  g_autoptr (GError) error = NULL;
  const TlKernels *k = tl_kernels_get (&error);
  if (!k || threads < 1 || threads > 8)
    g_error ("%s", error ? error->message : "1 to 8 threads");

  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    {
      const Shape *shape = &shapes[s];
      g_autoptr (GRand) rand = g_rand_new_with_seed (s);
      Run run = { .shape = shape, .k = k, .rows = argc > 3 ? atoi (argv[3]) : 1, .ld = MAX (shape->vocab, 2 * shape->ffn) };
      gsize block = (gsize) shape->dim * (2 * shape->dim + 2 * shape->kv + 3 * shape->ffn);
      gsize weights = (block * shape->stored + (gsize) shape->dim * shape->vocab) * 9 / 16 + (shape->stored * 4 + 1) * 64 * 4096;
      guint8 *memory = tl_packed_memory_new (weights), *at = memory;
      run.blocks = g_new (Block, shape->stored);
      for (guint i = 0; i < shape->stored; i++)
        {
          pack (&run.blocks[i].qkv, shape->dim + 2 * shape->kv, shape->dim, rand, &at);
          pack (&run.blocks[i].o, shape->dim, shape->dim, rand, &at);
          pack (&run.blocks[i].up, 2 * shape->ffn, shape->dim, rand, &at);
          pack (&run.blocks[i].down, shape->dim, shape->ffn, rand, &at);
        }
      pack (&run.head, shape->vocab, shape->dim, rand, &at);
      gpointer row_memory[16];
      for (guint i = 0; i < 2 * threads; i++)
        run.ffn[i] = activations_new (run.rows, i % 2 ? shape->ffn : shape->dim, 32, rand, &row_memory[i]);
      run.out = g_new (float, run.rows * run.ld);

      double best = G_MAXDOUBLE, bytes = (block * shape->applied + (double) shape->dim * shape->vocab) * 9 / 16;
      run.tokens = MAX (1, 4e8 / bytes / run.rows);
      for (guint i = 0; i < 12; i++)
        {
          gint64 start = g_get_monotonic_time ();
          tl_pool_run (pool, threads, walk, &run);
          best = MIN (best, (g_get_monotonic_time () - start) * 1e-6 / run.tokens);
        }
      g_print ("%-14s %s threads=%u rows=%u  %8.1f tok/s  %6.1f GB/s\n", shape->name, k->name, threads, run.rows,
        run.rows / best, bytes / best * 1e-9);
      g_free (run.out);
      g_free (run.blocks);
      for (guint i = 0; i < 2 * threads; i++)
        tl_packed_memory_free (row_memory[i], tl_activations_size (run.rows, i % 2 ? shape->ffn : shape->dim, 32));
      tl_packed_memory_free (memory, weights);
    }
  return 0;
}
