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
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from grace.errors import GraceError
from grace.models.relu import ReluNetwork, relu_network
from grace.problem import Problem, positions

NODE_BYTES = 1 << 25  # of coefficients worked on at a time
MOST_NODES = 1 << 17
ROUNDING = 1e-11  # relative; far above what float64 sums of a few hundred terms can lose
THINNEST = 1e-10  # a range of this share of the whole is not halved any more
STRIDES = (0.5, 0.25, 0.25, 0.12, 0.06, 0.0)  # of the steps that tighten a bound; the last only looks
UNDECIDED, CHANGED, ALONE = 0, 1, 2
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


def prove(problem: Problem, most: Tensor, budget: float = 1.0) -> Verdicts:
    """Decide for each row whether a row with at most `most` (n,) changed features reaches its goal, giving up
    on a row after `budget` seconds of work."""
    network = relu_network(problem.model)
    if network is None:
        raise GraceError(
            "a proof needs a network of Linear and ReLU layers: one trained here, or nn.Sequential without encode"
        )
    return Prover(problem, network, budget).run(most)


def lower_slopes(low: Tensor, high: Tensor) -> Tensor:
    """The slope below a ReLU that may be either way: the line that leaves less room."""
    return (high > -low).to(low.dtype)


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
            bound, slack, slope_z = self.bound(part)
            self.nodes_done += torch.bincount(part.row, minlength=len(self.x))
            up, slope = self.reach(part, slope_z[:, None])
            up, slope = self.spread_out(part, up[:, 0]), self.spread_out(part, slope[:, 0])
            part = replace(part, bound=bound, up=up, slope=slope, slack=slack)
            self.try_points(part, slope_z)
            alive = (bound >= -slack) & (self.status[part.row] == OPEN)
            kept.append(part.at(positions(alive)))
        return Nodes.join(kept) if kept else nodes

    def bound(self, nodes: Nodes) -> tuple[Tensor, Tensor, Tensor]:
        """An upper bound on the margin of the target, what rounding may have cost, and the slope of the
        deciding relaxation in the first layer. Most nodes fall to cheap interval limits of the inner layers;
        the others get relaxed limits, and better slopes below their ReLUs."""
        first = self.concrete_first(nodes)
        upper, slack, slope = self.margin_bound(nodes, self.limits(nodes, first, relaxed=False))
        if len(self.network.later) > 1:
            self.improve(nodes, first, (upper, slack, slope), relaxed=True)
        self.improve(nodes, first, (upper, slack, slope), relaxed=True, tightened=True)
        return upper, slack, slope

    def improve(
        self,
        nodes: Nodes,
        first: tuple[Tensor, Tensor],
        bounds: tuple[Tensor, Tensor, Tensor],
        *,
        relaxed: bool,
        tightened: bool = False,
    ) -> None:
        """Bound the nodes that are not done yet with more effort, and keep what is better."""
        hard = positions(bounds[0] >= -bounds[1])
        if len(hard) == 0:
            return
        some = nodes.at(hard)
        limits = self.limits(some, (first[0][hard], first[1][hard]), relaxed=relaxed)
        found = self.margin_bound(some, limits, tightened=tightened)
        better = found[0] < bounds[0][hard]
        for old, new in zip(bounds, found, strict=True):
            old[hard[better]] = new[better]

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
                better = found[0] < best[0]
                for old, new in zip(best, found, strict=True):
                    old[better] = new[better]
            slopes = [(s.detach() - stride * g.sign()).clamp(0, 1) for s, g in zip(slopes, grads, strict=True)]
        assert best is not None
        return best

    def rivals(self, nodes: Nodes) -> Tensor:
        """The classes that the target must beat: the original one, or all others when it was asked for."""
        own = self.network.rest(self.start[nodes.row].clone()).argmax(dim=1)
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
        changed = (point != x).to(torch.float64)
        redundant = ((changed @ self.problem.conflict.to(torch.float64)) * changed).sum(dim=1) > 0
        part = self.problem.select(nodes.row)
        hit = part.reached(point) & ~redundant & part.inside(point).all(dim=1)
        index = positions(hit)
        self.found[nodes.row[index]] = point[index]
        self.status[nodes.row[index]] = FOUND
