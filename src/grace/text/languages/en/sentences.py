"""English sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise

from grace.schema.features import Feature, Numeric
from grace.schema.words import fill
from grace.text.languages import ChangedFeature, Facts, category, grouped, listed, upper
from grace.text.languages.en.words import AND, TIMES, VALUE_UNITS, WORDS, amount, measured, number, positive
from grace.text.precision import LITTLE, Delta, Difference, Direction, NewCategory, Ratio, Replacement, Within

# -- what would have had to be different ------------------------------------------------------


def degree(feature: Feature, said: Difference) -> str:
    """ "7 points lower", "half as high", "lower", "0.35 instead of about 0.2778", or the new category and the old."""
    if isinstance(said, NewCategory):
        return f"{category(feature, said.new)} instead of {category(feature, said.old)}"
    assert isinstance(feature, Numeric)
    if isinstance(said, Replacement):
        return _instead(feature, (said.new, said.about_new), (said.old, said.about_old))
    if isinstance(said, Within):
        return f"{_rate(feature)}between {number(said.low)} {AND} {measured(feature, said.high)}{_old(feature)}"
    more = feature.more if said.up else feature.less
    about = "about " if isinstance(said, Delta | Ratio) and said.about else ""
    if isinstance(said, Delta) and feature.more == "more":  # "9 more bare nuclei"
        return f"{about}{number(said.size)} {more}{amount(feature, said.size).removeprefix(number(said.size))}"
    if isinstance(said, Delta):
        return f"{about}{amount(feature, said.size)} {more}"
    things = f" {feature.unit}" if feature.more == "more" and feature.unit else ""
    if isinstance(said, Direction):
        return f"{more}{things}"
    if said.ratio == "slightly":
        return f"slightly {more}{things}"
    if said.ratio == "5/4":
        return f"{about}a quarter {more}{things}"
    return f"{about}{TIMES[said.ratio]} as {positive(feature.more)}{things}"


def _instead(feature: Numeric, first: tuple[Decimal, bool], second: tuple[Decimal, bool]) -> str:
    """ "53 years old instead of 33", "at a rate of 0.3 % instead of 0.1 %"; each with whether it is rounded."""
    (a, a_about), (b, b_about) = first, second
    value = f"{_rate(feature)}{'about ' if a_about else ''}{measured(feature, a)}{_old(feature)}"
    return f"{value} instead of {'about ' if b_about else ''}{number(b)}{VALUE_UNITS.get(feature.unit, '')}"


def _rate(feature: Numeric) -> str:
    return "at a rate of " if feature.more == "more often" else ""


def _old(feature: Numeric) -> str:
    return " old" if feature.more == "older" else ""


def _verb(part: ChangedFeature) -> str:
    """What clauses have to share to be said with one verb; "there" has its own."""
    return f"{part.feature.been} {part.feature.phrase == WORDS.there}"


def _clauses(parts: Sequence[ChangedFeature], first: Callable[[Feature], str], between: str) -> str:
    """Groups of clauses that share a verb, which the first of each group says: "A been 3 lower and B 1 higher"."""
    groups = grouped(parts, _verb)
    out = []
    for _, same in groups:
        said = [f"{first(same[0].feature)} {degree(same[0].feature, same[0].said)}"]
        for before, part in pairwise(same):
            again = before.feature.phrase == part.feature.phrase
            said.append(f"{'' if again else part.feature.phrase + ' '}{degree(part.feature, part.said)}")
        out.append(listed(said, AND))
    return f"{',' if len(parts) > len(groups) else ''} {AND} {between}".join(out)


def _then(facts: Facts) -> str:
    said = fill(facts.verb, facts.after, facts.row)
    return f"the model would have {said} rather than {facts.before}"


def _values(part: ChangedFeature) -> tuple[str, str]:
    """The new and the old value of a feature that moves along."""
    feature, said = part.feature, part.said
    if isinstance(said, NewCategory):
        return category(feature, said.new), category(feature, said.old)
    assert isinstance(feature, Numeric)
    assert isinstance(said, Replacement)
    return measured(feature, said.new), f"{'about ' if said.about_old else ''}{measured(feature, said.old)}"


def _along(facts: Facts, *, then: bool) -> str:
    """ " (B then being 16)"; of what was the case, " (and with it B 9 instead of 16)"."""
    said = []
    for i, part in enumerate(facts.along):
        new, old = _values(part)
        being = " then being" if i == 0 else ""
        said.append(f"{part.feature.phrase}{being} {new}" if then else f"{part.feature.phrase} {old} instead of {new}")
    return f" ({'' if then else 'and with it '}{listed(said, AND)})" if said else ""


def had(facts: Facts) -> str:
    said = _clauses(facts.parts, lambda f: f"{f.phrase} {f.been}", "had ")
    return f"Had {said}{_along(facts, then=True)}, {_then(facts)}"


def if_(facts: Facts) -> str:
    return f"If {_if(facts)}, {_then(facts)}"


def would(facts: Facts) -> str:
    return f"{upper(_then(facts))} if {_if(facts)}"


def _if(facts: Facts) -> str:
    """ "A had been 3 lower and B 1 higher"."""
    return _clauses(facts.parts, lambda f: f"{f.phrase} had {f.been}", "") + _along(facts, then=True)


# -- what was the case instead ----------------------------------------------------------------


def was(feature: Feature) -> str:
    """The past tense of "been …"; of another participle, which is not known, the past perfect."""
    if not re.match(r"been\b", feature.been):
        return f"had {feature.been}"
    return ("were" if feature.plural else "was") + feature.been[4:]


def _was(part: ChangedFeature) -> tuple[str, str]:
    """Verb and complement: "was", "10 points instead of 3"; of a direction, what was not so: "was", "not lower"."""
    feature, said = part.feature, part.said
    if isinstance(said, Direction | Within):
        verb, _, rest = was(feature).partition(" ")
        return verb, f"not {rest + ' ' if rest else ''}{degree(feature, said)}"
    if isinstance(said, NewCategory):
        return was(feature), f"{category(feature, said.old)} instead of {category(feature, said.new)}"
    assert isinstance(feature, Numeric)
    assert isinstance(said, Replacement)
    return was(feature), _instead(feature, (said.old, said.about_old), (said.new, said.about_new))


def _because(facts: Facts) -> str:
    groups = grouped(facts.parts, lambda part: f"{_was(part)[0]} {part.feature.phrase == WORDS.there}")
    out = []
    for _, same in groups:
        said, subject = [], ""
        for part in same:
            verb, rest = _was(part)
            words = [part.feature.phrase, *([] if subject else [verb]), rest]
            said.append(" ".join(words[1:] if part.feature.phrase == subject else words))
            subject = part.feature.phrase
        out.append(listed(said, AND))
    return f"{',' if len(facts.parts) > len(groups) else ''} {AND} ".join(out) + _along(facts, then=False)


def _did(facts: Facts) -> str:
    said = fill(facts.verb, facts.before, facts.row)
    return f"the model {said} rather than {facts.after}"


def because(facts: Facts) -> str:
    return f"{upper(_did(facts))} because {_because(facts)}"


def because_first(facts: Facts) -> str:
    return f"Because {_because(facts)}, {_did(facts)}"


# -- how the row differs from what is typical of the other class ------------------------------


def _typical(facts: Facts) -> str:
    """ "A was twice as high as is typical of patients in the class “benign”"."""
    out: list[str] = []
    last = ""
    for part in facts.parts:
        feature, said = part.feature, part.said
        verb = was(feature)
        if isinstance(said, NewCategory):
            new, old = _values(part)
            out.append(f"{feature.phrase} {verb} {old} instead of {new}")
            last = ""
            continue
        equal = isinstance(said, Ratio) and said.ratio not in ("slightly", "5/4")
        tail = f"{'as' if equal else 'than'} is typical of {facts.rows} in the class “{facts.after}”"
        again = bool(last) and out[-1].endswith(f" {tail}")
        if again:  # "A was 3 higher and B 2 higher than is typical of …"
            out[-1] = out[-1].removesuffix(f" {tail}")
        only = ["only"] if isinstance(said, Ratio) and equal and not said.up and said.ratio != LITTLE else []
        kind = f"{verb} {feature.phrase == WORDS.there}"  # "there 2 more" needs a verb of its own
        words = [feature.phrase, *([] if again and kind == last else [verb]), *only, degree(feature, said), tail]
        out.append(" ".join(words))
        last = kind
    return listed(out, AND) + _along(facts, then=False)


def typical(facts: Facts) -> str:
    return f"{upper(_did(facts))} because {_typical(facts)}"


def typical_first(facts: Facts) -> str:
    return f"Because {_typical(facts)}, {_did(facts)}"


TEMPLATES = {
    "had": (had, if_, would),
    "because": (because, because_first),
    "typical": (typical, typical_first),
}
