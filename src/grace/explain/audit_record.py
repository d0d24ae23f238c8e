"""Audit records of explanations: hashes of model, schema and data, the question and the answer; and their replay, which
gives the same answer byte for byte or reports what has changed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grace import __version__
from grace.errors import GraceError
from grace.explain.store import model_identity
from grace.models.identity import Identity
from grace.problem.target_range import TargetRange
from grace.schema.features import plain
from grace.schema.parsing import read_json, read_text
from grace.schema.rules import Rule, rule_to_json

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer
    from grace.explain.explanation import Explanation
    from grace.explain.explanations import Explanations

FORMAT = 1
LIBRARIES = ("numpy", "pandas", "torch", "scikit-learn", "scipy", "xgboost-cpu", "lightgbm", "catboost", "onnxruntime")
REPLAY_BUDGET = 60.0  # seconds for a proof that the replay did not decide in the recorded time
TIMED = "distance_at_least"  # the part of a proof that depends on its time budget


def record(batch: Explanations, i: int, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The record of one row of a batch; `source` describes the origin of the row. The row is explained alone, as a
    replay does: the last bits of matrix products depend on the size of the batch."""
    row_question = question(batch, i)
    explainer = batch.explainer
    e = batch[i] if len(batch) == 1 else answer_question(explainer, row_question)
    content = {
        "format": FORMAT,
        "grace": __version__,
        "libraries": versions(),
        "model": model_identity(explainer).to_dict(),
        "explainer": fingerprints(explainer),
        "source": dict(source or {}),
        "question": row_question,
        "answer": _as_json(e),
    }
    return {**content, "sha256": digest(content)}


def versions() -> dict[str, str]:
    """The versions of Python and of the installed libraries that may affect an answer."""
    out = {"python": platform.python_version(), "machine": platform.machine()}
    for name in LIBRARIES:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return out


def fingerprints(explainer: Explainer) -> dict[str, Any]:
    """Hashes of the schema, the settings, SU and the background rows of an explainer."""
    arrays = {"su": explainer.su, "background": explainer.background_rows}
    return {
        "folder": explainer.folder,
        "schema": digest(explainer.schema.to_dict()),
        "settings": digest(asdict(explainer.settings)),
        **{name: None if a is None else _hash(np.ascontiguousarray(a).tobytes()) for name, a in arrays.items()},
        "training_rows": explainer.training_rows,
    }


def question(batch: Explanations, i: int) -> dict[str, Any]:
    """The row and all arguments of `explain`, defaults included, as JSON."""
    if len(batch.call["robust"]):
        raise GraceError("a record holds one model: leave out robust=, whose models are not part of it")
    call = {k: v for k, v in batch.call.items() if k != "robust"}
    if batch.against_each is not None:
        call["against"] = batch.against_each[i]
    filled = batch.filled.iloc[i]
    row = {name: None if filled[name] else cell for name, cell in batch[i].row.items()}
    return {"row": row, "asked": {k: _plain(v) for k, v in call.items()}}


def answer_question(explainer: Explainer, recorded: Mapping[str, Any], min_budget: float = 0.0) -> Explanation:
    """The answer to a question as in `question`, with at least `min_budget` seconds for a proof."""
    call = dict(recorded["asked"])
    call["against"] = _against(call.get("against"))
    call["budget"] = max(float(call["budget"]), min_budget)
    return explainer.explain([recorded["row"]], **call)[0]


def _as_json(e: Explanation) -> dict[str, Any]:
    """The dict of an explanation as it is after a round trip through JSON: tuples are lists."""
    out: dict[str, Any] = json.loads(json.dumps(e.to_dict()))
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, TargetRange):
        return {"wanted": _plain(asdict(value))}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    if isinstance(value, Rule):
        return rule_to_json(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    return plain(value)


def digest(content: Any) -> str:
    """The SHA-256 of JSON, independent of the order of keys."""
    return _hash(json.dumps(content, sort_keys=True, ensure_ascii=True, default=str).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Replay:
    """The result of a replay: whether the answer is the same, which of model, schema, data and software have changed,
    and where the answers differ."""

    same: bool
    answer: Mapping[str, Any]
    changed: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


def read_record(path: str | Path) -> dict[str, Any]:
    """Read a record from a file; an altered one raises an error."""
    data = read_json(read_text(Path(path)), str(path))
    parts = ("model", "explainer", "question", "answer")
    if not isinstance(data, dict) or not all(isinstance(data.get(part), dict) for part in parts):
        raise GraceError(f"{path} is not a record of an explanation; grace explain --record writes one")
    if data.get("format") != FORMAT:
        raise GraceError(f"{path} has format {data.get('format')!r}; this version reads format {FORMAT}")
    content = {k: v for k, v in data.items() if k != "sha256"}
    if data.get("sha256") != digest(content):
        raise GraceError(f"{path} has been altered: its content does not have the hash that it states")
    return data


def replay(recorded: Mapping[str, Any], explainer: Explainer) -> Replay:
    """Answer the question of a record again, and compare."""
    changed = changes_since(recorded, explainer)
    answer = _as_json(answer_question(explainer, recorded["question"]))
    if _verdict(answer) == "open" != _verdict(recorded["answer"]):  # its time budget may not suffice on this machine
        answer = _as_json(answer_question(explainer, recorded["question"], REPLAY_BUDGET))
    different = _differences(_settled(recorded["answer"]), _settled(answer))
    return Replay(not different, answer, changed, different)


def changes_since(recorded: Mapping[str, Any], explainer: Explainer) -> list[str]:
    """Differences between the record and the present model, explainer and software, as text."""
    out = []
    difference = Identity.from_dict(recorded["model"]).difference(model_identity(explainer))
    if difference:
        out.append(f"the model: {difference}")
    parts = {"schema": "the schema", "settings": "the settings", "su": "SU", "background": "the training rows kept"}
    now = fingerprints(explainer)
    out += [f"{name} of the explainer" for part, name in parts.items() if now[part] != recorded["explainer"].get(part)]
    installed = {"grace": __version__, **versions()}
    then = {"grace": recorded.get("grace"), **recorded.get("libraries", {})}
    for name in sorted({*installed, *then}):
        if installed.get(name) != then.get(name):
            out.append(f"{name} {then.get(name) or '(none)'} → {installed.get(name) or '(none)'}")
    return out


def _against(value: Any) -> Any:
    """The inverse of `_plain` for the argument `against`."""
    if not isinstance(value, Mapping) or "wanted" not in value:
        return value
    parts = dict(value["wanted"])
    return TargetRange(**{**parts, "low": float(parts["low"]), "high": float(parts["high"])})


def _verdict(answer: Mapping[str, Any]) -> Any:
    return (answer.get("proof") or {}).get("verdict")


def _settled(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer without the time budget of a proof and what depends on it."""
    proof = answer.get("proof")
    out = {k: v for k, v in answer.items() if k != "alternatives"}
    out["settings"] = {k: v for k, v in answer.get("settings", {}).items() if k != "budget"}
    out["proof"] = None if proof is None else {k: v for k, v in proof.items() if k != TIMED}
    out["alternatives"] = [_settled(other) for other in answer.get("alternatives", ())]
    return out


def _differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two answers differ: paths to the innermost parts, with both values."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = list(dict.fromkeys((*old, *new)))
        return [d for k in keys for d in _differences(old.get(k), new.get(k), f"{path}.{k}" if path else str(k))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for n, pair in enumerate(zip(old, new, strict=True)) for d in _differences(*pair, f"{path}[{n}]")]
    return [] if old == new else [f"{path}: {json.dumps(old)[:80]} → {json.dumps(new)[:80]}"]
