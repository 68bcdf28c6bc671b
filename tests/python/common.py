"""tests/python/common.py — the demo model, loaded once a class; imported by the tests of this folder.

meson runs them with the typelib, library and package of the build; $TINYLOOP_DEMO names the model.
"""
import os
import unittest

import numpy as np
import tinyloop_py as tl

DEMO = os.environ["TINYLOOP_DEMO"]
GI = tl._engine.TinyLoop
GLib = tl._engine.GLib
SCORES = ("score", "score_last", "score_logit_lens", "score_trajectory", "score_with_uncertainty", "score_with_consistency")


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tl.load(DEMO)
        cls.prompt = np.array(cls.model.tokenizer.encode("<|cmd|>turn on the light<|json|>", special=True), np.int32)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
