"""The trees of an estimator on the features of a schema, whatever preprocessing stands in front of them.

A split compares a column of the estimator's input, which is a function of one original cell, with a threshold. Of a
number, that function is monotone or has steps, and the split becomes one of the original number: the threshold is
found by calling the function, so that it is exact for every double. Of a category, every code is sent through the
preprocessing. What is read is compared with what the model itself predicts, also on both sides of thresholds; where
they differ, the model stays a black box.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.models.predictor import Predictor
from grace.models.preprocessing.calibration import Calibration, read_calibration
from grace.models.preprocessing.columns import STEPS, TABLE, Column, dense
from grace.models.preprocessing.known_ranges import known_ranges
from grace.models.preprocessing.reading import Preprocessing, read_preprocessing
from grace.models.preprocessing.thresholds import threshold_in_original
from grace.models.trees.compiled import Trees, trees_of
from grace.models.trees.ensemble import TreeEnsemble
from grace.models.trees.nodes import Nodes
from grace.models.trees.reading import read_trees
from grace.models.trees.single_cuts import Cuts, with_single_cuts
from grace.models.trees.step_functions import read_step_functions
from grace.schema.columns import is_temporal
from grace.schema.features import Bools, Floats, Numeric, columns_of
from grace.schema.low_precision import is_low_precision
from grace.schema.schema import Schema

Ints = npt.NDArray[np.int64]
NEIGHBOURS = 4096  # rows with cells on either side of thresholds on which trees are compared with their model
CLOSE = {"float32": 2e-5, "float64": 1e-9}  # how far what is read may be from the model, relative to the sums


class UnreadableTreesError(Exception):
    """Something stands between the features and the trees that cannot be expressed as splits."""


def attach_trees(estimator: Any, asked: Predictor, rows: Floats) -> Predictor:
    """A bound black box that knows the trees of its estimator, if they can be read."""
    asked.trees = read_ensemble(estimator, asked, rows)
    return asked


def read_ensemble(estimator: Any, asked: Predictor, rows: Floats) -> TreeEnsemble | None:
    """The trees of an estimator on the features of the schema to which `asked`, the same as a black box, is bound; None
    if they cannot be read, or do not predict what the model does for `rows` and near thresholds."""
    schema, reader = asked.schema, asked.reader
    if schema is None or reader is None or reader.outputs not in ("probabilities", "numbers"):
        return None
    last, before = read_preprocessing(estimator) or (estimator, None)
    calibrated = read_calibration(last)
    if calibrated is not None:
        inside = read_preprocessing(calibrated[0], before)
        if inside is None:
            return None
        last, before = inside
    try:
        nodes = read_trees(last, _pandas_categories(asked, before, rows))
        if nodes is None:
            ensemble = read_step_functions(last, before, asked, rows)
        else:
            ensemble = Binder(nodes, before, asked, schema, rows).ensemble()
    except UnreadableTreesError:
        return None
    if ensemble is not None:
        ensemble = replace(ensemble, known=known_ranges(before, asked, schema))
    if ensemble is not None and calibrated is not None:
        ensemble = _calibrated(ensemble, calibrated[1])
    return ensemble if ensemble is not None and agrees(ensemble, asked, rows) else None


def _calibrated(ensemble: TreeEnsemble, calibration: Calibration) -> TreeEnsemble | None:
    """With the calibration, if it is one of the sum, or of the probability, of the second of two classes."""
    by_sum = calibration.response == "decision_function"
    two = ensemble.link == "probabilities" and len(ensemble.trees.base) == 2 and not by_sum
    return replace(ensemble, calibration=calibration) if two or ensemble.link == "logistic" else None


def _pandas_categories(asked: Predictor, before: Preprocessing | None, rows: Floats) -> list[int]:
    """The columns of the estimator's input that are categories of pandas."""
    given = asked.given(rows[:1]) if before is None else before.given(asked.given(rows[:1]))
    if not isinstance(given, pd.DataFrame):
        return []
    return [c for c in range(given.shape[1]) if not pd.api.types.is_numeric_dtype(given.dtypes.iloc[c])]


@dataclass
class Binder:
    """Nodes of an estimator, what stands in front of it, and the features of the schema."""

    nodes: Nodes
    before: Preprocessing | None
    asked: Predictor
    schema: Schema
    rows: Floats

    def ensemble(self) -> TreeEnsemble:
        owner, d = self.owners(), len(self.schema)
        self.cut = self.divide(owner)
        nodes, n = self.nodes, len(self.nodes.column)
        self.feature = np.full(n, -1, dtype=np.int64)
        self.threshold, self.members = np.zeros(n), np.full(n, -1, dtype=np.int64)
        self.left, self.right = nodes.left.copy(), nodes.right.copy()
        self.missing_left = nodes.missing_left.copy()
        self.bits: list[Bools] = []
        self.size = 0
        used = np.unique(nodes.column[nodes.column >= 0])
        for j in sorted({owner[c] for c in used.tolist()}):
            mine = [c for c in used.tolist() if owner[c] == j]
            if isinstance(self.schema.features[j], Numeric):
                self.number(j, mine)
            else:
                self.category(j, mine)
        missing = [f.missing_code if isinstance(f, Numeric) else np.nan for f in self.schema.features]
        trees = trees_of(
            nodes.roots, self.feature, self.threshold, self.members, np.concatenate([np.zeros(0, bool), *self.bits]),
            self.missing_left, self.left, self.right, nodes.value, nodes.base, np.array(missing, dtype=np.float64),
        )  # fmt: skip
        assert d == len(trees.missing)
        return TreeEnsemble(trees, nodes.link, nodes.precision)

    def owners(self) -> dict[int, int]:
        """The feature from which each column of the estimator's input is made."""
        names = list(self.asked.columns or self.schema.columns)
        if self.before is not None and self.before.names:
            names = list(self.before.names)
        feature = {name: j for j, f in enumerate(self.schema.features) for name in columns_of(f)}
        width = self.nodes.columns if self.before is None else len(self.before.columns)
        if width != self.nodes.columns or (self.before is None and width != len(names)):
            raise UnreadableTreesError
        sources = range(width) if self.before is None else [c.source for c in self.before.columns]
        if any(s >= len(names) or names[s] not in feature for s in sources):
            raise UnreadableTreesError
        return {c: feature[names[s]] for c, s in enumerate(sources)}

    def divide(self, owner: dict[int, int]) -> Floats:
        """Replace nodes that cut a number several times, as those by one of its bins do; see `with_single_cuts`."""
        several: dict[int, Cuts] = {}
        for c, j in owner.items():
            feature = self.schema.features[j]
            at = np.flatnonzero(self.nodes.column == c)
            stepped = self.before is not None and self.before.columns[c].kind == STEPS
            if not stepped or len(at) == 0 or not isinstance(feature, Numeric) or (self.nodes.members[at] >= 0).any():
                continue
            edges, left = self.sides(j, c, at)
            more = np.flatnonzero((left[:, 1:] != left[:, :-1]).sum(axis=1) > 1)
            if len(more) == 0:
                continue
            missing = self.nodes.missing_left[at]
            if feature.gaps:
                code = np.array([feature.missing_code])
                missing = self.goes_left(at, self.inputs(self.with_values(j, code), [c])[:, 0])[:, 0]
            several |= {int(at[place]): Cuts(edges, left[place], bool(missing[place])) for place in more}
        found = with_single_cuts(self.nodes, several)
        if found is None:
            raise UnreadableTreesError
        self.nodes, cut = found
        return cut

    def sides(self, j: int, c: int, at: Ints) -> tuple[Floats, Bools]:
        """Of nodes on a column with steps, the edges (m,) of the number, and which cells between them go left
        (N, m + 1)."""
        assert self.before is not None
        edges = np.array(self.before.columns[c].edges, dtype=np.float64)
        tried = np.concatenate([[np.nextafter(edges[0], -np.inf)] if len(edges) else self.rows[:1, j], edges])
        return edges, self.goes_left(at, self.inputs(self.with_values(j, tried), [c])[:, 0])

    # -- values ---------------------------------------------------------------------------------

    def with_values(self, j: int, values: Floats) -> Floats:
        """Encoded rows in which feature j has some values."""
        rows = np.repeat(self.rows[:1], len(values), axis=0)
        rows[:, j] = values
        return rows

    def inputs(self, rows: Floats, columns: list[int]) -> Floats:
        """What the estimator gets in some columns for encoded rows: numbers, codes of categories, NaN where missing."""
        given = self.asked.given(rows)
        if self.before is not None:
            with warnings.catch_warnings(action="ignore"):  # unknown categories
                given = self.before.given(given)
        cells = given.iloc[:, columns] if isinstance(given, pd.DataFrame) else dense(given)[:, columns]
        out = np.empty((len(rows), len(columns)))
        for place, c in enumerate(columns):
            cell = cells.iloc[:, place] if isinstance(cells, pd.DataFrame) else pd.Series(cells[:, place])
            if c in self.nodes.codes:
                codes = self.nodes.codes[c]
                out[:, place] = [np.nan if pd.isna(v) else codes.get(_plain(v), np.nan) for v in cell]
            else:
                try:
                    out[:, place] = pd.to_numeric(cell).to_numpy(dtype=np.float64, na_value=np.nan)
                except (ValueError, TypeError):
                    raise UnreadableTreesError from None
        return out

    def goes_left(self, at: Ints, values: Floats) -> Bools:
        """Whether values (m,) of the column of nodes (N,) go left in each: (N, m)."""
        nodes = self.nodes
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = values.astype(nodes.dtype).astype(np.float64)
            limits = nodes.threshold[at][:, None]
            left = numbers < limits if nodes.strict else numbers <= limits
        for place in np.flatnonzero(nodes.members[at] >= 0):
            members = nodes.sets[nodes.members[at[place]]]
            left[place] = [v in members for v in values]
        return np.where(np.isnan(values), nodes.missing_left[at][:, None], left)

    # -- features -------------------------------------------------------------------------------

    def category(self, j: int, columns: list[int]) -> None:
        """Splits by a category: the codes that go left."""
        count = len(self.schema.features[j].categories)  # type: ignore[union-attr]
        values = self.inputs(self.with_values(j, np.arange(count, dtype=np.float64)), columns)
        for place, c in enumerate(columns):
            at = np.flatnonzero(self.nodes.column == c)
            left = self.goes_left(at, values[:, place])
            self.feature[at] = j
            self.members[at] = self.size + count * np.arange(len(at))
            self.bits.append(left.reshape(-1))
            self.size += left.size

    def number(self, j: int, columns: list[int]) -> None:
        """Splits of a number: the smallest double that goes right."""
        feature = self.schema.features[j]
        assert isinstance(feature, Numeric)
        if is_temporal(feature):
            raise UnreadableTreesError
        if feature.gaps:
            missing = self.inputs(self.with_values(j, np.array([feature.missing_code])), columns)[0]
        for place, c in enumerate(columns):
            at = np.flatnonzero(self.nodes.column == c)
            if (self.nodes.members[at] >= 0).any():
                raise UnreadableTreesError
            self.feature[at] = j
            if feature.gaps:
                usual = at[np.isnan(self.cut[at])]
                self.missing_left[usual] = self.goes_left(usual, missing[[place]])[:, 0]
            column = Column(c, "affine") if self.before is None else self.before.columns[c]
            if column.kind == TABLE:
                raise UnreadableTreesError
            if column.kind == STEPS:
                self.steps(j, c, at)
            else:
                self.monotone(at, column, _narrowed(feature))

    def monotone(self, at: Ints, column: Column, narrowed: Callable[[Floats], Floats]) -> None:
        dtype = self.nodes.dtype

        def seen(values: Floats) -> Floats:
            with np.errstate(over="ignore"):
                return np.asarray(column.evaluate(narrowed(values))).astype(dtype).astype(np.float64)

        limits, place = np.unique(self.nodes.threshold[at], return_inverse=True)
        found = threshold_in_original(
            seen, limits, self.nodes.strict, rising=column.rising, low=column.low, high=column.high
        )
        self.threshold[at] = found[place]
        if not column.rising:
            self.turn(at)

    def turn(self, at: Ints) -> None:
        """Exchange the children of nodes."""
        self.left[at], self.right[at] = self.right[at], self.left[at].copy()
        self.missing_left[at] = ~self.missing_left[at]

    def steps(self, j: int, c: int, at: Ints) -> None:
        """A column with steps: each split decides between two ends of the number."""
        known = ~np.isnan(self.cut[at])
        self.threshold[at[known]] = self.cut[at[known]]
        at = at[~known]
        edges, left = self.sides(j, c, at)
        turns = left[:, 1:] != left[:, :-1]
        first = np.where(turns.any(axis=1), turns.argmax(axis=1), -1) if len(edges) else np.full(len(at), -1)
        self.threshold[at] = np.append(edges, np.inf)[first]
        falls = ~left[:, 0]  # small numbers go right
        self.turn(at[falls])


def _narrowed(feature: Numeric) -> Callable[[Floats], Floats]:
    """A number in the type of its column."""
    if not is_low_precision(feature):
        return lambda values: values
    return lambda values: values.astype(feature.dtype.lower()).astype(np.float64)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# -- comparing --------------------------------------------------------------------------------------


def agrees(ensemble: TreeEnsemble, asked: Predictor, rows: Floats) -> bool:
    """Whether the trees predict what the model does: for rows, and for rows with cells on either side of thresholds."""
    rows = rows[~ensemble.beyond(rows)]
    if len(rows) == 0:
        return False
    tried = np.concatenate([rows, near_thresholds(ensemble.trees, asked, rows)])
    own = asked.responses(tried)
    sums = ensemble.sums(tried)
    read = ensemble.predicted(sums)
    if asked.task == "regression":
        read = read[:, -1:]
    elif own.shape[1] == 1 and read.shape[1] == 2:
        own = np.concatenate([1 - own, own], axis=1)
    if own.shape != read.shape:
        return False
    size = 1.0 if asked.task != "regression" else np.abs(read)
    slack = CLOSE[ensemble.precision] * size + 4 * ensemble.rounding * np.maximum(size, 1.0)
    return bool((np.abs(own - read) <= slack).all())


def near_thresholds(trees: Trees, asked: Predictor, rows: Floats) -> Floats:
    """Rows whose numbers are thresholds, or the doubles just below them: all of them, or a sample of many."""
    schema = asked.schema
    assert schema is not None
    columns = []
    for j, feature in enumerate(schema.features):
        mine = (trees.feature == j) & (trees.members < 0)
        if not isinstance(feature, Numeric) or not mine.any():
            columns.append(np.zeros(0))
            continue
        limits = np.unique(trees.threshold[mine])
        limits = limits[np.isfinite(limits)]
        columns.append(np.concatenate([limits, np.nextafter(limits, -np.inf)]))
    rng = np.random.default_rng(0)
    count = min(NEIGHBOURS, max(map(len, columns), default=0))
    out = rows[rng.integers(len(rows), size=count)].copy()
    for j, values in enumerate(columns):
        if len(values):
            picked = (
                np.resize(rng.permutation(values), count) if len(values) < count else rng.permutation(values)[:count]
            )
            keep = rng.random(count) < 0.25  # leaves that need several cells to be usual are met, too
            feature = schema.features[j]
            if isinstance(feature, Numeric) and feature.integer:
                picked = np.where(picked == np.round(picked), picked, np.ceil(picked))
            out[:, j] = np.where(keep & (np.arange(count) >= len(values)), out[:, j], picked)
    return out
