"""A generation from Python: steps of the engine, the callback between them, the result as a dict.

Called by the generate methods of Model. Every step is one pass with the GIL free; Python's own signal handlers run between
steps, so that Ctrl-C ends a run at the next pass. Nothing of a run stays referenced by an exception that ends it.
"""
import time

from ._engine import TinyLoop, from_bytes, python_errors


def _tokens(steps):
    """the ids, one by one, as they leave"""
    try:
        step = TinyLoop.Step.PASS
        while step != TinyLoop.Step.END:
            with python_errors():
                step, token = steps.step(None)
            if step == TinyLoop.Step.TOKEN:
                yield token.id
    finally:
        del steps


def _result(steps):
    result = steps.finish()
    figures = result.get_figures()
    return {"tokens": from_bytes(result.get_tokens_bytes()).tolist(), "prefill_ms": figures.prefill_ms,
            "first_token_ms": figures.first_token_ms, "decode_steady_ms": figures.decode_steady_ms,
            "tokens_emitted": figures.tokens_emitted, "finish_reason": result.get_finish_reason().value_nick,
            "text": result.get_text()}


def run(begin):
    """begin() and steps to the end; the result"""
    steps = begin()
    try:
        for _ in _tokens(steps):
            pass
        return _result(steps)
    finally:
        del steps


def stream(begin, on_token):
    """run() with a callback for every id, and timings that include it"""
    began, first, last = time.perf_counter(), None, None
    steps = begin()
    try:
        for token in _tokens(steps):
            go_on = True if on_token is None else on_token(token)
            last = time.perf_counter()
            first = first or last
            if go_on is False:
                steps.stop(TinyLoop.FinishReason.CANCELLED)
        result = _result(steps)
    finally:
        del steps
    if first:
        result.update(first_token_ms=(first - began) * 1e3, decode_steady_ms=(last - first) * 1e3)
    return result
