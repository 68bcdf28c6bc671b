#!/usr/bin/env python3
"""tests/pipelines/documented.py — runs what README.md and docs/ show, as written.

  documented.py SOURCE_ROOT BUILD_ROOT

Every fenced block marked `sh` that holds a gst-launch-1.0 line, every `python` block and every whole C program (`c` block with
a main) is run in an empty folder that holds the demo model under the names the pages use. A block may be left out only by an
HTML comment before it: `<!-- not tested here: reason -->`; it is counted as skipped. Prints TAP; run by meson (suite slow).
"""
import os
import re
import subprocess
import sys
import tempfile

from uninstalled import environment

SOURCE, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
MODEL = os.path.join(SOURCE, "pipelines/models/demo.tinyloop")
TIMEOUT_S = 120
ENVIRONMENT = environment(SOURCE, BUILD, "documented-registry.bin")
PROMPTS = "turn the kitchen lights down to thirty percent\nset a timer for ten minutes\n"

# What a machine without screen, camera or the large model cannot do; everything else runs as it stands on the page.
STAND_INS = [(r"\bautovideosink\b", "fakesink"), (r"\bis-live=true\b", "is-live=true num-buffers=45")]
MODEL_NAMES = ("demo.tinyloop", "smollm2.tinyloop")

FENCE = re.compile(r"(?:<!--\s*not tested here:\s*(?P<reason>.*?)\s*-->\s*\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.M | re.S)


def pages():
    yield os.path.join(SOURCE, "README.md")
    for folder, _, names in os.walk(os.path.join(SOURCE, "docs")):
        yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith(".md"))


def is_wanted(kind, body):
    return (kind == "sh" and "gst-launch-1.0" in body) or kind == "python" or (kind == "c" and re.search(r"^main\b|\bmain \(", body, re.M))


def blocks():
    for page in pages():
        with open(page) as f:
            text = f.read()
        for found in FENCE.finditer(text):
            if is_wanted(found["kind"], found["body"]):
                line = text.count("\n", 0, found.start("body")) + 1
                yield f"{os.path.relpath(page, SOURCE)}:{line}", found["kind"], found["body"], found["reason"]


def command_for(kind, body, folder):
    if kind == "sh":
        for pattern, stand_in in STAND_INS:
            body = re.sub(pattern, stand_in, body)
        return ["bash", "-e", "-o", "pipefail", "-c", body]
    path = os.path.join(folder, "example." + {"python": "py", "c": "c"}[kind])
    with open(path, "w") as f:
        f.write(body)
    if kind == "python":
        return ["/usr/bin/python3", path]
    # eval, for pkg-config escapes the blanks of an uninstalled tree's path
    return ["bash", "-e", "-c", 'eval "cc -Wall -Werror example.c -o example $(pkg-config --cflags --libs tinyloop-1.0)"; ./example']


def files_written(body, folder):
    """what the block says it writes: filesink locations"""
    return [os.path.join(folder, n) for n in re.findall(r"filesink location=(\S+)", body)]


def run(kind, body):
    """-> None, or what was wrong"""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "pipelines/models"))
        os.symlink(MODEL, os.path.join(folder, "pipelines/models/demo.tinyloop"))
        for name in MODEL_NAMES:
            os.symlink(MODEL, os.path.join(folder, name))
        command = command_for(kind, body, folder)
        try:
            done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, input=PROMPTS, text=True, errors="replace",
                                  capture_output=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as late:
            return f"still running after {TIMEOUT_S} s; so far: {late.stdout!r} {late.stderr!r}"
        said = (done.stdout + done.stderr).strip()
        if done.returncode != 0:
            return f"exit {done.returncode}: {said}"
        if re.search(r"^ERROR|CRITICAL \*\*|WARNING \*\*", said, re.M):
            return said
        written = files_written(body, folder)
        empty = [os.path.basename(p) for p in written if not os.path.exists(p) or os.path.getsize(p) == 0]
        if empty:
            return f"nothing in {', '.join(empty)}: {said}"
        shows_nothing = "autovideosink" in body or written
        return None if done.stdout.strip() or shows_nothing else f"no output: {said}"


def main():
    found = list(blocks())
    if not os.path.exists(MODEL):
        print(f"1..0 # SKIP no {os.path.relpath(MODEL, SOURCE)} in the tree")
        return 0
    if not os.path.exists(os.path.join(BUILD, "gst/libgsttinyloop.so")):
        print("1..0 # SKIP the plugin is not built")
        return 0
    print(f"1..{len(found)}")
    bad = 0
    for number, (where, kind, body, reason) in enumerate(found, 1):
        title = next((l for l in body.splitlines() if "gst-launch" in l), f"{kind} example").strip()[:60].replace("#", "")
        if reason:
            print(f"ok {number} - {where} {title} # SKIP {reason}", flush=True)
            continue
        wrong = run(kind, body)
        bad += wrong is not None
        print(f"{'ok' if wrong is None else 'not ok'} {number} - {where} {title}", flush=True)
        for line in (wrong or "").splitlines():
            print("# " + line)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
