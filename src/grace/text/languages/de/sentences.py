"""German sentences.

`phrase` and `noun` of a feature are in the nominative, with their article; `been` is the participle at the end
("gewesen", "verwendet worden"), `more` and `less` are comparatives, `unit` is in the accusative ("um 3 Jahre älter").
In `verb`, {class} follows "als" or stands alone: "{row} als {class} eingestuft".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from grace.schema.features import Feature, Numeric
from grace.schema.words import fill
from grace.text.languages import ChangedFeature, Facts, category, grouped, listed, upper, value_words
from grace.text.languages.de.words import AND, POSITIVE, TIMES, VALUE_UNITS, amount, measured, number, quoted
from grace.text.precision import (
    BELOW_TENTH,
    AnyCategory,
    AtLeast,
    Delta,
    Difference,
    Direction,
    NewCategory,
    Ratio,
    Replacement,
    Within,
)


def would(feature: Feature) -> str:
    """The auxiliary verb of the conditional: "wäre" with "gewesen" and the passive, else "hätte"."""
    verb = "wäre" if feature.been == "gewesen" or feature.been.endswith(" worden") else "hätte"
    return f"{verb}n" if feature.plural else verb


def was(feature: Feature) -> str:
    """The verb phrase that ends a clause in the past: "war", "verwendet wurden", "gekostet hat"."""
    if feature.been == "gewesen":
        return "waren" if feature.plural else "war"
    if feature.been.endswith(" worden"):
        return feature.been.removesuffix("worden") + ("wurden" if feature.plural else "wurde")
    return f"{feature.been} {'haben' if feature.plural else 'hat'}"


# -- clauses ----------------------------------------------------------------------------------


def degree(feature: Feature, diff: Difference) -> str:
    """ "um 7 Punkte niedriger", "nur halb so hoch", "0,35 statt etwa 0,2778", or the new and the old category."""
    if isinstance(diff, NewCategory):
        return _other(category(feature, diff.new), category(feature, diff.old))
    if isinstance(diff, AnyCategory):
        return _other(listed([category(feature, c) for c in diff.new], "oder"), category(feature, diff.old))
    assert isinstance(feature, Numeric)
    if isinstance(diff, Replacement):
        return _instead(feature, (diff.new, diff.about_new), (diff.old, diff.about_old))
    if isinstance(diff, Within):
        return f"{_front(feature)}zwischen {number(diff.low)} {AND} {measured(feature, diff.high)}{_old(feature)}"
    more = feature.more if diff.up else feature.less
    things = f" {feature.unit}" if feature.more == "mehr" and feature.unit else ""
    if isinstance(diff, Delta | AtLeast):
        about = "mindestens " if isinstance(diff, AtLeast) else "etwa " if diff.about else ""
        size = f"{about}{amount(feature, diff.size)} {more}"
        return size if feature.more == "mehr" else f"um {size}"
    if isinstance(diff, Direction):
        return f"{more}{things}"
    if diff.ratio == "slightly":
        return f"etwas {more}{things}"
    about = "etwa " if diff.about else ""
    if diff.ratio == "5/4":
        return f"um {about}ein Viertel {more}{things}"
    only = "" if diff.up or diff.ratio == BELOW_TENTH else "nur "
    return f"{only}{about}{TIMES[diff.ratio]} so {POSITIVE[feature.more]}{things}"


def opposite(feature: Feature, diff: Difference) -> str:
    """The row's value: "10 Punkte statt 3"; negated for a direction: "nicht niedriger"."""
    if isinstance(diff, NewCategory):
        return _other(category(feature, diff.old), category(feature, diff.new))
    if isinstance(diff, Direction | Within):
        return f"nicht {degree(feature, diff)}"
    assert isinstance(feature, Numeric)
    assert isinstance(diff, Replacement)
    return _instead(feature, (diff.old, diff.about_old), (diff.new, diff.about_new))


def _other(one: str, other: str) -> str:
    """ "statt" only before quoted words: it requires the genitive of all others."""
    return f"{one} {'statt' if other.startswith('„') else 'und nicht'} {other}"


def _instead(feature: Numeric, first: tuple[Decimal, bool], second: tuple[Decimal, bool]) -> str:
    """ "53 Jahre alt statt 33", "mit einem Anteil von 0,3 % statt 0,1 %"; values come with a flag: rounded."""
    (a, a_about), (b, b_about) = first, second
    value = f"{_front(feature)}{'etwa ' if a_about else ''}{measured(feature, a)}{_old(feature)}"
    return f"{value} statt {'etwa ' if b_about else ''}{number(b)}{VALUE_UNITS.get(feature.unit, '')}"


def _front(feature: Numeric) -> str:
    if feature.more == "häufiger" and feature.been != "gewesen":
        return "mit einem Anteil von "
    return "mit einem Wert von " if feature.been != "gewesen" and feature.more != "mehr" else ""


def _old(feature: Numeric) -> str:
    return " alt" if feature.more == "älter" else ""


def _clauses(
    parts: Sequence[ChangedFeature], verb: Callable[[Feature], str], state: Callable[[Feature, Difference], str]
) -> str:
    """Clauses grouped by their final verb: "A 3 statt 2 und B 1 statt 4 war sowie C 5 statt 6 waren"."""
    groups = grouped(parts, lambda part: verb(part.feature))
    out = []
    for end, same in groups:
        clauses = []
        for i, part in enumerate(same):
            again = i > 0 and same[i - 1].feature.phrase == part.feature.phrase
            words = state(part.feature, part.difference)
            clauses.append(words if again else f"{part.feature.phrase} {words}")
        out.append(f"{listed(clauses, AND)} {end}")
    last = "sowie" if len(groups) < len(parts) else AND
    return out[0] if len(out) == 1 else f"{', '.join(out[:-1])} {last} {out[-1]}"


# -- what would have had to be different ------------------------------------------------------


def _classed(facts: Facts, label: str, other: str) -> str:
    """ "die Patientin als gutartig statt als bösartig eingestuft"."""
    before = "als " if "als {class}" in facts.verb else ""
    return fill(facts.verb, f"{label} statt {before}{other}", facts.row)


def _then(facts: Facts) -> str:
    return _classed(facts, facts.after, facts.before)


def _follow_on(facts: Facts, *, then: bool) -> str:
    """ " (B wäre dann 16)"; in the past tense, " (und damit B 9 statt 16)"."""
    clauses, last = [], ""
    for part in facts.follow_on:
        new, old = value_words(part, measured, "etwa ")
        conjunction = "und nicht" if isinstance(part.difference, NewCategory) else "statt"
        verb = "wären dann" if part.feature.plural else "wäre dann"
        words = [*([] if verb == last else [verb]), new] if then else [old, conjunction, new]
        clauses.append(" ".join([part.feature.phrase, *words]))
        last = verb
    return f" ({'' if then else 'und damit '}{listed(clauses, AND)})" if clauses else ""


def had(facts: Facts) -> str:
    """ "Wäre A um 3 niedriger gewesen und wären B um 1 höher gewesen, hätte das Modell …"."""
    groups = grouped(facts.changes, lambda part: would(part.feature))
    clauses = [f"{verb} {_clauses(same, lambda f: f.been, degree)}" for verb, same in groups]
    return f"{upper(f' {AND} '.join(clauses))}{_follow_on(facts, then=True)}, hätte das Modell {_then(facts)}"


def _if(facts: Facts) -> str:
    """ "A um 3 niedriger gewesen wäre und B um 1 höher gewesen wären"."""
    return _clauses(facts.changes, lambda f: f"{f.been} {would(f)}", degree) + _follow_on(facts, then=True)


def if_(facts: Facts) -> str:
    return f"Wenn {_if(facts)}, hätte das Modell {_then(facts)}"


def only_if(facts: Facts) -> str:
    return f"Das Modell hätte {_then(facts)}, wenn {_if(facts)}"


# -- what was the case instead, and what is typical -------------------------------------------


def _did(facts: Facts) -> str:
    return _classed(facts, facts.before, facts.after)


def _because(facts: Facts) -> str:
    return _clauses(facts.changes, was, opposite) + _follow_on(facts, then=False)


def because(facts: Facts) -> str:
    return f"Das Modell hat {_did(facts)}, weil {_because(facts)}"


def because_first(facts: Facts) -> str:
    return f"Weil {_because(facts)}, hat das Modell {_did(facts)}"


def _typical(facts: Facts) -> str:
    """ "A doppelt so hoch war, wie es für Proben der Klasse „gutartig“ typisch ist"."""
    group = f"für {facts.rows} der Klasse {quoted(facts.after)}"
    numbers: dict[str, list[ChangedFeature]] = {}
    for part in facts.changes:
        if not isinstance(part.difference, NewCategory):
            equal = isinstance(part.difference, Ratio) and part.difference.ratio not in ("slightly", "5/4")
            numbers.setdefault(f", {'wie' if equal else 'als'} es {group} typisch ist", []).append(part)
    clauses = [_clauses(same, was, degree) + tail for tail, same in numbers.items()]
    others = [part for part in facts.changes if isinstance(part.difference, NewCategory)]
    all_of_it = f", {AND} ".join([*clauses, *([_clauses(others, was, opposite)] if others else [])])
    return all_of_it + _follow_on(facts, then=False)


def typical(facts: Facts) -> str:
    return f"Das Modell hat {_did(facts)}, weil {_typical(facts)}"


def typical_first(facts: Facts) -> str:
    return f"Weil {_typical(facts)}, hat das Modell {_did(facts)}"


TEMPLATES = {
    "had": (had, if_, only_if),
    "because": (because, because_first),
    "typical": (typical, typical_first),
}
