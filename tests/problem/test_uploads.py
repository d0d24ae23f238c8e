"""Arrays on their way to a device."""

import numpy as np
import pytest
import torch

from grace.problem import uploads
from grace.problem.uploads import parts, uploaded

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(3, 2), (70_001, 61)])
def test_the_copy_is_the_same(device: str, order: str, shape: tuple[int, int]) -> None:
    rows = np.array(np.random.default_rng(0).normal(size=shape), order=order)
    there = uploaded(rows, torch.device(device))
    assert there.device.type == device
    assert there.stride(1 if order == "C" else 0) == 1
    np.testing.assert_array_equal(there.cpu().numpy(), rows)


@pytest.mark.parametrize("size", [1, uploads.BUFFER, 9 * uploads.BUFFER + 5])
def test_parts_cover_an_array_once(size: int) -> None:
    seen = np.zeros(size, dtype=int)
    for first in range(uploads.MOST_THREADS):
        for part in parts(size, first):
            seen[part] += 1
    assert (seen == 1).all()
