#!/usr/bin/python3
"""tests/python/api.py — tinyloop_py on the demo model: shapes, identities, stops, grammars, scores, processors, text."""
import threading
import unittest

import numpy as np
import tinyloop_py as tl
from common import DEMO, GLib, WithModel

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
            GLib.setenv("TINYLOOP_DISABLE_KV_CACHE", "1", True)
            try:
                self.assertEqual(self.model.generate(self.prompt, max_tokens=8, loops=2, **p), whole)
            finally:
                GLib.unsetenv("TINYLOOP_DISABLE_KV_CACHE")

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
        GLib.setenv("TINYLOOP_DISABLE_KV_CACHE", "1", True)
        try:
            for a, b in zip(cached, scores()):
                np.testing.assert_array_equal(a, b)
        finally:
            GLib.unsetenv("TINYLOOP_DISABLE_KV_CACHE")

    def test_a_tensor_outlives_its_model(self):
        with tl.Model(DEMO) as model:
            last, kl = model.score_last(self.prompt), model.score_with_uncertainty(self.prompt)["kl"]
        self.assertTrue(np.isfinite(last).all() and np.isfinite(kl).all())


class Processing(unittest.TestCase):
    LOGITS = np.array([0, 1, 2, 3], np.float32)

    def test_softmax_top_k_and_mask(self):
        p = tl.process_logits(self.LOGITS)
        self.assertEqual((p.shape, p.dtype), ((4,), np.float32))
        np.testing.assert_allclose(p, np.exp(self.LOGITS) / np.exp(self.LOGITS).sum(), rtol=1e-6)
        np.testing.assert_allclose(tl.process_logits(self.LOGITS, top_k=1), [0, 0, 0, 1])
        np.testing.assert_allclose(tl.process_logits(self.LOGITS, grammar_mask=[1, 1, 0, 0], temperature=0), [0, 1, 0, 0])

    def test_the_penalty_knows_the_sign_and_counts_an_id_once(self):
        weaker = np.array([-2.0, 0.5, 1, 3], np.float32)
        np.testing.assert_allclose(tl.process_logits([-1, 1, 1, 3], [0, 1, 1, 1, 0], repetition_penalty=2.0),
                                   np.exp(weaker) / np.exp(weaker).sum(), rtol=1e-6)

    def test_min_p_and_top_p_keep_the_likeliest(self):
        self.assertEqual(np.flatnonzero(tl.process_logits(self.LOGITS, min_p=0.3)).tolist(), [2, 3])
        self.assertEqual(np.flatnonzero(tl.process_logits(self.LOGITS, top_p=0.65)).tolist(), [2, 3])

    def test_anything_numpy_can_make_floats_of_is_taken(self):
        for logits in ([0, 1, 2, 3], np.arange(4), np.arange(4.0), np.arange(8, dtype=np.float32)[::2] / 2):
            np.testing.assert_array_equal(tl.process_logits(logits), tl.process_logits(self.LOGITS))

    def test_numbers_that_are_none_and_masks_that_leave_none_are_errors(self):
        with self.assertRaises(RuntimeError):
            tl.process_logits(self.LOGITS, grammar_mask=[0, 0, 0, 0])
        for bad in (np.nan, np.inf):
            with self.assertRaises(RuntimeError):
                tl.process_logits(np.array([0, bad], np.float32))
            with self.assertRaises(RuntimeError):
                tl.process_logits(np.array([0, bad], np.float32), temperature=0.0)
        self.assertEqual(tl.process_logits(np.array([0, -np.inf], np.float32)).tolist(), [1, 0])

    def test_what_does_not_fit_is_refused(self):
        for args, p in (((np.zeros((2, 2)),), {}), (([],), {}), ((self.LOGITS, [4]), {}), ((self.LOGITS, [-1]), {}),
                        ((self.LOGITS, [0.5]), {}), ((self.LOGITS, [], [1, 0]), {}), ((self.LOGITS,), dict(temperature=-1)),
                        ((self.LOGITS,), dict(top_k=-1)), ((self.LOGITS,), dict(top_p=0)), ((["a"],), {})):
            with self.subTest(args, **p), self.assertRaises(ValueError):
                tl.process_logits(*args, **p)
        with self.assertRaises(TypeError):
            tl.process_logits(self.LOGITS, [], None, 1.0)


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


if __name__ == "__main__":
    unittest.main()
