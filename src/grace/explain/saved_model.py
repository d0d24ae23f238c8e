"""The model of an explainer that was saved without it: which file holds it, and whether it is the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from grace.errors import GraceError
from grace.models.base import Model
from grace.models.files import PYTHON, ModelFile, model_file
from grace.models.identity import Identity
from grace.models.wrapping import wrap, wrap_file


def needed_file(
    folder: Path, head: Mapping[str, Any], given: str | Path | None = None, *, same_model: bool = True
) -> ModelFile | None:
    """The file of the model: the one that is given, or that named in the header of the folder (`head`). None if the
    folder holds the model itself."""
    known = None if head.get("model") is None else Identity.from_dict(head["model"])
    if given is None and head["network"] is not None:
        return None
    if given is None and known is None:
        raise GraceError(f"{folder} was saved without its model; load it with model=grace.wrap(...), or --model")
    file = model_file(given) if given is not None else _found(folder, known)
    if same_model and known is not None and known.file is not None and file.sha256 != known.file.sha256:
        raise GraceError(another(folder, file.spec, known.difference(replace(known, sha256=file.sha256))))
    return file


def needed_model(folder: Path, head: Mapping[str, Any], given: Any, *, same_model: bool = True) -> Model | None:
    """The model that is given, or that of its file; None if it is in the folder."""
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


def _found(folder: Path, known: Identity | None) -> ModelFile:
    """The file that the folder remembers, where it was or beside the folder."""
    assert known is not None
    if known.file is None or known.file.runs_code:
        how = "grace.wrap(...)" if known.file is None else repr(known.file.spec)
        raise GraceError(
            f"{folder} was saved for {known.name}, which is not in it; load it with model={how}, or on the command "
            "line with --model"
        )
    name = Path(known.file.path).name
    for path in (Path(known.file.path), folder / name, folder.absolute().parent / name):
        if path.is_file():
            return model_file(path)
    raise GraceError(f"{folder} was saved for {known.file.path}, which is not there any more; say where with --model")


def another(folder: Path, name: str, difference: str) -> str:
    """What is said of a model that is not the one that an explainer was saved for."""
    return f"{name} is not the model that {folder} was saved for: {difference}; save an explainer for this one"
