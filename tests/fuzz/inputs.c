/* tests/fuzz/inputs.c — no input may crash, hang, leak or read outside its buffer: checkpoint files and tokenizer.json.
 *
 * One entry of libFuzzer's form a target. Compiled with -DTL_LIBFUZZER and clang's -fsanitize=fuzzer it is a fuzzer of the
 * target named in $TL_FUZZ_TARGET; without, a driver that feeds each target its seed, cut off everywhere and with bytes
 * changed by a fixed generator ($TL_FUZZ_ROUNDS times, default 300).
 */
#include <glib/gstdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "forward/tl-program.h"
#include "text/tl-tokenizer.h"
#include "tiny-model.h"

/* an error must be set exactly when nothing came back */
static void
assert_reported (gboolean ok, const GError *error)
{
  g_assert_cmpint (ok, ==, error == NULL);
  g_assert_true (ok || strlen (error->message) > 0);
}

static void
feed_checkpoint (GBytes *bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TlCheckpoint) checkpoint = tl_checkpoint_new_from_bytes (bytes, "fuzz.tinyloop", &error);
  assert_reported (checkpoint != NULL, error);
  if (!checkpoint)
    return;
  g_autoptr (TlWeights) weights = tl_weights_new (checkpoint, &error);
  assert_reported (weights != NULL, error);
  if (!weights)
    return;
  g_autoptr (TlProgram) program = tl_program_new (weights, &error);
  assert_reported (program != NULL, error);
}

static void
feed_tokenizer (GBytes *bytes)
{
  static const char text[] = "Ein Bär\r\n tanzt   42 Mal \xff<|end|>\xf0\x9f\x90\xbb";
  g_autoptr (GError) error = NULL;
  g_autoptr (TlTokenizer) tokenizer = tl_tokenizer_new_from_json (bytes, "fuzz.json", &error);
  assert_reported (tokenizer != NULL, error);
  if (!tokenizer)
    return;
  g_autoptr (GArray) ids = tl_tokenizer_encode (tokenizer, text, strlen (text), TL_ENCODE_SPECIAL, &error);
  assert_reported (ids != NULL, error);
}

static GBytes *
checkpoint_seed (void)
{
  static const TinyModel tiny = { "tiny", TL_INT4, TL_OFFSET_MIN, TL_F16, 32, 32, 4, 2, 1, 32, 8, 16 };
  g_autofree char *path = tiny_model_write (&tiny);
  char *data;
  gsize size;
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  g_unlink (path);
  return g_bytes_new_take (data, size);
}

static GBytes *
tokenizer_seed (void)
{
  static const char json[] = "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":5,\"content\":\"<|end|>\",\"single_word\":false,"
      "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":{\"type\":\"NFC\"},"
      "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
      "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"dropout\":null,"
      "\"unk_token\":null,\"byte_fallback\":false,\"vocab\":{\"a\":0,\"n\":1,\"z\":2,\"an\":3,\"anz\":4},"
      "\"merges\":[\"a n\",[\"an\",\"z\"]]}}";
  return g_bytes_new_static (json, sizeof json - 1);
}

static const struct { const char *name; void (*feed) (GBytes *); GBytes *(*seed) (void); } targets[] = {
  { "checkpoint", feed_checkpoint, checkpoint_seed }, { "tokenizer", feed_tokenizer, tokenizer_seed },
};

static void
feed_copy (guint target, const guint8 *data, gsize size)
{
  g_autoptr (GBytes) bytes = g_bytes_new (data, size);  /* a block of its own: what lies beyond it is not ours */
  targets[target].feed (bytes);
}

#ifdef TL_LIBFUZZER
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  guint target = g_strcmp0 (g_getenv ("TL_FUZZ_TARGET"), "tokenizer") == 0;
  feed_copy (target, data, size);
  return 0;
}
#else
static guint32
next (guint64 *state)
{
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return *state >> 33;
}

/* a few bytes of the text part replaced, doubled or removed */
static void
mutate (GByteArray *file, guint64 *state)
{
  static const char spice[] = "{}[]\",:0129-e.ntfU\\ \0\xff";
  guint n = 1 + next (state) % 4;
  for (guint i = 0; i < n && file->len > 8; i++)
    {
      guint at = next (state) % MIN (file->len, 6000), kind = next (state) % 4;
      if (kind == 0)
        file->data[at] = spice[next (state) % sizeof spice];
      else if (kind == 1)
        file->data[at] ^= 1u << next (state) % 8;
      else if (kind == 2)
        g_byte_array_remove_index (file, at);
      else
        {
          guint length = MIN (file->len - at, 1 + next (state) % 40);
          g_autofree guint8 *piece = g_memdup2 (file->data + at, length);
          g_byte_array_append (file, piece, length);
        }
    }
}

static void
a_changed_seed_is_read_or_refused (gconstpointer data)
{
  guint target = GPOINTER_TO_UINT (data);
  const char *rounds = g_getenv ("TL_FUZZ_ROUNDS");
  guint64 state = 1;
  gsize size;
  g_autoptr (GBytes) seed = targets[target].seed ();
  const guint8 *bytes = g_bytes_get_data (seed, &size);
  feed_copy (target, bytes, size);
  for (gsize cut = 0; cut < size; cut += 1 + size / 200)
    feed_copy (target, bytes, cut);
  for (guint64 i = rounds ? g_ascii_strtoull (rounds, NULL, 10) : 300; i-- > 0;)
    {
      g_autoptr (GByteArray) file = g_byte_array_sized_new (size + 256);
      g_byte_array_append (file, bytes, size);
      mutate (file, &state);
      feed_copy (target, file->data, file->len);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (targets); i++)
    {
      g_autofree char *path = g_strdup_printf ("/fuzz/%s", targets[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), a_changed_seed_is_read_or_refused);
    }
  return g_test_run ();
}
#endif
