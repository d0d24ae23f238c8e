"""A decision tree for every row of a batch at once, for its Gini importance."""

from __future__ import annotations

import torch
from torch import Tensor

DEPTH = 3


def gini_importance(near: Tensor, soft: Tensor, used: Tensor, depth: int = DEPTH) -> Tensor:
    """Grow a CART tree on each set of points and sum the impurity that each coordinate removes.

    near (n, m, p), soft (n, m, c) class shares, used (n, m) -> importance (n, p), summing to 1.
    """
    n, _, p = near.shape
    order = near.argsort(dim=1, stable=True)
    value = near.gather(1, order)
    cuttable = value[:, 1:] > value[:, :-1]
    importance = near.new_zeros(n, p)
    nodes = [used.to(near.dtype)]
    for _ in range(depth):
        nodes = [child for node in nodes for child in split(node, near, soft, order, cuttable, importance)]
    total = importance.sum(dim=1, keepdim=True)
    return importance / total.clamp_min(1e-300)


def split(
    node: Tensor, near: Tensor, soft: Tensor, order: Tensor, cuttable: Tensor, importance: Tensor
) -> tuple[Tensor, Tensor]:
    """Cut the points of a node (n, m: 1 inside, 0 outside) where it lowers Gini impurity most; add what
    it removes to `importance`; return the two children."""
    n, m, p = near.shape
    shares = soft * node[:, :, None]
    sorted_shares = shares[:, :, None].expand(n, m, p, -1).gather(1, order[..., None].expand(n, m, p, soft.shape[2]))
    inside = node[:, :, None].expand(n, m, p).gather(1, order)
    left, left_count = sorted_shares.cumsum(dim=1)[:, :-1], inside.cumsum(dim=1)[:, :-1]
    total, count = shares.sum(dim=1)[:, None, None], node.sum(dim=1)[:, None, None]

    def impurity(counts: Tensor, size: Tensor) -> Tensor:
        """size x Gini."""
        return size - counts.square().sum(dim=-1) / size.clamp_min(1)

    removed = impurity(total, count) - impurity(left, left_count) - impurity(total - left, count - left_count)
    proper = cuttable & (left_count > 0) & (left_count < count)
    removed = torch.where(proper, removed, 0.0).reshape(n, -1)
    # the first of nearly equal cuts, coordinate by coordinate
    removed = removed.reshape(n, m - 1, p).mT.reshape(n, -1)
    top = removed.amax(dim=1, keepdim=True)
    places = torch.arange(removed.shape[1], device=near.device)
    best = torch.where(removed >= top - 1e-9 * top.abs(), places, removed.shape[1]).amin(dim=1)
    feature, cut = best // (m - 1), best % (m - 1)
    gain = top[:, 0].clamp_min(0)
    importance.scatter_add_(1, feature[:, None], gain[:, None])
    column = near.gather(2, feature[:, None, None].expand(n, m, 1))[:, :, 0]
    last_left = order.gather(2, feature[:, None, None].expand(n, m, 1))[:, :, 0].gather(1, cut[:, None])
    goes_left = (column <= column.gather(1, last_left)).to(node.dtype)
    parts = (gain > 0).to(node.dtype)[:, None]
    return node * goes_left * parts, node * (1 - goes_left) * parts
