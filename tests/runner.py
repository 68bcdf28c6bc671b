#!/usr/bin/env python3
"""tests/runner.py — tests of the test runner: planted results must be counted, planted breaches of style must be found.

Runs tests/count.py on logs as meson writes them and tests/style on a small tree with one breach a rule. Prints TAP; a fast test.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import tap

HERE = os.path.dirname(os.path.abspath(__file__))
SUBTESTS = """<testsuite name="t.t:fast / {0}" tests="3"><testcase name="1 a" classname="t.t:fast / {0}"/>
<testcase name="2 b" classname="t.t:fast / {0}"><skipped/></testcase>{1}</testsuite>"""
FAILED_SUBTEST = '<testcase name="3 c" classname="x"><failure/></testcase>'
SINGLE = '<testsuite name="t" tests="1"><testcase name="t:slow / {0}" classname="t">{1}</testcase></testsuite>'


def count(suites, runs):
    """-> (last line, exit status, everything printed)"""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "testlog.junit.xml"), "w") as f:
            f.write("<testsuites>" + "".join(suites) + "</testsuites>")
        with open(os.path.join(folder, "testlog.json"), "w") as f:
            for name, result, out in runs:
                f.write(json.dumps({"name": name, "result": result, "returncode": 1, "stdout": out}) + "\n")
        done = subprocess.run([sys.executable, os.path.join(HERE, "count.py"), folder], capture_output=True, text=True)
    return done.stdout.splitlines()[-1], done.returncode, done.stdout


def breaches(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as f:
                f.write(text)
        done = subprocess.run([sys.executable, os.path.join(HERE, "style"), root], capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if line.startswith("#")]


class Counting(unittest.TestCase):
    def test_subtests_and_skips_are_counted_one_by_one(self):
        line, status, _ = count([SUBTESTS.format("x", ""), SINGLE.format("y", "<skipped/>")],
                                [("t:fast / x", "OK", ""), ("t:slow / y", "SKIP", "")])
        self.assertEqual((line, status), ("1 passed, 0 failed, 2 skipped", 0))

    def test_a_failed_subtest_is_one_failure_and_its_output_is_shown(self):
        line, status, out = count([SUBTESTS.format("x", FAILED_SUBTEST)], [("t:fast / x", "FAIL", "expected 3")])
        self.assertEqual((line, status), ("1 passed, 1 failed, 1 skipped", 1))
        self.assertIn("expected 3", out)

    def test_a_program_that_dies_between_subtests_is_a_failure(self):
        for result in ("ERROR", "TIMEOUT"):
            line, status, _ = count([SUBTESTS.format("x", "")], [("t:fast / x", result, "")])
            self.assertEqual((line, status), ("1 passed, 1 failed, 1 skipped", 1))

    def test_a_failed_program_without_subtests_is_one_failure(self):
        line, status, _ = count([SINGLE.format("y", "<failure/>")], [("t:slow / y", "FAIL", "")])
        self.assertEqual((line, status), ("0 passed, 1 failed, 0 skipped", 1))

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(count([], [])[:2], ("0 passed, 1 failed, 0 skipped", 1))


class Style(unittest.TestCase):
    HEADER = "/* a header of the model room, for planting */\n"

    def test_a_clean_tree_has_no_breach(self):
        self.assertEqual(breaches({"engine/cpu/a.c": '/* what this file is for */\n#include "model/m.h"\n',
                                   "engine/model/m.h": self.HEADER}), [])

    def test_a_room_may_not_include_upwards(self):
        found = breaches({"engine/model/a.c": '/* what this file is for */\n#include "cpu/c.h"\n', "engine/cpu/c.h": self.HEADER})
        self.assertEqual(len(found), 1)
        self.assertIn("engine/model/a.c: includes engine/cpu/c.h", found[0])

    def test_elements_see_public_headers_only(self):
        element = '/* an element planted for this */\n#include "model/m.h"\n'
        tree = {"gst/e.c": element, "engine/model/m.h": self.HEADER}
        self.assertEqual(len(breaches(tree)), 1)
        self.assertEqual(breaches(tree | {"engine/model/meson.build": "engine_headers += files('m.h')\n"}), [])

    def test_a_file_needs_its_first_comment_and_an_end(self):
        self.assertEqual(len(breaches({"gst/a.c": "int x;\n"})), 1)
        self.assertEqual(len(breaches({"gst/a.c": self.HEADER + "\n" * 900})), 1)

    def test_machine_paths_are_found(self):
        self.assertEqual(len(breaches({"docs/a.md": "see " + os.sep.join(["", "work", "x"]) + "\n"})), 1)


if __name__ == "__main__":
    tap.main()
