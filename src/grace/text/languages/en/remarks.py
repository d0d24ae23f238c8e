"""Clauses and sentences that accompany an English sentence: probabilities, proofs, reasons and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from grace.schema.features import Feature
from grace.schema.formatting import decimal
from grace.schema.words import fill
from grace.text.languages import Facts, Limits, RegionValues, if_few, listed, percent, shown
from grace.text.languages.en.words import AND, COUNT, PERCENT, number

RANGES = {"central": "the usual ranges", "minmax": "the observed ranges"}


def sure(probability: float, *, then: bool) -> str:
    sign, whole = percent(probability)
    share = f"{PERCENT[sign]}{whole} %"
    return f" (the model would then have been {share} sure)" if then else f" (the model was {share} sure)"


def cutoff(share: str, named: str, *, reached: bool, then: bool) -> str:
    if not named:
        return " (by the cut-offs that are set for each class)"
    side = "at or above" if reached else "below"
    return f" (the probability of {named} {'would then have been' if then else 'was'} {side} the cut-off of {share} %)"


def minimum(limits: Limits, form: str) -> str:
    count = {1: "single change", 2: "two changes", **{n: f"{word} changes" for n, word in enumerate(COUNT, 3)}}
    done = "could have done it" if form == "had" else "would have been enough to change that"
    if limits.towards:
        done = f"could have led to {_wanted(limits)}"
    within = f"Within these ranges{f' {AND} categories' if limits.categories else ''}"
    conditions = ", ".join([within, *_conditions(limits)])
    return f"{conditions}, no {count.get(limits.count, f'{limits.count} changes')} {done}{_at_least(limits)}."


def one_change(limits: Limits, feature: Feature, size: str) -> str:
    fewest = "proven: one change is the fewest there can be"
    if not size:
        return fewest
    within = ", ".join(["within these ranges", *_conditions(limits)])
    done = f"could have led to {_wanted(limits)}" if limits.towards else "could have done it"
    return f"{fewest}, and {within}, no change of {feature.noun} alone by less than {size} {done}{_at_least(limits)}"


def _wanted(limits: Limits) -> str:
    """ "a window", "a prediction of at least 200,000"."""
    return f"a prediction of {limits.towards}" if limits.is_number else limits.towards


def _at_least(limits: Limits) -> str:
    share = number(Decimal(100) * decimal(limits.confidence))
    return f" with a probability of at least {share} %" if limits.confidence > 0 else ""


def _conditions(limits: Limits) -> list[str]:
    """ "with age as it is", "with income only going up"; more than a few features are counted."""
    out = []
    limited = (("fixed", limits.fixed), ("up", limits.rising), ("down", limits.falling))
    for how, features in ((how, features) for how, features in limited if features):
        names = if_few([f.noun for f in features])
        many = len(features) > 1 or features[0].plural
        stays = ("as they are" if many else "as it is") if how == "fixed" else f"only going {how}"
        out.append(f"with {listed(names, AND) if names else f'{len(features)} of the features'} {stays}")
    out += ["without two features that say much the same"] if limits.distinct else []
    ties = "ties between classes" if limits.between_classes else "borderline cases"
    return [*out, *([f"{ties} aside"] if limits.except_ties else [])]


def room(facts: Facts, values: Sequence[RegionValues], points: int) -> str:
    """ "Proven: with age anywhere from 34 to 41 and all else as it is, the model would have classified …"."""
    clauses = []
    for part in values:
        said = f"anywhere from {part.words[0]} to {part.words[-1]}" if part.is_interval else listed(part.words, "or")
        clauses.append(f"{part.feature.noun} {said if part.is_interval else f'being {said}'}")
    checked = f"Checked at {number(Decimal(points))} points, not proven" if points else "Proven"
    within = listed([*clauses, "all else as it is"], AND)
    return f"{checked}: with {within}, the model would have {fill(facts.verb, facts.after, facts.row)}."


def failed(facts: Facts, reason: str) -> str:
    return f"The model {fill(facts.verb, facts.before, facts.row)}; {reason}"


def reason(miss: Mapping[str, Any], limits: Limits) -> str:
    if miss["why"] == "already":
        return "that is what was asked for already"
    if miss["why"] == "calls":
        most = number(decimal(miss["most"]))
        return f"the limit of {most} questions to the model was reached; more would have to be allowed"
    most = "one change" if limits.count == 1 else f"{limits.count} changes"
    exists = "exists (proven)" if miss["proven"] else "was found"
    towards = f" in favour of {limits.towards}" if limits.towards else ""
    where = "the allowed ranges" if miss.get("own_ranges") else RANGES.get(miss["domain"], RANGES["central"])
    within = f"within {where}{f' {AND} categories' if limits.categories else ''}"
    missing = f"no contrast{towards}{_at_least(limits)} {exists} with at most {most} {within}"
    return f"{', '.join([missing, *_conditions(limits)])}; {_hint(miss['ways'], limits)}{_protected(limits)}"


def _protected(limits: Limits) -> str:
    """ "; age and sex are protected and stay as they are"; more than a few features are counted."""
    if not limits.protected:
        return ""
    names = if_few([f.noun for f in limits.protected])
    many = len(limits.protected) > 1 or limits.protected[0].plural
    words = listed(names, AND) if names else f"{len(limits.protected)} of the features"
    return f"; {words} {'are protected and stay as they are' if many else 'is protected and stays as it is'}"


def _hint(remedies: Sequence[Mapping[str, Any]], limits: Limits) -> str:
    """The remedies, each sufficient; features of which any one would suffice are named together."""
    alone = [remedy["value"][0] for remedy in remedies if remedy["limit"] == "free" and len(remedy["value"]) == 1]
    clauses = list(dict.fromkeys(_remedy(alone=alone, **remedy) for remedy in remedies))
    other = "other " if limits.protected else ""
    return f"possible {', or '.join(clauses)}" if clauses else f"nor with any one of the {other}limits lifted"


def _remedy(alone: Sequence[str], limit: str, value: Any = None) -> str:
    if limit == "free" and len(value) == 1:
        return f"if {listed(alone, 'or')} may change freely"
    if limit == "free":
        return f"if {listed(value, AND)} may {'both' if len(value) == 2 else 'all'} change freely"
    if limit == "rules":
        return f"without the rule{'s' if len(value) > 1 else ''} {listed([f'“{v}”' for v in value], AND)}"
    return {
        "against": f"in favour of {value}",
        "confidence": "if a lower probability is enough",
        "follow": "if no other feature moves along",
        "max_features": f"with up to {value} changes",
        "gamma": "if two features that say much the same may both change",
        "domain": "with values from the whole range of the training data",
        "method": "by a more thorough search",
    }[limit]


def note(remark: Mapping[str, Any], feature: Feature | None) -> str:
    if remark["what"] == "tie":
        return "fewer of these changes would do, but only by a tie between classes, or nearly one"
    if feature is None:
        return (
            f"the row itself breaks the rule “{remark['rule']}”, which only an answer that changes its features has to "
            "keep; correct the row, or leave the rule out"
        )
    if remark["what"] == "brittle":
        return f"{feature.noun}: with a slightly larger change the model would decide differently again"
    if remark["what"] == "known missing":
        return f"no value was given for {feature.noun}, which the model knows as a category of its own"
    value = shown(number, remark["value"])
    if remark["what"] == "filled":
        return f"no value was given for {feature.noun}, and {value} was filled in"
    if remark["what"] == "fraction":
        return f"the value given for {feature.noun}, {value}, is not a whole number"
    low, high = (shown(number, remark[end]) for end in ("low", "high"))
    return f"the value given for {feature.noun}, {value}, lies outside the allowed range {low} to {high}"
