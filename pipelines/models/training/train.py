#!/usr/bin/env python3
"""Train the demo model on generated commands and prose, in one or more single-thread processes.

Why: the demo model must be reproducible from the tree. Run once per core with RANK and WORLD_SIZE set;
gradients are averaged over gloo. The learning rate falls to zero at the end time on the wall clock, so a
slow or paused machine still ends its decay in time.
Called by hand; see --help and README.md. Writes OUT (an export folder for `tinyloop convert`) and
OUT/state.pt, from which a stopped run goes on.
"""

import argparse
import datetime
import os
import pathlib
import random
import time
from collections import defaultdict

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tokenizers import Tokenizer

import batches
import commands
import heldout
import model as looped
import tokenizer
from muon import Muon

DEPTH_WEIGHTS = np.array([1, 1.5, 2, 2.5, 1.5, 1, 0.75, 0.75])  # of 1 to 8 loops; the mean is 4.1
MATRIX_RATE, OTHER_RATE = 0.006, 1.5e-3  # at 0.02 the noise of such small batches keeps the model from learning to copy
WARM_UP_STEPS, FLAT_SHARE = 50, 0.3
ECHO_SHARE, ECHO_UNTIL = 0.3, 0.25  # of the batches, in the first quarter of the time; then a fifth of that
PROSE_SHARE = 0.13   # of the batches
PROSE_WEIGHT = 0.2   # prose stays at 4 nats a token; unweighted it would drown the commands
SAVE_EVERY_S, REPORT_EVERY = 180, 50
TOKENIZER_COMMANDS = 40000


def rate(share, step):
    """Factor of the learning rate: warm-up by steps, flat, then a line to zero at share 1."""
    return min(1, (step + 1) / WARM_UP_STEPS) * min(1, max(0, 1 - share) / (1 - FLAT_SHARE))


def loss_at(net, ids, mask, depth, shallow):
    """Cross entropy at `depth`, mixed with that at one shallower depth (0: none); and the first alone."""
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
    grads = [w.grad for w in net.parameters()]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat)
    flat /= world
    for grad, part in zip(grads, flat.split([g.numel() for g in grads])):
        grad.copy_(part.view_as(grad))


class Clock:
    """How far the training is, from 0 to 1, the same in every process; rank 0 decides and pauses."""

    def __init__(self, until, share, world, pause_file):
        self.began, self.until, self.first = time.time(), until, share
        self.world, self.pause_file = world, pause_file

    def share(self):
        if dist.is_initialized() and dist.get_rank():
            now = torch.zeros(1, dtype=torch.float64)
        else:
            while self.pause_file and os.path.exists(self.pause_file):
                time.sleep(1)
            passed = (time.time() - self.began) / max(1, self.until - self.began)
            now = torch.tensor([self.first + (1 - self.first) * passed], dtype=torch.float64)
        if self.world > 1:
            dist.broadcast(now, 0)
        return now.item()


def prepare(args, rank, world):
    """Model, tokenizer and prose ids; rank 0 makes the tokenizer."""
    prose = args.prose.read_text().splitlines()
    if rank == 0 and not (args.out / "tokenizer.json").exists():
        rng = random.Random(args.seed)
        lines = ["\n".join(commands.sample(rng)[:2]) for _ in range(TOKENIZER_COMMANDS)] + prose
        tokenizer.save(Tokenizer.from_str(looped.tokenizer_of(args.warm)) if args.warm
                       else tokenizer.train(lines, args.vocab), args.out)
    if world > 1:
        dist.barrier()
    pieces = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    torch.manual_seed(args.seed)
    net = looped.load(args.warm) if args.warm else looped.LoopedModel(looped.Shape(vocab=pieces.get_vocab_size()))
    ids = np.array([i for line in pieces.encode_batch([line + "\n" for line in prose]) for i in line.ids], np.int64)
    return net, pieces, ids


class Run:
    """The training itself: what is kept in state.pt, and the loop."""

    def __init__(self, args, net, pieces, prose, rank, world):
        self.args, self.net, self.rank, self.world = args, net, rank, world
        self.end = pieces.token_to_id(tokenizer.END)
        matrices = [w for n, w in net.named_parameters() if w.dim() == 2 and "embed" not in n]
        self.others = [w for n, w in net.named_parameters() if w.dim() != 2 or "embed" in n]
        self.optimizers = [(Muon(matrices, MATRIX_RATE), MATRIX_RATE),
                           (torch.optim.AdamW(self.others, OTHER_RATE, betas=(0.9, 0.97), weight_decay=0), OTHER_RATE)]
        self.step, self.share = 0, 0.0
        if (args.out / "state.pt").exists():
            self.resume()
        self.clock = Clock(args.until, self.share, world, args.pause_file)
        self.source = batches.Batches(pieces, prose, heldout.sentences(), args.tokens,
                                      f"{args.seed}/{rank}/{self.step}")
        self.depths = np.random.default_rng([args.seed, self.step])
        for layer in [*net.pre, *net.loop] if args.compile else []:
            layer.compile(dynamic=True)

    def resume(self):
        kept = torch.load(self.args.out / "state.pt", weights_only=True)
        self.net.load_state_dict(kept["model"])
        for (optimizer, _), state in zip(self.optimizers, kept["optimizers"]):
            optimizer.load_state_dict(state)
        self.step, self.share = kept["step"], kept["share"] if self.args.share is None else self.args.share

    def keep(self):
        """Write the export folder and state.pt, so that a kill at any moment leaves a whole state."""
        if self.rank:
            return
        looped.save(self.net, self.args.out, self.end)
        part = self.args.out / "state.part"
        torch.save({"model": self.net.state_dict(), "step": self.step, "share": self.share,
                    "optimizers": [o.state_dict() for o, _ in self.optimizers]}, part)
        part.replace(self.args.out / "state.pt")

    def learn(self):
        """One step; returns the kind of its batch and the loss at the sampled depth."""
        for optimizer, top in self.optimizers:
            optimizer.param_groups[0]["lr"] = top * rate(self.share, self.step)
            optimizer.zero_grad()
        depth = int(self.depths.choice(len(DEPTH_WEIGHTS), p=DEPTH_WEIGHTS / DEPTH_WEIGHTS.sum())) + 1
        shallow = int(self.depths.integers(1, depth)) if depth > 1 else 0
        kind, batch = self.draw()
        mixed, deep = loss_at(self.net, *batch, depth, shallow)
        (mixed * (PROSE_WEIGHT if kind == "prose" else 1)).backward()
        if self.world > 1:
            average_gradients(self.net, self.world)
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
        for optimizer, _ in self.optimizers:
            optimizer.step()
        self.step += 1
        return kind, deep.item()

    def draw(self):
        """The next batch, and its kind."""
        pick, echo = self.source.rng.random(), ECHO_SHARE * (1 if self.share < ECHO_UNTIL else 0.2)
        if pick < PROSE_SHARE:
            return "prose", self.source.novel()
        if pick < PROSE_SHARE + echo:
            return "echo", self.source.echo()
        return "commands", self.source.commands()

    def until_the_end(self):
        saved, recent = time.time(), defaultdict(list)
        while (share := self.clock.share()) < 1:
            self.share = share
            kind, loss = self.learn()
            recent[kind] = recent[kind][-99:] + [loss]
            if self.rank == 0 and self.step % REPORT_EVERY == 0:
                means = "  ".join(f"{kind} {np.mean(losses):.4f}" for kind, losses in sorted(recent.items()))
                print(f"{datetime.datetime.now():%H:%M:%S}  step {self.step}  {share:.3f} of the time  {means}", flush=True)
            if time.time() - saved > SAVE_EVERY_S:
                self.keep()
                saved = time.time()
        self.keep()


def end_time(args):
    """Seconds since the epoch at which the learning rate is to reach zero."""
    if not args.until:
        return time.time() + 60 * args.minutes
    hour, minute = map(int, args.until.split(":"))
    end = datetime.datetime.now().replace(hour=hour, minute=minute, second=0)
    return (end if end > datetime.datetime.now() else end + datetime.timedelta(days=1)).timestamp()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=pathlib.Path, help="export folder to write; goes on from OUT/state.pt if it exists")
    parser.add_argument("--prose", type=pathlib.Path, required=True, help="the text that prose.py writes")
    parser.add_argument("--minutes", type=float, default=90, help="how long to train from now on")
    parser.add_argument("--until", metavar="HH:MM", help="train until this time of day instead")
    parser.add_argument("--share", type=float, help="go on at this share of the schedule, not where OUT/state.pt stopped")
    parser.add_argument("--warm", type=pathlib.Path, help=".tinyloop file or export folder whose weights and tokenizer to start from")
    parser.add_argument("--tokens", type=int, default=1536, help="tokens per step and process")
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause-file", help="wait while this file exists")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="do not compile the layers")
    args = parser.parse_args()
    args.until = end_time(args)
    args.out.mkdir(parents=True, exist_ok=True)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(1)
    if world > 1:
        port = os.environ.get("MASTER_PORT", "29511")
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world,
                                timeout=datetime.timedelta(hours=6))
    Run(args, *prepare(args, rank, world), rank, world).until_the_end()
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
