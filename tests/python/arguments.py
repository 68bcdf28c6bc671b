#!/usr/bin/python3
"""tests/python/arguments.py — what calls take and what they refuse: ids of every kind, every parameter at its limits, messages.

Run by meson like all of this folder (common.py).
"""
import unittest
import warnings

import numpy as np
import tinyloop_py as tl
from common import DEMO, SCORES, WithModel

NAN, INF = float("nan"), float("inf")
# parameter: (values that are taken, values that are a ValueError)
DRAWING = {
    "temperature": ([0, 0.0, 0.01, 1, np.float32(0.5)], [-1, -1e-9, NAN, INF, "hot", None]),
    "top_p": ([1, 1.0, 0.001], [0, -0.1, 1.0001, NAN, "all"]),
    "min_p": ([0, 0.999], [-0.1, 1, NAN]),
    "repetition_penalty": ([1, 0.5, 2.5], [0, -1, NAN, INF]),
}
GENERATING = {
    "max_tokens": ([1, np.int64(2), True], [0, -1, 1.0, "1", None, 2 ** 32]),
    "loops": ([None, 1, 8, np.int32(2)], [0, -1, 9, 10 ** 6, 1.5, "2", 2 ** 32]),
    "top_k": ([1, 5, 10 ** 6], [-1, 1.5, 2 ** 31]),
    "cache_window": ([0, 1, 10 ** 6], [-1, 0.5, 2 ** 32]),
    "presence_penalty": ([0, -1, 2], [NAN, INF]),
    "frequency_penalty": ([0, -1, 2], [NAN, INF]),
    "seed": ([0, 2 ** 64 - 1], [-1, 2 ** 64, 0.5]),
    "state_seed": ([0, 2 ** 64 - 1], [-1, 2 ** 64, 0.5]),
    "chunk_size": ([0, 1, 10 ** 6], [-1, 0.5]),
    "kv_mode": ([None, "default", "fp16", "fp32"], ["int3", "FP16", 16]),
    "ignore_eos": ([True, False, 0, 1], ["no", None, 2]),
    "exact_activations": ([True, False], ["no", None]),
    "stop_sequences": ([[], (), None, [[5]], [np.array([5, 6])], ([5], (6, 7))], [[[]], [[-1]], [[0.5]], [5], [[[5]]]]),
    "stop": ([[], (), None, "x", ["x", "yy"]], [[""], ""]),
    "grammar": ([None], ["a+", tl.Grammar]),
    **DRAWING,
}
SCORING = {name: GENERATING[name] for name in ("loops", "cache_window", "state_seed", "chunk_size", "kv_mode", "exact_activations")}


class Ranges(WithModel):
    def check(self, call, table, all_of_it=True):
        for name, (good, bad) in table.items():
            for value in good if all_of_it else good[:1]:
                with self.subTest(name, good=value):
                    call(**{name: value})
            for value in bad:
                with self.subTest(name, bad=value), self.assertRaisesRegex(ValueError, name):
                    call(**{name: value})

    def generate(self, **p):
        return self.model.generate([5, 6], **{"max_tokens": 1, **p})

    def test_generate_takes_its_ranges_and_nothing_else(self):
        self.check(self.generate, GENERATING)

    def test_generate_stream_too(self):
        self.check(lambda **p: self.model.generate_stream([5, 6], None, **{"max_tokens": 1, **p}), GENERATING, all_of_it=False)

    def test_every_score_too(self):
        for name in SCORES:
            self.check(lambda **p: getattr(self.model, name)([5, 6], **p), SCORING, all_of_it=name == "score")

    def test_the_processors_too(self):
        self.check(lambda **p: tl.process_logits([0.0, 1.0], **p), DRAWING)

    def test_top_k_may_be_zero_only_where_nothing_is_drawn(self):
        self.assertEqual(self.generate(top_k=0), self.generate())
        with self.assertRaisesRegex(ValueError, "top_k"):
            self.generate(top_k=0, temperature=0.8)
        tl.process_logits([0.0, 1.0], top_k=0, temperature=0.8)

    def test_up_to_a_hundredth_temperature_is_greedy(self):
        self.assertEqual(self.generate(temperature=0.01, top_k=0, seed=7, max_tokens=8), self.generate(max_tokens=8))

    def test_too_long_is_a_runtime_error_and_just_fitting_is_not(self):
        with tl.Model(DEMO, max_seq_len=8) as model:
            self.assertEqual(model.max_seq_len, 8)
            self.assertEqual(model.config()["max_seq_len"], 8)
            self.assertEqual(len(model.generate([5] * 6, max_tokens=2)), 8)
            self.assertEqual(len(model.score([5] * 8)), 8)
            for call in (lambda: model.generate([5] * 6, max_tokens=3), lambda: model.generate([5] * 8, max_tokens=1),
                         lambda: model.generate([5], max_tokens=2 ** 32 - 1),
                         lambda: model.generate_stream([5] * 6, None, max_tokens=3),
                         *[lambda name=name: getattr(model, name)([5] * 9) for name in SCORES]):
                with self.assertRaisesRegex(RuntimeError, "max_seq_len"):
                    call()

    def test_more_positions_than_the_checkpoints_are_a_warning(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with tl.Model(DEMO, max_seq_len=4096) as model:
                self.assertEqual(model.max_seq_len, 4096)
        self.assertEqual([w.filename for w in said], [__file__])
        self.assertRegex(str(said[0].message), "4096.*1024")

    def test_a_model_is_opened_by_sane_arguments_only(self):
        for p in (dict(max_seq_len=-1), dict(max_seq_len=1.5), dict(threads=-1), dict(max_cache_bytes=-1)):
            with self.subTest(p), self.assertRaisesRegex(ValueError, next(iter(p))):
                tl.Model(DEMO, **p)
        with self.assertRaises(TypeError):
            tl.Model(DEMO, device=None)

    def test_memory_that_does_not_suffice_is_named(self):
        with tl.Model(DEMO, max_cache_bytes=10000) as model:
            for call in (lambda: model.generate([5, 6, 7], max_tokens=100), lambda: model.score([5] * 100)):
                with self.assertRaisesRegex(RuntimeError, r"^out of memory: .*\d+ bytes"):
                    call()


class Ids(WithModel):
    CALLS = [lambda model, ids: model.generate(ids, max_tokens=2), lambda model, ids: model.score_last(ids).tolist(),
             lambda model, ids: model.generate_stream(ids, None, max_tokens=2)["tokens"]]

    def test_integers_of_every_kind_are_the_same_prompt(self):
        big_endian, strided = np.array([5, 6, 7], ">i4"), np.array([5, 0, 6, 0, 7], np.int32)[::2]
        kinds = [np.array([5, 6, 7], t) for t in "bBhHiIqQ"] + [(5, 6, 7), [np.int64(5), 6, np.uint8(7)], range(5, 8), big_endian, strided]
        for call in self.CALLS:
            expected = call(self.model, np.array([5, 6, 7], np.int32))
            for ids in kinds:
                with self.subTest(ids=ids):
                    self.assertEqual(call(self.model, ids), expected)

    def test_a_prompt_is_not_changed_and_may_be_read_only(self):
        ids = np.array([5, 6, 7], np.int32)
        ids.flags.writeable = False
        out = self.model.generate(ids, max_tokens=2)
        self.assertEqual(out[:3], ids.tolist())
        self.assertTrue(all(type(i) is int for i in out))

    def test_everything_else_is_refused_by_name(self):
        vocab = self.model.config()["vocab_size"]
        for ids, words in (([], "at least one"), (np.zeros(0, np.int32), "at least one"), ([[1]], "one-dimensional"), (5, "one-dimensional"),
                           (np.zeros((1, 3), np.int32), "one-dimensional"), ([1.0], "integers"), (np.array([1.0]), "integers"),
                           ([True], "integers"), ("abc", ""), (["a"], "integers"), (None, ""), ([None], "integers"),
                           ([1, -1], "negative"), ([2 ** 31], "int32"), ([2 ** 70], "integers"),
                           ([1, vocab], f"{vocab}"), ([2 ** 31 - 1], f"{2 ** 31 - 1}")):
            for call in self.CALLS:
                with self.subTest(ids=ids), self.assertRaisesRegex(ValueError, words):
                    call(self.model, ids)

    def test_an_id_that_the_vocabulary_lacks_is_named_with_its_place(self):
        vocab = self.model.config()["vocab_size"]
        for call in self.CALLS:
            with self.assertRaisesRegex(ValueError, rf"{vocab + 7}.*{vocab - 1}"):
                call(self.model, [5, vocab + 7])
        call(self.model, [vocab - 1])


class Words(WithModel):
    def test_what_is_no_text_is_refused(self):
        tokenizer = self.model.tokenizer
        for call in (lambda: tokenizer.encode(5), lambda: tokenizer.chat(b"a"), lambda: tl.Tokenizer(5), lambda: tl.Model(None),
                     lambda: self.model.generate([1], stop=[b"a"]), lambda: tl.Grammar(b"a"), lambda: tl.Grammar("a").accepts(5),
                     lambda: tl.Grammar("a").set_token_vocabulary([5]), tl.Matcher):
            self.assertRaises(TypeError, call)
        for call in (lambda: tokenizer.chat("a\0b"), lambda: tokenizer.chat("a", system="\0"), lambda: tl.Model("a\0b"),
                     lambda: self.model.generate([1], stop="a\0b"), lambda: tl.Grammar("a\0b")):
            self.assertRaisesRegex(ValueError, "NUL", call)
        for call in (lambda: tokenizer.token_bytes(-1), lambda: tokenizer.token_bytes(1.5), lambda: tokenizer.decode([-1])):
            self.assertRaises(ValueError, call)


if __name__ == "__main__":
    unittest.main()
