"""Methods: each turns a batch of rows into a batch of contrastive rows.

A method is a function from a `Problem` to rows, the original row where it found nothing, together
with what it promises. The explainer polishes and verifies what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from grace.methods.deepfool import deepfool
from grace.methods.nearest import nearest
from grace.methods.search import search
from grace.methods.walk import gradient, local
from grace.problem.problem import Problem


@dataclass(frozen=True)
class Method:
    """What a method does, and which of "features", "gamma" and "domain" it promises to keep."""

    solve: Callable[[Problem], Tensor]
    promises: frozenset[str] = frozenset()
    wants_background: bool = False
    polishes: bool = False
    """Whether it polishes its own answers."""

    @property
    def polished(self) -> bool:
        """Baselines keep their nature: only a method that promises something is polished."""
        return bool(self.promises)


ALL = frozenset({"features", "gamma", "domain"})

METHODS = {
    "search": Method(search, ALL, wants_background=True, polishes=True),
    "gradient": Method(gradient, ALL),
    "local": Method(local, ALL, wants_background=True),
    "nearest": Method(nearest, wants_background=True),
    "deepfool": Method(deepfool),
}
