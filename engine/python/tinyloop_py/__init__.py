"""tinyloop_py — looped language models from Python: load, generate, score; numpy in, numpy out.

    import tinyloop_py as tl
    with tl.Model("demo.tinyloop") as model:
        ids = model.tokenizer.encode("Hello")
        print(model.tokenizer.decode(model.generate(ids, max_tokens=32)))

A thin layer over the GObject bindings of the engine (namespace TinyLoop).
"""
from ._grammar import Grammar, Matcher
from ._model import Model, load
from ._process import process_logits
from ._tokenizer import Tokenizer

__all__ = ["Grammar", "Matcher", "Model", "Tokenizer", "load", "process_logits"]
