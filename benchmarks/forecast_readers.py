"""Simulated readers (programs) that forecast the class of edited rows, for benchmarks/forecast.py.

A reader is given an explanation of each row, and maps edits of the row to classes. Of methods that do not say how to
forecast edits there are several policies, among which the best is chosen on edits that are not reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import grace
from grace.experiments.reproduction.reader import Shown, TableStatistics, of_grace, of_nothing
from grace.explain.scorecards.edits import Ints
from grace.explain.scorecards.points import Scorecards, scorecards
from grace.methods.curves import decisive
from grace.models.base import softmax
from grace.schema.features import Categorical, Floats

Forecast = Callable[[int, Floats], Ints]
"""The classes (m,) that are forecast for edits (m, d) of row i."""


@dataclass(frozen=True)
class Setting:
    """The rows (n, d) that are explained, their classes and the second most probable ones (n,)."""

    explainer: grace.Explainer
    rows: Floats
    own: Ints
    second: Ints
    probabilities: Floats
    seed: int

    @classmethod
    def of(cls, explainer: grace.Explainer, rows: Floats, seed: int) -> Setting:
        probabilities = softmax(decisive(explainer.model, rows))
        order = np.argsort(-probabilities, axis=1, kind="stable")
        return cls(explainer, rows, order[:, 0], order[:, 1], probabilities, seed)

    @cached_property
    def known(self) -> TableStatistics:
        return TableStatistics.of(self.explainer)

    @property
    def pool(self) -> Floats:
        assert self.explainer.background_rows is not None
        return self.explainer.background_rows

    @cached_property
    def categorical(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array([isinstance(f, Categorical) for f in self.explainer.schema.features])

    def shown(self, i: int) -> Shown:
        return Shown(self.rows[i], int(self.own[i]), float(self.probabilities[i, self.own[i]]), seed=i)

    def predict_proba(self, rows: Any) -> Floats:
        return softmax(decisive(self.explainer.model, np.asarray(rows, dtype=np.float64)))


def nothing(setting: Setting) -> dict[str, Forecast]:
    """Without an explanation: an edit changes the class if it is nearer to the typical row of all other classes than to
    that of its own; then it has the other class whose typical row is nearest."""
    spread = np.array([getattr(f, "spread", None) or 1.0 for f in setting.explainer.schema.features])

    def forecast(i: int, edits: Floats) -> Ints:
        changes = of_nothing("", setting.shown(i), setting.known, "typical").expects(edits)
        typical = setting.known.typical
        far = np.where(setting.categorical, edits[:, None] != typical, np.abs(edits[:, None] - typical) / spread)
        distance = far.sum(axis=2)
        distance[:, setting.own[i]] = np.inf
        return np.where(changes, distance.argmin(axis=1), setting.own[i])

    return {"nearest typical row": forecast}


def contrast(setting: Setting) -> dict[str, Forecast]:
    """Reads the sentence of `explain`: an edit changes the class if it makes its changes fully, on average."""
    batch = setting.explainer.explain(setting.explainer.schema.decode(setting.rows), domain="central")

    def forecast(i: int, edits: Floats) -> Ints:
        text = batch[i].text("exact", template="had", language="en")
        changes = of_grace(text, setting.shown(i), setting.known, "exact").expects(edits)
        after = batch.answers.after[i].argmax() if batch.success[i] else setting.own[i]
        return np.where(changes, after, setting.own[i])

    return {"all of the sentence's changes": forecast}


def cards(setting: Setting, max_pairs: int) -> Scorecards:
    explainer = setting.explainer
    return scorecards(
        explainer, explainer.schema, setting.rows, setting.own, setting.second, seed=setting.seed, max_pairs=max_pairs
    )


def of_cards(setting: Setting, found: Scorecards, plain: bool = False) -> dict[str, Forecast]:
    """Adds up points; without the factor for several changes and without pairs if `plain`. Rows without a scorecard are
    forecast as without an explanation."""
    other = nothing(setting)["nearest typical row"]

    def forecast(i: int, edits: Floats) -> Ints:
        card = found[i]
        if card is None:
            return other(i, edits)
        return (replace(card, factor=1.0, growth=0.0, pairs=()) if plain else card).forecast(edits)

    return {"the largest sum": forecast}
