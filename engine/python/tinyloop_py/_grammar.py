"""Grammar: what a reply must match; Matcher: where in it a text stands."""
import numpy as np

from ._engine import GLib, TinyLoop, python_errors, to_bytes


class Grammar:
    """A regex that the whole text must match (docs/grammar.md). For generate(grammar=…), by any number of threads."""

    def __init__(self, regex, unicode_classes=True):
        flags = TinyLoop.RegexFlags.NONE if unicode_classes else TinyLoop.RegexFlags.ASCII_CLASSES
        if "\0" in regex:
            raise ValueError("a regex cannot hold NUL; write \\0")
        try:
            self._grammar = TinyLoop.Grammar.new_regex(regex, -1, flags)
        except GLib.Error as error:     # of whatever kind: the pattern is at fault, and the sentence names its byte
            raise ValueError(error.message) from None

    def set_token_vocabulary(self, token_bytes, end_ids=()):
        """Binds it to a list of bytes, one a token id (b"" matches nothing); without it generate() binds it to the model's."""
        pieces = [bytes(piece) for piece in token_bytes]
        offsets = np.cumsum([0] + [len(piece) for piece in pieces])
        if offsets[-1] > np.iinfo(np.int32).max:
            raise ValueError(f"the vocabulary has {offsets[-1]} bytes, but may have 2^31 - 1")
        with python_errors():
            self._grammar.set_vocabulary(TinyLoop.TokenTrie.new(
                GLib.Bytes.new(b"".join(pieces)), to_bytes(offsets.astype(np.int32)), to_bytes(np.array(end_ids, np.int32))))

    def accepts(self, text):
        """whether the whole of `text` (bytes or str) matches; needs no vocabulary"""
        with python_errors():
            return self._grammar.accepts(GLib.Bytes.new(text.encode() if isinstance(text, str) else bytes(text)))

    def matcher(self):
        """a Matcher at the beginning; the grammar must have a vocabulary"""
        with python_errors():
            return Matcher(self._grammar.create_matcher())


class Matcher:
    """Where a text stands in its grammar; made by Grammar.matcher()."""

    def __init__(self, matcher):
        self._matcher = matcher

    def mask(self):
        """which ids may follow: bool [vocabulary]"""
        with python_errors():
            bits = np.frombuffer(self._matcher.get_mask(0).get_data(), np.uint8)
        return np.unpackbits(bits, bitorder="little")[:self._matcher.get_vocabulary().get_vocab_size()].astype(bool)

    def advance(self, token_id):
        """Goes on behind a token; ValueError, and nothing changes, when it is not legal."""
        with python_errors():
            self._matcher.advance(int(token_id))

    def rollback(self, n):
        """Takes n tokens back."""
        with python_errors():
            self._matcher.rollback(n)

    def is_accepting(self):
        """whether the text so far matches"""
        return self._matcher.is_accepting()
