"""The header of a saved explainer (grace.json), validated; importing this module does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from grace.errors import GraceError
from grace.schema.parsing import fitted, read_json, read_text, shown

FORMAT = 1
HEAD = "grace.json"
WEIGHTS, ARRAYS = "weights.safetensors", "training.safetensors"


class NetworkHead(TypedDict):
    """The hidden layers of a network."""

    hidden: tuple[int, ...]


class _Head(TypedDict):
    schemas: list[Mapping[str, Any]]
    domain: str | float
    classes: list[str | int | float | bool]
    settings: Mapping[str, Any]
    network: NetworkHead | None


class Head(_Head, total=False):
    """The parts of the header and their types; those of `_Head` are required."""

    task: str
    model_schema: Mapping[str, Any] | None
    training_rows: int
    su_rows: int
    threshold: list[tuple[str | int | float | bool, float]] | None
    model: Mapping[str, Any] | None


def head_of(folder: Path) -> dict[str, Any]:
    """The header of a saved explainer, of the format that this version reads."""
    path = folder / HEAD
    if not path.is_file():
        raise GraceError(f"{folder} is not a saved explainer: it has no {HEAD}")
    head = read_json(read_text(path), str(path))
    if not isinstance(head, dict):
        raise GraceError(f"{path} is damaged: not a JSON object")
    if head.get("format") != FORMAT:
        raise GraceError(f"{folder} has format {shown(head.get('format'))}; this version reads format {FORMAT}")
    found: dict[str, Any] = fitted(head, Head, f"{path} is damaged: it")
    if not found["schemas"]:
        raise GraceError(f"{path} is damaged: it has no schema")
    return found
