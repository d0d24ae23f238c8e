"""Damaged and hostile files: each is refused by one line, or read and then answered from like any other."""

from __future__ import annotations

import json
import resource
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import pytest

import grace
from grace import GraceError
from grace.scale.job_folder import JobFolder
from grace.schema.schema import Schema
from grace.study.design import Study
from hostile import mutated_json, mutated_safetensors
from hostile_onnx import mutated_onnx
from saved_folder import asked, explainer, folder, rows

QUICK, MANY = 40, 625  # mutations of each kind of file, in make test and beyond it in make test-all
LONGEST = 2000  # characters of a line
SLOWEST = 20.0  # seconds for any file, on a busy machine
LARGEST = 1_500_000  # kilobytes that the process may grow by


@dataclass(frozen=True)
class Kind:
    """A kind of file: a mutation of it by seed, and what is done with it."""

    name: str
    mutated: Callable[[Random], bytes]
    use: Callable[[bytes], Any]


def with_file(name: str) -> Callable[[bytes], None]:
    def use(data: bytes) -> None:
        here = Path(mkdtemp(prefix="hostile-"))
        try:
            for path in folder().iterdir():
                (here / path.name).write_bytes(data if path.name == name else path.read_bytes())
            asked(grace.load(here))
        finally:
            shutil.rmtree(here)

    return use


def votes(frame: pd.DataFrame) -> Any:
    """Probabilities of two classes for rows of any columns."""
    numbers = frame.apply(lambda column: pd.to_numeric(pd.Series(pd.factorize(column)[0])), axis=0)
    share = 1 / (1 + np.exp(-np.clip(numbers.to_numpy(dtype=float).sum(axis=1) - 100, -30, 30) / 50))
    return np.stack([1 - share, share], axis=1)


def use_schema(data: bytes) -> None:
    schema = Schema.from_json(data.decode("utf-8", "replace"))
    schema.to_json()
    found = grace.Explainer(grace.wrap(votes, classes=["no", "yes"]), schema=schema, gamma=1.0)
    row = schema.decode(schema.project(np.zeros((1, len(schema)))))
    found.explain(row, max_calls=2000)[0].to_json()


@cache
def explanation() -> dict[str, Any]:
    frame = rows(8).drop(columns="verdict")
    e = explainer().explain(frame, n=2, prove=True, budget=0.2, rules=())[5]
    assert e.success
    return dict(json.loads(e.to_json(backdrop=True)))


@cache
def miss() -> dict[str, Any]:
    frame = rows(8).drop(columns="verdict")
    e = explainer().explain(frame, frozen=["a", "b"], max_features=1, prove=True, rules=())[5]
    assert not e.success
    return dict(json.loads(e.to_json()))


def use_explanation(data: bytes) -> None:
    e = grace.Explanation.from_json(data.decode("utf-8", "replace"))
    for template in (None, "because", "typical"):
        e.text(template=template, seed=1, hedge=e.sure)
    e.text(style="auto", language="de")
    for written in (e.to_json(), e.to_html(), repr(e), e.reason, *e.notes):
        written.encode()


@cache
def studies() -> dict[str, Any]:
    from studies import study

    return dict(json.loads(study("adjust", pictures="both").to_json()))


def use_study(data: bytes) -> None:
    here = Path(mkdtemp(prefix="hostile-"))
    try:
        from grace.study.design import load

        (here / "study.json").write_bytes(data)
        found = load(here)
        assert isinstance(found, Study)
        for arm in range(len(found.arms)):
            for item in range(len(found.items)):
                found.shown(arm, item)
        found.name.encode()
    finally:
        shutil.rmtree(here)


ABOUT = {"input": "0" * 64, "explainer": "1" * 64, "question": {"settings": {}, "impute": False, "text": None}}
MANIFEST = {
    "format": 2,
    **ABOUT,
    "part_rows": 100,
    "done": {"explained": 3, "not_explained": 0, "set_aside": 0, "rejects": None, "parts": {}},
}


def use_manifest(data: bytes) -> None:
    here = Path(mkdtemp(prefix="hostile-"))
    try:
        (here / "manifest.json").write_bytes(data)
        place = JobFolder(here)
        assert place.manifest() is not None
        place.begin({**ABOUT, "part_rows": 100}, [])
    finally:
        shutil.rmtree(here)


def use_onnx(data: bytes) -> None:
    here = Path(mkdtemp(prefix="hostile-"))
    try:
        (here / "m.onnx").write_bytes(data)
        box = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "c"])
        found = grace.Explainer(grace.wrap(here / "m.onnx", classes=["no", "yes"]), box, gamma=1.0)
        found.explain(box.head(1))[0].to_json()
    finally:
        shutil.rmtree(here)


KINDS = (
    Kind("schema", lambda rng: mutated_json(json.loads(explainer().schema.to_json()), rng), use_schema),
    Kind(
        "grace.json",
        lambda rng: mutated_json(json.loads((folder() / "grace.json").read_text()), rng),
        with_file("grace.json"),
    ),
    Kind(
        "weights.safetensors",
        lambda rng: mutated_safetensors((folder() / "weights.safetensors").read_bytes(), rng),
        with_file("weights.safetensors"),
    ),
    Kind(
        "training.safetensors",
        lambda rng: mutated_safetensors((folder() / "training.safetensors").read_bytes(), rng),
        with_file("training.safetensors"),
    ),
    Kind(
        "explanation", lambda rng: mutated_json((explanation if rng.random() < 0.7 else miss)(), rng), use_explanation
    ),
    Kind("study", lambda rng: mutated_json(studies(), rng), use_study),
    Kind("manifest", lambda rng: mutated_json(MANIFEST, rng), use_manifest),
    Kind("onnx", mutated_onnx, use_onnx),
)


def outcome(kind: Kind, seed: int) -> str:
    """ "answered", "refused", or what went wrong with the file of a seed."""
    data = kind.mutated(Random(f"{kind.name} {seed}"))
    begun = time.monotonic()
    try:
        with warnings.catch_warnings(action="ignore"):
            kind.use(data)
        found = "answered"
    except GraceError as refusal:
        line = str(refusal)
        found = "refused" if "\n" not in line and len(line) <= LONGEST else f"not one line: {line[:200]!r}"
    except (Exception, RecursionError) as error:
        found = f"{type(error).__name__}: {str(error)[:200]}"
    spent = time.monotonic() - begun
    return found if spent < SLOWEST else f"{found}, after {spent:.0f} s"


def check(kind: Kind, seeds: range) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {seed: outcome(kind, seed) for seed in seeds}
    wrong = {seed: said for seed, said in found.items() if said not in ("answered", "refused")}
    assert not wrong, f"{len(wrong)} of {len(found)} files of kind {kind.name}: {wrong}"
    assert {"answered", "refused"} <= set(found.values())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < LARGEST


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_some_hostile_files(kind: Kind) -> None:
    check(kind, range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_many_hostile_files(kind: Kind) -> None:
    check(kind, range(QUICK, MANY))
