"""Measure an export folder: exact JSON by split, group and loop count, with INT8 if asked.

Why: the model card's figures must come from a command anyone can repeat.
Called by hand; prints one line per split, loop count and group with the standard error.
"""

import argparse
import pathlib
from collections import defaultdict

import torch
from tokenizers import Tokenizer

import commands
import model as looped


def to_int8(net):
    """Round every matrix to INT8 with one symmetric scale per row, in place."""
    with torch.no_grad():
        for weight in net.parameters():
            if weight.dim() == 2:
                scale = (weight.abs().amax(1, keepdim=True) / 127).clamp_min(1e-12)
                weight.copy_((weight / scale).round().clamp(-127, 127) * scale)


@torch.no_grad()
def exact(net, pieces, items, loops):
    """Whether greedy decoding would give each command's JSON byte for byte.

    Teacher forcing suffices: greedy output equals the answer exactly when every
    position's best token is the answer's next token.
    """
    json_id, end = (pieces.token_to_id(name) for name in ("<|json|>", "<|end|>"))
    right = []
    for text, answer, _ in items:
        row = pieces.encode(f"<|cmd|>{text}<|json|>{answer}").ids + [end]
        start = row.index(json_id)
        states = net(torch.tensor([row[:-1]]), max(loops), loops)
        right.append([bool((net.head(states[d][0, start:]).argmax(-1) == torch.tensor(row[start + 1:])).all())
                      for d in loops])
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", help="export folder")
    parser.add_argument("--count", type=int, default=600, help="commands per split, as in training")
    parser.add_argument("--first", type=int, help="measure only the first so many of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loops", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--int8", action="store_true", help="round the weights to INT8 first")
    args = parser.parse_args()
    torch.set_num_threads(1)
    net = looped.load(args.folder).eval()
    pieces = Tokenizer.from_file(str(pathlib.Path(args.folder) / "tokenizer.json"))
    if args.int8:
        to_int8(net)
    loops = tuple(int(n) for n in args.loops.split(","))
    for split in commands.SPLITS:
        items = commands.held_out(split, args.count, args.seed)[:args.first]
        by_group = defaultdict(list)
        for (_, _, groups), right in zip(items, exact(net, pieces, items, loops)):
            for group in ["all", *groups]:
                by_group[group].append(right)
        for group, rows in sorted(by_group.items()):
            n = len(rows)
            for depth, column in zip(loops, zip(*rows)):
                p = sum(column) / n
                print(f"{split:9} {group:7} loops {depth}  {p:.3f} ± {(p * (1 - p) / n) ** 0.5:.3f}  n {n}")


if __name__ == "__main__":
    main()
