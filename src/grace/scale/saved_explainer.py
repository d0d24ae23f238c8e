"""The explainer of a job as files: one that was saved, or one in memory that is saved for the time of the job. Its
training rows are not written to the folder of the job."""

from __future__ import annotations

import hashlib
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.explain.saved_files import needed_file
from grace.explain.saved_header import HEAD, WEIGHTS, head_of
from grace.models.files import model_file
from grace.schema.files import hash_of_file

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

MODEL, CODE = "model/", "code/"  # prefixes of the name of the model's file, among files that are sent
WITHOUT_ROWS = (HEAD, WEIGHTS)  # the files of an explainer that hold no training rows


@dataclass(frozen=True)
class SavedExplainer:
    """The folder of a saved explainer, its header and a hash of its files. If the model is not in the folder, `model`
    names its file; a model that can be used in this process only is identified by a hash of its scores instead
    (`behaviour`)."""

    folder: Path
    head: Mapping[str, Any]
    sha256: str
    model: str = ""
    behaviour: str = ""

    @property
    def identity(self) -> str:
        return self.behaviour + self.sha256

    @property
    def columns(self) -> list[str]:
        """The columns of a table that the features are read from."""
        return [c for f in self.head["schemas"][0]["features"] for c in f.get("columns") or [f["name"]]]

    @property
    def has_network(self) -> bool:
        """Whether the model is a network whose weights are in the folder."""
        return (self.folder / WEIGHTS).exists()

    @property
    def target(self) -> str | None:
        target: str | None = self.head["schemas"][0]["target"]
        return target

    def recorded(self) -> list[Path]:
        """The files that are copied to the folder of the job."""
        return [path for name in WITHOUT_ROWS if (path := self.folder / name).exists()]

    def reference(self) -> dict[str, str]:
        """What `load_reference` needs in another process on this machine, as JSON."""
        return _reference(self.folder, self.sha256, self.model)

    def files(self) -> dict[str, bytes]:
        """What `unpacked_files` needs on another machine. Code is not sent: it must exist there under the same path."""
        out = {path.name: path.read_bytes() for path in saved_files(self.folder)}
        if self.model:
            file = model_file(self.model)
            content = file.spec.encode() if file.runs_code else Path(file.path).read_bytes()
            out[f"{CODE if file.runs_code else MODEL}{Path(file.path).name}"] = content
        return out

    def sizes(self) -> dict[str, int]:
        """The number of elements of each array, with those of the network summed up as "weights", and the size of the
        header in bytes as "head"."""
        from safetensors import safe_open

        out = {"weights": 0, "head": (self.folder / HEAD).stat().st_size}
        for path in saved_files(self.folder)[1:]:
            with safe_open(path, framework="np") as arrays:
                for name in arrays.keys():  # noqa: SIM118 (it is no dict)
                    key = "weights" if path.name == WEIGHTS else name
                    out[key] = out.get(key, 0) + math.prod(arrays.get_slice(name).get_shape())
        return out


@contextmanager
def as_saved(
    explainer: Explainer | str | Path, *, model: str | Path | None = None, portable: bool = False
) -> Iterator[SavedExplainer]:
    """The explainer of a job as a folder; `model` names the file of its model where the folder does not. If `portable`,
    the model must be one that can be loaded on another machine or device."""
    if isinstance(explainer, str | Path):
        folder = Path(explainer)
        head = head_of(folder)
        file = needed_file(folder, head, model)
        yield SavedExplainer(folder, head, _hash_of_folder(folder), "" if file is None else file.spec)
        return
    if model is not None:
        raise GraceError("model= goes with the folder of an explainer; this one has its model")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "explainer"
        explainer.save(str(folder))
        head, file = head_of(folder), explainer.model.file
        in_memory = head["network"] is None and file is None
        if in_memory and portable:
            raise GraceError(
                "this model cannot be saved, and so not be given to a cluster or another device; read it from a file "
                "by grace.wrap(FILE), and it can"
            )
        if in_memory or not (portable or explainer.model.device.type == "cpu"):
            yield SavedExplainer(folder, head, _hash_of_folder(folder), behaviour=_hash_of_scores(explainer))
        else:
            yield SavedExplainer(folder, head, _hash_of_folder(folder), "" if file is None else file.spec)


def load_reference(reference: Mapping[str, str], device: str) -> Explainer:
    """Load the explainer that `SavedExplainer.reference` refers to, with one thread, as other processes run beside this
    one. If Ray has assigned a GPU that torch does not see, the CPU is used."""
    import torch

    from grace.explain.store import load
    from grace.models.base import device_of

    torch.set_num_threads(1)
    if device == "cuda" and not torch.cuda.is_available():
        warnings.warn("torch sees no GPU in this process, which uses the CPU", stacklevel=2)
        device = "cpu"
    folder = Path(reference["folder"])
    explainer = load(folder, reference.get("model") or None)
    if _hash_of_folder(folder) != reference["sha256"]:
        raise GraceError(f"{folder} has changed since the job began; restore it, or explain into another folder")
    explainer.use(explainer.model.on(device_of(device)))
    return explainer


@contextmanager
def unpacked_files(files: Mapping[str, bytes]) -> Iterator[dict[str, str]]:
    """Write the files of `SavedExplainer.files` to a temporary folder; yields a reference to it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, model = Path(temporary), ""
        for name, content in files.items():
            if name.startswith(CODE):
                model = content.decode()
                continue
            path = folder / name.removeprefix(MODEL)
            path.write_bytes(content)
            model = str(path) if name.startswith(MODEL) else model
        yield _reference(folder, _hash_of_folder(folder), model)


def saved_files(folder: Path) -> list[Path]:
    """The files of a saved explainer, the header first."""
    return [folder / HEAD, *sorted(folder.glob("*.safetensors"))]


def _reference(folder: Path, sha256: str, model: str) -> dict[str, str]:
    return {"folder": str(folder.absolute()), "sha256": sha256, "model": model}


def _hash_of_folder(folder: Path) -> str:
    """A hash of the names and contents of all files of a saved explainer."""
    digest = hashlib.sha256()
    for path in saved_files(folder):
        digest.update(path.name.encode() + b"\0" + bytes.fromhex(hash_of_file(path)))
    return digest.hexdigest()


def _hash_of_scores(explainer: Explainer) -> str:
    """A hash of the scores that a model gives to random rows."""
    from grace.problem.binding import query, random_rows

    scores = query(explainer.model, random_rows(explainer.schema, 0))
    return hashlib.sha256(scores.tobytes()).hexdigest()
