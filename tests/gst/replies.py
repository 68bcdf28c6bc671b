#!/usr/bin/env python3
"""tests/gst/replies.py — what the real elements reply on the demo model: prefilled, forked, stopped, controlled.

  replies.py PLUGIN_FOLDER MODEL

Prints TAP; run by meson with the plugin that was just built.
"""
import os
import re
import sys

PLUGIN, MODEL = sys.argv[1:3]
os.environ["GST_PLUGIN_PATH_1_0"] = PLUGIN
try:
    import gi
    gi.require_version("Gst", "1.0")
    gi.require_version("GstController", "1.0")
    from gi.repository import Gst, GstController
except (ImportError, ValueError):
    print("1..0 # SKIP no GStreamer for Python")
    sys.exit(0)
Gst.init(None)

LIMIT = 60 * Gst.SECOND
PROMPTS = [b"set a timer for ten minutes", b"turn the kitchen lights down to thirty percent"]
results = []


def check(name, good, what=""):
    results.append(good)
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}")
    if not good:
        print(f"# {what}")


def replies(chain, prepare=None, names=("s",), prompts=PROMPTS):
    """-> for each sink of `names` the texts of its replies; chain stands between tltokenize and the sinks"""
    pipe = Gst.parse_launch(f"appsrc name=a format=time caps=text/x-raw,format=utf8 ! tltokenize model-path=\"{MODEL}\" ! {chain}")
    got = {name: [] for name in names}
    for name in names:
        pipe.get_by_name(name).connect("reply", lambda sink, prompt, text, reason, name=name: got[name].append(text))
    if prepare:
        prepare(pipe)
    source = pipe.get_by_name("a")
    pipe.set_state(Gst.State.PLAYING)
    for prompt in prompts:
        buffer = Gst.Buffer.new_wrapped(prompt)
        buffer.pts = 0
        source.emit("push-buffer", buffer)
    source.emit("end-of-stream")
    message = pipe.get_bus().timed_pop_filtered(LIMIT, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    pipe.set_state(Gst.State.NULL)
    if not message or message.type != Gst.MessageType.EOS:
        return message and message.parse_error()
    return [got[name] for name in names]


TEXT = "tldetokenize ! tlsink name=s"
plain = replies(f"tldecode ! {TEXT}")
check("every prompt has its reply", plain and len(plain[0]) == 2 and all(plain[0]), plain)
for chain in "tlprefill ! tldecode", "queue ! tlprefill chunk-size=3 ! queue ! tldecode":
    got = replies(f"{chain} ! {TEXT}")
    check(f"{chain}: the same replies", got == plain, got)
exact, prefilled = replies(f"tldecode kv-mode=fp32 ! {TEXT}"), replies(f"tlprefill kv-mode=fp32 ! tldecode ! {TEXT}")
check("the prefilling element decides kv-mode", exact == prefilled, (exact, prefilled))

INTENT = r'\{"intent":"(on|off)","n":[0-9]{1,2}\}'


def bound(pipe):
    pipe.get_by_name("g").set_property("grammar", INTENT)


for chain in "tlgrammar name=g type=regex ! tldecode", "tlgrammar name=g type=regex ! tlprefill ! tldecode temperature=2":
    got = replies(f"{chain} ! {TEXT}", bound)
    check(f"{chain}: replies match", got and len(got[0]) == 2 and all(re.fullmatch(INTENT, text) for text in got[0]), got)

hot = "temperature=3 seed=11"
sampled = replies(f"tldecode {hot} ! {TEXT}")
got = replies(f"tlprefill ! tee name=t t. ! queue ! tldecode ! tldetokenize ! tlsink name=one "
              f"t. ! queue ! tldecode {hot} ! tldetokenize ! tlsink name=two", names=("one", "two"))
check("each branch of a tee replies as if it were alone", got == plain + sampled, (got, plain, sampled))

text, wrong = plain[0][0], []
for at in range(1, len(text) - 1):
    stop = text[at:at + 2]

    def stop_there(pipe):
        array = Gst.ValueArray([stop])
        pipe.get_by_name("d").set_property("stop", array)

    got = replies(f"tldecode name=d ! {TEXT}", stop_there, prompts=PROMPTS[:1])
    if got != [[text[:text.index(stop)]]]:
        wrong.append((stop, got))
check("text ends where the stop string begins, inside of a token too", not wrong, wrong)


def heat_up(pipe):
    """cold until half a second, then as hot as it gets"""
    decode = pipe.get_by_name("d")
    source = GstController.InterpolationControlSource()
    source.set_property("mode", GstController.InterpolationMode.NONE)
    decode.add_control_binding(GstController.DirectControlBinding.new_absolute(decode, "temperature", source))
    source.set(0, 0.0)
    source.set(Gst.SECOND // 2, 100.0)


paced = "timestamp-mode=paced token-duration=100000000 top-k=0 ignore-eos=true max-tokens=16 name=d"
cold = replies(f"tldecode {paced} ! {TEXT}", prompts=PROMPTS[:1])
warm = replies(f"tldecode {paced} ! {TEXT}", heat_up, prompts=PROMPTS[:1])
shared = len(os.path.commonprefix([cold[0][0], warm[0][0]])) if cold and warm else 0
check("a controlled temperature counts from its token on", cold and warm and cold != warm and shared >= 5, (cold, warm))

wrong = []
for name in "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed":
    for end in 0.0, 1.0:
        def to_the_end(pipe):
            decode = pipe.get_by_name("d")
            source = GstController.InterpolationControlSource()
            decode.add_control_binding(GstController.DirectControlBinding.new(decode, name, source))
            source.set(0, end)

        got = replies(f"tldecode name=d temperature=1 max-tokens=3 ! {TEXT}", to_the_end, prompts=PROMPTS[:1])
        if not isinstance(got, list):
            wrong.append((name, end, got))
check("a controller may go to either end of a property's range", not wrong, wrong)
print(f"1..{len(results)}")
sys.exit(not all(results))
