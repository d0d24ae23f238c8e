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
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.relu import ReluNetwork, relu_network
from grace.problem import Problem, positions
from grace.relaxation import ALONE, CHANGED, UNDECIDED, Bounds, Nodes

NODE_BYTES = 1 << 25  # of coefficients worked on at a time
MOST_NODES = 1 << 17
THINNEST = 1e-10  # a range of this share of the whole is not halved any more
OPEN, PROVEN, FOUND = 0, 1, 2
AT_ONCE = 12  # features decided in one step


@dataclass(frozen=True)
class Verdicts:
    """Per row: PROVEN that no answer with at most k changes exists, FOUND one (`rows`), or OPEN."""

    status: Tensor
    rows: Tensor
    bound: Tensor  # the best upper bound on the margin; below zero where proven
    nodes: Tensor
    seconds: Tensor


def prove(problem: Problem, most: Tensor, budget: float = 1.0) -> Verdicts:
    """Decide for each row whether a row with at most `most` (n,) changed features reaches its goal, giving up
    on a row after `budget` seconds of work."""
    network = relu_network(problem.model)
    if network is None:
        raise GraceError(
            "a proof needs a network of Linear and ReLU layers: one trained here, or nn.Sequential without encode"
        )
    endless = problem.free & problem.space.is_numeric & ~torch.isfinite(problem.high - problem.low)
    if endless.any():
        schema, place = problem.model.schema, int(endless.any(dim=0).nonzero()[0])
        name = "a feature" if schema is None else f"feature {schema.names[place]!r}"
        raise GraceError(f"{name} has no finite range, which a proof needs; give it low and high in the schema")
    return Prover(problem, network, budget).run(most)


class Prover:
    """The state of one branch and bound over a batch of rows."""

    def __init__(self, problem: Problem, network: ReluNetwork, budget: float) -> None:
        self.problem, self.network, self.budget = problem, network, budget
        self.x = problem.rows
        self.bounds = Bounds(problem, network)
        self.slots = self.bounds.slots
        device, n = self.x.device, len(self.x)
        self.status = torch.zeros(n, dtype=torch.int64, device=device)
        self.found = self.x.clone()
        self.nodes_done = torch.zeros(n, dtype=torch.int64, device=device)
        self.seconds = torch.zeros(n, dtype=torch.float64, device=device)
        self.stuck = torch.full((n,), -torch.inf, dtype=torch.float64, device=device)  # bounds of nodes given up
        self.numeric = problem.space.is_numeric
        span = (problem.space.high - problem.space.low).nan_to_num(posinf=0)
        self.influence = network.weight.abs().sum(dim=0) * span
        for j, table in network.tables.items():
            self.influence[j] = (table.amax(dim=0) - table.amin(dim=0)).sum()
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
            count = max(4, self.batch // AT_ONCE)
            chosen, rest = pool.at(order[:count]), pool.at(order[count:])
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
        proven = open_ & torch.isneginf(self.stuck)
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
        own = self.bounds.own
        wanted = self.problem.goal.winners(scores)  # (n, classes)
        wanted[torch.arange(len(own), device=own.device), own] = False
        row, target = torch.nonzero(wanted & (most > 0)[:, None], as_tuple=True)
        n, d = len(row), self.x.shape[1]
        problem = self.problem.select(row)
        state = torch.where(problem.free, UNDECIDED, ALONE).to(torch.int8)
        options = torch.zeros(n, self.bounds.option_count, dtype=torch.bool, device=self.x.device)
        for j, slot in self.slots.items():
            options[:, slot][:, self.problem.space.open[j]] = True
            options[torch.arange(n, device=row.device), slot.start + problem.rows[:, j].long()] = False
        bound = torch.full((n,), torch.inf, dtype=torch.float64, device=self.x.device)
        left = torch.minimum(most[row], torch.full_like(row, d))
        none = torch.zeros_like(problem.low)
        return Nodes(row, target, problem.low, problem.high, state, options, left, bound, none, none, 0 * bound)

    def branch(self, nodes: Nodes) -> Nodes:
        """The children of nodes: decide one more feature, or halve a range."""
        down, upward = self.possible(nodes)
        pointless = (nodes.state == UNDECIDED) & ~down & ~upward
        state = nodes.state.masked_fill(pointless, ALONE)
        settled = (state != UNDECIDED).all(dim=1) & (nodes.left > 0)  # bound it again, with all decided
        nodes = replace(nodes, state=state, left=torch.where(settled, 0, nodes.left))
        # a feature that brings nothing in the relaxation still loosens it: decide it too, by its influence
        worth = nodes.up.clamp_min(0) + 1e-6 * self.influence
        undecided = (nodes.state == UNDECIDED) & (nodes.left > 0)[:, None]
        split = self.split_weight(nodes)
        decide = undecided.any(dim=1)
        halve = ~decide & ~settled & (split > 0).any(dim=1)
        # a point, or as good as one, that no bound excludes
        self.note(nodes.at(positions(~halve & ~decide & ~settled)))
        parts = [nodes.at(positions(settled))]
        first, second = positions(decide), positions(halve)
        if len(first):
            worth = torch.where(undecided, worth, -torch.inf)
            parts += self.decide(nodes.at(first), worth[first], down[first], upward[first])
        if len(second):
            parts += self.halve(nodes.at(second), split[second].argmax(dim=1))
        return Nodes.join(parts)

    def possible(self, nodes: Nodes) -> tuple[Tensor, Tensor]:
        """Whether each undecided feature (N, d), changed downwards or upwards, leaves a chance: the node's own
        relaxation holds for its children, so it may rule them out before they are bounded."""
        gain = torch.where(nodes.state == UNDECIDED, nodes.up, 0.0).clamp_min(0)
        most = max(1, int(nodes.left.max()))
        top = gain.topk(min(most, gain.shape[1]), dim=1).values
        place = torch.arange(top.shape[1], device=top.device)
        total = torch.where(place < nodes.left[:, None], top, 0.0).sum(dim=1, keepdim=True)
        without_last = torch.where(place < nodes.left[:, None] - 1, top, 0.0).sum(dim=1, keepdim=True)
        last = total - without_last
        others = torch.where(gain >= last, total - gain, without_last)  # the best that the others may add
        base = nodes.bound[:, None] - total + nodes.slack[:, None]
        x, whole = self.x[nodes.row], self.problem.space.is_integer.to(gain.dtype)
        near = nodes.slope * whole
        up = torch.maximum(nodes.slope * (nodes.high - x), near)
        down = torch.maximum(nodes.slope * (nodes.low - x), -near)
        for j in self.slots:
            up[:, j] = down[:, j] = nodes.up[:, j]
        number = self.numeric
        can_up = (base + up + others >= 0) & (~number | (nodes.high > x))
        can_down = (base + down + others >= 0) & (~number | (nodes.low < x))
        return can_down, can_up

    def decide(self, nodes: Nodes, worth: Tensor, down: Tensor, upward: Tensor) -> list[Nodes]:
        """Several features at once, the most promising first: a feature is changed and those before it are left
        alone; or all of them are left alone."""
        parts = []
        best = worth.topk(min(AT_ONCE, worth.shape[1]), dim=1)
        for place in range(best.indices.shape[1]):
            some = positions(torch.isfinite(best.values[:, place]))
            if len(some) == 0:
                break
            feature = best.indices[:, place]
            at = feature[some][:, None]
            parts += self.change(nodes.at(some), feature[some], down[some].gather(1, at), upward[some].gather(1, at))
            nodes = replace(nodes, state=self.alone(nodes, feature, torch.isfinite(best.values[:, place])))
        return [nodes, *parts]

    def alone(self, nodes: Nodes, feature: Tensor, where: Tensor) -> Tensor:
        """The states with one more feature left alone in the nodes marked by `where`."""
        state = nodes.state.scatter(1, feature[:, None], ALONE)
        return torch.where(where[:, None], state, nodes.state)

    def change(self, nodes: Nodes, feature: Tensor, can_down: Tensor, can_up: Tensor) -> list[Nodes]:
        """A feature changed downwards or upwards (a category: changed)."""
        at = feature[:, None]
        conflict = self.problem.conflict[feature]
        state = nodes.state.masked_fill(conflict & (nodes.state == UNDECIDED), ALONE).scatter(1, at, CHANGED)
        left = nodes.left - 1
        state = torch.where((left == 0)[:, None] & (state == UNDECIDED), ALONE, state).to(torch.int8)
        changed = replace(nodes, state=state, left=left)
        x = self.x[nodes.row].gather(1, at)
        is_number = self.numeric[feature]
        low, high = nodes.low.gather(1, at), nodes.high.gather(1, at)
        below, above = positions(is_number & can_down[:, 0]), positions(is_number & can_up[:, 0])
        whole = self.problem.space.is_integer[at].to(x.dtype)  # the nearest other whole number
        down = self.with_range(changed, at, low, torch.minimum(high, x - whole)).at(below)
        up = self.with_range(changed, at, torch.maximum(low, x + whole), high).at(above)
        return [down, up, changed.at(positions(~is_number))]

    def split_weight(self, nodes: Nodes) -> Tensor:
        """How much it matters to split the range of each changed feature; 0 where there is nothing to split."""
        changed = nodes.state == CHANGED
        width = torch.where(changed & self.numeric, nodes.high - nodes.low, 0.0)
        slope = nodes.slope.abs()
        weight = width * (slope + 0.05 * slope.amax(dim=1, keepdim=True))
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
                    parts.append(replace(these, options=options))
        return parts

    def with_range(self, nodes: Nodes, at: Tensor, low: Tensor, high: Tensor) -> Nodes:
        lows, highs = nodes.low.scatter(1, at, low), nodes.high.scatter(1, at, high)
        return replace(nodes, low=lows, high=highs)

    # -- bounds ---------------------------------------------------------------------------------

    def bounded(self, nodes: Nodes) -> Nodes:
        """Bound new nodes, try the point each bound suggests, and drop the nodes that are done."""
        kept = []
        decided, others = positions(nodes.left == 0), positions(nodes.left > 0)
        groups = [g[i : i + self.batch] for g in (decided, others) for i in range(0, len(g), self.batch)]
        for index in groups:
            part = nodes.at(index)
            bound, slack, slope_z = self.bounds.bound(part)
            self.nodes_done += torch.bincount(part.row, minlength=len(self.x))
            up, slope = self.bounds.reach(part, slope_z[:, None])
            up, slope = self.bounds.spread_out(part, up[:, 0]), self.bounds.spread_out(part, slope[:, 0])
            part = replace(part, bound=bound, up=up, slope=slope, slack=slack)
            self.try_points(part, slope_z)
            alive = ~(bound < -slack) & (self.status[part.row] == OPEN)
            kept.append(part.at(positions(alive)))
        return Nodes.join(kept) if kept else nodes

    # -- points ---------------------------------------------------------------------------------

    def try_points(self, nodes: Nodes, slope_z: Tensor) -> None:
        """The point at which the relaxation of each node is largest: perhaps it is an answer."""
        up, slope = nodes.up, nodes.slope
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
        part = self.problem.select(nodes.row)
        hit = part.reached(point) & ~part.redundant(point) & part.inside(point).all(dim=1)
        index = positions(hit)
        self.found[nodes.row[index]] = point[index]
        self.status[nodes.row[index]] = FOUND
