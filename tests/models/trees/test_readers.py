"""Which models are read at all, and what nodes say about rows by definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from grace.models.trees.assembly import Growing, on_columns, scaled, together
from grace.models.trees.reading import READERS, read_trees
from grace.models.trees.reference import evaluate, leaves, predicted
from tree_data import ROWS, TWO


def posing(module: str, name: str) -> Any:
    """An object whose class says that it is of a library."""
    return type(name, (), {"__module__": module, "predict": lambda self, rows: rows})()


@pytest.mark.parametrize(
    "model",
    [
        None,
        "a model",
        lambda rows: rows,
        make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(ROWS, TWO),
        posing("sklearn.tree._classes", "DecisionTreeClassifier"),
        *(posing(library, "Booster") for library in READERS),
    ],
    ids=lambda model: type(model).__module__ + type(model).__name__,
)
def test_other_objects_are_not_read(model: Any) -> None:
    assert read_trees(model) is None


def grown(strict: bool, dtype: str) -> Any:
    growing = Growing(2)
    low, high, other = growing.leaf([1, 0]), growing.leaf([0, 1]), growing.leaf(5)
    number = growing.split(0, 0.1, True, low, high)
    growing.roots.append(growing.split_set(1, frozenset({0, 3}), False, number, other))
    growing.roots.append(growing.leaf([0.5, 0.25]))
    return growing.nodes(np.array([10.0, 20.0]), 2, strict=strict, dtype=dtype, link="identity")


def test_rows_go_where_they_belong() -> None:
    nodes = grown(strict=True, dtype="float64")
    cells = [[0.1, 0], [np.nextafter(0.1, 0), 3], [np.nan, 3], [0, 1], [0, 4], [0, -1], [0, np.nan]]
    expected = [[0, 1], [1, 0], [1, 0], [5, 5], [5, 5], [5, 5], [5, 5]]
    np.testing.assert_array_equal(evaluate(nodes, np.array(cells)), np.array(expected) + np.array([10.5, 20.25]))
    assert evaluate(grown(strict=False, dtype="float64"), np.array(cells[:1])).tolist() == [[11.5, 20.25]]
    below = np.array([[np.nextafter(0.1, 0), 0]])  # as a float32, it is above 0.1
    assert evaluate(grown(strict=False, dtype="float32"), below).tolist() == [[10.5, 21.25]]
    assert evaluate(grown(strict=False, dtype="float64"), below).tolist() == [[11.5, 20.25]]


def test_nodes_are_put_together() -> None:
    nodes = grown(strict=True, dtype="float64")
    rows = np.array([[0.0, 0, 3, 9.0], [2.0, 1, 0, 0.0]])
    wide = on_columns(nodes, [3, 2], 4)
    np.testing.assert_array_equal(evaluate(wide, rows), evaluate(nodes, rows[:, [3, 2]]))
    both = together([scaled(wide, 0.5), wide])
    assert both is not None
    np.testing.assert_allclose(evaluate(both, rows), 1.5 * evaluate(wide, rows))
    assert leaves(both, rows).shape == (2, 4)
    assert together([wide, nodes]) is None


def test_links() -> None:
    nodes = grown(strict=True, dtype="float64")
    sums = np.array([[0.0, np.log(3)]])
    np.testing.assert_allclose(predicted(replace(nodes, link="softmax"), sums, True), [[0.25, 0.75]])
    np.testing.assert_allclose(predicted(replace(nodes, link="logistic"), sums[:, 1:], True), [[0.25, 0.75]])
    np.testing.assert_allclose(predicted(replace(nodes, link="logistic"), sums[:, 1:], False), [0.75])
    np.testing.assert_allclose(predicted(replace(nodes, link="exp"), sums[:, 1:], False), [3])
    assert predicted(nodes, sums[:, 1:], False).shape == (1,)
