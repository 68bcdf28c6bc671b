#!/usr/bin/env python3
"""Measure a .tinyloop file on the held-out commands with TinyLoop's engine; prints the tables of card.md.

  evaluate.py MODEL [--count N] [--loops 1,2,4,8] [--accept N] [--against MODEL]
  evaluate.py MODEL --sample      the committed sample, decoded token by token

Why: the card's figures must come from a command anyone can repeat, and from the engine that is shipped.
Called by hand in `meson devenv -C build`; tests/pipelines/demo-model.py uses the functions. Needs no torch.
"""

import argparse
import json
import pathlib
from collections import defaultdict

import heldout
import tinyloop_py as tl

COMMAND, JSON, END = "<|cmd|>", "<|json|>", "<|end|>"
LONGEST_REPLY = 120
STEPS = "several steps"
SAMPLE, SAMPLE_LOOPS = pathlib.Path(__file__).with_name("heldout.json"), (2, 4, 8)


class Commands:
    """A model as it is used for commands."""

    def __init__(self, path):
        self.model = tl.load(path, threads=1)  # commands are too short to share among cores
        self.default_loops = self.model.config()["default_loops"]
        [self.json], [self.end] = (self.encode(name) for name in (JSON, END))

    def encode(self, text):
        return self.model.tokenizer.encode(text, special=True)

    def reply(self, sentence, loops):
        """Ids of the prompt, and those of the greedy reply with the token that ends it."""
        prompt = self.encode(f"{COMMAND}{sentence}{JSON}")
        ids = self.model.generate(prompt, max_tokens=LONGEST_REPLY, loops=loops, ignore_eos=False)
        return prompt, ids[len(prompt):]

    def answer(self, sentence, loops):
        """The text of the greedy reply."""
        _, ids = self.reply(sentence, loops)
        return self.model.tokenizer.decode([i for i in ids if i != self.end])

    def agrees(self, prompt, reply, loops):
        """For every token of `reply`, whether it is the likeliest after those before it."""
        logits = self.model.score(prompt + reply[:-1], loops=loops)[len(prompt) - 1:]
        return [int(best) == token for best, token in zip(logits.argmax(1), reply)]

    def is_exact(self, sentence, answer, loops):
        """Whether greedy decoding gives `answer` byte for byte: every token of it is the likeliest one."""
        return all(self.agrees(self.encode(f"{COMMAND}{sentence}{JSON}"), self.encode(answer) + [self.end], loops))


def shares(commands, rows, loops):
    """{group: [share of exact answers at each of `loops`]} and {group: commands in it}; "all" is every row."""
    found = defaultdict(list)
    for sentence, answer, groups in rows:
        right = [commands.is_exact(sentence, answer, depth) for depth in loops]
        for group in ["all", *groups]:
            found[group].append(right)
    return ({group: [sum(column) / len(results) for column in zip(*results)] for group, results in found.items()},
            {group: len(results) for group, results in found.items()})


def acceptance(commands, rows, loops):
    """Share of the tokens decoded at the default depth that each of `loops` would have chosen, too."""
    agreed, total = [0] * len(loops), 0
    for sentence, _, _ in rows:
        prompt, reply = commands.reply(sentence, commands.default_loops)
        total += len(reply)
        for i, depth in enumerate(loops):
            agreed[i] += sum(commands.agrees(prompt, reply, depth))
    return [count / total for count in agreed]


def sample(commands):
    """Prints how many commands of heldout.json are answered exactly."""
    print(f"| set | n | {' | '.join(map(str, SAMPLE_LOOPS))} |\n|{'---|' * (len(SAMPLE_LOOPS) + 2)}")
    for name, rows in json.loads(SAMPLE.read_text()).items():
        right = [sum(commands.answer(sentence, depth) == answer for sentence, answer, _ in rows) for depth in SAMPLE_LOOPS]
        print(f"| {name} | {len(rows)} | {' | '.join(map(str, right))} |", flush=True)


def line(name, n, values):
    return f"| {name} | {n} | " + " | ".join(f"{100 * value:.1f}" for value in values) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", help="a .tinyloop file")
    parser.add_argument("--count", type=int, default=heldout.COUNT, help="commands of each set")
    parser.add_argument("--accept", type=int, default=200, help="commands of each set for the draft depths; 0: skip them")
    parser.add_argument("--loops", default="1,2,3,4,6,8")
    parser.add_argument("--against", help="another file, for instance the same in F32, at its default depth")
    parser.add_argument("--sample", action="store_true", help="only the commands of heldout.json")
    parser.add_argument("--groups", action="store_true", help="every group of every set")
    args = parser.parse_args()
    loops = [int(n) for n in args.loops.split(",")]
    commands = Commands(args.model)
    if args.sample:
        return sample(commands)
    sets = heldout.sets(args.count)
    other = Commands(args.against) if args.against else None

    print(f"Exact JSON, %, by loops\n\n| set | n | {' | '.join(map(str, loops))} |\n|{'---|' * (len(loops) + 2)}")
    compared = []
    for name, rows in sets.items():
        found, counts = shares(commands, rows, loops)
        for group in sorted(found) if args.groups else ("all", STEPS):
            if group in found:
                print(line(name if group == "all" else f"{name}: {group}", counts[group], found[group]), flush=True)
        if other:
            depth = [commands.default_loops]
            compared.append(line(name, len(rows), [shares(c, rows, depth)[0]["all"][0] for c in (commands, other)]))
    if compared:
        print(f"\n| set, at {commands.default_loops} loops | n | {args.model} | {args.against} |\n|---|---|---|---|")
        print("\n".join(compared))
    if args.accept:
        print(f"\nAcceptance of draft depths, % of the tokens decoded at {commands.default_loops} loops\n\n"
              f"| set | n | {' | '.join(map(str, loops))} |\n|{'---|' * (len(loops) + 2)}")
        for name, rows in sets.items():
            print(line(name, len(rows[:args.accept]), acceptance(commands, rows[:args.accept], loops)), flush=True)
    return None

if __name__ == "__main__":
    main()
