"""Upper bounds on a ReLU network over boxes of values of a few features, for `distance_bound`; in tensors, which may be
on a GPU.

Linear relaxation (CROWN: Zhang et al. 2018). What the features of a box can do is kept as a few directions in the first
layer, so that the cost of a box does not grow with the number of all features.
"""

from __future__ import annotations

import torch
from torch import Tensor

from grace.models.relu import ReluNetwork
from grace.problem.goal import Between, ClassGoal, Flip
from grace.problem.problem import Problem
from grace.proofs.nodes import Bound, MoveBounds, Nodes, ReluRelaxation, dot, relu_relaxation

ROUNDING = 1e-11  # in double precision, relative; far above what sums of a few thousand terms can lose
SPAN = 5  # limits by intervals lie within so many times the size of the terms

Limits = list[tuple[Tensor, Tensor]]  # of every hidden layer before its ReLU


class Relaxation:
    """Bounds on how far the target of a node can lead, for the rows of a problem."""

    def __init__(self, problem: Problem, network: ReluNetwork) -> None:
        self.problem, self.network = problem, network
        self.x = problem.rows
        self.start = network.first(self.x)
        assert isinstance(problem.goal, ClassGoal | Between)
        self.goal = goal = problem.goal
        self.original = goal.original if isinstance(goal, Flip) else network.scores(self.x).argmax(dim=1)
        self.slots: dict[int, slice] = {}  # the places of each feature's categories among all
        begin = 0
        for j, table in network.tables.items():
            self.slots[j] = slice(begin, begin + len(table))
            begin += len(table)
        self.option_count = begin
        farthest = torch.stack([self.x.abs(), problem.low.abs(), problem.high.abs()]).amax(dim=0)
        farthest = torch.where(problem.free, farthest, self.x.abs())
        size = farthest @ network.weight.abs().T + network.bias.abs()
        for table in network.tables.values():
            size = size + table.abs().amax(dim=0)
        self.mass = self.masses(SPAN * size)

    def masses(self, first: Tensor) -> list[Tensor]:
        """Of each layer (n, h), what the terms that are summed up in it come to at most."""
        out = [1 + first]
        for weight, bias in self.network.later:
            out.append(1 + out[-1] @ weight.abs().T + bias.abs())
        return out

    # -- where nodes begin ----------------------------------------------------------------------

    def contests(self, asked: Tensor) -> tuple[Tensor, Tensor]:
        """The rows asked for, once for each class that may win, and that class."""
        wanted = self.goal.winners(self.network.scores(self.x))  # (n, classes)
        row, target = torch.nonzero(wanted & asked[:, None], as_tuple=True)
        return row, target

    def options(self, row: Tensor) -> Tensor:
        """The categories (N, all of them) that rows may have, their own included."""
        out = torch.zeros(len(row), self.option_count, dtype=torch.bool, device=row.device)
        for j, slot in self.slots.items():
            low, high = self.problem.low[row], self.problem.high[row]
            out[:, slot][:, self.problem.space.choices[j]] = self.problem.space.between(j, low, high)
            out[torch.arange(len(row), device=row.device), slot.start + self.x[row, j].long()] = True
        return out

    def moves(self, nodes: Nodes) -> MoveBounds:
        """The moves of the changed features."""
        x = self.x[nodes.row[:, None], nodes.feature]
        direction = self.network.weight.T[nodes.feature][:, :, None]
        low = torch.where(nodes.real, nodes.low - x, 0.0)[:, :, None]
        high = torch.where(nodes.real, nodes.high - x, 0.0)[:, :, None]
        if not self.slots:
            return MoveBounds(direction, low, high, None)
        count = max(len(t) for t in self.network.tables.values())
        shape = (*nodes.feature.shape, count)
        barred = torch.ones(shape, dtype=torch.bool, device=x.device)
        barred[:, :, 0] = False
        direction, low, high = (
            torch.cat([t, t.new_zeros(*shape[:2], count - 1, *t.shape[3:])], dim=2) for t in (direction, low, high)
        )
        for j, slot in self.slots.items():
            node, place = torch.nonzero((nodes.feature == j) & nodes.real, as_tuple=True)
            table = self.network.tables[j]
            own = self.x[nodes.row[node], j].long()
            direction[node, place, : len(table)] = table - table[own][:, None]
            low[node, place], high[node, place] = 1.0, 1.0
            barred[node, place] = True
            barred[node, place, : len(table)] = ~nodes.options[node, slot]
        return MoveBounds(direction, low, high, barred)

    # -- limits of the hidden layers ------------------------------------------------------------

    def limits(self, nodes: Nodes, moves: MoveBounds, *, relaxed: bool) -> Limits:
        """By intervals, and by relaxation if asked for."""
        limits = [self.first_limits(nodes, moves)]
        for depth, (weight, bias) in enumerate(self.network.later[:-1], 1):
            least, most = (side.clamp_min(0) for side in limits[-1])
            middle, radius = (least + most) / 2 @ weight.T + bias, (most - least) / 2 @ weight.abs().T
            slack = ROUNDING * self.mass[depth].index_select(0, nodes.row)
            low, high = middle - radius - slack, middle + radius + slack
            if relaxed:
                if depth == 1:
                    lower, upper = self.second_limits(nodes, moves, relu_relaxation(*limits[0]))
                else:
                    rows, constant = weight.expand(len(nodes), *weight.shape), bias.expand(len(nodes), -1)
                    upper = self.backward(nodes, moves, rows, constant, limits)[0] + slack
                    lower = -self.backward(nodes, moves, -rows, -constant, limits)[0] - slack
                low, high = torch.maximum(low, lower), torch.minimum(high, upper)
            limits.append((low, torch.maximum(low, high)))
        return limits

    def first_limits(self, nodes: Nodes, moves: MoveBounds) -> tuple[Tensor, Tensor]:
        """Limits (N, h) of the first layer before its ReLU."""
        start = self.start.index_select(0, nodes.row)
        up, down = moves.span()
        high, low = start + up, start - down
        slack = ROUNDING * self.mass[0].index_select(0, nodes.row)
        return low - slack, high + slack

    def second_limits(self, nodes: Nodes, moves: MoveBounds, first: ReluRelaxation) -> tuple[Tensor, Tensor]:
        """Relaxed limits of the second layer. The layer's weights are the same for all
        nodes, so its products with each node's few directions are two matrix products for the whole stack."""
        weight, bias = self.network.later[0]
        n, k, v, h = moves.direction.shape
        both = torch.cat([weight.clamp_min(0), weight.clamp_max(0)]).T  # (h, 2 second)
        start = self.start.index_select(0, nodes.row)
        columns = torch.cat([start[:, None], moves.direction.reshape(n, k * v, h)], dim=1)
        steep_plus, steep_minus = (first.upper_slope[:, None] * columns @ both).chunk(2, dim=2)
        flat_plus, flat_minus = (first.lower_slope[:, None] * columns @ both).chunk(2, dim=2)
        lift_plus, lift_minus = (first.upper_intercept @ both).chunk(2, dim=1)
        upper, lower = steep_plus + flat_minus, steep_minus + flat_plus  # (N, 1 + k v, second)

        def most(slopes: Tensor) -> Tensor:
            return moves.most(slopes.mT.reshape(n, -1, k, v)).sum(dim=2)

        high = upper[:, 0] + lift_plus + bias + most(upper[:, 1:])
        low = lower[:, 0] + lift_minus + bias - most(-lower[:, 1:])
        slack = ROUNDING * self.mass[1].index_select(0, nodes.row)
        return low - slack, high + slack

    # -- the margin -----------------------------------------------------------------------------

    def bound(self, nodes: Nodes) -> Bound:
        """Most nodes fall to interval limits of the inner layers; the others get relaxed ones."""
        moves = self.moves(nodes)
        found = self.margin_bound(nodes, moves, self.limits(nodes, moves, relaxed=False))
        hard = found.undone()
        if len(hard):
            some, their = nodes.at(hard), moves.at(hard)
            found.keep_better(hard, self.margin_bound(some, their, self.limits(some, their, relaxed=True)))
        return found

    def margin_bound(self, nodes: Nodes, moves: MoveBounds, limits: Limits) -> Bound:
        """The bound on the functional that is lowest: all have to be at least 0."""
        rows, constant, slack = self.functionals(nodes)
        value, slope = self.backward(nodes, moves, rows, constant, limits)
        worst = (torch.arange(len(nodes), device=rows.device), value.argmin(dim=1))
        return Bound(value[worst], slack[worst], slope[worst])

    def functionals(self, nodes: Nodes) -> tuple[Tensor, Tensor, Tensor]:
        """What has to be at least 0, as weights (N, m, h) of the last hidden layer and constants (N, m), and what
        rounding may cost (N, m): the lead of the target over each rival, or what a number lies within its range."""
        weight, bias = self.network.later[-1]
        mass = self.mass[-1].index_select(0, nodes.row)
        if isinstance(self.goal, Between):
            low, high = (end.index_select(0, nodes.row) for end in (self.goal.low, self.goal.high))
            rows = torch.cat([weight, -weight]).expand(len(nodes), -1, -1)
            constant = torch.stack([bias - low, high - bias], dim=1)
            return rows, constant, ROUNDING * (mass + finite_size(constant))
        rivals = self.rivals(nodes)  # (N, m) classes that the target has to beat
        rows = weight[nodes.target][:, None] - weight[rivals]
        constant = bias[nodes.target][:, None] - bias[rivals]
        constant = constant - self.goal.offset(nodes.target[:, None], rivals, bias)
        mass = mass.gather(1, nodes.target[:, None]) + mass.gather(1, rivals)
        return rows, constant, ROUNDING * (mass + constant.abs())

    def rivals(self, nodes: Nodes) -> Tensor:
        """The classes that the target must beat: the original one, or all others when it was asked for."""
        assert isinstance(self.goal, ClassGoal)
        if not self.goal.asks_for_one:
            return self.original.index_select(0, nodes.row)[:, None]
        count = len(self.network.later[-1][1])
        classes = torch.arange(count, device=nodes.target.device).expand(len(nodes), -1)
        return classes[classes != nodes.target[:, None]].reshape(len(nodes), -1)

    def backward(
        self, nodes: Nodes, moves: MoveBounds, rows: Tensor, constant: Tensor, limits: Limits
    ) -> tuple[Tensor, Tensor]:
        """Upper bounds (N, m) on rows . a + constant, a the ReLU of the last layer in `limits`; and the slopes
        in the first layer."""
        for depth in range(len(limits) - 1, -1, -1):
            line = relu_relaxation(*limits[depth])
            positive, negative = rows.clamp_min(0), rows.clamp_max(0)
            constant = constant + dot(positive, line.upper_intercept)
            rows = positive * line.upper_slope[:, None] + negative * line.lower_slope[:, None]
            if depth:
                weight, bias = self.network.later[depth - 1]
                constant = constant + rows @ bias
                rows = rows @ weight
        return self.concrete(nodes, moves, rows, constant), rows

    def concrete(self, nodes: Nodes, moves: MoveBounds, rows: Tensor, constant: Tensor) -> Tensor:
        """The most that rows . z + constant (N, m) can be over the node."""
        n, k, v, h = moves.direction.shape
        slope = (rows @ moves.direction.reshape(n, k * v, h).mT).reshape(n, -1, k, v)
        return dot(rows, self.start.index_select(0, nodes.row)) + constant + moves.most(slope).sum(dim=2)


def finite_size(constant: Tensor) -> Tensor:
    """The absolute values of constants; 0 for the end that a range does not have, which takes part in no sum."""
    return torch.where(torch.isfinite(constant), constant.abs(), 0.0)
