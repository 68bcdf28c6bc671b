"""Tokenizer: text to ids and back, from a model or a file of its own."""
import os

from ._engine import GLib, TinyLoop, from_bytes, ids_array, python_errors, text as plain, to_bytes


class Tokenizer:
    """Of a `.tinyloop` file, a tokenizer.json or a folder with one."""

    def __init__(self, path=None, *, _tokenizer=None):
        with python_errors():
            self._tokenizer = _tokenizer or TinyLoop.Tokenizer.new_for_path(plain("path", os.fsdecode(path))) if _tokenizer or path else None
        if self._tokenizer is None:
            raise ValueError("a path is needed")

    def encode(self, text, special=False):
        """ids of `text` (str or bytes); special: names of special tokens in it become those tokens. Adds neither BOS nor template."""
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(memoryview(text))
        flags = TinyLoop.EncodeFlags.SPECIAL if special else TinyLoop.EncodeFlags.NONE
        with python_errors():
            return from_bytes(self._tokenizer.encode_bytes(GLib.Bytes.new(data), flags)).tolist()

    def chat(self, text, system=None):
        """ids of the prompt that the tokenizer's own chat template makes of `text`; special tokens in it are plain text"""
        with python_errors():
            return from_bytes(self._tokenizer.encode_chat_bytes(system if system is None else plain("system", system),
                                                                 plain("text", text))).tolist()

    def decode(self, ids):
        """the text of ids; bytes that are no UTF-8 become U+FFFD"""
        if len(ids) == 0:
            return ""
        data = self._tokenizer.decode(ids_array(ids, "ids").tolist())
        return (data.get_data() or b"").decode("utf-8", "replace")

    def token_bytes(self, token_id):
        """bytes of one id; b'' for ids without any"""
        data = self._tokenizer.token_bytes(int(token_id))
        return (data.get_data() or b"") if data else b""

    @property
    def vocab_size(self):
        return self._tokenizer.get_vocab_size()

    @property
    def vocab_hash(self):
        return self._tokenizer.get_vocab_hash()
