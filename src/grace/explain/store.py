"""Saves and loads explainers: weights and arrays as safetensors, everything else as JSON; nothing is pickled.

grace.json            format, schema for each domain, classes, settings, the network's layers
weights.safetensors   the network, if it was trained by `grace.training.fit`
training.safetensors  SU, and the background rows unless `background=False`
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

from grace.errors import GraceError
from grace.explain.saved_files import needed_model, other_model, training_arrays, weights
from grace.explain.saved_header import ARRAYS, FORMAT, HEAD, WEIGHTS, head_of
from grace.models.base import Model
from grace.models.grouped import Grouped
from grace.models.identity import Identity, identity_of
from grace.models.network import Network
from grace.models.predictor import Predictor
from grace.models.torch import TorchModel
from grace.models.wrapping import TASKS
from grace.problem.background import Background
from grace.problem.binding import random_rows
from grace.schema.features import Categorical
from grace.schema.groups import has_groups, ungrouped
from grace.schema.schema import Schema

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

MAX_LAYERS, MAX_UNITS = 100, 1_000_000


def save(explainer: Explainer, directory: str | Path, *, background: bool = True) -> None:
    """Write an explainer atomically. Only networks of `grace.training.fit` are saved with it; `load` finds the file of
    another model again, or must be given the model."""
    target = check_target_folder(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise GraceError(f"{directory} cannot be written: {reason.strerror}") from reason
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target))
    backup = fresh / "old"
    backup.mkdir()
    moved = []
    created = not (target / HEAD).exists()
    try:
        _write(explainer, fresh, background)
        mode = (fresh / HEAD).stat().st_mode
        try:
            for name in (HEAD, WEIGHTS, ARRAYS):
                if (target / name).exists():
                    (target / name).rename(backup / name)
                    moved.append(name)
            for name in (WEIGHTS, ARRAYS, HEAD):
                if (fresh / name).exists():
                    (fresh / name).chmod(mode)
                    (fresh / name).rename(target / name)
        except BaseException:
            for name in moved:
                (backup / name).replace(target / name)
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if created and not any(target.iterdir()):
            target.rmdir()


def check_target_folder(directory: str | Path, *, overwrite: bool = True) -> Path:
    """The directory, if an explainer can be saved there; an existing one is replaced only with `overwrite`."""
    target = Path(directory)
    try:
        occupied = target.exists() and not (target.is_dir() and ((target / HEAD).exists() or not any(target.iterdir())))
    except OSError as reason:
        raise GraceError(f"{target} cannot be written: {reason.strerror}") from reason
    if occupied:
        raise GraceError(f"{target} exists and is not a saved explainer; choose another directory")
    if not overwrite and (target / HEAD).exists():
        raise GraceError(f"{target} holds a saved explainer already; choose another directory, or give --force")
    above = next(p for p in (target, *target.absolute().parents) if p.exists())
    if not above.is_dir():
        raise GraceError(f"{target} cannot be written: {above} is not a directory")
    return target


def _write(explainer: Explainer, directory: Path, background: bool) -> None:
    model = explainer.model.model if isinstance(explainer.model, Grouped) else explainer.model
    network = model.network if isinstance(model, TorchModel) else None
    head: dict[str, Any] = {
        "format": FORMAT,
        "classes": list(model.classes),
        "task": model.task,
        "domain": explainer.schema.domain,
        "schemas": [s.to_dict() for s in explainer.schemas.values()],
        "model_schema": None if model.schema is None else model.schema.to_dict(),
        "settings": asdict(explainer.settings),
        "training_rows": explainer.training_rows,
        "su_rows": explainer.su_rows,
        "network": None if network is None else network.settings(),
        "model": None if network is not None else _model_record(explainer, model),
        "threshold": None if model.cutoffs is None else [list(pair) for pair in model.cutoffs.named] or None,
    }
    (directory / HEAD).write_text(json.dumps(head, ensure_ascii=False, indent=1), encoding="utf-8")
    if network is not None:
        state = {k: v.cpu() if not v.is_floating_point() else v.cpu().float() for k, v in network.state_dict().items()}
        save_file(state, directory / WEIGHTS)
    arrays = {} if explainer.su is None else {"su": explainer.su}
    if background and explainer.background_rows is not None:
        arrays["background"] = np.ascontiguousarray(explainer.background_rows)
    save_arrays(arrays, directory / ARRAYS)


def _model_record(explainer: Explainer, model: Model) -> dict[str, Any]:
    """The identity of a model that is not saved, and the kind of its outputs."""
    reader = model.reader if isinstance(model, Predictor) else None
    outputs = model.outputs if isinstance(model, TorchModel) else None if reader is None else reader.outputs
    return {**model_identity(explainer).to_dict(), "outputs": outputs}


def model_identity(explainer: Explainer) -> Identity:
    """The identity of an explainer's model: its type and file, and its scores of fixed random rows of the schema."""
    return identity_of(explainer.model, random_rows(explainer.schema, 0))


def load(directory: str | Path, model: Any = None, *, same_model: bool = True) -> Explainer:
    """Load a saved explainer. Pass `model`, or the name of its file, if it is not a network of `grace.training.fit`; a
    file without code is found again automatically. Unless `same_model` is false, it must be the model that the
    explainer was saved for."""
    folder = Path(directory)
    head = head_of(folder)
    explainer = _load(folder, head, needed_model(folder, head, model, same_model=same_model))
    if same_model:
        _check_identity(folder, head, explainer)
    return explainer


def _check_identity(folder: Path, head: dict[str, Any], explainer: Explainer) -> None:
    """Raise an error if the model is not the one that the explainer was saved for."""
    if head.get("model") is None:
        return
    given = model_identity(explainer)
    difference = Identity.from_dict(head["model"]).difference(given)
    if difference:
        raise GraceError(other_model(folder, given.name if given.file is None else given.file.spec, difference))


def _load(folder: Path, head: dict[str, Any], model: Model | None) -> Explainer:
    from grace.explain.explainer import Explainer
    from grace.problem.settings import Settings, settings_of

    schemas = [_schema(s, folder / HEAD) for s in head["schemas"]]
    schema = next((s for s in schemas if s.domain == head["domain"]), None)
    if schema is None:
        raise GraceError(f"{folder / HEAD} is damaged: it has no schema of the domain {head['domain']!r}")
    for other in schemas:
        check_alike(other, schema, folder / HEAD)
    settings = settings_of(Settings(), dict(head["settings"]))
    if model is None:
        model = _network(folder, head, schema)
    elif model.classes and list(model.classes) != head["classes"]:
        raise GraceError(f"the model's classes {list(model.classes)!r} are not those of {folder}: {head['classes']!r}")
    if head.get("threshold") and model.cutoffs is None:
        model = model.with_threshold(dict(head["threshold"]))
    su, rows = training_arrays(folder / ARRAYS, schema)
    background = Background(rows, su, head.get("training_rows", 0), head.get("su_rows", 0))
    every = {s.domain: s for s in schemas}
    return Explainer.from_saved(model, schema, every, background, settings, str(folder.absolute()))


def _network(folder: Path, head: dict[str, Any], grouped: Schema) -> TorchModel:
    schema = _schema(head.get("model_schema"), folder / HEAD)
    check_alike(schema, grouped if has_groups(schema) else ungrouped(grouped), folder / HEAD)
    hidden, classes = head["network"]["hidden"], len(head["classes"]) or 1
    if len(hidden) > MAX_LAYERS or not all(1 <= size <= MAX_UNITS for size in hidden):
        raise GraceError(f"{folder / HEAD} is damaged: hidden layers have 1 to {MAX_UNITS:,} units")
    task = head.get("task", "classification")
    if task not in TASKS:
        raise GraceError(f"{folder / HEAD} is damaged: task is {task!r}; it must be one of {', '.join(TASKS)}")
    with torch.device("meta"):  # shapes without memory, to check the file first
        expected = Network(schema, hidden, classes).state_dict()
    state = weights(folder / WEIGHTS, expected)
    network = Network(schema, hidden, classes)
    if not torch.equal(state["numeric"], network.numeric) or not (state["scale"] > 0).all():
        raise GraceError(f"{folder / WEIGHTS} does not fit {HEAD}: its numbers are scaled in another way")
    network.load_state_dict(state)
    module = network.double().eval().requires_grad_(False)
    return TorchModel(module, tuple(head["classes"]), outputs="logits", schema=schema, task=task)


def _schema(data: Any, path: Path) -> Schema:
    try:
        return Schema.from_dict(data)
    except GraceError as reason:
        raise GraceError(f"{path} is damaged: {reason}") from None


def check_alike(one: Schema, other: Schema, path: Path) -> None:
    """Raise an error if two schemas of a file have different features; ranges may differ."""

    def kinds(schema: Schema) -> list[Any]:
        return [(f.name, f.categories if isinstance(f, Categorical) else None) for f in schema.features]

    if kinds(one) != kinds(other):
        raise GraceError(f"{path} is damaged: its schemas have different features or categories")
