"""Predictions of XGBoost for few rows by its C interface: checks and conversions of its Python methods take about as
long as a hundred trees."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from grace.schema.features import Floats

FUNCTION = "XGBoosterPredictFromDense"
Sizes = ctypes.POINTER(ctypes.c_uint64)
Numbers = ctypes.POINTER(ctypes.c_float)
Ask = Callable[[Any, Floats, float], Any]


def in_place(booster: Any, rows: Floats, missing: float) -> Any:
    """What a booster predicts for an array, by its Python method."""
    return booster.inplace_predict(rows, missing=missing, validate_features=False)


def by_interface() -> Ask:
    """The same by the C interface, where the library is loaded as it has been so far; else by the Python method."""
    from xgboost import core

    call = getattr(getattr(core, "_LIB", None), FUNCTION, None)
    return in_place if call is None else CInterface(call)


class CInterface:
    """The question to the function of the library."""

    def __init__(self, call: Callable[..., int]) -> None:
        self.call = call

    def __call__(self, booster: Any, rows: Floats, missing: float) -> Any:
        sizes, dimensions, numbers = Sizes(), ctypes.c_uint64(), Numbers()
        cells = np.ascontiguousarray(rows, dtype=np.float64)
        out = map(ctypes.byref, (sizes, dimensions, numbers))
        if self.call(booster.handle, array_text(cells), options(missing), None, *out):
            return in_place(booster, rows, missing)  # which says what is wrong
        shape = sizes[: dimensions.value]
        values = ctypes.string_at(numbers, 4 * int(np.prod(shape)))  # the library writes over its own next time
        return np.frombuffer(values, dtype=np.float32).reshape(shape)


def array_text(cells: Floats) -> bytes:
    """Where an array of rows is, as the library is told."""
    place, (n, d) = cells.__array_interface__["data"][0], cells.shape
    return b'{"data": [%d, true], "shape": [%d, %d], "strides": null, "typestr": "<f8", "version": 3}' % (place, n, d)


@lru_cache(maxsize=8)
def options(missing: float) -> bytes:
    """Of the question: probabilities or numbers, by all trees."""
    asked = {"type": 0, "training": False, "iteration_begin": 0, "iteration_end": 0, "missing": missing}
    return json.dumps({**asked, "strict_shape": False, "cache_id": 0}).encode()
