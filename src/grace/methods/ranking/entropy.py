"""W_Entropy (Alg. 3): walk a ranking best first; keep a feature if its SU with every kept one is at most gamma."""

from __future__ import annotations

import torch
from torch import Tensor


def filter_ranking(order: Tensor, conflict: Tensor, most: int, free: Tensor | None = None) -> Tensor:
    """The first `most` features of U* for each row, padded with -1 where too few pass.

    `order` (n, d) is U; `conflict` (d, d) says SU > gamma; `free` (n, d) which features may change at all.
    """
    n, d = order.shape
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(d, device=order.device).expand(n, d))
    if free is not None:
        rank.masked_fill_(~free, d)
    kept = []
    for _ in range(min(most, d)):
        best, feature = rank.min(dim=1)
        kept.append(torch.where(best < d, feature, -1))
        # where none is left, this changes nothing
        rank.masked_fill_(conflict.index_select(0, feature), d).scatter_(1, feature[:, None], d)
    return torch.stack(kept, dim=1)
