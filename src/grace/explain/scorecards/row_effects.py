"""What changes of rows do, alone and in pairs, as arrays for a chunk of rows, in the scale in which it is added up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from grace.explain.scorecards.additive import Terms
from grace.explain.scorecards.edits import Edits, Ints
from grace.explain.scorecards.pair_tables import grid_weights, interactions, looked_up
from grace.methods.curves import Curves, interpolate
from grace.models.base import Model
from grace.models.relu import relu_network
from grace.schema.features import Bools, Floats


def scales_of(model: Model) -> tuple[str, ...]:
    """The scales that are tried. Additive in probabilities is the nature of forests, whose log-probabilities saturate;
    networks are linear in their scores."""
    if model.task == "regression":
        return ("number",)
    if model.task != "classification" or not model.has_probabilities or relu_network(model) is not None:
        return ("scores",)
    return ("scores", "probabilities")


def in_scale(model: Model, scores: Floats, scale: str) -> Floats:
    """Scores (..., classes) in a scale. Probabilities are divided by the cut-offs, so that the largest decides."""
    if scale != "probabilities":
        return scores
    shift = np.zeros(scores.shape[-1]) if model.cutoffs is None else np.array(model.cutoffs.shifts)
    own = scores + shift
    exponent = np.exp(own - own.max(axis=-1, keepdims=True))
    return np.asarray(exponent / exponent.sum(axis=-1, keepdims=True) * np.exp(-shift))


@dataclass(frozen=True)
class RowEffects:
    """Rows (n, d) with their scores `start` (n, classes) and curves: values (n, d, P) and the scores (n, d, P, classes)
    there. Q pairs are places (Q, 2) among q features `top` (n, q), whose values `grid` (n, q, g) were tried together:
    `both` are the scores (n, Q, g, g, classes)."""

    rows: Floats
    start: Floats
    curves: Curves
    categorical: Bools
    missing: Floats
    top: Ints
    pairs: Ints
    grid: Floats
    both: Floats

    def scaled(self, model: Model, scale: str) -> RowEffects:
        """The same in a scale."""
        curves = replace(self.curves, scores=in_scale(model, self.curves.scores, scale))
        both = in_scale(model, self.both, scale)
        return replace(self, start=in_scale(model, self.start, scale), curves=curves, both=both)

    def effects(self) -> Floats:
        """The effects (n, d, P, classes) at the values of the curves."""
        return np.asarray(self.curves.scores - curves_at(self.curves, self.rows[:, None]).transpose(0, 2, 1, 3))

    def tables(self) -> Floats:
        """The tables (n, Q, g, g, classes) of what pairs do beyond their sum."""
        own = (self.grid == np.take_along_axis(self.rows, self.top, axis=1)[:, :, None]).argmax(axis=2)
        return interactions(self.both, own[:, self.pairs[:, 0]], own[:, self.pairs[:, 1]])

    def terms(self, edits: Edits, truth: Floats, chosen: Ints | None = None) -> Terms:
        """What is added up for edits with true scores (n, m, classes), with all pairs, or for chosen ones (n, K)."""
        alone = curves_at(self.curves, edits.rows) - curves_at(self.curves, self.rows[:, None])
        changed = (edits.rows != self.rows[:, None]).sum(axis=2)
        moved = np.take_along_axis(edits.rows, self.top[:, None], axis=2).transpose(0, 2, 1)
        weights = grid_weights(moved, self.grid, self.categorical[self.top], self.missing[self.top])
        tables, sides = self.tables(), self.pairs.T
        if chosen is None:
            part = [weights[:, side] for side in sides]
        else:
            number = np.maximum(chosen, 0)
            tables = np.take_along_axis(tables, number[:, :, None, None, None], axis=1)
            part = [np.take_along_axis(weights, side[number][:, :, None, None], axis=1) for side in sides]
        return Terms(edits, alone.sum(axis=2), looked_up(tables, *part), changed, truth)


def curves_at(curves: Curves, edits: Floats) -> Floats:
    """The scores (n, m, d, classes) of curves at the values of edits (n, m, d), one feature at a time."""
    n, d, most = curves.values.shape
    at = edits.transpose(0, 2, 1).reshape(n * d, -1)
    heights = curves.scores.reshape(n * d, most, -1)
    found = interpolate(curves.values.reshape(n * d, most), heights, at)
    return found.reshape(n, d, at.shape[1], -1).transpose(0, 2, 1, 3)
