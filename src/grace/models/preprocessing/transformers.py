"""scikit-learn's transformers of single columns: which column of the result depends on which, and how.

Only what depends on what is known here; values are found by calling the transformer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from grace.models.preprocessing.columns import Column, Cut, Step
from grace.models.preprocessing.formulas import Affine, BoxCox, Clip, Formula, Named, Quantiles, YeoJohnson

Columns = list[Column]
HUGE = 300.0  # decimal digits up to which powers are taken: beyond it, they overflow
EXACT = 2**53  # whole numbers up to which doubles hold each
TINY = float(np.nextafter(0.0, 1.0))
FUNCTIONS: dict[Any, tuple[float, float]] = {
    np.log: (TINY, np.inf),
    np.log2: (TINY, np.inf),
    np.log10: (TINY, np.inf),
    np.log1p: (float(np.nextafter(-1.0, 0.0)), np.inf),
    np.sqrt: (0.0, np.inf),
    np.exp: (-np.inf, 700.0),
    np.expm1: (-np.inf, 700.0),
    np.cbrt: (-np.inf, np.inf),
    np.arcsinh: (-np.inf, np.inf),
}
"""Functions of numbers that never fall, and where their values are finite numbers."""


class UnreadableError(Exception):
    """What is done to a row is not a function of single columns, or not known to be one."""


def untouched(part: Any, *methods: str) -> bool:
    """Whether a part is of a class of scikit-learn's own, and none of these methods was replaced."""
    return type(part).__module__.startswith("sklearn.") and not any(m in vars(part) for m in methods)


def read_transformer(transformer: Any, inputs: Sequence[Column]) -> Columns:
    """The columns that a transformer makes of columns; an error if that is not known."""
    reader = READERS.get(type(transformer).__name__)
    if reader is None or not untouched(transformer, "transform", "get_support"):
        raise UnreadableError(f"a {type(transformer).__name__} is not read")
    if getattr(transformer, "n_features_in_", None) != len(inputs):
        raise UnreadableError(f"a {type(transformer).__name__} was not fitted on these columns")
    return reader(transformer, list(inputs))


def _scaled(transformer: Any, inputs: Columns, factors: Any, offsets: Any) -> Columns:
    size = len(inputs)
    factors = np.ones(size) if factors is None else np.asarray(factors, dtype=np.float64)
    offsets = np.zeros(size) if offsets is None else np.asarray(offsets, dtype=np.float64)
    if not (factors > 0).all():
        raise UnreadableError("a scale is not positive")
    return [c.affine(float(factors[j]), float(offsets[j]), Step(transformer, j, j)) for j, c in enumerate(inputs)]


def _clipped(transformer: Any, inputs: Columns, factors: Any, offsets: Any, limits: Sequence[float]) -> Columns:
    """Columns that are scaled, and then clipped."""
    lines = [Affine(float(factor), float(offset)) for factor, offset in zip(factors, offsets, strict=True)]
    ends = Clip(float(limits[0]), float(limits[1]))
    return [c.monotone(Step(transformer, j, j), formula=(lines[j], ends)) for j, c in enumerate(inputs)]


def _quantiles(transformer: Any, inputs: Columns) -> Columns:
    shares, normal = tuple(transformer.references_.tolist()), transformer.output_distribution == "normal"
    return [
        c.monotone(Step(transformer, j, j), formula=[Quantiles(tuple(knots.tolist()), shares, normal)])
        for j, (c, knots) in enumerate(zip(inputs, transformer.quantiles_.T, strict=True))
    ]


def _centred(transformer: Any, inputs: Columns, centre: Any) -> Columns:
    """(x - centre) / scale, either of which may be left out."""
    factors = None if transformer.scale_ is None else 1 / np.asarray(transformer.scale_, dtype=np.float64)
    offsets = None if centre is None else -np.asarray(centre) * (1.0 if factors is None else factors)
    return _scaled(transformer, inputs, factors, offsets)


def _standard(transformer: Any, inputs: Columns) -> Columns:
    return _centred(transformer, inputs, transformer.mean_ if transformer.with_mean else None)


def _robust(transformer: Any, inputs: Columns) -> Columns:
    return _centred(transformer, inputs, transformer.center_)


def _min_max(transformer: Any, inputs: Columns) -> Columns:
    if transformer.clip:
        return _clipped(transformer, inputs, transformer.scale_, transformer.min_, transformer.feature_range)
    return _scaled(transformer, inputs, transformer.scale_, transformer.min_)


def _max_abs(transformer: Any, inputs: Columns) -> Columns:
    if getattr(transformer, "clip", False):
        return _clipped(transformer, inputs, 1 / transformer.scale_, 0 * transformer.scale_, (-1, 1))
    return _scaled(transformer, inputs, 1 / transformer.scale_, None)


def _power(transformer: Any, inputs: Columns) -> Columns:
    out = []
    for j, column in enumerate(inputs):
        power = float(transformer.lambdas_[j])
        positive = transformer.method == "box-cox"
        most = 10 ** (HUGE / max(abs(power), 0.0 if positive else abs(2 - power), 1.0))
        formula: list[Formula] = [BoxCox(power) if positive else YeoJohnson(power)]
        if transformer.standardize:
            scaler = transformer._scaler
            formula.append(Affine(float(1 / scaler.scale_[j]), float(-scaler.mean_[j] / scaler.scale_[j])))
        low = 1 / most if positive else -most
        out.append(column.monotone(Step(transformer, j, j), low, most, formula))
    return out


def _function(transformer: Any, inputs: Columns) -> Columns:
    function = transformer.func
    if function is None:
        return inputs
    if transformer.kw_args:
        raise UnreadableError("a function with arguments is not read")
    if function is np.negative:
        return [c.affine(-1.0, 0.0, Step(transformer, j, j)) for j, c in enumerate(inputs)]
    for known, (lower, upper) in FUNCTIONS.items():
        if function is known:
            parts = [Named(known.__name__)]
            return [c.monotone(Step(transformer, j, j), lower, upper, parts) for j, c in enumerate(inputs)]
    raise UnreadableError("a function that is not known is not read")


def _equal_to(column: Column, labels: Any, every: bool) -> Column:
    """A function that tells labels apart, and nothing else. Of numbers, it is known only if it takes `every` one."""
    values = np.asarray(labels)
    if not every or values.dtype.kind not in "iuf":
        return column.table()
    numbers = values[~pd.isna(values)].astype(np.float64)
    if (np.abs(numbers) > EXACT).any():
        return column.table()
    cuts: list[Cut] = [(float(number), strict) for number in numbers for strict in (True, False)]
    return column.steps(cuts)


def _one_hot(encoder: Any, inputs: Columns) -> Columns:
    infrequent = getattr(encoder, "infrequent_categories_", None) or [None] * len(inputs)
    drop = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(inputs)
    out: Columns = []
    for j, column in enumerate(inputs):
        rare = 0 if infrequent[j] is None else len(infrequent[j])
        count = len(encoder.categories_[j]) - rare + (rare > 0) - (drop[j] is not None)
        out += [_equal_to(column, encoder.categories_[j], encoder.handle_unknown != "error")] * count
    return out


def _ordinal(encoder: Any, inputs: Columns) -> Columns:
    every = encoder.handle_unknown == "use_encoded_value"
    return [_equal_to(c, encoder.categories_[j], every) for j, c in enumerate(inputs)]


def _target(encoder: Any, inputs: Columns) -> Columns:
    count = len(encoder.classes_) if encoder.target_type_ == "multiclass" else 1
    return [_equal_to(c, encoder.categories_[j], True) for j, c in enumerate(inputs) for _ in range(count)]


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))


def _indicator(indicator: Any, inputs: Columns) -> Columns:
    """Whether a cell is missing: no number is, unless one stands for missing cells."""
    gaps = _is_missing(indicator.missing_values)
    columns = [inputs[j] for j in indicator.features_]
    return [c.steps(()) if gaps else c.table() for c in columns]


def _imputer(imputer: Any, inputs: Columns) -> Columns:
    """Numbers stay as they are, unless one stands for missing cells. Columns without any value are dropped."""
    kept = np.ones(len(inputs), dtype=bool) if imputer.keep_empty_features else ~pd.isna(imputer.statistics_)
    out = [c if _is_missing(imputer.missing_values) else c.table() for c, k in zip(inputs, kept, strict=True) if k]
    return out if imputer.indicator_ is None else out + _indicator(imputer.indicator_, inputs)


def _bins(discretiser: Any, inputs: Columns) -> Columns:
    out: Columns = []
    for j, column in enumerate(inputs):
        cuts: list[Cut] = [(float(edge), True) for edge in discretiser.bin_edges_[j][1:-1]]
        rounded = discretiser.dtype not in (None, np.float64)
        made = column.table() if rounded else column.steps(cuts)
        out += [made] * (1 if discretiser.encode == "ordinal" else int(discretiser.n_bins_[j]))
    return out


def _binary(transformer: Any, inputs: Columns) -> Columns:
    return [c.steps([(float(transformer.threshold), False)]) for c in inputs]


def _selected(selector: Any, inputs: Columns) -> Columns:
    return [c for c, kept in zip(inputs, selector.get_support(), strict=True) if kept]


READERS: dict[str, Callable[[Any, Columns], Columns]] = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "QuantileTransformer": _quantiles,
    "PowerTransformer": _power,
    "FunctionTransformer": _function,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "TargetEncoder": _target,
    "SimpleImputer": _imputer,
    "MissingIndicator": _indicator,
    "KBinsDiscretizer": _bins,
    "Binarizer": _binary,
    "VarianceThreshold": _selected,
    "SelectKBest": _selected,
    "SelectPercentile": _selected,
    "SelectFpr": _selected,
    "SelectFdr": _selected,
    "SelectFwe": _selected,
    "GenericUnivariateSelect": _selected,
    "SelectFromModel": _selected,
    "SequentialFeatureSelector": _selected,
    "RFE": _selected,
    "RFECV": _selected,
}
