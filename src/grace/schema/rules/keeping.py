"""Whether rows keep rules, and how far they are from it.

The lack of a rule is 0 or more: how far a row is from keeping it, in spreads where it is about numbers, so that a
search can walk towards it; 0 where it is kept. A rule says nothing of a row in which one of its cells is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.schema.features import MISSING, Bools, Categorical, Feature, Floats, Numeric, Value
from grace.schema.rules import AtMost, Condition, Equal, Follows, Holds, IfThen, Rule

if TYPE_CHECKING:
    from grace.schema.schema import Schema

ROUNDING = 1e-9  # of a spread: how far a sum may be off by arithmetic alone
MIN_VIOLATION = 1e-3  # the least lack of a rule that is broken, in spreads

Violation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class EncodedRule:
    """A rule about the columns of encoded rows; `columns` is empty where it may look at all of them."""

    rule: Rule
    columns: tuple[int, ...]
    violation: Violation


def encode_rules(schema: Schema, rules: Sequence[Rule]) -> tuple[EncodedRule, ...]:
    """The rules in terms of encoded rows."""
    return tuple(EncodedRule(r, tuple(schema.index(n) for n in r.features), _violation(schema, r)) for r in rules)


def broken_rules(schema: Schema, rows: Floats) -> Bools:
    """Which rules of the schema (n, rules) each row breaks."""
    tensor = torch.as_tensor(rows, dtype=torch.float64)
    lacks = [k.violation(tensor) > 0 for k in encode_rules(schema, schema.rules)]
    return torch.stack(lacks, dim=1).numpy() if lacks else np.zeros((len(rows), 0), dtype=bool)


def check_rules(schema: Schema) -> None:
    """An error that names the rule and what is wrong with it."""
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
            _codes(schema[condition.feature], condition)
    if isinstance(rule, Follows) and not isinstance(features[1], Categorical):
        raise GraceError(f"feature {rule.of!r} is a number; only a category decides the value of another feature")
    if isinstance(rule, Follows):
        decided_codes(schema, rule)


def with_learnt_values(schema: Schema, rows: Floats) -> Schema:
    """The schema with what its rules learn from training rows (NaN where a cell is missing): the value that each
    category decides."""
    return replace(schema, rules=tuple(_observed(r, schema, rows) for r in schema.rules))


def has_unlearnt_values(schema: Schema) -> bool:
    """Whether a rule still has something to learn."""
    return any(isinstance(r, Follows) and not r.values for r in schema.rules)


def _observed(rule: Rule, schema: Schema, rows: Floats) -> Rule:
    if not isinstance(rule, Follows) or rule.values:
        return rule
    of, feature = schema[rule.of], schema[rule.feature]
    assert isinstance(of, Categorical)
    pairs = rows[:, [schema.index(rule.of), schema.index(rule.feature)]]
    pairs = np.unique(pairs[~np.isnan(pairs).any(axis=1)], axis=0)
    for place, known in enumerate((of, feature)):
        pairs = pairs[pairs[:, place] != _missing_code(known)]
    twice = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    if len(twice):
        one, two = (cell_of(feature, pairs[twice[0] + i, 1]) for i in (0, 1))
        raise GraceError(
            f"rule {str(rule)!r} does not hold: {rule.feature!r} is {one!r} and {two!r} where {rule.of!r} is "
            f"{of.categories[int(pairs[twice[0], 0])]!r}; correct the rows or drop the rule"
        )
    values = [(of.categories[int(a)], cell_of(feature, b)) for a, b in pairs]
    return replace(rule, values=tuple(values))


def cell_of(feature: Feature, code: float) -> Value:
    """A category, or the number that stands for a cell."""
    if isinstance(feature, Categorical):
        return feature.categories[int(code)]
    return int(code) if float(code).is_integer() else float(code)


# -- the lack of each kind of rule ----------------------------------------------------------------


def _violation(schema: Schema, rule: Rule) -> Violation:
    if isinstance(rule, Holds):
        return _function_violation(schema, rule)
    violation = _linear_violation(schema, rule) if isinstance(rule, AtMost | Equal) else None
    if isinstance(rule, IfThen):
        violation = _implication_violation(schema, rule)
    elif isinstance(rule, Follows):
        violation = _lookup_violation(schema, rule)
    assert violation is not None
    found, gaps = (
        violation,
        [(schema.index(n), g) for n in rule.features if (g := _missing_code(schema[n])) is not None],
    )
    if not gaps:
        return found

    def said(rows: Tensor) -> Tensor:
        missing = torch.stack([rows[:, j] == gap for j, gap in gaps]).any(dim=0)
        return found(rows).masked_fill(missing, 0.0)

    return said


def _missing_code(feature: Feature) -> float | None:
    """What stands for a missing cell, if there are any."""
    if not feature.gaps:
        return None
    return feature.missing_code if isinstance(feature, Numeric) else float(feature.categories.index(MISSING))


def decimals_of(feature: Feature) -> int:
    """In how many digits what a rule decides is written: those in which a person says it, and whole numbers exactly."""
    return 0 if isinstance(feature, Categorical) or feature.integer else feature.digits


def _linear_violation(schema: Schema, rule: AtMost | Equal) -> Violation:
    """How far a sum is on the wrong side, in units of the spread of what is summed. An equation holds if the value is
    the sum in as many digits as a person says of it."""
    if isinstance(rule, AtMost):
        apart, slack = rule.right.minus(rule.left), 0.0
    else:
        own = schema[rule.feature]
        assert isinstance(own, Numeric)
        apart = type(rule.right)(((rule.feature, -1.0), *rule.right.terms), rule.right.constant)
        slack = 0.5 * 10.0 ** -decimals_of(own)
    terms = [(schema.index(n), c) for n, c in apart.terms]
    scale = float(np.sqrt(sum((c * (schema.features[j].spread or 1.0)) ** 2 for j, c in terms)))
    slack += ROUNDING * scale

    def violation(rows: Tensor) -> Tensor:
        total = linear_sum(rows, terms, apart.constant)
        short = total.abs() - slack if isinstance(rule, Equal) else -total - slack
        wrong = total <= slack if isinstance(rule, AtMost) and rule.strict else short > 0
        return torch.where(wrong, (short / scale).clamp_min(MIN_VIOLATION), 0.0)

    return violation


def linear_sum(rows: Tensor, terms: Sequence[tuple[int, float]], constant: float) -> Tensor:
    """Multiples of columns of the rows, and a constant."""
    total = torch.full_like(rows[:, 0], constant)
    for j, factor in terms:
        total = total + factor * rows[:, j]
    return total


def _implication_violation(schema: Schema, rule: IfThen) -> Violation:
    """The way to the nearer of: the conclusion, or not the condition."""
    when, then = ([_condition_margin(schema, c) for c in part] for part in (rule.when, rule.then))

    def violation(rows: Tensor) -> Tensor:
        given, follows = (torch.stack([s(rows) for s in part]).amin(dim=0) for part in (when, then))
        wrong = (given >= 0) & (follows < 0)
        return torch.where(wrong, torch.minimum(given, -follows).clamp_min(MIN_VIOLATION), 0.0)

    return violation


def _condition_margin(schema: Schema, condition: Condition) -> Violation:
    """How far inside a condition rows are, in spreads, below 0 outside; 1 and -1 for categories."""
    j, feature, sign = schema.index(condition.feature), schema[condition.feature], condition.sign
    codes = torch.tensor(_codes(feature, condition), dtype=torch.float64)
    if isinstance(feature, Categorical) or sign in ("==", "in", "!="):
        spread = (feature.spread or 1.0) if isinstance(feature, Numeric) else 1.0

        def among(rows: Tensor) -> Tensor:
            apart = (rows[:, j, None] - codes.to(rows.device)).abs().amin(dim=1) / spread
            far = apart.clamp_min(MIN_VIOLATION) if isinstance(feature, Numeric) else torch.ones_like(apart)
            there, elsewhere = (MIN_VIOLATION, -far) if isinstance(feature, Numeric) else (1.0, -far)
            inside = torch.where(apart == 0, there, elsewhere)
            return -inside if sign == "!=" else inside

        return among
    limit, spread = float(codes[0]), feature.spread or 1.0
    way = 1.0 if sign[0] == ">" else -1.0

    def beyond(rows: Tensor) -> Tensor:
        room = way * (rows[:, j] - limit) / spread
        return torch.where(room == 0, -MIN_VIOLATION, room) if len(sign) == 1 else room

    return beyond


def _codes(feature: Feature, condition: Condition) -> list[float]:
    """The values of a condition as encoded rows have them."""
    if isinstance(feature, Numeric):
        wrong = [v for v in condition.values if isinstance(v, str | bool)]
        if wrong:
            raise GraceError(f"feature {feature.name!r} is a number and cannot be {wrong[0]!r}")
        return [float(v) for v in condition.values]
    if condition.sign not in ("==", "!=", "in"):
        raise GraceError(f"feature {feature.name!r} is a category, which has no order; use ==, != or in")
    return [float(_category_code(feature, v)) for v in condition.values]


def _category_code(feature: Categorical, value: Value) -> int:
    for place, known in enumerate(feature.categories):
        if known == value and isinstance(known, bool) == isinstance(value, bool):
            return place
    for place, known in enumerate(feature.categories):
        if str(known).lower() == str(value).lower():
            return place
    from grace.schema.frames import join_first

    raise GraceError(f"feature {feature.name!r} has no category {value!r}; known are {join_first(feature.categories)}")


def decided_codes(schema: Schema, rule: Follows) -> Tensor:
    """What each category (as a position) decides, encoded; NaN where training did not show it."""
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
        apart = (rows[:, j] - table.to(rows.device)[rows[:, of].long()]).abs() / scale
        if isinstance(feature, Categorical):
            apart = (apart != 0).to(apart.dtype)
        return torch.where(apart.isnan(), 1.0, torch.where(apart > ROUNDING, apart.clamp_min(MIN_VIOLATION), 0.0))

    return violation


def _function_violation(schema: Schema, rule: Holds) -> Violation:
    def violation(rows: Tensor) -> Tensor:
        try:
            said = np.asarray(rule.check(schema.decode(rows.cpu().numpy())))
        except Exception as reason:  # whatever a user's function raises becomes one clear line
            line = (str(reason).strip() or type(reason).__name__).split("\n")[0]
            raise GraceError(f"rule {rule.name!r} failed on {len(rows)} rows: {line}") from reason
        if said.shape != (len(rows),) or said.dtype.kind not in "bO":
            raise GraceError(
                f"rule {rule.name!r} returned shape {said.shape} of {said.dtype} for {len(rows)} rows; it must return "
                "one bool per row"
            )
        return torch.as_tensor(~said.astype(bool), dtype=rows.dtype, device=rows.device)

    return violation
