"""Generated commands for the demo model: a spoken-style sentence and its JSON intent.

Why: no free corpus of such pairs exists. A sentence is a phrasing (phrasings.txt) with its slots filled
(slots.py), then made speech-like: politeness, fillers, self-corrections, typos, capitals, two commands at once.
Called by train.py, evaluate.py and heldout.py. Deterministic by the given random.Random.
"""

import json
import pathlib
import random
import re

import slots

PREFIXES = ["please", "hey", "ok", "okay", "can you", "could you", "could you please", "would you", "um", "uh", "so",
            "hey can you", "alright", "now", "computer", "hi", "can you please", "ok now", "right"]
SUFFIXES = ["please", "thanks", "now", "for me", "thank you", "right now", "will you", "ok"]
REPAIRS = ["no wait", "sorry i mean", "i mean", "no make that", "scratch that", "or rather", "uh i mean", "no sorry", "wait no"]
FILLERS = ["um", "uh", "like", "you know", "er", "hmm", "well"]
JOINTS = [" and ", " and then ", " then ", " and also "]
REPAIRABLE = {"room", "level", "color", "lang", "dur", "pos", "time", "temp", "device", "genre", "day", "label", "list"}
FREE = set(slots.FREE) | {"item"}
NAMES = {"title", "artist", "person"}
ORDER = ("intent room device level temp color title artist genre person text items list "
         "position duration label day time language").split()
SLOT = re.compile(r"\{(\w+)\}")
UNTRAINED_EVERY = 5


def read_phrasings(path):
    """{intent: (weight, trained templates, untrained templates)} of the phrasings file."""
    parts, intents = {}, {}
    for line in path.read_text().splitlines():
        text = line.split("#")[0].rstrip()
        if text.startswith("$"):
            name, choices = text[1:].split(" = ")
            parts[name] = f"({choices})"
        elif text.startswith(" "):
            text = re.sub(r"\$(\w+)", lambda m: parts[m.group(1)], text.strip())
            intents[intent][1].append(text.replace("[", "(|").replace("]", ")"))
        elif text:
            intent, weight = (text.split() + ["1"])[:2]
            intents[intent] = (float(weight), [])
    return {intent: (weight, [t for i, t in enumerate(all_of, 1) if i % UNTRAINED_EVERY],
                     all_of[UNTRAINED_EVERY - 1::UNTRAINED_EVERY]) for intent, (weight, all_of) in intents.items()}


PHRASINGS = read_phrasings(pathlib.Path(__file__).with_name("phrasings.txt"))
INTENTS, WEIGHTS = list(PHRASINGS), [p[0] for p in PHRASINGS.values()]


def choose(template, rng):
    """Resolve every (a|b) of a template, innermost first."""
    while "(" in template:
        template = re.sub(r"\(([^()]*)\)", lambda m: rng.choice(m.group(1).split("|")), template)
    return re.sub(" +", " ", template).strip()


def misspelt(word, rng):
    """The word with two letters swapped, one lost, doubled or replaced."""
    i = rng.randrange(len(word) - 1)
    return rng.choice([word[:i] + word[i + 1] + word[i] + word[i + 2:], word[:i] + word[i + 1:],
                       word[:i] + word[i] + word[i:], word[:i] + rng.choice("aeiourstn") + word[i + 1:]])


def roughen(template, rng, groups):
    """Typos and fillers in the words between the slots."""
    typo, filler = rng.random() < 0.08, rng.random() < 0.12
    if not typo and not filler:
        return template
    said = []
    for i, word in enumerate(re.split(r" (?![^{]*\})", template)):
        if typo and len(word) > 3 and "{" not in word and rng.random() < 0.3:
            word = misspelt(word, rng)
            groups.add("typo")
        if filler and i and rng.random() < 0.2:
            word = rng.choice(FILLERS) + " " + word
            groups.add("filler")
        said.append(word)
    return " ".join(said)


def single(rng, untrained, held, capitals):
    """One command: sentence, fields, groups it belongs to."""
    while True:
        intent = rng.choices(INTENTS, WEIGHTS)[0]
        _, trained, kept = PHRASINGS[intent]
        template = rng.choice(kept if untrained else trained)
        if not held or intent != "none" and FREE & set(SLOT.findall(template)):
            break
    text, fields, groups = choose(template, rng), {"intent": intent}, set()
    names = SLOT.findall(text)
    text = roughen(text, rng, groups)
    repair = rng.choice([s for s in names if s in REPAIRABLE] or [None]) if rng.random() < 0.12 else None
    for name in names:
        said, value = (slots.part_of(name, rng, held), None) if name in slots.PARTS else slots.fill(name, rng, held)
        if capitals and name in NAMES:
            said = value = value.title()
        if name == repair and intent != "none":
            wrong = slots.fill(name, rng)[0]
            said = f"{wrong} {rng.choice(REPAIRS)} {said}"
            groups.add("correction")
            repair = None
        text = text.replace(f"{{{name}}}", said, 1)
        if intent == "none" or value is None:
            continue
        if isinstance(value, dict) and len(value) > 1:
            groups.add("long time")
        key = slots.KEYS.get(name, name)
        fields[key] = fields.get(key, []) + [value] if key == "items" else value
    groups.add("free" if FREE & set(names) else "closed")
    return text, {key: fields[key] for key in ORDER if key in fields}, groups


def sample(rng, untrained=False, held=False):
    """A sentence, its JSON text and its groups.

    untrained: phrasings that training never uses; held: names and titles that training never uses.
    """
    capitals = rng.random() < 0.12
    text, fields, groups = single(rng, untrained, held, capitals)
    answer = fields
    if rng.random() < 0.12 and fields["intent"] != "none" and "text" not in fields and "title" not in fields:
        other, more, also = single(rng, untrained, held, capitals)
        if more["intent"] != "none":
            text = text + rng.choice(JOINTS) + other
            answer, groups = [fields, more], groups | also | {"two commands"}
            groups -= {"closed"} if "free" in groups else set()
    if rng.random() < 0.3:
        text = rng.choice(PREFIXES) + " " + text
    if rng.random() < 0.15 and "free" not in groups:
        text = text + " " + rng.choice(SUFFIXES)
    copied = "free" in groups and text.split(" ")[0] in answer
    if rng.random() < 0.15 and not copied:
        text = text[0].upper() + text[1:] + ("" if "free" in groups else rng.choice(["", ".", ".", "!"]))
    if groups & {"two commands", "correction", "long time"}:
        groups.add("several steps")
    return text, json.dumps(answer, separators=(",", ":")), groups


def held_out(untrained, held, closed, count, seed, avoid=frozenset()):
    """`count` distinct commands, [text, json, groups]; texts in `avoid` are left out.

    untrained, held: see sample(); closed: only commands without free slots.
    """
    rng, found = random.Random(f"{untrained}/{held}/{closed}/{seed}"), {}
    for _ in range(400 * count):
        text, answer, groups = sample(rng, untrained, held)
        if text not in avoid and not (closed and "free" in groups):
            found.setdefault(text, [text, answer, sorted(groups)])
        if len(found) == count:
            return list(found.values())
    raise ValueError(f"only {len(found)} of {count} distinct commands exist")
