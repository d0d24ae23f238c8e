"""Rules between features, and features that follow others.

A search changes an intervention. The row that the model scores is computed from it: features that a rule determines,
or that depend on others by a learnt regression, are updated. The steps are abduction, action and prediction (Pearl
2009), but the regressions describe association, not cause. A feature that follows by regression keeps its residual, and
does not follow if the intervention changes it. Both need the row that a candidate comes from, see `Problem.origin`.

A rule applies to a candidate if one of its features was changed: a row that breaks a rule can be explained by changes
to other features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.base import Model, checked_scores
from grace.problem.answers import Answers
from grace.problem.decimals import Decimals
from grace.problem.goal import Goal
from grace.problem.problem import OriginModel, Problem
from grace.problem.requirements.dependence import Dependence, coordinates
from grace.problem.space import Space
from grace.schema.features import Categorical, Floats
from grace.schema.rules import Equal, Follows, Rule, Sum
from grace.schema.rules.keeping import EncodedRule, decided_codes, encode_rules, linear_sum, rounding_decimals
from grace.schema.schema import Schema

SAME = 1e-9  # tolerance for floating-point error, in spreads
LEAST = 0.1  # the smallest update by a regression, in spreads
REPAIR = 0.01  # weight of violations in margins: small, as the change of another feature may still remove them


@dataclass(frozen=True)
class Dependent:
    """A feature that follows its parents. `expected` maps rows (n, d) to its values (n,). An `exact` one takes this
    value; any other is changed by the difference from the expected value in the original row."""

    column: int
    parents: tuple[int, ...]
    exact: bool
    expected: Callable[[Tensor], Tensor]


# -- dependents ----------------------------------------------------------------------------------


def determined_by_rules(schema: Schema, rules: Sequence[Rule]) -> list[Dependent]:
    """The features that rules determine, at most one per rule. Of an equation, it is the first feature that is neither
    frozen nor determined by another rule and that closes no cycle. If there is none, the rule is only checked."""
    out: list[Dependent] = []
    for rule in rules:
        if isinstance(rule, Follows):
            options = [_by_category(schema, rule)]
        elif isinstance(rule, Equal):
            options = [_by_sum(schema, rule, name) for name in (rule.feature, *(n for n, _ in rule.right.terms[::-1]))]
        else:
            continue
        for option in options:
            taken = schema.features[option.column].fixed or option.column in {d.column for d in out}
            if not taken and ordered([*out, option]) is not None:
                out.append(option)
                break
    return out


def _by_category(schema: Schema, rule: Follows) -> Dependent:
    table, of = decided_codes(schema, rule), schema.index(rule.of)
    return Dependent(schema.index(rule.feature), (of,), True, lambda rows: table.to(rows.device)[rows[:, of].long()])


def _by_sum(schema: Schema, rule: Equal, name: str) -> Dependent:
    """The equation solved for one of its features."""
    apart = Sum(((rule.feature, 1.0),)).minus(rule.right)
    factor = dict(apart.terms)[name]
    terms = [(schema.index(n), -c / factor) for n, c in apart.terms if n != name]
    constant = -apart.constant / factor

    parents = tuple(j for j, _ in terms)
    return Dependent(schema.index(name), parents, True, lambda rows: linear_sum(rows, terms, constant))


def learnt_dependent(schema: Schema, known: Dependence) -> Dependent:
    """A feature that follows by a regression."""
    parents = tuple(schema.index(n) for n in known.parents)

    def expected(rows: Tensor) -> Tensor:
        return (coordinates(schema, parents, rows) * known.weight.to(rows.device)).sum(dim=1) + known.constant

    return Dependent(schema.index(known.feature), parents, False, expected)


def ordered(dependents: Sequence[Dependent]) -> list[Dependent] | None:
    """In topological order, parents first; None if there is a cycle."""
    left, out = list(dependents), list[Dependent]()
    while left:
        waiting = {d.column for d in left}
        ready = [d for d in left if not waiting & set(d.parents)]
        if not ready:
            return None
        out += ready
        left = [d for d in left if d not in ready]
    return out


# -- rows of interventions ------------------------------------------------------------------------


@dataclass(frozen=True)
class Origins:
    """Rows that candidates come from, the expected values (n, dependents) in them, and the limits of each cell."""

    rows: Tensor
    expected: Tensor
    low: Tensor
    high: Tensor

    def take(self, index: Tensor) -> Origins:
        return Origins(*(part[index] for part in (self.rows, self.expected, self.low, self.high)))


class Consequences:
    """The rules of one call, and the features that follow."""

    def __init__(self, schema: Schema, known: Sequence[Dependence]) -> None:
        self.schema = schema
        self.rules: tuple[EncodedRule, ...] = encode_rules(schema, schema.rules)
        exact = determined_by_rules(schema, schema.rules)
        found = ordered([*exact, *(learnt_dependent(schema, k) for k in known)])
        if found is None:
            names = ", ".join(repr(k.feature) for k in known)
            raise GraceError(f"follow: {names} depend on each other in a circle, or by a rule; name other parents")
        self.dependents = found
        self.space = Space(schema)

    def origins(self, rows: Tensor) -> Origins:
        """Rows (n, d) as the origins of candidates."""
        low, high, _ = self._on(rows).limits(rows)
        expected = [d.expected(rows) for d in self.dependents]
        return Origins(rows, torch.stack(expected, dim=1) if expected else rows[:, :0], low, high)

    def _on(self, rows: Tensor) -> Space:
        if self.space.low.device != rows.device:
            self.space = Space(self.schema, device=rows.device)
        return self.space

    def rows(self, moved: Tensor, origins: Origins) -> Tensor:
        """The rows (m, d) that interventions (m, d) lead to: every dependent updated, in topological order."""
        space = self._on(moved)
        out = moved.clone()
        missing = space.missing(origins.rows) if self.dependents else None
        for place, dependent in enumerate(self.dependents):
            j, now, then = dependent.column, dependent.expected(out), origins.expected[:, place]
            own, spread = origins.rows[:, j], space.spread[j]
            if dependent.exact:
                grid = Decimals.of(torch.full_like(own, rounding_decimals(self.schema.features[j])))
                value = grid.values(grid.nearest(now))
                moves = (now - then).abs() > SAME * spread
            else:
                digits = space.digits[j].to(own.dtype).expand_as(own)
                grid = Decimals.of(digits)
                value = grid.values(grid.nearest(own + now - then))
                value = torch.minimum(torch.maximum(value, origins.low[:, j]), origins.high[:, j])
                least = torch.maximum(0.5 * 10.0**-digits, LEAST * spread)
                moves = ((now - then).abs() >= least) & (moved[:, j] == own)
            assert missing is not None
            out[:, j] = torch.where(moves & ~missing[:, j], value, moved[:, j])
        return out

    def violation(self, rows: Tensor, origins: Origins | None = None) -> Tensor:
        """The sum (m,) of the violations of the rules that apply, and of the ranges of the features that rules
        determine. All rules apply to rows without origins, such as training rows."""
        total = torch.zeros_like(rows[:, 0])
        if origins is None:
            return sum((rule.violation(rows) for rule in self.rules), total)
        changed = rows != origins.rows
        for rule in self.rules:
            applies = changed[:, list(rule.columns)].any(dim=1) if rule.columns else changed.any(dim=1)
            total = total + torch.where(applies, rule.violation(rows), 0.0)
        space = self._on(rows)
        for dependent in self.dependents:
            if dependent.exact:
                j = dependent.column
                if isinstance(self.schema.features[j], Categorical):
                    outside = (~torch.isin(rows[:, j].long(), space.choices[j])).to(rows.dtype)
                else:
                    beyond = torch.maximum(origins.low[:, j] - rows[:, j], rows[:, j] - origins.high[:, j])
                    outside = beyond.clamp_min(0) / space.spread[j]
                total = total + torch.where(changed[:, j], outside, 0.0)
        return total

    # -- problems in terms of interventions -------------------------------------------------------

    def problem(self, problem: Problem) -> Problem:
        """The problem in terms of interventions: its model scores the rows that they lead to."""
        free = problem.free.clone()
        free[:, [d.column for d in self.dependents if d.exact]] = False
        return replace(
            problem,
            model=RuleModel(problem.model, self, self.origins(problem.rows)),
            goal=RuleGoal(problem.goal),
            free=free,
            origin=torch.arange(len(problem), device=free.device),
        )

    def to_row_answers(self, answers: Answers) -> Answers:
        """Answers in terms of rows, from answers in terms of interventions; the rules are checked again."""
        moved, own = torch.as_tensor(answers.contrast), torch.as_tensor(answers.rows)
        origins = self.origins(own)
        contrast = self.rows(moved, origins)
        fine = (self.violation(contrast, origins) == 0).numpy()
        success = answers.success & fine
        final = np.where(success[:, None], contrast.numpy(), answers.rows)
        return answers.with_contrast(
            final,
            success=success,
            following=(final != answers.rows) & (moved == own).numpy(),
            checks={**answers.checks, "rules": fine & success},
            alternatives=tuple(self.to_row_answers(other) for other in answers.alternatives),
        )

    def retraced(self, moved: Floats, row: Floats) -> Floats:
        """The rows that interventions (m, d) on a single row lead to."""
        own = torch.as_tensor(np.broadcast_to(row, moved.shape).copy())
        return np.asarray(self.rows(torch.as_tensor(moved), self.origins(own)).numpy())


class RuleModel(OriginModel):
    """The scores of the rows that interventions lead to, and one more: infinity if the row satisfies the rules, else
    its violation, negative and weighted."""

    black_box = True

    def __init__(self, model: Model, consequences: Consequences, origins: Origins) -> None:
        self.model, self.consequences, self.origins = model, consequences, origins
        self.classes, self.schema, self.task, self.device = model.classes, model.schema, model.task, model.device
        self.tolerance = model.tolerance

    @property
    def width(self) -> int:
        return self.model.width + 1

    @property
    def n_reported(self) -> int:
        return self.model.n_reported

    def scores(self, rows: Tensor) -> Tensor:
        return self._with_violation(rows, self.consequences.violation(rows))

    def scores_from(self, rows: Tensor, origin: Tensor) -> Tensor:
        origins = self.origins.take(origin)
        resulting = self.consequences.rows(rows, origins)
        return self._with_violation(resulting, self.consequences.violation(resulting, origins))

    def _with_violation(self, rows: Tensor, violation: Tensor) -> Tensor:
        room = torch.where(violation > 0, -REPAIR * violation, torch.inf)
        return torch.cat([checked_scores(self.model, rows), room[:, None]], dim=1)


@dataclass(frozen=True)
class RuleGoal(Goal):
    """A goal that has to be reached by a row that satisfies the rules."""

    goal: Goal

    def margins(self, scores: Tensor) -> Tensor:
        return torch.minimum(self.goal.margins(scores[..., :-1]), scores[..., -1:])

    def of_targets(self, per_class: Tensor) -> Tensor:
        return self.goal.of_targets(per_class)

    def select(self, index: Tensor) -> RuleGoal:
        return RuleGoal(self.goal.select(index))
