"""Texts about how a model decides about a row: its profile, its reasons, and what suffices for its class."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from grace.schema.columns import date_text, is_date
from grace.schema.features import Categorical, Feature, Numeric
from grace.schema.formatting import decimal
from grace.text import languages
from grace.text.decision_facts import (
    AloneFacts,
    ForecastFacts,
    Interval,
    PairFacts,
    Prediction,
    SetFacts,
    SufficientFacts,
    Values,
)
from grace.text.sentence import category, heading, value
from grace.text.vocabulary import class_caption, class_words, feature_in, predicted, range_words, row_words

if TYPE_CHECKING:
    from grace.explain.decisions.profile import FeatureProfile, Profile
    from grace.explain.decisions.reasons import Reasons
    from grace.explain.decisions.row_context import RowContext
    from grace.explain.decisions.sufficient import SufficientReason
    from grace.explain.explanation import Explanation

LEAST_POINTS, MOST_POINTS = 5, 999  # of a pair that is said
PAIRS_SAID = 2
NAMED = 5  # features that are named with their values; of others the number is given


def prediction_of(about: RowContext) -> Prediction:
    code, language = about.words.language, languages.load(about.words.language)
    words = row_words(about.words, code, about.task)
    towards = ""
    if about.wanted is not None:
        before, towards = (
            predicted(float(about.original_class), about.wanted, language),
            range_words(about.wanted, language),
        )
    else:
        before = class_words(about.words, about.original_class, code, about.task)
        if about.asked is not None and (len(about.classes) > 2 or about.asked == about.original_class):
            towards = class_words(about.words, about.asked, code, about.task)
    within = "own" if about.own_ranges else about.domain
    return Prediction(
        words["row"],
        words["verb"],
        before,
        within,
        towards,
        is_number=about.wanted is not None,
        confidence=about.confidence,
        already=about.already,
    )


def in_words(about: RowContext, feature: Feature) -> Feature:
    """The feature with a noun that can be said, also where its schema has no words."""
    return feature_in(feature, about.words.language, about.words.language)


def profile_text(profile: Profile) -> str:
    """Which features could have changed the prediction alone, to which values, and which could not."""
    about = profile.about
    language = languages.load(about.words.language)
    flips = profile.with_verdict("flips")

    def named(verdict: str) -> tuple[Feature, ...]:
        return tuple(in_words(about, f.feature) for f in profile.with_verdict(verdict))

    facts = AloneFacts(
        prediction=prediction_of(about),
        total=sum(f.verdict != "fixed" for f in profile.features),
        flips=tuple(values_of(about, f) for f in flips[:NAMED]),
        more=max(0, len(flips) - NAMED),
        cannot=named("cannot"),
        none_found=named("none found"),
        undecided=named("undecided"),
        sampled=any(f.kind == "grid" for f in flips),
    )
    return (
        f"{language.alone(facts)} {language.forecast(forecast_of(profile))}"
        if profile.forecasts
        else language.alone(facts)
    )


def forecast_of(profile: Profile) -> ForecastFacts:
    """How well the points of a profile forecast the model, and the pairs that add most beyond their sum."""
    card, about = profile.scorecard, profile.about
    if card is None:
        return ForecastFacts(None, 100)
    pairs = []
    for pair in card.pairs:
        *values, points = card.strongest(pair)
        parts = [
            (
                in_words(about, about.feature(card.names[j])),
                value(about.feature(card.names[j]), cell, *2 * [about.words.language]),
            )
            for j, cell in zip((pair.a, pair.b), values, strict=True)
        ]
        if LEAST_POINTS <= abs(points) <= MOST_POINTS:
            pairs.append(PairFacts(parts[0], parts[1], round(points)))
    pairs.sort(key=lambda p: -abs(p.points))
    right, two = int(100 * card.figure.claim + 1e-9), round(100 * float(card.counts(2)))
    return ForecastFacts(right, two, tuple(pairs[:PAIRS_SAID]))


def values_of(about: RowContext, profile: FeatureProfile) -> Values:
    """The values with which a feature flips the prediction, in words."""
    feature, code = in_words(about, profile.feature), about.words.language
    if isinstance(feature, Categorical):
        return Values(feature, labels=tuple(category(feature, c, code) for c in profile.categories))
    if is_date(feature):
        labels = (
            date_text(low) if low == high else f"{date_text(low)} – {date_text(high)}" for low, high in profile.spans
        )
        return Values(feature, labels=tuple(labels))
    return Values(feature, intervals=tuple(interval(feature, low, high) for low, high in profile.spans))


def interval(feature: Numeric, low: float, high: float) -> Interval:
    """An interval of values; an end that is that of the range is None. Of a range with a single value it is said."""
    first, last = feature.bounds
    one = low == high

    def end(at: float, limit: float) -> Decimal | None:
        return None if at == limit and not one else decimal(at)

    return end(low, first), end(high, last)


def cell_words(about: RowContext, name: str) -> str:
    """The value of a feature of the row, in words."""
    feature, cell, code = about.feature(name), about.row[name], about.words.language
    return languages.load(code).WORDS.missing if cell is None else value(feature, cell, code, code)


def flipping_words(about: RowContext, profile: FeatureProfile) -> str:
    """The values with which a feature flips the prediction: "at most 3 or at least 8"; empty if there are none."""
    return languages.load(about.words.language).values(values_of(about, profile)) if profile.flips else ""


def changes_words(about: RowContext, e: Explanation) -> str:
    """The changes of an answer in short: "bare nuclei 10 → 1, mitoses 2 → 1"."""
    code, parts = about.words.language, []
    for c in e.changes:
        feature = about.feature(c.name)
        old, new = (value(feature, cell, code, code) for cell in (c.old, c.new))
        if isinstance(feature, Numeric) and not is_date(feature):
            old = languages.load(code).number(decimal(c.old))  # the unit stands behind the new value
        parts.append(f"{heading(feature, about.words)} {old} → {new}")
    return ", ".join(parts)


def whole_points(points: float) -> int:
    """Points rounded, but below 100 where the boundary is not reached."""
    return min(99, round(points)) if points < 100 else round(points)


def points_words(points: float, code: str) -> str:
    """ "43 points"."""
    whole = whole_points(points)
    words = languages.load(code).PICTURES
    return words["alone_point" if whole == 1 else "alone_points"].format(n=languages.load(code).number(Decimal(whole)))


def towards_words(about: RowContext) -> str:
    """The class, or the range of a number, that 100 points reach."""
    if about.wanted is not None:
        return range_words(about.wanted, languages.load(about.words.language))
    return class_caption(about.words, about.contrast_class)


def features_in_words(about: RowContext, names: Sequence[str]) -> tuple[Feature, ...]:
    return tuple(in_words(about, about.feature(name)) for name in names)


def reason_lines(reasons: Reasons) -> list[str]:
    """The sets that have values, one line each: "bare nuclei 10 → 1, mitoses 2 → 1 (benign)"."""
    about = reasons.about
    words = languages.load(about.words.language).PICTURES
    out = []
    for reason in reasons.shown:
        assert reason.explanation is not None
        outcome = reason.explanation.contrast_class
        named = [] if outcome is None or about.wanted is not None else [class_caption(about.words, outcome)]
        named += [words["reason_redundant"]] if reason.redundant else []
        named += [] if reason.minimal else [words["reason_open"]]
        changes = changes_words(about, reason.explanation)
        out.append(f"{changes} ({'; '.join(named)})" if named else changes)
    return out


def reasons_text(reasons: Reasons) -> str:
    """How many sets of features could have changed the prediction, and whether that is all."""
    about = reasons.about
    in_all = reasons.in_all if reasons.complete and len(reasons.sets) > 1 else ()
    facts = SetFacts(
        prediction=prediction_of(about),
        counts=reasons.counts,
        complete_to=reasons.complete_to,
        in_all=features_in_words(about, in_all),
        limited=len(reasons.free) < len(about.row),
    )
    return languages.load(about.words.language).sets(facts)


def sufficient_text(reason: SufficientReason) -> str:
    """The features that entail the prediction, if they are few enough to be said."""
    about, count = reason.about, len(reason.features)
    said = reason.features if count <= NAMED else ()
    named = zip(features_in_words(about, said), said, strict=True)
    facts = SufficientFacts(
        prediction=prediction_of(about),
        features=tuple((feature, cell_words(about, name)) for feature, name in named),
        count=count,
        total=len(reason.free),
        minimal=reason.minimal,
        smallest=reason.smallest,
        undecided=len(reason.undecided),
    )
    return languages.load(about.words.language).sufficient(facts)
