"""English."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from grace.degrees import LITTLE, LOT, Becomes, By, Instead, Said, Times, Way
from grace.features import Feature, Numeric, Value
from grace.languages import Facts, Part, Words, category, listed, percent, shown, upper, with_unit
from grace.numerals import decimal, digits

WORDS = Words(
    row="the row",
    rows="rows",
    verb="classified {row} as {class}",
    been="been",
    more="higher",
    less="lower",
    missing="missing",
    tasks={"clustering": "put {row} into {class}", "regression": "predicted {class}"},
    cluster="cluster {class}",
    date={"unit": "days", "unit_one": "day", "more": "later", "less": "earlier"},
)
NAME = "English"
SCREEN = {
    "feature": "feature",
    "is": "is",
    "would": "would be",
    "or": "Or: ",
    "note": "Note: ",
    "along": "would then be",
}
PERCENT = {"": "", ">": "more than ", "<": "less than ", "just >": "just over ", "just <": "just under "}
AND = "and"
COUNT = ("three", "four", "five", "six", "seven", "eight", "nine", "ten")
FRACTIONS = (
    "1/10=a tenth; 1/8=an eighth; 1/6=a sixth; 1/5=a fifth; 1/4=a quarter; 1/3=a third; 1/2=half; "
    "2/3=two thirds; 3/4=three quarters; 3/2=one and a half times; 2=twice; 5/2=two and a half times"
)
TIMES = dict(pair.split("=") for pair in FRACTIONS.split("; "))
TIMES |= {str(n): f"{word} times" for n, word in enumerate(COUNT, 3)}
TIMES |= {LITTLE: "less than a tenth", LOT: "more than ten times"}
IRREGULAR = (
    "more=many fewer=few larger=large bigger=big later=late wider=wide heavier=heavy earlier=early hotter=hot "
    "thinner=thin closer=close further=far"
)
REGULAR = (
    "high low long young strong near small great short old thick new warm cold cool fast slow weak deep bright dark "
    "tall light steep rich poor sweet cheap hard soft full"
)
POSITIVE = {
    "more often": "often",
    "less often": "rarely",
    **dict(pair.split("=") for pair in IRREGULAR.split()),
    **{f"{word}er": word for word in REGULAR.split()},
}
"""Each comparative with its positive; "more …" is regular."""
UNCLEAR = re.compile(r"[,;\"“”<>]|\.\s|\b(and|been|had|because)\b|^$|^\s|\s$|\s\s")


# -- words and numbers ------------------------------------------------------------------------


def named(name: str) -> str:
    """The name as words; in quotation marks where it would be taken for part of the sentence."""
    words = name.replace("_", " ")
    return f"“{name}”" if UNCLEAR.search(words) else words


def label(value: Value) -> str:
    return str(value)


def number(size: Decimal) -> str:
    return digits(size, ",", ".")


def figure(low: Decimal | None, high: Decimal | None, *, about: bool) -> str:
    if low is None or high is None:
        return f"at most {number(high)}" if high is not None else f"at least {number(low or Decimal(0))}"
    return f"{'about ' if about else ''}{number(low)}" if low == high else f"between {number(low)} and {number(high)}"


def amount(feature: Numeric, size: Decimal) -> str:
    return with_unit(feature, size, number(size))


def positive(comparative: str) -> str | None:
    """ "high" from "higher"."""
    more = comparative.removeprefix("more ")
    return POSITIVE.get(comparative, more if more != comparative else None)


def has_ratios(feature: Numeric) -> bool:
    return positive(feature.more) is not None


# -- what would have had to be different ------------------------------------------------------


def degree(feature: Feature, said: Said) -> str:
    """ "7 points lower", "half as high", "lower", "0.35 instead of 0.2777779", or the new category."""
    if isinstance(said, Becomes):
        return category(feature, said.new)
    assert isinstance(feature, Numeric)
    if isinstance(said, Instead):
        return f"{amount(feature, said.new)} instead of {number(said.old)}"
    more = feature.more if said.up else feature.less
    about = "about " if isinstance(said, By | Times) and said.about else ""
    if isinstance(said, By) and feature.more == "more":  # "9 more bare nuclei"
        return f"{about}{number(said.size)} {more}{amount(feature, said.size).removeprefix(number(said.size))}"
    if isinstance(said, By):
        return f"{about}{amount(feature, said.size)} {more}"
    things = f" {feature.unit}" if feature.more == "more" and feature.unit else ""
    if isinstance(said, Way):
        return f"{more}{things}"
    if said.ratio == "slightly":
        return f"slightly {more}{things}"
    if said.ratio == "5/4":
        return f"{about}a quarter {more}{things}"
    return f"{about}{TIMES[said.ratio]} as {positive(feature.more)}{things}"


def clauses(parts: Sequence[Part]) -> list[str]:
    """One clause per change; neither a verb nor "there" is said twice in a row."""
    out = []
    subject, verb = "", ("", "")
    for part in parts:
        feature = part.feature
        said = (feature.been, type(feature).__name__)
        words = [feature.phrase, *([] if said == verb else [feature.been]), degree(feature, part.said)]
        out.append(" ".join(words[1:] if (feature.phrase, said) == (subject, verb) else words))
        subject, verb = feature.phrase, said
    return out


def _then(facts: Facts) -> str:
    said = facts.verb.format(**{"row": facts.row, "class": facts.after})
    return f"the model would have {said} rather than {facts.before}"


def values(part: Part) -> tuple[str, str]:
    """The new and the old value of a feature that moves along."""
    feature, said = part.feature, part.said
    if isinstance(said, Becomes):
        return category(feature, said.new), category(feature, said.old)
    assert isinstance(feature, Numeric)
    assert isinstance(said, Instead)
    return amount(feature, said.new), amount(feature, said.old)


def _along(facts: Facts, *, then: bool) -> str:
    """ " (B then being 16)"; of what was the case, " (and with it B 9 rather than 16)"."""
    said = []
    for i, part in enumerate(facts.along):
        new, old = values(part)
        being = " then being" if i == 0 else ""
        said.append(f"{part.feature.phrase}{being} {new}" if then else f"{part.feature.phrase} {old} rather than {new}")
    return f" ({'' if then else 'and with it '}{listed(said, AND)})" if said else ""


def had(facts: Facts) -> str:
    return f"Had {listed(clauses(facts.parts), AND)}{_along(facts, then=True)}, {_then(facts)}"


def if_(facts: Facts) -> str:
    return f"If {_if(facts)}, {_then(facts)}"


def would(facts: Facts) -> str:
    return f"{upper(_then(facts))} if {_if(facts)}"


def _if(facts: Facts) -> str:
    """ "A had been 3 lower and B 1 higher"."""
    first, *rest = facts.parts
    said = f"{first.feature.phrase} had {first.feature.been} {degree(first.feature, first.said)}"
    return listed([said, *clauses([first, *rest])[1:]], AND) + _along(facts, then=True)


# -- what was too much or too little ----------------------------------------------------------


def was(feature: Feature) -> str | None:
    """The past tense of "been …"; of another participle it is not known."""
    if not re.match(r"been\b", feature.been):
        return None
    return ("were" if feature.plural else "was") + feature.been[4:]


def too(part: Part) -> tuple[str, str]:
    """Verb and complement: "was", "7 points too high". Where a word is unknown, what was not the case."""
    feature, said = part.feature, part.said
    verb = was(feature)
    otherwise = (f"had not {feature.been}", degree(feature, said))
    if verb is None:
        return otherwise
    if isinstance(said, Becomes):
        return verb, f"{category(feature, said.old)} rather than {category(feature, said.new)}"
    assert isinstance(feature, Numeric)
    if isinstance(said, Instead):
        return verb, f"{amount(feature, said.old)} instead of {number(said.new)}"
    word = positive(feature.less if said.up else feature.more)
    if word is None or isinstance(said, Times):
        return otherwise
    if isinstance(said, By):
        return verb, f"{'about ' if said.about else ''}{amount(feature, said.size)} too {word}"
    return verb, f"too {word} {feature.unit}" if feature.more == "more" and feature.unit else f"too {word}"


def _because(facts: Facts) -> str:
    out = []
    subject, last = "", ""
    for part in facts.parts:
        verb, rest = too(part)
        words = [part.feature.phrase, *([] if verb == last else [verb]), rest]
        out.append(" ".join(words[1:] if (part.feature.phrase, verb) == (subject, last) else words))
        subject, last = part.feature.phrase, "" if isinstance(part.said, Becomes) else verb
    return listed(out, AND) + _along(facts, then=False)


def _did(facts: Facts) -> str:
    said = facts.verb.format(**{"row": facts.row, "class": facts.before})
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
        verb = was(feature) or f"had {feature.been}"
        if isinstance(said, Becomes):
            new, old = values(part)
            out.append(f"{feature.phrase} {verb} {old} rather than {new}")
            last = ""
            continue
        equal = isinstance(said, Times) and said.ratio not in ("slightly", "5/4")
        tail = f"{'as' if equal else 'than'} is typical of {facts.rows} in the class “{facts.after}”"
        again = bool(last) and out[-1].endswith(f" {tail}")
        if again:  # "A was 3 higher and B 2 higher than is typical of …"
            out[-1] = out[-1].removesuffix(f" {tail}")
        only = ["only"] if isinstance(said, Times) and equal and not said.up and said.ratio != LITTLE else []
        words = [feature.phrase, *([] if again and verb == last else [verb]), *only, degree(feature, said), tail]
        out.append(" ".join(words))
        last = verb
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


# -- what goes with the sentence --------------------------------------------------------------


def sure(probability: float, *, then: bool) -> str:
    sign, whole = percent(probability)
    said = f"{PERCENT[sign]}{whole} %"
    return f" (the model would then have been {said} sure)" if then else f" (the model was {said} sure)"


def cutoff(share: str, named: str, *, reached: bool, then: bool) -> str:
    if not named:
        return " (by the cut-offs that are set for each class)"
    side = "at or above" if reached else "below"
    return f" (the probability of {named} {'would then have been' if then else 'was'} {side} the cut-off of {share} %)"


def minimal(fewer: int, form: str) -> str:
    count = {1: "single change", 2: "two changes", **{n: f"{word} changes" for n, word in enumerate(COUNT, 3)}}
    done = "could have done it" if form == "had" else "would have been enough to change that"
    return f"Within these ranges, no {count.get(fewer, f'{fewer} changes')} {done}."


def failed(facts: Facts, reason: str) -> str:
    return f"The model {facts.verb.format(**{'row': facts.row, 'class': facts.before})}; {reason}"


def reason(miss: Mapping[str, Any]) -> str:
    if miss["why"] == "already":
        return "that is what was asked for already"
    if miss["why"] == "calls":
        return f"the limit of {number(decimal(miss['most']))} questions to the model was reached; raise max_calls"
    most = "one change" if miss["most"] == 1 else f"{miss['most']} changes"
    exists = "exists (proven)" if miss["proven"] else f"was found by the {miss['method']} method"
    hint = "; ".join(_way(**way) for way in miss["ways"]) or "nor with any one of the limits lifted"
    return f"no contrast {exists} with at most {most} within the {miss['domain']} ranges; {hint}"


def _way(limit: str, value: Any = None) -> str:
    if limit == "free":
        return f"possible if {listed(value, AND)} may change freely"
    if limit == "against":
        return f"possible against {value!r}"
    if limit == "confidence":
        return "possible without the demand for confidence"
    if limit == "follow":
        return "possible if nothing follows"
    if limit == "rules":
        return f"possible without the rule{'s' if len(value) > 1 else ''} {listed([f'“{v}”' for v in value], AND)}"
    return f"possible with {limit}={value:.2f}" if limit == "gamma" else f"possible with {limit}={value!r}"


def note(remark: Mapping[str, Any]) -> str:
    if remark["what"] == "known missing":
        return f"{remark['feature']} was missing, which the model knows as a category of its own"
    if remark["what"] == "filled":
        return f"{remark['feature']} was missing and filled in with {shown(number, remark['value'])}"
    if remark["what"] == "rule":
        return (
            f"the row itself breaks the rule “{remark['rule']}”, which only an answer that changes its features has to "
            "keep; correct the row, or leave the rule out"
        )
    said = f"{remark['feature']} is {shown(number, remark['value'])}"
    if remark["what"] == "fraction":
        return f"{said}, not a whole number"
    low, high = (shown(number, remark[end]) for end in ("low", "high"))
    return f"{said}, outside the allowed range {low} to {high}"
