#!/usr/bin/env python3
"""tests/tools/commands.py — every sub-command of `tinyloop` from outside: output, JSON, one-line errors, exit status.

$TINYLOOP_TOOL is the command, $TINYLOOP_DEMO the demo model. Needs nothing but Python; run by meson.
"""
import array
import json
import math
import os
import pty
import shutil
import struct
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml

import tap

TOOL, DEMO = os.environ["TINYLOOP_TOOL"], os.environ["TINYLOOP_DEMO"]
GOLDEN = os.path.join(os.environ["TINYLOOP_TEST_GOLDENS"], "qwen3")
COMMANDS = ("convert", "inspect", "tokenize", "generate", "grammar", "score", "bench", "export-gguf")


def run(*args, text=None):
    return subprocess.run([TOOL, *args], input=text or "", capture_output=True, text=True, timeout=120)


def tensors_of(path):
    """name -> (shape, bytes) of a safetensors file"""
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + n]), data[8 + n:]
    return {name: (t["shape"], body[slice(*t["data_offsets"])]) for name, t in header.items() if name != "__metadata__"}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def done(self, *args, text=None):
        """stdout of a run that succeeds and says nothing on stderr"""
        r = run(*args, text=text)
        self.assertEqual((r.returncode, r.stderr), (0, ""), args)
        return r.stdout

    def refused(self, status, words, *args, text=None):
        """one line on stderr that holds the words, nothing on stdout"""
        r = run(*args, text=text)
        self.assertEqual((r.returncode, r.stdout), (status, ""), (args, r.stderr))
        self.assertRegex(r.stderr, r"\Atinyloop: [^\n]+\n\Z")
        for word in words:
            self.assertIn(word, r.stderr, args)


class Every(Case):
    def test_help_names_options_and_exit_status(self):
        for command in COMMANDS:
            out = self.done(command, "--help")
            for word in (command, "--json", "Exit status"):
                self.assertIn(word, out, command)
            self.assertIn(command, self.done("--help"))

    def test_the_source_is_never_overwritten(self):
        source, link = shutil.copy(DEMO, self.path("a")), self.path("b")
        os.symlink(source, link)
        for command, other in (("export-gguf", source), ("export-gguf", link), ("convert", source)):
            self.refused(1, ["is the source too"], command, source, other)
        with open(source, "rb") as copy, open(DEMO, "rb") as whole:
            self.assertEqual(copy.read(), whole.read())

    def test_output_that_cannot_be_written_is_a_failure(self):
        for args in ("--help",), ("inspect", DEMO), ("generate", DEMO, "--tokens", "1,2", "--max-tokens", "2"):
            with open("/dev/full", "w") as full:
                r = subprocess.run([TOOL, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(r.returncode, 1, args)
            self.assertRegex(r.stderr, r"\Atinyloop: standard output [^\n]+\n\Z")

    def test_version_is_one_line(self):
        self.assertRegex(self.done("--version"), r"\Atinyloop \d+\.\d+\.\d+\n\Z")

    def test_help_says_what_each_command_does(self):
        for command in COMMANDS:
            self.assertRegex(self.done(command, "--help"), rf"tinyloop {command} .* - \w")

    def test_wrong_use_is_status_2_and_one_line(self):
        for command in COMMANDS:
            self.refused(2, ["--help"], command, "--no-such-option")
            self.refused(2, ["takes", "--help"], command)
            self.refused(2, ["takes"], command, "a", "b", "c")
        self.refused(2, ["nonsense"], "nonsense")
        self.refused(2, ["tinyloop export-gguf SRC DST'"], "export-gguf", "a")
        self.assertEqual(run().returncode, 2)

    def test_a_missing_file_is_status_1_and_named(self):
        for command, rest in (("convert", [self.path("x")]), ("inspect", []), ("tokenize", []), ("bench", []),
                              ("generate", ["--tokens", "1"]), ("score", ["--tokens", "1"]), ("export-gguf", [self.path("x")]),
                              ("grammar", ["--regex", "a"])):
            self.refused(1, ["no-such.tinyloop"], command, self.path("no-such.tinyloop"), *rest)

    def test_a_broken_file_is_status_1_and_named(self):
        with open(DEMO, "rb") as f, open(self.path("cut.tinyloop"), "wb") as out:
            out.write(f.read(100000))
        for command, rest in (("inspect", []), ("generate", ["--tokens", "1"]), ("export-gguf", [self.path("x")])):
            self.refused(1, ["cut.tinyloop"], command, self.path("cut.tinyloop"), *rest)
        self.assertFalse(os.path.exists(self.path("x")))


class Converting(Case):
    def test_a_folder_becomes_a_checkpoint(self):
        out = json.loads(self.done("convert", GOLDEN, self.path("m.tinyloop"), "--quantize", "int8", "--json"))
        self.assertEqual(out["descriptor"]["family"], "qwen3")
        self.assertIn("qwen3", self.done("inspect", self.path("m.tinyloop"), "--verify"))

    def test_bad_values_are_named(self):
        for args in (["--quantize", "int3"], ["--group", "48"]):
            self.refused(1, [args[1]], "convert", GOLDEN, self.path("m"), *args)
        self.refused(2, ["--group"], "convert", GOLDEN, self.path("m"), "--group", "-1")
        self.refused(1, ["no/such/folder"], "convert", GOLDEN, self.path("no/such/folder/m"))

    def test_progress_is_for_terminals_only(self):
        mine, other = pty.openpty()
        subprocess.run([TOOL, "convert", GOLDEN, self.path("m")], stderr=other, stdout=subprocess.DEVNULL, check=True)
        os.close(other)
        self.assertIn(b"%", os.read(mine, 65536))
        os.close(mine)
        self.done("convert", GOLDEN, self.path("m"))


class Inspecting(Case):
    def test_text_shows_stacks_and_json_the_descriptor(self):
        text, tree = self.done("inspect", DEMO), json.loads(self.done("inspect", DEMO, "--json"))
        self.assertRegex(text, r"loop +1 block.*applied 4 times")
        self.assertEqual(tree["descriptor"]["stacks"], {"pre": 2, "loop": 1, "coda": 0})
        self.assertEqual(tree["bytes"]["file"], os.path.getsize(DEMO))

    def test_the_drawing_is_xml_and_shows_the_loop(self):
        self.done("inspect", DEMO, "--svg", self.path("m.svg"))
        words = " ".join(xml.parse(self.path("m.svg")).getroot().itertext())
        for word in ("embed", "pre: 2 blocks", "loop: 1 block", "× 4", "head"):
            self.assertIn(word, words)
        self.refused(1, ["no/such"], "inspect", DEMO, "--svg", self.path("no/such/m.svg"))

    def test_a_changed_byte_is_found(self):
        shutil.copy(DEMO, self.path("m.tinyloop"))
        with open(self.path("m.tinyloop"), "r+b") as f:
            f.seek(1000000)
            byte = f.read(1)
            f.seek(1000000)
            f.write(bytes([byte[0] ^ 1]))
        self.refused(1, ["content hash"], "inspect", self.path("m.tinyloop"), "--verify")


class Tokenizing(Case):
    def test_there_and_back(self):
        text = "größer 日本 two\nlines"
        ids = json.loads(self.done("tokenize", DEMO, "--json", text=text))
        self.assertEqual(self.done("tokenize", DEMO, text=text).split(), [str(i) for i in ids])
        self.assertEqual(self.done("tokenize", DEMO, "--decode", text=str(ids)), text)
        self.assertEqual(json.loads(self.done("tokenize", DEMO, "--decode", "--json", text=str(ids))), text)
        self.assertEqual(json.loads(self.done("tokenize", DEMO, "--special", "--json", text="<|cmd|>")), [1])
        self.refused(1, ["'x'"], "tokenize", DEMO, "--decode", text="1 x\n")
        self.refused(1, ["2048", "index 1", "0…2047"], "tokenize", DEMO, "--decode", text="1 2048\n")

    def test_a_model_without_tokenizer_says_so(self):
        self.done("convert", GOLDEN, self.path("m.tinyloop"))
        self.refused(1, ["m.tinyloop", "no tokenizer"], "tokenize", self.path("m.tinyloop"), text="a")
        self.refused(1, ["m.tinyloop", "--tokens"], "generate", self.path("m.tinyloop"), "--prompt", "a")


class Generating(Case):
    def ids(self, *args):
        return json.loads(self.done("generate", DEMO, "--json", "--max-tokens", "8", *args))

    def test_the_prompt_is_rendered_unless_raw(self):
        rendered = self.ids("--prompt", "turn on the light")
        by_hand = self.ids("--prompt", "<|cmd|>turn on the light<|json|>", "--raw", "--special")
        self.assertEqual(rendered["tokens"], by_hand["tokens"])
        raw = self.ids("--prompt", "turn on the light", "--raw")
        self.assertEqual(raw["counters"]["prompt_tokens"], rendered["counters"]["prompt_tokens"] - 2)

    def test_options_are_utf_8_in_every_environment(self):
        by_ids = self.done("tokenize", DEMO, text="größer 日本").split()
        for locale in ("C", "C.UTF-8", "POSIX"):
            r = subprocess.run([TOOL, "generate", DEMO, "--raw", "--prompt", "größer 日本", "--stop", "ü", "--max-tokens", "1", "--json"],
                               capture_output=True, text=True, timeout=120, env={**os.environ, "LC_ALL": locale})
            self.assertEqual((r.returncode, r.stderr), (0, ""), locale)
            self.assertEqual([str(i) for i in json.loads(r.stdout)["tokens"][:-1]], by_ids)

    def test_special_tokens_of_the_user_are_text(self):
        out = self.ids("--prompt", "a<|end|>b")
        self.assertEqual(out["tokens"][:out["counters"]["prompt_tokens"]].count(0), 0)

    def test_json_and_text_tell_the_same(self):
        out = self.ids("--prompt", "turn on the light")
        self.assertEqual(set(out), {"tokens", "text", "finish_reason", "timings", "counters"})
        self.assertEqual(self.done("generate", DEMO, "--max-tokens", "8", "--prompt", "turn on the light"), out["text"] + "\n")
        again = self.ids("--tokens", ",".join(str(i) for i in out["tokens"][:out["counters"]["prompt_tokens"]]))
        self.assertEqual(again["tokens"], out["tokens"])

    def test_parameters_reach_the_engine(self):
        self.assertEqual(self.ids("--tokens", "5,6", "--loops", "2", "--ignore-eos")["counters"]["loops"], 2)
        out = self.ids("--tokens", "5,6", "--ignore-eos")["tokens"]
        stopped = self.ids("--tokens", "5,6", "--ignore-eos", "--stop-sequences", f"{out[3]},{out[4]}")
        end = next(i for i in range(4, 6) if out[i - 2:i] == out[3:5])
        self.assertEqual((stopped["tokens"], stopped["finish_reason"]), (out[:end], "stop"))

    def test_token_stats_are_those_of_a_score(self):
        ask = ["--tokens", "1,370,263", "--temperature", "1", "--top-k", "3", "--repetition-penalty", "1.3", "--ignore-eos"]
        plain, out = self.ids(*ask), self.ids(*ask, "--token-stats", "--top-logprobs", "2")
        self.assertEqual(plain["tokens"], out["tokens"])
        self.assertNotIn("token_stats", plain)
        self.done("score", DEMO, "--tokens", ",".join(map(str, out["tokens"])), "--output", self.path("s"))
        (_, vocab), data = tensors_of(self.path("s"))["logits"]
        logits = array.array("f", data)
        self.assertEqual(len(out["token_stats"]), 8)
        for i, token in enumerate(out["token_stats"], 2):
            row = logits[i * vocab:(i + 1) * vocab]
            log_sum = math.log(sum(math.exp(x - max(row)) for x in row)) + max(row)
            best = sorted(range(vocab), key=lambda v: (-row[v], v))[:2]
            self.assertEqual((token["id"], token["loops"]), (out["tokens"][i + 1], 4))
            self.assertAlmostEqual(token["logprob"], row[token["id"]] - log_sum, places=5)
            self.assertAlmostEqual(token["entropy"], -sum(math.exp(x - log_sum) * (x - log_sum) for x in row), places=5)
            self.assertEqual([a["id"] for a in token["top"]], best)
            self.assertAlmostEqual(token["top"][1]["logprob"], row[best[1]] - log_sum, places=5)
        self.refused(2, ["--token-stats", "--json"], "generate", DEMO, *ask, "--token-stats")
        self.refused(2, ["top-logprobs"], "generate", DEMO, *ask, "--token-stats", "--json", "--top-logprobs", "1025")

    def test_wrong_values_are_named(self):
        ask = ["generate", DEMO, "--tokens", "1"]
        for option, value in (("temperature", "hot"), ("temperature", "-1"), ("top-p", "1.5"), ("max-tokens", "0"),
                              ("kv-mode", "int3"), ("seed", "-1"), ("threads", "-1"), ("stop-sequences", "a")):
            self.refused(2, [value if option == "stop-sequences" else option], *ask, f"--{option}={value}")
        self.refused(2, ["default|", "fp16", "fp32"], *ask, "--kv-mode=int3")
        parameters = self.done("generate", "--help-parameters")
        self.assertIn("--kv-mode=default|", parameters)
        self.assertRegex(parameters, r"--ignore-eos +Go on")
        self.refused(2, ["--prompt"], "generate", DEMO)
        self.refused(2, ["--prompt"], *ask, "--prompt", "x")
        self.refused(2, ["--raw"], *ask, "--raw")
        self.refused(2, ["--raw"], "generate", DEMO, "--prompt", "x", "--raw", "--system", "y")
        self.refused(1, ["99999"], "generate", DEMO, "--tokens", "99999")
        self.refused(1, ["loops"], *ask, "--loops", "1000")
        self.refused(1, ["cuda"], *ask, "--device", "cuda")


class Scoring(Case):
    def test_last_is_the_last_row(self):
        vocab = json.loads(self.done("inspect", DEMO, "--json"))["descriptor"]["dims"]["vocab"]
        for what in ("logits", "last"):
            out = json.loads(self.done("score", DEMO, "--tokens", "1,2,3", "--what", what, "--output", self.path(what), "--json"))
            self.assertEqual((out["what"], out["rows"], out["vocab"]), (what, 3 if what == "logits" else 1, vocab))
        shape, data = tensors_of(self.path("logits"))["logits"]
        last_shape, last = tensors_of(self.path("last"))["last"]
        self.assertEqual((shape, last_shape), ([3, vocab], [vocab]))
        self.assertEqual(data[-len(last):], last)
        values = array.array("f", last)
        self.assertEqual(out["argmax_last"], values.index(max(values)))

    def descriptor(self):
        return json.loads(self.done("inspect", DEMO, "--json"))["descriptor"]

    def dims(self):
        return self.descriptor()["dims"]

    def score(self, what, *args):
        out = json.loads(self.done("score", DEMO, "--tokens", "1,2,3", "--loops", "4", "--what", what, "--output", self.path(what),
                                   "--json", *args))
        tensors = tensors_of(self.path(what))
        self.assertEqual(out["tensors"], {name: shape for name, (shape, _) in tensors.items()})
        return tensors

    def test_the_lens_is_a_score_at_every_depth(self):
        for args in ([], ["--exact-activations"], ["--kv-mode", "fp32"]):
            shape, lens = self.score("logit-lens", *args)["logit-lens"]
            self.assertEqual(shape, [4, 3, self.dims()["vocab"]])
            for loops in (1, 2, 4):
                logits = self.score("logits", "--loops", str(loops), *args)["logits"][1]
                self.assertEqual(lens[(loops - 1) * len(logits):loops * len(logits)], logits)

    def test_every_kind_has_its_tensors(self):
        dims, pre = self.dims(), self.descriptor()["stacks"]["pre"]
        vocab = dims["vocab"]
        shapes = {what: {name: shape for name, (shape, _) in self.score(what).items()}
                  for what in ("trajectory", "uncertainty", "consistency")}
        self.assertEqual(shapes["trajectory"], {"trajectory": [1 + pre + 4, 3, dims["d_model"]]})
        self.assertEqual(shapes["uncertainty"], {"logits": [3, vocab], "kl": [3, 3], "uncertainty": [3]})
        self.assertEqual(shapes["consistency"], {"logits": [3, vocab], "argmax": [4, 3], "stable_from": [3], "consistent": [3]})
        out = self.score("consistency")
        columns = array.array("i", out["argmax"][1])
        for t, consistent in enumerate(out["consistent"][1]):
            self.assertEqual(bool(consistent), len(set(columns[t::3])) == 1)
        self.assertIn("kl [3, 3]", self.done("score", DEMO, "--tokens", "1,2,3", "--loops", "4", "--what", "uncertainty"))

    def test_wrong_values_are_named(self):
        self.refused(1, ["loops"], "score", DEMO, "--tokens", "1", "--what", "logit-lens", "--loops", "99")
        self.refused(2, ["everything"], "score", DEMO, "--tokens", "1", "--what", "everything")
        self.refused(1, ["no/such"], "score", DEMO, "--tokens", "1", "--output", self.path("no/such"))


class Benching(Case):
    def test_figures_are_there(self):
        out = json.loads(self.done("bench", DEMO, "--prompt-tokens", "8", "--decode-tokens", "4", "--json"))
        self.assertEqual((out["prompt_tokens"], out["decode_tokens"], out["loops"]), (8, 4, 4))
        for name in ("prefill_tok_s", "decode_tok_s", "bytes_per_token", "read_bandwidth_bytes_s", "percent_of_limit"):
            self.assertGreater(out[name], 0)

    def test_wrong_values_are_named(self):
        self.refused(2, ["--streams"], "bench", DEMO, "--streams", "2")
        self.refused(2, ["--decode-tokens"], "bench", DEMO, "--decode-tokens", "1")


class Exporting(Case):
    def export(self, source, *args):
        """the model that comes back from the exported file"""
        self.done("export-gguf", source, self.path("m.gguf"), *args)
        back = self.path(f"back{len(os.listdir(self.folder))}.tinyloop")
        self.done("convert", self.path("m.gguf"), back)
        return back

    def logits(self, model, *args):
        self.done("score", model, "--tokens", "1,370,263,979,333", "--output", self.path("s"), *args)
        return tensors_of(self.path("s"))["logits"][1]

    def assert_near(self, a, b, room):
        a, b = array.array("f", a), array.array("f", b)
        self.assertEqual(len(a), len(b))
        self.assertLess(max(abs(x - y) for x, y in zip(a, b)), room)
        self.assertGreater(max(a) - min(a), 1)

    def test_loops_unrolled_mean_the_same(self):
        for loops in ("2", "4"):
            back = self.export(DEMO, "--without-tokenizer", "--loops", loops)
            self.assertEqual(json.loads(self.done("inspect", back, "--json"))["descriptor"]["stacks"]["loop"], 2 + int(loops))
            self.assert_near(self.logits(DEMO, "--loops", loops, "--exact-activations"),
                             self.logits(back, "--exact-activations"), 2e-3)

    def test_groups_of_32_come_back_bit_for_bit(self):
        once = self.export(DEMO, "--without-tokenizer")
        twice = self.export(once, "--loops", "2")
        self.assertEqual(self.logits(once, "--loops", "2"), self.logits(twice))
        self.assertLess(abs(os.path.getsize(self.path("m.gguf")) - os.path.getsize(twice)), 600000)

    def test_four_bits_and_floats_come_back_bit_for_bit(self):
        for args in (["--quantize", "int4", "--group", "32"], []):
            self.done("convert", GOLDEN, self.path("m.tinyloop"), *args)
            back = self.export(self.path("m.tinyloop"))
            for model in (self.path("m.tinyloop"), back):
                self.done("score", model, "--tokens", "3,4,5", "--exact-activations", "--output", model + ".s")
            self.assertEqual(tensors_of(self.path("m.tinyloop.s")), tensors_of(back + ".s"))

    def golden_with_tokenizer(self):
        """the golden model, F32, with a small tokenizer of a form that GGUF has, and a template"""
        shutil.copytree(GOLDEN, self.path("folder"))
        printable = [chr(b) for b in [*range(33, 127), *range(161, 173), *range(174, 245)]]
        pieces = ["<|a|>", "<|b|>", "<|end|>", "Ġ", *printable, "se", "set", "Ġt", "im", "er"]
        special = [{"id": i, "content": pieces[i], "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                    "normalized": False} for i in range(3)]
        merges = [["s", "e"], ["se", "t"], ["Ġ", "t"], ["i", "m"], ["e", "r"]]
        with open(self.path("folder/tokenizer.json"), "w") as f:
            json.dump({"version": "1.0", "added_tokens": special, "normalizer": None, "post_processor": None,
                       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                       "decoder": {"type": "ByteLevel"},
                       "model": {"type": "BPE", "vocab": {p: i for i, p in enumerate(pieces)}, "merges": merges}}, f)
        with open(self.path("folder/tokenizer_config.json"), "w") as f:
            json.dump({"chat_template": "<|a|>{{ messages[-1]['content'] }}<|b|>", "eos_token": "<|end|>"}, f)
        self.done("convert", self.path("folder"), self.path("t.tinyloop"))
        return self.path("t.tinyloop")

    def test_tokenizer_and_template_go_along(self):
        model = self.golden_with_tokenizer()
        back = self.export(model)
        text = "set 15 timers, grün"
        self.assertEqual(self.done("tokenize", model, text=text), self.done("tokenize", back, text=text))
        ask = ["--prompt", "set a timer", "--exact-activations", "--max-tokens", "12"]
        self.assertEqual(self.done("generate", model, *ask), self.done("generate", back, *ask))
        self.done("export-gguf", model, self.path("bare.gguf"), "--without-tokenizer")
        self.done("convert", self.path("bare.gguf"), self.path("bare.tinyloop"))
        self.refused(1, ["no tokenizer"], "tokenize", self.path("bare.tinyloop"), text="a")

    def test_what_has_no_form_is_named(self):
        nanbeige = os.path.join(os.environ["TINYLOOP_TEST_GOLDENS"], "nanbeige")
        self.done("convert", nanbeige, self.path("n.tinyloop"))
        self.refused(1, ["norms.loop_end"], "export-gguf", self.path("n.tinyloop"), self.path("n.gguf"))
        self.refused(1, ["1 to 8"], "export-gguf", DEMO, self.path("n.gguf"), "--loops", "9")
        self.refused(2, ["--loops"], "export-gguf", DEMO, self.path("n.gguf"), "--loops", "-1")
        self.refused(1, ["pre_tokenizer"], "export-gguf", DEMO, self.path("n.gguf"))
        self.refused(1, ["no/such"], "export-gguf", DEMO, self.path("no/such/n.gguf"), "--without-tokenizer")
        self.assertEqual([f for f in os.listdir(self.folder) if "gguf" in f], [])

    def test_json_names_file_and_size(self):
        out = json.loads(self.done("export-gguf", DEMO, self.path("m.gguf"), "--without-tokenizer", "--json"))
        self.assertEqual(out, {"output": self.path("m.gguf"), "bytes": os.path.getsize(self.path("m.gguf"))})



class Grammars(Case):
    COLOUR = "(red|green) light"

    def legal(self, *args):
        out = json.loads(self.done("grammar", DEMO, "--json", *args))
        return [self.done("tokenize", DEMO, "--decode", text=str(i)) for i in out["legal"]], out["accepting"]

    def test_a_reply_matches(self):
        out = self.done("generate", DEMO, "--prompt", "turn it on", "--regex", self.COLOUR, "--temperature", "1", "--ignore-eos")
        self.assertIn(out, ("red light\n", "green light\n"))
        out = json.loads(self.done("generate", DEMO, "--prompt", "turn it on", "--regex", "[ab]{3}", "--json"))
        self.assertRegex(out["text"], r"\A[ab]{3}\Z")
        self.assertEqual(out["finish_reason"], "grammar-complete")

    def test_legal_ids_begin_a_match(self):
        pieces, accepting = self.legal("--regex", self.COLOUR)
        self.assertEqual((set(p[0] for p in pieces), accepting), ({"r", "g"}, False))
        self.assertTrue(all("red light".startswith(p) or "green light".startswith(p) for p in pieces))
        pieces, accepting = self.legal("--regex", self.COLOUR, "--after", "red l")
        self.assertTrue(pieces and all("ight".startswith(p) for p in pieces))
        self.assertTrue(self.legal("--regex", "a*", "--after", "aa")[1])

    def test_a_text_is_checked(self):
        self.assertEqual(self.done("grammar", DEMO, "--regex", self.COLOUR, "--check", "red light"), "matches\n")
        self.assertEqual(json.loads(self.done("grammar", DEMO, "--regex", "a", "--check", "b", "--json")), {"matches": False})

    def test_what_is_wrong_is_named(self):
        self.refused(1, ["byte 1"], "grammar", DEMO, "--regex", "a(b")
        self.refused(1, ["byte 1"], "generate", DEMO, "--prompt", "x", "--regex", "a(b")
        self.refused(1, ["--after", "byte 0"], "grammar", DEMO, "--regex", "a", "--after", "zz")
        self.refused(2, ["--regex"], "grammar", DEMO)
        self.refused(2, ["not both"], "grammar", DEMO, "--regex", "a", "--after", "a", "--check", "a")


if __name__ == "__main__":
    tap.main()
