"""The machine code of compiled functions, called without numba's look at the types of all arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np


class MachineCode:
    """A compiled function for arguments of the types of those given, with which it is called once. Others are left to
    numba, which compiles the function for them, too.

    For many arrays, the look at their types takes longer than a short search: that of those in the tuples at the places
    `kept`, which most calls share, is taken when they first come."""

    def __init__(self, function: Callable[..., object], *given: Any, kept: Sequence[int] = ()) -> None:
        made: Any = function
        made(*given)
        self.function = made
        self.code: Any = made.overloads[tuple(map(numba.typeof, given))].entry_point
        self.sample = given
        self.kinds = tuple(map(kind_of, given))
        self.seen: list[Any] = [given[place] if place in kept else None for place in range(len(given))]
        self.kept = frozenset(kept)

    def __call__(self, *given: Any) -> Any:
        return self.code(*given) if self.serves(given) else self.function(*given)

    def serves(self, given: tuple[Any, ...]) -> bool:
        """Whether the machine code takes these arguments."""
        if len(given) != len(self.kinds):
            return False
        seen = self.seen
        for place, argument in enumerate(given):
            if argument is seen[place] and argument is not None:
                continue
            if not is_of(argument, self.kinds[place]):
                return False
            if place in self.kept:
                seen[place] = argument
        return True


def kind_of(argument: Any) -> Any:
    """The type of an argument: of an array, its dtype and dimensions; of a tuple, those of its parts."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim
    return [kind_of(part) for part in argument] if isinstance(argument, tuple) else type(argument)


def is_of(argument: Any, kind: Any) -> bool:
    """Whether an argument is of a kind, and all its arrays are contiguous."""
    if type(argument) is np.ndarray:
        if type(kind) is not tuple or argument.dtype != kind[0] or argument.ndim != kind[1]:
            return False
        flags = argument.flags
        return bool(flags.c_contiguous and flags.aligned)
    if type(kind) is list:
        return isinstance(argument, tuple) and len(argument) == len(kind) and all(map(is_of, argument, kind))
    return type(argument) is kind
