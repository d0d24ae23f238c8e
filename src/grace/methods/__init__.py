"""Methods: each turns a batch of rows into a batch of contrastive rows.

A method is a function from a `Problem` to rows, the original row where it found nothing, together
with what it promises. The explainer polishes and verifies what comes out.

search       beam search over single changes; moves are these, observed are further values of a black box, and steady
             prefers answers with room around them
compiled/    search, polish and walks for ReLU networks on a CPU, along their exact lines; requirements says which
             rules, plausible and robust answers it serves
trees/       exact search and polish for ensembles of trees
transformed  search where a network gets functions of numbers, such as logarithms
walk         GRACE-Gradient and GRACE-Local; walk_state is a batch of walks
gpu_kernels  which problems have Triton kernels: single_triton finds the nearest single changes, walk_triton walks, and
             polish_triton polishes; decimals_triton has numbers of few digits
nearest      the nearest training row of another class
deepfool     DeepFool
backtrack    from a training row back towards x
ranking/     the order in which features are tried
polish       makes an answer irreducible, near and short to say; line_search finds the nearest value that works
checks       the final checks of answers
profiles     the margin along one feature; spans are its values that reach the goal, curves all features of a row
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from grace.errors import GraceError
from grace.methods.deepfool import deepfool
from grace.methods.nearest import nearest
from grace.methods.search import search
from grace.methods.walk import gradient, local
from grace.problem.problem import Problem
from grace.schema.frames import join_first
from grace.schema.schema import Schema


@dataclass(frozen=True)
class Method:
    """What a method does, and which of "features", "gamma" and "domain" it promises to keep."""

    solve: Callable[[Problem], Tensor]
    promises: frozenset[str] = frozenset()
    wants_background: bool = False
    polishes_itself: bool = False
    """Whether it polishes its own answers."""

    @property
    def gets_polished(self) -> bool:
        """Baselines keep their nature: only a method that promises something is polished."""
        return bool(self.promises)


ALL = frozenset({"features", "gamma", "domain"})

METHODS = {
    "search": Method(search, ALL, wants_background=True, polishes_itself=True),
    "gradient": Method(gradient, ALL),
    "local": Method(local, ALL, wants_background=True),
    "nearest": Method(nearest, wants_background=True),
    "deepfool": Method(deepfool),
}


def check_protected(schema: Schema, method: str) -> None:
    """A baseline changes any feature, so that it cannot keep what is protected."""
    kept = [f.name for f in schema.features if f.protected]
    if kept and "domain" not in METHODS[method].promises:
        able = ", ".join(name for name, known in METHODS.items() if "domain" in known.promises)
        raise GraceError(
            f"method={method!r} changes any feature and cannot keep {join_first(kept)}, which is protected; "
            f"use one of {able}"
        )
