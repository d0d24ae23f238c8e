"""Models from files: what the libraries write themselves, or an object of a user's own Python file.

.json .ubj   XGBoost (a JSON file may be CatBoost's as well)
.txt .lgb    LightGBM
.cbm         CatBoost
.onnx        ONNX
.pt2         torch.export; reading one runs code, as torch unpickles parts of it
FILE.py:NAME any object that `grace.wrap` takes, made by the user's own code

Pickled models are not read: to read a pickle is to run whatever it holds. Load it in a Python file of your own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from grace.errors import GraceError, pip_install
from grace.schema.files import hash_of_file
from grace.schema.parsing import check_size, read_json, read_text

XGBOOST, LIGHTGBM, CATBOOST, ONNX = "XGBoost", "LightGBM", "CatBoost", "ONNX"
EXPORT, PYTHON = "torch.export", "Python"
KINDS = {
    ".json": XGBOOST,
    ".ubj": XGBOOST,
    ".txt": LIGHTGBM,
    ".lgb": LIGHTGBM,
    ".cbm": CATBOOST,
    ".onnx": ONNX,
    ".pt2": EXPORT,
    ".py": PYTHON,
}
PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".sav", ".skops")
MOST_BYTES = 4 << 30
TRIED = {
    XGBOOST: "xgboost.Booster(model_file=path), lambda m: m.inplace_predict(rows(m.num_features()))",
    LIGHTGBM: "lightgbm.Booster(model_file=path), lambda m: m.predict(rows(m.num_feature()))",
    CATBOOST: "catboost.CatBoost().load_model(path, format=kind), lambda m: None",
}
TRIAL = """
import resource, sys
import numpy as np
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # of a damaged file may be said any size
path = sys.argv[1]
kind = "json" if path.endswith(".json") else "cbm"
def rows(count):
    return np.zeros((1, count))
import {library}
model, ask = {made}
ask(model)
"""


@dataclass(frozen=True)
class ModelFile:
    """A file that holds a model; `name` is the object's in a Python file, and `sha256` that of the file."""

    kind: str
    path: str
    sha256: str
    name: str = ""

    @property
    def runs_code(self) -> bool:
        """Whether reading it runs code that it holds, so that it is read only if its user names it."""
        return self.kind in (EXPORT, PYTHON)

    @property
    def spec(self) -> str:
        """As it is named on the command line."""
        return f"{self.path}:{self.name}" if self.name else self.path

    def to_dict(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ModelFile:
        parts = {key: data.get(key) for key in ("kind", "path", "sha256", "name")}
        if not all(isinstance(part, str) for part in parts.values()) or parts["kind"] not in KINDS.values():
            raise GraceError("the record of a model file is damaged: it needs kind, path, sha256 and name as text")
        return cls(**{key: str(part) for key, part in parts.items()})


def model_file(spec: str | Path) -> ModelFile:
    """What `spec` names: a file, or FILE.py:NAME. Nothing is read but its bytes, for the hash."""
    text = str(spec)
    path, name = text, ""
    if not Path(text).exists() and ".py:" in text:
        path, _, name = text.rpartition(":")
    where = Path(path)
    if not where.is_file():
        raise GraceError(f"there is no file {path!r}; give a model file, or FILE.py:NAME")
    suffix = where.suffix.lower()
    if suffix in PICKLES:
        raise GraceError(
            f"{path} may run any code when it is read; load it in a Python file of your own, and give that as "
            "FILE.py:NAME, or save the model as its library does (JSON, text, cbm, ONNX)"
        )
    if suffix not in KINDS:
        raise GraceError(f"{path}: a model file ends in {', '.join(KINDS)}; or give FILE.py:NAME")
    if suffix == ".py" and not name.isidentifier():
        raise GraceError(f"{path} holds code: name the model in it, as in {path}:model")
    check_size(where, MOST_BYTES)
    digest = hash_of_file(where)
    return ModelFile(_kind(where, KINDS[suffix]), str(where.resolve()), digest, name)


def _kind(path: Path, usual: str) -> str:
    """By the name; a JSON file that is not XGBoost's says so itself."""
    if path.suffix.lower() != ".json":
        return usual
    with path.open("rb") as stream:
        start = stream.read(1 << 16)
    if b'"learner"' in start:
        return XGBOOST
    keys = read_json(read_text(path), str(path))
    if isinstance(keys, dict) and "features_info" in keys:
        return CATBOOST
    if isinstance(keys, dict) and "learner" in keys:
        return XGBOOST
    raise GraceError(f"{path} is not a model of XGBoost or CatBoost; save it by model.save_model(...)")


def read(file: ModelFile, *, known: bool = False) -> Any:
    """The model in a file, to be wrapped; of ONNX its path. A native file that is not `known` by its hash is tried in a
    process of its own first, as the libraries' parsers end the process that hands them damaged trees."""
    readers: dict[str, Callable[[str], Any]] = {
        XGBOOST: _xgboost,
        LIGHTGBM: _lightgbm,
        CATBOOST: _catboost,
        ONNX: str,
        EXPORT: _exported,
    }
    if file.kind == PYTHON:
        return _object(Path(file.path), file.name)
    try:
        if file.kind in TRIED and not known:
            _try_out(file)
        return readers[file.kind](file.path)
    except GraceError:
        raise
    except ImportError as missing:
        extra = "onnx" if file.kind == ONNX else "catboost" if file.kind == CATBOOST else "boosting"
        raise GraceError(
            f"reading {file.path} needs {file.kind}, which is not installed: {pip_install(extra)}"
        ) from missing
    except Exception as reason:  # each library has classes of its own for a file that is wrong
        line = (str(reason).strip() or type(reason).__name__).splitlines()[0]
        raise GraceError(f"{file.path} cannot be read as {file.kind}: {line[:200]}") from reason


def _try_out(file: ModelFile) -> None:
    """Read the model and ask it about a row in another process."""
    library = TRIED[file.kind].split(".")[0]
    importlib.import_module(library)
    done = subprocess.run(
        [sys.executable, "-c", TRIAL.format(library=library, made=TRIED[file.kind]), file.path],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    if done.returncode:
        raise GraceError(f"{file.path} cannot be read as a model of {file.kind}: it is damaged, or something else")


def _xgboost(path: str) -> Any:
    import xgboost

    return xgboost.Booster(model_file=path)


def _lightgbm(path: str) -> Any:
    import lightgbm

    return lightgbm.Booster(model_file=path)


def _catboost(path: str) -> Any:
    import catboost

    return catboost.CatBoost().load_model(path, format="json" if path.endswith(".json") else "cbm")


def _exported(path: str) -> Any:
    import torch

    return torch.export.load(path).module()


def _object(path: Path, name: str) -> Any:
    """An object of a Python file, which is run; files beside it can be imported by it, and pickles of its classes found
    again."""
    title = path.stem
    if not title.isidentifier():
        raise GraceError(f"{path}: a Python file that is run needs a name such as model.py")
    known = sys.modules.get(title)
    if known is not None and Path(getattr(known, "__file__", None) or "") == path:
        module: ModuleType = known
    elif known is not None:
        raise GraceError(f"{path}: another module is called {title!r} already; rename the file")
    else:
        found = importlib.util.spec_from_file_location(title, path)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules[title] = module
        sys.path.insert(0, str(path.parent))
        try:
            found.loader.exec_module(module)
        except Exception as reason:  # whatever the user's code raises
            del sys.modules[title]
            raise GraceError(f"{path} fails when it is run: {type(reason).__name__}: {reason}") from reason
        finally:
            sys.path.remove(str(path.parent))
    if not hasattr(module, name):
        own = [n for n in vars(module) if not n.startswith("_")]
        raise GraceError(f"{path} has no {name!r}; it has {', '.join(own[:8]) or 'nothing'}")
    return getattr(module, name)
