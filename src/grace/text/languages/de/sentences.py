"""German sentences.

A feature's `phrase` is its subject in the nominative, with its article, and so is its `noun`; `been` the participle at
the end ("gewesen", "verwendet worden"), `more` and `less` are comparatives, and `unit` stands in the accusative ("um 3
Jahre älter"). In `verb`, {class} stands behind "als" or on its own: "{row} als {class} eingestuft".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from grace.schema.features import Feature, Numeric
from grace.schema.words import fill
from grace.text.languages import ChangedFeature, Facts, category, grouped, listed, upper
from grace.text.languages.de.words import AND, POSITIVE, TIMES, VALUE_UNITS, amount, measured, number, quoted
from grace.text.precision import LITTLE, Delta, Difference, Direction, NewCategory, Ratio, Replacement, Within


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


def degree(feature: Feature, said: Difference) -> str:
    """ "um 7 Punkte niedriger", "nur halb so hoch", "niedriger", "0,35 statt etwa 0,2778", or the new category and the
    old."""
    if isinstance(said, NewCategory):
        return _other(category(feature, said.new), category(feature, said.old))
    assert isinstance(feature, Numeric)
    if isinstance(said, Replacement):
        return _instead(feature, (said.new, said.about_new), (said.old, said.about_old))
    if isinstance(said, Within):
        return f"{_front(feature)}zwischen {number(said.low)} {AND} {measured(feature, said.high)}{_old(feature)}"
    more = feature.more if said.up else feature.less
    things = f" {feature.unit}" if feature.more == "mehr" and feature.unit else ""
    if isinstance(said, Delta):
        about = "etwa " if said.about else ""
        size = f"{about}{amount(feature, said.size)} {more}"
        return size if feature.more == "mehr" else f"um {size}"
    if isinstance(said, Direction):
        return f"{more}{things}"
    if said.ratio == "slightly":
        return f"etwas {more}{things}"
    about = "etwa " if said.about else ""
    if said.ratio == "5/4":
        return f"um {about}ein Viertel {more}{things}"
    only = "" if said.up or said.ratio == LITTLE else "nur "
    return f"{only}{about}{TIMES[said.ratio]} so {POSITIVE[feature.more]}{things}"


def opposite(feature: Feature, said: Difference) -> str:
    """What was the case instead: "10 Punkte statt 3"; of a direction, what was not: "nicht niedriger"."""
    if isinstance(said, NewCategory):
        return _other(category(feature, said.old), category(feature, said.new))
    if isinstance(said, Direction | Within):
        return f"nicht {degree(feature, said)}"
    assert isinstance(feature, Numeric)
    assert isinstance(said, Replacement)
    return _instead(feature, (said.old, said.about_old), (said.new, said.about_new))


def _other(one: str, other: str) -> str:
    """ "statt" would ask for another case of plain words."""
    return f"{one} {'statt' if other.startswith('„') else 'und nicht'} {other}"


def _instead(feature: Numeric, first: tuple[Decimal, bool], second: tuple[Decimal, bool]) -> str:
    """ "53 Jahre alt statt 33", "mit einem Anteil von 0,3 % statt 0,1 %"; each with whether it is rounded."""
    (a, a_about), (b, b_about) = first, second
    value = f"{_front(feature)}{'etwa ' if a_about else ''}{measured(feature, a)}{_old(feature)}"
    return f"{value} statt {'etwa ' if b_about else ''}{number(b)}{VALUE_UNITS.get(feature.unit, '')}"


def _front(feature: Numeric) -> str:
    if feature.more == "häufiger" and feature.been != "gewesen":
        return "mit einem Anteil von "
    return "mit einem Wert von " if feature.been != "gewesen" and feature.more != "mehr" else ""


def _old(feature: Numeric) -> str:
    return " alt" if feature.more == "älter" else ""


def _together(
    parts: Sequence[ChangedFeature], verb: Callable[[Feature], str], say: Callable[[Feature, Difference], str]
) -> str:
    """All that shares a verb before that verb: "A 3 statt 2 und B 1 statt 4 war sowie C 5 statt 6 waren"."""
    groups = grouped(parts, lambda part: verb(part.feature))
    out = []
    for end, same in groups:
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
    return fill(facts.verb, f"{said} statt {before}{instead}", facts.row)


def _then(facts: Facts) -> str:
    return _classed(facts, facts.after, facts.before)


def _along(facts: Facts, *, then: bool) -> str:
    """ " (B wäre dann 16)"; of what was the case, " (und damit B 9 statt 16)"."""
    said, last = [], ""
    for part in facts.along:
        feature, change = part.feature, part.said
        if isinstance(change, NewCategory):
            new, old, instead = category(feature, change.new), category(feature, change.old), "und nicht"
        else:
            assert isinstance(feature, Numeric)
            assert isinstance(change, Replacement)
            about = "etwa " if change.about_old else ""
            new, old, instead = measured(feature, change.new), f"{about}{measured(feature, change.old)}", "statt"
        verb = "wären dann" if feature.plural else "wäre dann"
        words = (
            [feature.phrase, *([] if verb == last else [verb]), new] if then else [feature.phrase, old, instead, new]
        )
        said.append(" ".join(words))
        last = verb
    return f" ({'' if then else 'und damit '}{listed(said, AND)})" if said else ""


def had(facts: Facts) -> str:
    """ "Wäre A um 3 niedriger gewesen und wären B um 1 höher gewesen, hätte das Modell …"."""
    groups = grouped(facts.parts, lambda part: would(part.feature))
    said = [f"{verb} {_together(same, lambda f: f.been, degree)}" for verb, same in groups]
    return f"{upper(f' {AND} '.join(said))}{_along(facts, then=True)}, hätte das Modell {_then(facts)}"


def _if(facts: Facts) -> str:
    """ "A um 3 niedriger gewesen wäre und B um 1 höher gewesen wären"."""
    return _together(facts.parts, lambda f: f"{f.been} {would(f)}", degree) + _along(facts, then=True)


def if_(facts: Facts) -> str:
    return f"Wenn {_if(facts)}, hätte das Modell {_then(facts)}"


def only_if(facts: Facts) -> str:
    return f"Das Modell hätte {_then(facts)}, wenn {_if(facts)}"


# -- what was the case instead, and what is typical -------------------------------------------


def _did(facts: Facts) -> str:
    return _classed(facts, facts.before, facts.after)


def _because(facts: Facts) -> str:
    return _together(facts.parts, was, opposite) + _along(facts, then=False)


def because(facts: Facts) -> str:
    return f"Das Modell hat {_did(facts)}, weil {_because(facts)}"


def because_first(facts: Facts) -> str:
    return f"Weil {_because(facts)}, hat das Modell {_did(facts)}"


def _typical(facts: Facts) -> str:
    """ "A doppelt so hoch war, wie es für Proben der Klasse „gutartig“ typisch ist"."""
    group = f"für {facts.rows} der Klasse {quoted(facts.after)}"
    numbers: dict[str, list[ChangedFeature]] = {}
    for part in facts.parts:
        if not isinstance(part.said, NewCategory):
            equal = isinstance(part.said, Ratio) and part.said.ratio not in ("slightly", "5/4")
            numbers.setdefault(f", {'wie' if equal else 'als'} es {group} typisch ist", []).append(part)
    said = [_together(same, was, degree) + tail for tail, same in numbers.items()]
    others = [part for part in facts.parts if isinstance(part.said, NewCategory)]
    all_of_it = f", {AND} ".join([*said, *([_together(others, was, opposite)] if others else [])])
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
