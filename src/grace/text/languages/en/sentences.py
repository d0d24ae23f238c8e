"""English sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise

from grace.schema.features import Feature, Numeric
from grace.schema.words import fill
from grace.text.languages import ChangedFeature, Facts, category, grouped, listed, upper, value_words
from grace.text.languages.en.words import AND, TIMES, VALUE_UNITS, WORDS, amount, measured, number, positive
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

# -- what would have had to be different ------------------------------------------------------


def degree(feature: Feature, diff: Difference) -> str:
    """ "7 points lower", "half as high", "lower", "0.35 instead of about 0.2778", or the new and the old category."""
    if isinstance(diff, NewCategory):
        return f"{category(feature, diff.new)} instead of {category(feature, diff.old)}"
    if isinstance(diff, AnyCategory):
        return f"{listed([category(feature, c) for c in diff.new], 'or')} instead of {category(feature, diff.old)}"
    assert isinstance(feature, Numeric)
    if isinstance(diff, AtLeast):
        return f"at least {degree(feature, Delta(diff.size, diff.up))}"
    if isinstance(diff, Replacement):
        return _instead(feature, (diff.new, diff.about_new), (diff.old, diff.about_old))
    if isinstance(diff, Within):
        return f"{_rate(feature)}between {number(diff.low)} {AND} {measured(feature, diff.high)}{_old(feature)}"
    more = feature.more if diff.up else feature.less
    about = "about " if isinstance(diff, Delta | Ratio) and diff.about else ""
    if isinstance(diff, Delta) and feature.more == "more":  # "9 more bare nuclei"
        return f"{about}{number(diff.size)} {more}{amount(feature, diff.size).removeprefix(number(diff.size))}"
    if isinstance(diff, Delta):
        return f"{about}{amount(feature, diff.size)} {more}"
    things = f" {feature.unit}" if feature.more == "more" and feature.unit else ""
    if isinstance(diff, Direction):
        return f"{more}{things}"
    if diff.ratio == "slightly":
        return f"slightly {more}{things}"
    if diff.ratio == "5/4":
        return f"{about}a quarter {more}{things}"
    return f"{about}{TIMES[diff.ratio]} as {positive(feature.more)}{things}"


def _instead(feature: Numeric, first: tuple[Decimal, bool], second: tuple[Decimal, bool]) -> str:
    """ "53 years old instead of 33", "at a rate of 0.3 % instead of 0.1 %"; values come with a flag: rounded."""
    (a, a_about), (b, b_about) = first, second
    value = f"{_rate(feature)}{'about ' if a_about else ''}{measured(feature, a)}{_old(feature)}"
    return f"{value} instead of {'about ' if b_about else ''}{number(b)}{VALUE_UNITS.get(feature.unit, '')}"


def _rate(feature: Numeric) -> str:
    return "at a rate of " if feature.more == "more often" else ""


def _old(feature: Numeric) -> str:
    return " old" if feature.more == "older" else ""


def _verb(part: ChangedFeature) -> str:
    """The key of clauses that share a verb; "there" needs a verb of its own."""
    return f"{part.feature.been} {part.feature.phrase == WORDS.there}"


def _clauses(parts: Sequence[ChangedFeature], first: Callable[[Feature], str], between: str) -> str:
    """Clauses grouped by their verb, which only the first of a group has: "A been 3 lower and B 1 higher"."""
    groups = grouped(parts, _verb)
    out = []
    for _, same in groups:
        clauses = [f"{first(same[0].feature)} {degree(same[0].feature, same[0].difference)}"]
        for before, part in pairwise(same):
            again = before.feature.phrase == part.feature.phrase
            clauses.append(f"{'' if again else part.feature.phrase + ' '}{degree(part.feature, part.difference)}")
        out.append(listed(clauses, AND))
    return f"{',' if len(parts) > len(groups) else ''} {AND} {between}".join(out)


def _then(facts: Facts) -> str:
    verb = fill(facts.verb, facts.after, facts.row)
    return f"the model would have {verb} rather than {facts.before}"


def _follow_on(facts: Facts, *, then: bool) -> str:
    """ " (B then being 16)"; in the past tense, " (and with it B 9 instead of 16)"."""
    clauses = []
    for i, part in enumerate(facts.follow_on):
        new, old = value_words(part, measured, "about ")
        verb = " then being" if i == 0 else ""
        clauses.append(f"{part.feature.phrase}{f'{verb} {new}' if then else f' {old} instead of {new}'}")
    return f" ({'' if then else 'and with it '}{listed(clauses, AND)})" if clauses else ""


def had(facts: Facts) -> str:
    clauses = _clauses(facts.changes, lambda f: f"{f.phrase} {f.been}", "had ")
    return f"Had {clauses}{_follow_on(facts, then=True)}, {_then(facts)}"


def if_(facts: Facts) -> str:
    return f"If {_if(facts)}, {_then(facts)}"


def would(facts: Facts) -> str:
    return f"{upper(_then(facts))} if {_if(facts)}"


def _if(facts: Facts) -> str:
    """ "A had been 3 lower and B 1 higher"."""
    return _clauses(facts.changes, lambda f: f"{f.phrase} had {f.been}", "") + _follow_on(facts, then=True)


# -- what was the case instead ----------------------------------------------------------------


def was(feature: Feature) -> str:
    """The past tense of "been …"; the past perfect of any other participle."""
    if not re.match(r"been\b", feature.been):
        return f"had {feature.been}"
    return ("were" if feature.plural else "was") + feature.been[4:]


def _was(part: ChangedFeature) -> tuple[str, str]:
    """Verb and complement: ("was", "10 points instead of 3"); negated for a direction: ("was", "not lower")."""
    feature, diff = part.feature, part.difference
    if isinstance(diff, Direction | Within):
        verb, _, rest = was(feature).partition(" ")
        return verb, f"not {rest + ' ' if rest else ''}{degree(feature, diff)}"
    if isinstance(diff, NewCategory):
        return was(feature), f"{category(feature, diff.old)} instead of {category(feature, diff.new)}"
    assert isinstance(feature, Numeric)
    assert isinstance(diff, Replacement)
    return was(feature), _instead(feature, (diff.old, diff.about_old), (diff.new, diff.about_new))


def _because(facts: Facts) -> str:
    groups = grouped(facts.changes, lambda part: f"{_was(part)[0]} {part.feature.phrase == WORDS.there}")
    out = []
    for _, same in groups:
        clauses, subject = [], ""
        for part in same:
            verb, rest = _was(part)
            words = [part.feature.phrase, *([] if subject else [verb]), rest]
            clauses.append(" ".join(words[1:] if part.feature.phrase == subject else words))
            subject = part.feature.phrase
        out.append(listed(clauses, AND))
    return f"{',' if len(facts.changes) > len(groups) else ''} {AND} ".join(out) + _follow_on(facts, then=False)


def _did(facts: Facts) -> str:
    verb = fill(facts.verb, facts.before, facts.row)
    return f"the model {verb} rather than {facts.after}"


def because(facts: Facts) -> str:
    return f"{upper(_did(facts))} because {_because(facts)}"


def because_first(facts: Facts) -> str:
    return f"Because {_because(facts)}, {_did(facts)}"


# -- how the row differs from what is typical of the other class ------------------------------


def _typical(facts: Facts) -> str:
    """ "A was twice as high as is typical of patients in the class “benign”"."""
    out: list[str] = []
    last = ""
    for part in facts.changes:
        feature, diff = part.feature, part.difference
        verb = was(feature)
        if isinstance(diff, NewCategory):
            new, old = value_words(part, measured, "about ")
            out.append(f"{feature.phrase} {verb} {old} instead of {new}")
            last = ""
            continue
        equal = isinstance(diff, Ratio) and diff.ratio not in ("slightly", "5/4")
        tail = f"{'as' if equal else 'than'} is typical of {facts.rows} in the class “{facts.after}”"
        again = bool(last) and out[-1].endswith(f" {tail}")
        if again:  # "A was 3 higher and B 2 higher than is typical of …"
            out[-1] = out[-1].removesuffix(f" {tail}")
        only = ["only"] if isinstance(diff, Ratio) and equal and not diff.up and diff.ratio != BELOW_TENTH else []
        kind = f"{verb} {feature.phrase == WORDS.there}"  # "there 2 more" needs a verb of its own
        words = [feature.phrase, *([] if again and kind == last else [verb]), *only, degree(feature, diff), tail]
        out.append(" ".join(words))
        last = kind
    return listed(out, AND) + _follow_on(facts, then=False)


def typical(facts: Facts) -> str:
    return f"{upper(_did(facts))} because {_typical(facts)}"


def typical_first(facts: Facts) -> str:
    return f"Because {_typical(facts)}, {_did(facts)}"


TEMPLATES = {
    "had": (had, if_, would),
    "because": (because, because_first),
    "typical": (typical, typical_first),
}
