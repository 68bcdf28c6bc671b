#!/usr/bin/env python3
"""pipelines/demo.py — runs prompts through a gst-launch-1.0 pipeline of TinyLoop's elements and says how fast it was.

  demo.py MODEL [TEXT…]

The pipeline is `fdsrc ! tlgenerate model-path=MODEL framing=line ! fdsink`, nothing else: prompts are written to its
stdin one line at a time, tokens come back through a pipe as they are decoded and are passed on at once, and the bus
(`gst-launch-1.0 -m`) tells when the model was loaded and what each reply cost. Called by pipelines/quickstart.
"""
import os
import queue
import re
import subprocess
import sys
import threading
import time

TEXTS = ["turn the kitchen lights down to thirty percent",
         "set a timer for ten minutes",
         "play something by the beatles in the living room"]
REPLY_LIMIT_S = 120  # a pipeline silent for so long is stuck
ERROR_LIMIT_S = 2  # gst-launch-1.0 does not always end after an error during preroll
PROBLEM = re.compile("(ERROR|WARNING): .*")  # within a line, too: gst-launch-1.0 prints from several threads at once
NUMBER = r"=\(\w+\)\s*([-+0-9.eE]+)"


class Pipeline:
    """One gst-launch-1.0 process; `events` is a queue of (seconds, kind, value) from its tokens and its bus."""

    def __init__(self, model):
        self.events = queue.Queue()
        self.started = time.monotonic()
        read_end, write_end = os.pipe()
        self.command = ["gst-launch-1.0", "-m", "fdsrc", "!", "tlgenerate", f"model-path={model}", "framing=line",
                        "!", "fdsink", f"fd={write_end}"]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, pass_fds=[write_end])
        os.close(write_end)
        self.threads = [threading.Thread(target=self._read_tokens, args=(read_end,), daemon=True),
                        threading.Thread(target=self._read_bus, daemon=True)]
        for thread in self.threads:
            thread.start()

    def _put(self, kind, value):
        self.events.put((time.monotonic() - self.started, kind, value))

    def _read_tokens(self, fd):
        while data := os.read(fd, 65536):
            self._put("text", data)
        os.close(fd)
        self._put("end", None)

    def _read_bus(self):
        for raw in self.process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            problem = PROBLEM.search(line)
            if problem:
                is_error = line.startswith("ERROR", problem.start()) or "erroneous pipeline" in line
                self._put("error" if is_error else "warning", problem.group())
            elif line.startswith("Got message") and "tinyloop-generation" in line:
                self._put("generation", line)
            elif line.startswith("Got message") and "(progress)" in line:
                self._put("progress", line)

    def send(self, text, is_last):
        """one prompt; a pipeline that has gone says on its bus why"""
        try:
            self.process.stdin.write(os.fsencode(text).replace(b"\n", b" ") + b"\n")
            self.process.stdin.flush()
            if is_last:
                self.process.stdin.close()
        except BrokenPipeError:
            pass


def field(message, name):
    """a number from a serialised GstStructure; None when it is not there"""
    found = re.search(rf"[ ,]{name}{NUMBER}", message)
    return float(found.group(1)) if found else None


def show(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def run(model, texts):
    pipeline = Pipeline(model)
    try:
        return follow(pipeline, texts)
    finally:
        pipeline.process.kill()


def follow(pipeline, texts):
    """shows what comes out of the pipeline, asks the next text when a reply has ended -> exit status"""
    times, generations, errors = {}, [], []
    waiting = list(texts)

    def ask():
        text = waiting.pop(0)
        show(b"> " + os.fsencode(text) + b"\n")
        pipeline.send(text, is_last=not waiting)

    ask()
    ended_with_newline = True
    while True:
        try:
            seconds, kind, value = pipeline.events.get(timeout=ERROR_LIMIT_S if errors else REPLY_LIMIT_S)
        except queue.Empty:
            pipeline.process.kill()
            errors = errors or [f"ERROR: the pipeline said nothing for {REPLY_LIMIT_S} s"]
            break
        if kind == "end":
            break
        if kind == "text":
            times.setdefault("first token", seconds)
            show(value)
            ended_with_newline = value.endswith(b"\n")
        elif kind == "progress":
            if "code=(string)open" in value or "load" in value:
                times.setdefault("start", seconds)
                if re.search(r"complete|type=\(\w+\)\s*2\b", value):
                    times["loaded"] = seconds
        elif kind == "generation" and field(value, "tokens") is not None:
            generations.append(value)
            if waiting:
                if not ended_with_newline:
                    show(b"\n")
                ended_with_newline = True
                ask()
        elif kind == "error":
            errors.append(value)
        elif kind == "warning":
            print(value, file=sys.stderr)
    if not ended_with_newline:
        show(b"\n")
    status = pipeline.process.wait()
    for thread in pipeline.threads:
        thread.join(1)
    while not pipeline.events.empty():
        seconds, kind, value = pipeline.events.get()
        if kind == "generation" and field(value, "tokens") is not None:
            generations.append(value)
        elif kind == "error":
            errors.append(value)
    for line in errors:
        print(line, file=sys.stderr)
    if "first token" in times:
        report(times, generations, time.monotonic() - pipeline.started)
    elif not errors:
        print("ERROR: no token came out of the pipeline", file=sys.stderr)
    return 0 if status == 0 and not errors and "first token" in times else 1


def report(times, generations, total):
    tokens = sum(field(g, "tokens") for g in generations)
    speeds = [(field(g, "tokens"), field(g, "tokens-per-second")) for g in generations]
    busy = sum(n / s for n, s in speeds if s)
    ttft = field(generations[0], "ttft") if generations else None
    loops = sorted({int(field(g, "loops")) for g in generations if field(g, "loops") is not None})
    rate = f"{sum(n for n, s in speeds if s) / busy:.0f} tokens/s" if busy else "tokens/s unknown"
    ttft_s = ttft / 1e9 if ttft is not None else times["first token"] - times.get("loaded", 0)
    start, loaded = times.get("start", 0.0), times.get("loaded")
    print(f"\n{tokens:.0f} tokens, {rate}, time to first token {ttft_s * 1e3:.0f} ms, "
          f"loops {'/'.join(map(str, loops)) or '?'}  (start {start:.2f} s, "
          + (f"load {loaded - start:.2f} s, " if loaded is not None else "")
          + f"prefill {ttft_s:.3f} s, first token at {times['first token']:.2f} s, end {total:.2f} s)")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 2
    texts = sys.argv[2:] or TEXTS
    if not all(text.strip() for text in texts):
        print("ERROR: a text is empty; say something like: " + TEXTS[0], file=sys.stderr)
        return 2
    try:
        return run(sys.argv[1], texts)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
