#!/usr/bin/env python3
"""tests/count.py — counts what `meson test` did and shows the output of what failed.

  count.py BUILD/meson-logs

Subtests and skips are counted from the junit file. A program that died, timed out or failed outside of any
subtest stands in testlog.json only and counts as one more failure. No test at all is a failure.
Called by tests/check; prints `N passed, N failed, N skipped` as its last line.
"""
import glob
import json
import os
import sys
import xml.etree.ElementTree as ET

BAD = {"FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS"}
TAIL = 60  # lines of a failing program's output


def read_junit(path):
    """-> {program: [passed, failed, skipped, [names of failed subtests]]}"""
    programs = {}
    for suite in ET.parse(path).getroot().iter("testsuite"):
        for case in suite.findall("testcase"):
            subtests = " / " in suite.get("name")  # else: the project's suite, one case a program
            name = suite.get("name") if subtests else case.get("name")
            counts = programs.setdefault(name, [0, 0, 0, []])
            if case.find("failure") is not None or case.find("error") is not None:
                counts[1] += 1
                counts[3].append(case.get("name"))
            elif case.find("skipped") is not None:
                counts[2] += 1
            else:
                counts[0] += 1
    return programs


def newest(folder, pattern):
    found = glob.glob(os.path.join(folder, pattern))
    return max(found, key=os.path.getmtime) if found else None


def last_lines(text):
    lines = (text or "").rstrip().splitlines()
    return lines[-TAIL:]


def main():
    folder = sys.argv[1]
    junit, log = newest(folder, "testlog*.junit.xml"), newest(folder, "testlog*.json")
    programs = read_junit(junit) if junit else {}
    passed, failed, skipped = (sum(p[i] for p in programs.values()) for i in range(3))

    for line in open(log) if log else []:
        run = json.loads(line)
        if run["result"] not in BAD:
            continue
        inside = [n for key, p in programs.items() for n in p[3]
                  if key == run["name"] or key.endswith("." + run["name"])]
        if not inside:
            failed += 1
        print(f"\n=== {run['name']}: {run['result']} (exit {run.get('returncode')})")
        for name in inside:
            print(f"  failed: {name}")
        for text in (run.get("stdout"), run.get("stderr")):
            for out in last_lines(text):
                print("  " + out)

    if passed + failed + skipped == 0:
        print("no test ran")
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
