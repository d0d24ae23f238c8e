"""How the model decides about a row, as values of templates: what each feature does alone, and all the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grace.explain.decisions.profile import FIXED, FeatureProfile, Profile
from grace.explain.scorecards.scorecard import Pair, Scorecard
from grace.pictures.report import profile_parts
from grace.schema.columns import is_date
from grace.schema.features import Categorical, Feature, Floats, Value
from grace.schema.schema import Schema
from grace.text.decisions import forecast_of, towards_words
from grace.text.languages import load
from grace.web.rows import format_value

MAX_FEATURES = 2  # of a set
SHOWN = 10  # sets with values
DIGITS = 7  # of the values in the browser


def alone_parts(profile: Profile, schema: Schema) -> dict[str, Any]:
    """The values of `alone.html`: text, picture, and the points for the browser; none if they do not forecast well."""
    card = profile.scorecard
    return {**profile_parts(profile), "points": None if card is None else points_data(profile, card, schema)}


def points_data(profile: Profile, card: Scorecard, schema: Schema) -> dict[str, Any]:
    """What the browser adds up: the points of each input, what pairs bring beyond that, and what several changes count.
    Where probabilities are added up, the points are shares of their difference."""
    language = load(profile.about.words.language)
    own_scale = card.scale == "probabilities"
    curves = {
        f"f{schema.index(f.name)}": card_curve(f, card) if own_scale else points_along(f)
        for f in profile.features
        if f.values and f.verdict != FIXED
    }
    total = language.PAGE["points_total"].replace("{right}", str(forecast_of(profile).right))
    return {
        "features": curves,
        "pairs": [pair_points(pair, card, schema) for pair in card.pairs],
        "factor": card.factor,
        "growth": card.growth,
        "words": {
            "point": language.PICTURES["alone_point"],
            "points": language.PICTURES["alone_points"],
            "total": total.replace("{after}", towards_words(profile.about)),
        },
    }


def points_along(known: FeatureProfile) -> dict[str, Any]:
    """The points of a feature by its values, as inputs hold them: dates as days, categories as text."""
    points = [round(p, 1) for p in known.points]
    return {
        "kind": known.kind,
        "date": is_date(known.feature),
        "values": input_values(known.feature, known.values),
        "points": points,
    }


def card_curve(known: FeatureProfile, card: Scorecard) -> dict[str, Any]:
    """The same by the curve of a scorecard."""
    codes, points = card.curve(known.name)
    found = replace(known, values=cells_of(known.feature, codes), points=tuple(points.tolist()))
    return points_along(found if isinstance(known.feature, Categorical) else replace(found, kind="line"))


def pair_points(pair: Pair, card: Scorecard, schema: Schema) -> dict[str, Any]:
    """What values of two features bring together beyond what each does alone, in points (g, h)."""
    a, b = (schema[card.names[j]] for j in (pair.a, pair.b))
    return {
        "inputs": [f"f{schema.index(a.name)}", f"f{schema.index(b.name)}"],
        "values": [input_values(f, cells_of(f, v)) for f, v in ((a, pair.values_a), (b, pair.values_b))],
        "points": card.pair_points(pair).round(1).tolist(),
    }


def cells_of(feature: Feature, codes: Floats) -> tuple[Value, ...]:
    """Encoded values of a feature as cells."""
    if not isinstance(feature, Categorical):
        return tuple(codes.tolist())
    return tuple(feature.categories[int(code)] for code in codes)


def input_values(feature: Feature, values: Sequence[Value]) -> list[str] | list[float]:
    """Values as the inputs of the form hold them; numbers in a few digits."""
    if isinstance(feature, Categorical):
        return [format_value(v) for v in values]
    return [float(f"{float(v):.{DIGITS}g}") for v in values]
