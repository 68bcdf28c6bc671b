"""Generated commands for the demo model: a spoken sentence and its JSON intent.

Why: no free corpus of such pairs exists. Phrasings are combinations of
verb, object and slot; `phrasing` holds whole templates out of training and
`names` holds names and titles out, so that both can be measured apart.
Called by evaluate.py and by the training run. Deterministic by the given random.Random.
"""

import json
import random
import re

SPLITS = ("seen", "phrasing", "names")
ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
ROOMS = ("kitchen;living room;bedroom;bathroom;hallway;office;dining room;garage;basement;attic;"
         "nursery;guest room;studio;patio;balcony;garden;library;terrace;workshop").split(";")
COLORS = "red green blue white yellow orange purple pink cyan magenta turquoise violet gold".split()
LANGUAGES = {"english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it",
             "portuguese": "pt", "dutch": "nl", "polish": "pl", "japanese": "ja", "turkish": "tr",
             "swedish": "sv", "finnish": "fi", "danish": "da", "greek": "el", "czech": "cs"}
ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh sl st t th tr v w y z".split()
VOWELS = "a e i o u ai ea ee ia io oa".split()
CODAS = ["", "", "", "l", "n", "r", "s", "m", "nd", "rt", "ck", "x", "th"]
PREFIXES = ["please", "hey", "ok", "can you", "could you", "could you please", "would you", "um"]
SUFFIXES = ["please", "thanks", "now", "for me", "thank you"]
REPAIRS = ["no wait", "sorry i mean", "i mean", "no make that", "scratch that", "or rather"]

# Kind, constant fields, training templates, held-out templates. (a|b) is a choice, {slot} a slot.
TEMPLATES = [
    ("light.set", {},
     ["(turn|switch|set|bring|put) the {room} (light|lights|lamp) (up |down |)to {level}",
      "(dim|brighten|lower) the (light|lights|lamp) in the {room} to {level}",
      "(dim|brighten) the {room} (light|lights|lamps) to {level}",
      "{room} (light|lights|lamp) (at|to) {level}",
      "(set|change|make) the brightness in the {room} (to|at) {level}",
      "in the {room} (set|turn|put) the (light|lights) (to|at) {level}",
      "(give|get) me {level} (light|brightness) in the {room}",
      "i (want|need) the {room} (light|lights) at {level}"],
     ["the (lights|lamps) of the {room} should be at {level}", "{level} for the {room} lights"]),
    ("light.on", {},
     ["(turn|switch|put) on the {room} (light|lights|lamp)",
      "(turn|switch|put) the {room} (light|lights|lamp) on",
      "(turn|switch|put) the (light|lights) on in the {room}", "lights on in the {room}",
      "{room} (light|lights|lamp) on", "i (want|need) (light|the lights on) in the {room}"],
     ["light up the {room}", "make it bright in the {room}"]),
    ("light.off", {},
     ["(turn|switch|shut) off the {room} (light|lights|lamp)",
      "(turn|switch|shut) the {room} (light|lights|lamp) off",
      "(turn|switch|shut) the (light|lights) off in the {room}", "lights (off|out) in the {room}",
      "{room} (light|lights|lamp) (off|out)", "(kill|cut) the {room} lights"],
     ["make it dark in the {room}", "no more light in the {room}"]),
    ("light.color", {},
     ["(make|turn|set|change) the {room} (light|lights|lamp) (to |){color}",
      "(make|turn|set) the (light|lights) in the {room} (to |){color}",
      "{color} (light|lights) in the {room}", "i (want|need) {color} light in the {room}"],
     ["let the {room} glow {color}", "the {room} should be {color}"]),
    ("volume.set", {},
     ["(turn|set|put|bring) the (volume|sound|music) (up |down |)to {level}",
      "(volume|sound) (at|to) {level}", "make the (volume|sound) {level}",
      "i (want|need) the (volume|sound) at {level}"],
     ["play it at {level} volume", "the sound should be at {level}"]),
    ("media.pause", {},
     ["pause", "pause (it|this|that|the music|the movie|the video|playback)",
      "(hold|halt) the (music|movie|video)", "put (it|the music|the movie) on pause"],
     ["take a break from the (music|movie)", "freeze the (video|movie)"]),
    ("media.resume", {},
     ["(resume|continue|unpause)", "(resume|continue) (it|the music|the movie|playback)",
      "(go on|keep going|carry on) with the (music|movie|video)"],
     ["let the (music|movie) go on", "start the (video|movie) again"]),
    ("media.next", {},
     ["(next|skip)", "(play|go to|skip to) the next (one|song|track|video)", "next (song|track)",
      "skip this (one|song|track|video)"],
     ["i do not like this song", "move on to another track"]),
    ("media.seek", {},
     ["(seek|jump|go|skip) to {time}", "(play|start) (it |the video |)from {time}",
      "(rewind|fast forward) to {time}", "go to the mark at {time}"],
     ["put the cursor at {time}", "show me what happens at {time}"]),
    ("media.play", {},
     ["(play|put on) {title}", "(play|put on|start) the (song|track|movie) {title}",
      "play {title} by {artist}", "play the song {title} by {artist}",
      "i (want|would like) to hear {title}", "let me hear {title} by {artist}"],
     ["how about {title} by {artist}", "{title} by {artist} would be nice"]),
    ("timer.set", {},
     ["(set|start|make) a timer (for|of) {time}", "timer (for |of |){time}", "{time} timer",
      "(set|start) a {time} timer", "count down {time}", "i need a timer for {time}"],
     ["tell me when {time} are over", "let me know after {time}"]),
    ("subtitles.on", {},
     ["(turn|switch|put) on (the |){lang} (subtitles|captions)",
      "(show|enable|display) (the |){lang} (subtitles|captions)",
      "(subtitles|captions) in {lang}", "{lang} (subtitles|captions) on"],
     ["i want to read along in {lang}", "let me have {lang} text on the screen"]),
    ("subtitles.off", {},
     ["(turn|switch) off the (subtitles|captions)", "(hide|disable|remove) the (subtitles|captions)",
      "(subtitles|captions) off", "no (more |)(subtitles|captions)"],
     ["take the captions away", "i do not need subtitles"]),
    ("call.start", {},
     ["(call|phone|ring|dial) {person}", "(make a call|start a call) to {person}",
      "get {person} on the phone", "i (want|need|would like) to call {person}"],
     ["put me through to {person}", "i need to talk to {person}"]),
    ("sum", {},
     ["what is {sum}", "(calculate|compute|add) {sum}", "{sum}", "how much is {sum}"],
     ["i need to know {sum}", "what do you get for {sum}"]),
    ("none", {},
     ["(hello|hi|thank you|how are you|good morning)", "i am (tired|happy|hungry|late) (today|again|)",
      "the {room} is (cold|lovely|too small)", "we painted the {room} {color}",
      "(who|what) (are you|is that)", "i (like|love|know|met) {person}", "(tell me|do you know) a joke",
      "{person} (called|was here|is late)", "never mind", "my timer was wrong (yesterday|again)"],
     ["nice weather (today|again)", "{person} bought a lamp", "i left my keys in the {room}"]),
]
FREE = {"title", "artist", "person"}
REPAIRABLE = {"room", "level", "color", "lang", "time"}
STEPS = ("time", "pair", "repair", "sum")
SLOT = re.compile(r"\{(\w+)\}")


def spoken(n, rng, digits=0.2):
    """A number below 100 as a speaker or a transcriber writes it."""
    if rng.random() < digits:
        return str(n)
    if n < 20:
        return ONES[n]
    return TENS[n // 10] + ("" if n % 10 == 0 else " " + ONES[n % 10])


def word(rng, held):
    """A made-up word; `held` picks from the third that training never sees."""
    while True:
        parts = [rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(rng.choice((1, 2, 2, 3)))]
        made = "".join(parts) + rng.choice(CODAS)
        if (sum(made.encode()) % 3 == 0) == held and len(made) > 2:
            return made


def level(rng):
    if rng.random() < 0.1:
        return rng.choice([("half", 50), ("maximum", 100), ("a quarter", 25), ("a hundred percent", 100)])
    n = rng.randint(1, 99)
    return spoken(n, rng) + rng.choice([" percent", " percent", ""]), n


def duration(rng):
    """Hours, minutes and seconds as separate fields; no arithmetic is asked."""
    units = [u for u in (("hour", "h", 9), ("minute", "m", 59), ("second", "s", 59)) if rng.random() < 0.55]
    units = units or [("minute", "m", 59)]
    said, value = [], {}
    for name, key, most in units:
        n = rng.randint(1, most)
        said.append(spoken(n, rng) + " " + name + ("" if n == 1 else "s"))
        value[key] = n
    return rng.choice([" ", " and "]).join(said), value


def fill(slot, rng, held):
    """What is said for a slot, and the fields it gives."""
    if slot == "room":
        said = value = rng.choice(ROOMS)
    elif slot == "color":
        said = value = rng.choice(COLORS)
    elif slot == "lang":
        said = rng.choice(list(LANGUAGES))
        value = LANGUAGES[said]
    elif slot == "level":
        said, value = level(rng)
    elif slot == "time":
        said, value = duration(rng)
    elif slot == "sum":
        a, b = rng.randint(1, 20), rng.randint(1, 20)
        said, value = f"{spoken(a, rng)} plus {spoken(b, rng)}", a + b
    else:
        count = {"title": (1, 2, 3), "artist": (2,), "person": (1, 2)}[slot]
        said = value = " ".join(word(rng, held) for _ in range(rng.choice(count)))
    return said, value


def choose(template, rng):
    """Resolve every (a|b) of a template."""
    while "(" in template:
        template = re.sub(r"\(([^()]*)\)", lambda m: rng.choice(m.group(1).split("|")), template)
    return template


def single(rng, split):
    """One command: sentence, fields, groups it belongs to."""
    kind, constant, seen, held = rng.choice(TEMPLATES)
    if split == "names":
        while not any(f"{{{slot}}}" in t for t in seen for slot in FREE) or kind == "none":
            kind, constant, seen, held = rng.choice(TEMPLATES)
    text = choose(rng.choice(held if split == "phrasing" else seen), rng)
    slots = SLOT.findall(text)
    fields, groups = {"intent": kind, **constant}, set(slots) & {"time", "sum"}
    repair = rng.choice([s for s in slots if s in REPAIRABLE] or [None]) if rng.random() < 0.15 else None
    for slot in slots:
        said, value = fill(slot, rng, split == "names")
        if slot == repair and kind != "none":
            said = f"{fill(slot, rng, False)[0]} {rng.choice(REPAIRS)} {said}"
            groups.add("repair")
        text = text.replace(f"{{{slot}}}", said, 1)
        if kind != "none":
            fields[slot] = value
    groups.add("free" if FREE & set(slots) else "closed")
    return re.sub(" +", " ", text).strip(), fields, groups


def sample(rng, split="train"):
    """A sentence, its JSON text and its groups. split: train or one of SPLITS."""
    text, fields, groups = single(rng, split)
    answer = fields
    if rng.random() < 0.12 and "free" not in groups and fields["intent"] != "none":
        other, more, also = single(rng, split)
        if more["intent"] != "none":
            text = text + rng.choice([" and ", " and then ", " then "]) + other
            answer, groups = [fields, more], groups | also | {"pair"}
            groups -= {"closed"} if "free" in groups else set()
    if rng.random() < 0.3:
        text = rng.choice(PREFIXES) + " " + text
    if rng.random() < 0.15 and "free" not in groups:
        text = text + " " + rng.choice(SUFFIXES)
    if groups & set(STEPS):
        groups.add("steps")
    return text, json.dumps(answer, separators=(",", ":")), groups


def held_out(split, count, seed, exclude=frozenset()):
    """`count` distinct commands of a held-out split, none of which is in `exclude`."""
    rng, found = random.Random(f"{split}/{seed}"), {}
    for _ in range(200 * count):
        text, answer, groups = sample(rng, "train" if split == "seen" else split)
        if text not in exclude:
            found.setdefault(text, (text, answer, sorted(groups)))
        if len(found) == count:
            return list(found.values())
    raise ValueError(f"split {split}: only {len(found)} of {count} distinct commands exist")
