"""Keyword arguments of a generation, checked before they reach the engine: every bad range is a ValueError."""
import math

from ._engine import KV_MODES, TinyLoop, ids_array, text, to_bytes
from ._grammar import Grammar

_UINT_MAX = 2 ** 32 - 1
# name: default. Accepted by name at these values only: the engine does not have them yet.
_NOT_YET = {"early_exit_patience": (0,), "beam_size": (0, 1)}
_IGNORED = ("early_exit_min_L", "early_exit_tau", "early_exit_peek_every", "early_exit_logit_margin", "length_penalty",
            "early_stopping")   # they tell how; without the above they tell nothing


def _integer(name, value, low, high=_UINT_MAX):
    if isinstance(value, float) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} must be an integer, not {value!r}")
    value = int(value)
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}, but must be in {low}…{high}")
    return value


def _number(name, value, allowed, rule):
    value = float(value)
    if not math.isfinite(value) or not allowed(value):
        raise ValueError(f"{name} is {value}, but must be {rule}")
    return value


def make_config(max_tokens=64, loops=None, temperature=0.0, top_k=50, top_p=1.0, min_p=0.0, repetition_penalty=1.0,
                presence_penalty=0.0, frequency_penalty=0.0, seed=0, stop_sequences=(), stop=(), cache_window=0,
                kv_mode=None, ignore_eos=True, exact_activations=False, state_seed=0, chunk_size=0, grammar=None, top_k_may_be_off=False,
                **others):
    for name, value in others.items():
        if name in _NOT_YET:
            if value not in _NOT_YET[name]:
                raise NotImplementedError(f"{name}={value!r} is not implemented in this version")
        elif name not in _IGNORED:
            raise TypeError(f"unexpected keyword argument {name!r}")
    if kv_mode not in KV_MODES:
        raise ValueError(f"kv_mode is {kv_mode!r}, but must be one of fp16, fp32")

    if grammar is not None and not isinstance(grammar, Grammar):
        raise ValueError(f"grammar is {grammar!r}, but must be a Grammar or None")

    config = TinyLoop.GenerateConfig.new()
    p = config.props
    p.grammar = grammar and grammar._grammar
    p.temperature = _number("temperature", temperature, lambda v: v >= 0, ">= 0")
    p.max_tokens = _integer("max_tokens", max_tokens, 1)
    p.loops = 0 if loops is None else _integer("loops", loops, 1)
    p.top_k = _integer("top_k", top_k, 0 if top_k_may_be_off or p.temperature <= 0.01 else 1, 2 ** 31 - 1)
    p.top_p = _number("top_p", top_p, lambda v: 0 < v <= 1, "in (0, 1]")
    p.min_p = _number("min_p", min_p, lambda v: 0 <= v < 1, "in [0, 1)")
    p.repetition_penalty = _number("repetition_penalty", repetition_penalty, lambda v: v > 0, "> 0")
    p.presence_penalty = _number("presence_penalty", presence_penalty, lambda v: True, "finite")
    p.frequency_penalty = _number("frequency_penalty", frequency_penalty, lambda v: True, "finite")
    p.seed = _integer("seed", seed, 0, 2 ** 64 - 1)
    p.state_seed = _integer("state_seed", state_seed, 0, 2 ** 64 - 1)
    p.cache_window = _integer("cache_window", cache_window, 0)
    p.chunk_size = _integer("chunk_size", chunk_size, 0)
    p.kv_mode = KV_MODES[kv_mode]
    p.ignore_eos = bool(ignore_eos)
    p.exact_activations = bool(exact_activations)
    p.stop = [text("a stop string", one) for one in ([stop] if isinstance(stop, str) else stop or ())]
    for sequence in stop_sequences or ():
        config.add_stop_sequence(to_bytes(ids_array(sequence, "a stop sequence")))
    return config
