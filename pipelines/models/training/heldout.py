#!/usr/bin/env python3
"""The held-out commands: five sets, drawn once with a fixed seed and never trained on.

  heldout.py FILE [--count N]      writes {set: [[sentence, json, groups], …]}

heldout.json in this folder is the first 50 of each set, which the tests give to the committed model.
Called by hand; train.py leaves these sentences out and evaluate.py measures them.
"""

import argparse
import json
import pathlib
import random

import commands

COUNT, SEED = 1000, 1
# set: phrasings never trained on, names never trained on, only closed slots
SETS = {
    "closed, seen phrasings": (False, False, True),
    "closed, unseen phrasings": (True, False, True),
    "all, seen phrasings": (False, False, False),
    "all, unseen phrasings": (True, False, False),
    "unseen names and titles": (False, True, False),
}


def common():
    """Sentences so frequent that leaving them out would hurt: those of the first draws of training."""
    rng = random.Random(SEED)
    return {commands.sample(rng)[0] for _ in range(50000)}


def sets(count=COUNT):
    """{set: its first `count` commands}; the first ones are the same for any count."""
    avoid = common()
    return {name: commands.held_out(*how, count, SEED, avoid) for name, how in SETS.items()}


def sentences():
    """Every held-out sentence, for training to leave out."""
    return {text for rows in sets().values() for text, _, _ in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=COUNT)
    args = parser.parse_args()
    lines = [f" {json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, rows)) + "\n ]"
             for name, rows in sets(args.count).items()]
    args.file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
