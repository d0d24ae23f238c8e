"""Large tables are encoded in parts, on threads: to the same bits in the same order, with the same errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch

import grace
from grace.schema import large_tables
from grace.schema.columns import plain_array, plain_cells

N = 500
RNG = np.random.default_rng(3)
REAL = RNG.normal(0, 50, (N, 6)).round(2)
NAMES = list("abcdef")
FRAME = pd.DataFrame(REAL, columns=NAMES)
WHOLE = RNG.integers(-(2**62), 2**62, N)
FRAMES: dict[str, Callable[[], pd.DataFrame]] = {
    "one block": FRAME.copy,
    "a block in rows": lambda: pd.DataFrame(REAL, columns=NAMES, copy=False),
    "a part of its rows": lambda: pd.DataFrame(REAL, columns=NAMES, copy=False).iloc[7:480],
    "every other row": lambda: FRAME.iloc[::2],
    "a column each": lambda: pd.DataFrame({name: REAL[:, j].copy() for j, name in enumerate(NAMES)}),
    "whole numbers": lambda: pd.DataFrame(REAL.astype("int32"), columns=NAMES, copy=False),
    "mixed": lambda: FRAME.assign(b=WHOLE, d=WHOLE.astype("uint8"), e=WHOLE.astype("uint64")),
    "single precision": lambda: FRAME.astype("float32"),
    "half precision": lambda: FRAME.assign(c=FRAME["c"].astype("float16"), e=FRAME["e"].astype("float32")),
    "other columns": lambda: FRAME[NAMES[::-1]].assign(kind="x", when=pd.Timestamp("2026-01-01")),
    "booleans": lambda: FRAME.assign(b=REAL[:, 1] > 0),
    "nullable": lambda: FRAME.assign(b=pd.array(WHOLE % 7, dtype="Int64"), c=FRAME["c"].astype("Float64")),
}


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of some hundred rows count as large."""
    for name, value in {"LARGE": 100, "PART": 150, "IN_CACHE": 32}.items():
        monkeypatch.setattr(large_tables, name, value)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


@pytest.mark.parametrize("kind", FRAMES)
def test_parts_give_the_same_bits_in_the_same_order(kind: str, request: pytest.FixtureRequest) -> None:
    frame = FRAMES[kind]()
    before = frame.copy()
    schema = grace.Schema.infer(frame[NAMES])
    expected = schema.encode(frame)
    request.getfixturevalue("in_parts")
    found = schema.encode(frame)
    assert found.tobytes() == expected.tobytes()
    assert found.strides == expected.strides
    assert found.flags.writeable
    assert not any(np.shares_memory(found, frame[name].to_numpy()) for name in NAMES)
    found[:] = 0
    pd.testing.assert_frame_equal(frame, before, check_exact=True)


@pytest.mark.parametrize("rows", [REAL, np.asfortranarray(REAL), REAL[::2], REAL.astype("float32"), REAL.astype(int)])
def test_arrays_too(rows: np.ndarray, request: pytest.FixtureRequest) -> None:
    features = grace.Schema.infer(FRAME).features
    expected = plain_array(rows, features)
    request.getfixturevalue("in_parts")
    found = plain_array(rows, features)
    assert expected is not None
    assert found is not None
    assert found.tobytes() == expected.tobytes()
    assert found.strides == expected.strides
    assert not np.shares_memory(found, rows)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize(("cell", "said"), [(np.nan, "is missing"), (np.inf, "infinite"), (-np.inf, "infinite")])
@pytest.mark.parametrize("row", [0, 300, N - 1])
def test_the_same_error_wherever_the_cell_is(
    row: int, cell: float, said: str, copy: bool, request: pytest.FixtureRequest
) -> None:
    schema, cells = grace.Schema.infer(FRAME), REAL.copy()
    cells[row, 4] = cell
    frame = pd.DataFrame(cells, columns=NAMES, copy=copy)
    errors = []
    for _ in range(2):
        for given in (frame, cells):
            with pytest.raises(grace.GraceError, match=said) as raised:
                schema.encode(given)
            errors.append(str(raised.value))
        request.getfixturevalue("in_parts")
        assert plain_cells(frame, list(range(6)), schema.features) is None
        assert plain_array(cells, schema.features) is None
    assert "'e'" in errors[0]
    assert errors[:2] == errors[2:]


def test_missing_cells_are_kept_if_asked_for(in_parts: None) -> None:
    holes = FRAME.mask(RNG.random(FRAME.shape) < 0.01)
    found = grace.Schema.infer(FRAME).encode(holes, missing=True)
    assert np.array_equal(found, holes.to_numpy(), equal_nan=True)


def test_a_table_that_is_really_large() -> None:
    frame = pd.DataFrame(RNG.normal(size=(40_000, 30))).add_prefix("x").assign(x3=np.arange(40_000))
    assert large_tables.is_large(*frame.shape)
    schema = grace.Schema.infer(frame.head(100))
    assert schema.encode(frame).tobytes() == frame.to_numpy(dtype=np.float64).tobytes()
    frame.iloc[-1, -1] = np.inf
    with pytest.raises(grace.GraceError, match="'x29', row 39999: the value is infinite"):
        schema.encode(frame)
