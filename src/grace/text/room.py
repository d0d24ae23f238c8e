"""What a sentence says about the region of an explanation, the box around its answer in which the decision is the same.

In the style "range", every change is stated by all values that its feature may have: "at least 7 points lower" up to
the end of the range, "between 34 and 41", or any of some categories. That is true of all changes together, as the box
is. Only a proven region is stated so; what `room=True` adds says of any other at how many points the model was asked.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from grace.schema.columns import date_text, is_date
from grace.schema.features import Categorical, Feature, Numeric
from grace.schema.formatting import decimal
from grace.text.languages import Language, RegionValues
from grace.text.precision import (
    RANGE,
    AnyCategory,
    AtLeast,
    Difference,
    StableInterval,
    difference,
    direction,
    round_digits,
    short_difference,
)

if TYPE_CHECKING:
    from grace.explain.explanation import Change, Explanation
    from grace.explain.region import Region


def range_or_exact(e: Explanation, style: str | None, form: str) -> str | None:
    """The style to use: of "range", "exact" where no region is proven, and where the sentence says what was the case,
    which is one value of each feature."""
    if style != RANGE:
        return style
    return RANGE if form == "had" and e.region is not None and e.region.proven else "exact"


def stated_by_range(change: Change, feature: Feature, region: Region) -> Difference:
    """A change by all values that the region has for it."""
    exact = difference(feature, change.old, change.new, "exact", ratios=False)
    if isinstance(feature, Categorical):
        known = region.categories.get(change.name, ())
        return AnyCategory(tuple(known), change.old) if len(known) > 1 else exact
    assert isinstance(feature, Numeric)
    low, high = (decimal(end) for end in region.intervals[change.name])
    old, new = decimal(change.old), decimal(change.new)
    up = new > old
    least, end = (low, high) if up else (high, low)
    if low == high:
        return exact
    if (least > old if up else least < old) and _is_end(feature, end, up) and not is_date(feature):
        size = short_difference(feature, old, least)
        if size is not None:
            return AtLeast(size, up)
    return direction(feature, old, new, StableInterval(low, high, to_the_end=False)) or exact


def _is_end(feature: Numeric, value: Decimal, up: bool) -> bool:
    """Whether a value is the end of the range of a feature."""
    low, high = feature.bounds
    return value == (decimal(high) if up else decimal(low))


def values_of(change: Change, feature: Feature, region: Region, language: Language) -> RegionValues:
    """The values of a feature in the region, in words: the two ends of an interval, rounded inwards, or categories."""
    if isinstance(feature, Categorical):
        return RegionValues(feature, tuple(feature.label(c) for c in region.categories[change.name]), is_interval=False)
    assert isinstance(feature, Numeric)
    ends: tuple[float, ...] = region.intervals[change.name]
    if is_date(feature):
        return RegionValues(
            feature, tuple(date_text(end) for end in dict.fromkeys(ends)), is_interval=ends[0] < ends[1]
        )
    low, high = (decimal(end) for end in ends)
    if low == high:
        return RegionValues(feature, (language.measured(feature, low),), is_interval=False)
    new = decimal(change.new)
    first, last = round_digits(low, rounding=ROUND_CEILING), round_digits(high, rounding=ROUND_FLOOR)
    first, last = first if first <= new else low, last if last >= new else high
    return RegionValues(feature, (language.number(first), language.measured(feature, last)), is_interval=True)
