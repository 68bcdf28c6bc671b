#!/usr/bin/python3
"""tests/introspection/story.py — the library from plain PyGObject, without tinyloop_py: the story of story.js and story.lua.

Besides: every function that the typelib names is in the library. Run by meson with GIR, typelib and library of the build.
"""
import array
import ctypes
import os
import re
import subprocess
import unittest

import gi
gi.require_version("TinyLoop", "1.0")
from gi.repository import GLib, TinyLoop        # noqa: E402


def bytes_of(ids):
    return GLib.Bytes.new(array.array("i", ids).tobytes())


def ids_of(data):
    return list(array.array("i", data.get_data()))


class Story(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = TinyLoop.Model.new(os.environ["TINYLOOP_DEMO"])
        cls.model.load(None)
        cls.prompt = ids_of(cls.model.get_tokenizer().encode_chat_bytes(None, "turn on the light"))

    def assert_raises(self, code, call):
        with self.assertRaises(GLib.Error) as caught:
            call()
        self.assertTrue(caught.exception.matches(TinyLoop.error_quark(), code), caught.exception)

    def test_a_reply_comes_token_by_token_and_is_the_one_of_the_whole_run(self):
        config = TinyLoop.GenerateConfig(max_tokens=12, loops=3, temperature=0.8, seed=5, ignore_eos=True)
        generator, seen, step = self.model.begin(bytes_of(self.prompt), config), [], None
        while step != TinyLoop.Step.END:
            step, token = generator.step(None)
            if step == TinyLoop.Step.TOKEN:
                self.assertEqual((token.index, token.position, token.loops), (len(seen), len(self.prompt) + len(seen), 3))
                seen.append(token.id)
        whole = self.model.generate_bytes(bytes_of(self.prompt), config, None)
        self.assertEqual(ids_of(whole.get_tokens_bytes()), self.prompt + seen)
        self.assertEqual(generator.finish().get_text(), whole.get_text())
        self.assertEqual(whole.get_finish_reason(), TinyLoop.FinishReason.LENGTH)

    def test_a_grammar_bounds_the_reply(self):
        grammar = TinyLoop.Grammar.new_regex("(red|green) light", -1, TinyLoop.RegexFlags.NONE)
        reply = self.model.generate_bytes(bytes_of(self.prompt), TinyLoop.GenerateConfig(grammar=grammar), None)
        self.assertRegex(reply.get_text(), "^(red|green) light$")
        self.assertEqual(reply.get_finish_reason(), TinyLoop.FinishReason.GRAMMAR_COMPLETE)

    def test_a_score_is_a_tensor_of_floats(self):
        tensor = self.model.score_last_bytes(bytes_of(self.prompt), TinyLoop.GenerateConfig(loops=3), None)
        logits = array.array("f", tensor.dup_bytes().get_data())
        self.assertEqual((tensor.get_dtype(), tensor.get_n_dims(), tensor.get_dim(0)), ("float32", 1, len(logits)))
        greedy = self.model.generate_bytes(bytes_of(self.prompt), TinyLoop.GenerateConfig(loops=3, max_tokens=1), None)
        self.assertEqual(ids_of(greedy.get_tokens_bytes())[-1], logits.index(max(logits)))

    def test_bytes_of_a_tensor_outlive_it(self):
        data = self.model.score_last_bytes(bytes_of(self.prompt), None, None).dup_bytes()
        again = self.model.score_last_bytes(bytes_of(self.prompt), None, None)
        self.assertEqual(data.get_data(), ctypes.string_at(again.get_address(), again.get_n_bytes()))

    def test_errors_have_the_domain_and_code_of_the_library(self):
        self.assert_raises(TinyLoop.Error.INVALID_ARGUMENT, lambda: self.model.begin(bytes_of([self.model.props.vocab_size]), None))
        self.assert_raises(TinyLoop.Error.BAD_FILE, lambda: TinyLoop.Model.new("no-such.tinyloop").load(None))
        closed = TinyLoop.Model.new(os.environ["TINYLOOP_DEMO"])
        closed.load(None)
        closed.close()
        self.assert_raises(TinyLoop.Error.CLOSED, lambda: closed.generate_bytes(bytes_of(self.prompt), None, None))

    def test_every_function_that_the_bindings_name_is_in_the_library(self):
        with open(os.environ["TINYLOOP_GIR"]) as f:
            gir = f.read()
        named = set(re.findall(r'c:identifier="(tl_\w+)"(?![^>]*introspectable="0")', gir) + re.findall(r'glib:get-type="(tl_\w+)"', gir))
        symbols = subprocess.run(["nm", "-D", "--defined-only", os.environ["TINYLOOP_LIBRARY"]], check=True, capture_output=True, text=True)
        self.assertGreater(len(named), 100)
        self.assertEqual(sorted(named - {line.split()[-1] for line in symbols.stdout.splitlines()}), [])


if __name__ == "__main__":
    unittest.main()
