#!/usr/bin/python3
"""tests/python/package.py — what the package shows of itself: signatures, type stubs, help, and errors of the import.

Run by meson like all of this folder (common.py).
"""
import ast
import inspect
import os
import pydoc
import subprocess
import sys
import unittest

import tinyloop_py as tl

# the calls as the seeds' documentation gives them: names, order and defaults
GENERATE = dict(max_tokens=64, loops=None, temperature=0.0, top_k=50, top_p=1.0, cache_window=0, repetition_penalty=1.0,
                stop_sequences=(), early_exit_patience=0, early_exit_min_L=2, early_exit_tau=1e-3, early_exit_peek_every=1,
                early_exit_logit_margin=0.0, beam_size=0, length_penalty=1.0, early_stopping=True, grammar=None)
PROMISED = {
    "generate": (["prompt"], GENERATE),
    "generate_stream": (["prompt", "on_token"], GENERATE),
    **{name: (["tokens"], dict(loops=None)) for name in
       ("score", "score_last", "score_logit_lens", "score_trajectory", "score_with_uncertainty", "score_with_consistency")},
}
TYPE_OF_NONE = "Optional["


def parameters(function):
    """of a signature: {name: (kind, default)}"""
    return {p.name: (p.kind.name, p.default) for p in inspect.signature(function).parameters.values()}


def stub_parameters(node):
    """of a stub: {name: (kind, default)}, {name: type}"""
    a = node.args
    plain = [None] * (len(a.args) - len(a.defaults)) + a.defaults
    found = [(p, "POSITIONAL_OR_KEYWORD", d) for p, d in zip(a.args, plain)]
    found += [(a.vararg, "VAR_POSITIONAL", None)] if a.vararg else []
    found += [(p, "KEYWORD_ONLY", d) for p, d in zip(a.kwonlyargs, a.kw_defaults)]
    return ({p.arg: (kind, inspect.Parameter.empty if d is None else ast.literal_eval(d)) for p, kind, d in found},
            {p.arg: ast.unparse(p.annotation) for p, _, _ in found if p.annotation})


def stubs():
    """(owner, name, node) of every function and property of the stub file"""
    with open(os.path.splitext(tl.__file__)[0] + ".pyi") as f:
        body = ast.parse(f.read()).body
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield tl, node.name, node
        elif isinstance(node, ast.ClassDef) and "TypedDict" not in [ast.unparse(base) for base in node.bases]:
            owner = getattr(tl, node.name)
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield owner, inner.name, inner


class Signatures(unittest.TestCase):
    def test_stubs_and_code_have_the_same_parameters_kinds_and_defaults(self):
        n = 0
        for owner, name, node in stubs():
            with self.subTest(owner=owner.__name__, name=name):
                real = inspect.getattr_static(owner, name)
                if isinstance(real, property):
                    self.assertEqual([ast.unparse(d) for d in node.decorator_list], ["property"])
                    continue
                self.assertEqual(list(stub_parameters(node)[0].items()), list(parameters(getattr(owner, name)).items()))
                n += 1
        self.assertGreater(n, 25)

    def test_stubs_leave_out_nothing_public(self):
        said = {(owner.__name__, name) for owner, name, _ in stubs()}
        for owner in (tl.Model, tl.Tokenizer, tl.Grammar, tl.Matcher):
            public = {(owner.__name__, name) for name in vars(owner) if not name.startswith("_")}
            self.assertEqual(public - said, set())
        self.assertIn(("tinyloop_py", "process_logits"), said)
        self.assertEqual(sorted(tl.__all__), [n for n in sorted(vars(tl)) if not n.startswith("_")])

    def test_types_of_stubs_fit_the_defaults(self):
        for owner, name, node in stubs():
            defaults, types = stub_parameters(node)
            for parameter, (_, default) in defaults.items():
                if default is None:
                    self.assertTrue(types[parameter].startswith(TYPE_OF_NONE), f"{name}: {parameter}")
                elif type(default) in (bool, int, float, str):
                    self.assertEqual(types[parameter], type(default).__name__, f"{name}: {parameter}")

    def test_the_promised_calls_are_there_by_name_order_and_default(self):
        for name, (first, rest) in PROMISED.items():
            with self.subTest(name):
                shown = parameters(getattr(tl.Model, name))
                positional = [n for n, (kind, _) in shown.items() if kind == "POSITIONAL_OR_KEYWORD"]
                self.assertEqual(positional, ["self", *first, *rest])
                self.assertEqual({n: shown[n][1] for n in rest}, rest)
                self.assertNotIn("VAR_KEYWORD", [kind for kind, _ in shown.values()])
        self.assertIs(tl.load, tl.Model)

    def test_a_wrong_call_is_a_type_error_with_the_functions_name(self):
        for args, kwargs in (((None,), dict(max_token=1)), ((), {}), ((None, [1]), dict(prompt=[1]))):
            with self.subTest(kwargs), self.assertRaisesRegex(TypeError, r"^generate\(\): "):
                tl.Model.generate(*args, **kwargs)


class Help(unittest.TestCase):
    def test_help_says_what_there_is(self):
        text = pydoc.plain(pydoc.render_doc(tl))
        for word in ("Grammar", "Model", "Tokenizer", "process_logits", "generate_stream", "score_last", "float32 [T, V]",
                     "float32 [L, T, V]", "[1 + n_pre_blocks + L, T, D]", "[T, L - 1]", "stable_from int32", "first_token_ms",
                     "RuntimeError", "ValueError"):
            self.assertIn(word, text)

    def test_every_public_name_has_a_docstring_of_lines_that_fit(self):
        for owner in [getattr(tl, name) for name in tl.__all__]:
            self.assertTrue(inspect.getdoc(owner), owner)
            for name, member in vars(owner).items() if inspect.isclass(owner) else ():
                if not name.startswith("_"):
                    doc = inspect.getdoc(member)
                    self.assertTrue(doc, f"{owner.__name__}.{name}")
                    self.assertLessEqual(max(map(len, doc.splitlines())), 125, f"{owner.__name__}.{name}")

    def test_generate_lists_every_parameter(self):
        listed = inspect.getdoc(tl.Model.generate)
        for name in list(parameters(tl.Model.generate))[2:]:
            self.assertRegex(listed, rf"(?m)^    {name}: \S")


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

    def test_without_docstrings_it_works_too(self):
        program = "import tinyloop_py as tl; assert tl.Model.generate.__doc__ is None; print(len(tl.__all__))"
        done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{len(tl.__all__)}\n", ""))


if __name__ == "__main__":
    unittest.main()
