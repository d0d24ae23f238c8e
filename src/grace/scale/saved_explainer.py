"""The explainer of a job: one that was saved, read from where it is, or one in memory, saved for as long as the job
takes. Its training rows do not get into the folder of the job."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grace.errors import GraceError
from grace.explain.saved_header import HEAD, head_of
from grace.explain.saved_model import needed_file
from grace.models.files import model_file
from grace.schema.files import hash_of_file

if TYPE_CHECKING:
    from grace.explain.explainer import Explainer

MODEL, CODE = "model/", "code/"  # before the name of the model's file, among files that are sent
RECORDED = (HEAD, "weights.safetensors")  # the files of an explainer without training rows


@dataclass(frozen=True)
class Given:
    """A saved explainer, the hash of its files and, of a model that is not in them, the name of its file (`model`) or a
    hash of what it says."""

    folder: Path
    sha256: str
    apart: str = ""
    model: str = ""

    @property
    def identity(self) -> str:
        return self.apart + self.sha256

    @property
    def head(self) -> dict[str, Any]:
        return head_of(self.folder)

    def recorded(self) -> list[Path]:
        """The files that say what the explainer is, and hold no training rows."""
        return [path for name in RECORDED if (path := self.folder / name).exists()]

    def reference(self) -> dict[str, str]:
        """What another process on this machine needs to load it, as JSON."""
        return {"folder": str(self.folder.absolute()), "sha256": self.sha256, "model": self.model}

    def files(self) -> dict[str, bytes]:
        """What a process on another machine needs to load it. Code is not sent: it has to be there, under its path."""
        out = {path.name: path.read_bytes() for path in saved_files(self.folder)}
        if self.model:
            file = model_file(self.model)
            content = file.spec.encode() if file.runs_code else Path(file.path).read_bytes()
            out[f"{CODE if file.runs_code else MODEL}{Path(file.path).name}"] = content
        return out

    def sizes(self) -> dict[str, int]:
        """How many numbers each of its arrays has, those of the network together as "weights", and how many bytes its
        description has, as "head"."""
        from safetensors import safe_open

        out = {"weights": 0, "head": (self.folder / HEAD).stat().st_size}
        for path in saved_files(self.folder)[1:]:
            with safe_open(path, framework="np") as arrays:
                for name in arrays.keys():  # noqa: SIM118 (it is no dict)
                    count = 1
                    for length in arrays.get_slice(name).get_shape():
                        count *= length
                    key = "weights" if path.name in RECORDED else name
                    out[key] = out.get(key, 0) + count
        return out


@contextmanager
def given(
    explainer: Explainer | str | Path, *, model: str | Path | None = None, anywhere: bool = False
) -> Iterator[Given]:
    """The explainer of a job, and the file of its `model` where that is not in the folder. One whose model is in no
    file either, or has to stay on its device (unless it may go `anywhere`), is told by what its model says."""
    if isinstance(explainer, str | Path):
        folder = Path(explainer)
        file = needed_file(folder, head_of(folder), model)
        yield Given(folder, hash_of(folder), model="" if file is None else file.spec)
        return
    if model is not None:
        raise GraceError("model= goes with the folder of an explainer; this one has its model")
    with tempfile.TemporaryDirectory() as fresh:
        folder = Path(fresh) / "explainer"
        explainer.save(str(folder))
        own = explainer.model.file
        lost = head_of(folder)["network"] is None and own is None
        if lost and anywhere:
            raise GraceError(
                "this model cannot be saved, and so not be given to a cluster or another device; read it from a file "
                "by grace.wrap(FILE), and it can"
            )
        bound = lost or not (anywhere or explainer.model.device.type == "cpu")
        spec = "" if own is None or bound else own.spec
        yield Given(folder, hash_of(folder), _behaviour(explainer) if bound else "", spec)


def load_given(reference: Mapping[str, str], device: str) -> Explainer:
    """Load what `Given.reference` refers to, for a process that works beside others. A GPU that Ray has given out, but
    torch does not see, is done without."""
    import torch

    from grace.explain.store import load
    from grace.models.base import device_of

    torch.set_num_threads(1)
    if device == "cuda" and not torch.cuda.is_available():
        warnings.warn("torch sees no GPU in this process, which uses the CPU", stacklevel=2)
        device = "cpu"
    folder = Path(reference["folder"])
    explainer = load(folder, reference.get("model") or None)
    if hash_of(folder) != reference["sha256"]:
        raise GraceError(f"{folder} has changed since the job began; restore it, or explain into another folder")
    explainer.model = explainer.model.on(device_of(device))
    return explainer


@contextmanager
def received(files: Mapping[str, bytes]) -> Iterator[dict[str, str]]:
    """The reference to an explainer that came as the bytes of its files."""
    with tempfile.TemporaryDirectory() as fresh:
        folder, model = Path(fresh), ""
        for name, content in files.items():
            if name.startswith(CODE):
                model = content.decode()
                continue
            path = folder / name.removeprefix(MODEL)
            path.write_bytes(content)
            model = str(path) if name.startswith(MODEL) else model
        yield Given(folder, hash_of(folder), model=model).reference()


def saved_files(folder: Path) -> list[Path]:
    """The files of a saved explainer."""
    return [folder / HEAD, *sorted(folder.glob("*.safetensors"))]


def hash_of(folder: Path) -> str:
    """A hash of the files of a saved explainer."""
    digest = hashlib.sha256()
    for path in saved_files(folder):
        digest.update(path.name.encode() + b"\0" + bytes.fromhex(hash_of_file(path)))
    return digest.hexdigest()


def _behaviour(explainer: Explainer) -> str:
    """A hash of what a model says of some rows."""
    from grace.problem.background import asked, random_rows

    scores = asked(explainer.model, random_rows(explainer.schema, 0))
    return hashlib.sha256(scores.tobytes()).hexdigest()
