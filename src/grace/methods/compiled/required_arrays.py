"""Requirements of a problem as arrays: several networks as one, rules and ellipsoids as linear functions of the row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grace.methods.compiled.goal import RANGE, CompiledGoal
from grace.methods.compiled.required import Linear, Required
from grace.methods.requirements import Served, slack_of
from grace.models.compiled import Floats, Layers, layers_of
from grace.models.relu import ReluNetwork
from grace.problem.goal import Against, Between, Flip
from grace.problem.problem import Problem
from grace.problem.requirements.plausible import PlausibilityModel


def required_layers(served: Served) -> Layers:
    """The networks side by side, with the linear functions of what else is required; kept with the model."""
    rules = () if served.consequences is None else served.consequences.schema.rules
    schema = None if served.consequences is None else served.consequences.schema
    typical = None if served.plausible is None else served.plausible.typicality
    limit = None if served.plausible is None else tuple(served.plausible.limit.tolist())
    by_identity: tuple[Any, ...] = (*served.networks, typical)
    by_value = rules, schema, limit
    cache: dict[str, Any] = served.model.cache  # type: ignore[attr-defined]
    known = cache.get("required")
    if known is not None and known[1] == by_value and [*map(id, known[0])] == [*map(id, by_identity)]:
        kept: Layers = known[2]
        return kept
    layers = served.networks[0].compiled if len(served.networks) == 1 else side_by_side(served.networks, served.order)
    parts = [_slacks(served, layers)]
    if served.plausible is not None:
        parts += _balls(served.plausible, layers)
    factors, tables, constants = (
        np.ascontiguousarray(np.concatenate(columns, axis=-1)) for columns in zip(*parts, strict=True)
    )
    group = int(layers.widths[-1]) // len(served.networks)
    layers = layers._replace(linear=Linear(group, factors, tables, constants))
    cache["required"] = by_identity, by_value, layers
    return layers


def side_by_side(networks: Sequence[ReluNetwork], order: Sequence[Sequence[int]]) -> Layers:
    """Several networks as one, whose scores stand side by side, those of each with the classes in a given order. Those
    with fewer layers get further ones that do nothing."""
    depth = max(len(network.later) for network in networks)
    layers: list[list[tuple[Floats, Floats]]] = []
    for network, places in zip(networks, order, strict=True):
        *hidden, (weight, bias) = [(w.cpu().numpy(), b.cpu().numpy()) for w, b in network.later]
        weight, bias = weight[list(places)], bias[list(places)]
        if len(bias) == 2:
            weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
        width = weight.shape[1]
        hidden += [(np.eye(width), np.zeros(width))] * (depth - len(network.later))
        layers.append([*hidden, (weight, bias)])
    later = [
        (_diagonal([w for w, _ in level]), np.concatenate([b for _, b in level])) for level in zip(*layers, strict=True)
    ]
    tables = {}
    for j in networks[0].tables:
        entries = [network.tables[j].cpu().numpy() for network in networks]
        fewest = min(map(len, entries))
        tables[j] = np.concatenate([table[:fewest] for table in entries], axis=1)
    weight = np.concatenate([network.weight.cpu().numpy() for network in networks])
    bias = np.concatenate([network.bias.cpu().numpy() for network in networks])
    return layers_of(weight, bias, tables, later)


def _diagonal(blocks: Sequence[Floats]) -> Floats:
    """Matrices along the diagonal of a larger one."""
    out = np.zeros((sum(len(b) for b in blocks), sum(b.shape[1] for b in blocks)))
    row = column = 0
    for block in blocks:
        out[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return out


Functions = tuple[Floats, Floats, Floats]
"""Linear functions of a row: factors (features, e), what categories add (entries, e), and constants (e,)."""


def _slacks(served: Served, layers: Layers) -> Functions:
    """The slack of each rule in units of its standard deviation, and as it is checked: with an allowance for
    rounding."""
    rules = [] if served.consequences is None else served.consequences.rules
    factors, constants = np.zeros((len(layers.begins), len(rules))), np.zeros(len(rules))
    for r, encoded in enumerate(rules):
        assert served.consequences is not None
        terms, constants[r] = slack_of(served.consequences.schema, encoded)
        for j, factor in terms:
            factors[j, r] = factor
    return factors, np.zeros((len(layers.tables), len(rules))), constants


def _balls(plausible: PlausibilityModel, layers: Layers) -> list[Functions]:
    """For each class the coordinates in which its ellipsoid of typical rows is the unit ball."""
    known = plausible.typicality
    space = known.space
    out: list[Functions] = []
    for k, limit in enumerate(plausible.limit.cpu().numpy()):
        # x' P x = |L' x|² for P = L L'
        root = np.linalg.cholesky(known.precision[k].cpu().numpy()).T / limit if len(known.known[k]) else None
        size = known.precision.shape[1]
        root = np.zeros((size, size)) if root is None else root
        factors, tables = np.zeros((len(layers.begins), size)), np.zeros((len(layers.tables), size))
        numbers = np.flatnonzero(space.is_numeric.cpu().numpy())
        spread = space.spread.cpu().numpy()
        factors[numbers] = root.T[: len(numbers)] / spread[numbers, None]
        at = len(numbers)
        for j in space.categorical:
            begin, count = int(layers.begins[j]), len(space.vectors[j])
            if bool(space.has_magnitude[j]):
                tables[begin : begin + count] = np.arange(count)[:, None] * root.T[at] / spread[j]
                at += 1
            else:
                tables[begin : begin + count] = root.T[at : at + count] / 2**0.5
                at += count
        out.append((factors, tables, -root @ known.centre[k].cpu().numpy()))
    return out


def with_requirements(problem: Problem, served: Served, net: Layers, single: Any) -> CompiledGoal:
    """The goal of each network, as `single` makes it of a goal, and what else is required."""
    goal, count = served.goal, len(served.networks)
    goals: list[CompiledGoal] = []
    for m in range(count):
        own = goal
        if not isinstance(goal, Between) and goal.shift is not None and goal.shift.dim() == 2:
            own = goal.with_shift(goal.shift[m])
        goals.append(single(own, net.linear.group))
    first = goals[0]
    wanted = np.zeros(len(problem), dtype=np.int64)
    if isinstance(goal, Flip | Against) and net.linear.group == 1:
        wanted = (1 - goal.original if isinstance(goal, Flip) else goal.wanted).numpy()
    known = np.zeros(0, dtype=bool)
    if served.plausible is not None:
        known = np.array([len(k) > 0 for k in served.plausible.typicality.known])
    required = Required(
        functions=len(net.linear.bias),
        classes=1 if first.kind == RANGE else net.linear.group,
        networks=count,
        low=np.ascontiguousarray(np.stack([g.low for g in goals], axis=1)),
        high=np.ascontiguousarray(np.stack([g.high for g in goals], axis=1)),
        shift=np.stack([g.shift for g in goals]),
        active=np.ascontiguousarray(served.active(problem).numpy()),
        own=_broken_slacks(problem, net, served),
        known=known,
        wanted=np.ascontiguousarray(wanted),
    )
    return first._replace(required=required)


def _broken_slacks(problem: Problem, net: Layers, served: Served) -> Floats:
    """The slack (n, rules) of each rule that a row breaks; infinite where it breaks none."""
    rules = 0 if served.consequences is None else len(served.consequences.rules)
    slack = problem.rows.numpy() @ net.linear.factors[:, :rules] + net.linear.bias[:rules]
    return np.ascontiguousarray(np.where(slack < 0.0, slack, np.inf))
