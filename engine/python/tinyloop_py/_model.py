"""Model: a checkpoint that generates and scores. Callbacks run on the caller's thread, between passes."""
import json
import os
import warnings

from ._checks import integer
from ._engine import TinyLoop, ids_array, interruptible, python_errors, scores_dict, text, to_bytes, to_numpy
from ._parameters import GENERATE, GENERATE_FURTHER, LOOPS, SCORE_FURTHER, make_config, takes
from ._run import run, stream
from ._tokenizer import Tokenizer

_scores = takes(LOOPS, further=SCORE_FURTHER)


class Model:
    """A loaded model, for any number of threads. Use it in a `with` block, or call close().

    path: a .tinyloop file
    max_seq_len: prompt and new ids at most; 0 is the checkpoint's, larger ones need rotary positions and warn
    device: "cpu", or "reference" (slow, for comparison)
    threads: 0 takes all processors the process may use
    max_cache_bytes: of keys and values of everything that runs; 0 is no limit

    Every method raises RuntimeError("model was closed") behind close(); ValueError for a parameter out of its range, for ids that
    are no integers in [0, vocab_size), none at all or not one-dimensional; RuntimeError for more positions than max_seq_len
    and when memory does not suffice ("out of memory: …"). Ids are anything numpy makes an integer array of.
    """

    def __init__(self, path, max_seq_len=0, device="cpu", threads=0, max_cache_bytes=0):
        path = text("path", os.fsdecode(path))
        whole = {"max_seq_len": integer(0)("max_seq_len", max_seq_len), "threads": integer(0)("threads", threads),
                 "max_cache_bytes": integer(0, 2 ** 64 - 1)("max_cache_bytes", max_cache_bytes)}
        self._model = TinyLoop.Model(path=path, device=text("device", device), **whole)
        interruptible(self._model.load)
        own = self._descriptor()["dims"].get("max_pos") or 0
        if own and max_seq_len > own:
            warnings.warn(f"max_seq_len {max_seq_len} is more than the {own} positions of the checkpoint", stacklevel=2)

    def __enter__(self):
        self._check_open()
        return self

    def __exit__(self, *exc):
        self.close()

    def __repr__(self):
        p = self._model.props
        return f"<tinyloop_py.Model {p.path}{', closed' if p.closed else ''}>"

    def close(self):
        """Ends what runs in other threads (RuntimeError there) and gives the memory back. A second call does nothing."""
        self._model.close()

    def _check_open(self):
        if self._model.props.closed:
            raise RuntimeError("model was closed")

    def _descriptor(self):
        return json.loads(self._model.props.descriptor_json)

    def config(self):
        """What the model is, as a dict.

        dim, vocab_size, n_heads, n_kv_heads, head_dim, max_seq_len; n_pre_blocks, n_loop_blocks, n_coda_blocks; default_loops,
        min_loops, max_loops; family, device, vocab_hash, and the checkpoint's whole descriptor.
        """
        self._check_open()
        p, descriptor = self._model.props, self._descriptor()
        dims, stacks = descriptor["dims"], descriptor["stacks"]
        return {"dim": p.dim, "vocab_size": p.vocab_size, "n_heads": dims["n_heads"], "n_kv_heads": dims["n_kv_heads"],
                "head_dim": dims["head_dim"], "max_seq_len": p.max_seq_len, "n_pre_blocks": p.n_pre_blocks,
                "n_loop_blocks": stacks["loop"], "n_coda_blocks": stacks["coda"], "default_loops": p.default_loops,
                "min_loops": p.min_loops, "max_loops": p.max_loops, "family": descriptor["family"], "device": p.device,
                "vocab_hash": p.vocab_hash, "descriptor": descriptor}

    def vram_usage_mb(self):
        """MiB of weights and cache, on whatever device."""
        self._check_open()
        return self._model.props.memory_usage / 2 ** 20

    @property
    def max_seq_len(self):
        """Prompt and new ids at most."""
        return self._model.props.max_seq_len

    @property
    def tokenizer(self):
        """The checkpoint's Tokenizer, or None."""
        tokenizer = self._model.props.tokenizer
        return Tokenizer._of(tokenizer) if tokenizer else None

    # --- generation ---

    def _begin(self, prompt, parameters):
        self._check_open()
        config = make_config(**parameters)
        with python_errors():
            return self._model.begin(to_bytes(ids_array(prompt)), config)

    @takes(*GENERATE, further=GENERATE_FURTHER, lists_all=True)
    def generate(self, prompt, **parameters):
        """Continues `prompt`; returns its ids and the new ones as a list.

        A token is made from the logits in this order: penalties, grammar, temperature, top_k, top_p, min_p, draw.
        """
        return run(lambda: self._begin(prompt, parameters))["tokens"]

    @takes(*GENERATE, further=GENERATE_FURTHER)
    def generate_stream(self, prompt, on_token, **parameters):
        """Like generate(), and calls on_token(id) on this thread for every new id; returns a dict.

        False from on_token ends the run behind that token; an exception in it ends the run and comes out of this call.
        None as on_token calls nothing. The dict: tokens, prompt and new ids; prefill_ms, the prompt's passes;
        first_token_ms, from the call to the end of the first on_token; decode_steady_ms, from there to the end of the last;
        tokens_emitted, the number of new ids; finish_reason: length, stop, eos, grammar-complete or cancelled; text of the
        new ids, or None without a tokenizer. The parameters are those of generate().
        """
        return stream(lambda: self._begin(prompt, parameters), on_token)

    # --- scoring ---

    def _score(self, call, tokens, parameters):
        self._check_open()
        ids, config = to_bytes(ids_array(tokens, "tokens")), make_config(**parameters)
        return interruptible(lambda cancellable: call(ids, config, cancellable))

    @takes(LOOPS, further=SCORE_FURTHER, lists_all=True)
    def score(self, tokens, **parameters):
        """Logits of every position: float32 [T, V].

        T is the number of tokens, V the vocabulary, L the loops, D the width; arrays may outlive the model. All score methods
        take the same parameters.
        """
        return to_numpy(self._score(self._model.score_bytes, tokens, parameters))

    @_scores
    def score_last(self, tokens, **parameters):
        """Logits of the last position: float32 [V]."""
        return to_numpy(self._score(self._model.score_last_bytes, tokens, parameters))

    @_scores
    def score_logit_lens(self, tokens, **parameters):
        """Logits after every loop: float32 [L, T, V]; entry l equals score(tokens, loops=l + 1) bit for bit."""
        return to_numpy(self._score(self._model.score_logit_lens_bytes, tokens, parameters))

    @_scores
    def score_trajectory(self, tokens, **parameters):
        """Hidden states behind the embedding, each pre block and each loop: float32 [1 + n_pre_blocks + L, T, D]."""
        return to_numpy(self._score(self._model.score_trajectory_bytes, tokens, parameters))

    @_scores
    def score_with_uncertainty(self, tokens, **parameters):
        """How much each further loop changes the prediction, as a dict of float32 arrays.

        logits [T, V] after the last loop; kl [T, L - 1], entry l is KL(after l + 2 loops || after l + 1 loops) in nats;
        uncertainty [T], the mean of a position's kl (0 when L is 1).
        """
        return scores_dict(self._score(self._model.score_with_uncertainty_bytes, tokens, parameters))

    @_scores
    def score_with_consistency(self, tokens, **parameters):
        """From which depth on the likeliest id stays the same, as a dict of arrays.

        logits float32 [T, V] after the last loop; argmax int32 [L, T], the likeliest id after every loop; stable_from int32
        [T], the fewest loops (1 to L) from which on it is the final one; consistent bool [T], whether it is so after every
        loop.
        """
        return scores_dict(self._score(self._model.score_with_consistency_bytes, tokens, parameters))


load = Model
