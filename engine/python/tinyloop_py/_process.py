"""process_logits: the processors of a generation on a caller's own logits."""
import numpy as np

from ._engine import GLib, TinyLoop, ids_array, python_errors, to_bytes, to_numpy
from ._parameters import PROCESS, make_config, takes


@takes(further=PROCESS, lists_all=True)
def process_logits(logits, history=(), grammar_mask=None, **parameters):
    """Probabilities that a token would be drawn from: float32 [V].

    logits: V numbers; NaN among them is a RuntimeError, and so is a mask that leaves nothing
    history: ids of prompt and output, for the repetition penalty
    grammar_mask: V booleans, False forbids; Matcher.mask() gives one

    In the order of generate(): penalty, mask, temperature, top_k, top_p, min_p. top_k 0 is off here.
    """
    logits = np.ascontiguousarray(logits, dtype=np.float32)
    if logits.ndim != 1 or logits.size == 0:
        raise ValueError(f"logits must be a one-dimensional array of at least one number, not of shape {logits.shape}")
    config = make_config(top_k_may_be_off=True, **parameters)
    seen = to_bytes(ids_array(history, "history")) if len(history) else None
    mask = None
    if grammar_mask is not None:
        grammar_mask = np.asarray(grammar_mask, dtype=bool)
        if grammar_mask.shape != logits.shape:
            raise ValueError(f"grammar_mask has the shape {grammar_mask.shape}, logits have {logits.shape}")
        mask = GLib.Bytes.new(grammar_mask.astype(np.uint8).tobytes())
    with python_errors():
        return to_numpy(TinyLoop.process_logits(to_bytes(logits), seen, mask, config))
