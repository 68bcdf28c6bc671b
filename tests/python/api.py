#!/usr/bin/python3
"""tests/python/api.py — tinyloop_py on the demo model: shapes, identities, stops, errors, callbacks, closing, Ctrl-C.

Run by meson with the typelib, library and package of the build; $TINYLOOP_DEMO names the model.
"""
import ast
import inspect
import os
import pydoc
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import numpy as np
import tinyloop_py as tl

DEMO = os.environ["TINYLOOP_DEMO"]
GI = tl._engine.TinyLoop
SCORES = ("score", "score_last", "score_logit_lens", "score_trajectory", "score_with_uncertainty", "score_with_consistency")


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
        none = self.model.generate_stream(self.prompt, None, max_tokens=16, stop=[text[:1]])
        self.assertEqual((none["text"], none["finish_reason"]), ("", "stop"))

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


class Grammars(WithModel):
    TEXTS = ("red light", "green light", "green lamp")

    def words(self):
        return [self.model.tokenizer.token_bytes(i) for i in range(self.model.config()["vocab_size"])]

    def test_generations_match(self):
        grammar, own = tl.Grammar("red light|green (light|lamp)"), tl.Grammar("red light|green (light|lamp)")
        own.set_token_vocabulary(self.words())
        for seed in range(8):
            p = dict(temperature=2.0 * (seed > 0), top_k=20, seed=seed, repetition_penalty=1.2, max_tokens=40)
            seen = []
            stream = self.model.generate_stream(self.prompt, seen.append, grammar=grammar, **p)
            self.assertIn(stream["text"], self.TEXTS)
            self.assertEqual(stream["finish_reason"], "grammar-complete")
            self.assertEqual(seen, stream["tokens"][len(self.prompt):])
            for g in (grammar, own):
                self.assertEqual(self.model.generate(self.prompt, grammar=g, **p), stream["tokens"])

    def test_a_mask_goes_with_the_processors(self):
        grammar = tl.Grammar("[0-9]+")
        grammar.set_token_vocabulary(self.words())
        matcher = grammar.matcher()
        p = tl.process_logits(self.model.score_last(self.prompt), grammar_mask=matcher.mask())
        self.assertTrue(all(self.model.tokenizer.token_bytes(int(i)).isdigit() for i in np.flatnonzero(p)))
        self.assertFalse(matcher.is_accepting())
        matcher.advance(int(p.argmax()))
        self.assertTrue(matcher.is_accepting())
        matcher.rollback(1)
        self.assertFalse(matcher.is_accepting())
        with self.assertRaises(ValueError):
            matcher.advance(self.model.tokenizer.encode("x")[0])

    def test_texts_are_checked_without_a_vocabulary(self):
        self.assertTrue(tl.Grammar(r"\w+").accepts("größer"))
        self.assertFalse(tl.Grammar(r"\w+", unicode_classes=False).accepts("größer".encode()))

    def test_what_is_wrong_is_a_value_error_with_its_place(self):
        for pattern in ("a(b", r"(a)\1", "a++"):
            with self.subTest(pattern), self.assertRaisesRegex(ValueError, r"byte \d"):
                tl.Grammar(pattern)
        other = tl.Grammar("a")
        other.set_token_vocabulary([b"a"] * len(self.words()))
        for grammar in (other, "a"):
            with self.subTest(grammar), self.assertRaises(ValueError):
                self.model.generate(self.prompt, grammar=grammar)
        with self.assertRaises(ValueError):
            other.set_token_vocabulary([b"c"])
        with self.assertRaises(ValueError):
            tl.Grammar("a").matcher()


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

    def test_the_lens_is_a_score_at_every_depth(self):
        for p in (dict(), dict(chunk_size=2), dict(kv_mode="fp32", exact_activations=True), dict(cache_window=3)):
            lens = self.model.score_logit_lens(self.prompt, loops=5, **p)
            self.assertEqual((lens.shape, lens.dtype), ((5, *self.model.score(self.prompt).shape), np.float32))
            for loops in range(1, 6):
                np.testing.assert_array_equal(lens[loops - 1], self.model.score(self.prompt, loops=loops, **p))
        self.assertTrue((lens[0] != lens[4]).any())

    def test_the_trajectory_grows_with_the_loops(self):
        c = self.model.config()
        deep = self.model.score_trajectory(self.prompt, loops=4)
        self.assertEqual((deep.shape, deep.dtype), ((1 + c["n_pre_blocks"] + 4, len(self.prompt), c["dim"]), np.float32))
        np.testing.assert_array_equal(self.model.score_trajectory(self.prompt, loops=2), deep[:-2])
        np.testing.assert_array_equal(self.model.score_trajectory(self.prompt, loops=4, chunk_size=2), deep)
        for step in range(1, len(deep)):
            self.assertTrue((deep[step] != deep[step - 1]).any(axis=1).all(), step)

    def test_uncertainty_is_the_kl_between_depths(self):
        out = self.model.score_with_uncertainty(self.prompt, loops=4)
        self.assertEqual(sorted(out), ["kl", "logits", "uncertainty"])
        self.assertEqual({a.dtype for a in out.values()}, {np.dtype(np.float32)})
        lens = self.model.score_logit_lens(self.prompt, loops=4)
        x = lens.astype(np.float64)
        log_p = x - x.max(axis=-1, keepdims=True)
        log_p -= np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
        kl = (np.exp(log_p[1:]) * (log_p[1:] - log_p[:-1])).sum(axis=-1).T
        np.testing.assert_array_equal(out["logits"], lens[-1])
        np.testing.assert_allclose(out["kl"], kl, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(out["uncertainty"], kl.mean(axis=1), rtol=1e-5, atol=1e-7)
        self.assertGreater(out["kl"].min(), 0)
        chunked = self.model.score_with_uncertainty(self.prompt, loops=4, chunk_size=2)
        for name, array in out.items():
            np.testing.assert_array_equal(array, chunked[name])

    def test_consistency_is_about_the_likeliest_ids(self):
        out = self.model.score_with_consistency(self.prompt, loops=4)
        self.assertEqual({name: a.dtype.name for name, a in out.items()},
                         {"logits": "float32", "argmax": "int32", "stable_from": "int32", "consistent": "bool"})
        lens = self.model.score_logit_lens(self.prompt, loops=4)
        np.testing.assert_array_equal(out["logits"], lens[-1])
        np.testing.assert_array_equal(out["argmax"], lens.argmax(axis=-1))
        for t, column in enumerate(out["argmax"].T.tolist()):
            stable = [l for l in range(1, 5) if set(column[l - 1:]) == {column[-1]}]
            self.assertEqual(int(out["stable_from"][t]), stable[0])
            self.assertEqual(bool(out["consistent"][t]), len(set(column)) == 1)
        self.assertGreater(len(set(out["stable_from"].tolist())), 1)
        chunked = self.model.score_with_consistency(self.prompt, loops=4, chunk_size=2)
        for name, array in out.items():
            np.testing.assert_array_equal(array, chunked[name])

    def test_one_loop_has_nothing_to_compare(self):
        n = len(self.prompt)
        uncertain = self.model.score_with_uncertainty(self.prompt, loops=1)
        self.assertEqual(uncertain["kl"].shape, (n, 0))
        np.testing.assert_array_equal(uncertain["uncertainty"], np.zeros(n))
        self.assertTrue(self.model.score_with_consistency(self.prompt, loops=1)["consistent"].all())

    def test_every_score_is_the_same_uncached(self):
        def scores():
            m, p = self.model, dict(loops=3)
            return [m.score(self.prompt, **p), m.score_logit_lens(self.prompt, **p), m.score_trajectory(self.prompt, **p),
                    *m.score_with_uncertainty(self.prompt, **p).values(), *m.score_with_consistency(self.prompt, **p).values()]
        cached = scores()
        tl._engine.GLib.setenv("TINYLOOP_DISABLE_KV_CACHE", "1", True)
        try:
            for a, b in zip(cached, scores()):
                np.testing.assert_array_equal(a, b)
        finally:
            tl._engine.GLib.unsetenv("TINYLOOP_DISABLE_KV_CACHE")

    def test_ranges(self):
        for name in SCORES:
            score = getattr(self.model, name)
            for bad in (dict(loops=0), dict(loops=10 ** 6), dict(loops=1.5), dict(kv_mode="int3"), dict(chunk_size=-1)):
                with self.subTest(name, bad=bad), self.assertRaises(ValueError):
                    score(self.prompt, **bad)
            for tokens in ([], [[1]], [1.5], [-1], [self.model.config()["vocab_size"]]):
                with self.subTest(name, tokens=tokens), self.assertRaises(ValueError):
                    score(tokens)
            with self.assertRaisesRegex(RuntimeError, "max_seq_len"):
                score([5] * (self.model.max_seq_len + 1))

    def test_a_tensor_outlives_its_model(self):
        with tl.Model(DEMO) as model:
            last, kl = model.score_last(self.prompt), model.score_with_uncertainty(self.prompt)["kl"]
        self.assertTrue(np.isfinite(last).all() and np.isfinite(kl).all())


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


    def test_chat_is_the_template_around_plain_text(self):
        tokenizer = self.model.tokenizer
        self.assertEqual(tokenizer.chat("turn on the light"), self.prompt.tolist())
        self.assertNotIn(0, tokenizer.chat("a<|end|>b"))
        self.assertEqual(tokenizer.decode(tokenizer.chat("a<|end|>b")), "<|cmd|>a<|end|>b<|json|>")

    def test_what_is_no_text_is_refused(self):
        tokenizer = self.model.tokenizer
        for call in (lambda: tokenizer.encode(5), lambda: tokenizer.chat(b"a"), lambda: tl.Tokenizer(5), lambda: tl.Model(None),
                     lambda: self.model.generate([1], stop=[b"a"])):
            self.assertRaises(TypeError, call)
        for call in (lambda: tokenizer.chat("a\0b"), lambda: tokenizer.chat("a", system="\0"), lambda: tl.Model("a\0b"),
                     lambda: self.model.generate([1], stop="a\0b")):
            self.assertRaisesRegex(ValueError, "NUL", call)


class Closing(unittest.TestCase):
    def test_a_closed_model_says_so(self):
        with tl.Model(DEMO) as model:
            self.assertGreater(model.vram_usage_mb(), 0)
        model.close()
        for call in (lambda: model.generate([1]), lambda: model.generate_stream([1], None), lambda: model.score([1]),
                     *[lambda name=name: getattr(model, name)([1]) for name in SCORES], model.config, model.vram_usage_mb, model.__enter__):
            with self.assertRaisesRegex(RuntimeError, "^model was closed$"):
                call()

    def test_closing_ends_what_runs(self):
        model, seen, closed, errors = tl.Model(DEMO), threading.Event(), threading.Event(), []

        def on_token(token):
            seen.set()
            closed.wait(60)

        def run():
            try:
                model.generate_stream([5, 6, 7], on_token, max_tokens=100)
            except RuntimeError as error:
                errors.append(str(error))
        thread = threading.Thread(target=run)
        thread.start()
        seen.wait()
        model.close()
        closed.set()
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


def with_ctrl_c(real, outcomes):
    """`real`, with a Ctrl-C to the main thread before it runs; `outcomes` gets the code of the error it ends with"""
    def call(*args):
        cancellable, cancelled = args[-1], threading.Event()
        cancellable.connect(lambda *_: cancelled.set())
        os.kill(os.getpid(), signal.SIGINT)
        cancelled.wait(60)
        try:
            return real(*args)
        except tl._engine.GLib.Error as error:
            outcomes.append(int(error.code))
            raise
    return call


class Interrupting(WithModel):
    def assert_interrupted(self, owner, name, run):
        outcomes = []
        before = signal.getsignal(signal.SIGINT)
        with mock.patch.object(owner, name, with_ctrl_c(getattr(owner, name), outcomes)):
            with self.assertRaises(KeyboardInterrupt):
                run()
        self.assertEqual(outcomes, [int(GI.Error.CANCELLED)])
        self.assertIs(signal.getsignal(signal.SIGINT), before)

    def test_ctrl_c_ends_a_load(self):
        self.assert_interrupted(GI.Model, "load", lambda: tl.load(DEMO))

    def test_ctrl_c_ends_a_score_and_the_model_goes_on(self):
        for name in SCORES:
            self.assert_interrupted(GI.Model, name + "_bytes", lambda: getattr(self.model, name)(self.prompt))
        self.assertTrue(np.isfinite(self.model.score_last(self.prompt)).all())

    def test_ctrl_c_in_the_middle_of_a_long_score(self):
        program = """import os, signal, sys, threading, tinyloop_py as tl
model = tl.load(os.environ["TINYLOOP_DEMO"])
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        model.score([5] * 1000, loops=8)
except KeyboardInterrupt:
    print("interrupted")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "interrupted\n"), done.stderr)

    def test_other_threads_are_not_concerned(self):
        rows = []
        thread = threading.Thread(target=lambda: rows.append(self.model.score_last(self.prompt)))
        thread.start()
        thread.join()
        np.testing.assert_array_equal(rows[0], self.model.score_last(self.prompt))


class LoadingLater(unittest.TestCase):
    def load(self, path, cancellable=None):
        """-> what finish gave, progress seen"""
        loop, model, seen, result = tl._engine.GLib.MainLoop(), GI.Model(path=path), [], []

        def ready(source, outcome):
            try:
                result.append(source.load_finish(outcome))
            except tl._engine.GLib.Error as error:
                result.append(int(error.code))
            loop.quit()
        model.connect("notify::load-progress", lambda m, _: seen.append(m.props.load_progress))
        self.assertFalse(model.props.loaded)
        model.load_async(cancellable, ready)
        loop.run()
        return result, seen, model

    def test_progress_rises_to_a_loaded_model(self):
        result, seen, model = self.load(DEMO)
        self.assertEqual((result, seen[-1], model.props.loaded), ([True], 100, True))
        self.assertEqual(seen, sorted(seen))
        generation = model.generate_bytes(tl._engine.to_bytes(tl._engine.ids_array([5, 6])), None, None)
        self.assertGreater(len(tl._engine.from_bytes(generation.get_tokens_bytes())), 2)

    def test_a_missing_file_is_an_error_at_the_end(self):
        self.assertEqual(self.load("no-such.tinyloop")[0], [int(GI.Error.BAD_FILE)])

    def test_a_cancelled_load_says_so(self):
        cancellable = tl._engine.Gio.Cancellable()
        cancellable.cancel()
        result, _, model = self.load(DEMO, cancellable)
        self.assertEqual((result, model.props.loaded), ([int(GI.Error.CANCELLED)], False))


class Package(unittest.TestCase):
    def test_stubs_have_the_parameters_of_the_code(self):
        with open(os.path.splitext(tl.__file__)[0] + ".pyi") as f:
            stubs = ast.parse(f.read())
        functions = [(tl, node) for node in stubs.body if isinstance(node, ast.FunctionDef)]
        for node in stubs.body:
            if isinstance(node, ast.ClassDef) and hasattr(tl, node.name):
                functions += [(getattr(tl, node.name), f) for f in node.body if isinstance(f, ast.FunctionDef)]
        self.assertGreater(len(functions), 12)
        for owner, stub in functions:
            real = inspect.signature(getattr(owner, stub.name)).parameters
            named = [a.arg for a in stub.args.args + stub.args.kwonlyargs]
            takes_more = any(p.kind == p.VAR_KEYWORD for p in real.values())
            unknown = [n for n in named if n not in real and not takes_more]
            missing = [n for n, p in real.items() if n not in named and not n.startswith("_")
                       and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
            self.assertEqual((unknown, missing), ([], []), stub.name)

    def test_help_says_what_there_is(self):
        text = pydoc.plain(pydoc.render_doc(tl))
        for word in ("Grammar", "Model", "Tokenizer", "process_logits", "generate_stream", "score_last", "float32 [T, V]",
                     "float32 [L, T, V]", "[1 + n_pre_blocks + L, T, D]", "[T, L - 1]", "stable_from int32"):
            self.assertIn(word, text)
        for name in tl.__all__:
            self.assertTrue(inspect.getdoc(getattr(tl, name)), name)
        for name, method in inspect.getmembers(tl.Model, inspect.isfunction):
            self.assertTrue(name.startswith("_") or inspect.getdoc(method), name)

    def test_the_wheel_runs(self):
        wheel = os.environ.get("TINYLOOP_WHEEL")
        if not wheel:
            self.skipTest("no wheel was built")
        program = ("import os, tinyloop_py as tl; assert '.whl' in tl.__file__; "
                   "print(len(tl.load(os.environ['TINYLOOP_DEMO']).generate([5, 6], max_tokens=3)))")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, PYTHONPATH=wheel))
        self.assertEqual((done.returncode, done.stdout), (0, "5\n"), done.stderr)


class Importing(unittest.TestCase):
    def refused(self, word, program):
        """the program ends with one ImportError that holds the word"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        last = done.stderr.strip().splitlines()[-1]
        self.assertEqual(done.returncode, 1)
        self.assertRegex(last, r"^ImportError: tinyloop_py needs ")
        self.assertIn(word, last)

    def test_a_missing_typelib_and_a_missing_pygobject_are_named(self):
        absent = "def absent(*_): raise ValueError('Namespace TinyLoop not available')\n"
        self.refused("GI_TYPELIB_PATH", f"import gi\n{absent}gi.require_version = absent\nimport tinyloop_py")
        self.refused("python3-gi", "import sys\nsys.modules['gi'] = None\nimport tinyloop_py")


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
