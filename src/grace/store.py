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
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from grace.errors import GraceError
from grace.models import wrap
from grace.models.base import Model
from grace.models.grouped import Grouped
from grace.models.network import Network
from grace.models.torch import TorchModel
from grace.saved import FORMAT, HEAD, head_of
from grace.schema import Schema

if TYPE_CHECKING:
    from grace.explainer import Explainer

WEIGHTS, ARRAYS = "weights.safetensors", "training.safetensors"


def save(explainer: Explainer, directory: str | Path, *, background: bool = True) -> None:
    """Write an explainer whole or not at all. A wrapped module is not written: it has to be given to
    `load` again."""
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


def load(directory: str | Path, model: Any = None) -> Explainer:
    """Read an explainer back. Pass `model` if it was made for one that was not trained here."""

    where = Path(directory)
    try:
        return _load(where, head_of(where), None if model is None else wrap(model))
    except (KeyError, TypeError, AttributeError, StopIteration) as reason:
        raise GraceError(f"{where / HEAD} is damaged: {type(reason).__name__} {reason}") from reason


def _load(where: Path, head: dict[str, Any], model: Model | None) -> Explainer:
    from grace.explainer import Explainer
    from grace.settings import Settings, settings_of

    schemas = [Schema.from_dict(s) for s in head["schemas"]]
    schema = next(s for s in schemas if s.domain == head["domain"])
    if model is None:
        if head["network"] is None:
            raise GraceError(
                f"{where} was saved for a wrapped module; load it with model=grace.wrap(module, classes=...)"
            )
        model = _network(where, head)
    elif model.classes and list(model.classes) != head["classes"]:
        raise GraceError(f"the model's classes {list(model.classes)!r} are not those of {where}: {head['classes']!r}")
    if head.get("threshold") and model.cutoffs is None:
        model = model.with_threshold(dict(head["threshold"]))
    try:
        arrays = load_arrays(where / ARRAYS)
    except (OSError, SafetensorError) as reason:
        raise GraceError(f"{where / ARRAYS} cannot be read: {reason}") from reason
    explainer = Explainer(model, schema=schema, domain=schema.domain)
    explainer.settings = settings_of(Settings(), head["settings"])
    explainer.training_rows, explainer.su_rows = head.get("training_rows", 0), head.get("su_rows", 0)
    explainer.schemas = {s.domain: s for s in schemas}
    explainer.su = arrays.get("su")
    explainer.background_rows = arrays.get("background")
    return explainer


def _network(where: Path, head: dict[str, Any]) -> TorchModel:
    schema = Schema.from_dict(head["model_schema"])
    network = Network(schema, head["network"]["hidden"], len(head["classes"]) or 1)
    try:
        network.load_state_dict(load_file(where / WEIGHTS))
    except (RuntimeError, OSError, SafetensorError) as reason:
        raise GraceError(f"{where / WEIGHTS} does not fit {HEAD}: {str(reason).splitlines()[0]}") from reason
    module = network.double().eval().requires_grad_(False)
    task = head.get("task", "classification")
    return TorchModel(module, tuple(head["classes"]), outputs="logits", schema=schema, task=task)
