"""The features of a table: their domain, and the words for them in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from grace.errors import GraceError
from grace.schema.domains import MAX_DECIMALS, Domain, central, decimals_of, range_of, tail_of
from grace.schema.parsing import Bound, fitted

Value = str | int | float | bool
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

FEW_INTEGERS = 20  # non-negative integers with a shorter range are scores, others counts
MAX_CATEGORIES = 1000
MISSING = "missing"  # the category of a missing cell
DECIMALS_LIMIT = 300  # in absolute value; negative: tens, hundreds, ...
WINSOR = 0.01  # the share of each tail that is clipped before the standard deviation is taken

STYLES = ("exact", "magnitude", "relative")  # the precision with which a difference is stated
KINDS = {
    "count": "exact",
    "amount": "magnitude",
    "share": "magnitude",
    "score": "exact",
    "measurement": "magnitude",
    "date": "exact",
}
"""The kinds of numbers, and the style that "auto" selects. Scores and dates have no natural zero, hence no ratios."""
WORDS = ("phrase", "noun", "plural", "unit", "unit_one", "been", "more", "less", "labels")
"""The attributes that `translations` may hold per language; all are text but for WORD_TYPES."""
WORD_TYPES: dict[str, Any] = {"plural": bool, "labels": Mapping[str, str]}


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A number. `low` and `high`, set by an expert, take precedence over `observed`, the range of the data. A change of
    one `spread` counts `cost` in the distance. A `frozen` feature never changes, a `protected` one only if a call names
    it (see `Schema.constrain`). `kind` is one of KINDS, by default inferred from the data; `style` one of STYLES, by
    default that of the kind. `dtype` is the column's dtype if it is not int64 or float64 (see `columns`). With `gaps`,
    missing cells are a value of their own to the model, which no change touches. `phrase` is the subject of sentences
    ("the patient … older"), `noun` the name of the feature itself if it differs ("age"); `translations` holds the words
    in other languages."""

    name: str
    kind: str = ""
    style: str = ""
    dtype: str = ""
    gaps: bool = False
    low: Bound | None = None
    high: Bound | None = None
    integer: bool | None = None
    decimals: int | None = None
    observed: tuple[float, float] | None = None
    spread: float | None = None
    typical: float | None = None
    frozen: bool = False
    protected: bool = False
    increase_only: bool = False
    decrease_only: bool = False
    cost: float = 1.0
    phrase: str = ""
    noun: str = ""
    plural: bool = False
    unit: str = ""
    unit_one: str = ""
    been: str = "been"
    more: str = "higher"
    less: str = "lower"
    translations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part, known in (("kind", KINDS), ("style", STYLES)):
            if getattr(self, part) not in ("", *known):
                raise GraceError(
                    f"feature {self.name!r}: {part}={getattr(self, part)!r} is unknown; use one of {', '.join(known)}"
                )
        _check_translations(self)
        for part in ("low", "high", "spread", "typical", "decimals", "integer"):
            object.__setattr__(self, part, plain(getattr(self, part)))
        if self.observed is not None:
            object.__setattr__(self, "observed", (float(self.observed[0]), float(self.observed[1])))
            if not self.observed[0] <= self.observed[1]:
                raise GraceError(f"feature {self.name!r}: observed={list(self.observed)} is not a range, low to high")
        for part in ("low", "high"):
            if getattr(self, part) is not None and np.isnan(getattr(self, part)):
                raise GraceError(f"feature {self.name!r}: {part}=nan is not a bound; leave it out or give a number")
        if self.low is not None and self.high is not None and self.low > self.high:
            message = "feature {name!r}: low={low} lies above high={high}"
            raise GraceError(message, name=self.name, low=self.low, high=self.high)
        _check_change(self)
        if self.spread is not None and not self.spread > 0:
            raise GraceError(f"feature {self.name!r}: spread={self.spread} is not positive")
        if self.decimals is not None and abs(self.decimals) > DECIMALS_LIMIT:
            raise GraceError(f"feature {self.name!r}: decimals={self.decimals} is not within {DECIMALS_LIMIT}")

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """(low, high) of new values; integers for an integer feature."""
        lo, hi = self.observed or (-np.inf, np.inf)
        lo, hi = lo if self.low is None else self.low, hi if self.high is None else self.high
        if self.low is None and self.high is not None:
            lo = min(lo, hi)
        if self.high is None and self.low is not None:
            hi = max(lo, hi)
        if self.integer:
            if np.ceil(lo) > np.floor(hi):
                message = "feature {name!r}: no whole number lies between {low} and {high}; widen low and high"
                raise GraceError(message, name=self.name, low=lo, high=hi)
            lo, hi = float(np.ceil(lo)), float(np.floor(hi))
        return lo, hi

    @property
    def fixed(self) -> bool:
        """Whether the feature may not change: frozen, or protected and not named by the call."""
        return self.frozen or self.protected

    @cached_property
    def missing_code(self) -> float:
        """The number that encodes a missing cell: outside any domain. NaN without `gaps`."""
        return (self.typical or 0.0) - 1000.0123456789 * (self.spread or 1.0) if self.gaps else np.nan

    @property
    def complete(self) -> bool:
        """Whether the range is known."""
        return self.observed is not None or (self.low is not None and self.high is not None)

    @cached_property
    def number_kind(self) -> str:
        """The declared kind of number, or the one that the range suggests."""
        if self.kind:
            return self.kind
        low, high = self.bounds
        if not self.integer or low < 0:
            return "measurement"
        return "score" if high - low < FEW_INTEGERS else "count"

    @cached_property
    def digits(self) -> int:
        """Decimals to which new values are rounded: 10**-digits is the coarser of the data's precision and a thousandth
        of the spread (negative: tens, hundreds, ...)."""
        decimals = MAX_DECIMALS if self.decimals is None else self.decimals
        return int(min(0 if self.integer else decimals, -np.floor(np.log10((self.spread or 1.0) / 1000))))

    def observe(self, values: Floats, domain: Domain) -> Numeric:
        """A copy with unset attributes estimated from the training values."""
        distinct = np.unique(values)
        integer = self.integer
        if integer is None:
            integer = bool(np.all(distinct == np.round(distinct)))
        decimals = decimals_of(distinct) if self.decimals is None else self.decimals
        observed = range_of(values, tail_of(domain))
        spread = self.spread
        if spread is None:
            spread = float(np.std(np.clip(values, *central(values, WINSOR))))
            spread = spread or float(distinct[-1] - distinct[0]) or 1.0
        typical = self.typical
        if typical is None:
            typical = float(np.quantile(values, 0.5, method="lower"))
        return replace(self, integer=integer, decimals=decimals, observed=observed, spread=spread, typical=typical)

    def with_domain(self, values: Floats, domain: Domain) -> Numeric:
        """A copy with the range of another domain."""
        return replace(self, observed=range_of(values, tail_of(domain)))


@dataclass(frozen=True, kw_only=True)
class Categorical:
    """One of a few values. No change selects the categories in `never`, nor those in `rare`, which are infrequent in
    the data, unless an expert lists them in `always`. Of `ordered` categories, a change of one `spread` in rank counts
    `cost` in the distance, and they may be increase_only or decrease_only; of others, any change counts `cost`. With
    `gaps`, the category "missing" encodes a missing cell; `other`, if given, stands for all values that are not listed.
    A group has one one-hot column of the table per category, in `columns`."""

    name: str
    dtype: str = ""
    columns: tuple[str, ...] = ()
    gaps: bool = False
    other: str = ""
    categories: tuple[Value, ...] = ()
    never: tuple[Value, ...] = ()
    always: tuple[Value, ...] = ()
    rare: tuple[Value, ...] = ()
    ordered: bool = False
    spread: float | None = None
    typical: Value | None = None
    frozen: bool = False
    protected: bool = False
    increase_only: bool = False
    decrease_only: bool = False
    cost: float = 1.0
    phrase: str = ""
    noun: str = ""
    plural: bool = False
    been: str = "been"
    labels: Mapping[str, str] = field(default_factory=dict)
    translations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_translations(self)
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.columns and len(self.columns) != len(self.categories):
            raise GraceError(f"feature {self.name!r}: a group has one category for each of its columns")
        for part in ("categories", "never", "always", "rare"):
            object.__setattr__(self, part, tuple(plain(c) for c in getattr(self, part)))
        _check_change(self)
        if len(set(self.categories)) != len(self.categories):
            raise GraceError(f"feature {self.name!r}: a category is listed twice")
        for part in ("never", "always"):
            for value in getattr(self, part):
                if self.categories and value not in self.categories:
                    raise GraceError(f"feature {self.name!r}: {part}={value!r} is not one of its categories")
        if self.other and self.categories and self.other not in self.categories:
            raise GraceError(f"feature {self.name!r}: other={self.other!r} is not one of its categories")
        if self.categories and not self.selectable:
            raise GraceError(f"feature {self.name!r}: `never` leaves no category to choose")

    @property
    def complete(self) -> bool:
        """Whether the categories are known."""
        return bool(self.categories)

    @property
    def fixed(self) -> bool:
        """Whether the feature may not change: frozen, or protected and not named by the call."""
        return self.frozen or self.protected

    @cached_property
    def selectable(self) -> tuple[Value, ...]:
        """The categories that a change may select."""
        return tuple(c for c in self.categories if c not in self.never and c not in self.rare)

    def label(self, value: Value) -> str:
        """The words for a category."""
        return self.labels.get(str(value), str(value))

    def observe(self, values: pd.Series[Any], domain: Domain = "minmax") -> Categorical:
        """A copy with unset attributes estimated from the training values."""
        categories, ordered = self.categories, self.ordered
        if not categories:
            present = values.dropna()
            try:
                _check_plain(self.name, present.unique())
            except TypeError:  # unhashable cells, such as lists
                _check_plain(self.name, present)
            if isinstance(present.dtype, pd.CategoricalDtype):
                observed = set(present)
                categories = tuple(plain(c) for c in present.cat.categories if c in observed)
                ordered = ordered or bool(present.cat.ordered)
            else:
                categories = tuple(sorted({plain(v) for v in present.unique()}, key=lambda v: (str(type(v)), v)))
            if len(categories) > MAX_CATEGORIES:
                raise GraceError(
                    f"column {self.name!r} has {len(categories)} different values, too many for categories; "
                    "turn it into a number or a few categories, or drop it"
                )
        typical = self.typical
        if typical is None:
            counts = values.value_counts()
            typical = plain(counts.index[0]) if len(counts) else categories[0]
        spread = self.spread
        if ordered and spread is None:
            ranks = {category: rank for rank, category in enumerate(categories)}
            seen = np.array([ranks[plain(v)] for v in values.dropna() if plain(v) in ranks], dtype=np.float64)
            spread = float(np.std(seen)) or 1.0
        out = replace(self, categories=categories, ordered=ordered, spread=spread, typical=typical, rare=())
        return out.with_domain(values, domain)

    def with_domain(self, values: pd.Series[Any], domain: Domain) -> Categorical:
        """A copy with the `rare` categories of another domain: the least frequent ones, whose total share is at most
        the domain's tail. At least two categories remain."""
        shares = values.value_counts(normalize=True)
        frequency = {category: 0.0 for category in self.categories if category not in self.never}
        for value, share in zip(shares.index, shares, strict=True):
            category = plain(value) if plain(value) in self.categories else self.other
            if category in frequency:
                frequency[category] += share
        rarest = sorted((c for c in frequency if c not in self.always), key=lambda c: frequency[c])
        cumulative = np.cumsum([frequency[c] for c in rarest])
        count = min(int(np.searchsorted(cumulative, tail_of(domain) + 1e-12, side="right")), len(frequency) - 2)
        rare = set(rarest[: max(0, count)])
        return replace(self, rare=tuple(c for c in self.categories if c in rare))


Feature = Numeric | Categorical


def _check_plain(name: str, cells: Any) -> None:
    """Raises an error for cells that are arbitrary objects: they would reach a model as text."""
    for cell in cells:
        if not isinstance(cell, str | int | float | bool | np.generic | pd.Interval):
            raise GraceError(
                f"column {name!r} holds cells such as {cell!r} ({type(cell).__name__}); turn them into numbers or "
                f"text as frame[{name!r}].astype(str) does, before the model is trained"
            )


def _check_change(feature: Feature) -> None:
    if feature.increase_only and feature.decrease_only:
        raise GraceError(f"feature {feature.name!r} is increase_only and decrease_only; use frozen")
    if isinstance(feature.cost, bool) or not isinstance(feature.cost, int | float) or not 0 < feature.cost < np.inf:
        raise GraceError(f"feature {feature.name!r}: cost={feature.cost!r} must be a positive number")


def _check_translations(feature: Feature) -> None:
    allowed = [w for w in WORDS if hasattr(feature, w)]
    for language, words in feature.translations.items():
        for word in words:
            if word not in allowed:
                raise GraceError(
                    f"feature {feature.name!r}: translations[{language!r}] has an unknown part {word!r}; "
                    f"it may have {', '.join(allowed)}"
                )
            what = f"feature {feature.name!r}: translations[{language!r}]: {word}"
            fitted(words[word], WORD_TYPES.get(word, str), what)


def columns_of(feature: Feature) -> tuple[str, ...]:
    """The columns of the table that hold the feature."""
    return (feature.columns if isinstance(feature, Categorical) else ()) or (feature.name,)


def plain(value: Any) -> Any:
    """The value as a Python scalar, so that it survives JSON; any other object as text."""
    scalar = value.item() if isinstance(value, np.generic) else value
    return scalar if scalar is None or isinstance(scalar, str | int | float | bool) else str(scalar)
