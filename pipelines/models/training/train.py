"""Train the demo model on generated commands, in one or more single-thread processes.

Why: the demo model must be reproducible from the tree. Run once per core with RANK
and WORLD_SIZE set; gradients are averaged over gloo. The rate follows the share of
--minutes that has passed, so a slow machine ends its decay on time.
Called by hand; see --help. Writes OUT (the export folder) and OUT/state.pt, from which it resumes.
"""

import argparse
import math
import os
import pathlib
import random
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tokenizers import Tokenizer

import commands
import model as looped
import tokenizer as wordpieces

DEPTH_WEIGHTS = np.array([1, 1, 1.5, 2, 1.5, 1.5, 1, 1.5])
MATRIX_RATE, OTHER_RATE = 0.02, 3e-3


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised by five Newton-Schulz steps."""

    def __init__(self, weights, lr):
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                momentum.lerp_(weight.grad, 0.05)
                x = weight.grad.lerp(momentum, 0.95).bfloat16()
                tall = x.shape[0] > x.shape[1]
                x = x.T if tall else x
                x = x / (x.norm() + 1e-7)
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
                x = (x.T if tall else x).float()
                weight.add_(x, alpha=-group["lr"] * max(1, weight.shape[0] / weight.shape[1]) ** 0.5)


def rate(share, step):
    """Factor of the learning rate: warm-up by steps, flat to a quarter, cosine to 3 %."""
    flat = 0.25
    decay = 1 if share < flat else 0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * (share - flat) / (1 - flat)))
    return min(1, (step + 1) / 50) * decay


def batch(rng, pieces, held, tokens):
    """Fresh commands padded to one length: ids and the mask of positions that predict JSON."""
    ids, starts = [], []
    size = 0
    json_id, end = (pieces.token_to_id(name) for name in ("<|json|>", "<|end|>"))
    while size < tokens:
        text, answer, _ = commands.sample(rng)
        if text in held:
            continue
        row = pieces.encode(f"<|cmd|>{text}<|json|>{answer}").ids + [end]
        ids.append(row)
        starts.append(row.index(json_id))
        size += len(row)
    longest = -(-max(map(len, ids)) // 8) * 8
    table = np.full((len(ids), longest), pieces.token_to_id("<|pad|>"), np.int64)
    mask = np.zeros(table.shape, bool)
    for i, (row, start) in enumerate(zip(ids, starts)):
        table[i, :len(row)] = row
        mask[i, start:len(row) - 1] = True
    return torch.from_numpy(table), torch.from_numpy(mask)


def loss_at(net, ids, mask, depth, shallow):
    """Cross entropy at `depth`, mixed with that at one shallower depth."""
    target = torch.roll(ids, -1, 1)[mask]
    with torch.autocast("cpu", torch.bfloat16):
        states = net(ids, depth, (shallow,) if shallow else ())

        def entropy(d):
            return F.cross_entropy(net.head(states[d][mask]).float(), target)

        deep = entropy(depth)
        if not shallow:
            return deep, deep
        part = 0.5 * min(1, shallow / 4)
        return (deep + part * entropy(shallow)) / (1 + part), deep


def average_gradients(net, world):
    """One all-reduce over every gradient."""
    grads = [w.grad for w in net.parameters() if w.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat)
    flat /= world
    for grad, part in zip(grads, flat.split([g.numel() for g in grads])):
        grad.copy_(part.view_as(grad))


def prepare(args, rank, world, out):
    """Model and tokenizer: resumed, warm-started or new. Rank 0 makes the tokenizer."""
    if rank == 0 and not (out / "tokenizer.json").exists():
        rng = random.Random(args.seed)
        lines = ("\n".join(commands.sample(rng)[:2]) for _ in range(40000))
        pieces = (Tokenizer.from_file(f"{args.warm}/tokenizer.json") if args.warm
                  else wordpieces.train(lines, args.vocab))
        wordpieces.save(pieces, out)
    if world > 1:
        dist.barrier()
    pieces = Tokenizer.from_file(str(out / "tokenizer.json"))
    torch.manual_seed(args.seed)
    net = looped.load(args.warm) if args.warm else looped.LoopedModel(looped.Shape(vocab=pieces.get_vocab_size()))
    return net, pieces


def run(args, net, pieces, out, rank, world):
    """The training itself, until --minutes have passed, those of earlier runs included."""
    matrices = [w for n, w in net.named_parameters() if w.dim() == 2 and "embed" not in n]
    others = [w for n, w in net.named_parameters() if w.dim() != 2 or "embed" in n]
    first, second = Muon(matrices, MATRIX_RATE), torch.optim.AdamW(others, OTHER_RATE, betas=(0.9, 0.97), weight_decay=0)
    step, passed = 0, 0.0
    state = out / "state.pt"
    if state.exists():
        kept = torch.load(state, weights_only=True)
        net.load_state_dict(kept["model"])
        first.load_state_dict(kept["first"])
        second.load_state_dict(kept["second"])
        step, passed = kept["step"], kept["passed"]
    held = {t for s in commands.SPLITS for t, _, _ in commands.held_out(s, args.held, args.seed)}
    rng, depths = random.Random(f"{args.seed}/{rank}/{step}"), np.random.default_rng(args.seed + step)
    end, last, saved, recent = pieces.token_to_id("<|end|>"), time.monotonic(), passed, []

    def keep():
        if rank == 0:
            looped.save(net, out, end)
            torch.save({"model": net.state_dict(), "first": first.state_dict(),
                        "second": second.state_dict(), "step": step, "passed": passed}, state)

    while True:
        while args.pause_file and os.path.exists(args.pause_file):
            time.sleep(1)
            last = time.monotonic()
        now = time.monotonic()
        passed, last = passed + (now - last) / 60, now
        clock = torch.tensor([passed], dtype=torch.float64)
        if world > 1:
            dist.broadcast(clock, 0)
        passed = clock.item()
        if passed >= args.minutes:
            break
        for optimizer, top in ((first, MATRIX_RATE), (second, OTHER_RATE)):
            optimizer.param_groups[0]["lr"] = top * rate(passed / args.minutes, step)
            optimizer.zero_grad()
        depth = int(depths.choice(8, p=DEPTH_WEIGHTS / DEPTH_WEIGHTS.sum())) + 1
        shallow = int(depths.integers(1, depth)) if depth > 1 else 0
        mixed, deep = loss_at(net, *batch(rng, pieces, held, args.tokens), depth, shallow)
        mixed.backward()
        if world > 1:
            average_gradients(net, world)
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        first.step()
        second.step()
        step += 1
        recent = recent[-49:] + [deep.item()]
        if rank == 0 and step % 25 == 0:
            print(f"step {step}  {passed:.1f} min  loss {np.mean(recent):.3f}", flush=True)
        if passed - saved > 3:
            keep()
            saved = passed
    keep()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out", help="export folder to write; resumes from OUT/state.pt if it exists")
    parser.add_argument("--minutes", type=float, default=90, help="training time, all runs together")
    parser.add_argument("--warm", help="export folder whose weights and tokenizer to start from")
    parser.add_argument("--tokens", type=int, default=1024, help="tokens per step and process")
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--held", type=int, default=600, help="held-out commands per split")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause-file", help="wait while this file exists")
    args = parser.parse_args()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(1)
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    if world > 1:
        address = os.environ.get("MASTER_PORT", "29511")
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{address}", rank=rank, world_size=world)
    net, pieces = prepare(args, rank, world, out)
    run(args, net, pieces, out, rank, world)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
