"""Distances in a space."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

import grace
from grace.problem.space import NORMS, Space

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("norm", NORMS)
def test_the_distance_of_a_single_change_is_its_cost(norm: str) -> None:
    """What a proof says of the least change of one number relies on it."""
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 8.0], "b": [1, 2, 3, 4], "c": ["x", "y", "x", "z"]})
    schema = grace.Schema.infer(frame).constrain(costs={"a": 3.0})
    space = Space(schema, norm=norm)
    row = torch.as_tensor(schema.encode(frame))[:1]
    for j, feature in enumerate(schema.features):
        other = row.clone()
        other[0, j] += 1
        alone = 1.0 if isinstance(feature, grace.Categorical) else feature.cost / feature.spread
        assert space.distance(row, other).item() == pytest.approx(alone)
