"""Bounds on a ReLU network over nodes of a branch and bound: linear relaxation, made concrete exactly for "at most r
features change"."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from grace.models.relu import ReluNetwork
from grace.problem import Problem, positions

ROUNDING = 1e-11  # relative; far above what float64 sums of a few hundred terms can lose
STRIDES = (0.5, 0.25, 0.25, 0.12, 0.06, 0.0)  # of the steps that tighten a bound; the last only looks
UNDECIDED, CHANGED, ALONE = 0, 1, 2


@dataclass(frozen=True)
class Nodes:
    """A stack of nodes."""

    row: Tensor  # (N,) position of the row
    target: Tensor  # (N,) the class that is to win
    low: Tensor  # (N, d)
    high: Tensor
    state: Tensor  # (N, d) UNDECIDED, CHANGED or ALONE
    options: Tensor  # (N, all categories) that may still be chosen
    left: Tensor  # (N,) undecided features that may still change
    bound: Tensor  # (N,)
    up: Tensor  # (N, d) what each feature brings at most in the relaxation
    slope: Tensor  # (N, d) of the relaxation
    slack: Tensor  # (N,) what rounding may have cost

    def __len__(self) -> int:
        return len(self.row)

    def at(self, index: Tensor) -> Nodes:
        return Nodes(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    @classmethod
    def join(cls, parts: list[Nodes]) -> Nodes:
        return cls(**{f.name: torch.cat([getattr(p, f.name) for p in parts]) for f in fields(cls)})


def lower_slopes(low: Tensor, high: Tensor) -> Tensor:
    """The slope below a ReLU that may be either way: the line that leaves less room."""
    return (high > -low).to(low.dtype)


def undone(bounds: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Positions of the nodes whose bound does not exclude them; NaN excludes nothing."""
    return positions(~(bounds[0] < -bounds[1]))


def keep_better(bounds: tuple[Tensor, Tensor, Tensor], index: Tensor, found: tuple[Tensor, Tensor, Tensor]) -> None:
    """Put the bounds found for some nodes in the place of worse ones."""
    better = found[0] < bounds[0][index]
    for old, new in zip(bounds, found, strict=True):
        old[index[better]] = new[better]


class Bounds:
    """Upper bounds on how far the target of a node can lead."""

    def __init__(self, problem: Problem, network: ReluNetwork) -> None:
        self.problem, self.network = problem, network
        self.x = problem.rows
        self.start = network.first(self.x)
        self.own = network.scores(self.x).argmax(dim=1)
        self.slots: dict[int, slice] = {}  # the places of each feature's categories among all
        begin = 0
        for j, table in network.tables.items():
            self.slots[j] = slice(begin, begin + len(table))
            begin += len(table)
        self.option_count = begin

    def bound(self, nodes: Nodes) -> tuple[Tensor, Tensor, Tensor]:
        """An upper bound on the margin of the target, what rounding may have cost, and the slope of the
        deciding relaxation in the first layer. Most nodes fall to cheap interval limits of the inner layers;
        the others get relaxed limits, and better slopes below their ReLUs."""
        first = self.concrete_first(nodes)
        bounds = self.margin_bound(nodes, self.limits(nodes, first, relaxed=False))
        hard = undone(bounds)
        if len(hard):
            some = nodes.at(hard)
            limits = self.limits(some, (first[0][hard], first[1][hard]), relaxed=True)
            found = self.margin_bound(some, limits)
            still = undone(found)
            if len(still):
                few = [(low[still], high[still]) for low, high in limits]
                keep_better(found, still, self.margin_bound(some.at(still), few, tightened=True))
            keep_better(bounds, hard, found)
        return bounds

    def limits(self, nodes: Nodes, first: tuple[Tensor, Tensor], *, relaxed: bool) -> list[tuple[Tensor, Tensor]]:
        """Limits of every hidden layer before its ReLU: by intervals, and by relaxation if asked for."""
        limits = [first]
        for weight, bias in self.network.later[:-1]:
            least, most = (side.clamp_min(0) for side in limits[-1])
            positive, negative = weight.clamp_min(0), weight.clamp_max(0)
            high = most @ positive.T + least @ negative.T + bias
            low = least @ positive.T + most @ negative.T + bias
            margin = ROUNDING * (1 + most @ weight.abs().T + bias.abs())
            low, high = low - margin, high + margin
            if relaxed:
                rows, constant = weight.expand(len(nodes), *weight.shape), bias.expand(len(nodes), -1)
                upper, slack, _ = self.backward(nodes, rows, constant, limits)
                high = torch.minimum(high, upper + slack)
                upper, slack, _ = self.backward(nodes, -rows, -constant, limits)
                low = torch.maximum(low, -upper - slack)
            limits.append((low, high))
        return limits

    def margin_bound(
        self, nodes: Nodes, limits: list[tuple[Tensor, Tensor]], *, tightened: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The bound on the target's margin over the rival it beats least."""
        weight, bias = self.network.later[-1]
        rivals = self.rivals(nodes)  # (N, m) classes that the target has to beat
        rows = weight[nodes.target][:, None] - weight[rivals]
        constant = bias[nodes.target][:, None] - bias[rivals] - self.problem.goal.offset
        upper, slack, slope = self.backward(nodes, rows, constant, limits)
        worst = (torch.arange(len(nodes), device=upper.device), upper.argmin(dim=1))
        if tightened:
            return self.tighten(nodes, rows[worst][:, None], constant[worst][:, None], limits)
        return upper[worst], slack[worst], slope[worst]

    def tighten(
        self, nodes: Nodes, rows: Tensor, constant: Tensor, limits: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Better slopes below the ReLUs that may be either way, by a few signed gradient steps (alpha-CROWN)."""
        slopes = [lower_slopes(low, high) for low, high in limits]
        best: tuple[Tensor, Tensor, Tensor] | None = None
        for stride in STRIDES:
            with torch.enable_grad():
                for slope in slopes:
                    slope.requires_grad_(True)
                upper, slack, in_first = self.backward(nodes, rows, constant, limits, slopes)
                grads = torch.autograd.grad(upper.sum(), slopes)
            found = (upper[:, 0].detach(), slack[:, 0].detach(), in_first[:, 0].detach())
            if best is None:
                best = found
            else:
                keep_better(best, torch.arange(len(nodes), device=upper.device), found)
            slopes = [(s.detach() - stride * g.sign()).clamp(0, 1) for s, g in zip(slopes, grads, strict=True)]
        assert best is not None
        return best

    def rivals(self, nodes: Nodes) -> Tensor:
        """The classes that the target must beat: the original one, or all others when it was asked for."""
        own = self.own[nodes.row]
        if not self.problem.goal.asks_for_one:
            return own[:, None]
        classes = torch.arange(len(self.network.later[-1][1]), device=own.device).expand(len(nodes), -1)
        return classes[classes != nodes.target[:, None]].reshape(len(nodes), -1)

    def backward(
        self,
        nodes: Nodes,
        rows: Tensor,
        constant: Tensor,
        limits: list[tuple[Tensor, Tensor]],
        slopes: list[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Upper bounds (N, m) on rows . a + constant, a the ReLU of the last layer in `limits`; what rounding
        may have cost; and the slopes in the first layer. `slopes` are those of the lower side of each ReLU."""
        for depth in range(len(limits) - 1, -1, -1):
            low, high = limits[depth]
            crossing = (low < 0) & (high > 0)
            steep = torch.where(low >= 0, 1.0, torch.where(crossing, high / (high - low).clamp_min(1e-300), 0.0))
            lift = torch.where(crossing, -low * steep, 0.0)
            flat = lower_slopes(low, high) if slopes is None else slopes[depth]
            flat = torch.where(low >= 0, 1.0, torch.where(crossing, flat, 0.0))
            positive, negative = rows.clamp_min(0), rows.clamp_max(0)
            constant = constant + (positive @ lift[:, :, None])[..., 0]
            rows = positive * steep[:, None] + negative * flat[:, None]
            if depth:
                weight, bias = self.network.later[depth - 1]
                constant = constant + rows @ bias
                rows = rows @ weight
        return (*self.concrete(nodes, rows, constant), rows)

    def concrete(self, nodes: Nodes, rows: Tensor, constant: Tensor) -> tuple[Tensor, Tensor]:
        """The most that rows . z + constant (N, m) can be over the node, and a bound on its rounding."""
        up, slope = self.reach(nodes, rows)
        start = self.start[nodes.row]
        middle = (rows @ start[:, :, None])[..., 0] + constant
        value = middle + self.best_sum(nodes, up)
        size = (rows.abs() @ start.abs()[:, :, None])[..., 0] + constant.abs() + up.abs().sum(dim=2)
        return value, ROUNDING * (1 + size + self.magnitude(nodes, slope))

    def magnitude(self, nodes: Nodes, slope: Tensor) -> Tensor:
        """The size of the terms slope x, which cancel in slope (x' - x)."""
        active, x = self.active(nodes), self.x[nodes.row].abs()
        x = x if active is None else x.gather(1, active)
        return (slope.abs() @ x[:, :, None])[..., 0]

    def reach(self, nodes: Nodes, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The most (N, m, features) that each feature can add to rows . z by changing, and the slopes. Of
        nodes in which all is decided, only the changed features are looked at (see `active`)."""
        active = self.active(nodes)
        x, low, high, state = self.x[nodes.row], nodes.low, nodes.high, nodes.state
        if active is None:
            slope = rows @ self.network.weight
        else:
            slope = rows @ self.network.weight.T[active].mT
            x, low, high, state = (t.gather(1, active) for t in (x, low, high, state))
        up = torch.maximum(slope * (low - x)[:, None], slope * (high - x)[:, None])
        for j, slot in self.slots.items():
            table = self.network.tables[j]
            own = table[self.x[nodes.row, j].long()]
            values = rows @ table.T - (rows @ own[:, :, None])
            best = values.masked_fill(~nodes.options[:, None, slot], -torch.inf).amax(dim=2)
            if active is None:
                up[:, :, j] = best
            else:
                up = torch.where((active == j)[:, None], best[:, :, None], up)
        return torch.where((state == ALONE)[:, None], 0.0, up), slope

    def active(self, nodes: Nodes) -> Tensor | None:
        """The changed features (N, k), if all nodes have everything decided; padded with others."""
        if int(nodes.left.max()) > 0:
            return None
        changed = nodes.state == CHANGED
        count = max(1, int(changed.sum(dim=1).max()))
        return changed.to(torch.uint8).topk(count, dim=1).indices

    def spread_out(self, nodes: Nodes, values: Tensor) -> Tensor:
        """Values of the active features (N, k) at their places among all (N, d)."""
        active = self.active(nodes)
        return values if active is None else torch.zeros_like(nodes.low).scatter(1, active, values)

    def best_sum(self, nodes: Nodes, up: Tensor) -> Tensor:
        """All changed features, and the `left` best of the undecided ones."""
        most = int(nodes.left.max())
        if most == 0:
            return up.sum(dim=2)
        total = torch.where((nodes.state == CHANGED)[:, None], up, 0.0).sum(dim=2)
        free = torch.where((nodes.state == UNDECIDED)[:, None], up, 0.0).clamp_min(0)
        top = free.topk(min(most, free.shape[2]), dim=2).values
        counted = torch.arange(top.shape[2], device=top.device) < nodes.left[:, None]
        return total + (top * counted[:, None]).sum(dim=2)

    def concrete_first(self, nodes: Nodes) -> tuple[Tensor, Tensor]:
        """Limits (N, h) of the first layer before its ReLU."""
        h = len(self.network.bias)
        eye = torch.eye(h, dtype=self.x.dtype, device=self.x.device).expand(len(nodes), h, h)
        start = self.start[nodes.row]
        high = start + self.best_sum(nodes, self.reach(nodes, eye)[0])
        low = start - self.best_sum(nodes, self.reach(nodes, -eye)[0])
        margin = ROUNDING * (1 + start.abs() + high.abs() + low.abs())
        return low - margin, high + margin
