# Types of the public names; what they do stands in their docstrings. tests/python/package.py compares them with the code.
from os import PathLike
from typing import Any, Callable, Iterable, Optional, Sequence, TypedDict, Union

import numpy as np
import numpy.typing as npt

_Ids = Union[Sequence[int], npt.NDArray[np.integer[Any]]]
_Floats = npt.NDArray[np.float32]
_Path = Union[str, bytes, PathLike[str], PathLike[bytes]]

class _Stream(TypedDict):
    tokens: list[int]
    prefill_ms: float
    first_token_ms: float
    decode_steady_ms: float
    tokens_emitted: int
    finish_reason: str
    text: Optional[str]

class _Uncertainty(TypedDict):
    logits: _Floats
    kl: _Floats
    uncertainty: _Floats

class _Consistency(TypedDict):
    logits: _Floats
    argmax: npt.NDArray[np.int32]
    stable_from: npt.NDArray[np.int32]
    consistent: npt.NDArray[np.bool_]

class Tokenizer:
    def __init__(self, path: _Path) -> None: ...
    def encode(self, text: Union[str, bytes], special: bool = False) -> list[int]: ...
    def chat(self, text: str, system: Optional[str] = None) -> list[int]: ...
    def decode(self, ids: _Ids) -> str: ...
    def token_bytes(self, token_id: int) -> bytes: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def vocab_hash(self) -> str: ...

class Grammar:
    def __init__(self, regex: str, unicode_classes: bool = True) -> None: ...
    def set_token_vocabulary(self, token_bytes: Iterable[bytes], end_ids: Sequence[int] = ()) -> None: ...
    def accepts(self, text: Union[str, bytes]) -> bool: ...
    def matcher(self) -> Matcher: ...

class Matcher:
    def mask(self) -> npt.NDArray[np.bool_]: ...
    def advance(self, token_id: int) -> None: ...
    def rollback(self, n: int) -> None: ...
    def is_accepting(self) -> bool: ...

class Model:
    def __init__(self, path: _Path, max_seq_len: int = 0, device: str = 'cpu', threads: int = 0, max_cache_bytes: int = 0) -> None: ...
    def __enter__(self) -> Model: ...
    def __exit__(self, *exc: Any) -> None: ...
    def close(self) -> None: ...
    def config(self) -> dict[str, Any]: ...
    def vram_usage_mb(self) -> float: ...
    @property
    def max_seq_len(self) -> int: ...
    @property
    def tokenizer(self) -> Optional[Tokenizer]: ...
    def generate(self, prompt: _Ids, max_tokens: int = 64, loops: Optional[int] = None, temperature: float = 0.0,
                 top_k: int = 50, top_p: float = 1.0, cache_window: int = 0, repetition_penalty: float = 1.0,
                 stop_sequences: Iterable[_Ids] = (), early_exit_patience: int = 0, early_exit_min_L: int = 2,
                 early_exit_tau: float = 0.001, early_exit_peek_every: int = 1, early_exit_logit_margin: float = 0.0,
                 beam_size: int = 0, length_penalty: float = 1.0, early_stopping: bool = True,
                 grammar: Optional[Grammar] = None, *, min_p: float = 0.0, presence_penalty: float = 0.0,
                 frequency_penalty: float = 0.0, seed: int = 0, stop: Union[str, Iterable[str]] = (),
                 ignore_eos: bool = True, kv_mode: Optional[str] = None, exact_activations: bool = False,
                 state_seed: int = 0, chunk_size: int = 0) -> list[int]: ...
    def generate_stream(self, prompt: _Ids, on_token: Optional[Callable[[int], Optional[bool]]], max_tokens: int = 64,
                        loops: Optional[int] = None, temperature: float = 0.0, top_k: int = 50, top_p: float = 1.0,
                        cache_window: int = 0, repetition_penalty: float = 1.0, stop_sequences: Iterable[_Ids] = (),
                        early_exit_patience: int = 0, early_exit_min_L: int = 2, early_exit_tau: float = 0.001,
                        early_exit_peek_every: int = 1, early_exit_logit_margin: float = 0.0, beam_size: int = 0,
                        length_penalty: float = 1.0, early_stopping: bool = True, grammar: Optional[Grammar] = None,
                        *, min_p: float = 0.0, presence_penalty: float = 0.0, frequency_penalty: float = 0.0,
                        seed: int = 0, stop: Union[str, Iterable[str]] = (), ignore_eos: bool = True,
                        kv_mode: Optional[str] = None, exact_activations: bool = False, state_seed: int = 0,
                        chunk_size: int = 0) -> _Stream: ...
    def score(self, tokens: _Ids, loops: Optional[int] = None, *, cache_window: int = 0,
              kv_mode: Optional[str] = None, exact_activations: bool = False, state_seed: int = 0,
              chunk_size: int = 0) -> _Floats: ...
    def score_last(self, tokens: _Ids, loops: Optional[int] = None, *, cache_window: int = 0,
                   kv_mode: Optional[str] = None, exact_activations: bool = False, state_seed: int = 0,
                   chunk_size: int = 0) -> _Floats: ...
    def score_logit_lens(self, tokens: _Ids, loops: Optional[int] = None, *, cache_window: int = 0,
                         kv_mode: Optional[str] = None, exact_activations: bool = False, state_seed: int = 0,
                         chunk_size: int = 0) -> _Floats: ...
    def score_trajectory(self, tokens: _Ids, loops: Optional[int] = None, *, cache_window: int = 0,
                         kv_mode: Optional[str] = None, exact_activations: bool = False, state_seed: int = 0,
                         chunk_size: int = 0) -> _Floats: ...
    def score_with_uncertainty(self, tokens: _Ids, loops: Optional[int] = None, *, cache_window: int = 0,
                               kv_mode: Optional[str] = None, exact_activations: bool = False, state_seed: int = 0,
                               chunk_size: int = 0) -> _Uncertainty: ...
    def score_with_consistency(self, tokens: _Ids, loops: Optional[int] = None, *, cache_window: int = 0,
                               kv_mode: Optional[str] = None, exact_activations: bool = False, state_seed: int = 0,
                               chunk_size: int = 0) -> _Consistency: ...

load = Model

def process_logits(logits: npt.ArrayLike, history: _Ids = (), grammar_mask: Optional[npt.ArrayLike] = None, *,
                   temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0,
                   repetition_penalty: float = 1.0) -> _Floats: ...
