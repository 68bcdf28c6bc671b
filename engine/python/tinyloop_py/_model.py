"""Model: a checkpoint that generates and scores. Callbacks run on the caller's thread, between passes."""
import json
import os
import time
import warnings

from ._config import make_config
from ._engine import (TinyLoop, from_bytes, ids_array, interruptible, python_errors, scores_dict, text, to_bytes,
                      to_numpy)
from ._tokenizer import Tokenizer


class Model:
    """A loaded model. Use it in a `with` block, or call close()."""

    def __init__(self, path, max_seq_len=0, device="cpu", threads=0, max_cache_bytes=0):
        if max_seq_len < 0 or threads < 0 or max_cache_bytes < 0:
            raise ValueError("max_seq_len, threads and max_cache_bytes must not be negative")
        self._model = TinyLoop.Model(path=text("path", os.fsdecode(path)), device=device, threads=threads,
                                     max_cache_bytes=max_cache_bytes, max_seq_len=max_seq_len)
        interruptible(self._model.load)
        own = json.loads(self._model.props.descriptor_json).get("dims", {}).get("max_seq_len") or 0
        if own and max_seq_len > own:
            warnings.warn(f"max_seq_len {max_seq_len} is more than the {own} positions of the checkpoint", stacklevel=2)

    def __enter__(self):
        self._check_open()
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        """Ends what runs in other threads (RuntimeError there) and gives the memory back."""
        self._model.close()

    def _check_open(self):
        if self._model.props.closed:
            raise RuntimeError("model was closed")

    def config(self):
        """What the model is: dim, vocab_size, n_pre_blocks, default_loops, min_loops, max_loops, max_seq_len …"""
        self._check_open()
        p = self._model.props
        return {"dim": p.dim, "vocab_size": p.vocab_size, "n_pre_blocks": p.n_pre_blocks,
                "default_loops": p.default_loops, "min_loops": p.min_loops, "max_loops": p.max_loops,
                "max_seq_len": p.max_seq_len, "device": p.device, "vocab_hash": p.vocab_hash,
                "descriptor": json.loads(p.descriptor_json)}

    def vram_usage_mb(self):
        """MiB of weights and cache, on whatever device"""
        self._check_open()
        return self._model.props.memory_usage / 2 ** 20

    @property
    def max_seq_len(self):
        return self._model.props.max_seq_len

    @property
    def tokenizer(self):
        """the checkpoint's Tokenizer, or None"""
        tokenizer = self._model.props.tokenizer
        return Tokenizer(_tokenizer=tokenizer) if tokenizer else None

    # --- generation ---

    def _steps(self, prompt, parameters):
        self._check_open()
        config = make_config(**parameters)
        with python_errors():
            return self._model.begin(to_bytes(ids_array(prompt)), config)

    def generate(self, prompt, max_tokens=64, loops=None, **parameters):
        """Continues `prompt`; returns its ids and the generated ones as a list."""
        steps = self._steps(prompt, dict(parameters, max_tokens=max_tokens, loops=loops))
        with python_errors():
            step = TinyLoop.Step.PASS
            while step != TinyLoop.Step.END:
                step, _ = steps.step(None)
            return from_bytes(steps.finish().get_tokens_bytes()).tolist()

    def generate_stream(self, prompt, on_token, max_tokens=64, loops=None, **parameters):
        """Like generate(); calls on_token(id) for every token. False from it, or an exception, ends the run."""
        began = time.perf_counter()
        steps = self._steps(prompt, dict(parameters, max_tokens=max_tokens, loops=loops))
        first = last = None
        while True:
            with python_errors():
                step, token = steps.step(None)
            if step == TinyLoop.Step.END:
                break
            if step != TinyLoop.Step.TOKEN:
                continue
            go_on = True if on_token is None else on_token(token.id)
            last = time.perf_counter()
            first = first or last
            if go_on is False:
                steps.stop(TinyLoop.FinishReason.CANCELLED)
        result = steps.finish()
        figures = result.get_figures()
        return {"tokens": from_bytes(result.get_tokens_bytes()).tolist(), "prefill_ms": figures.prefill_ms,
                "first_token_ms": (first - began) * 1e3 if first else 0.0,
                "decode_steady_ms": (last - first) * 1e3 if first else 0.0,
                "tokens_emitted": figures.tokens_emitted, "finish_reason": result.get_finish_reason().value_nick,
                "text": result.get_text()}

    # --- scoring ---

    def _score(self, call, tokens, loops, parameters):
        self._check_open()
        ids, config = to_bytes(ids_array(tokens, "tokens")), make_config(loops=loops, **parameters)
        return interruptible(lambda cancellable: call(ids, config, cancellable))

    def score(self, tokens, loops=None, **parameters):
        """Logits of every position: float32 [T, V].

        All score methods take `loops` (None = the model's default) and kv_mode, exact_activations, cache_window, state_seed,
        chunk_size. ValueError: ids or parameters out of range; RuntimeError: more ids than max_seq_len, no memory, a closed
        model. T is the number of tokens, V the vocabulary, L the loops, D the width.
        """
        return to_numpy(self._score(self._model.score_bytes, tokens, loops, parameters))

    def score_last(self, tokens, loops=None, **parameters):
        """Logits of the last position: float32 [V]."""
        return to_numpy(self._score(self._model.score_last_bytes, tokens, loops, parameters))

    def score_logit_lens(self, tokens, loops=None, **parameters):
        """Logits after every loop: float32 [L, T, V]; entry l equals score(tokens, loops=l + 1) bit for bit."""
        return to_numpy(self._score(self._model.score_logit_lens_bytes, tokens, loops, parameters))

    def score_trajectory(self, tokens, loops=None, **parameters):
        """Hidden states behind the embedding, each pre block and each loop: float32 [1 + n_pre_blocks + L, T, D]."""
        return to_numpy(self._score(self._model.score_trajectory_bytes, tokens, loops, parameters))

    def score_with_uncertainty(self, tokens, loops=None, **parameters):
        """How much each further loop changes the prediction, as a dict of float32 arrays.

        logits [T, V] after the last loop; kl [T, L - 1], entry l is KL(after l + 2 loops || after l + 1 loops) in nats;
        uncertainty [T], the mean of a position's kl (0 when L is 1).
        """
        return scores_dict(self._score(self._model.score_with_uncertainty_bytes, tokens, loops, parameters))

    def score_with_consistency(self, tokens, loops=None, **parameters):
        """From which depth on the likeliest id stays the same, as a dict of arrays.

        logits float32 [T, V] after the last loop; argmax int32 [L, T], the likeliest id after every loop; stable_from int32
        [T], the fewest loops (1 to L) from which on it is the final one; consistent bool [T], whether it is so after every
        loop.
        """
        return scores_dict(self._score(self._model.score_with_consistency_bytes, tokens, loops, parameters))


load = Model
