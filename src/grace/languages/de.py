"""German.

A feature's `phrase` is its subject in the nominative, with its article; `been` the participle at the end ("gewesen",
"verwendet worden"), `more` and `less` are comparatives, and `unit` stands in the accusative ("um 3 Jahre älter").
In `verb`, {class} stands behind "als" or on its own: "{row} als {class} eingestuft".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from grace.degrees import LITTLE, LOT, Becomes, By, Instead, Said, Times, Way
from grace.features import Feature, Numeric, Value
from grace.languages import Facts, Part, Words, category, listed, percent, shown, upper, with_unit
from grace.numerals import decimal, digits

WORDS = Words(
    row="die Zeile",
    rows="Zeilen",
    verb="{row} als {class} eingestuft",
    been="gewesen",
    more="höher",
    less="niedriger",
    missing="„keine Angabe“",
    tasks={"clustering": "{row} {class} zugeordnet", "regression": "{class} vorhergesagt"},
    cluster="Cluster {class}",
    date={"unit": "Tage", "unit_one": "Tag", "more": "später", "less": "früher"},
)
NAME = "Deutsch"
SCREEN = {
    "feature": "Merkmal",
    "is": "ist",
    "would": "wäre",
    "or": "Oder: ",
    "note": "Hinweis: ",
    "along": "wäre dann",
}
PERCENT = {"": "", ">": "mehr als ", "<": "weniger als ", "just >": "etwas mehr als ", "just <": "etwas weniger als "}
AND = "und"
COUNT = ("drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn")
FRACTIONS = (
    "1/10=ein Zehntel; 1/8=ein Achtel; 1/6=ein Sechstel; 1/5=ein Fünftel; 1/4=ein Viertel; 1/3=ein Drittel; "
    "1/2=halb; 2/3=zwei Drittel; 3/4=drei Viertel; 3/2=anderthalbmal; 2=doppelt; 5/2=zweieinhalbmal"
)
TIMES = dict(pair.split("=") for pair in FRACTIONS.split("; "))
TIMES |= {str(n): f"{word}mal" for n, word in enumerate(COUNT, 3)}
TIMES |= {LITTLE: "weniger als ein Zehntel", LOT: "mehr als zehnmal"}
IRREGULAR = (
    "höher=hoch größer=groß länger=lang kürzer=kurz älter=alt jünger=jung stärker=stark schwächer=schwach "
    "wärmer=warm kälter=kalt ärmer=arm näher=nah mehr=viele weniger=wenige dunkler=dunkel teurer=teuer"
)
REGULAR = (
    "niedrig gering klein dick dünn häufig selten weit spät früh hell schwer leicht schnell langsam tief "
    "breit schmal steil reich billig hart weich neu"
)
POSITIVE = dict(pair.split("=") for pair in IRREGULAR.split()) | {f"{word}er": word for word in REGULAR.split()}
"""Each comparative with its positive."""


# -- words and numbers ------------------------------------------------------------------------


def named(name: str) -> str:
    return f"der Wert von „{name}“"


def label(value: Value) -> str:
    return f"„{value}“"


def figure(low: Decimal | None, high: Decimal | None, *, about: bool) -> str:
    if low is None or high is None:
        return f"höchstens {number(high)}" if high is not None else f"mindestens {number(low or Decimal(0))}"
    return f"{'etwa ' if about else ''}{number(low)}" if low == high else f"zwischen {number(low)} und {number(high)}"


def number(size: Decimal) -> str:
    return digits(size, ".", ",")


def amount(feature: Numeric, size: Decimal) -> str:
    return with_unit(feature, size, number(size))


def has_ratios(feature: Numeric) -> bool:
    return feature.more in POSITIVE


def would(feature: Feature) -> str:
    """The auxiliary of the conditional: "wäre" for being and the passive, "hätte" for anything else."""
    verb = "wäre" if feature.been == "gewesen" or feature.been.endswith(" worden") else "hätte"
    return f"{verb}n" if feature.plural else verb


def was(feature: Feature) -> str:
    """The end of a clause about the past: "war", "verwendet wurden", "gekostet hat"."""
    if feature.been == "gewesen":
        return "waren" if feature.plural else "war"
    if feature.been.endswith(" worden"):
        return feature.been.removesuffix("worden") + ("wurden" if feature.plural else "wurde")
    return f"{feature.been} {'haben' if feature.plural else 'hat'}"


# -- clauses ----------------------------------------------------------------------------------


def degree(feature: Feature, said: Said) -> str:
    """ "um 7 Punkte niedriger", "nur halb so hoch", "niedriger", "0,35 statt 0,2777779", or the new category."""
    if isinstance(said, Becomes):
        return category(feature, said.new)
    assert isinstance(feature, Numeric)
    if isinstance(said, Instead):
        return _value(feature, said.new, said.old)
    more = feature.more if said.up else feature.less
    things = f" {feature.unit}" if feature.more == "mehr" and feature.unit else ""
    if isinstance(said, By):
        about = "etwa " if said.about else ""
        size = f"{about}{amount(feature, said.size)} {more}"
        return size if feature.more == "mehr" else f"um {size}"
    if isinstance(said, Way):
        return f"{more}{things}"
    if said.ratio == "slightly":
        return f"etwas {more}{things}"
    about = "etwa " if said.about else ""
    if said.ratio == "5/4":
        return f"um {about}ein Viertel {more}{things}"
    only = "" if said.up or said.ratio == LITTLE else "nur "
    return f"{only}{about}{TIMES[said.ratio]} so {POSITIVE[feature.more]}{things}"


def too(feature: Feature, said: Said) -> str:
    """ "um 7 Punkte zu hoch"; where the word is unknown, what was not the case."""
    if isinstance(said, Becomes):
        new, old = category(feature, said.new), category(feature, said.old)
        instead = "statt" if new.startswith("„") else "und nicht"  # "statt" bends plain words
        return f"{old} {instead} {new}"
    assert isinstance(feature, Numeric)
    if isinstance(said, Instead):
        return _value(feature, said.old, said.new)
    word = POSITIVE.get(feature.less if said.up else feature.more)
    if word is None or isinstance(said, Times):
        return f"nicht {degree(feature, said)}"
    if isinstance(said, Way):
        return f"zu {word} {feature.unit}" if feature.more == "mehr" and feature.unit else f"zu {word}"
    size = f"{'etwa ' if said.about else ''}{amount(feature, said.size)} zu {word}"
    return size if feature.more == "mehr" else f"um {size}"


def _value(feature: Numeric, value: Decimal, instead: Decimal) -> str:
    said = f"{amount(feature, value)} statt {number(instead)}"
    return said if feature.been == "gewesen" else f"mit einem Wert von {number(value)} statt {number(instead)}"


def _together(parts: Sequence[Part], verb: Callable[[Feature], str], say: Callable[[Feature, Said], str]) -> str:
    """All that shares a verb before that verb: "A um 3 zu hoch und B um 1 zu niedrig war sowie C zu alt waren"."""
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(verb(part.feature), []).append(part)
    out = []
    for end, same in groups.items():
        said = []
        for i, part in enumerate(same):
            again = i > 0 and same[i - 1].feature.phrase == part.feature.phrase
            words = say(part.feature, part.said)
            said.append(words if again else f"{part.feature.phrase} {words}")
        out.append(f"{listed(said, AND)} {end}")
    last = "sowie" if len(groups) < len(parts) else AND
    return out[0] if len(out) == 1 else f"{', '.join(out[:-1])} {last} {out[-1]}"


# -- what would have had to be different ------------------------------------------------------


def _classed(facts: Facts, said: str, instead: str) -> str:
    """ "die Patientin als gutartig statt als bösartig eingestuft"."""
    before = "als " if "als {class}" in facts.verb else ""
    return facts.verb.format(**{"row": facts.row, "class": f"{said} statt {before}{instead}"})


def _then(facts: Facts) -> str:
    return _classed(facts, facts.after, facts.before)


def _along(facts: Facts, *, then: bool) -> str:
    """ " (B wäre dann 16)"; of what was the case, " (und damit B 9 statt 16)"."""
    said, last = [], ""
    for part in facts.along:
        feature, change = part.feature, part.said
        if isinstance(change, Becomes):
            new, old, instead = category(feature, change.new), category(feature, change.old), "und nicht"
        else:
            assert isinstance(feature, Numeric)
            assert isinstance(change, Instead)
            new, old, instead = amount(feature, change.new), amount(feature, change.old), "statt"
        verb = "wären dann" if feature.plural else "wäre dann"
        words = (
            [feature.phrase, *([] if verb == last else [verb]), new] if then else [feature.phrase, old, instead, new]
        )
        said.append(" ".join(words))
        last = verb
    return f" ({'' if then else 'und damit '}{listed(said, AND)})" if said else ""


def had(facts: Facts) -> str:
    """ "Wäre A um 3 niedriger gewesen und wären B um 1 höher gewesen, hätte das Modell …"."""
    groups: dict[str, list[Part]] = {}
    for part in facts.parts:
        groups.setdefault(would(part.feature), []).append(part)
    said = [f"{verb} {_together(same, lambda f: f.been, degree)}" for verb, same in groups.items()]
    return f"{upper(f' {AND} '.join(said))}{_along(facts, then=True)}, hätte das Modell {_then(facts)}"


def _if(facts: Facts) -> str:
    """ "A um 3 niedriger gewesen wäre und B um 1 höher gewesen wären"."""
    return _together(facts.parts, lambda f: f"{f.been} {would(f)}", degree) + _along(facts, then=True)


def if_(facts: Facts) -> str:
    return f"Wenn {_if(facts)}, hätte das Modell {_then(facts)}"


def only_if(facts: Facts) -> str:
    return f"Das Modell hätte {_then(facts)}, wenn {_if(facts)}"


# -- what was too much or too little, and what is typical -------------------------------------


def _did(facts: Facts) -> str:
    return _classed(facts, facts.before, facts.after)


def _because(facts: Facts) -> str:
    return _together(facts.parts, was, too) + _along(facts, then=False)


def because(facts: Facts) -> str:
    return f"Das Modell hat {_did(facts)}, weil {_because(facts)}"


def because_first(facts: Facts) -> str:
    return f"Weil {_because(facts)}, hat das Modell {_did(facts)}"


def _typical(facts: Facts) -> str:
    """ "A doppelt so hoch war, wie es für Proben der Klasse „gutartig“ typisch ist"."""
    group = f"für {facts.rows} der Klasse {facts.after if facts.after.startswith('„') else label(facts.after)}"
    numbers: dict[str, list[Part]] = {}
    for part in facts.parts:
        if not isinstance(part.said, Becomes):
            equal = isinstance(part.said, Times) and part.said.ratio not in ("slightly", "5/4")
            numbers.setdefault(f", {'wie' if equal else 'als'} es {group} typisch ist", []).append(part)
    said = [_together(same, was, degree) + tail for tail, same in numbers.items()]
    others = [part for part in facts.parts if isinstance(part.said, Becomes)]
    all_of_it = f", {AND} ".join([*said, *([_together(others, was, too)] if others else [])])
    return all_of_it + _along(facts, then=False)


def typical(facts: Facts) -> str:
    return f"Das Modell hat {_did(facts)}, weil {_typical(facts)}"


def typical_first(facts: Facts) -> str:
    return f"Weil {_typical(facts)}, hat das Modell {_did(facts)}"


TEMPLATES = {
    "had": (had, if_, only_if),
    "because": (because, because_first),
    "typical": (typical, typical_first),
}


# -- what goes with the sentence --------------------------------------------------------------


def sure(probability: float, *, then: bool) -> str:
    sign, whole = percent(probability)
    said = f"{PERCENT[sign]}{whole} %"
    return f" (das Modell {f'wäre sich dann zu {said} sicher gewesen' if then else f'war sich zu {said} sicher'})"


def cutoff(share: str, named: str, *, reached: bool, then: bool) -> str:
    if not named:
        return " (nach den Schwellen, die für jede Klasse gesetzt sind)"
    side = f"die Schwelle von {share} % {'' if reached else 'nicht '}erreicht"
    return f" (die Wahrscheinlichkeit für {named} {f'hätte dann {side}' if then else f'hat {side}'})"


def minimal(fewer: int, form: str) -> str:
    if fewer == 1:
        return "Innerhalb dieser Bereiche hätte keine einzelne Änderung genügt."
    count = "zwei" if fewer == 2 else dict(enumerate(COUNT, 3)).get(fewer, str(fewer))
    return f"Innerhalb dieser Bereiche hätten keine {count} Änderungen genügt."


def failed(facts: Facts, reason: str) -> str:
    return f"Das Modell hat {facts.verb.format(**{'row': facts.row, 'class': facts.before})}; {reason}"


def reason(miss: Mapping[str, Any]) -> str:
    if miss["why"] == "already":
        return "das ist bereits das, wonach gefragt war"
    if miss["why"] == "calls":
        return f"mehr als {number(decimal(miss['most']))} Fragen an das Modell lässt max_calls nicht zu"
    most = "einer Änderung" if miss["most"] == 1 else f"{miss['most']} Änderungen"
    where = {"central": "der zentralen Bereiche", "minmax": "der beobachteten Bereiche"}.get(miss["domain"])
    if where is None:
        where = f"der mittleren {number(100 * decimal(miss['domain']))} % der Werte"
    exists = "gibt es nachweislich" if miss["proven"] else f"fand die Methode „{miss['method']}“"
    hint = "; ".join(_way(**way) for way in miss["ways"]) or "auch nicht, wenn eine einzelne Grenze entfällt"
    return f"mit höchstens {most} {exists} innerhalb {where} keinen Kontrast; {hint}"


def _way(limit: str, value: Any = None) -> str:
    if limit == "free":
        may = "darf" if len(value) == 1 else "dürfen"
        return f"möglich, wenn sich {listed([label(v) for v in value], AND)} frei ändern {may}"
    if limit == "against":
        return f"möglich gegenüber {label(value)}"
    if limit == "confidence":
        return "möglich ohne die verlangte Sicherheit"
    if limit == "follow":
        return "möglich, wenn sich nichts mitändert"
    if limit == "rules":
        return f"möglich ohne die Regel{'n' if len(value) > 1 else ''} {listed([label(v) for v in value], AND)}"
    said = f"{value:.2f}" if limit == "gamma" else repr(value)
    return f"möglich mit {limit}={said}"


def note(remark: Mapping[str, Any]) -> str:
    if remark["what"] == "known missing":
        return f"{label(remark['feature'])} fehlte, was das Modell als eigene Kategorie kennt"
    if remark["what"] == "filled":
        return f"{label(remark['feature'])} fehlte und wurde durch {shown(number, remark['value'])} ersetzt"
    if remark["what"] == "rule":
        return (
            f"die Zeile selbst verletzt die Regel {label(remark['rule'])}, die nur einhalten muss, was deren Merkmale "
            "ändert; die Zeile berichtigen oder die Regel weglassen"
        )
    said = f"{label(remark['feature'])} ist {shown(number, remark['value'])}"
    if remark["what"] == "fraction":
        return f"{said}, keine ganze Zahl"
    low, high = (shown(number, remark[end]) for end in ("low", "high"))
    return f"{said} und liegt außerhalb des erlaubten Bereichs von {low} bis {high}"
