/* tests/bench/membw.c — how fast this machine reads memory: the limit a decode step is compared with.
 *
 *   cc -O3 -march=native -pthread membw.c -o membw && ./membw THREADS MEGABYTES…
 *
 * Each thread sums its own share of one buffer (huge pages asked for) again and again for a quarter second; the best of five.
 * One line a size: `megabytes gigabytes_per_second`. Built and run by tests/bench/compare.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define SAMPLES 5
#define SAMPLE_SECONDS 0.25
#define HUGE_PAGE ((size_t) 2 << 20)

typedef uint64_t Line __attribute__ ((vector_size (64)));

typedef struct
{
  const Line *lines;
  size_t n_lines;
  pthread_barrier_t *start;
  double seconds;               /* result */
  size_t passes;                /* result */
  uint64_t sum;                 /* keeps the reads alive */
} Share;

static double
now (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint64_t
read_once (const Line *lines, size_t n)
{
  Line sum[8] = { 0 };
  for (size_t i = 0; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; k++)
      sum[k] += lines[i + k];

  uint64_t total = 0;
  for (int k = 0; k < 8; k++)
    for (int j = 0; j < 8; j++)
      total += sum[k][j];
  return total;
}

static void *
read_share (void *data)
{
  Share *share = data;
  share->sum = read_once (share->lines, share->n_lines);
  pthread_barrier_wait (share->start);

  double begin = now ();
  share->passes = 0;
  do {
    for (int i = 0; i < 4; i++) {
      share->sum += read_once (share->lines, share->n_lines);
      __asm__ volatile ("" ::: "memory");
    }
    share->passes += 4;
    share->seconds = now () - begin;
  } while (share->seconds < SAMPLE_SECONDS);
  return NULL;
}

static double
gigabytes_per_second (const Line *lines, size_t n_lines, int n_threads)
{
  pthread_barrier_t start;
  pthread_t threads[n_threads];
  Share shares[n_threads];
  size_t part = n_lines / n_threads / 8 * 8;
  double rate = 0;

  pthread_barrier_init (&start, NULL, n_threads);
  for (int t = 0; t < n_threads; t++) {
    shares[t] = (Share) { .lines = lines + t * part, .n_lines = part, .start = &start };
    pthread_create (&threads[t], NULL, read_share, &shares[t]);
  }
  for (int t = 0; t < n_threads; t++) {
    pthread_join (threads[t], NULL);
    rate += (double) part * sizeof (Line) * shares[t].passes / shares[t].seconds / 1e9;
  }
  pthread_barrier_destroy (&start);
  return rate;
}

int
main (int argc, char **argv)
{
  int n_threads = argc > 2 ? atoi (argv[1]) : 0;
  if (n_threads < 1) {
    fprintf (stderr, "usage: membw THREADS MEGABYTES...\n");
    return 2;
  }
  for (int a = 2; a < argc; a++) {
    size_t bytes = (size_t) (atof (argv[a]) * (1 << 20));
    char *map = mmap (NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
      perror ("membw: mmap");
      return 1;
    }
    char *base = (char *) (((uintptr_t) map + HUGE_PAGE - 1) & ~(uintptr_t) (HUGE_PAGE - 1));
    madvise (base, bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < bytes; i += 64)
      base[i] = (char) i;

    double best = 0;
    for (int s = 0; s < SAMPLES; s++) {
      double rate = gigabytes_per_second ((const Line *) base, bytes / sizeof (Line), n_threads);
      best = rate > best ? rate : best;
    }
    printf ("%s %.1f\n", argv[a], best);
    munmap (map, bytes + HUGE_PAGE);
  }
  return 0;
}
