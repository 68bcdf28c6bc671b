#!/usr/bin/env python3
"""tests/gst/leaks.py — runs an element test program with GStreamer's leaks tracer: no object may outlive its test.

  leaks.py PROGRAM

Every test runs in a process of its own, whose tracer logs what is alive when GStreamer is shut down. Prints TAP; run by meson.
"""
import os
import re
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "tracer.log")
    env = dict(os.environ, GST_TRACERS="leaks", GST_DEBUG="GST_TRACER:7", GST_DEBUG_FILE=log, GST_DEBUG_NO_COLOR="1")
    done = subprocess.run([sys.argv[1]], env=env, stdout=subprocess.PIPE, text=True, errors="replace")
    with open(log, errors="replace") as f:
        lines = f.readlines()

tests = len(re.findall(r"^(?:not )?ok ", done.stdout, re.M))
failed = re.findall(r"^not ok .*", done.stdout, re.M)
traced = [line for line in lines if "leaks" in line or "object-alive" in line]
alive = [line.strip() for line in lines if re.search(r"object-alive, type-name=\(string\)[^%]", line)]

print("1..3")
print("ok 1 - the program's tests pass" if tests and not failed and done.returncode == 0 else "not ok 1 - the program's tests pass")
for line in failed:
    print("#", line)
print("ok 2 - the tracer runs" if traced else "not ok 2 - the tracer runs")
print("not ok 3 - no object outlives its test" if alive else "ok 3 - no object outlives its test")
for line in alive:
    print("#", line)
sys.exit(bool(failed or alive or not traced or not tests))
