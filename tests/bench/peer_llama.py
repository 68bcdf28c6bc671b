#!/usr/bin/env python3
"""tests/bench/peer_llama.py — times llama.cpp on a GGUF file, for tests/bench/compare.

  python peer_llama.py MODEL.gguf --threads 2 --prompt-tokens 512 --decode-tokens 128

Runs under a Python that has llama-cpp-python; calls llama.cpp's C interface directly, so that nothing but
llama_decode lies inside the timed parts. Token ids are random; decode starts from an empty cache.
Prints one JSON object: prefill_tok_s, decode_tok_s (medians), load_ms, ttft_ms, rss_mb, base_rss_mb, version.
"""
import argparse
import ctypes
import json
import random
import statistics
import sys
import time

import llama_cpp


def resident_mb(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key + ":")) / 1024


class Peer:
    def __init__(self, path, threads, n_ctx):
        self.log = llama_cpp.llama_log_callback(lambda level, text, user: None)
        llama_cpp.llama_log_set(self.log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        begin = time.perf_counter()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_params)
        if not self.model:
            sys.exit(f"peer_llama: {path}: llama.cpp cannot load it")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"peer_llama: {path}: no context of {n_ctx} positions")
        self.load_ms = (time.perf_counter() - begin) * 1e3
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)
        self.greedy = llama_cpp.llama_sampler_init_greedy()

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def decode(self, ids, position):
        """one pass over at most 512 ids, logits of the last"""
        batch = self.batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i] = token, position + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = i == len(ids) - 1
        if status := llama_cpp.llama_decode(self.context, batch):
            sys.exit(f"peer_llama: llama_decode returned {status}")
        llama_cpp.llama_synchronize(self.context)

    def prompt(self, ids):
        for start in range(0, len(ids), 512):
            self.decode(ids[start:start + 512], start)

    def seconds(self, work):
        self.clear()
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--decode-tokens", type=int, default=128)
    parser.add_argument("--first-token-prompt", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    a = parser.parse_args()

    base = resident_mb("VmRSS")
    peer = Peer(a.model, a.threads, (max(a.prompt_tokens, a.decode_tokens) + 255) // 256 * 256)
    draw = random.Random(1)
    ids = [draw.randrange(3, peer.n_vocab) for _ in range(max(a.prompt_tokens, a.decode_tokens))]

    def first_token():
        peer.prompt(ids[:a.first_token_prompt])
        llama_cpp.llama_sampler_sample(peer.greedy, peer.context, -1)

    def steps():
        for position in range(a.decode_tokens):
            peer.decode([ids[position]], position)

    ttft = peer.seconds(first_token)
    peer.seconds(lambda: peer.prompt(ids))
    prefill = [len(ids[:a.prompt_tokens]) / peer.seconds(lambda: peer.prompt(ids[:a.prompt_tokens])) for _ in range(a.repeat)]
    decode = [a.decode_tokens / peer.seconds(steps) for _ in range(a.repeat)]
    print(json.dumps({"prefill_tok_s": statistics.median(prefill), "decode_tok_s": statistics.median(decode),
                      "load_ms": peer.load_ms, "ttft_ms": ttft * 1e3, "rss_mb": resident_mb("VmHWM"),
                      "base_rss_mb": base, "version": f"llama-cpp-python {llama_cpp.__version__}"}))


if __name__ == "__main__":
    main()
