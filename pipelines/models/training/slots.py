"""What can stand in a slot of a phrasing: rooms, levels, durations, clock times, names, titles, messages.

Why: closed slots have a fixed set of values; free ones (names, titles, tasks, messages, items) are
copied from the sentence into the JSON, so their words are drawn from real words and from
thousands of made-up ones. A quarter of both is kept for the `names` sets and never trained on.
Called by commands.py. Deterministic by the given random.Random.
"""

import zlib

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
ROOMS = ("kitchen;living room;bedroom;bathroom;hallway;office;dining room;garage;basement;attic;"
         "nursery;guest room;studio;patio;balcony;garden;library;terrace;workshop").split(";")
COLORS = "red green blue white yellow orange purple pink cyan magenta turquoise violet gold".split()
DEVICES = ("tv;radio;fan;heater;coffee machine;oven;dishwasher;washing machine;dryer;vacuum;"
           "air conditioner;projector;printer;camera;speaker;sprinkler;humidifier;fountain").split(";")
GENRES = ("jazz;rock;blues;classical;hip hop;techno;folk;country;reggae;metal;soul;funk;disco;"
          "ambient;house;indie;punk;salsa;opera;gospel;swing;piano").split(";")
LANGUAGES = {"english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it",
             "portuguese": "pt", "dutch": "nl", "polish": "pl", "japanese": "ja", "turkish": "tr",
             "swedish": "sv", "finnish": "fi", "danish": "da", "greek": "el", "czech": "cs"}
LABELS = "pasta pizza tea egg laundry workout nap oven cake meeting homework bread rice sauna".split()
LISTS = "shopping;grocery;to do;packing;wish;party".split(";")
DAYS = "monday tuesday wednesday thursday friday saturday sunday today tomorrow".split()
RELATIVES = "mom;dad;my sister;my brother;grandma;grandpa;my boss;the doctor;my wife;my husband;the office".split(";")

FIRST = ("anna ben clara david emma felix grace henry ida jack karen leo maria noah olivia paul quinn rosa sam tina "
         "ursula victor wendy xavier yara zoe aaron bella carlos diana eric fiona george hannah ivan julia kevin laura "
         "martin nina oscar petra ralph sofia thomas uma vera walter yusuf amir chloe dylan elena frank greta hugo irene "
         "jonas kira lucas mona nico otto priya ravi sara theo alice bruno cora dennis edgar freya gus helen ines joel "
         "kate liam mia nora omar pia rita simon tara john james mary susan peter mark luke anne lisa jane charles emily "
         "sophie max lena lukas marie jan klaus ines pedro juan miguel lucia carmen diego chen wei yuki hiro aiko kenji "
         "fatima ahmed ali leila hassan olga boris natasha dmitri sven lars astrid bjorn ingrid giulia marco paolo").split()
LAST = ("adams baker carter dalton evans fischer garcia hughes ivanov johnson keller lopez miller nolan ortega parker "
        "rivera schmidt turner ulrich vargas weber young zimmer bishop cooper drake ellis foster grant hayes irving "
        "jensen kowalski moreau novak owens patel reed santos tanaka underwood vance walsh bauer costa duncan egan "
        "flores gibson hart jordan klein larsen mercer nash smith brown jones wilson taylor bergstrom rossi").split()
ADJECTIVES = ("silent golden broken hidden electric lonely burning silver distant wild gentle crystal midnight velvet "
              "paper frozen hollow crimson endless little secret sleepy brave dusty fading iron lazy lucky marble quiet "
              "rusty scarlet shining stolen sweet tender tiny wandering winter ancient bitter cloudy early faithful "
              "happy old new big small dark bright cold warm slow fast long short deep high low soft hard heavy empty "
              "full strange sad angry pretty clean dirty rich poor wet dry loud round flat thin sharp").split()
NOUNS = ("river mountain mirror shadow summer dream fire window ocean train road heart station letter moon engine "
         "forest island lantern harbor machine orchard rabbit signal tower valley whisper anchor bridge candle desert "
         "feather horizon jungle kingdom meadow needle orbit palace ribbon sailor temple umbrella violin wolf castle "
         "diamond elephant house tree bird dog cat horse boat car bike book song dance night day morning evening rain "
         "snow wind storm cloud star sun sky sea stone wall door floor roof table chair bed box bag coat hat shoe ring "
         "king queen prince soldier doctor teacher farmer baker child girl boy man woman friend brother street town "
         "city village country world war peace love life death time year hour flower rose leaf grass field hill lake").split()
VERBS = ("water feed clean wash fix paint move open close check find bring sell buy return pack sweep fold iron cook "
         "bake print sign read study order book cancel charge empty fill lock replace repair measure weigh test").split()
THINGS = ("plants trash dishes windows car laundry dog cat fish bike report tickets passport bills rent keys lamp "
          "stove fridge printer phone laptop camera documents letters presents suitcase garden lawn floor roof gate "
          "medicine pills homework essay library books shoes shirts curtains batteries filter oil tires boiler").split()
ITEMS = ("milk;bread;eggs;butter;apples;bananas;coffee;tea;sugar;rice;pasta;tomatoes;onions;garlic;cheese;chicken;"
         "salmon;olive oil;salt;pepper;flour;yogurt;orange juice;toilet paper;dish soap;batteries;light bulbs;"
         "dog food;cat litter;toothpaste;shampoo;carrots;potatoes;lemons;honey;oat milk;water;chocolate;cookies;"
         "ice cream;paper towels;spinach;mushrooms;blueberries;peanut butter;maple syrup;black beans;socks;soap;"
         "candles;ham;corn;peas;cabbage;plums;pears;grapes;wine;beer;juice;cereal;crackers;mustard;vinegar").split(";")
TITLES = ["{adj} {noun}", "{noun} and {noun}", "the {noun}", "{noun} of {noun}", "the {adj} {noun}", "{word}",
          "{word} {word}", "{word} {noun}", "{adj} {word}", "{noun} in the {noun}", "{noun} {noun}", "my {adj} {noun}",
          "{first} and the {noun}", "{word} {word} {word}", "a {noun} for {first}", "{noun} without {noun}"]
ARTISTS = ["{first} {last}", "the {noun}s", "the {adj} {noun}s", "{word} {word}", "the {word}s", "{first} {word}",
           "{word}", "{noun} {noun}"]
PEOPLE = ["{first}", "{first}", "{first} {last}", "{word}", "{first} {word}", "{word} {last}", "{relative}"]
TASKS = ["{verb} the {thing}", "{verb} the {thing}", "{verb} my {thing}", "call {person}", "buy {goods}", "{verb} {goods}",
         "meet {person}", "{verb} the {adj} {noun}", "take the {thing} to {person}", "{verb} the {word}", "pick up {person}",
         "{verb} the {thing} and the {thing}", "take out the {thing}", "go to the {noun}", "visit {person}", "{verb} {word}",
         "pay the {thing}", "take my {thing}", "get the {thing} from the {noun}", "write to {person}"]
MESSAGES = ["i will be late", "i am on my way", "dinner is ready", "i am at the {noun}", "the {noun} is {adj}",
            "we are out of {goods}", "please bring {goods}", "can you {verb} the {thing}", "do not forget the {thing}",
            "i have the {adj} {noun}", "happy birthday", "call me when you get home", "see you {day}",
            "thanks for the {noun}", "i love the {adj} {noun}", "where is the {thing}", "i saw {person}",
            "the {thing} is in the {noun}", "we need {goods} and {goods}", "i will be {number} minutes late",
            "{person} is at the {noun}", "i lost my {thing}", "the meeting is {day}", "good luck with the {thing}",
            "i can not come {day}", "the {word} is {adj}", "{word} is here", "i miss you", "{person} has the {thing}",
            "the {noun} was {adj} and {adj}", "please {verb} the {thing}", "we meet at the {noun} {day}"]
ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pl pr qu r s sh sl sp st t th tr v w y z".split()
VOWELS = "a e i o u a e i o u ai ea ee ia io oa ou".split()
CODAS = ["", "", "", "", "l", "n", "r", "s", "m", "nd", "rt", "ck", "x", "th", "ng", "ll", "t"]

LISTED = {"room": ROOMS, "color": COLORS, "device": DEVICES, "genre": GENRES, "label": LABELS, "list": LISTS, "day": DAYS}
FREE = {"title": TITLES, "artist": ARTISTS, "person": PEOPLE, "task": TASKS, "message": MESSAGES}
PARTS = {"first": FIRST, "last": LAST, "adj": ADJECTIVES, "noun": NOUNS, "verb": VERBS, "thing": THINGS, "goods": ITEMS}
KEYS = {"lang": "language", "dur": "duration", "pos": "position", "task": "text", "message": "text", "item": "items"}


def kept_back(text):
    """Whether a word belongs to the quarter that only the `names` sets use."""
    return zlib.crc32(text.encode()) % 4 == 0


def made_up(rng, held):
    """A word that exists in no language we know of."""
    while True:
        syllables = rng.choice((1, 2, 2, 2, 3))
        word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(syllables)) + rng.choice(CODAS)
        if len(word) > 2 and kept_back(word) == held:
            return word


def spoken(n, rng, digits=0.25):
    """A number below 100 as a speaker or a transcriber writes it."""
    if rng.random() < digits:
        return str(n)
    if n < 20:
        return ONES[n]
    return TENS[n // 10] + ("" if n % 10 == 0 else " " + ONES[n % 10])


def level(rng):
    if rng.random() < 0.12:
        return rng.choice([("half", 50), ("maximum", 100), ("a quarter", 25), ("a hundred percent", 100),
                           ("minimum", 0), ("three quarters", 75), ("full", 100), ("zero", 0)])
    n = rng.randint(1, 99) if rng.random() < 0.7 else rng.randint(1, 19) * 5
    return spoken(n, rng) + rng.choice([" percent", " percent", ""]), n


def temperature(rng):
    n = rng.randint(10, 32)
    if rng.random() < 0.2:
        return spoken(n, rng) + " and a half" + rng.choice([" degrees", ""]), n + 0.5
    return spoken(n, rng) + rng.choice([" degrees", " degrees", " degrees celsius"]), n


def duration(rng):
    """Hours, minutes and seconds as separate fields, so that no arithmetic is asked."""
    if rng.random() < 0.2:
        n = rng.randint(1, 9)
        return rng.choice([
            ("half an hour", {"m": 30}), ("an hour", {"h": 1}), ("a minute", {"m": 1}), ("half a minute", {"s": 30}),
            ("an hour and a half", {"h": 1, "m": 30}), ("a minute and a half", {"m": 1, "s": 30}),
            (f"{spoken(n + 1, rng)} and a half hours", {"h": n + 1, "m": 30}),
            (f"{spoken(n + 1, rng)} and a half minutes", {"m": n + 1, "s": 30})])
    wanted = rng.choices(["m", "s", "h", "ms", "hm", "hms", "hs"], [6, 3, 2, 3, 3, 1, 0.5])[0]
    said, value = [], {}
    for key, name, most in (("h", "hour", 12), ("m", "minute", 59), ("s", "second", 59)):
        if key in wanted:
            n = rng.randint(1, most) if rng.random() < 0.6 else rng.choice((5, 10)) if key == "h" else 5 * rng.randint(1, 11)
            said.append(f"{spoken(n, rng)} {name}{'' if n == 1 else 's'}")
            value[key] = n
    return rng.choice([" ", " and "] if len(said) == 2 else [" "]).join(said), value


def clock(rng):
    """A time of day on the twelve-hour clock; am or pm only where it was said."""
    if rng.random() < 0.06:
        return rng.choice([("noon", "12:00 pm"), ("midnight", "12:00 am")])
    hour = rng.randint(1, 12)
    half, ending = rng.choice([("", "")] * 3 + [(" am", " am"), (" pm", " pm"), (" in the morning", " am"),
                                                (" in the evening", " pm"), (" in the afternoon", " pm")])
    kind = rng.random()
    minute, word = rng.choice([(15, "quarter"), (15, "a quarter"), (10, "ten"), (5, "five"), (20, "twenty")])
    if kind < 0.4:
        said, minute = spoken(hour, rng) + (rng.choice([" o'clock", "", ""]) if not half else ""), 0
    elif kind < 0.5:
        said, minute = "half past " + spoken(hour, rng, 0.1), 30
    elif kind < 0.6:
        said = f"{word} past {spoken(hour, rng, 0.1)}"
    elif kind < 0.7:
        said = f"{word} to {spoken(hour, rng, 0.1)}"
        hour, minute = (hour - 2) % 12 + 1, 60 - minute
    else:
        minute = rng.randint(1, 59) if rng.random() < 0.5 else rng.randint(1, 11) * 5
        said = (f"{hour}:{minute:02d}" if rng.random() < 0.3 else
                f"{spoken(hour, rng, 0)} {'oh ' if minute < 10 else ''}{spoken(minute, rng, 0)}")
    return said + half, f"{hour}:{minute:02d}{ending}"


def words(pattern, rng, held):
    """Fill the {parts} of a free slot's pattern."""
    while "{" in pattern:
        before, rest = pattern.split("{", 1)
        part, after = rest.split("}", 1)
        pattern = before + part_of(part, rng, held) + after
    return pattern


def part_of(part, rng, held):
    if part == "word":
        return made_up(rng, held)
    if part == "relative":
        return rng.choice(RELATIVES)
    if part == "day":
        return rng.choice(["on " + d if d.endswith("day") and d != "today" else d for d in DAYS])
    if part == "number":
        return spoken(rng.randint(2, 59), rng)
    if part == "person":
        return words(rng.choice(PEOPLE[:-1]), rng, held)
    if rng.random() < 0.15 and part not in ("verb", "adj"):
        return made_up(rng, held)
    while True:
        chosen = rng.choice(PARTS[part])
        if kept_back(chosen) == held:
            return chosen


def free(slot, rng, held):
    """A free slot's text; with `held` it has at least one word that training never uses."""
    if slot == "item":
        return part_of("goods", rng, held) if rng.random() < 0.8 else words("{adj} {goods}", rng, held)
    while True:
        pattern = rng.choice(FREE[slot])
        if not held or any(p in pattern for p in ("{word}", "{first}", "{noun}", "{thing}", "{goods}", "{person}", "{adj}")):
            return words(pattern, rng, held)


def fill(slot, rng, held=False):
    """What is said for a slot, and its value in the JSON."""
    if slot in LISTED:
        value = rng.choice(LISTED[slot])
        spoken_day = slot == "day" and value not in ("today", "tomorrow") and rng.random() < 0.8
        return ("on " + value if spoken_day else value), value
    if slot == "lang":
        return rng.choice(list(LANGUAGES.items()))
    if slot in ("level", "temp", "dur", "pos", "time"):
        return {"level": level, "temp": temperature, "dur": duration, "pos": duration, "time": clock}[slot](rng)
    said = free(slot, rng, held)
    return said, said
