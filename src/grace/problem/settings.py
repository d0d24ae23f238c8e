"""What a search is allowed to do and asked to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from grace.errors import GraceError
from grace.problem import METHOD_NAMES
from grace.problem.budget import bytes_of
from grace.problem.requirements.dependence import Follow, checked_follow
from grace.problem.space import NORMS
from grace.schema.features import plain
from grace.schema.limits import EXPLAIN_ARGUMENTS
from grace.schema.parsing import shown, whole_number

MOST = 1_000_000  # features, answers, steps and neighbours that can be asked for
MOST_CALLS = 10**15

CHOICES = {
    "method": METHOD_NAMES,
    "prefer": ("fewest", "nearest"),
    "among": ("auto", "nearest", "steady"),
    "distance": tuple(NORMS),
    "local_model": ("logistic", "tree"),
    "missing": ("error", "fill"),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every part can be given to `Explainer`, and changed for one call of `explain`."""

    method: str = "search"
    max_features: int = 5
    gamma: float = 0.5
    prefer: str = "fewest"
    among: str = "auto"
    """Which of answers with equally few features: the nearest, or the nearest that is steady, with room around it. By
    default the steady one where the lines of the model are known exactly, see `Settings.chosen_among`."""
    distance: str = "l1"
    confidence: float = 0.0
    n: int = 1
    prove: bool = False
    budget: float = 1.0
    steps: int = 200
    neighbours: int = 4
    local_model: str = "logistic"
    polish: bool = True
    as_printed: bool = False
    max_calls: int = 0
    plausible: float = 0.0
    missing: str = "error"
    follow: Follow = ()
    """Which features move along by association in training rows: not an effect, and no rule is kept by it."""
    memory: int | str = 0
    """Bytes to work with beside the rows and their answers, such as "500MB"; 0 for what is usual."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, checked_follow(value) if name == "follow" else plain(value))
        if self.memory != 0 or isinstance(self.memory, bool):
            object.__setattr__(self, "memory", bytes_of(self.memory))
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise GraceError(f"{name}={shown(getattr(self, name))} is unknown; use one of {', '.join(choices)}")
        if self.among == "steady" and (self.method != "search" or self.prefer != "fewest"):
            raise GraceError(
                "among='steady' chooses among answers with equally few features: use it with "
                "method='search' and prefer='fewest'"
            )
        for name in ("prove", "polish", "as_printed"):
            if not isinstance(getattr(self, name), bool):
                raise GraceError(f"{name}={shown(getattr(self, name))}: it must be True or False")
        for name in ("max_features", "n", "steps", "neighbours"):
            whole_number(name, getattr(self, name), 1, MOST)
        whole_number("max_calls", self.max_calls, 0, MOST_CALLS, " (0: no limit)")
        for name, most in (("gamma", 1.0), ("confidence", 0.999999), ("plausible", 0.999999), ("budget", float("inf"))):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= most:
                limits = (
                    "of at least 0" if name == "budget" else f"between 0 and {'1' if name == 'gamma' else 'below 1'}"
                )
                raise GraceError(f"{name}={shown(number)}: it must be a number {limits}")

    @property
    def chosen_among(self) -> str:
        """Of the method that is used: only the search, for the fewest features, chooses among answers. With "auto", it
        takes steady ones of ReLU networks and trees on a CPU, and the nearest of other models (see
        `methods.search.is_steady`)."""
        return self.among if self.method == "search" and self.prefer == "fewest" else "nearest"


def settings_of(base: Settings, changes: dict[str, Any]) -> Settings:
    """The settings with some changed; an unknown name is an error that lists the known ones."""
    if not changes:
        return base
    known = vars(base)
    for name in changes:
        if name not in known:
            others = ", ".join(EXPLAIN_ARGUMENTS)
            raise GraceError(
                f"there is no setting {name!r}; settings are {', '.join(known)}; explain also takes {others}"
            )
    try:
        return _changed(base, tuple(changes), *changes.values())
    except TypeError:  # a value that is not hashable
        return replace(base, **changes)


@lru_cache(maxsize=64, typed=True)  # typed: prove=1 is an error, though it equals True
def _changed(base: Settings, names: tuple[str, ...], *values: Any) -> Settings:
    """The checked settings, which single rows are asked with again and again."""
    return replace(base, **dict(zip(names, values, strict=True)))
