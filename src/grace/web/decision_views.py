"""How the model decides about a row, as values of templates: what each feature does alone, and all the reasons."""

from __future__ import annotations

from typing import Any

from grace.explain.profile import FeatureProfile, Profile
from grace.pictures.report import profile_parts
from grace.schema.columns import is_date
from grace.schema.features import Categorical
from grace.schema.schema import Schema
from grace.text.decisions import towards_words
from grace.text.languages import load
from grace.web.rows import format_value

MAX_FEATURES = 2  # of a set
SHOWN = 10  # sets with values
DIGITS = 7  # of the values in the browser


def alone_parts(profile: Profile, schema: Schema) -> dict[str, Any]:
    """The values of `alone.html`: text, picture, and the points of each input for the browser."""
    language = load(profile.about.words.language)
    points = {
        f"f{schema.index(f.name)}": points_along(f) for f in profile.features if f.values and f.verdict != "fixed"
    }
    words = {
        "point": language.PICTURES["alone_point"],
        "points": language.PICTURES["alone_points"],
        "total": language.PAGE["points_total"].replace("{after}", towards_words(profile.about)),
    }
    return {**profile_parts(profile), "points": {"features": points, "words": words}}


def points_along(known: FeatureProfile) -> dict[str, Any]:
    """The points of a feature by its values, as inputs hold them: dates as days, categories as text."""
    if isinstance(known.feature, Categorical):
        values: list[str | float] = [format_value(v) for v in known.values]
    else:
        values = [float(f"{float(v):.{DIGITS}g}") for v in known.values]
    points = [round(p, 1) for p in known.points]
    return {"kind": known.kind, "date": is_date(known.feature), "values": values, "points": points}
