"""Single moves: features to a handful of values, and what each does to the goal's margin."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from grace.methods.observed import ObservedValues
from grace.models.gpu_layout import GpuLayout
from grace.models.relu import ReluNetwork, relu_network
from grace.problem.budget import at_once
from grace.problem.problem import Problem, positions

VALUES = 16  # tried per number
CLOSE = 0.2  # of a spread: the smallest step tried
FEW = 320  # up to so many moves of a piecewise constant model (trees) are all tried again at later levels
CHUNK_BYTES = 1 << 21
FUSED_BYTES = 1 << 31


@dataclass(frozen=True)
class Moves:
    """For each row M moves: move m of row i sets `feature[i, m]` to `value[i, m]`. Where all rows move the same
    features, `feature` has a single row."""

    feature: Tensor
    value: Tensor
    network: ReluNetwork | None

    def select(self, index: Tensor) -> Moves:
        return Moves(self.feature if self.shared else self.feature[index], self.value[index], self.network)

    @property
    def shared(self) -> bool:
        return len(self.feature) == 1

    def feature_per_move(self) -> Tensor:
        """The feature of every move (n, M)."""
        return self.feature.expand(self.value.shape)

    def of_features(self, keep: Tensor) -> Moves:
        """Only the moves of some features (n, d); as many columns as the row with most of them needs."""
        kept = keep.gather(1, self.feature_per_move())
        order = kept.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices
        order = order[:, : int(kept.sum(dim=1).max())]
        return Moves(self.feature_per_move().gather(1, order), self.value.gather(1, order), self.network)

    def thinned(self, problem: Problem, values: int = VALUES) -> Moves:
        """Only the ends of each number's range, of a black box some values in between too; all categories. So many
        values were tried per number."""
        number = problem.space.is_numeric[self.feature[0]]
        step = values // 2 if self.network is not None else values // 4
        if self.network is None and len(number) <= FEW:
            step = 1
        keep = positions(~number | (torch.arange(1, len(number) + 1, device=number.device) % step == 0))
        return Moves(self.feature[:, keep], self.value[:, keep], self.network)

    def allowed(self, problem: Problem, states: Tensor) -> Tensor:
        """Moves (n, M) that change a free feature not changed yet, without conflict with those that are."""
        used = states != problem.rows
        some = positions(used.any(dim=0))
        clash = used[:, some].to(torch.float32) @ problem.conflict[some].to(torch.float32)
        barred = used | (clash > 0) | ~problem.free
        return ~barred.gather(1, self.feature_per_move()) & (
            self.value != problem.rows.gather(1, self.feature_per_move())
        )

    def margins(self, problem: Problem, states: Tensor) -> Tensor:
        """The margin (n, M) after each move from a state (n, d) of each row."""
        if len(states) == 0:
            return states.new_zeros(self.value.shape)
        moves, cells = self.feature.shape[1], self._cells_at_once(states)
        if len(states) * moves <= cells:
            return problem.goal.margin(self.scores(problem, states))
        out = states.new_empty(self.value.shape)
        step = max(1, cells // moves)
        wide = moves if self.network is None else min(moves, cells)  # a black box gets all moves of a row at once
        for start in range(0, len(states), step):
            here = torch.arange(start, min(start + step, len(states)), device=states.device)
            part, each = self.select(here), problem.select(here)
            for first in range(0, moves, wide):
                some = slice(first, first + wide)
                tried = Moves(part.feature[:, some], part.value[:, some], self.network)
                out[start : start + step, some] = each.goal.margin(tried.scores(each, states[here]))
        return out

    def _cells_at_once(self, states: Tensor) -> int:
        """How many moves of rows are worked on together."""
        width, size = states.shape[1], at_once(CHUNK_BYTES, states.device)
        if self.network is not None:
            packed = self.network.packed(states.device)
            width = len(self.network.bias)
            if packed is not None:  # the kernel keeps activations in registers
                width, size = packed.classes, FUSED_BYTES
        return max(1, size // (8 * width))

    def scores(self, problem: Problem, states: Tensor) -> Tensor:
        """(n, M, classes). In a ReLU network a move adds a multiple of one column to the first layer."""
        if self.network is None:
            return problem.scores(self.apply(states))
        net = self.network
        step = self.value - states.gather(1, self.feature_per_move())
        packed = net.packed(states.device)
        if packed is not None:
            return self._fused_scores(packed, states, step)
        z = torch.addcmul(net.first(states)[:, None], step[:, :, None], net.weight.T[self.feature])
        for j, table in net.tables.items():
            row, move = torch.nonzero(self.feature_per_move() == j, as_tuple=True)
            z[row, move] += table[self.value[row, move].long()] - table[states[row, j].long()]
        return net.rest(z)

    def _fused_scores(self, packed: GpuLayout, states: Tensor, step: Tensor) -> Tensor:
        """`scores` by a kernel."""
        from grace.models.kernels import moved_scores

        entries = None
        if packed.categorical:
            begins = packed.begins[self.feature][:, :, None]
            codes = torch.stack([self.value, states.gather(1, self.feature_per_move())], dim=2).long()
            entries = torch.where(begins >= 0, begins + codes, len(packed.tables) - 1)
        return moved_scores(packed, packed.start(states), self.feature, step, entries)

    def apply(self, states: Tensor) -> Tensor:
        """The rows (n, M, d) after each move."""
        rows = states[:, None].repeat(1, self.value.shape[1], 1)
        return rows.scatter_(2, self.feature_per_move()[:, :, None], self.value[:, :, None])

    def cost(self, problem: Problem) -> Tensor:
        """What each move adds to the distance (n, M)."""
        return problem.space.cost_of(self.value - problem.rows.gather(1, self.feature_per_move()), self.feature)


def moves_of(problem: Problem, values: int = VALUES) -> Moves:
    """The moves to try: numbers at both ends of their range and in between, every open category."""
    space = problem.space
    low, high, spread = (space.numbers(t) for t in (problem.low, problem.high, space.spread))
    features = space.numbers(torch.arange(len(space.spread), device=spread.device))
    anchor = torch.minimum(torch.maximum(space.numbers(problem.rows), low), high)
    down, up = anchor - low, high - anchor
    two_down, two_up = ladder(torch.stack([down, up]), spread, values // 2)
    value = torch.cat([anchor[..., None] - two_down, anchor[..., None] + two_up], dim=2)
    single = (down <= 0) | (up <= 0)
    if single.any():  # a number with room on one side only gets all its values there
        far = torch.where(up > 0, 1.0, -1.0)[..., None] * ladder(torch.maximum(down, up), spread, values)
        value = torch.where(single[..., None], anchor[..., None] + far, value)
    if space.has_integers:
        value = torch.where(space.numbers(space.is_integer)[:, None], value.round(), value)
    value = value.clamp(low[..., None], high[..., None])  # the last rung misses the end by rounding
    parts = [value.reshape(len(anchor), -1)]
    owners = [features.repeat_interleave(values)]
    if problem.model.black_box and problem.background is not None:
        # trees split between observed values
        seen = ObservedValues.of(space, problem.background)
        owner = seen.feature
        parts.append(torch.minimum(torch.maximum(seen.few, problem.low[:, owner]), problem.high[:, owner]))
        owners.append(owner)
    for j in space.categorical:
        code = space.choices[j].to(anchor.dtype).expand(len(anchor), -1)
        parts.append(torch.where(space.between(j, problem.low, problem.high), code, problem.rows[:, [j]]))
        owners.append(torch.full_like(space.choices[j], j))
    return Moves(torch.cat(owners)[None], torch.cat(parts, dim=1), relu_network(problem.model))


def ladder(room: Tensor, spread: Tensor, count: int) -> Tensor:
    """`count` distances up to `room` (n, d), each a constant factor above the last, the first a small part
    of the spread: close to x and far away are both looked at, however long the range."""
    start = torch.minimum(CLOSE * spread, room / count).clamp_min(1e-300)
    power = torch.linspace(0, 1, count, dtype=room.dtype, device=room.device)
    return start[..., None] * (room / start).clamp_min(1)[..., None] ** power * (room > 0)[..., None]
