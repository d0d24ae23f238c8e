"""The arrays and the model of a saved explainer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file
from torch import Tensor

from grace.errors import GraceError
from grace.explain.saved_header import HEAD
from grace.models.base import Model
from grace.models.files import PYTHON, ModelFile, model_file
from grace.models.identity import Identity
from grace.models.wrapping import wrap, wrap_file
from grace.schema.features import Categorical, Floats
from grace.schema.parsing import check_size, shown
from grace.schema.schema import Schema

MAX_WEIGHTS, MAX_ARRAYS = 4 * 2**30, 16 * 2**30  # bytes
CODES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
ROUNDING = 1e-9

Shapes = dict[str, tuple[str, tuple[int, ...]]]


def shapes_in(path: Path, max_bytes: int) -> Shapes:
    """The type and shape of each array of a file, read from its header."""
    check_size(path, max_bytes)
    try:
        with safe_open(path, framework="numpy") as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in parts.items()}
    except (OSError, SafetensorError, ValueError, TypeError) as reason:
        raise GraceError(f"{path} cannot be read: {reason}") from reason


def weights(path: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of a network, which must have the types and shapes of `expected` (tensors on the meta device)."""
    found = shapes_in(path, MAX_WEIGHTS)
    needed: Shapes = {name: (CODES[t.dtype], tuple(t.shape)) for name, t in expected.items()}
    for name in {**needed, **found}:
        if found.get(name) != needed.get(name):
            has, needs = (_shape_text(shapes.get(name)) for shapes in (found, needed))
            raise GraceError(f"{path} does not fit {HEAD}: {shown(name)} is {has}, and should be {needs}")
    state = load_file(path)
    for name, tensor in state.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise GraceError(f"{path} is damaged: {name!r} has numbers that are not finite")
    return state


def training_arrays(path: Path, schema: Schema) -> tuple[Floats | None, Floats | None]:
    """SU (d, d) and background rows (m, d), or None."""
    width = len(schema)
    for name, (code, shape) in shapes_in(path, MAX_ARRAYS).items():
        if name not in ("su", "background"):
            raise GraceError(f"{path} is damaged: it has an unknown array {shown(name)}")
        if code != "F64" or len(shape) != 2 or shape[1] != width or (name == "su" and shape[0] != width):
            needs = f"{width if name == 'su' else 'rows'} × {width}"
            raise GraceError(
                f"{path} does not fit {HEAD}: {name!r} is {_shape_text((code, shape))}, and should be F64 {needs}"
            )
    arrays = load_arrays(path)
    su, rows = arrays.get("su"), arrays.get("background")
    if su is not None and not ((su >= -ROUNDING) & (su <= 1 + ROUNDING) & (np.abs(su - su.T) <= ROUNDING)).all():
        raise GraceError(f"{path} is damaged: 'su' must be symmetric, with numbers from 0 to 1")
    if rows is not None:
        _check_rows(path, rows, schema)
    return su, rows


def _check_rows(path: Path, rows: Floats, schema: Schema) -> None:
    if len(rows) == 0:
        raise GraceError(f"{path} is damaged: it has no background rows")
    for j, feature in enumerate(schema.features):
        column = rows[:, j]
        if isinstance(feature, Categorical):
            fits = bool(((column >= 0) & (column < len(feature.categories)) & (column == np.floor(column))).all())
        else:
            fits = bool(np.isfinite(column).all())
        if not fits:
            raise GraceError(f"{path} does not fit {HEAD}: background rows have other values of {feature.name!r}")


def _shape_text(part: tuple[str, tuple[int, ...]] | None) -> str:
    return "missing" if part is None else f"{part[0]} {' × '.join(map(str, part[1])) or 'alone'}"


def needed_file(
    folder: Path, head: Mapping[str, Any], given: str | Path | None = None, *, same_model: bool = True
) -> ModelFile | None:
    """The file of the model: the given one, or the one in the header of the folder (`head`). None if the folder
    contains the model."""
    saved = None if head.get("model") is None else Identity.from_dict(head["model"])
    if given is None and head["network"] is not None:
        return None
    if given is None and saved is None:
        raise GraceError(f"{folder} was saved without its model; load it with model=grace.wrap(...), or --model")
    file = model_file(given) if given is not None else _saved_file(folder, saved)
    if same_model and saved is not None and saved.file is not None and file.sha256 != saved.file.sha256:
        raise GraceError(other_model(folder, file.spec, saved.difference(replace(saved, sha256=file.sha256))))
    return file


def needed_model(folder: Path, head: Mapping[str, Any], given: Any, *, same_model: bool = True) -> Model | None:
    """The given model, or the model of `needed_file`; None if the folder contains the model."""
    if given is not None and not isinstance(given, str | Path):
        return wrap(given)
    file = needed_file(folder, head, given, same_model=same_model)
    if file is None:
        return None
    needed = head.get("model") or {}
    how = {"classes": head["classes"] or None, "task": head.get("task")}
    if file.kind != PYTHON:
        how["outputs"] = needed.get("outputs")
    return wrap_file(file, known=needed.get("sha256") == file.sha256, **how)


def _saved_file(folder: Path, saved: Identity | None) -> ModelFile:
    """The file in the header of a folder: at its path, in the folder, or beside it."""
    assert saved is not None
    if saved.file is None or saved.file.runs_code:
        how = "grace.wrap(...)" if saved.file is None else repr(saved.file.spec)
        raise GraceError(
            f"{folder} was saved for {saved.name}, which is not in it; load it with model={how}, or on the command "
            "line with --model"
        )
    name = Path(saved.file.path).name
    for path in (Path(saved.file.path), folder / name, folder.absolute().parent / name):
        if path.is_file():
            return model_file(path)
    raise GraceError(f"{folder} was saved for {saved.file.path}, which is not there any more; say where with --model")


def other_model(folder: Path, name: str, difference: str) -> str:
    """The error message for a model other than the one that an explainer was saved for."""
    return f"{name} is not the model that {folder} was saved for: {difference}; save an explainer for this one"
