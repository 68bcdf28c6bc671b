#!/usr/bin/env python3
"""tests/pipelines/quickstart.py — pipelines/demo.py, which quickstart runs, meets odd texts, outputs and models.

  quickstart.py SOURCE_ROOT BUILD_ROOT

Each case runs it with its output in a file and compares what the file holds in the end. Prints TAP; run by meson (suite slow).
"""
import os
import re
import subprocess
import sys
import tempfile

from uninstalled import environment

SOURCE, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
ENVIRONMENT = environment(SOURCE, BUILD, "quickstart-registry.bin")
MODEL = os.path.join(SOURCE, "pipelines/models/demo.tinyloop")
COMMAND = ["/usr/bin/python3", os.path.join(SOURCE, "pipelines/demo.py")]
FIGURES = re.compile(r"^\d+ tokens, .* tokens/s, time to first token .* loops \d+ .*start .* s, load .* s, prefill .* s, "
                     r"first token at .* s, end .* s\)$")
COMMANDS = ["turn the kitchen lights down to thirty percent", "set a timer for ten minutes"]
results = []


def check(name, wrong):
    results.append(not wrong)
    print(f"{'not ok' if wrong else 'ok'} {len(results)} - {name}", flush=True)
    for line in (wrong or "").splitlines():
        print("# " + line)


def demo(model, *texts):
    """-> exit status, what a file holds behind `> file`, what came on stderr"""
    with tempfile.TemporaryFile() as out:
        done = subprocess.run([*COMMAND, model, *texts], env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.PIPE, timeout=120)
        out.seek(0)
        return done.returncode, out.read(), done.stderr.decode(errors="replace")


def answers(model, *texts):
    """-> None when every text stands there with its reply and the last line holds the figures"""
    status, out, err = demo(model, *texts)
    lines = out.decode(errors="replace").splitlines()
    echoed = [line for t in texts for line in ("> " + t).splitlines()]
    rest = [line for line in lines[:-2] if line not in echoed]
    good = status == 0 and not err and [x for x in lines if x in echoed] == echoed and len(rest) >= len(texts) \
        and FIGURES.match(lines[-1])
    return None if good else f"exit {status}\n{out!r}\n{err}"


def refuses(model, text, expected):
    """-> None when it fails with a line that holds `expected` and no Python traceback"""
    status, out, err = demo(model, text)
    return None if status != 0 and re.search(expected, err) and "Traceback" not in err else f"exit {status}\n{out!r}\n{err}"


def finds_within(folder):
    """an error that gst-launch-1.0 printed in the midst of a line of another thread"""
    launcher = os.path.join(folder, "gst-launch-1.0")
    with open(launcher, "w") as f:
        f.write("#!/bin/sh\necho 'Got message #20 from element \"x\" (state-changed): ERROR: from element y: it broke'\nexit 1\n")
    os.chmod(launcher, 0o755)
    environment_with = dict(ENVIRONMENT, PATH=folder + os.pathsep + ENVIRONMENT["PATH"])
    done = subprocess.run([*COMMAND, MODEL, COMMANDS[0]], env=environment_with, capture_output=True, text=True, timeout=120)
    return None if done.returncode == 1 and done.stderr == "ERROR: from element y: it broke\n" else done.stderr


def leaves_early():
    """a reader that closes the pipe after its first byte"""
    with subprocess.Popen([*COMMAND, MODEL, *COMMANDS], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.read(1)
        child.stdout.close()
        err = child.stderr.read().decode()
    return err or None


def main():
    if not os.path.exists(os.path.join(BUILD, "gst/libgsttinyloop.so")):
        print("1..0 # SKIP the plugin is not built")
        return 0
    with tempfile.TemporaryDirectory(prefix="a folder's ") as folder:
        odd, broken = os.path.join(folder, 'it\'s "odd".tinyloop'), os.path.join(folder, "broken.tinyloop")
        os.symlink(MODEL, odd)
        with open(broken, "w") as f:
            f.write("no model\n")
        check("one command", answers(MODEL, COMMANDS[0]))
        check("two commands", answers(MODEL, *COMMANDS))
        check("quotes, shell and pipeline syntax", answers(MODEL, "\"say\" 'it' $HOME \\ %s ! fakesink name=x {} | ; &"))
        check("characters outside ASCII", answers(MODEL, "wecke Zoë um sieben — 漢字 🙂"))
        check("several lines are one prompt", answers(MODEL, COMMANDS[1].replace(" ", "\n")))
        check("a model path with blanks and quotes", answers(odd, COMMANDS[1]))
        check("an empty text is refused", refuses(MODEL, "", "a text is empty"))
        check("a text longer than the context is refused", refuses(MODEL, COMMANDS[1] * 2000, r"prompt has \d+ tokens, \d+ are allowed"))
        check("bytes that are not UTF-8 are refused", refuses(MODEL, b"play \xff\xfe", "(?i)utf-8"))
        check("a file that is no model is refused by name", refuses(broken, COMMANDS[1], "broken.tinyloop"))
        check("an error in the midst of another line is shown", finds_within(folder))
        check("a reader that leaves is no error of ours", leaves_early())
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
