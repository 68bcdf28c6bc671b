#!/usr/bin/python3
"""tests/python/api.py — tinyloop_py on the demo model: shapes, identities, stops, errors, callbacks, closing, Ctrl-C.

Run by meson with the typelib, library and package of the build; $TINYLOOP_DEMO names the model.
"""
import os
import signal
import threading
import unittest

import numpy as np
import tinyloop_py as tl

DEMO = os.environ["TINYLOOP_DEMO"]
GI = tl._engine.TinyLoop


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tl.load(DEMO)
        cls.prompt = np.array(cls.model.tokenizer.encode("<|cmd|>turn on the light<|json|>", special=True), np.int32)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()


class Generating(WithModel):
    def parameters(self):
        yield dict(temperature=0.0)
        for seed in range(20):
            yield dict(temperature=0.9, top_k=20, top_p=0.95, seed=seed)

    def test_generate_is_stream_is_chunked_is_uncached(self):
        for p in self.parameters():
            whole = self.model.generate(self.prompt, max_tokens=8, loops=2, **p)
            self.assertEqual(whole[:len(self.prompt)], self.prompt.tolist())
            self.assertEqual(len(whole), len(self.prompt) + 8)
            seen = []
            stream = self.model.generate_stream(self.prompt, seen.append, max_tokens=8, loops=2, **p)
            self.assertEqual(stream["tokens"], whole)
            self.assertEqual(seen, whole[len(self.prompt):])
            self.assertEqual(self.model.generate(self.prompt, max_tokens=8, loops=2, chunk_size=3, **p), whole)
            os.environ["TINYLOOP_DISABLE_KV_CACHE"] = "1"
            tl._engine.GLib.setenv("TINYLOOP_DISABLE_KV_CACHE", "1", True)
            try:
                self.assertEqual(self.model.generate(self.prompt, max_tokens=8, loops=2, **p), whole)
            finally:
                del os.environ["TINYLOOP_DISABLE_KV_CACHE"]
                tl._engine.GLib.unsetenv("TINYLOOP_DISABLE_KV_CACHE")

    def test_a_seed_repeats_and_another_differs(self):
        runs = [self.model.generate(self.prompt, max_tokens=24, temperature=2.0, seed=s) for s in (1, 1, 2)]
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])

    def test_a_stop_sequence_stays_in_the_output(self):
        n = len(self.prompt)
        whole = self.model.generate(self.prompt, max_tokens=12)
        stop = whole[n + 2:n + 4]
        first = next(i for i in range(n + 2, len(whole) + 1) if whole[i - 2:i] == stop)
        self.assertEqual(self.model.generate(self.prompt, max_tokens=12, stop_sequences=[stop]), whole[:first])
        across = [int(self.prompt[-1]), whole[n]]
        if across not in [whole[i:i + 2] for i in range(n, len(whole) - 1)]:
            self.assertEqual(self.model.generate(self.prompt, max_tokens=12, stop_sequences=[across]), whole)

    def test_a_stop_string_is_not_part_of_the_text(self):
        text = self.model.generate_stream(self.prompt, None, max_tokens=16)["text"]
        stop = text[3:6]
        cut = self.model.generate_stream(self.prompt, None, max_tokens=16, stop=[stop])
        self.assertEqual(cut["text"], text[:text.index(stop)])
        self.assertEqual(cut["finish_reason"], "stop")

    def test_timings_are_there(self):
        r = self.model.generate_stream(self.prompt, lambda t: True, max_tokens=4)
        self.assertEqual(r["tokens_emitted"], 4)
        self.assertGreater(r["prefill_ms"], 0)
        self.assertGreaterEqual(r["first_token_ms"], r["prefill_ms"])
        self.assertGreater(r["decode_steady_ms"], 0)

    def test_false_from_the_callback_ends_after_that_token(self):
        seen = []
        r = self.model.generate_stream(self.prompt, lambda t: seen.append(t) or len(seen) < 3, max_tokens=20)
        self.assertEqual(len(seen), 3)
        self.assertEqual(r["tokens"][len(self.prompt):], seen)

    def test_an_exception_in_the_callback_comes_out(self):
        def bad(token):
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            self.model.generate_stream(self.prompt, bad, max_tokens=5)
        self.assertEqual(len(self.model.generate(self.prompt, max_tokens=1)), len(self.prompt) + 1)

    def test_callbacks_run_on_the_callers_thread(self):
        threads = set()
        self.model.generate_stream(self.prompt, lambda t: threads.add(threading.get_ident()), max_tokens=2)
        self.assertEqual(threads, {threading.get_ident()})

    def test_ctrl_c_ends_a_generation(self):
        def interrupt(token):
            os.kill(os.getpid(), signal.SIGINT)
        with self.assertRaises(KeyboardInterrupt):
            self.model.generate_stream(self.prompt, interrupt, max_tokens=50)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_ranges(self):
        bad = [dict(max_tokens=0), dict(loops=0), dict(loops=10 ** 6), dict(temperature=-1), dict(temperature=float("nan")),
               dict(temperature=1, top_k=0), dict(top_p=0), dict(top_p=1.5), dict(min_p=1), dict(repetition_penalty=0),
               dict(cache_window=-1), dict(stop_sequences=[[]]), dict(kv_mode="int3"), dict(seed=-1)]
        for p in bad:
            with self.subTest(p), self.assertRaises(ValueError):
                self.model.generate(self.prompt, **p)
        for prompt in ([], [[1]], [1.5], [-1], [self.model.config()["vocab_size"]]):
            with self.subTest(prompt), self.assertRaises(ValueError):
                self.model.generate(prompt)
        with self.assertRaisesRegex(RuntimeError, "max_seq_len"):
            self.model.generate(self.prompt, max_tokens=self.model.max_seq_len)
        with self.assertRaises(TypeError):
            self.model.generate(self.prompt, no_such=1)


class Scoring(WithModel):
    def test_last_is_the_last_row(self):
        vocab = self.model.config()["vocab_size"]
        logits, last = self.model.score(self.prompt, loops=3), self.model.score_last(self.prompt, loops=3)
        self.assertEqual((logits.shape, logits.dtype), ((len(self.prompt), vocab), np.float32))
        np.testing.assert_array_equal(logits[-1], last)
        np.testing.assert_array_equal(self.model.score(self.prompt, loops=3, chunk_size=1), logits)

    def test_greedy_follows_the_scores(self):
        out = self.model.generate(self.prompt, max_tokens=1, loops=3)
        self.assertEqual(out[-1], int(self.model.score_last(self.prompt, loops=3).argmax()))

    def test_a_tensor_outlives_its_model(self):
        with tl.Model(DEMO) as model:
            last = model.score_last(self.prompt)
        self.assertTrue(np.isfinite(last).all())


class Processing(unittest.TestCase):
    def test_softmax_top_k_and_mask(self):
        logits = np.array([0, 1, 2, 3], np.float32)
        p = tl.process_logits(logits)
        np.testing.assert_allclose(p, np.exp(logits) / np.exp(logits).sum(), rtol=1e-6)
        np.testing.assert_allclose(tl.process_logits(logits, top_k=1), [0, 0, 0, 1])
        np.testing.assert_allclose(tl.process_logits(logits, grammar_mask=[1, 1, 0, 0], temperature=0), [0, 1, 0, 0])
        with self.assertRaises(RuntimeError):
            tl.process_logits(logits, grammar_mask=[0, 0, 0, 0])
        with self.assertRaises(RuntimeError):
            tl.process_logits(np.array([0, np.nan], np.float32))


class Text(WithModel):
    def test_there_and_back(self):
        text = "turn on the light — größer 日本"
        for tokenizer in (self.model.tokenizer, tl.Tokenizer(DEMO)):
            ids = tokenizer.encode(text)
            self.assertEqual(tokenizer.decode(ids), text)
            self.assertEqual(b"".join(tokenizer.token_bytes(i) for i in ids).decode(), text)


class Closing(unittest.TestCase):
    def test_a_closed_model_says_so(self):
        with tl.Model(DEMO) as model:
            self.assertGreater(model.vram_usage_mb(), 0)
        model.close()
        for call in (lambda: model.generate([1]), lambda: model.score([1]), model.config):
            with self.assertRaisesRegex(RuntimeError, "^model was closed$"):
                call()

    def test_closing_ends_what_runs(self):
        model, seen, errors = tl.Model(DEMO), threading.Event(), []

        def run():
            try:
                model.generate_stream([5, 6, 7], lambda t: seen.set(), max_tokens=model.max_seq_len - 3)
            except RuntimeError as error:
                errors.append(str(error))
        thread = threading.Thread(target=run)
        thread.start()
        seen.wait()
        model.close()
        thread.join()
        self.assertEqual(errors, ["model was closed"])

    def test_no_memory_names_bytes(self):
        with tl.Model(DEMO, max_cache_bytes=10000) as model:
            with self.assertRaisesRegex(RuntimeError, "bytes"):
                model.generate([5, 6, 7], max_tokens=100)

    def test_devices_and_paths(self):
        with self.assertRaisesRegex(RuntimeError, "cuda"):
            tl.Model(DEMO, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "no-such"):
            tl.Model("no-such.tinyloop")


class Conversing(WithModel):
    def begin(self, conversation, ids, policy=GI.PromptPolicy.QUEUE, history=GI.History.KEEP, max_tokens=4):
        config = GI.GenerateConfig(max_tokens=max_tokens, ignore_eos=True)
        return conversation.begin(tl._engine.to_bytes(tl._engine.ids_array(ids)), config, policy, history, None)

    def tokens(self, conversation):
        return tl._engine.from_bytes(conversation.dup_tokens()).tolist()

    def test_two_turns_are_one_sequence(self):
        c = GI.Conversation.new(self.model._model)
        first = self.begin(c, self.prompt)
        self.assertNotEqual(c.get_state(), GI.ConversationState.IDLE)
        said = tl._engine.from_bytes(first.run(None).get_tokens_bytes()).tolist()
        c.commit(first, 3)
        self.assertEqual(self.tokens(c), said[:-1])
        second = self.begin(c, [9, 10])
        reply = tl._engine.from_bytes(second.run(None).get_tokens_bytes()).tolist()
        self.assertEqual(said[:-1] + reply, self.model.generate(said[:-1] + [9, 10], max_tokens=4))
        self.assertGreater(second.get_figures().cached_tokens, 0)
        c.commit(second, 4)
        self.assertTrue(c.truncate(1))
        self.assertEqual(self.tokens(c), said[:-1] + reply[:3])

    def test_abort_restores_and_drop_refuses(self):
        c = GI.Conversation.new(self.model._model)
        running = self.begin(c, self.prompt)
        with self.assertRaises(tl._engine.GLib.Error):
            self.begin(c, self.prompt, GI.PromptPolicy.DROP)
        c.abort(running)
        self.assertEqual((self.tokens(c), c.get_state()), ([], GI.ConversationState.IDLE))

    def test_interrupt_waits_for_the_commit(self):
        c = GI.Conversation.new(self.model._model)
        running = self.begin(c, self.prompt, max_tokens=200)
        running.step(None)
        got = []
        thread = threading.Thread(target=lambda: got.append(self.begin(c, [7], GI.PromptPolicy.INTERRUPT)))
        thread.start()
        n = 0
        while True:
            step, token = running.step(None)
            if step == GI.Step.END:
                break
            n += 1
        self.assertEqual(running.get_finish_reason(), GI.FinishReason.CANCELLED)
        c.commit(running, n)
        thread.join()
        self.assertEqual(len(got), 1)
        c.abort(got[0])


if __name__ == "__main__":
    unittest.main()
