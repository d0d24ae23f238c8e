"""Whether a model is of a class that its library defines, so that the library's code alone decides what it predicts."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any


def own(model: Any, package: str, names: Collection[str]) -> bool:
    """Whether a model is of one of these classes of a package itself, and none of its methods was replaced. A class
    derived from them may decide otherwise."""
    kind = type(model)
    if kind.__name__ not in names or kind.__module__.split(".")[0] != package:
        return False
    if getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind:
        return False
    return not any(callable(getattr(kind, name, None)) for name in vars(model))
