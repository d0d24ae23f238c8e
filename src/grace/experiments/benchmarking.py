"""A benchmark: GRACE's methods, its peers and your own, on the same networks and rows, judged alike."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grace
from grace import datasets
from grace.datasets import Table
from grace.errors import GraceError
from grace.experiments import functions, peers
from grace.experiments.evaluate import Judge, figures
from grace.experiments.peers import Peer
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
    """Ask every method about the same rows of the same networks, and judge their answers alike.

    `methods` are functions of your own by name, `own` are GRACE's, `peers` are names of other libraries'
    (`dice`, `nice-sparsity`, ...) or `path/to/file.py:function`. With `out`, answers are kept in that
    directory as they come, and what is there already is not asked again.
    """
    if rows < 1:
        raise GraceError(f"rows={rows}: it must be at least 1")
    if not time_limit > 0:
        raise GraceError(f"time_limit={time_limit}: it must be positive")
    asked = _contestants(methods or {}, own, peers, Path(environments))
    tables = [datasets.load(d) if isinstance(d, str) else d for d in data]
    keep = None if out is None else Path(out) / "answers"
    lines: list[Line] = []
    for table in tables:
        tell(f"{table.name}: training")
        others = [network_of(table, seed, seed + 1 + k) for k in range(retrained)]
        for domain in domains:
            task = prepare(
                table,
                domain=domain,
                rows=rows,
                seed=seed,
                max_features=max_features,
                gamma=gamma,
                time_limit=time_limit,
            )
            lines += _contest(task, others, asked, keep, tell)
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
    """The same for tasks of your own, about any model (see `subjects.task_of`)."""
    asked = _contestants(methods or {}, own, peers, Path(environments))
    keep = None if out is None else Path(out) / "answers"
    return Results([line for task in tasks for line in _contest(task, [], asked, keep, tell)])


def _contest(
    task: Task, retrained: list[TorchModel], asked: list[Contestant], keep: Path | None, tell: Tell
) -> list[Line]:
    judge = Judge(task, retrained)
    lines = []
    for contestant in asked:
        tell(f"{task.name}, {task.domain}: {contestant.name}")
        lines.append(_line(task, judge, contestant, keep))
    return lines


@dataclass(frozen=True)
class Contestant:
    """A method by name: how it is asked, whether it is GRACE's, and what would make kept answers stale."""

    name: str
    ask: Callable[[Task], Answers]
    ours: bool = False
    mark: str | None = None


def _contestants(
    methods: Mapping[str, Method], own: Sequence[str], names: Sequence[str], environments: Path
) -> list[Contestant]:
    for name in own:
        if name not in OWN:
            raise GraceError(f"there is no method {name!r}; there are {', '.join(OWN)}")
    found = [Contestant(n, _function(functions.own(n)), ours=True, mark=_source()) for n in own]
    for place in filter(functions.is_place, names):
        path, _, function = place.rpartition(":")
        if not Path(path).is_file():
            raise GraceError(f"{place}: there is no file {path}")
        mark = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        found.append(Contestant(function, _file(place), mark=mark))
    for peer in peers.find([n for n in names if not functions.is_place(n)]):
        found.append(Contestant(peer.name, _peer(peer, environments), mark=peer.fingerprint()))
    found += [Contestant(name, _function(method)) for name, method in methods.items()]
    if len({c.name for c in found}) < len(found):
        raise GraceError(f"two methods have the same name among {', '.join(c.name for c in found)}; rename one")
    return found


def _function(method: Method) -> Callable[[Task], Answers]:
    return lambda task: functions.call(method, task)


def _file(place: str) -> Callable[[Task], Answers]:
    return lambda task: functions.call_file(place, task)


def _peer(peer: Peer, environments: Path) -> Callable[[Task], Answers]:
    return lambda task: peer.ask(task, environments)


def _line(task: Task, judge: Judge, contestant: Contestant, keep: Path | None) -> Line:
    """The figures of one method on one task; a method that fails is a line with the reason."""
    head = {"data": task.name, "domain": task.domain, "seed": task.seed, "method": contestant.name}
    try:
        answers = _answers(task, contestant, keep)
        verdict = judge.verdict(answers)
    except Exception as reason:  # a peer's failure is a result
        said = str(reason) if isinstance(reason, GraceError) else f"{type(reason).__name__}: {reason}"
        return Line(head, contestant.ours, len(task.rows), failed=" ".join(said.split())[:300])
    return Line(head, contestant.ours, len(verdict.valid), figures(verdict, answers), verdict, note=answers.note)


def _answers(task: Task, contestant: Contestant, keep: Path | None) -> Answers:
    """The answers, from the directory if they are there for this very question."""
    if keep is None or contestant.mark is None:
        return contestant.ask(task)
    keep.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^\w.-]+", "_", f"{task.name}-{task.domain}-{task.seed}-{contestant.name}")
    file = keep / f"{slug}.json"
    mark = hashlib.sha256("\n".join((task.fingerprint(), contestant.mark, *platform.uname())).encode()).hexdigest()
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["mark"] == mark:
            return Answers.from_dict(kept, task.rows.shape[1])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or damaged: ask
    answers = contestant.ask(task)
    write_text(file, json.dumps({"mark": mark, **answers.to_dict()}))
    return answers


def _source() -> str:
    """Changes with GRACE's own source."""
    digest = hashlib.sha256()
    for file in sorted(Path(grace.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
