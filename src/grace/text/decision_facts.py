"""The content of texts about how a model decides: what features do alone, which sets of them suffice, and what follows
from a few. The words are in `grace.text.languages`."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from grace.schema.features import Feature

Interval = tuple[Decimal | None, Decimal | None]
"""The ends of an interval; None for an end of the range."""


@dataclass(frozen=True)
class Values:
    """Values of a feature: intervals of a number, or the labels of categories."""

    feature: Feature
    intervals: tuple[Interval, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """What was predicted, and under which conditions it could have been otherwise. `within` is a domain, or "own";
    `towards` are the words for what was asked for, empty for any other class; `confidence` is the probability that was
    asked for, and `already` whether the prediction is what was asked for."""

    row: str
    verb: str
    before: str
    within: str
    towards: str = ""
    is_number: bool = False
    confidence: float = 0.0
    already: bool = False


@dataclass(frozen=True)
class AloneFacts:
    """What features can do alone: `total` may change; of those that flip the prediction, some with the values that do
    so, and `more` others; features for which that is proven impossible, for which no value was found, and open ones.
    `sampled` if values between those that were tried are not known."""

    prediction: Prediction
    total: int
    flips: tuple[Values, ...]
    more: int
    cannot: tuple[Feature, ...]
    none_found: tuple[Feature, ...]
    undecided: tuple[Feature, ...]
    sampled: bool = False


@dataclass(frozen=True)
class SetFacts:
    """How many minimal sets of features there are, by size from 1 on; up to which size there are proven to be no
    others; and the features that are part of all of them. `limited` if some features may not change."""

    prediction: Prediction
    counts: tuple[int, ...]
    complete_to: int
    in_all: tuple[Feature, ...]
    limited: bool = False


@dataclass(frozen=True)
class SufficientFacts:
    """Features whose values entail the prediction, each with its value in words, all of them or none if they are too
    many to be said; `count` of `total`. `minimal` if none can be left out, `smallest` if no fewer features suffice."""

    prediction: Prediction
    features: tuple[tuple[Feature, str], ...]
    count: int
    total: int
    minimal: bool
    smallest: bool
    undecided: int


@dataclass(frozen=True)
class PairFacts:
    """Two features, each with a value in words, and how many points more (or less) they bring together."""

    first: tuple[Feature, str]
    second: tuple[Feature, str]
    points: int


@dataclass(frozen=True)
class ForecastFacts:
    """How well adding up points forecasts the model: right about so many of 100 other changes. `two_count` is what two
    changes count, in per cent of the sum of their points. `right` is None if it does not forecast well."""

    right: int | None
    two_count: int
    pairs: tuple[PairFacts, ...] = ()
