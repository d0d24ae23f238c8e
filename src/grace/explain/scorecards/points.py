"""Makes scorecards: the curves of each feature, the pairs that matter, and an honest figure for each row.

Three sets of edits are drawn (see `edits`): on the first, pairs and the factor for several changes are chosen, on the
second their number, the scale, and whether a scorecard is shown at all; the third has no part in any choice, and the
share of right forecasts on it is the figure that a scorecard carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from grace.explain.explainer import Explainer
from grace.explain.scorecards.additive import Fit, Rule, Terms, fit, right
from grace.explain.scorecards.edits import Draw, Edits, Ints, balanced_edits
from grace.explain.scorecards.pair_tables import GRID, grids, pairs_of, row_grids, tried_rows
from grace.explain.scorecards.row_effects import RowEffects, curves_at, in_scale, scales_of
from grace.explain.scorecards.scorecard import Figure, Pair, Scorecard
from grace.explain.scorecards.typical_rows import TypicalRows
from grace.methods.curves import curves_of, decisive
from grace.models.predictor import Predictor, tree_ensemble
from grace.models.relu import relu_network
from grace.schema.features import Categorical, Feature, Floats
from grace.schema.schema import Schema

LEAST_RIGHT = 0.75  # below that share of right forecasts on the second set of edits, there is no scorecard
LEAST_CHANGING = 10  # edits of the third set that change the decision: with fewer, no figure is given
CHUNK_BYTES = 1 << 27
NO_ROWS = "there are no training rows whose values edits could have"
FEW = "too few edits change the decision to tell how well points forecast it"
POOR = "adding up what changes do alone does not forecast the model well here"
CALLS = "the limit of model calls was reached"


@dataclass(frozen=True)
class Effort:
    """How much is spent on a row. Of `edits`, a third is drawn for choosing, a sixth for checking and one half for the
    figure, of which at most `most` (each) of both kinds are used. Pairs are chosen among those of the `paired` features
    with the largest effects; `grid` values of each number are queried of a black box."""

    edits: int = 3600
    most: tuple[int, int, int] = (200, 100, 300)
    paired: int = 12
    grid: int = 24

    def calls(self, features: Sequence[Feature]) -> int:
        """The most rows about which a black box is queried for one scorecard."""
        lines = sum(len(f.categories) if isinstance(f, Categorical) else self.grid + 1 + f.gaps for f in features)
        q = min(self.paired, len(features))
        return 1 + self.edits + lines + q * (q - 1) // 2 * (GRID + 1) ** 2


EXACT, BLACK_BOX = Effort(), Effort(edits=1200, paired=8)


@dataclass(frozen=True)
class Scorecards:
    """One scorecard per row, or None with the reason; empty where there is one."""

    cards: tuple[Scorecard | None, ...]
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.cards)

    def __getitem__(self, i: int) -> Scorecard | None:
        return self.cards[i]

    def __iter__(self) -> Iterator[Scorecard | None]:
        return iter(self.cards)


def scorecards(
    explainer: Explainer,
    schema: Schema,
    rows: Floats,
    original: Ints,
    contrast: Ints,
    *,
    target: tuple[Floats, Floats] | None = None,
    seed: int = 0,
    max_pairs: int = 5,
    max_calls: int = 0,
    effort: Effort | None = None,
) -> Scorecards:
    """Scorecards of encoded rows (n, d), of which the model decides `original` (n,), for the way to `contrast` (n,).

    For a regression, `target` are the lowest and highest number (n,) of each row's target range; `original` is 1 for
    rows within it, else 0. `max_calls` limits the rows about which a black box is queried (0: no limit): each scorecard
    is counted with the most that it may take, and rows for which there is not enough left get none. Background rows are
    scored once per explainer, outside of this limit.
    """
    model, pool = explainer.model, explainer.background_rows
    if pool is None or len(pool) == 0:
        return Scorecards((None,) * len(rows), (NO_ROWS,) * len(rows))
    black_box = relu_network(model) is None and tree_ensemble(model) is None
    effort = effort or (BLACK_BOX if black_box else EXACT)
    work = _Maker(explainer, schema, pool, effort, seed, max_pairs)
    rule = Rule(original, *(target or (None, None)))
    affordable = len(rows)
    if max_calls and isinstance(model, Predictor) and black_box:
        affordable = min(affordable, max_calls // effort.calls(schema.features))
    cards: list[Scorecard | None] = []
    reasons: list[str] = []
    step = work.rows_at_once()
    for begin in range(0, affordable, step):
        here = np.arange(begin, min(begin + step, affordable))
        found = work.make(rows[here], rule.select(here), contrast[here])
        cards += found.cards
        reasons += found.reasons
    left = len(rows) - affordable
    return Scorecards((*cards, *[None] * left), (*reasons, *[CALLS] * left))


class _Maker:
    """What the scorecards of all rows have in common."""

    def __init__(
        self, explainer: Explainer, schema: Schema, pool: Floats, effort: Effort, seed: int, max_pairs: int
    ) -> None:
        self.model, self.features, self.names = explainer.model, schema.features, tuple(schema.names)
        self.effort, self.max_pairs = effort, max_pairs
        self.categorical = np.array([isinstance(f, Categorical) for f in self.features])
        self.missing = np.array([np.nan if isinstance(f, Categorical) else f.missing_code for f in self.features])
        known = np.where(pool == self.missing, np.nan, pool)
        known[:, np.isnan(known).all(axis=0)] = 0.0
        low, high = schema.bounds()
        self.low = np.fmin(np.where(np.isfinite(low), low, np.inf), np.nanmin(known, axis=0))
        self.high = np.fmax(np.where(np.isfinite(high), high, -np.inf), np.nanmax(known, axis=0))
        self.grid = _observed(known, effort.grid)
        self.pair_grid = grids(self.features, pool)
        draw = Draw.of(pool, effort.edits, seed)
        ends = (0, effort.edits // 3, effort.edits // 2, effort.edits)
        self.draws = [draw.part(a, b) for a, b in pairwise(ends)]
        classes = None if self.model.task == "regression" else explainer.background_classes()
        self.typical = None if classes is None else TypicalRows.of(self.features, pool, classes, self.model.width)

    def rows_at_once(self) -> int:
        d, q, m = len(self.features), min(self.effort.paired, len(self.features)), 2 * sum(self.effort.most)
        pairs = q * (q - 1) // 2 * (m * (GRID + 1) * self.model.width + (GRID + 1) ** 2 * d)
        lines = d * (3 * m + 256) * self.model.width
        return max(1, CHUNK_BYTES // (8 * (pairs + lines + self.effort.edits * d)))

    def score(self, rows: Floats) -> Floats:
        return decisive(self.model, rows)

    def make(self, rows: Floats, rule: Rule, contrast: Ints) -> Scorecards:
        """The scorecards of a chunk of rows."""
        edits = balanced_edits(rows, rule.own, self.draws, self.effort.most, self.score, rule.decide)
        raw = self._effects(rows, rule, edits[0])
        found = [self._additive(raw.scaled(self.model, scale), scale, rule, edits) for scale in scales_of(self.model)]
        best = np.stack([a.objective for a in found]).argmax(axis=0)
        changing = ((edits[2].weight > 0) & (edits[2].decided != rule.own[:, None])).sum(axis=1)
        enough = (changing >= LEAST_CHANGING) & edits[0].balanced & edits[1].balanced & edits[2].balanced
        base = np.zeros(len(rows)) if self.typical is None else self.typical.right(rule, edits[1])
        cards: list[Scorecard | None] = []
        reasons = []
        for i, k in enumerate(best):
            poor = found[k].checked[i] < max(LEAST_RIGHT, base[i])
            reasons.append(FEW if not enough[i] else POOR if poor else "")
            cards.append(None if reasons[-1] else self._card(found[k], i, rule, int(contrast[i]), edits[2]))
        return Scorecards(tuple(cards), tuple(reasons))

    def _effects(self, rows: Floats, rule: Rule, edits: Edits) -> RowEffects:
        """The curves of rows, and all pairs of the features with the largest effects on edits."""
        curves = curves_of(self.model, self.features, rows, self.low, self.high, self.grid)
        alone = curves_at(curves, edits.rows) - curves_at(curves, rows[:, None])
        if self.model.task != "regression":
            alone -= np.take_along_axis(alone, rule.own[:, None, None, None], axis=3)
        size = edits.mean(np.abs(alone).max(axis=3).transpose(0, 2, 1))
        top = np.argsort(-size, axis=1, kind="stable")[:, : self.effort.paired]
        pairs, values = pairs_of(top.shape[1]), row_grids(self.pair_grid, rows, top, self.categorical)
        tried = tried_rows(rows, top, values, pairs)
        both = self.score(tried.reshape(-1, rows.shape[1])).reshape(*tried.shape[:-1], -1)
        return RowEffects(rows, self.score(rows), curves, self.categorical, self.missing, top, pairs, values, both)

    def _additive(self, effects: RowEffects, scale: str, rule: Rule, edits: Sequence[Edits]) -> _Additive:
        choose, check = (effects.terms(e, in_scale(self.model, e.scores, scale)) for e in edits[:2])
        chosen = fit(rule, effects.start, choose, check, self.max_pairs)
        checked = right(rule, check, _forecast(effects, check, chosen.factor, chosen.pairs))[0][:, 0]
        last = effects.terms(edits[2], edits[2].scores, chosen.pairs)
        places = np.where(chosen.pairs >= 0, np.arange(chosen.pairs.shape[1]), -1)
        full = right(rule, last, _forecast(effects, last, chosen.factor, places))
        alone = right(rule, last, _forecast(effects, last, chosen.factor_alone, np.full_like(places, -1)))
        figures = np.concatenate([*full, alone[0]], axis=1)
        return _Additive(scale, effects, effects.effects(), effects.tables(), chosen, checked, figures)

    def _card(self, found: _Additive, i: int, rule: Rule, contrast: int, edits: Edits) -> Scorecard:
        """The scorecard of row i of a chunk."""
        effects, chosen = found.effects, found.fit
        used = edits.weight[i] > 0
        changing = int((used & (edits.decided[i] != rule.own[i])).sum())
        share, exactly, alone = found.figures[i].round(9).tolist()  # weights sum to 1 but for rounding
        figure = Figure(
            claim=wilson(share, float(edits.effective()[i])),
            right=share,
            exactly=exactly,
            alone=alone,
            changing=changing,
            staying=int(used.sum()) - changing,
        )
        pairs = []
        for number in chosen.pairs[i][chosen.pairs[i] >= 0]:
            a, b = effects.pairs[number]
            grid, top = effects.grid[i], effects.top[i]
            pairs.append(Pair(int(top[a]), int(top[b]), grid[a], grid[b], found.tables[i, number]))
        lines = [_shortened(*line) for line in zip(effects.curves.values[i], found.lines[i], strict=True)]
        assert rule.low is None or rule.high is not None
        return Scorecard(
            names=self.names,
            categories=tuple(f.categories if isinstance(f, Categorical) else None for f in self.features),
            missing=tuple(self.missing.tolist()),
            row=effects.rows[i],
            original=int(rule.own[i]),
            contrast=contrast,
            scale=found.scale,
            exact=effects.curves.exact,
            start=effects.start[i],
            values=tuple(values for values, _ in lines),
            effects=tuple(line for _, line in lines),
            factor=float(chosen.factor[i, 0]),
            growth=float(chosen.factor[i, 1]),
            pairs=tuple(pairs),
            figure=figure,
            target=None if rule.low is None or rule.high is None else (float(rule.low[i]), float(rule.high[i])),
        )


@dataclass(frozen=True)
class _Additive:
    """The additive forecasts of a chunk in one scale: curves (n, d, P, classes) and tables of effects, what was chosen,
    the share of right forecasts (n,) on the second set of edits, and on the third (n, 3): whether the decision changes,
    the decision itself, and whether it changes without pairs."""

    scale: str
    effects: RowEffects
    lines: Floats
    tables: Floats
    fit: Fit
    checked: Floats
    figures: Floats

    @property
    def objective(self) -> Floats:
        return self.fit.objective


def wilson(share: float, count: float, z: float = 1.0) -> float:
    """The lower end of Wilson's score interval of a share of `count` cases, at z standard errors."""
    centre = share + z * z / (2 * count)
    spread = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return float((centre - spread) / (1 + z * z / count))


def _forecast(effects: RowEffects, terms: Terms, factor: Floats, pairs: Ints) -> Floats:
    """The sums (n, 1, m, classes) with a factor and pairs of each row."""
    return terms.forecast(effects.start, factor[:, None], terms.chosen(pairs)[:, None])


def _observed(known: Floats, count: int) -> Floats:
    """Values (d, count) of the columns of known rows, NaN where a cell is missing: all, or if there are more, quantiles
    with the lowest and the highest among them."""
    out = np.empty((known.shape[1], count))
    for j, column in enumerate(known.T):
        seen = np.unique(column[~np.isnan(column)])
        if len(seen) > count:
            seen = np.nanquantile(column, np.linspace(0, 1, count), method="nearest")
        out[j] = np.pad(seen, (0, count - len(seen)), mode="edge")
    return out


def _shortened(values: Floats, line: Floats) -> tuple[Floats, Floats]:
    """A curve without points that are repeated."""
    keep = np.append(True, (values[1:] != values[:-1]) | (line[1:] != line[:-1]).any(axis=1))
    return values[keep], line[keep]
