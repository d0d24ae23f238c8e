"""Reading a sentence back: which features it moves, how far or which way, and which class it promises.

Written from a reader's side: it knows the words of the schema and of the language, not how sentences are made.
`read` gives what a reader would type in, `readings` all ways to understand a sentence; `truth` says if it is so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from grace import Categorical, Explanation, Numeric, Schema

MINUS = "\N{MINUS SIGN}"
NUMBER = rf"({MINUS}?\d+(?:[.,]\d+)*)"


@dataclass(frozen=True)
class Claim:
    """What a clause says of a feature: `what` is "by" (size, signed), "to" (value, and the old one), "times" (ratio),
    "over" or "under" (a ratio), "slightly" or "way" (a sign), "within" (the two ends of a span), "least" (a signed size
    and all beyond), "category" (the new one and the old) or "any" (several new ones and the old)."""

    name: str
    what: str
    size: object
    about: bool = False
    old: object = None
    about_old: bool = False


@dataclass(frozen=True)
class Proven:
    """What a sentence says to be proven: that so many changes are too few, and under which conditions."""

    fewer: int
    categories: bool
    fixed: str
    up: str
    down: str
    distinct: bool
    ties: bool
    towards: str
    confidence: str


@dataclass(frozen=True)
class Reading:
    form: str
    claims: tuple[Claim, ...]
    before: object
    after: object
    sure: str | None
    proven: Proven | None


@dataclass(frozen=True)
class Tongue:
    """The words of a language, as a reader knows them."""

    point: str
    about: str
    times: dict[str, Decimal]
    over: str
    under: str
    positive: dict[str, str]
    forms: list[tuple[str, str, str, bool]]  # form, first words, words in the middle, whether the clauses come first
    sure: str
    fewer: str

    def number(self, said: str) -> Decimal:
        group = "," if self.point == "." else "."
        return Decimal(said.replace(group, "").replace(self.point, ".").replace(MINUS, "-"))


def fractions(words: str) -> dict[str, Decimal]:
    pairs = (pair.split("=") for pair in words.split("; "))
    return {
        word: Decimal(top) / Decimal(rest[0] if rest else 1)
        for word, value in pairs
        for top, *rest in [value.split("/")]
    }


def pairs(words: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in words.split("; "))


TONGUES = {
    "en": Tongue(
        point=".",
        about="about ",
        times=fractions(
            "a tenth=1/10; an eighth=1/8; a sixth=1/6; a fifth=1/5; a quarter=1/4; a third=1/3; half=1/2; "
            "two thirds=2/3; three quarters=3/4; one and a half times=3/2; twice=2; two and a half times=5/2; "
            "three times=3; four times=4; five times=5; six times=6; seven times=7; eight times=8; nine times=9; "
            "ten times=10"
        ),
        over="more than ten times",
        under="less than a tenth",
        positive=pairs(
            "higher=high; lower=low; larger=large; smaller=small; greater=great; longer=long; shorter=short; "
            "older=old; younger=young; thicker=thick; thinner=thin; more often=often; less often=rarely; more=many; "
            "fewer=few; later=late; earlier=early"
        ),
        forms=[
            ("had", "Had ", ", the model would have ", True),
            ("if", "If ", ", the model would have ", True),
            ("if", "The model would have ", " if ", False),
            ("because", "The model ", " because ", False),
            ("because", "Because ", ", the model ", True),
        ],
        sure=r" \(the model (?:would then have been|was) (.*) sure\)",
        fewer=r" Within these ranges(?P<categories> and categories)?(?:, with (?P<fixed>.*?) as (?:it is|they are))?"
        r"(?:, with (?P<up>.*?) only going up)?(?:, with (?P<down>.*?) only going down)?"
        r"(?P<distinct>, without two features that say much the same)?"
        r"(?P<ties>, (?:ties between classes|borderline cases) aside)?, no (?P<fewer>\w+) changes? "
        r"(?:could have done it|would have been enough to change that|could have led to (?P<towards>.*?))"
        r"(?: with a probability of at least (?P<confidence>.*) %)?\.",
    ),
    "de": Tongue(
        point=",",
        about="etwa ",
        times=fractions(
            "ein Zehntel=1/10; ein Achtel=1/8; ein Sechstel=1/6; ein Fünftel=1/5; ein Viertel=1/4; ein Drittel=1/3; "
            "halb=1/2; zwei Drittel=2/3; drei Viertel=3/4; anderthalbmal=3/2; doppelt=2; zweieinhalbmal=5/2; "
            "dreimal=3; viermal=4; fünfmal=5; sechsmal=6; siebenmal=7; achtmal=8; neunmal=9; zehnmal=10"
        ),
        over="mehr als zehnmal",
        under="weniger als ein Zehntel",
        positive=pairs(
            "höher=hoch; niedriger=niedrig; geringer=gering; größer=groß; kleiner=klein; länger=lang; kürzer=kurz; "
            "älter=alt; jünger=jung; dicker=dick; dünner=dünn; häufiger=häufig; seltener=selten; mehr=viele; "
            "weniger=wenige"
        ),
        forms=[
            ("had", "", ", hätte das Modell ", True),
            ("if", "Wenn ", ", hätte das Modell ", True),
            ("if", "Das Modell hätte ", ", wenn ", False),
            ("because", "Das Modell hat ", ", weil ", False),
            ("because", "Weil ", ", hat das Modell ", True),
        ],
        sure=r" \(das Modell (?:wäre sich dann zu (.*) sicher gewesen|war sich zu (.*) sicher)\)",
        fewer=r" Innerhalb dieser Bereiche(?P<categories> und Kategorien)?(?: \((?:unverändert: (?P<fixed>.*?))?(?:; )?"
        r"(?:nur steigend: (?P<up>.*?))?(?:; )?(?:nur fallend: (?P<down>.*?))?(?:; )?"
        r"(?P<distinct>ohne zwei Merkmale, die weitgehend dasselbe sagen)?(?:; )?"
        r"(?P<ties>(?:Gleichstände zwischen Klassen|Grenzfälle) ausgenommen)?\))? hätten? keine (?P<fewer>\w+) "
        r"Änderung(?:en)?(?: mit einer Wahrscheinlichkeit von mindestens (?P<confidence>.*) %)? "
        r"(?:genügt|zu (?:„|einer Vorhersage (?:von )?)(?P<towards>.*?)“? geführt)\.",
    ),
}


@dataclass(frozen=True)
class Spoken:
    """A feature in the reader's words."""

    feature: Numeric | Categorical
    phrases: tuple[str, ...]
    unit: str
    been: str
    more: str
    less: str
    plural: bool
    labels: dict[str, object]

    def count(self) -> bool:
        """Whether its unit is what is counted: "9 more bare nuclei"."""
        return self.more in ("more", "mehr")


def spoken(feature: Numeric | Categorical, code: str) -> Spoken:
    english = code == "en"
    words = feature.translations.get(code, {})

    def word(name: str, german: object) -> object:
        return getattr(feature, name, "") if english else words.get(name, german)

    plain = (feature.name.replace("_", " "), f"“{feature.name}”") if english else (f"der Wert von „{feature.name}“",)
    unit = [str(u) for u in (word("unit", ""), word("unit_one", "")) if u]
    labels: dict[str, object] = {}
    if isinstance(feature, Categorical):
        known = feature.labels if english else words.get("labels", {})
        for c in feature.categories:
            label = str(c)
            if (
                "_" in label
                and sum(str(o).replace("_", " ") == label.replace("_", " ") for o in feature.categories) < 2
            ):
                label = label.replace("_", " ")
            missing = label if english else "„keine Angabe“" if c == "missing" else f"„{label}“"
            labels[known.get(str(c), missing)] = c
    return Spoken(
        feature=feature,
        phrases=(str(word("phrase", "")),) if word("phrase", "") else plain,
        unit="|".join(re.escape(u) for u in sorted(unit, key=len, reverse=True)),
        been=str(word("been", "gewesen")),
        more=str(word("more", "höher")),
        less=str(word("less", "niedriger")),
        plural=bool(word("plural", False)),
        labels=labels,
    )


KNOWN: dict[tuple[int, str], tuple[Schema, list[Spoken]]] = {}


def vocabulary(schema: Schema, code: str) -> list[Spoken]:
    """All features of a schema in the reader's words, looked up once."""
    if (id(schema), code) not in KNOWN:
        KNOWN[id(schema), code] = schema, [spoken(f, code) for f in schema.features]
    return KNOWN[id(schema), code][1]


# -- degrees: regular expressions, and what each of them claims ---------------------------------------

Pattern = tuple[str, Callable[[re.Match[str]], Claim]]


def degrees(s: Spoken, code: str) -> Iterator[Pattern]:
    """ "7 points lower", "half as high", "lower", "0.35 instead of about 0.2778", or the new category and the old."""
    t, name = TONGUES[code], s.feature.name
    if isinstance(s.feature, Categorical):
        yield from categories(s, code, old_first=False)
        yield from several(s, code)
        return
    unit = f"(?: (?:{s.unit}))" if s.unit else ""
    about = f"(?P<about>{t.about})?"
    yield values(s, code, old_first=False)
    yield span(s, code)
    for sign, way in ((1, s.more), (-1, s.less)):
        word = re.escape(way)
        size = f"{NUMBER}{unit} {word}"
        if s.count() and code == "en":
            size = f"{NUMBER} {word}{unit}"
        elif not s.count() and code == "de":
            size = f"um {about}{size}"
        least = size.replace(about, "mindestens ") if "?P<about>" in size else f"at least {size}"
        least = f"mindestens {size}" if code == "de" and s.count() else least
        yield least, lambda m, g=sign: Claim(name, "least", g * t.number(m[1]))
        size = size if "?P<about>" in size else about + size
        yield size, lambda m, g=sign: Claim(name, "by", g * t.number(m[2]), bool(m["about"]))
        things = unit if s.count() else ""
        yield f"{word}{things}", lambda m, g=sign: Claim(name, "way", g)
        slightly = "slightly" if code == "en" else "etwas"
        yield f"{slightly} {word}{things}", lambda m, g=sign: Claim(name, "slightly", g)
    by, quarter = ("", "a quarter") if code == "en" else ("um ", "ein Viertel")
    yield (
        f"{by}{about}{quarter} {re.escape(s.more)}{unit if s.count() else ''}",
        lambda m: Claim(name, "times", Decimal("1.25"), bool(m["about"])),
    )
    if s.more in t.positive:
        tail = f" {'as' if code == 'en' else 'so'} {t.positive[s.more]}{unit if s.count() else ''}"
        ratios = "|".join(t.times)
        only = "(?:only )?" if code == "en" else "(?:nur )?"
        yield (
            f"{only}{about}({ratios}){tail}",
            lambda m: Claim(name, "times", t.times[m[2]], bool(m["about"])),
        )
        yield t.over + tail, lambda m: Claim(name, "over", Decimal(10))
        yield t.under + tail, lambda m: Claim(name, "under", Decimal("0.1"))


def around_values(s: Spoken, code: str) -> tuple[str, str, str]:
    """What stands before a value, and behind it: its unit, and "old"."""
    front = ""
    if s.more == "more often":
        front = "at a rate of "
    elif s.more == "häufiger" and s.been != "gewesen":
        front = "mit einem Anteil von "
    elif code == "de" and s.been != "gewesen" and not s.count():
        front = "mit einem Wert von "
    share = s.unit.startswith(("percentage", "Prozentpunkt"))
    unit = f"(?: (?:{s.unit}))" if s.unit and not s.unit.startswith(("steps", "Stufen")) else ""
    unit = " %" if share else unit
    return front, unit, {"older": " old", "älter": " alt"}.get(s.more, "")


def span(s: Spoken, code: str) -> Pattern:
    """ "between 34 and 41 years old"."""
    t = TONGUES[code]
    front, unit, old = around_values(s, code)
    between, and_ = ("between", "and") if code == "en" else ("zwischen", "und")
    pattern = f"{front}{between} {NUMBER} {and_} {NUMBER}{unit}{old}"
    return pattern, lambda m: Claim(s.feature.name, "within", (t.number(m[1]), t.number(m[2])))


def values(s: Spoken, code: str, *, old_first: bool) -> Pattern:
    """ "53 years old instead of about 33", "at a rate of 0.3 % instead of 0.1 %"."""
    t, name = TONGUES[code], s.feature.name
    front, unit, old = around_values(s, code)
    instead = "instead of" if code == "en" else "statt"
    also = " %" if unit == " %" else ""
    pattern = f"{front}({t.about})?{NUMBER}{unit}{old} {instead} ({t.about})?{NUMBER}{also}"

    def claim(m: re.Match[str]) -> Claim:
        first, second = (t.number(m[2]), bool(m[1])), (t.number(m[4]), bool(m[3]))
        (was, was_about), (new, about) = (first, second) if old_first else (second, first)
        return Claim(name, "to", new, about, was, was_about)

    return pattern, claim


def categories(s: Spoken, code: str, *, old_first: bool) -> Iterator[Pattern]:
    """ "own instead of rent"."""
    apart = " instead of " if code == "en" else r" (?:statt|und nicht) "
    for a, first in s.labels.items():
        for b, second in s.labels.items():
            old, new = (first, second) if old_first else (second, first)
            if old != new:
                made = Claim(s.feature.name, "category", new, old=old)
                yield re.escape(a) + apart + re.escape(b), lambda m, made=made: made


def labelled(said: str, s: Spoken, last: str) -> tuple[object, ...]:
    """The categories of a list such as "own, free or other"."""
    one = "|".join(re.escape(label) for label in sorted(s.labels, key=len, reverse=True))
    out = []
    while said:
        found = re.match(rf"({one})(?:, |; {last} |; | {last} |\Z)", said)
        assert found, said
        out.append(s.labels[found[1]])
        said = said[found.end() :]
    return tuple(out)


def several(s: Spoken, code: str) -> Iterator[Pattern]:
    """ "own, free or other instead of rent"."""
    apart, last = (" instead of ", "or") if code == "en" else (r" (?:statt|und nicht) ", "oder")
    one = "|".join(re.escape(label) for label in sorted(s.labels, key=len, reverse=True))
    joint = rf"(?:, |; | {last} |; {last} )"
    for b, old in s.labels.items():

        def claim(m: re.Match[str], old: object = old) -> Claim:
            return Claim(s.feature.name, "any", labelled(m[1], s, last), old=old)

        yield rf"((?:{one})(?:{joint}(?:{one}))+){apart}{re.escape(b)}", claim


def opposites(s: Spoken, code: str) -> Iterator[Pattern]:
    """ "was 10 points instead of 3": what was the case, and what would have had to be."""
    if isinstance(s.feature, Categorical):
        yield from categories(s, code, old_first=True)
    else:
        yield values(s, code, old_first=True)


def nots(s: Spoken, code: str) -> Iterator[Pattern]:
    """ "(was) not lower": what was not the case; in English with what is left of the verb."""
    rest = f"{s.been[5:]} " if s.been.startswith("been ") else ""
    rest = rest if s.been.startswith("been") else f"{s.been} "
    for sign, way in ((1, s.more), (-1, s.less)) if isinstance(s.feature, Numeric) else ():
        things = f"(?: (?:{s.unit}))" if s.unit and s.count() else ""
        front = f"not {re.escape(rest)}" if code == "en" else "nicht "
        yield f"{front}{re.escape(way)}{things}", lambda m, g=sign: Claim(s.feature.name, "way", g)
    if isinstance(s.feature, Numeric):
        pattern, claim = span(s, code)
        yield (f"not {re.escape(rest)}" if code == "en" else "nicht ") + pattern, claim


# -- clauses ------------------------------------------------------------------------------------------


def verbs(s: Spoken, code: str, form: str) -> tuple[str, str, str]:
    """Before the phrase (once a group), behind it, and at the end of a group of clauses."""
    if code == "en":
        past = ("were" if s.plural else "was") + s.been[4:] if s.been.startswith("been") else f"had {s.been}"
        return "", {"had": s.been, "if": f"had {s.been}", "because": past, "typical": past}[form], ""
    passive = s.been.endswith(" worden")
    would = ("wäre" if passive or s.been == "gewesen" else "hätte") + ("n" if s.plural else "")
    if s.been == "gewesen":
        past = "waren" if s.plural else "war"
    elif passive:
        past = s.been.replace("worden", "wurden" if s.plural else "wurde")
    else:
        past = s.been + (" haben" if s.plural else " hat")
    return {
        "had": (would, "", s.been),
        "if": ("", "", f"{s.been} {would}"),
        "because": ("", "", past),
        "typical": ("", "", past),
    }[form]


def clauses(body: str, features: list[Spoken], code: str, form: str, tail: str) -> Iterator[tuple[Claim, ...]]:
    """Every way to read the body as clauses about different features."""
    yield from _clauses(body, features, code, form, tail, "", "", (), ())


def _clauses(
    text: str,
    features: list[Spoken],
    code: str,
    form: str,
    tail: str,
    phrase: str,
    front: str,
    open_: tuple[Spoken, ...],
    done: tuple[Claim, ...],
) -> Iterator[tuple[Claim, ...]]:
    for s in features:
        if any(c.name == s.feature.name for c in done):
            continue
        before, behind, end = verbs(s, code, form)
        for said in s.phrases:
            starts = _german(text, said, before, phrase, bool(done)) if code == "de" else ()
            for start, verb in starts or _english(text, said, behind, s, form, phrase, front, bool(done)):
                for pattern, claim in _patterns(s, code, form, verb, behind):
                    for stop, made in _ends(text[start:], pattern, claim):
                        rest = text[start + stop :]
                        for gap, closed in _gaps(rest, end, code, form, tail, made):
                            group = (*open_, s)
                            if closed and code == "de" and {verbs(g, code, form)[2] for g in group} != {end}:
                                continue
                            after = rest[gap:]
                            claims = (*done, made)
                            if not after and (closed or code == "en"):
                                yield claims
                            elif after:
                                later = () if closed else group
                                last = "" if closed and code == "en" else verb
                                yield from _clauses(after, features, code, form, tail, said, last, later, claims)


def _german(text: str, said: str, before: str, phrase: str, again: bool) -> list[tuple[int, str]]:
    """Where the degree begins; a verb stands in front of a group, and a subject said before need not be said again."""
    words = (before, before.capitalize(), "") if before else ("",)
    out = [
        (len(f"{word} {said} ".lstrip()), before)
        for word in words
        if (word or again or not before) and text.startswith(f"{word} {said} ".lstrip())
    ]
    return [*out, *([(0, before)] if again and said == phrase else [])]


def _english(
    text: str, said: str, behind: str, s: Spoken, form: str, phrase: str, front: str, again: bool
) -> Iterator[tuple[int, str]]:
    """Where the degree begins, and the verb that holds. A verb is said once for all clauses that share it: said twice,
    a sentence cannot be read. ("There" has a verb of its own, and so has what is compared with something else.)"""
    if not behind:
        return
    options = dict.fromkeys([behind, behind.split(" ")[0]] if form == "because" else [behind])
    if not s.feature.phrase and form in ("because", "typical") and behind.startswith("was"):
        options |= dict.fromkeys(verb.replace("was", "were") for verb in options)
    for verb in options:
        mark = f"{verb}|{said == 'there'}"
        if (front != mark or form == "typical") and text.startswith(f"{said} {verb} "):
            yield len(f"{said} {verb} "), mark
        if again and front == mark:
            if text.startswith(f"{said} "):
                yield len(said) + 1, mark
            if said == phrase:
                yield 0, mark


def _patterns(s: Spoken, code: str, form: str, verb: str, behind: str) -> Iterator[Pattern]:
    said = verb.split("|")[0].replace("were", "was")
    if form == "because":
        if code == "de" or said == behind.replace("were", "was"):
            yield from opposites(s, code)
        if code == "de" or said == behind.replace("were", "was").split(" ")[0]:
            yield from nots(s, code)
    elif form == "typical" and isinstance(s.feature, Categorical):
        yield from opposites(s, code)
    else:
        yield from degrees(s, code)


def _ends(text: str, pattern: str, claim: Callable[[re.Match[str]], Claim]) -> Iterator[tuple[int, Claim]]:
    match = re.match(pattern, text)
    if match:
        yield match.end(), claim(match)


def _gaps(rest: str, end: str, code: str, form: str, tail: str, made: Claim) -> Iterator[tuple[int, bool]]:
    """What may stand behind a clause: the verb of its group, what it is compared with, and a comma or "and"."""
    joints = (
        ["", ", ", " and ", ", and ", "; ", "; and ", *([" and had ", ", and had "] if form == "had" else [])]
        if code == "en"
        else ["", ", ", " und ", " sowie ", "; ", "; und ", ", und "]
    )
    equal = made.what in ("over", "under") or (made.what == "times" and made.size != Decimal("1.25"))
    tails = [""]
    if form == "typical" and made.what != "category":
        word = ("as" if equal else "than") if code == "en" else ("wie" if equal else "als")
        full = f" {word} is typical of {tail}" if code == "en" else f", {word} es für {tail} typisch ist"
        tails = [full, ""]
    for verb in [f" {end}", ""] if end else [""]:
        for compared in tails:
            for joint in joints:
                whole = verb + compared + joint
                if rest == whole or (joint and rest.startswith(whole)):
                    yield len(whole), bool(verb) or joint.endswith("had ")


# -- the sentence -------------------------------------------------------------------------------------


def readings(sentence: str, e: Explanation, schema: Schema, code: str = "en") -> list[Reading]:
    """Every way to understand the sentence."""
    t = TONGUES[code]
    words = {} if code == "en" else schema.translations.get(code, {})
    sure = proven = None
    if match := re.search(t.fewer + r"\Z", sentence):
        sentence, proven = sentence[: match.start()], _proven(match)
    assert sentence.endswith("."), sentence
    sentence = sentence[:-1]
    if match := re.search(t.sure + r"\Z", sentence):
        sentence, sure = sentence[: match.start()], next(g for g in match.groups() if g)
    features = [s for s in vocabulary(schema, code) if any(p in sentence for p in s.phrases)]
    found = []
    for form, head, joint, first in t.forms:
        for body, rest in _splits(head, joint, first, sentence):
            for x, y in _classes(rest, e, schema, code, words):
                if form == "because":
                    rows = words.get("rows", "Zeilen") if code == "de" else schema.rows
                    word = class_word(schema, y, code, words)
                    quoted = word if word.startswith("„") else f"„{word}“"
                    tail = f"{rows} in the class “{word}”" if code == "en" else f"{rows} der Klasse {quoted}"
                    for claims in clauses(body, features, code, "because", tail):
                        found.append(Reading("because", claims, x, y, sure, proven))
                    if "typi" in body:
                        for claims in clauses(body, features, code, "typical", tail):
                            if any(c.what != "category" for c in claims):
                                found.append(Reading("typical", claims, x, y, sure, proven))
                else:
                    for claims in clauses(body, features, code, form, ""):
                        found.append(Reading("had", claims, y, x, sure, proven))
    return list(dict.fromkeys(found))


def _proven(match: re.Match[str]) -> Proven:
    counts = {"single": 1, "einzelne": 1, "two": 2, "zwei": 2, "three": 3, "drei": 3, "four": 4, "vier": 4}
    said = {name: words or "" for name, words in match.groupdict().items()}
    flags = {name: bool(said.pop(name)) for name in ("categories", "distinct", "ties")}
    return Proven(counts[said.pop("fewer")], **flags, **said)


def _splits(head: str, joint: str, first: bool, sentence: str) -> Iterator[tuple[str, str]]:
    """Clauses and rest: every way in which the fixed words can part the sentence, as names may contain them."""
    if sentence.startswith(head):
        for match in re.finditer(f"(?={re.escape(joint)})", sentence):
            a, b = sentence[len(head) : match.start()], sentence[match.start() + len(joint) :]
            yield (a, b) if first else (b, a)


def class_word(schema: Schema, label: object, code: str, words: dict) -> str:
    given = schema.class_words if code == "en" else words.get("class_words", {})
    plain = str(label)
    if "_" in plain and sum(str(c).replace("_", " ") == plain.replace("_", " ") for c in schema.classes) < 2:
        plain = plain.replace("_", " ")
    if re.fullmatch(r"\d+|True|False", plain):
        numbered = f"{'class' if code == 'en' else 'Klasse'} {plain}"
        plain = numbered if schema.target in (None, "class") else f"{schema.target.replace('_', ' ')} = {plain}"
    return given.get(str(label), plain if code == "en" else f"„{plain}“")


def _classes(rest: str, e: Explanation, schema: Schema, code: str, words: dict) -> Iterator[tuple[object, object]]:
    for said in e.classes:
        for other in e.classes:
            a, b = class_word(schema, said, code, words), class_word(schema, other, code, words)
            if code == "en":
                text = schema.verb.format(**{"row": schema.row, "class": a}) + f" rather than {b}"
            else:
                verb = words.get("verb", "{row} als {class} eingestuft")
                again = "als " if "als {class}" in verb else ""
                text = verb.format(**{"row": words.get("row", "die Zeile"), "class": f"{a} statt {again}{b}"})
            if rest == text and said != other:
                yield said, other


def read(sentence: str, e: Explanation, schema: Schema, code: str = "en") -> tuple[dict[str, object], object]:
    """The row that a reader would type in, from the original row and the words alone, and the class."""
    found = readings(sentence, e, schema, code)
    assert found, f"cannot read {sentence!r}"
    return typed(found[0], e), found[0].after


def typed(reading: Reading, e: Explanation) -> dict[str, object]:
    row = dict(e.row)
    for claim in reading.claims:
        if claim.what == "category":
            row[claim.name] = claim.size
        elif claim.what == "to":
            row[claim.name] = float(claim.size)
        else:
            assert claim.what == "by"
            row[claim.name] = float(Decimal(repr(float(row[claim.name]))) + claim.size)
    return row


# -- the sentence about the region ---------------------------------------------------------------------

ROOM = {
    "en": (
        r" (?:Proven|Checked at (?P<points>[\d,]+) points, not proven): with (?P<parts>.*?);? and all else as it is, "
        r"the model would have (?P<decided>.*)\.\Z",
        ("{noun} anywhere from {number} to {number}{unit}", "{noun} being (.*)", " or ", "; and |, | and |; "),
    ),
    "de": (
        r" (?:Nachgewiesen|An (?P<points>[\d.]+) Punkten geprüft, nicht nachgewiesen): Mit jedem dieser Werte und "
        r"sonst unverändert hätte das Modell (?P<decided>.*) \((?P<parts>.*)\)\.\Z",
        ("{noun}: {number} bis {number}{unit}", "{noun}: (.*)", " oder ", "; "),
    ),
}


@dataclass(frozen=True)
class Room:
    """What a sentence says about the region: two ends or several values of each feature, whether it is proven, and the
    class."""

    intervals: dict[str, tuple[Decimal, Decimal]]
    values: dict[str, tuple[object, ...]]
    points: int
    decided: object


def read_room(sentence: str, e: Explanation, schema: Schema, code: str, nouns: dict[str, str]) -> tuple[str, Room]:
    """The sentence without what it says about the region, and that."""
    t, (whole, (interval, single, last, joint)) = TONGUES[code], ROOM[code]
    match = re.search(whole, sentence)
    assert match, sentence
    rest, intervals, values = match["parts"], {}, {}
    features = {s.feature.name: s for s in vocabulary(schema, code)}
    for place, change in enumerate(e.changes):
        s = features[change.name]
        _, unit, _ = around_values(s, code)
        noun = re.escape(nouns[change.name])
        following = [re.escape(nouns[c.name]) for c in e.changes[place + 1 : place + 2]]
        stop = rf"(?=(?:{joint}){following[0]})" if following else r"\Z"
        found = re.match(interval.format(noun=noun, number=NUMBER, unit=unit) + stop, rest)
        if found:
            intervals[change.name] = t.number(found[1]), t.number(found[2])
        else:
            found = re.match(single.format(noun=noun).replace("(.*)", "(.*?)") + stop, rest)
            assert found, (rest, sentence)
            if isinstance(s.feature, Categorical):
                values[change.name] = labelled(found[1], s, last.strip())
            else:
                number = re.match(NUMBER + unit + r"\Z", found[1])
                assert number, found[1]
                values[change.name] = (t.number(number[1]),)
        rest = re.sub(rf"\A(?:{joint})", "", rest[found.end() :])
    assert rest == "", rest
    words = {} if code == "en" else schema.translations.get(code, {})
    verb = schema.verb if code == "en" else words.get("verb", "{row} als {class} eingestuft")
    row = schema.row if code == "en" else words.get("row", "die Zeile")
    (label,) = [
        c for c in e.classes
        if verb.format(**{"row": row, "class": class_word(schema, c, code, words)}) == match["decided"]
    ]  # fmt: skip
    points = int(t.number(match["points"])) if match["points"] else 0
    return sentence[: match.start()], Room(intervals, values, points, label)
