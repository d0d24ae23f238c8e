"""Computes profiles: the lines of all features of rows, the values that flip, and proofs that none do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from grace.explain.answer_parts import cell_of
from grace.explain.decisions.profile import CANNOT, FIXED, FLIPS, NONE_FOUND, UNDECIDED, FeatureProfile, Profile
from grace.explain.decisions.questions import on_cpu, problem_of
from grace.explain.decisions.row_context import RowContext, row_contexts
from grace.explain.decisions.row_results import RowResults
from grace.explain.scorecards.points import scorecards
from grace.explain.scorecards.scorecard import Scorecard
from grace.methods.profiles import ScoreLines, score_lines
from grace.methods.spans import reaching_spans, sayable
from grace.problem.goal import Between, ClassGoal
from grace.problem.problem import Problem
from grace.proofs.sets import set_prover
from grace.proofs.verdicts import FOUND, PROVEN
from grace.schema.features import Categorical, Feature, Floats, Value
from grace.text.vocabulary import range_ends

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations

LINES = 2048  # followed at a time
SHOWN = 200  # values of a line that are kept
CLOSE = 1e-4  # margins at which a sum of trees in another order may decide otherwise
SECONDS = 1.0  # that the proof for one feature may take

Line = tuple[str, Floats, Floats]
"""The kind of a line, values, and points."""


def profile_batch(batch: Explanations, forecasts: bool = False) -> RowResults[Profile]:
    """The profiles of all rows of a batch; on request with scorecards that forecast further changes."""
    problem, contexts = problem_of(batch), row_contexts(batch)
    classes = list(batch.explainer.model.classes)
    towards = np.array([0 if c.task == "regression" else classes.index(c.contrast_class) for c in contexts])
    step = max(1, LINES // max(1, len(batch.schema)))
    parts: list[Profile] = []
    for begin in range(0, len(contexts), step):
        here = torch.arange(begin, min(begin + step, len(contexts)))
        part = _Part(problem.select(here), batch.schema.features, towards[here.numpy()])
        parts += part.profiles(contexts[begin : begin + step])
    if forecasts:
        parts = with_scorecards(batch, parts, towards)
    return RowResults(parts, batch.index.tolist())


def with_scorecards(batch: Explanations, profiles: list[Profile], towards: np.ndarray) -> list[Profile]:
    """Profiles with their scorecards, whose points are in the scale in which they add up best. A row that already is
    what was asked for has no points."""
    a, target = batch.answers, None
    original = a.before.argmax(axis=1)
    if batch.target_ranges is not None:
        low, high = np.array([range_ends(r) for r in batch.target_ranges], dtype=np.float64).reshape(-1, 2).T
        target, original = (low, high), np.zeros(len(profiles), dtype=np.int64)
    asked = np.flatnonzero(~a.trivial)
    target = None if target is None else (target[0][asked], target[1][asked])
    cards = scorecards(
        on_cpu(batch.explainer), batch.schema, a.rows[asked], original[asked], towards[asked], target=target,
        max_calls=batch.calls_left or 0,
    )  # fmt: skip
    known = dict(zip(asked.tolist(), cards, strict=True))
    return [_with_scorecard(profile, known.get(i)) for i, profile in enumerate(profiles)]


def _with_scorecard(profile: Profile, card: Scorecard | None) -> Profile:
    if card is None or card.scale == "scores":
        return replace(profile, scorecard=card, forecasts=True)
    features = [replace(f, points=tuple(round(card.points(f.name, v), 4) for v in f.values)) for f in profile.features]
    ordered = tuple(sorted(features, key=lambda f: (f.verdict == FIXED, -f.most_points)))
    return replace(profile, features=ordered, scorecard=card, forecasts=True)


class _Part:
    """Some rows of a batch: the lines and spans of their features."""

    def __init__(self, problem: Problem, features: tuple[Feature, ...], towards: np.ndarray) -> None:
        self.problem, self.features, self.towards = problem, features, towards
        self.free = problem.free.cpu().numpy()
        self.lines: dict[tuple[int, int], Line] = {}
        self.spans: dict[tuple[int, int], list[tuple[float, float]]] = {}
        self.chosen: dict[tuple[int, int], list[int]] = {}
        scores = problem.scores(problem.rows)
        self.own = scores.argmax(dim=1)
        self.start = self._lead(scores[:, None], torch.arange(len(problem)))[:, 0]
        self._numbers()
        for j in problem.space.categorical:
            self._categories(j)
        self.verdicts = self._verdicts()

    def _lead(self, scores: torch.Tensor, row: torch.Tensor) -> Floats:
        """How far the class towards which points lead is ahead of the row's own (N, P); a goal's margin where there
        are no such two classes."""
        goal = self.problem.goal
        if isinstance(goal, ClassGoal) and scores.shape[2] == self.problem.model.width:
            pair = torch.stack([torch.from_numpy(self.towards)[row], self.own[row]], dim=1)
            ahead = scores.gather(2, pair[:, None].expand(-1, scores.shape[1], 2))
            return (ahead[..., 0] - ahead[..., 1]).cpu().numpy()
        return goal.select(row).margin(scores).cpu().numpy()

    def _points(self, lead: Floats, row: np.ndarray) -> Floats:
        """Leads (N, P) as points: 0 at the row itself, and 100 where there is no lead any more."""
        start = self.start[row][:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(start < 0, 100 * (lead - start) / -start, 0.0)

    def _numbers(self) -> None:
        """The lines of all numbers, and the spans in which they reach the goal."""
        numeric = self.problem.space.is_numeric.cpu().numpy()
        row, column = (torch.from_numpy(part) for part in np.nonzero(self.free & numeric))
        if len(row) == 0:
            return
        part = self.problem.select(row)
        lines = self._confirmed(part, column, score_lines(part, part.rows, column))
        goal, at = part.goal, (row.tolist(), column.tolist())
        spans = sayable(part, column.numpy(), reaching_spans(lines, goal, self.problem.model.tolerance))
        keep = self._checked(part, column, spans)
        for n, low, high in zip(*(list(s[keep]) for s in spans), strict=True):
            self.spans.setdefault((at[0][n], at[1][n]), []).append((float(low), float(high)))
        kind = "steps" if lines.steps else "line" if lines.exact else "grid"
        points = self._points(self._lead(lines.scores, row), row.numpy())
        for n, (i, j) in enumerate(zip(*at, strict=True)):
            self.lines[i, j] = (kind, *thinned(lines.points[n].cpu().numpy(), points[n]))

    def _confirmed(self, part: Problem, column: torch.Tensor, lines: ScoreLines) -> ScoreLines:
        """Lines of trees with the scores of the model itself where they are so close to the border of the goal that the
        order of a sum may decide."""
        if not lines.steps:
            return lines
        line, at = torch.nonzero(part.goal.margin(lines.scores).abs() < CLOSE, as_tuple=True)
        if len(line) == 0:
            return lines
        rows = part.rows[line].scatter(1, column[line][:, None], lines.points[line, at][:, None])
        scores = lines.scores.clone()
        scores[line, at] = part.select(line).scores(rows)
        return replace(lines, scores=scores)

    def _checked(self, part: Problem, column: torch.Tensor, spans: Any) -> np.ndarray:
        """Which spans (M,) the model itself confirms at both ends."""
        line = torch.from_numpy(spans.line)
        tried, at = part.rows[line], column[line][:, None]
        right = np.ones(len(line), dtype=bool)
        for end in (spans.low, spans.high):
            rows = tried.scatter(1, at, torch.from_numpy(end)[:, None].to(tried))
            right &= part.select(line).reached(rows).cpu().numpy()
        return right

    def _categories(self, j: int) -> None:
        """The points of all categories of a feature that may be chosen, and those that reach the goal."""
        problem, rows = self.problem, np.flatnonzero(self.free[:, j])
        codes = problem.space.choices[j]
        if len(rows) == 0:
            return
        row = torch.from_numpy(rows)
        tried = problem.rows[row][:, None].repeat(1, len(codes), 1)
        tried[:, :, j] = codes.to(tried.dtype)
        part = problem.select(row)
        scores = part.scores(tried)
        allowed = problem.space.between(j, part.low, part.high) & (codes != part.rows[:, [j]])
        reached = ((part.goal.margin(scores) >= problem.model.tolerance) & allowed).cpu().numpy()
        points = self._points(self._lead(scores, row), rows)
        for n, i in enumerate(rows.tolist()):
            may = allowed[n].cpu().numpy()
            self.lines[i, j] = ("categories", codes.cpu().numpy()[may].astype(float), points[n][may])
            self.chosen[i, j] = codes.cpu().numpy()[reached[n]].tolist()

    def _verdicts(self) -> dict[tuple[int, int], str]:
        """Of each feature that may change. A proof is tried where no value that flips is known."""
        pairs = [(i, j) for i, j in np.argwhere(self.free).tolist()]
        flips = {pair for pair in pairs if self.spans.get(pair) or self.chosen.get(pair)}
        out = {pair: FLIPS if pair in flips else NONE_FOUND for pair in pairs}
        plain = self.problem.origin is None and isinstance(self.problem.goal, ClassGoal | Between)
        prover = set_prover(self.problem, 1) if plain else None
        if prover is None:
            return out
        for i, j in sorted(out.keys() - flips):
            status, row = prover.decide(i, np.arange(self.free.shape[1]) == j, 1, SECONDS)
            out[i, j] = CANNOT if status == PROVEN else FLIPS if status == FOUND else UNDECIDED
            if row is not None and j in self.problem.space.choices:
                self.chosen[i, j] = [int(row[j])]
            elif row is not None:  # a value between those that can be said, or of a goal that is not linear
                self.spans[i, j] = [(float(row[j]), float(row[j]))]
        return out

    def profiles(self, contexts: list[RowContext]) -> list[Profile]:
        rows = self.problem.rows.cpu().numpy()
        return [self._profile(context, i, rows[i]) for i, context in enumerate(contexts)]

    def _profile(self, about: RowContext, i: int, row: Floats) -> Profile:
        found = [self._feature(i, j, feature, row[j]) for j, feature in enumerate(self.features)]
        return Profile(about, tuple(sorted(found, key=lambda f: (f.verdict == FIXED, -f.most_points))))

    def _feature(self, i: int, j: int, feature: Feature, code: float) -> FeatureProfile:
        value = cell_of(feature, code)
        if (i, j) not in self.lines:
            return FeatureProfile(feature, value, "categories" if isinstance(feature, Categorical) else "line")
        kind, codes, points = self.lines[i, j]
        values: tuple[Value | None, ...] = tuple(codes.tolist())
        if isinstance(feature, Categorical):
            values = tuple(cell_of(feature, c) for c in codes)
        return FeatureProfile(
            feature=feature,
            value=value,
            kind=kind,
            values=tuple("" if v is None else v for v in values),
            points=tuple(points.round(4).tolist()),
            spans=tuple(self.spans.get((i, j), ())),
            categories=tuple(feature.categories[c] for c in self.chosen.get((i, j), ()))
            if isinstance(feature, Categorical)
            else (),
            verdict=self.verdicts.get((i, j), FIXED),
        )


def thinned(values: Floats, points: Floats) -> tuple[Floats, Floats]:
    """A line without repeated values, and of a long one the lowest and highest point of every section."""
    keep = np.concatenate([[True], (np.diff(values) != 0) | (np.diff(points) != 0)])
    values, points = values[keep], points[keep]
    if len(values) <= SHOWN:
        return values, points
    sections = np.array_split(np.arange(len(values)), SHOWN // 2 - 1)
    ends = {0, len(values) - 1}
    picked = ends.union(*({int(s[points[s].argmin()]), int(s[points[s].argmax()])} for s in sections))
    order = np.array(sorted(picked))
    return values[order], points[order]
