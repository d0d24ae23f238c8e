"""Whether rows satisfy rules, and by how much they violate them.

The violation of a rule is 0 if a row satisfies it, else positive: the distance to satisfying it, in spreads if it
concerns numbers, so that a search can decrease it. A row with a missing cell satisfies all rules about that cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.schema.caching import cached_on_first
from grace.schema.features import MISSING, Bools, Categorical, Feature, Floats, Numeric, Value
from grace.schema.rules import AtMost, Condition, Equal, Follows, Holds, IfThen, Rule, Sum

if TYPE_CHECKING:
    from grace.schema.schema import Schema

ROUNDING = 1e-9  # tolerance of a sum for floating-point error, in spreads
MIN_VIOLATION = 1e-3  # the least violation of a broken rule, in spreads

Violation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class EncodedRule:
    """A rule about encoded rows; `violation` maps rows (n, d) to (n,). `columns` is empty if it may read any."""

    rule: Rule
    columns: tuple[int, ...]
    violation: Violation


def encode_rules(schema: Schema, rules: Sequence[Rule]) -> tuple[EncodedRule, ...]:
    """The rules as functions of encoded rows."""
    return tuple(EncodedRule(r, tuple(schema.index(n) for n in r.features), _violation(schema, r)) for r in rules)


def broken_rules(schema: Schema, rows: Floats) -> Bools:
    """Whether each row breaks each rule of the schema, bool (n, rules)."""
    tensor = torch.as_tensor(rows, dtype=torch.float64)
    broken = [k.violation(tensor) > 0 for k in encode_rules(schema, schema.rules)]
    return torch.stack(broken, dim=1).numpy() if broken else np.zeros((len(rows), 0), dtype=bool)


def check_rules(schema: Schema) -> None:
    """Raises an error that names an invalid rule and the reason."""
    for rule in schema.rules:
        try:
            _check(schema, rule)
        except GraceError as reason:
            raise GraceError(f"rule {str(rule)!r}: {reason}") from None


def _check(schema: Schema, rule: Rule) -> None:
    features = [schema[name] for name in rule.features]
    if isinstance(rule, AtMost | Equal):
        for feature in features:
            if isinstance(feature, Categorical):
                raise GraceError(f"feature {feature.name!r} is a category, not a number; write it with if and then")
    if isinstance(rule, IfThen):
        for condition in (*rule.when, *rule.then):
            condition_codes(schema[condition.feature], condition)
    if isinstance(rule, Follows) and not isinstance(features[1], Categorical):
        raise GraceError(f"feature {rule.of!r} is a number; only a category decides the value of another feature")
    if isinstance(rule, Follows):
        decided_codes(schema, rule)


def under_rules(schema: Schema, rules: tuple[Rule, ...]) -> Schema:
    """The schema with these rules instead of its own; the same object for the same rules, unless one is a function."""
    functions = any(isinstance(rule, Holds) for rule in rules)
    return replace(schema, rules=rules) if functions else _under_rules(schema, rules)


@cached_on_first
def _under_rules(schema: Schema, rules: tuple[Rule, ...]) -> Schema:
    return replace(schema, rules=rules)


def with_learnt_values(schema: Schema, rows: Floats) -> Schema:
    """The schema with the values that rules of type `Follows` learn from training rows (NaN: missing cell)."""
    return replace(schema, rules=tuple(_observed(r, schema, rows) for r in schema.rules))


def has_unlearnt_values(schema: Schema) -> bool:
    """Whether a rule has yet to learn its values."""
    return any(isinstance(r, Follows) and not r.values for r in schema.rules)


def _observed(rule: Rule, schema: Schema, rows: Floats) -> Rule:
    """The rule with the value that each category determines in the rows; an error if there are several."""
    if not isinstance(rule, Follows) or rule.values:
        return rule
    of, feature = schema[rule.of], schema[rule.feature]
    assert isinstance(of, Categorical)
    pairs = rows[:, [schema.index(rule.of), schema.index(rule.feature)]]
    pairs = np.unique(pairs[~np.isnan(pairs).any(axis=1)], axis=0)
    for column, known in enumerate((of, feature)):
        pairs = pairs[pairs[:, column] != _missing_code(known)]
    ambiguous = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    if len(ambiguous):
        one, two = (cell_of(feature, pairs[ambiguous[0] + i, 1]) for i in (0, 1))
        raise GraceError(
            f"rule {str(rule)!r} does not hold: {rule.feature!r} is {one!r} and {two!r} where {rule.of!r} is "
            f"{of.categories[int(pairs[ambiguous[0], 0])]!r}; correct the rows or drop the rule"
        )
    values = [(of.categories[int(a)], cell_of(feature, b)) for a, b in pairs]
    return replace(rule, values=tuple(values))


def cell_of(feature: Feature, code: float) -> Value:
    """The cell of an encoded value: a category or a number."""
    if isinstance(feature, Categorical):
        return feature.categories[int(code)]
    return int(code) if float(code).is_integer() else float(code)


# -- violations by kind of rule -------------------------------------------------------------------


def _violation(schema: Schema, rule: Rule) -> Violation:
    """The violation of a rule; 0 where one of its cells is missing."""
    if isinstance(rule, Holds):
        return _function_violation(schema, rule)
    if isinstance(rule, IfThen):
        violation = _implication_violation(schema, rule)
    elif isinstance(rule, Follows):
        violation = _lookup_violation(schema, rule)
    else:
        violation = _linear_violation(schema, rule)
    codes = [(schema.index(n), code) for n in rule.features if (code := _missing_code(schema[n])) is not None]
    if not codes:
        return violation

    def masked(rows: Tensor) -> Tensor:
        missing = torch.stack([rows[:, j] == code for j, code in codes]).any(dim=0)
        return violation(rows).masked_fill(missing, 0.0)

    return masked


def _missing_code(feature: Feature) -> float | None:
    """The code of a missing cell; None if the feature has none."""
    if not feature.gaps:
        return None
    return feature.missing_code if isinstance(feature, Numeric) else float(feature.categories.index(MISSING))


def rounding_decimals(feature: Feature) -> int:
    """The decimals to which a value that a rule determines is rounded."""
    return 0 if isinstance(feature, Categorical) or feature.integer else feature.digits


def _linear_violation(schema: Schema, rule: AtMost | Equal) -> Violation:
    """By how much a sum is on the wrong side, in units of the standard deviation of the sum. An equation has to hold in
    the decimals of its left side."""
    if isinstance(rule, AtMost):
        difference, tolerance = rule.right.minus(rule.left), 0.0
    else:
        left = schema[rule.feature]
        assert isinstance(left, Numeric)
        difference = type(rule.right)(((rule.feature, -1.0), *rule.right.terms), rule.right.constant)
        tolerance = 0.5 * 10.0 ** -rounding_decimals(left)
    terms, scale = scaled_terms(schema, difference)
    tolerance += ROUNDING * scale

    def violation(rows: Tensor) -> Tensor:
        total = linear_sum(rows, terms, difference.constant)
        excess = total.abs() - tolerance if isinstance(rule, Equal) else -total - tolerance
        wrong = total <= tolerance if isinstance(rule, AtMost) and rule.strict else excess > 0
        return torch.where(wrong, (excess / scale).clamp_min(MIN_VIOLATION), 0.0)

    return violation


def scaled_terms(schema: Schema, total: Sum) -> tuple[list[tuple[int, float]], float]:
    """The columns and factors of a sum, and its standard deviation, were the features independent."""
    terms = [(schema.index(n), c) for n, c in total.terms]
    return terms, float(np.sqrt(sum((c * (schema.features[j].spread or 1.0)) ** 2 for j, c in terms)))


def linear_sum(rows: Tensor, terms: Sequence[tuple[int, float]], constant: float) -> Tensor:
    """A linear combination of columns of the rows, plus a constant."""
    total = torch.full_like(rows[:, 0], constant)
    for j, factor in terms:
        total = total + factor * rows[:, j]
    return total


def _implication_violation(schema: Schema, rule: IfThen) -> Violation:
    """The distance to the nearer of: the conclusion, or the negation of the condition."""
    when, then = ([_condition_margin(schema, c) for c in part] for part in (rule.when, rule.then))

    def violation(rows: Tensor) -> Tensor:
        given, follows = (torch.stack([s(rows) for s in part]).amin(dim=0) for part in (when, then))
        wrong = (given >= 0) & (follows < 0)
        return torch.where(wrong, torch.minimum(given, -follows).clamp_min(MIN_VIOLATION), 0.0)

    return violation


def _condition_margin(schema: Schema, condition: Condition) -> Violation:
    """The margin of a condition, in spreads: negative where it does not hold; 1 and -1 for categories."""
    j, feature, sign = schema.index(condition.feature), schema[condition.feature], condition.sign
    codes = torch.tensor(condition_codes(feature, condition), dtype=torch.float64)
    if isinstance(feature, Categorical) or sign in ("==", "in", "!="):
        spread = (feature.spread or 1.0) if isinstance(feature, Numeric) else 1.0

        def membership(rows: Tensor) -> Tensor:
            distance = (rows[:, j, None] - codes.to(rows.device)).abs().amin(dim=1) / spread
            outside = distance.clamp_min(MIN_VIOLATION) if isinstance(feature, Numeric) else torch.ones_like(distance)
            margin = torch.where(distance == 0, MIN_VIOLATION if isinstance(feature, Numeric) else 1.0, -outside)
            return -margin if sign == "!=" else margin

        return membership
    limit, spread = float(codes[0]), feature.spread or 1.0
    direction = 1.0 if sign[0] == ">" else -1.0

    def comparison(rows: Tensor) -> Tensor:
        margin = direction * (rows[:, j] - limit) / spread
        return torch.where(margin == 0, -MIN_VIOLATION, margin) if len(sign) == 1 else margin

    return comparison


def condition_codes(feature: Feature, condition: Condition) -> list[float]:
    """The values of a condition, encoded."""
    if isinstance(feature, Numeric):
        wrong = [v for v in condition.values if isinstance(v, str | bool)]
        if wrong:
            raise GraceError(f"feature {feature.name!r} is a number and cannot be {wrong[0]!r}")
        return [float(v) for v in condition.values]
    if condition.sign not in ("==", "!=", "in"):
        raise GraceError(f"feature {feature.name!r} is a category, which has no order; use ==, != or in")
    return [float(_category_code(feature, v)) for v in condition.values]


def _category_code(feature: Categorical, value: Value) -> int:
    """The position of a category, compared by value, else by text ignoring case."""
    for position, known in enumerate(feature.categories):
        if known == value and isinstance(known, bool) == isinstance(value, bool):
            return position
    for position, known in enumerate(feature.categories):
        if str(known).lower() == str(value).lower():
            return position
    from grace.schema.frames import join_first

    raise GraceError(f"feature {feature.name!r} has no category {value!r}; known are {join_first(feature.categories)}")


def decided_codes(schema: Schema, rule: Follows) -> Tensor:
    """For each category (by position) the encoded value that it determines; NaN if training rows do not show it."""
    of, feature = schema[rule.of], schema[rule.feature]
    assert isinstance(of, Categorical)
    out = torch.full((len(of.categories),), torch.nan, dtype=torch.float64)
    for category, value in rule.values:
        if isinstance(feature, Numeric) and isinstance(value, str | bool):
            raise GraceError(f"feature {feature.name!r} is a number and cannot be {value!r}")
        out[_category_code(of, category)] = (
            _category_code(feature, value) if isinstance(feature, Categorical) else float(value)
        )
    return out


def _lookup_violation(schema: Schema, rule: Follows) -> Violation:
    table, feature = decided_codes(schema, rule), schema[rule.feature]
    j, of = schema.index(rule.feature), schema.index(rule.of)
    scale = (feature.spread or 1.0) if isinstance(feature, Numeric) else 1.0

    def violation(rows: Tensor) -> Tensor:
        distance = (rows[:, j] - table.to(rows.device)[rows[:, of].long()]).abs() / scale
        if isinstance(feature, Categorical):
            distance = (distance != 0).to(distance.dtype)
        violated = torch.where(distance > ROUNDING, distance.clamp_min(MIN_VIOLATION), 0.0)
        return torch.where(distance.isnan(), 1.0, violated)

    return violation


def _function_violation(schema: Schema, rule: Holds) -> Violation:
    def violation(rows: Tensor) -> Tensor:
        try:
            mask = np.asarray(rule.check(schema.decode(rows.cpu().numpy())))
        except Exception as reason:  # whatever a user's function raises becomes one clear line
            line = (str(reason).strip() or type(reason).__name__).split("\n")[0]
            raise GraceError(f"rule {rule.name!r} failed on {len(rows)} rows: {line}") from reason
        if mask.shape != (len(rows),) or mask.dtype.kind not in "bO":
            raise GraceError(
                f"rule {rule.name!r} returned shape {mask.shape} of {mask.dtype} for {len(rows)} rows; it must return "
                "one bool per row"
            )
        return torch.as_tensor(~mask.astype(bool), dtype=rows.dtype, device=rows.device)

    return violation
