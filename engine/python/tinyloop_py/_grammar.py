"""Grammar: what a reply must match; Matcher: where in it a text stands."""
import numpy as np

from ._checks import integer
from ._engine import GLib, TinyLoop, Wrapped, ids_array, python_errors, text as plain, to_bytes


class Grammar(Wrapped):
    """A regex that the whole text must match (docs/grammar.md). For generate(grammar=…), by any number of threads."""

    def __init__(self, regex, unicode_classes=True):
        flags = TinyLoop.RegexFlags.NONE if unicode_classes else TinyLoop.RegexFlags.ASCII_CLASSES
        try:
            self._inner = TinyLoop.Grammar.new_regex(plain("regex", regex), -1, flags)
        except GLib.Error as error:     # of whatever kind: the pattern is at fault, and the sentence names its byte
            raise ValueError(error.message) from None

    def set_token_vocabulary(self, token_bytes, end_ids=()):
        """Binds it to a list of bytes, one a token id (b"" matches nothing); without it generate() binds it to the model's."""
        pieces = [bytes(memoryview(piece)) for piece in token_bytes]
        offsets = np.cumsum([0] + [len(piece) for piece in pieces])
        if offsets[-1] > np.iinfo(np.int32).max:
            raise ValueError(f"the vocabulary has {offsets[-1]} bytes, but may have 2^31 - 1")
        ends = to_bytes(ids_array(end_ids, "end_ids") if len(end_ids) else np.empty(0, np.int32))
        with python_errors():
            self._inner.set_vocabulary(TinyLoop.TokenTrie.new(
                GLib.Bytes.new(b"".join(pieces)), to_bytes(offsets.astype(np.int32)), ends))

    def accepts(self, text):
        """whether the whole of `text` (bytes or str) matches; needs no vocabulary"""
        with python_errors():
            return self._inner.accepts(GLib.Bytes.new(text.encode() if isinstance(text, str) else bytes(memoryview(text))))

    def matcher(self):
        """a Matcher at the beginning; the grammar must have a vocabulary"""
        with python_errors():
            return Matcher._of(self._inner.create_matcher())


class Matcher(Wrapped):
    """Where a text stands in its grammar; made by Grammar.matcher()."""

    _made_by = "Grammar.matcher()"

    def mask(self):
        """which ids may follow: bool [vocabulary]"""
        with python_errors():
            bits = np.frombuffer(self._inner.get_mask(0).get_data(), np.uint8)
        return np.unpackbits(bits, bitorder="little")[:self._inner.get_vocabulary().get_vocab_size()].astype(bool)

    def advance(self, token_id):
        """Goes on behind a token; ValueError, and nothing changes, when it is not legal."""
        with python_errors():
            self._inner.advance(integer(0, 2 ** 31 - 1)("token_id", token_id))

    def rollback(self, n):
        """Takes n tokens back."""
        with python_errors():
            self._inner.rollback(integer(0)("n", n))

    def is_accepting(self):
        """whether the text so far matches"""
        return self._inner.is_accepting()
