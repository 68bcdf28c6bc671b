#!/usr/bin/env python3
"""tests/gst/wire.py — reads what docs/wire-format.md describes from Python, without TinyLoop's typelib.

  wire.py PLUGIN_FOLDER MODEL

Runs the demo model through the real elements: caps, token and text meta, generation events, the message on the bus, and a
prompt-options event made here. Prints TAP; run by meson with the plugin that was just built.
"""
import os
import sys

PLUGIN, MODEL = sys.argv[1:3]
os.environ["GST_PLUGIN_PATH_1_0"] = PLUGIN
try:
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
except (ImportError, ValueError):
    print("1..0 # SKIP no GStreamer for Python")
    sys.exit(0)
Gst.init(None)

U64, UINT, STRING = "guint64", "guint", "gchararray"
FIGURES = {"prompt-id": U64, "reason": STRING, "tokens": UINT, "prompt-tokens": UINT, "cached": UINT, "loops": UINT, "exact": "gboolean",
           "ttft": U64, "duration": U64, "tokens-per-second": "gdouble", "prefill-ms": "gdouble", "load-ms": "gdouble"}
LIMIT = 60 * Gst.SECOND
prompts = []     # what came to tldecode in the last run
results = []


def check(name, good, what=""):
    results.append(good)
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}")
    if not good:
        print(f"# {what}")


def types(structure):
    return {structure.nth_field_name(i): structure.get_field_type(structure.nth_field_name(i)).name
            for i in range(structure.n_fields())}


def watch(element, pad_name, seen):
    """notes every buffer's meta and every event of a pad"""
    def on_item(pad, info):
        if info.type & Gst.PadProbeType.BUFFER:
            buffer = info.get_buffer()
            for name in ("GstTlTokenMeta", "GstTlTextMeta", "GstTlConstraintMeta"):
                meta = buffer.get_custom_meta(name)
                if meta:
                    seen.append((name, meta.get_structure().copy(), buffer.get_size()))
        else:
            event = info.get_event()
            structure = event.get_structure()
            seen.append(("event", structure.copy() if structure else None, 0))
        return Gst.PadProbeReturn.OK
    element.get_static_pad(pad_name).add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM, on_item)


def run(options=None, before_decode="", decode_options=""):
    """-> (decode's pad, detokenize's pad, messages, caps)"""
    pipe = Gst.parse_launch("appsrc name=a format=time caps=text/x-raw,format=utf8 ! tltokenize model-path=\"" + MODEL +
                            f"\" ! {before_decode} tldecode name=d {decode_options} ! tldetokenize name=t ! fakesink async=false")
    tokens, texts, messages = [], [], []
    prompts.clear()
    decode, text = pipe.get_by_name("d"), pipe.get_by_name("t")
    watch(decode, "src", tokens)
    watch(text, "src", texts)
    watch(decode, "sink", prompts)
    source = pipe.get_by_name("a")
    pipe.set_state(Gst.State.PLAYING)
    if options:
        source.send_event(Gst.Event.new_custom(Gst.EventType.CUSTOM_DOWNSTREAM, options))
    source.emit("push-buffer", Gst.Buffer.new_wrapped(b"set a timer for ten minutes"))
    source.emit("end-of-stream")
    while True:
        message = pipe.get_bus().timed_pop(LIMIT)
        if message is None or message.type in (Gst.MessageType.EOS, Gst.MessageType.ERROR):
            break
        if message.type == Gst.MessageType.ELEMENT:
            messages.append(message.get_structure())
    caps = decode.get_static_pad("src").get_current_caps()
    pipe.set_state(Gst.State.NULL)
    check("the pipeline ends with EOS", message is not None and message.type == Gst.MessageType.EOS,
          message and message.get_structure() and message.get_structure().to_string())
    return tokens, texts, messages, caps


tokens, texts, messages, caps = run()
first = caps.get_structure(0) if caps else Gst.Structure.new_empty("none")
check("token caps have the documented fields", first.get_name() == "application/x-tinyloop-tokens" and types(first) == {
    "format": STRING, "vocab": STRING, "vocab-size": "gint", "role": STRING} and first.get_string("role") == "reply", caps)

metas = [s for name, s, _ in tokens if name == "GstTlTokenMeta"]
fields = {"prompt-id": U64, "index": UINT, "special": "gboolean", "loops": UINT}
check("every token says prompt, index, special and loops", bool(metas) and all(
    fields.items() <= types(s).items() and s.get_uint("index")[1] == i for i, s in enumerate(metas)), metas and types(metas[0]))
check("statistics come only when asked for", not any(s.has_field("logprob") for s in metas), types(metas[0]))
metas = [s for name, s, _ in texts if name == "GstTlTextMeta"]
check("every text says prompt, first and last index", bool(metas) and all(
    types(s) == {"prompt-id": U64, "first-index": UINT, "last-index": UINT} for s in metas), metas and types(metas[0]))

names = [s.get_name() for _, s, _ in texts if s]
brackets = [n for n in names if n.startswith("tinyloop/")]
check("start and end come in a pair", brackets == ["tinyloop/generation-start", "tinyloop/generation-end"], brackets)
ends = [s for _, s, _ in tokens if s and s.get_name() == "tinyloop/generation-end"]
check("the end carries the figures", bool(ends) and types(ends[0]) == FIGURES, ends and types(ends[0]))
told = [s for s in messages if s.get_name() == "tinyloop-generation"]
check("the message carries the same", bool(told) and types(told[0]) == FIGURES, told and types(told[0]))

options = Gst.Structure.new_empty("tinyloop/prompt-options")
options.set_value("max-tokens", 2)
_, _, messages, _ = run(options)
told = [s for s in messages if s.get_name() == "tinyloop-generation"]
check("options made in Python hold for the prompt", bool(told) and told[0].get_string("reason") == "length"
      and told[0].get_uint("tokens")[1] == 2, told and told[0].to_string())
_, _, messages, _ = run(before_decode="tlgrammar type=regex grammar=[ab]{3} !")
metas = [s for name, s, _ in prompts if name == "GstTlConstraintMeta"]
check("a prompt says its grammar", len(metas) == 1 and types(metas[0]) == {"kind": STRING, "source": STRING, "hash": STRING}
      and metas[0].get_string("source") == "[ab]{3}", prompts)
told = [s for s in messages if s.get_name() == "tinyloop-generation"]
check("and the reply ends with it", bool(told) and told[0].get_string("reason") == "grammar-complete", told)
options = Gst.Structure.new_empty("tinyloop/prompt-options")
options.set_value("grammar", "a{4}")
_, texts, _, _ = run(options)
check("a grammar made in Python holds for the prompt", sum(size for name, _, size in texts if name == "GstTlTextMeta") == 4, texts)
tokens, _, _, _ = run(decode_options="token-stats=true top-logprobs=2")
metas = [s for name, s, _ in tokens if name == "GstTlTokenMeta"]
fields = {**fields, "logprob": "gdouble", "entropy": "gdouble", "top-ids": "GstValueArray", "top-logprobs": "GstValueArray"}
check("with token-stats every token has its probability, the entropy and alternatives", bool(metas) and all(
    fields.items() <= types(s).items() and s.get_double("logprob")[1] <= 0 <= s.get_double("entropy")[1]
    and s.get_array("top-ids")[1].n_values == s.get_array("top-logprobs")[1].n_values == 2 for s in metas), metas and types(metas[0]))
print(f"1..{len(results)}")
sys.exit(not all(results))
