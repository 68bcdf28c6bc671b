#!/usr/bin/env python3
"""tests/pipelines/demo-model.py — the committed demo model does what its card says, decoded by our engine.

The sample is pipelines/models/training/heldout.json (the first commands of each held-out set, never trained on). Its figures
must be those of the card's second table, give or take SLACK commands, and fit the first table, of the whole sets, as a sample
of that size does. Run by meson (suite slow) with the typelib, library and package of the build.
"""
import json
import os
import re
import sys
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODELS = os.path.join(ROOT, "pipelines", "models")
sys.path.insert(0, os.path.join(MODELS, "training"))
import evaluate     # noqa: E402

LOOPS = (2, 4, 8)
SLACK = 1           # commands whose two likeliest tokens may change places when the engine's arithmetic is revised
SPREAD = 4          # standard errors that a sample may lie from the whole set

# What README, quickstart and the docs show.
SHOWN = {
    "turn the kitchen lights down to thirty percent": {"intent": "light.set", "room": "kitchen", "level": 30},
    "set a timer for ten minutes": {"intent": "timer.set", "duration": {"m": 10}},
    "play some jazz in the living room": {"intent": "media.play", "room": "living room", "genre": "jazz"},
    "play something by the beatles in the living room": {"intent": "media.play", "room": "living room", "artist": "the beatles"},
    "remind me to water the plants at six": {"intent": "reminder.set", "text": "water the plants", "time": "6:00"},
}


def table(card, title):
    """{row's name: {loops: number}} of the card's table under `title`; its columns are named, n among them."""
    lines = card[card.index(title):].split("\n\n")[1].splitlines()
    columns = [cell.strip() for cell in lines[0].strip("|").split("|")]
    return {cells[0]: dict(zip(columns[1:], map(float, cells[1:])))
            for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:])}


class DemoModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = evaluate.Commands(os.path.join(MODELS, "demo.tinyloop"))
        with open(os.path.join(MODELS, "card.md")) as f:
            cls.card = f.read()
        with open(os.path.join(MODELS, "training", "heldout.json")) as f:
            cls.sample = json.load(f)

    def test_the_sample_is_answered_as_the_card_says(self):
        whole, sample = (table(self.card, title) for title in ("## Exact JSON", "## The sample"))
        for name, rows in self.sample.items():
            for loops in LOOPS:
                right = sum(self.commands.answer(sentence, loops) == answer for sentence, answer, _ in rows)
                with self.subTest(set=name, loops=loops):
                    self.assertLessEqual(abs(right - sample[name][str(loops)]), SLACK)
                    share = whole[name][str(loops)] / 100
                    error = max(share * (1 - share) / len(rows), 1 / len(rows) ** 2) ** 0.5
                    self.assertLessEqual(abs(right / len(rows) - share), SPREAD * error)

    def test_the_sentences_that_are_shown_are_understood(self):
        for sentence, answer in SHOWN.items():
            with self.subTest(sentence):
                self.assertEqual(json.loads(self.commands.answer(sentence, self.commands.default_loops)), answer)

    def test_replies_end_at_every_depth(self):
        for loops in range(1, 9):
            _, reply = self.commands.reply("turn off the bedroom lights", loops)
            self.assertEqual(reply[-1], self.commands.end, f"at {loops} loops")

    def test_prose_is_the_second_mode(self):
        prompt = self.commands.encode("<|text|>It was a fine morning, and")
        ids = self.commands.model.generate(prompt, max_tokens=40, temperature=0.7, top_k=40, seed=3)
        words = re.findall(r"[a-z]+", self.commands.model.tokenizer.decode(ids[len(prompt):]))
        self.assertGreater(len(set(words)), 10)

    def test_the_file_is_small(self):
        self.assertLessEqual(os.path.getsize(os.path.join(MODELS, "demo.tinyloop")), 4_000_000)


if __name__ == "__main__":
    unittest.main()
