"""ReLU networks along one feature in exact arithmetic: the slow, literal reference of the compiled lines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from grace.models.compiled import Floats, Layers, layers_of

Matrix = list[list[Fraction]]
ALLOWANCE = 16.0  # the bound on rounding, in units of the least double above 1 times the number of terms


@dataclass(frozen=True)
class ExactNetwork:
    """Weights (units, inputs) and biases of each layer, and the slope below zero after each but the last."""

    layers: list[tuple[Matrix, list[Fraction]]]
    leak: list[Fraction]

    @classmethod
    def of(cls, layers: Sequence[tuple[np.ndarray, np.ndarray]], leak: Sequence[float]) -> ExactNetwork:
        """The doubles are taken to be exact."""
        exact = [([[Fraction(w) for w in row] for row in weight.tolist()], [Fraction(b) for b in bias.tolist()])
                 for weight, bias in layers]  # fmt: skip
        return cls(exact, [Fraction(s) for s in leak])

    def compiled(self) -> Layers:
        arrays = [(np.array(w, dtype=float), np.array(b, dtype=float)) for w, b in self.layers]
        return layers_of(*arrays[0], {}, arrays[1:], [float(s) for s in self.leak])

    def scores(self, row: Sequence[Fraction]) -> list[Fraction]:
        values = list(row)
        for place, (weight, bias) in enumerate(self.layers):
            if place:
                slope = self.leak[place - 1]
                values = [v if v > 0 else slope * v for v in values]
            values = [b + sum((w * v for w, v in zip(ws, values, strict=True)), Fraction(0))
                      for ws, b in zip(weight, bias, strict=True)]  # fmt: skip
        return values

    def breakpoints(self, row: Sequence[Fraction], j: int, low: Fraction, high: Fraction) -> list[Fraction]:
        """All values of feature j at which a unit switches, between two values, with these: between two switches of the
        layers before, a unit is linear and switches at most once."""

        def units(value: Fraction, depth: int) -> list[Fraction]:
            moved = [*row[:j], value, *row[j + 1 :]]
            return ExactNetwork(self.layers[: depth + 1], self.leak[:depth]).scores(moved)

        points = [low, high]
        for depth in range(len(self.layers) - 1):
            more = []
            for begin, end in itertools.pairwise(points):
                for left, right in zip(units(begin, depth), units(end, depth), strict=True):
                    if left * right < 0:
                        more.append(begin + (end - begin) * left / (left - right))
            points = sorted({*points, *more})
        return points


def rounding(net: Layers, low: Floats, high: Floats) -> float:
    """A bound on the rounding of scores anywhere between two rows: the sum of the absolute values of all their terms,
    times the number of operations on each and the precision of doubles."""
    mass = np.abs(net.bias) + np.where(net.begins < 0, np.maximum(np.abs(low), np.abs(high)), 0.0) @ np.abs(net.first)
    tables = [*(begin for begin in net.begins.tolist() if begin >= 0), len(net.tables)]
    for begin, end in itertools.pairwise(tables):
        mass = mass + np.abs(net.tables[begin:end]).max(axis=0)
    for layer, offset in enumerate(net.offsets.tolist()):
        units, after = net.units[layer + 1] - net.widths[0], net.units[layer + 2] - net.widths[0]
        weights = net.weights[offset : offset + net.widths[layer] * net.widths[layer + 1]]
        mass = mass @ np.abs(weights).reshape(net.widths[layer], -1) + np.abs(net.biases[units:after])
    return float(ALLOWANCE * (len(low) + net.units[-1]) * np.finfo(np.float64).eps * mass.max())
