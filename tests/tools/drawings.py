#!/usr/bin/env python3
"""tests/tools/drawings.py — `tinyloop score --svg`: the drawing is XML, has a cell for every score, and says what the scores say.

Environment and helpers as in commands.py. Needs nothing but Python; run by meson.
"""
import array
import math
import re
import xml.etree.ElementTree as xml

import tap
from commands import DEMO, Case, tensors_of

SVG = "{http://www.w3.org/2000/svg}"
TEXT = "set a timer\n\tfor <b> & größer 日本 now"


class Drawing(Case):
    def draw(self, what, loops, *args):
        """root of the drawing and the tensors beside it"""
        self.done("score", DEMO, "--loops", str(loops), "--what", what, "--svg", self.path("d.svg"), "--output", self.path("d"), *args)
        return xml.parse(self.path("d.svg")).getroot(), tensors_of(self.path("d"))

    def cells(self, root, last=False):
        """(title, texts) of the grid's cells, or of those of the row at the bottom"""
        kind = "cell last" if last else "cell"
        return [(g.find(SVG + "title").text, [t.text for t in g.findall(SVG + "text")]) for g in root.iter(SVG + "g")
                if g.get("class") == kind]

    def texts(self, root, kind):
        return [t.text for t in root.iter(SVG + "text") if t.get("class") == kind]

    def likeliest(self, logits):
        best = max(range(len(logits)), key=lambda i: (logits[i], -i))
        return best, 1 / sum(math.exp(x - logits[best]) for x in logits)

    def shown(self, ids):
        """the texts of ids as the drawings show them"""
        out = []
        for i in ids:
            text = self.done("tokenize", DEMO, "--decode", text=str(i))
            out.append(text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))
        return out

    def test_every_cell_of_a_lens_is_the_likeliest_token_and_its_probability(self):
        root, tensors = self.draw("logit-lens", 3, "--prompt", TEXT)
        (loops, n, vocab), data = tensors["logit-lens"]
        lens = array.array("f", data)
        cells = self.cells(root)
        self.assertEqual((len(cells), len(self.cells(root, last=True))), (loops * n, n))
        seen = set()
        for title, (token, percent) in cells + self.cells(root, last=True):
            position, loop, identity, p = re.fullmatch(r"position (\d+), loop (\d+): .* \(id (\d+)\), p = (0\.\d+|1\.0+)", title).groups()
            at = (int(loop) - 1) * n + int(position)
            best, probability = self.likeliest(lens[at * vocab:(at + 1) * vocab])
            self.assertEqual(int(identity), best)
            self.assertAlmostEqual(float(p), probability, places=3)
            self.assertLessEqual(abs(int(percent.split("%")[0]) - 100 * probability), 0.51)
            if len(token) < 9 and "⟨" not in token:
                self.assertEqual([token], self.shown([best]))
            seen.add(at)
        self.assertEqual(len(seen), loops * n)

    def test_the_line_stands_where_the_likeliest_token_last_changed(self):
        root, _ = self.draw("logit-lens", 6, "--prompt", "turn on the light")
        self.done("score", DEMO, "--loops", "6", "--what", "consistency", "--prompt", "turn on the light", "--output", self.path("s"))
        stable = array.array("i", tensors_of(self.path("s"))["stable_from"][1])
        lines = [p.get("d") for p in root.iter(SVG + "path") if p.get("class") == "settled" and "V" in p.get("d")]
        tops = [int(y) for line in lines for y in re.findall(r"V(\d+)h", line)]
        rows = sorted({int(r.get("y")) for g in root.iter(SVG + "g") if g.get("class") == "cell" for r in g.findall(SVG + "rect")})
        self.assertEqual(len(rows), 6)
        self.assertGreater(len(set(stable)), 1)
        self.assertEqual([rows.index(top) + 1 for top in tops], list(stable))

    def test_a_heat_map_has_every_divergence(self):
        root, tensors = self.draw("uncertainty", 4, "--prompt", TEXT)
        (n, pairs), data = tensors["kl"]
        kl, mean = array.array("f", data), array.array("f", tensors["uncertainty"][1])
        cells = self.cells(root)
        self.assertEqual((len(cells), len(self.cells(root, last=True))), (n * pairs, n))
        for title, (number,) in cells:
            position, loop, value = re.fullmatch(r"position (\d+), loop (\d+): ([\d.]+) nats from the loop before", title).groups()
            expected = kl[int(position) * pairs + int(loop) - 2]
            self.assertAlmostEqual(float(value), expected, places=5)
            self.assertAlmostEqual(float(number), expected, delta=max(0.0006, expected * 0.06))
        for title, (number,) in self.cells(root, last=True):
            self.assertAlmostEqual(float(number), mean[int(re.match(r"position (\d+):", title)[1])], delta=0.05)
        for word in ("≤ 0.001", "≥ 10"):
            self.assertIn(word, self.texts(root, "tick"))

    def test_tokens_stand_along_the_axis_with_visible_blanks(self):
        for what in ("logit-lens", "uncertainty"):
            root, _ = self.draw(what, 2, "--prompt", TEXT, "--raw")
            read = "".join(self.texts(root, "read"))
            for piece in ("set", "␣", "⏎", "⇥", "<", "&", "größer"[:2]):
                self.assertIn(piece, read, what)
            self.assertEqual(self.texts(root, "at"), [str(i) for i in range(len(self.texts(root, "read")))])

    def test_nothing_is_fetched_or_run(self):
        self.draw("logit-lens", 2, "--tokens", "1,2,3")
        with open(self.path("d.svg"), encoding="utf-8") as f:
            text = f.read().replace('xmlns="http://www.w3.org/2000/svg"', "", 1)
        for word in ("<script", "http", "@import", "href", " on"):
            self.assertNotRegex(text, rf"<[^>]*{word}" if word == " on" else re.escape(word))

    def test_long_texts_wrap_and_end_with_a_note(self):
        root, _ = self.draw("uncertainty", 2, "--tokens", ",".join(["7"] * 40))
        xs = {r.get("x") for g in root.iter(SVG + "g") for r in g.findall(SVG + "rect")}
        self.assertLessEqual(len(xs), 16)
        self.assertEqual(len(self.cells(root)), 40)
        root, _ = self.draw("uncertainty", 2, "--tokens", ",".join(["7"] * 530), "--max-seq-len", "600")
        self.assertEqual(len(self.cells(root)), 512)
        self.assertTrue(any("first 512 of 530" in note for note in self.texts(root, "note")))

    def test_one_loop_and_one_position_can_be_drawn(self):
        root, _ = self.draw("logit-lens", 1, "--tokens", "5")
        self.assertEqual(len(self.cells(root)), 1)
        root, _ = self.draw("uncertainty", 1, "--tokens", "5")
        self.assertEqual((len(self.cells(root)), self.cells(root, last=True)[0][1]), (0, ["0"]))

    def test_what_cannot_be_drawn_is_refused(self):
        self.refused(2, ["--svg", "trajectory"], "score", DEMO, "--tokens", "1", "--what", "trajectory", "--svg", self.path("d.svg"))
        self.refused(1, ["no/such"], "score", DEMO, "--tokens", "1", "--what", "logit-lens", "--svg", self.path("no/such/d.svg"))


if __name__ == "__main__":
    tap.main()
