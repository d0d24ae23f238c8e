"""English texts about how a model decides."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from grace.schema.features import Feature, Numeric
from grace.schema.formatting import decimal
from grace.schema.words import fill
from grace.text.decision_facts import AloneFacts, ForecastFacts, Prediction, SetFacts, SufficientFacts, Values
from grace.text.languages import if_few, listed, upper
from grace.text.languages.en.remarks import RANGES
from grace.text.languages.en.words import AND, COUNT, measured, number

NUMBERS = ("no", "one", "two", *COUNT)
SETS = (
    "feature alone",
    *(f"{kind} together" for kind in ("pair of features", "set of three", "set of four", "set of five")),
)
MANY = (
    "features alone",
    *(f"{kind} together" for kind in ("pairs of features", "sets of three", "sets of four", "sets of five")),
)


def count(n: int) -> str:
    return NUMBERS[n] if n < len(NUMBERS) else number(Decimal(n))


def within(prediction: Prediction) -> str:
    return f"within {RANGES.get(prediction.within, 'the allowed ranges')}"


def done(prediction: Prediction) -> str:
    """ "changed that", "led to a window", "led to a prediction of at least 200,000"; with the probability asked for."""
    share = number(Decimal(100) * decimal(prediction.confidence))
    sure = f" with a probability of at least {share} %" if prediction.confidence > 0 else ""
    if not prediction.towards:
        return f"changed that{sure}"
    return f"led to {'a prediction of ' if prediction.is_number else ''}{prediction.towards}{sure}"


def predicted(prediction: Prediction) -> str:
    return f"The model {fill(prediction.verb, prediction.before, prediction.row)}."


def already(prediction: Prediction) -> str:
    return f"{predicted(prediction)} That is what was asked for already."


def values(part: Values) -> str:
    """ "at most 3", "at least 8 or between 2 and 4", "own or rent"."""
    if part.labels:
        return listed(part.labels, "or")
    feature = part.feature
    assert isinstance(feature, Numeric)
    out = []
    for low, high in part.intervals:
        if low is None or high is None:
            bound = low if high is None else high
            out.append(
                "any other value"
                if bound is None
                else f"at {'least' if high is None else 'most'} {measured(feature, bound)}"
            )
        else:
            out.append(
                measured(feature, low) if low == high else f"between {number(low)} {AND} {measured(feature, high)}"
            )
    return listed(out, "or")


def names(features: Sequence[Feature], *, others: bool) -> str:
    """The features, or how many they are; `others`: that is all but those named before."""
    few = if_few([f.noun for f in features])
    if few:
        return listed(few, AND)
    return f"the other {count(len(features))}" if others else f"{count(len(features))} features"


def is_many(features: Sequence[Feature]) -> bool:
    return len(features) > 1 or features[0].plural


def alone(facts: AloneFacts) -> str:
    if facts.prediction.already:
        return already(facts.prediction)
    flips, total = len(facts.flips) + facts.more, facts.total
    out = [predicted(facts.prediction)]
    rest = [group for group in (facts.cannot, facts.none_found, facts.undecided) if group]
    if not flips and len(rest) == 1 and facts.cannot:
        none = (
            f"none of the {count(total)} features that may change" if total > 1 else "the one feature that may change"
        )
        able = f"could {'' if total > 1 else 'not '}have {done(facts.prediction)} alone, whatever its value (proven)"
        return " ".join([*out, f"{upper(within(facts.prediction))}, {none} {able}."])
    if flips:
        parts = [f"{part.feature.noun} ({values(part)})" for part in facts.flips]
        parts += [f"{count(facts.more)} more"] if facts.more else []
        which = f"{count(flips)} of the {count(total)} features that may change" if total > 1 else "its one feature"
        sampled = ", as far as values were tried" if facts.sampled else ""
        able = f"could have {done(facts.prediction)} alone{sampled}: {listed(parts, AND)}"
        out.append(f"{upper(within(facts.prediction))}, {which} {able}.")
    others = len(rest) == 1 and bool(flips)
    if facts.cannot:
        their = "their values" if is_many(facts.cannot) else "its value"
        out.append(f"{upper(names(facts.cannot, others=others))} could not, whatever {their} (proven).")
    if facts.none_found:
        out.append(
            f"No value that was tried of {names(facts.none_found, others=others)} did{'' if flips else ' so alone'}."
        )
    if facts.undecided:
        out.append(f"Whether {names(facts.undecided, others=others)} could is open.")
    return " ".join(out)


def sets(facts: SetFacts) -> str:
    if facts.prediction.already:
        return already(facts.prediction)
    out, able = [predicted(facts.prediction)], done(facts.prediction)
    found = [(n, size) for size, n in enumerate(facts.counts) if n]
    up_to = "single feature" if facts.complete_to == 1 else f"set of at most {count(facts.complete_to)} features"
    may = " that may change" if facts.limited else ""
    up_to += may
    if not found:
        none = f"no {up_to} could have {able} (proven)"
        none = none if facts.complete_to else f"no set of features was found that could have {able}"
        return f"{out[0]} {upper(within(facts.prediction))}, {none}."
    least = "at least " if facts.complete_to < len(facts.counts) else ""
    parts = [f"{least}{count(n)} {SETS[size] if n == 1 else MANY[size]}" for n, size in found]
    out.append(f"{upper(within(facts.prediction))}, {listed(parts, AND)} could have {able}.")
    if facts.complete_to == 1:
        out.append(f"No other feature{may} could alone (proven).")
    elif facts.complete_to:
        could = ", if it could," if may else " that could"
        out.append(f"Any other {up_to}{could} contains one of these (proven).")
    if facts.in_all:
        many = is_many(facts.in_all)
        out.append(
            f"{upper(listed([f.noun for f in facts.in_all], AND))} {'are' if many else 'is'} part of each of them."
        )
    return " ".join(out)


def sufficient(facts: SufficientFacts) -> str:
    p = facts.prediction
    if p.already and p.is_number:
        return already(p)
    did = f"The model {fill(p.verb, p.before, p.row)}{f' rather than {p.towards}' if p.is_number else ''}"
    rest = f"whatever the other features that may change are {within(p)} (proven)"
    if facts.count == 0:
        return f"{did}, {rest.replace('the other features', 'the features')}."
    if facts.features:
        because = listed([f"{feature.noun} ({value})" for feature, value in facts.features], AND)
        text = f"{did} because of {because}, {rest}."
    else:
        text = f"{did} because of {count(facts.count)} of the {count(facts.total)} features that may change, {rest}."
    if facts.smallest:
        return f"{text} No fewer features entail that."
    if facts.minimal:
        return f"{text} None of them can be left out."
    return f"{text} Whether {count(facts.undecided)} of them could be left out is open."


def forecast(facts: ForecastFacts) -> str:
    if facts.right is None:
        return "No points are shown: adding up what changes do alone does not forecast the model well for this row."
    counted = "" if facts.two_count == 100 else f"; two changes count {facts.two_count} % of the sum of their points"
    out = [f"Adding up the points forecasts {facts.right} of 100 other changes of this row{counted}."]
    for pair in facts.pairs:
        (a, of_a), (b, of_b) = pair.first, pair.second
        more = f"{abs(pair.points)} points {'more' if pair.points > 0 else 'less'}"
        out.append(f"{upper(a.noun)} ({of_a}) and {b.noun} ({of_b}) bring {more} together than each alone.")
    return " ".join(out)
