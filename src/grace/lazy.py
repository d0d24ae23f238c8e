"""Names that are imported on first use: the command must not wait for torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str], modules: tuple[str, ...] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a package: names from the modules they live in, and modules of its own."""

    def found(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return found
