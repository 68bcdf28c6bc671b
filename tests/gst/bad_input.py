#!/usr/bin/env python3
"""tests/gst/bad_input.py — what the real elements say on the bus about bad files, prompts and settings.

  bad_input.py PLUGIN_FOLDER MODEL OTHER_MODEL

OTHER_MODEL has another vocabulary and no tokenizer. Every message must name the thing and what to do about it. Prints TAP; run by
meson with the plugin that was just built.
"""
import os
import sys
import tempfile

PLUGIN, MODEL, OTHER = sys.argv[1:4]
os.environ["GST_PLUGIN_PATH_1_0"] = PLUGIN
try:
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
except (ImportError, ValueError):
    print("1..0 # SKIP no GStreamer for Python")
    sys.exit(0)
Gst.init(None)

SOURCE = "appsrc name=a format=time caps=text/x-raw,format=utf8 ! "
COMMAND = b"set a timer for ten minutes"
LIMIT = 60 * Gst.SECOND
results = []


def quoted(path):
    """as a value in a launch line"""
    return '"' + path + '"'


def messages_of(launch, prompts, source=SOURCE):
    """-> the errors and warnings of one run, as 'domain: text', and whether it came to EOS"""
    pipe = Gst.parse_launch(source + launch)
    said, ended = [], False
    if pipe.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE:
        entry = pipe.get_by_name("a")
        for prompt in prompts:
            entry.emit("push-buffer", Gst.Buffer.new_wrapped(prompt) if prompt else Gst.Buffer.new())
        entry.emit("end-of-stream")
    wanted = Gst.MessageType.ERROR | Gst.MessageType.WARNING | Gst.MessageType.EOS
    while not ended:
        message = pipe.get_bus().timed_pop_filtered(LIMIT, wanted)
        if message is None:
            break
        if message.type == Gst.MessageType.EOS:
            ended = True
            break
        parse = message.parse_error if message.type == Gst.MessageType.ERROR else message.parse_warning
        said.append(parse()[0].message)
        if message.type == Gst.MessageType.ERROR:
            break
    pipe.set_state(Gst.State.NULL)
    return said, ended


def check(name, launch, prompts, *words, goes_on=False, source=SOURCE):
    said, ended = messages_of(launch, prompts, source)
    good = any(all(word in text for word in words) for text in said) and ended == goes_on
    results.append(good)
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}")
    if not good:
        print(f"# wanted {words}, ended {ended}, said {said}")


with tempfile.TemporaryDirectory() as folder:
    with open(MODEL, "rb") as f:
        whole = f.read()
    header = 8 + int.from_bytes(whole[:8], "little")

    def file(name, content):
        path = os.path.join(folder, name)
        with open(path, "wb") as f:
            f.write(content)
        return path

    files = {"missing": os.path.join(folder, "missing.tinyloop"), "empty": file("empty.tinyloop", b""),
             "garbage": file("garbage.tinyloop", bytes((i * 151 + 7) % 256 for i in range(5000))),
             "text": file("text.tinyloop", b"this is a text and not a model at all\n" * 9), "folder": folder}
    for what, cut in (("length", 5), ("header", header // 2), ("header's end", header), ("weights", header + 4097),
                      ("last byte", len(whole) - 1)):
        files["cut in the " + what] = file(f"cut-{cut}.tinyloop", whole[:cut])
    for what, path in files.items():
        check(f"a model that is {what}", f"tlgenerate model-path={quoted(path)} ! fakesink", [COMMAND],
              os.path.basename(path), "model-path must name", "tinyloop convert")

    flipped = bytearray(whole)
    flipped[header // 2] ^= 0x15
    check("a damaged header", f"tlgenerate model-path={quoted(file('flipped.tinyloop', flipped))} ! fakesink", [COMMAND], "flipped.tinyloop")

whole_line = f"tlgenerate model-path={quoted(MODEL)} ! fakesink"
parts = f"tltokenize model-path={quoted(MODEL)} ! "
check("tokens of another vocabulary into tldecode", f"{parts}tldecode model-path={quoted(OTHER)} ! fakesink", [COMMAND],
      "vocabulary", "the model of this element has", "give both elements the same model")
check("tokens of another vocabulary into tldetokenize", f"{parts}tldecode ! tldetokenize model-path={quoted(OTHER)} ! fakesink",
      [COMMAND], "vocabulary", "give both elements the same model")
check("tokens of another vocabulary into tlgrammar", f"{parts}tlgrammar model-path={quoted(OTHER)} ! fakesink", [COMMAND],
      "vocabulary", "give both elements the same model")
check("an empty prompt is left out, the next is answered", whole_line, [b"", COMMAND], "empty prompt", goes_on=True)
check("an empty prompt alone", whole_line, [b""], "empty prompt", goes_on=True)
check("a prompt longer than the context", whole_line, [b"x " * 3000], "tokens", "are allowed", "overflow=truncate-left")
check("a prompt that is no UTF-8", whole_line, [b"set \xff\xfe"], "not valid UTF-8", "at byte 4", "convert it first")
check("text for a model without tokenizer", f"tlgenerate model-path={quoted(OTHER)} ! fakesink", [COMMAND], "no tokenizer",
      "convert it again")
check("no memory for the cache", f"tlgenerate model-path={quoted(MODEL)} max-cache-bytes=1000 ! fakesink", [COMMAND],
      "bytes", "1000", "raise max-cache-bytes")
check("no model", "tlgenerate ! fakesink", [COMMAND], "no model", "set model-path")
check("a device that is not there", f"tlgenerate model-path={quoted(MODEL)} device=abacus ! fakesink", [COMMAND], "abacus", "use 'cpu'")
check("more loops than the model takes", f"tlgenerate model-path={quoted(MODEL)} loops=900 ! fakesink", [COMMAND], "loops", "900", "1…8")
check("a chat template that is not known", f"tlgenerate model-path={quoted(MODEL)} chat-template=nonsense ! fakesink", [COMMAND],
      "nonsense", "use auto")
check("a grammar type that is not there", f"tlgenerate model-path={quoted(MODEL)} type=gbnf grammar=a ! fakesink", [COMMAND],
      "gbnf", "type=regex")
check("a grammar that is wrong", f"tlgenerate model-path={quoted(MODEL)} type=regex grammar=\"a(b\" ! fakesink", [COMMAND],
      "regex: byte 1")
check("bytes without caps into tldecode", f"tldecode model-path={quoted(MODEL)} ! fakesink", [COMMAND], "without caps", "tltokenize",
      source="appsrc name=a format=time ! ")
check("bytes without caps into tlgrammar", f"tlgrammar ! tldecode model-path={quoted(MODEL)} ! fakesink", [COMMAND], "without caps",
      "tltokenize", source="appsrc name=a format=time ! ")
print(f"1..{len(results)}")
sys.exit(not all(results))
