#!/usr/bin/env python3
"""tests/faults.py — planted faults: with each of them the tests of bit identity must fail.

  tests/faults.py BUILD

A fault is one replacement of text in one source file. The file with the fault is compiled with the build's own flags into
a scratch folder and linked before the engine's objects, so that nothing of it is ever in the library. The same without a
fault must pass. Prints TAP; a slow test of meson.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
IDENTITY, CACHE = "tests/forward/forward-identity", "tests/cache/cache-sequences"
EXIT = "tests/decode/decode-exit-models"

# name, file, right, wrong, program, its tests
FAULTS = [
    ("no fault", "engine/cpu/tl-linear-scalar.c", None, None, IDENTITY, "/identity/int4-zero"),
    ("two additions of a linear swapped", "engine/cpu/tl-linear-scalar.c",
     "out[m * ld + r] = tl_tree_sum (segment, n_segments);",
     "float kept = segment[1]; segment[1] = segment[2]; segment[2] = kept;"
     " out[m * ld + r] = tl_tree_sum (segment, n_segments);", IDENTITY, "/identity/f32"),
    ("a zero point forgotten", "engine/cpu/tl-linear-scalar.c",
     "dot -= tl_packed_zero (p, block, g, lane) * sum[g];", "", IDENTITY, "/identity/int4-zero"),
    ("a barrier dropped", "engine/cpu/tl-backend-cpu.c",
     "if (worked)\n        meet (pass, NULL);",
     "if (worked && list->ops[i - 1].kind != TL_OP_LINEAR) meet (pass, NULL);"
     " if (id && op->kind == TL_OP_LINEAR) g_usleep (300);", IDENTITY, "/identity/f16"),
    ("the first loop's plane in place of the row's own", "engine/cpu/tl-cpu-attend.c",
     "TL_GROUP_LOOP + row->depth", "TL_GROUP_LOOP", IDENTITY, "/identity/bf16"),
    ("keys read for values", "engine/cpu/tl-cpu-attend.c",
     "tl_kv_tile_at (l, op->plane, 1, kv_head) }", "tl_kv_tile_at (l, op->plane, 0, kv_head) }", IDENTITY, "/identity/int8"),
    ("plane d read in place of min (d, e)", "engine/cache/tl-pass.c",
     "if (r->depth < tl_kv_sequence_max_depth (pass->rows[i].sequence))", "if (0)", CACHE,
     "/cache/sequences/nanbeige/early-exit"),
    ("plane d read in place of min (d, e) in a reply", "engine/cache/tl-pass.c",
     "if (r->depth < tl_kv_sequence_max_depth (pass->rows[i].sequence))", "if (0)", EXIT,
     "/exit/definition/huginn-copy-window-0"),
    ("planes of skipped loops not projected", "engine/cache/tl-pass.c",
     "if (!run_row (pass, row, TL_STAGE_FILL, cancellable, error))", "if (0)", EXIT,
     "/exit/definition/huginn-propagate-window-0"),
    ("a draw that forgets its position", "engine/decode/tl-sampler.c",
     "{ id, position, stream, 0 }", "{ id, 0, stream, 0 }", IDENTITY, "/identity/f32"),
]


def compile_with(folder, source, right, wrong):
    """-> object file of `source` with the fault"""
    with open(os.path.join(ROOT, source)) as f:
        text = f.read()
    if right is not None:
        if text.count(right) != 1:
            raise LookupError(f"{source} has {text.count(right)} places like '{right}', expected 1: bring the fault up to date")
        text = text.replace(right, wrong)
    planted, out = os.path.join(folder, os.path.basename(source)), os.path.join(folder, "planted.o")
    with open(planted, "w") as f:
        f.write(text)
    with open(os.path.join(BUILD, "compile_commands.json")) as f:
        entry = next(e for e in json.load(f) if os.path.realpath(os.path.join(e["directory"], e["file"])) == os.path.join(ROOT, source))
    words = shlex.split(entry["command"])
    words[words.index("-o") + 1] = out
    words[words.index("-c") + 1] = planted
    for flag in ("-MF", "-MQ"):
        if flag in words:
            words[words.index(flag) + 1] = out + ".d"
    subprocess.run(words + ["-w"], cwd=entry["directory"], check=True)
    return out


def link_with(folder, planted, program):
    commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "-s", program], capture_output=True, text=True, check=True)
    words = shlex.split([line for line in commands.stdout.splitlines() if " -o " in line][-1])
    out = os.path.join(folder, "program")
    at = words.index("-o") + 1
    words[at] = out
    words.insert(at + 1, planted)
    subprocess.run(words, cwd=BUILD, check=True)
    return out


def result_with(fault):
    """-> exit status of the tests with this fault"""
    _, source, right, wrong, program, tests = fault
    with tempfile.TemporaryDirectory() as folder:
        planted = link_with(folder, compile_with(folder, source, right, wrong), program)
        return subprocess.run([planted, "-p", tests], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300).returncode


def main():
    faults = FAULTS
    print(f"1..{len(faults)}", flush=True)
    failed = 0
    for number, fault in enumerate(faults, 1):
        sound = fault[2] is None
        try:
            status = result_with(fault)
            good = (status == 0) == sound
            why = f"exit status {status}"
        except (LookupError, subprocess.SubprocessError, StopIteration) as e:
            good, why = False, str(e)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {fault[0]}: {'passes' if sound else 'is found'}", flush=True)
        if not good:
            print("# " + why, flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
