"""Proofs: for a ReLU network, that no row with at most k changed features reaches the goal.

Branch and bound. A node says of each feature whether it is undecided, changed (within a sub-range, or to some of its
categories) or left alone, and how many undecided ones may still change. The bound is a linear relaxation of the network
(CROWN: Zhang et al. 2018), made concrete exactly for "at most r of the undecided features change": the r largest
contributions. A node whose bound is below zero by more than rounding can explain is done; every bound also gives a
point to try. Branch on the feature with the largest contribution (left alone, changed downwards, changed upwards), then
halve the ranges of those that are changed. All rows and nodes are worked on together.

The proof is over the continuous box, with whole numbers and categories as such, and keeps frozen and one-way features
and SU <= gamma. Under confidence it proves a necessary condition, which is sound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.relu import ReluNetwork, relu_network
from grace.problem import Problem, positions

NODE_BYTES = 1 << 25  # of coefficients worked on at a time
MOST_NODES = 1 << 17
ROUNDING = 1e-11  # relative; far above what float64 sums of a few hundred terms can lose
THINNEST = 1e-10  # a range of this share of the whole is not halved any more
UNDECIDED, CHANGED, ALONE = 0, 1, 2
OPEN, PROVEN, FOUND = 0, 1, 2


@dataclass(frozen=True)
class Verdicts:
    """Per row: PROVEN that no answer with at most k changes exists, FOUND one (`rows`), or OPEN."""

    status: Tensor
    rows: Tensor
    bound: Tensor  # the best upper bound on the margin; below zero where proven
    nodes: Tensor
    seconds: Tensor


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

    def __len__(self) -> int:
        return len(self.row)

    def at(self, index: Tensor) -> Nodes:
        return Nodes(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    @classmethod
    def join(cls, parts: list[Nodes]) -> Nodes:
        return cls(**{f.name: torch.cat([getattr(p, f.name) for p in parts]) for f in fields(cls)})


def prove(problem: Problem, most: Tensor, budget: float = 1.0) -> Verdicts:
    """Decide for each row whether a row with at most `most` (n,) changed features reaches its goal, giving up
    on a row after `budget` seconds of work."""
    network = relu_network(problem.model)
    if network is None:
        raise GraceError(
            "a proof needs a network of Linear and ReLU layers: one trained here, or nn.Sequential without encode"
        )
    return Prover(problem, network, budget).run(most)


class Prover:
    """The state of one branch and bound over a batch of rows."""

    def __init__(self, problem: Problem, network: ReluNetwork, budget: float) -> None:
        self.problem, self.network, self.budget = problem, network, budget
        self.x = problem.rows
        self.start = network.first(self.x)
        device, n = self.x.device, len(self.x)
        self.status = torch.zeros(n, dtype=torch.int64, device=device)
        self.found = self.x.clone()
        self.nodes_done = torch.zeros(n, dtype=torch.int64, device=device)
        self.seconds = torch.zeros(n, dtype=torch.float64, device=device)
        self.stuck = torch.full((n,), -torch.inf, dtype=torch.float64, device=device)  # bounds of nodes given up
        self.numeric = problem.space.is_numeric
        self.slots: dict[int, slice] = {}
        begin = 0
        for j, table in network.tables.items():
            self.slots[j] = slice(begin, begin + len(table))
            begin += len(table)
        self.option_count = begin
        width = max(len(w) for w, _ in ((network.weight, network.bias), *network.later))
        self.batch = max(16, NODE_BYTES // (8 * width * max(self.x.shape[1], width)))

    def run(self, most: Tensor) -> Verdicts:
        pool = self.bounded(self.roots(most))
        while len(pool):
            alive = (self.status[pool.row] == OPEN) & (self.seconds[pool.row] < self.budget)
            given_up = positions(~alive & (self.status[pool.row] == OPEN))
            self.note(pool.at(given_up))
            pool = pool.at(positions(alive))
            if len(pool) == 0:
                break
            # rows that have had least work first; within a row the most promising node
            turn = self.nodes_done[pool.row].to(torch.float64) // 64 * 1e9
            order = (turn - pool.bound.clamp(-1e8, 1e8)).argsort()
            chosen, rest = pool.at(order[: self.batch]), pool.at(order[self.batch :])
            begun = time.perf_counter()
            children = self.bounded(self.branch(chosen))
            share = torch.bincount(chosen.row, minlength=len(self.x)).to(torch.float64)
            self.seconds += share / share.sum() * (time.perf_counter() - begun)
            pool = Nodes.join([rest, children])
            if len(pool) > MOST_NODES:
                keep = pool.bound.argsort(descending=True)
                self.note(pool.at(keep[MOST_NODES:]))
                pool = pool.at(keep[:MOST_NODES])
        open_ = self.status == OPEN
        proven = open_ & torch.isinf(self.stuck)
        self.status[proven] = PROVEN
        bound = torch.where(proven, torch.zeros_like(self.stuck), self.stuck)
        return Verdicts(self.status, self.found, bound, self.nodes_done, self.seconds)

    def note(self, nodes: Nodes) -> None:
        """Nodes that will not be looked at: their rows cannot be proven."""
        self.stuck.scatter_reduce_(0, nodes.row, nodes.bound, "amax")

    # -- nodes ----------------------------------------------------------------------------------

    def roots(self, most: Tensor) -> Nodes:
        """One node per row and class that may win."""
        scores = self.network.scores(self.x)
        own = scores.argmax(dim=1)
        wanted = self.problem.goal.winners(scores)  # (n, classes)
        wanted[torch.arange(len(own), device=own.device), own] = False
        row, target = torch.nonzero(wanted & (most > 0)[:, None], as_tuple=True)
        n, d = len(row), self.x.shape[1]
        problem = self.problem.select(row)
        state = torch.where(problem.free, UNDECIDED, ALONE).to(torch.int8)
        options = torch.zeros(n, self.option_count, dtype=torch.bool, device=self.x.device)
        for j, slot in self.slots.items():
            options[:, slot][:, self.problem.space.open[j]] = True
            options[torch.arange(n, device=row.device), slot.start + problem.rows[:, j].long()] = False
        bound = torch.full((n,), torch.inf, dtype=torch.float64, device=self.x.device)
        left = torch.minimum(most[row], torch.full_like(row, d))
        return Nodes(row, target, problem.low, problem.high, state, options, left, bound)

    def branch(self, nodes: Nodes) -> Nodes:
        """The children of nodes: decide one more feature, or halve a range."""
        up, slope = self.contributions(nodes)
        undecided = (nodes.state == UNDECIDED) & (nodes.left > 0)[:, None]
        split = self.split_weight(nodes, slope)
        promising = (undecided & (up > 0)).any(dim=1)
        halve = ~promising & (split > 0).any(dim=1)
        decide = promising | (~halve & undecided.any(dim=1))
        # a point, or as good as one, that no bound excludes
        self.note(nodes.at(positions(~halve & ~decide)))
        parts = []
        first, second = positions(decide), positions(halve)
        if len(first):
            feature = torch.where(undecided[first], up[first], -torch.inf).argmax(dim=1)
            parts += self.decide(nodes.at(first), feature)
        if len(second):
            parts += self.halve(nodes.at(second), split[second].argmax(dim=1))
        return Nodes.join(parts) if parts else nodes.at(first)

    def decide(self, nodes: Nodes, feature: Tensor) -> list[Nodes]:
        """Left alone; changed downwards; changed upwards (a category: changed)."""
        at = feature[:, None]
        alone = self.with_state(nodes, at, ALONE)
        conflict = self.problem.conflict[feature]
        state = nodes.state.masked_fill(conflict & (nodes.state == UNDECIDED), ALONE).scatter(1, at, CHANGED)
        left = nodes.left - 1
        state = torch.where((left == 0)[:, None] & (state == UNDECIDED), ALONE, state).to(torch.int8)
        changed = Nodes(
            nodes.row, nodes.target, nodes.low, nodes.high, state, nodes.options, left, nodes.bound
        )
        x = self.x[nodes.row].gather(1, at)
        is_number = self.numeric[feature]
        low, high = nodes.low.gather(1, at), nodes.high.gather(1, at)
        below = positions(is_number & (low < x)[:, 0])
        above = positions(is_number & (high > x)[:, 0])
        whole = self.problem.space.is_integer[at].to(x.dtype)  # the nearest other whole number
        down = self.with_range(changed, at, low, torch.minimum(high, x - whole)).at(below)
        up = self.with_range(changed, at, torch.maximum(low, x + whole), high).at(above)
        return [alone, down, up, changed.at(positions(~is_number))]

    def split_weight(self, nodes: Nodes, slope: Tensor) -> Tensor:
        """How much it matters to split the range of each changed feature; 0 where there is nothing to split."""
        changed = nodes.state == CHANGED
        width = torch.where(changed & self.numeric, nodes.high - nodes.low, 0.0)
        weight = width * (slope.abs() + 0.05 * slope.abs().amax(dim=1, keepdim=True))
        spans = self.problem.select(nodes.row)
        thin = width <= THINNEST * (spans.high - spans.low).abs().clamp_min(1e-300)
        weight = torch.where(thin, 0.0, weight)
        for j, slot in self.slots.items():
            several = changed[:, j] & (nodes.options[:, slot].sum(dim=1) > 1)
            weight[:, j] = torch.where(several, torch.inf, 0.0)
        return weight

    def halve(self, nodes: Nodes, feature: Tensor) -> list[Nodes]:
        """Two nodes, each with half of the feature's range or categories."""
        at = feature[:, None]
        low, high = nodes.low.gather(1, at), nodes.high.gather(1, at)
        middle = (low + high) / 2
        whole = self.problem.space.is_integer[at]
        lower_end = torch.where(whole, middle.floor(), middle)
        upper_start = torch.where(whole, middle.floor() + 1, middle)
        number = positions(self.numeric[feature])
        parts = [
            self.with_range(nodes, at, low, lower_end).at(number),
            self.with_range(nodes, at, upper_start, high).at(number),
        ]
        for j, slot in self.slots.items():
            these = nodes.at(positions(feature == j))
            if len(these):
                rank = these.options[:, slot].cumsum(dim=1)
                first_half = rank <= rank[:, -1:] // 2
                for half in (first_half, ~first_half):
                    options = these.options.clone()
                    options[:, slot] &= half
                    parts.append(
                        Nodes(
                            these.row, these.target, these.low, these.high, these.state, options, these.left, these.bound
                        )
                    )
        return parts

    def with_state(self, nodes: Nodes, at: Tensor, value: int) -> Nodes:
        state = nodes.state.scatter(1, at, value)
        return Nodes(
            nodes.row, nodes.target, nodes.low, nodes.high, state, nodes.options, nodes.left, nodes.bound
        )

    def with_range(self, nodes: Nodes, at: Tensor, low: Tensor, high: Tensor) -> Nodes:
        lows, highs = nodes.low.scatter(1, at, low), nodes.high.scatter(1, at, high)
        return Nodes(
            nodes.row, nodes.target, lows, highs, nodes.state, nodes.options, nodes.left, nodes.bound
        )

    # -- bounds ---------------------------------------------------------------------------------

    def bounded(self, nodes: Nodes) -> Nodes:
        """Bound new nodes, try the point each bound suggests, and drop the nodes that are done."""
        kept = []
        for start in range(0, len(nodes), self.batch):
            part = nodes.at(torch.arange(start, min(start + self.batch, len(nodes)), device=nodes.row.device))
            bound, slack, slope_z = self.bound(part)
            self.nodes_done += torch.bincount(part.row, minlength=len(self.x))
            part = Nodes(
                part.row, part.target, part.low, part.high, part.state, part.options, part.left, bound
            )
            self.try_points(part, slope_z)
            alive = (bound >= -slack) & (self.status[part.row] == OPEN)
            kept.append(part.at(positions(alive)))
        return Nodes.join(kept) if kept else nodes

    def contributions(self, nodes: Nodes) -> tuple[Tensor, Tensor]:
        """What each feature brings at most in the relaxation of the node's goal, and its slope."""
        _, _, slope_z = self.bound(nodes)
        up, slope = self.reach(nodes, slope_z[:, None])
        return up[:, 0], slope[:, 0]

    def bound(self, nodes: Nodes) -> tuple[Tensor, Tensor, Tensor]:
        """An upper bound on the margin of the target, what rounding may have cost, and the slope of the
        deciding relaxation in the first layer."""
        limits = [self.concrete_first(nodes)]
        for depth in range(len(self.network.later) - 1):
            weight, bias = self.network.later[depth]
            rows = weight.expand(len(nodes), *weight.shape)
            constant = bias.expand(len(nodes), -1)
            upper, _, _ = self.backward(nodes, rows, constant, limits)
            lower, _, _ = self.backward(nodes, -rows, -constant, limits)
            least, most = (side.clamp_min(0) for side in limits[-1])
            positive, negative = weight.clamp_min(0), weight.clamp_max(0)
            by_interval = most @ positive.T + least @ negative.T + bias
            by_interval_low = least @ positive.T + most @ negative.T + bias
            limits.append((torch.maximum(-lower, by_interval_low), torch.minimum(upper, by_interval)))
        weight, bias = self.network.later[-1]
        rivals = self.rivals(nodes)  # (N, m) classes that the target has to beat
        rows = weight[nodes.target][:, None] - weight[rivals]
        constant = bias[nodes.target][:, None] - bias[rivals] - self.problem.goal.offset
        upper, slack, slope = self.backward(nodes, rows, constant, limits)
        worst = upper.argmin(dim=1)
        here = torch.arange(len(nodes), device=worst.device)
        return upper[here, worst], slack[here, worst], slope[here, worst]

    def rivals(self, nodes: Nodes) -> Tensor:
        """The classes that the target must beat: the original one, or all others when it was asked for."""
        own = self.network.rest(self.start[nodes.row].clone()).argmax(dim=1)
        if not self.problem.goal.asks_for_one:
            return own[:, None]
        classes = torch.arange(len(self.network.later[-1][1]), device=own.device).expand(len(nodes), -1)
        return classes[classes != nodes.target[:, None]].reshape(len(nodes), -1)

    def backward(
        self, nodes: Nodes, rows: Tensor, constant: Tensor, limits: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Upper bounds (N, m) on rows . a + constant, a the ReLU of the last layer in `limits`."""
        for depth in range(len(limits) - 1, -1, -1):
            low, high = limits[depth]
            crossing = (low < 0) & (high > 0)
            steep = torch.where(low >= 0, 1.0, torch.where(crossing, high / (high - low).clamp_min(1e-300), 0.0))
            lift = torch.where(crossing, -low * steep, 0.0)
            flat = torch.where(low >= 0, 1.0, torch.where(crossing & (high > -low), 1.0, 0.0))
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
        size = size + (slope.abs() @ self.x[nodes.row].abs()[:, :, None])[..., 0]
        return value, ROUNDING * (1 + size)

    def reach(self, nodes: Nodes, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The most (N, m, d) that each feature can add to rows . z by changing, and the slopes."""
        slope = rows @ self.network.weight
        x = self.x[nodes.row]
        up = torch.maximum(slope * (nodes.low - x)[:, None], slope * (nodes.high - x)[:, None])
        for j, slot in self.slots.items():
            table = self.network.tables[j]
            own = table[x[:, j].long()]
            values = rows @ table.T - (rows @ own[:, :, None])
            up[:, :, j] = values.masked_fill(~nodes.options[:, None, slot], -torch.inf).amax(dim=2)
        return torch.where((nodes.state == ALONE)[:, None], 0.0, up), slope

    def best_sum(self, nodes: Nodes, up: Tensor) -> Tensor:
        """All changed features, and the `left` best of the undecided ones."""
        total = torch.where((nodes.state == CHANGED)[:, None], up, 0.0).sum(dim=2)
        most = int(nodes.left.max())
        if most == 0:
            return total
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

    # -- points ---------------------------------------------------------------------------------

    def try_points(self, nodes: Nodes, slope_z: Tensor) -> None:
        """The point at which the relaxation of each node is largest: perhaps it is an answer."""
        up, slope = self.reach(nodes, slope_z[:, None])
        up, slope = up[:, 0], slope[:, 0]
        x = self.x[nodes.row]
        best = torch.where(slope > 0, nodes.high, nodes.low)
        for j, slot in self.slots.items():
            table = self.network.tables[j]
            values = (slope_z @ table.T).masked_fill(~nodes.options[:, slot], -torch.inf)
            best[:, j] = values.argmax(dim=1).to(best.dtype)
        change = nodes.state == CHANGED
        most = int(nodes.left.max()) if len(nodes) else 0
        if most:
            free = torch.where(nodes.state == UNDECIDED, up, 0.0)
            top = free.topk(min(most, free.shape[1]), dim=1)
            take = (torch.arange(top.values.shape[1], device=x.device) < nodes.left[:, None]) & (top.values > 0)
            change = change | torch.zeros_like(change).scatter(1, top.indices, take)
        point = torch.where(change, best, x)
        changed = (point != x).to(torch.float64)
        redundant = ((changed @ self.problem.conflict.to(torch.float64)) * changed).sum(dim=1) > 0
        part = self.problem.select(nodes.row)
        hit = part.reached(point) & ~redundant & part.inside(point).all(dim=1)
        index = positions(hit)
        self.found[nodes.row[index]] = point[index]
        self.status[nodes.row[index]] = FOUND
