"""Tokenizer: text to ids and back, from a model or a file of its own."""
import os

from ._checks import integer
from ._engine import GLib, TinyLoop, Wrapped, from_bytes, ids_array, python_errors, text as plain, to_bytes


class Tokenizer(Wrapped):
    """Text to ids and back, for any number of threads. path: a `.tinyloop` file, a tokenizer.json or a folder with one."""

    def __init__(self, path):
        with python_errors():
            self._inner = TinyLoop.Tokenizer.new_for_path(plain("path", os.fsdecode(path)))

    def encode(self, text, special=False):
        """ids of `text` (str or bytes); special: names of special tokens in it become those tokens. Adds neither BOS nor template."""
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(memoryview(text))
        flags = TinyLoop.EncodeFlags.SPECIAL if special else TinyLoop.EncodeFlags.NONE
        with python_errors():
            return from_bytes(self._inner.encode_bytes(GLib.Bytes.new(data), flags)).tolist()

    def chat(self, text, system=None):
        """ids of the prompt that the tokenizer's own chat template makes of `text`; special tokens in it are plain text"""
        with python_errors():
            return from_bytes(self._inner.encode_chat_bytes(system if system is None else plain("system", system),
                                                                 plain("text", text))).tolist()

    def decode(self, ids):
        """the text of ids; bytes that are no UTF-8 become U+FFFD"""
        if len(ids) == 0:
            return ""
        data = self._inner.decode(ids_array(ids, "ids").tolist())
        return (data.get_data() or b"").decode("utf-8", "replace")

    def token_bytes(self, token_id):
        """bytes of one id; b'' for ids without any"""
        data = self._inner.token_bytes(integer(0, 2 ** 31 - 1)("token_id", token_id))
        return (data.get_data() or b"") if data else b""

    @property
    def vocab_size(self):
        """how many ids there are"""
        return self._inner.get_vocab_size()

    @property
    def vocab_hash(self):
        """equal for tokenizers with the same ids"""
        return self._inner.get_vocab_hash()
