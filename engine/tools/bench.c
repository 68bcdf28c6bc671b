/* tools/bench.c — `tinyloop bench MODEL`: speed of prefill and decode, beside what this machine's memory can do now.
 *
 * The limit of decoding is reading every weight once per use; percent of limit = bytes per token × tokens/s ÷ the read
 * bandwidth measured in the same run. Loop weights that stay in the processor's cache can exceed 100 percent.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "tool.h"

#define BUFFER_BYTES ((gsize) 256 << 20)

typedef struct { const guint64 *data; gsize n; guint64 sum; } Reader;

static gpointer
read_part (gpointer data)
{
  Reader *r = data;
  guint64 a = 0, b = 0, c = 0, d = 0;
  for (gsize i = 0; i + 4 <= r->n; i += 4) {
    a += r->data[i];
    b += r->data[i + 1];
    c += r->data[i + 2];
    d += r->data[i + 3];
  }
  r->sum = a + b + c + d;
  return NULL;
}

/* bytes per second, best of three */
static double
measure_bandwidth (guint threads)
{
  g_autofree guint64 *buffer = g_malloc (BUFFER_BYTES);
  g_autofree Reader *readers = g_new0 (Reader, threads);
  g_autofree GThread **running = g_new0 (GThread *, threads);
  memset (buffer, 1, BUFFER_BYTES);
  double best = 0;
  for (guint round = 0; round < 3; round++) {
    gint64 began = g_get_monotonic_time ();
    for (guint i = 0; i < threads; i++) {
      readers[i].n = BUFFER_BYTES / 8 / threads;
      readers[i].data = buffer + i * readers[i].n;
      running[i] = g_thread_new ("bandwidth", read_part, &readers[i]);
    }
    for (guint i = 0; i < threads; i++)
      g_thread_join (running[i]);
    best = MAX (best, BUFFER_BYTES / ((g_get_monotonic_time () - began + 1) / 1e6));
  }
  return best;
}

static gboolean
bench (const ToolOptions *o, const char *path, guint n_prompt, guint n_decode, GError **error)
{
  TlGenerateConfig *config = o->config;
  g_autoptr (TlModel) model = tool_options_load (o, path, error);
  if (!model)
    return FALSE;
  g_object_set (config, "max-tokens", n_decode, "ignore-eos", TRUE, NULL);
  g_autofree gint32 *prompt = g_new (gint32, n_prompt);
  for (guint i = 0; i < n_prompt; i++)
    prompt[i] = (i * 7919u + 13) % tl_model_get_vocab_size (model);
  g_autoptr (GBytes) ids = g_bytes_new (prompt, n_prompt * sizeof (gint32));

  TlGenerationFigures f;
  for (guint round = 0; round < 2; round++) {   /* the first one warms caches and pages up */
    g_autoptr (TlGeneration) result = tl_model_generate_bytes (model, ids, config, NULL, error);
    if (!result)
      return FALSE;
    tl_generation_get_figures (result, &f);
  }
  double bandwidth = measure_bandwidth (o->threads ? o->threads : g_get_num_processors ());
  guint64 bytes = tl_model_get_weight_bytes (model, f.loops);
  double prefill = n_prompt / (f.prefill_ms / 1e3), decode = n_decode > 1 ? (n_decode - 1) / (f.decode_steady_ms / 1e3) : 0;
  printf (o->json ? "{\"prefill_tok_s\": %.3f, \"decode_tok_s\": %.3f, \"ttft_ms\": %.3f, \"bytes_per_token\": %"
      G_GUINT64_FORMAT ", \"read_bandwidth_bytes_s\": %.0f, \"percent_of_limit\": %.2f, \"loops\": %u, "
      "\"prompt_tokens\": %u, \"decode_tokens\": %u}\n"
      : "prefill            %.1f tokens/s\ndecode             %.1f tokens/s\nfirst token after  %.1f ms\n"
      "bytes per token    %" G_GUINT64_FORMAT "\nread bandwidth     %.0f bytes/s\npercent of limit   %.1f\n"
      "loops              %u\ntokens             %u prompt, %u decode\n",
      prefill, decode, f.first_token_ms, bytes, bandwidth, 100 * bytes * decode / bandwidth, f.loops, n_prompt, n_decode);
  return TRUE;
}

int
tool_bench (int argc, char **argv)
{
  ToolOptions o;
  GError *error = NULL;
  int n_prompt = 128, n_decode = 32, streams = 1;
  const GOptionEntry own[] = {
    { "prompt-tokens", 0, 0, G_OPTION_ARG_INT, &n_prompt, "tokens of the prompt (128)", "P" },
    { "decode-tokens", 0, 0, G_OPTION_ARG_INT, &n_decode, "tokens to generate (32)", "N" },
    { "streams", 0, 0, G_OPTION_ARG_INT, &streams, "streams at once: 1 in this version", "M" },
    G_OPTION_ENTRY_NULL };
  tool_options_init (&o);
  int status = 2;
  if (tool_options_parse (&o, "MODEL - speed, and how near it is to what memory allows", TOOL_OPTIONS_MODEL, own, &argc, &argv)) {
    if (n_prompt < 1 || n_decode < 2)
      g_set_error_literal (&error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
          "--prompt-tokens must be at least 1, --decode-tokens at least 2");
    else if (streams != 1)
      g_set_error_literal (&error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--streams is 1 in this version: requests of "
          "one model take turns, pass by pass, so that more of them would measure the same");
    status = !error && bench (&o, argv[1], n_prompt, n_decode, &error) ? 0 : tool_failed (error);
  }
  tool_options_clear (&o);
  return status;
}
