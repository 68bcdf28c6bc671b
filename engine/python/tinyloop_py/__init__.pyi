# Types of the public names; what they do stands in their docstrings.
from typing import Any, Callable, Iterable, Optional, Sequence, TypedDict, Union

import numpy as np
import numpy.typing as npt

Ids = Union[Sequence[int], npt.NDArray[np.int32]]
Floats = npt.NDArray[np.float32]

class Stream(TypedDict):
    tokens: list[int]
    prefill_ms: float
    first_token_ms: float
    decode_steady_ms: float
    tokens_emitted: int
    finish_reason: str
    text: Optional[str]

class Tokenizer:
    vocab_size: int
    vocab_hash: str
    def __init__(self, path: str) -> None: ...
    def encode(self, text: Union[str, bytes], special: bool = ...) -> list[int]: ...
    def decode(self, ids: Ids) -> str: ...
    def token_bytes(self, token_id: int) -> bytes: ...

class Model:
    max_seq_len: int
    tokenizer: Optional[Tokenizer]
    def __init__(self, path: str, max_seq_len: int = ..., device: str = ..., threads: int = ...,
                 max_cache_bytes: int = ...) -> None: ...
    def __enter__(self) -> Model: ...
    def __exit__(self, *exc: Any) -> None: ...
    def close(self) -> None: ...
    def config(self) -> dict[str, Any]: ...
    def vram_usage_mb(self) -> float: ...
    def generate(self, prompt: Ids, max_tokens: int = ..., loops: Optional[int] = ..., *, temperature: float = ...,
                 top_k: int = ..., top_p: float = ..., min_p: float = ..., repetition_penalty: float = ...,
                 presence_penalty: float = ..., frequency_penalty: float = ..., seed: int = ...,
                 stop_sequences: Iterable[Ids] = ..., stop: Iterable[str] = ..., cache_window: int = ...,
                 kv_mode: Optional[str] = ..., ignore_eos: bool = ..., exact_activations: bool = ...,
                 state_seed: int = ..., chunk_size: int = ..., **others: Any) -> list[int]: ...
    def generate_stream(self, prompt: Ids, on_token: Optional[Callable[[int], Optional[bool]]], max_tokens: int = ...,
                        loops: Optional[int] = ..., **parameters: Any) -> Stream: ...
    def score(self, tokens: Ids, loops: Optional[int] = ..., **parameters: Any) -> Floats: ...
    def score_last(self, tokens: Ids, loops: Optional[int] = ..., **parameters: Any) -> Floats: ...

load = Model

def process_logits(logits: npt.ArrayLike, history: Ids = ..., grammar_mask: Optional[npt.ArrayLike] = ..., *,
                   temperature: float = ..., top_k: int = ..., top_p: float = ..., min_p: float = ...,
                   repetition_penalty: float = ...) -> Floats: ...
