"""Profiles of rows: what each feature would do alone, over its whole domain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.explain.decisions.row_context import RowContext
from grace.explain.json_text import indented
from grace.explain.scorecards.scorecard import Scorecard
from grace.schema.features import Feature, Value
from grace.text import decisions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLIPS, CANNOT, NONE_FOUND, UNDECIDED, FIXED = "flips", "cannot", "none found", "undecided", "fixed"
"""What a feature can do alone: change the prediction, provably not, not at any value that was tried, unknown; or it may
not change at all."""


@dataclass(frozen=True)
class FeatureProfile:
    """What one feature does while all others stay.

    `points` says for each of `values` how much of the way from the predicted class to the contrast class a change to
    it makes: 100 reaches the boundary between the two. `kind` is "line" if the points are linear between the values,
    "steps" if they are constant between each two, "grid" if nothing is known between them, and "categories". The
    prediction flips, to any class that was asked for, if the value lies in one of the `spans` or `categories`.
    """

    feature: Feature
    value: Value | None  # of the row; None if it is missing
    kind: str
    values: tuple[Value, ...] = ()
    points: tuple[float, ...] = ()
    spans: tuple[tuple[float, float], ...] = ()
    categories: tuple[Value, ...] = ()
    verdict: str = FIXED

    @property
    def name(self) -> str:
        return self.feature.name

    @property
    def flips(self) -> bool:
        return self.verdict == FLIPS

    @property
    def most_points(self) -> float:
        """The points of the best change."""
        return max(self.points, default=0.0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "feature": self.name,
            "value": self.value,
            "kind": self.kind,
            "values": list(self.values),
            "points": list(self.points),
            "spans": [list(ends) for ends in self.spans],
            "categories": list(self.categories),
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Profile:
    """What each feature of a row would do alone, the one with most points first."""

    about: RowContext
    features: tuple[FeatureProfile, ...]
    scorecard: Scorecard | None = None
    """How points add up, and how well that forecasts the model; None if it does not, or if that was not asked for."""
    forecasts: bool = False
    """Whether it was asked for."""

    def __getitem__(self, name: str) -> FeatureProfile:
        for known in self.features:
            if known.name == name:
                return known
        raise GraceError(f"there is no feature {name!r}; there are {', '.join(f.name for f in self.features)}")

    def with_verdict(self, *verdicts: str) -> tuple[FeatureProfile, ...]:
        return tuple(f for f in self.features if f.verdict in verdicts)

    def text(self, *, language: str | None = None) -> str:
        """Which features could have changed the prediction alone, to which values, and which could not."""
        return decisions.profile_text(self if language is None else self.in_language(language))

    def in_language(self, code: str) -> Profile:
        about = self.about.in_language(code)
        features = tuple(replace(f, feature=about.feature(f.name)) for f in self.features)
        return replace(self, about=about, features=features)

    def to_svg(self, *, width: float = 760, theme: str = "auto", most: int = 30) -> str:
        """One strip per feature, with the values that flip the prediction; at most so many features."""
        from grace.pictures import profile_svg

        return profile_svg(self, width=width, theme=theme, most=most)

    def plot(self, *, width: float = 760, theme: str = "light", most: int = 30) -> Figure:
        """The same as a matplotlib figure (requires the extra `plot`)."""
        from grace.pictures import profile_figure

        return profile_figure(self, width=width, theme=theme, most=most)

    def _repr_html_(self) -> str:
        from grace.pictures.report import profile_fragment

        return profile_fragment(self)

    def to_dict(self, *, language: str | None = None) -> dict[str, Any]:
        """What `grace profile --json` prints; `language` is that of the text."""
        card = {"scorecard": None if self.scorecard is None else self.scorecard.to_dict()} if self.forecasts else {}
        features = [f.to_dict() for f in self.features]
        return {"text": self.text(language=language), **self.about.to_dict(), "features": features, **card}

    def to_json(self, *, language: str | None = None) -> str:
        return indented(self.to_dict(language=language))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        lines = [f"<Profile: {self.about.original_class!r}; 100 points lead to {self.about.contrast_class!r}"]
        for f in self.features[:10]:
            where = ", ".join(f"{low:g} to {high:g}" for low, high in f.spans) or ", ".join(map(str, f.categories))
            lines.append(
                f"  {f.name} = {f.value}: up to {f.most_points:.0f} points, {f.verdict}{where and f' {where}'}"
            )
        return "\n".join([*lines, *(["  ..."] if len(self.features) > 10 else [])]) + ">"
