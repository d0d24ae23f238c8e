"""What tells a model from others: a hash of what it has learnt, of the file that it was read from, or of its code; and
what it says of a few rows."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grace.errors import GraceError
from grace.models.base import Model, checked_scores
from grace.models.files import ModelFile
from grace.models.grouped import Grouped
from grace.models.torch import TorchModel
from grace.schema.features import Floats

TRIED = 8  # rows of which the answers are kept
CLOSE = 1e-6  # how far answers may be apart, relative to them: other machines round otherwise

HASHED = {
    "file": "the file that it was read from",
    "weights": "its weights",
    "content": "what it has learnt",
    "code": "its code",
}


@dataclass(frozen=True)
class Identity:
    """`of` is a key of HASHED, or empty where nothing can be hashed; `answers` are the scores of some rows."""

    name: str
    of: str
    sha256: str
    answers: tuple[tuple[float, ...], ...]
    file: ModelFile | None = None

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"name": self.name, "of": self.of, "sha256": self.sha256}
        out["answers"] = [list(row) for row in self.answers]
        return {**out, "file": None if self.file is None else self.file.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Identity:
        if not isinstance(data, Mapping) or not all(isinstance(data.get(k), str) for k in ("name", "of", "sha256")):
            raise GraceError("the record of a model is damaged: it needs name, of and sha256 as text")
        try:
            answers = tuple(tuple(float(score) for score in row) for row in data["answers"])
        except (KeyError, TypeError, ValueError):
            raise GraceError("the record of a model is damaged: answers must be rows of numbers") from None
        file = None if data.get("file") is None else ModelFile.from_dict(data["file"])
        return cls(data["name"], data["of"], data["sha256"], answers, file)

    def difference(self, other: Identity) -> str:
        """What shows that another is not this model; empty if nothing does."""
        if self.of == other.of and self.sha256 != other.sha256:
            return f"{HASHED.get(self.of, self.of)} has another hash ({other.sha256[:12]}, not {self.sha256[:12]})"
        mine, its = (np.array(answers) for answers in (self.answers, other.answers))
        if mine.shape != its.shape or not np.allclose(mine, its, rtol=CLOSE, atol=CLOSE):
            return "it gives other scores"
        return ""


def identity_of(model: Model, rows: Floats) -> Identity:
    """The identity of a model, with its answers to the first of these rows."""
    inner = model.model if isinstance(model, Grouped) else model
    tried = torch.as_tensor(rows[:TRIED], dtype=torch.float64, device=model.device)
    scores = checked_scores(model, tried).detach().cpu().numpy()
    answers = tuple(tuple(float(score) for score in row) for row in scores)
    of, digest = _hashed(inner)
    return Identity(inner.name, of, digest, answers, inner.file)


def _hashed(model: Model) -> tuple[str, str]:
    if model.file is not None:
        return "code" if model.file.runs_code else "file", model.file.sha256
    if model.subject is None and isinstance(model, TorchModel):
        return "weights", model.fingerprint()
    subject = model.subject
    if inspect.isroutine(subject):
        try:
            text = inspect.getsource(subject)
        except (OSError, TypeError):
            return "", ""
        return "code", hashlib.sha256(text.encode()).hexdigest()
    if isinstance(subject, torch.nn.Module) and isinstance(model, TorchModel):
        return "weights", model.fingerprint()
    if hasattr(subject, "SerializeToString"):
        return "content", hashlib.sha256(subject.SerializeToString()).hexdigest()
    return _content(subject)


def _content(subject: Any) -> tuple[str, str]:
    """A hash of everything in an object; none of one that cannot be pickled."""
    import joblib

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "content", hashlib.sha256(joblib.hash(subject, hash_name="sha1").encode()).hexdigest()
    except Exception:  # whatever an object raises that does not want to be pickled
        return "", ""
