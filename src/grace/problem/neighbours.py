"""Exact nearest rows by blocks: a fast matrix product proposes, exact distances decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from grace.problem.budget import at_once

BLOCK_BYTES = 1 << 26
SPARE = 8  # proposals beyond those asked for, so that rounding in the fast distances does no harm
GRAIN = 2.0**28  # distances are told apart to this share of the farthest


@dataclass(frozen=True)
class NeighbourIndex:
    """Points to look for, around their centre."""

    centre: Tensor
    others: Tensor
    squares: Tensor  # their lengths, squared

    @classmethod
    def of(cls, points: Tensor) -> NeighbourIndex:
        centre = points.mean(dim=0)
        others = points - centre
        return cls(centre, others, others.square().sum(dim=1))

    def __len__(self) -> int:
        return len(self.others)


def nearest_rows(
    points: Tensor, known: NeighbourIndex, count: int, allowed: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """For each point the `count` nearest known ones, nearest first, equal ones by index.

    `allowed(index)` gives an (len(index), known) mask for those points. Returns indices (n, count)
    and whether each was found; where not, the index is 0.
    """
    n, total = len(points), len(known)
    take = min(count + SPARE, total)
    place = torch.arange(total, dtype=points.dtype, device=points.device)
    step = max(1, at_once(BLOCK_BYTES, points.device) // (8 * total))
    index = torch.zeros(n, count, dtype=torch.int64, device=points.device)
    found = torch.zeros(n, count, dtype=torch.bool, device=points.device)
    for start in range(0, n, step):
        block = points[start : start + step] - known.centre
        rough = torch.addmm(known.squares, block, known.others.T, alpha=-2)
        rough.add_(block.square().sum(dim=1, keepdim=True)).clamp_min_(0)
        # ties, which rounding would break one way or the other, go to the lower index
        rough.mul_(GRAIN / rough.amax(dim=1, keepdim=True).clamp_min(1e-300)).round_().mul_(total).add_(place)
        if allowed is not None:
            rows = torch.arange(start, start + len(block), device=points.device)
            rough.masked_fill_(~allowed(rows), torch.inf)
        near = rough.topk(take, dim=1, largest=False)
        candidates, order = near.indices.sort(dim=1)
        usable = torch.isfinite(near.values.gather(1, order))
        exact = (known.others[candidates] - block[:, None]).square().sum(dim=2).masked_fill(~usable, torch.inf)
        exact, best = exact.sort(dim=1, stable=True)
        k = min(count, take)
        found[start : start + step, :k] = torch.isfinite(exact[:, :k])
        index[start : start + step, :k] = candidates.gather(1, best[:, :k]).where(torch.isfinite(exact[:, :k]), 0)
    return index, found
