"""The branch and bound behind a proof, for many rows at a time; `grace.proofs.certificate` says what it proves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

import torch
from torch import Tensor

from grace.models.relu import ReluNetwork
from grace.problem.cancellation import check_cancelled
from grace.problem.problem import Problem, positions
from grace.proofs.nodes import Bound, Nodes, decide, halved, shares
from grace.proofs.relaxation import LISTED, Relaxation

BYTES = {"cpu": 1 << 26, "cuda": 1 << 34}  # worked on at a time
AHEAD = {"cpu": 32, "cuda": 48}  # features decided in one step, while more are open
OPEN, PROVEN, FOUND, EXCEPT_TIES = 0, 1, 2, 3
TRIED = 4  # nodes of a row whose better bounds tell whether they pay
PAYS = 0.4  # times the number of features: the nodes that a better bound has to spare


@dataclass(frozen=True)
class Verdicts:
    """Per row: PROVEN that no row with at most k changes is decided as was asked for, EXCEPT_TIES that none is by the
    margin of an answer, FOUND an answer (`rows`), or OPEN."""

    status: Tensor
    rows: Tensor
    bound: Tensor  # the best upper bound on the margin; at most zero where proven, inf where none is kept
    nodes: Tensor
    seconds: Tensor


def prove_batched(problem: Problem, network: ReluNetwork, most: Tensor, budget: float) -> Verdicts:
    """Decide for each row whether a row with at most `most` (n,) changed features reaches its goal, for as many rows at
    a time as memory allows."""
    widest = max(len(bias) for _, bias in network.later[:-1]) if network.later[:-1] else 1
    row_bytes = 8 * len(network.bias) * (2 * problem.rows.shape[1] + 4 * LISTED) + 16 * widest * problem.rows.shape[1]
    step = max(1, BYTES[problem.rows.device.type] // row_bytes)
    parts = []
    for begin in range(0, len(problem), step):
        index = torch.arange(begin, min(begin + step, len(problem)), device=most.device)
        parts.append(Prover(problem.select(index), network, most[index], budget).run())
    return Verdicts(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(Verdicts)))


class Prover:
    """The state of one branch and bound over a batch of rows."""

    def __init__(self, problem: Problem, network: ReluNetwork, most: Tensor, budget: float) -> None:
        self.problem, self.network, self.most, self.budget = problem, network, most, budget
        self.x = problem.rows
        self.width = max(1, int(most.max()))
        device, n = self.x.device, len(self.x)
        self.relaxation = self.quick = Relaxation(problem, network)
        self.slots = self.relaxation.slots
        self.status = torch.zeros(n, dtype=torch.int64, device=device)
        self.found = self.x.clone()
        self.nodes_done = torch.zeros(n, dtype=torch.int64, device=device)
        self.seconds = torch.zeros(n, dtype=torch.float64, device=device)
        self.stuck = torch.full((n,), -torch.inf, dtype=torch.float64, device=device)  # bounds of nodes given up
        self.spared = torch.full((n,), torch.nan, dtype=torch.float64, device=device)  # see `thorough`
        self.numeric = problem.space.is_numeric
        span = (problem.space.high - problem.space.low).nan_to_num(posinf=0)
        self.influence = network.weight.abs().sum(dim=0) * span
        for j, table in network.tables.items():
            self.influence[j] = (table.amax(dim=0) - table.amin(dim=0)).sum()
        width = max(len(bias) for bias in (network.bias, *(b for _, b in network.later)))
        ways = 1 + self.width * max([1, *(len(t) for t in network.tables.values())])
        memory = BYTES[device.type]
        self.decided_at_once = max(64, memory // (8 * 8 * width * ways))
        self.open_at_once = max(16, memory // (8 * (2 * LISTED * width + 8 * self.x.shape[1])))
        self.many = max(64, memory // (8 * 3 * self.x.shape[1]))  # nodes with open features
        self.ahead = AHEAD[device.type]

    def run(self) -> Verdicts:
        begun = time.perf_counter()
        pool = self.bounded(self.roots())
        self.seconds += shares(torch.arange(len(self.x), device=self.x.device), len(self.x), begun)
        waiting = decide(pool.at(slice(0)))
        while len(pool):
            # rows that have had least work first, within a row the most promising node; of many, those with least open
            first = pool.left if len(pool) > self.many else self.nodes_done[pool.row] // 64
            order = (first.to(torch.float64) * 1e9 - pool.bound.clamp(-1e8, 1e8)).argsort()
            count = max(1, self.decided_at_once // (2 * self.x.shape[1]))
            chosen, rest = pool.at(order[:count]), pool.at(order[count:])
            begun = time.perf_counter()
            decided, open_ = self.branch(chosen)
            pool = Nodes.join([rest, self.bounded(open_)])
            self.seconds += shares(chosen.row, len(self.x), begun)
            waiting = self.settle(Nodes.join([waiting, decided]), until=self.decided_at_once)
            pool = self.fewer(self.alive(pool))
        self.settle(waiting, until=0)
        proven = (self.status == OPEN) & torch.isneginf(self.stuck)
        self.status[proven] = PROVEN
        bound = torch.where(proven, torch.zeros_like(self.stuck), self.stuck)
        return Verdicts(self.status, self.found, bound, self.nodes_done, self.seconds)

    def alive(self, nodes: Nodes) -> Nodes:
        """Nodes whose rows are neither decided nor out of time; the latter are noted."""
        undecided = self.status[nodes.row] == OPEN
        in_time = self.seconds[nodes.row] < self.budget
        self.note(nodes.at(positions(undecided & ~in_time)))
        return nodes.at(positions(undecided & in_time))

    def fewer(self, nodes: Nodes) -> Nodes:
        """The nodes without those of the rows that have most of them, where there are far too many."""
        if len(nodes) <= 8 * self.many:
            return nodes
        count = torch.bincount(nodes.row, minlength=len(self.x))
        order = count.argsort()
        keep = torch.zeros_like(count, dtype=torch.bool)
        keep[order[count[order].cumsum(dim=0) <= 8 * self.many]] = True
        self.note(nodes.at(positions(~keep[nodes.row])))
        return nodes.at(positions(keep[nodes.row]))

    def note(self, nodes: Nodes) -> None:
        """Nodes that will not be looked at: their rows cannot be proven."""
        self.stuck.scatter_reduce_(0, nodes.row, nodes.bound, "amax")

    # -- nodes with open features ---------------------------------------------------------------

    def roots(self) -> Nodes:
        """One node per row and class that may win, with nothing changed."""
        every = torch.arange(len(self.x), device=self.x.device)
        self.relaxation.begin(self.untouched(every, self.relaxation.original))
        if exact(self.x.device):
            self.quick = self.relaxation.single(self.width)
        return self.untouched(*self.relaxation.contests(self.most > 0))

    def untouched(self, row: Tensor, target: Tensor) -> Nodes:
        n, d, k = len(row), self.x.shape[1], self.width
        none = torch.zeros(n, k, dtype=torch.float64, device=row.device)
        wide = torch.zeros(n, d, dtype=torch.float64, device=row.device)
        bound = torch.full((n,), torch.inf, dtype=torch.float64, device=row.device)
        return Nodes(
            row=row,
            target=target,
            feature=none.long(),
            real=none.bool(),
            low=none,
            high=none,
            options=self.relaxation.options(row, own=False),
            open=self.problem.free[row],
            left=self.most[row].clamp_max(d),
            bound=bound,
            slack=torch.zeros_like(bound),
            reach=wide,
            slope=wide,
        )

    def bounded(self, nodes: Nodes) -> Nodes:
        """Bound nodes with open features, try the point each bound suggests, and drop those that are done."""
        kept = [nodes.at(nodes.row[:0])]
        for begin in range(0, len(nodes), self.open_at_once):
            part = nodes.at(slice(begin, begin + self.open_at_once))
            self.nodes_done += torch.bincount(part.row, minlength=len(self.x))
            _, part = self.opened(part, relaxed=False)
            part = self.thorough(part, part.left > 1)
            part = self.thorough(part, first_few(part.row, (part.left == 1) & self.spared[part.row].isnan()))
            part = self.thorough(part, (part.left == 1) & (self.spared[part.row] > PAYS * self.x.shape[1]))
            kept.append(part.at(positions(self.status[part.row] == OPEN)))
        return Nodes.join(kept)

    def undone(self, nodes: Nodes, bound: Callable[[Relaxation, Nodes], Bound]) -> tuple[Tensor, Bound]:
        """Positions of the nodes that a bound does not exclude, and the bound there: in single precision, and in
        double where that leaves it open."""
        check_cancelled()
        found = bound(self.quick, nodes)
        left = found.undone()
        found = found.at(left).double()
        unclear = found.unclear()
        if len(unclear) and self.quick is not self.relaxation:
            found.put(unclear, bound(self.relaxation, nodes.at(left[unclear])))
            keep = found.undone()
            left, found = left[keep], found.at(keep)
        return left, found

    def opened(self, nodes: Nodes, *, relaxed: bool) -> tuple[Tensor, Nodes]:
        """Positions of the nodes that their bounds do not exclude, and these with what the bounds say of the open
        features."""
        left, found = self.undone(nodes, partial(Relaxation.open_bound, relaxed=relaxed))
        nodes = nodes.at(left)
        reach, slope = self.relaxation.reach_open(nodes, found.slope[:, None])
        nodes = replace(nodes, bound=found.value, slack=found.slack, reach=reach[:, 0], slope=slope[:, 0])
        self.try_points(nodes, found.slope)
        return left, nodes

    def thorough(self, nodes: Nodes, where: Tensor) -> Nodes:
        """Better bounds for some of the nodes. They cost as much as many nodes in which all is decided; whether
        they spare as many is noted by row."""
        where = where & (self.status[nodes.row] == OPEN)
        some = nodes.at(positions(where))
        if len(some) == 0:
            return nodes
        left, better = self.opened(some, relaxed=True)
        spared = self.ways(some)
        spared[left] -= self.ways(better)
        last = positions(some.left == 1)
        self.spared.scatter_reduce_(0, some.row[last], spared[last], "mean", include_self=False)
        return Nodes.join([nodes.at(positions(~where)), better])

    def ways(self, nodes: Nodes) -> Tensor:
        """How many children (N,) nodes would have."""
        return torch.stack(self.possible(nodes)).sum(dim=(0, 2)).to(torch.float64)

    def possible(self, nodes: Nodes) -> tuple[Tensor, Tensor]:
        """Whether each open feature (N, d), changed downwards or upwards, leaves a chance: the node's own
        relaxation holds for its children, so it may rule them out before they are bounded."""
        reach = nodes.reach
        top = reach.topk(min(self.width, reach.shape[1]), dim=1).values
        place = torch.arange(top.shape[1], device=top.device)
        total = torch.where(place < nodes.left[:, None], top, 0.0).sum(dim=1, keepdim=True)
        without_last = torch.where(place < nodes.left[:, None] - 1, top, 0.0).sum(dim=1, keepdim=True)
        last = total - without_last
        others = torch.where(reach >= last, total - reach, without_last)  # the best that the others may add
        base = nodes.bound[:, None] - total + nodes.slack[:, None]
        x = self.x[nodes.row]
        low, high = self.problem.low[nodes.row], self.problem.high[nodes.row]
        below, above = next_values(x, self.problem.space.is_integer)
        up = torch.maximum(nodes.slope * (high - x), nodes.slope * (above - x))
        down = torch.maximum(nodes.slope * (low - x), nodes.slope * (below - x))
        for j in self.slots:
            up[:, j] = down[:, j] = reach[:, j]
        # NaN excludes nothing
        can_up = nodes.open & ~(base + up + others < 0) & (~self.numeric | (high > x))
        can_down = nodes.open & ~(base + down + others < 0) & self.numeric & (low < x)
        return can_down, can_up

    def branch(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """The children of nodes with open features, those with all decided and those with more open: one
        feature more is changed, and those that promise more than it are left alone; or all those are."""
        down, up = self.possible(nodes)
        # a feature that brings nothing in the relaxation still loosens it: an earlier place by its influence
        worth = torch.where(down | up, nodes.reach + 1e-6 * self.influence, -torch.inf)
        rank = worth.argsort(dim=1, descending=True).argsort(dim=1)
        last = (nodes.left == 1)[:, None]
        now = (rank < self.ahead) & ~last
        later = (down | up) & ~now & ~last
        decided = decide(nodes)
        parent, feature, upwards = torch.nonzero(torch.stack([down & last, up & last], dim=2), as_tuple=True)
        leaves = [self.changed(decided.at(parent), feature, upwards.bool())]
        parent, feature, upwards = torch.nonzero(torch.stack([down & now, up & now], dim=2), as_tuple=True)
        children = self.changed(nodes.at(parent), feature, upwards.bool())
        after = rank[parent] > rank[parent, feature][:, None]
        children = replace(children, open=(down | up)[parent] & after & ~self.problem.conflict[feature])
        more = children.open.any(dim=1)
        leaves += [decide(children.at(positions(~more)))]
        leaves += [decided.at(positions(nodes.real.any(dim=1) & ~later.any(dim=1)))]
        rest = replace(nodes, open=later).at(positions(later.any(dim=1)))
        return Nodes.join(leaves), Nodes.join([children.at(positions(more)), rest])

    def changed(self, nodes: Nodes, feature: Tensor, upwards: Tensor) -> Nodes:
        """One more feature changed, downwards or upwards."""
        at = feature[:, None]
        place = nodes.real.sum(dim=1, keepdim=True)
        x = self.x[nodes.row, feature]
        below, above = next_values(x, self.problem.space.is_integer[feature])
        low, high = self.problem.low[nodes.row, feature], self.problem.high[nodes.row, feature]
        low = torch.where(upwards, torch.maximum(low, above), low)
        high = torch.where(upwards, high, torch.minimum(high, below))
        return replace(
            nodes,
            feature=nodes.feature.scatter(1, place, at),
            real=nodes.real.scatter(1, place, True),
            low=nodes.low.scatter(1, place, low[:, None]),
            high=nodes.high.scatter(1, place, high[:, None]),
            left=nodes.left - 1,
        )

    # -- nodes in which all is decided ----------------------------------------------------------

    def settle(self, nodes: Nodes, until: int) -> Nodes:
        """Bound nodes with all decided and halve what is left of them, until only so few are left."""
        while len(nodes) > until:
            part = self.alive(nodes.at(slice(self.decided_at_once)))
            rest = [nodes.at(slice(self.decided_at_once, None))]
            if len(part):
                begun = time.perf_counter()
                rest.append(self.halves(part))
                self.seconds += shares(part.row, len(self.x), begun)
            nodes = Nodes.join(rest)
        return nodes

    def halves(self, nodes: Nodes) -> Nodes:
        """The halves of those nodes that their bounds do not exclude."""
        left, found = self.undone(nodes, Relaxation.bound)
        self.nodes_done += torch.bincount(nodes.row, minlength=len(self.x))
        part = replace(nodes.at(left), bound=found.value, slack=found.slack)
        steep = self.try_points(part, found.slope).abs()
        children, points = halved(self.problem, self.slots, part, steep + 0.05 * steep.amax(dim=1, keepdim=True))
        self.note(points)  # no bound excludes them
        return children

    # -- points ---------------------------------------------------------------------------------

    def try_points(self, nodes: Nodes, slope_z: Tensor) -> Tensor:
        """The point at which the relaxation of each node is largest: perhaps it is an answer. Returns the slopes
        in the changed features (N, k)."""
        point = self.x[nodes.row]
        slope = (self.network.weight.T[nodes.feature] @ slope_z[:, :, None])[..., 0]
        best = torch.where(slope > 0, nodes.high, nodes.low)
        most = int(nodes.left.max()) if len(nodes) and nodes.open.shape[1] else 0
        if most:
            top = nodes.reach.topk(min(most, nodes.reach.shape[1]), dim=1)
            take = (torch.arange(top.values.shape[1], device=point.device) < nodes.left[:, None]) & (top.values > 0)
            ends = torch.where(nodes.slope > 0, self.problem.high[nodes.row], self.problem.low[nodes.row])
            for j in self.slots:
                values = (slope_z @ self.network.tables[j].T)[:, self.problem.space.choices[j]]
                ends[:, j] = self.problem.space.choices[j][values.argmax(dim=1)].to(ends.dtype)
            point = torch.where(torch.zeros_like(nodes.open).scatter(1, top.indices, take), ends, point)
        for j, slot in self.slots.items():
            values = (slope_z @ self.network.tables[j].T).masked_fill(~nodes.options[:, slot], -torch.inf)
            best = torch.where(nodes.feature == j, values.argmax(dim=1).to(best.dtype)[:, None], best)
        # a place that is not real writes into a column to spare
        wide = torch.cat([point, point[:, :1]], dim=1)
        point = wide.scatter(1, torch.where(nodes.real, nodes.feature, point.shape[1]), best)[:, :-1]
        part = self.problem.select(nodes.row)
        hit = part.reached(point) & ~part.redundant(point) & part.inside(point).all(dim=1)
        index = positions(hit)
        self.found[nodes.row[index]] = point[index]
        self.status[nodes.row[index]] = FOUND
        return slope


def next_values(x: Tensor, integer: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest values below and above x that a change may choose: the next whole numbers of an integer feature, also
    where x itself is a fraction; x itself for any other number."""
    return torch.where(integer, x.ceil() - 1, x), torch.where(integer, x.floor() + 1, x)


def exact(device: torch.device) -> bool:
    """Whether products in single precision are what they say: a user may have allowed faster, coarser ones."""
    generator = torch.Generator().manual_seed(0)
    sample = torch.rand(64, 64, generator=generator, dtype=torch.float64).to(device)
    return bool((sample.float() @ sample.float() - sample @ sample).abs().max() < 1e-4)


def first_few(row: Tensor, where: Tensor) -> Tensor:
    """A mask of the first few nodes of each row among those marked."""
    index = positions(where)
    order = row[index].argsort(stable=True)
    in_order = row[index][order]
    place = torch.arange(len(index), device=row.device) - torch.searchsorted(in_order, in_order)
    few = torch.zeros_like(where)
    few[index[order[place < TRIED]]] = True
    return few
