"""Caches values that are derived from an immutable object in the object itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

MAX_RESULTS = 512  # of a function and an object
Owner = TypeVar("Owner")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def cached_on_first(
    function: Callable[Concatenate[Owner, Parameters], Result],
) -> Callable[Concatenate[Owner, Parameters], Result]:
    """The function, with its last results cached in its first argument, which need not be hashable, by the other ones;
    a call with keywords is not cached. Callers must not modify the result."""
    name = f"_{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def cached(owner: Owner, /, *args: Parameters.args, **named: Parameters.kwargs) -> Result:
        if named:
            return function(owner, *args, **named)
        results = owner.__dict__.get(name)
        if results is None:
            results = owner.__dict__[name] = {}
        if args not in results:
            if len(results) == MAX_RESULTS:
                results.clear()
            results[args] = function(owner, *args, **named)
        result: Result = results[args]
        return result

    return cached
