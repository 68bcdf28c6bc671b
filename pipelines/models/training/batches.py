"""Training batches: commands alone, commands in a row as one conversation, prose, and echoes.

Why: alone, sorted by length, commands cost least padding; in a row they teach the model that earlier
turns and long contexts do not matter to a new command. An echo is random tokens and the same again:
it teaches copying, which names and titles need, within minutes.
Called by train.py. Every batch is (ids, mask): [rows, length] token ids and where the next token is to be learned.
"""

import random

import numpy as np
import torch

import commands
import tokenizer

POOL = 16          # batches drawn and sorted by length together
CONVERSATIONS = {256: 0.12, 1024: 0.05}  # share of the batches of commands, by length
ECHO_TOKENS = 3, 24
PROSE = {256: 0.8, 1024: 0.2}


class Batches:
    """An endless source of batches of about `tokens` tokens, for one process."""

    def __init__(self, pieces, prose, held, tokens, seed):
        self.pieces, self.held, self.tokens = pieces, held, tokens
        self.rng = random.Random(seed)
        self.end, self.json, self.text, self.pad = (
            pieces.token_to_id(name) for name in (tokenizer.END, tokenizer.JSON, tokenizer.TEXT, tokenizer.PAD))
        self.prose = prose
        self.ready = []

    def command(self):
        """One command's ids, and where its JSON begins to be predicted."""
        while True:
            text, answer, _ = commands.sample(self.rng)
            if text not in self.held:
                ids = self.pieces.encode(f"{tokenizer.COMMAND}{text}{tokenizer.JSON}{answer}").ids + [self.end]
                return ids, ids.index(self.json)

    def table(self, rows):
        """Pad rows of (ids, positions to learn) to one length, a multiple of 8."""
        longest = -(-max(len(ids) for ids, _ in rows) // 8) * 8
        ids, mask = np.full((len(rows), longest), self.pad, np.int64), np.zeros((len(rows), longest), bool)
        for i, (row, learned) in enumerate(rows):
            ids[i, :len(row)] = row
            mask[i, learned] = True
        return torch.from_numpy(ids), torch.from_numpy(mask)

    def alone(self):
        """A batch of single commands of like length."""
        if not self.ready:
            pool, size = [], 0
            while size < POOL * self.tokens:
                ids, start = self.command()
                pool.append((ids, list(range(start, len(ids) - 1))))
                size += len(ids)
            pool.sort(key=lambda row: len(row[0]))
            while pool:
                count = max(1, self.tokens // len(pool[-1][0]))
                self.ready.append(pool[-count:])
                del pool[-count:]
            self.rng.shuffle(self.ready)
        return self.table(self.ready.pop())

    def conversation(self, length):
        """Rows of `length` tokens made of one command after the other."""
        rows = []
        for _ in range(max(1, self.tokens // length)):
            row, learned = [], []
            while True:
                ids, start = self.command()
                if len(row) + len(ids) > length:
                    break
                learned += range(len(row) + start, len(row) + len(ids) - 1)
                row += ids
            rows.append((row, learned))
        return self.table(rows)

    def commands(self):
        pick = self.rng.random()
        for length, share in CONVERSATIONS.items():
            if pick < share:
                return self.conversation(length)
            pick -= share
        return self.alone()

    def echo(self):
        """Rows of random tokens, to be repeated after the JSON mark; the padding token says that it is no command."""
        length = self.rng.randint(*ECHO_TOKENS)
        first, last = self.pieces.token_to_id(tokenizer.PAD) + 1, self.pieces.get_vocab_size() - 1
        rows = []
        for _ in range(max(1, self.tokens // (2 * length + 3))):
            said = [self.rng.randint(first, last) for _ in range(length)]
            rows.append(([self.pad, *said, self.json, *said, self.end], list(range(length + 1, 2 * length + 2))))
        return self.table(rows)

    def novel(self):
        """Rows of prose, each from a random place."""
        length = self.rng.choices(list(PROSE), list(PROSE.values()))[0]
        rows = []
        for _ in range(max(1, self.tokens // length)):
            at = self.rng.randrange(len(self.prose) - length)
            rows.append(([self.text, *self.prose[at:at + length - 1].tolist()], list(range(length - 1))))
        return self.table(rows)
