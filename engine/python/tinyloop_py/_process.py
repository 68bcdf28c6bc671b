"""process_logits: the processors of a generation on a caller's own logits."""
import numpy as np

from ._config import make_config
from ._engine import GLib, TinyLoop, ids_array, python_errors, to_bytes, to_numpy


def process_logits(logits, history=(), grammar_mask=None, *, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0,
                   repetition_penalty=1.0):
    """Probabilities (float32 [V]) that a token would be drawn from; 0 switches top_k off."""
    logits = np.ascontiguousarray(logits, dtype=np.float32)
    if logits.ndim != 1 or logits.size == 0:
        raise ValueError(f"logits must have one dimension, not the shape {logits.shape}")
    config = make_config(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
                         repetition_penalty=repetition_penalty, top_k_may_be_off=True)
    seen = to_bytes(ids_array(history, "history")) if len(history) else None
    mask = None
    if grammar_mask is not None:
        grammar_mask = np.asarray(grammar_mask, dtype=bool)
        if grammar_mask.shape != logits.shape:
            raise ValueError(f"grammar_mask has the shape {grammar_mask.shape}, logits have {logits.shape}")
        mask = GLib.Bytes.new(grammar_mask.astype(np.uint8).tobytes())
    with python_errors():
        return to_numpy(TinyLoop.process_logits(to_bytes(logits), seen, mask, config))
