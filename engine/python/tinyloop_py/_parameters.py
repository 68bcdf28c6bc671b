"""The parameters of every call: one table of names, defaults and ranges, and the signatures made from it.

A method decorated with @takes(…) has a real signature (inspect, help, completion) and gets its parameters checked, by name;
make_config() hands them to the engine. Every value out of its range is a ValueError that names parameter, value and range.
"""
import functools
import inspect
from typing import Any, Callable, NamedTuple

from ._checks import flag, integer, number
from ._engine import KV_MODES, TinyLoop, ids_array, text, to_bytes
from ._grammar import Grammar


class Parameter(NamedTuple):
    """One row: `check` turns a caller's value into what the engine's property of that name takes."""
    name: str
    default: Any
    check: Callable[[str, Any], Any]
    says: str


class Suggested(int):
    """A default that is lowered to what a model can do, unlike the same number given by a caller."""


# --- what a value may be ---

def kv_mode(name, value):
    if value is None:
        return KV_MODES["default"]
    if not isinstance(value, str) or value not in KV_MODES:
        raise ValueError(f"{name} is {value!r}, but must be None or one of {', '.join(KV_MODES)}")
    return KV_MODES[value]


def stop_sequences(name, value):
    return [to_bytes(ids_array(sequence, f"{name}: a sequence")) for sequence in value or ()]


def stop_strings(name, value):
    strings = [text(f"{name}: a string", one) for one in ([value] if isinstance(value, str) else value or ())]
    if "" in strings:
        raise ValueError(f"{name}: a string is empty; leave it out")
    return strings


def grammar(name, value):
    if value is not None and not isinstance(value, Grammar):
        raise ValueError(f"{name} is {value!r}, but must be a Grammar or None")
    return value and value._inner


_POSITIVE = number("> 0", lambda v: v > 0)
_NOT_NEGATIVE = number(">= 0", lambda v: v >= 0)
_FINITE = number("finite", lambda v: True)

MAX_TOKENS = Parameter("max_tokens", 64, integer(1), "new ids at most; prompt and max_tokens together must not exceed max_seq_len")
LOOPS = Parameter("loops", None, integer(1, absent=0), "times the loop block is applied; None is config()['default_loops']")
DRAWING = (
    Parameter("temperature", 0.0, _NOT_NEGATIVE, "divides the logits; up to 0.01 the likeliest id is taken (greedy)"),
    Parameter("top_k", 50, integer(0, 2 ** 31 - 1), "draw among the k likeliest ids; >= 1 unless greedy"),
    Parameter("top_p", 1.0, number("in (0, 1]", lambda v: 0 < v <= 1), "then among the fewest ids of that probability together; 1 is off"),
)
WINDOW = Parameter("cache_window", 0, integer(0), "positions a token may look back, the cache keeps no more; 0 is all")
STOPPING = (
    Parameter("repetition_penalty", 1.0, _POSITIVE, "> 1 weakens ids that prompt or output hold; 1 is off"),
    Parameter("stop_sequences", (), stop_sequences, "lists of ids; the run ends behind the first that the new ids end with"),
)
EARLY_EXIT = (
    Parameter("early_exit_patience", 0, integer(0), "a token leaves the loop after so many stable probes in a row; 0 is off"),
    Parameter("early_exit_min_L", 2, integer(1), "loops before the first probe"),
    Parameter("early_exit_tau", 1e-3, _POSITIVE, "stable: the hidden state changed by less than this share"),
    Parameter("early_exit_peek_every", 1, integer(1), "loops between two probes"),
    Parameter("early_exit_logit_margin", 0.0, _NOT_NEGATIVE, "if > 0, stable is instead: the best logit leads by more than this"),
)
BEAMS = (
    Parameter("beam_size", 0, integer(0), "from 2 on beam search, which draws nothing; 0 and 1 are off"),
    Parameter("length_penalty", 1.0, _FINITE, "beams: the log-probability is divided by max(1, new ids) to this power"),
    Parameter("early_stopping", True, flag, "beams: end when the best one has ended, not when all have"),
)
GRAMMAR = Parameter("grammar", None, grammar, "a Grammar that the text of the new ids must match")
FURTHER = (
    Parameter("min_p", 0.0, number("in [0, 1)", lambda v: 0 <= v < 1), "then among ids of at least this share of the likeliest; 0 is off"),
    Parameter("presence_penalty", 0.0, _FINITE, "subtracted from the logits of ids that were generated"),
    Parameter("frequency_penalty", 0.0, _FINITE, "subtracted from them once for every time"),
    Parameter("seed", 0, integer(0, 2 ** 64 - 1), "of the draws; the same seed gives the same ids"),
    Parameter("stop", (), stop_strings, "strings that end the reply and are not part of its text; needs a tokenizer"),
    Parameter("ignore_eos", True, flag, "go on behind an end token; a grammar's end always ends"),
)
PASSES = (
    Parameter("kv_mode", None, kv_mode, f"how keys and values are kept: {', '.join(KV_MODES)}; None is the model's"),
    Parameter("exact_activations", False, flag, "activations of quantised weights stay float32"),
    Parameter("state_seed", 0, integer(0, 2 ** 64 - 1), "of random initial states, in models that have them"),
    Parameter("chunk_size", 0, integer(0), "tokens of one pass over a prompt; 0 is chosen. Changes no result"),
)

# the order of the calls that have them all; the names behind the grammar are keyword-only
GENERATE = (MAX_TOKENS, LOOPS, *DRAWING, WINDOW, *STOPPING, *EARLY_EXIT, *BEAMS, GRAMMAR)
GENERATE_FURTHER = (*FURTHER, *PASSES)
SCORE_FURTHER = (WINDOW, *PASSES)
# the processors alone, all off
PROCESS = tuple(p._replace(default=off) for p, off in ((DRAWING[0], 1.0), (DRAWING[1], 0), (DRAWING[2], 1.0), (FURTHER[0], 0.0),
                                                       (STOPPING[0], 1.0)))

_ALL = {p.name: p for p in (*GENERATE, *GENERATE_FURTHER)}
_HAVE = {spec.name.replace("-", "_") for spec in TinyLoop.GenerateConfig.list_properties()}
_PROPERTY = {"early_exit_min_L": "early_exit_min_l"}


# --- signatures ---

def _listed(rows):
    return "".join(f"\n    {p.name}: {p.says}" for p in rows)


def takes(*rows, further=(), lists_all=False):
    """Decorates f(…, **parameters): its callers see `rows` behind f's own parameters, `further` as keywords only.

    The docstring gets a list of the rows that are not in _ALL, with lists_all of every one.
    """
    def decorate(function):
        own = [p for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_KEYWORD]
        shown = [inspect.Parameter(p.name, kind, default=p.default) for kind, some in
                 ((inspect.Parameter.POSITIONAL_OR_KEYWORD, rows), (inspect.Parameter.KEYWORD_ONLY, further)) for p in some]
        signature = inspect.Signature(own + shown)

        @functools.wraps(function)
        def call(*args, **kwargs):
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}(): {error}") from None
            bound.apply_defaults()
            return function(**bound.arguments)

        call.__signature__ = signature
        listed = [p for p in (*rows, *further) if lists_all or p is not _ALL.get(p.name)]
        if listed and function.__doc__:
            call.__doc__ = inspect.cleandoc(function.__doc__) + f"\n\nParameters:{_listed(listed)}"
        return call
    return decorate


def make_config(top_k_may_be_off=False, **parameters):
    """The engine's configuration; parameters by the names of the table, those left out are at their defaults."""
    config = TinyLoop.GenerateConfig.new()
    config.props.ignore_eos = True
    for name, given in parameters.items():
        row = _ALL[name]
        value = row.check(name, given)
        if name == "stop_sequences":
            for sequence in value:
                config.add_stop_sequence(sequence)
        elif _PROPERTY.get(name, name) in _HAVE:
            config.set_property(_PROPERTY.get(name, name), value)
        elif name in ("early_exit_patience", "beam_size") and value > row.default:
            raise NotImplementedError(f"{name}={given!r} is not implemented in this version")
    p = config.props
    if p.top_k == 0 and p.temperature > 0.01 and not top_k_may_be_off:
        raise ValueError("top_k is 0, but must be at least 1 when temperature is above 0.01")
    return config
