"""Benchmarks: methods of GRACE, other libraries and the caller on the same models and rows, with the same measures."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grace
from grace import datasets
from grace.datasets import Table
from grace.errors import GraceError
from grace.experiments import functions, peers
from grace.experiments.evaluate import Judge, figures
from grace.experiments.results import Line, Results
from grace.experiments.task import Answers, Method, Task, network_of, prepare
from grace.methods import METHODS
from grace.models.torch import TorchModel
from grace.schema.domains import Domain
from grace.schema.files import write_text

RETRAINED = 5
OWN = tuple(METHODS)
Tell = Callable[[str], None]


def benchmark(
    data: Sequence[str | Table] = ("diabetes",),
    *,
    methods: Mapping[str, Method] | None = None,
    own: Sequence[str] = OWN,
    peers: Sequence[str] = (),
    domains: Sequence[Domain] = ("central",),
    rows: int = 100,
    seed: int = 0,
    max_features: int = 5,
    gamma: float = 0.5,
    time_limit: float = 10.0,
    retrained: int = RETRAINED,
    out: str | Path | None = None,
    environments: str | Path = ".venv-peers",
    tell: Tell = lambda _: None,
) -> Results:
    """Run every method on the same rows of the same networks, and compute the same measures of their answers.

    `methods` are your functions by name, `own` methods of GRACE, `peers` those of other libraries (`dice`,
    `nice-sparsity`, ...) or `path/to/file.py:function`. With `out`, answers are cached in that folder. `tell` is called
    with a line about each step.
    """
    if rows < 1:
        raise GraceError(f"rows={rows}: it must be at least 1")
    if not time_limit > 0:
        raise GraceError(f"time_limit={time_limit}: it must be positive")
    limits: dict[str, Any] = {"max_features": max_features, "gamma": gamma, "time_limit": time_limit}
    contestants = _contestants(methods or {}, own, peers, Path(environments))
    tables = [datasets.load(d) if isinstance(d, str) else d for d in data]
    cache = None if out is None else Path(out) / "answers"
    lines: list[Line] = []
    for table in tables:
        tell(f"{table.name}: training")
        others = [network_of(table, seed, seed + 1 + k) for k in range(retrained)]
        for domain in domains:
            task = prepare(table, domain=domain, rows=rows, seed=seed, **limits)
            lines += _lines(task, others, contestants, cache, tell)
    return Results(lines)


def compare(
    tasks: Iterable[Task],
    *,
    methods: Mapping[str, Method] | None = None,
    own: Sequence[str] = OWN,
    peers: Sequence[str] = (),
    out: str | Path | None = None,
    environments: str | Path = ".venv-peers",
    tell: Tell = lambda _: None,
) -> Results:
    """The same for given tasks, about any model (see `task_of`)."""
    contestants = _contestants(methods or {}, own, peers, Path(environments))
    cache = None if out is None else Path(out) / "answers"
    return Results([line for task in tasks for line in _lines(task, [], contestants, cache, tell)])


def _lines(
    task: Task, retrained: list[TorchModel], contestants: list[Contestant], cache: Path | None, tell: Tell
) -> Iterator[Line]:
    judge = Judge(task, retrained)
    for contestant in contestants:
        tell(f"{task.name}, {task.domain}: {contestant.name}")
        yield _line(task, judge, contestant, cache)


@dataclass(frozen=True)
class Contestant:
    """A method of a benchmark; `ours` if it is one of GRACE. Cached answers are valid for the same `fingerprint` of its
    code; without one, they are not cached."""

    name: str
    ask: Callable[[Task], Answers]
    ours: bool = False
    fingerprint: str | None = None


def _contestants(
    methods: Mapping[str, Method], own: Sequence[str], names: Sequence[str], environments: Path
) -> list[Contestant]:
    for name in own:
        if name not in OWN:
            raise GraceError(f"there is no method {name!r}; there are {', '.join(OWN)}")
    out = [Contestant(n, partial(functions.call, functions.grace_method(n)), True, _source_hash()) for n in own]
    for name in filter(functions.is_in_file, names):
        path, _, function = name.rpartition(":")
        if not Path(path).is_file():
            raise GraceError(f"{name}: there is no file {path}")
        content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        out.append(Contestant(function, partial(functions.call_file, name), fingerprint=content))
    for peer in peers.find([n for n in names if not functions.is_in_file(n)]):
        ask = partial(peer.ask, environments=environments)
        out.append(Contestant(peer.name, ask, fingerprint=peer.fingerprint()))
    out += [Contestant(name, partial(functions.call, method)) for name, method in methods.items()]
    if len({c.name for c in out}) < len(out):
        raise GraceError(f"two methods have the same name among {', '.join(c.name for c in out)}; rename one")
    return out


def _line(task: Task, judge: Judge, contestant: Contestant, cache: Path | None) -> Line:
    """The measures of one method on one task, or the error of a method that fails."""
    head = {"data": task.name, "domain": task.domain, "seed": task.seed, "method": contestant.name}
    try:
        answers = _answers(task, contestant, cache)
        verdict = judge.verdict(answers)
    except Exception as reason:  # the failure of a method is a result
        error = str(reason) if isinstance(reason, GraceError) else f"{type(reason).__name__}: {reason}"
        return Line(head, contestant.ours, len(task.rows), failed=" ".join(error.split())[:300])
    return Line(head, contestant.ours, len(verdict.valid), figures(verdict, answers), verdict, note=answers.note)


def _answers(task: Task, contestant: Contestant, cache: Path | None) -> Answers:
    """The answers of a method to a task, from the cache if it has them for the same task, code and machine."""
    if cache is None or contestant.fingerprint is None:
        return contestant.ask(task)
    cache.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^\w.-]+", "_", f"{task.name}-{task.domain}-{task.seed}-{contestant.name}")
    file = cache / f"{slug}.json"
    parts = (task.fingerprint(), contestant.fingerprint, *platform.uname())
    mark = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["mark"] == mark:
            return Answers.from_dict(data, task.rows.shape[1])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing or damaged
    answers = contestant.ask(task)
    write_text(file, json.dumps({"mark": mark, **answers.to_dict()}))
    return answers


def _source_hash() -> str:
    """A hash of the source code of GRACE."""
    digest = hashlib.sha256()
    for file in sorted(Path(grace.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
