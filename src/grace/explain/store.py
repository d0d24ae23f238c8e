"""Explainers on disk: weights and arrays as safetensors, everything else as JSON; never pickle.

grace.json            format, schema for each domain, classes, settings, the network's layers
weights.safetensors   the network (only of networks that `grace.training.fit` made)
training.safetensors  SU, and the background rows unless they were left out
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
from grace.explain.saved_files import another, needed_model, training_arrays, weights
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
from grace.schema.groups import flat, has_groups
from grace.schema.schema import Schema

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

MOST_LAYERS, MOST_UNITS = 100, 1_000_000


def save(explainer: Explainer, directory: str | Path, *, background: bool = True) -> None:
    """Write an explainer whole or not at all. A model that was not trained here is not written: `load` finds its file
    again, or has to be given it."""
    target = check_place(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise GraceError(f"{directory} cannot be written: {reason.strerror}") from reason
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=target))
    backup = fresh / "old"
    backup.mkdir()
    kept = []
    created = not (target / HEAD).exists()
    try:
        _write(explainer, fresh, background)
        mode = (fresh / HEAD).stat().st_mode
        try:
            for name in (HEAD, WEIGHTS, ARRAYS):
                if (target / name).exists():
                    (target / name).rename(backup / name)
                    kept.append(name)
            for name in (WEIGHTS, ARRAYS, HEAD):
                if (fresh / name).exists():
                    (fresh / name).chmod(mode)
                    (fresh / name).rename(target / name)
        except BaseException:
            for name in kept:
                (backup / name).replace(target / name)
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if created and not any(target.iterdir()):
            target.rmdir()


def check_place(directory: str | Path, *, overwrite: bool = True) -> Path:
    """The directory, if an explainer can be saved there; over another one only with `overwrite`."""
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
        "model": None if network is not None else _needed(explainer, model),
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


def _needed(explainer: Explainer, model: Model) -> dict[str, Any]:
    """What an explainer that is saved without its model has to find again, and how it is wrapped."""
    way = model.reader if isinstance(model, Predictor) else None
    outputs = model.outputs if isinstance(model, TorchModel) else None if way is None else way.outputs
    return {**model_identity(explainer).to_dict(), "outputs": outputs}


def model_identity(explainer: Explainer) -> Identity:
    """The identity of an explainer's model: its type and file, and its scores of fixed random rows of the schema."""
    return identity_of(explainer.model, random_rows(explainer.schema, 0))


def load(directory: str | Path, model: Any = None, *, same_model: bool = True) -> Explainer:
    """Read an explainer back. Pass `model`, or the name of its file, if it was made for one that was not trained here;
    unless `same_model` is false, it must be the one that the explainer was saved for. A file that holds no code is
    found again by itself."""
    where = Path(directory)
    head = head_of(where)
    found = _load(where, head, needed_model(where, head, model, same_model=same_model))
    if same_model:
        _check_identity(where, head, found)
    return found


def _check_identity(where: Path, head: dict[str, Any], explainer: Explainer) -> None:
    """An explainer that was saved for one model is not loaded with another."""
    if head.get("model") is None:
        return
    known = Identity.from_dict(head["model"])
    found = model_identity(explainer)
    difference = known.difference(found)
    if difference:
        raise GraceError(another(where, found.name if found.file is None else found.file.spec, difference))


def _load(where: Path, head: dict[str, Any], model: Model | None) -> Explainer:
    from grace.explain.explainer import Explainer
    from grace.problem.settings import Settings, settings_of

    schemas = [_schema(s, where / HEAD) for s in head["schemas"]]
    schema = next((s for s in schemas if s.domain == head["domain"]), None)
    if schema is None:
        raise GraceError(f"{where / HEAD} is damaged: it has no schema of the domain {head['domain']!r}")
    for other in schemas:
        check_alike(other, schema, where / HEAD)
    settings = settings_of(Settings(), dict(head["settings"]))
    if model is None:
        model = _network(where, head, schema)
    elif model.classes and list(model.classes) != head["classes"]:
        raise GraceError(f"the model's classes {list(model.classes)!r} are not those of {where}: {head['classes']!r}")
    if head.get("threshold") and model.cutoffs is None:
        model = model.with_threshold(dict(head["threshold"]))
    su, background = training_arrays(where / ARRAYS, schema)
    known = Background(background, su, head.get("training_rows", 0), head.get("su_rows", 0))
    every = {s.domain: s for s in schemas}
    return Explainer.from_saved(model, schema, every, known, settings, str(where.absolute()))


def _network(where: Path, head: dict[str, Any], grouped: Schema) -> TorchModel:
    schema = _schema(head.get("model_schema"), where / HEAD)
    check_alike(schema, grouped if has_groups(schema) else flat(grouped), where / HEAD)
    hidden, classes = head["network"]["hidden"], len(head["classes"]) or 1
    if len(hidden) > MOST_LAYERS or not all(1 <= size <= MOST_UNITS for size in hidden):
        raise GraceError(f"{where / HEAD} is damaged: hidden layers have 1 to {MOST_UNITS:,} units")
    task = head.get("task", "classification")
    if task not in TASKS:
        raise GraceError(f"{where / HEAD} is damaged: task is {task!r}; it must be one of {', '.join(TASKS)}")
    with torch.device("meta"):  # shapes alone: no memory is taken before the file is known to fit
        expected = Network(schema, hidden, classes).state_dict()
    state = weights(where / WEIGHTS, expected)
    network = Network(schema, hidden, classes)
    if not torch.equal(state["numeric"], network.numeric) or not (state["scale"] > 0).all():
        raise GraceError(f"{where / WEIGHTS} does not fit {HEAD}: its numbers are scaled in another way")
    network.load_state_dict(state)
    module = network.double().eval().requires_grad_(False)
    return TorchModel(module, tuple(head["classes"]), outputs="logits", schema=schema, task=task)


def _schema(data: Any, path: Path) -> Schema:
    try:
        return Schema.from_dict(data)
    except GraceError as reason:
        raise GraceError(f"{path} is damaged: {reason}") from None


def check_alike(one: Schema, other: Schema, path: Path) -> None:
    """Two schemas in a file are of the same features, however far they range."""

    def kinds(schema: Schema) -> list[Any]:
        return [(f.name, f.categories if isinstance(f, Categorical) else None) for f in schema.features]

    if kinds(one) != kinds(other):
        raise GraceError(f"{path} is damaged: its schemas have different features or categories")
