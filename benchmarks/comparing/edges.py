"""What else there is to do with an explainer, what is refused, and what can be imported."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import grace
from comparing.answers import Case, kept, sha
from comparing.models import World, table

DOCUMENTED = (
    "grace.audit_record: record replay",
    "grace.experiments: Task benchmark compare task_of",
    "grace.lime: Lime",
    "grace.pictures: STYLE svg svg_columns",
    "grace.study: design making",
    "grace.study.analysis: analyse",
    "grace.study.figure: draw",
    "grace.study.planning: plan",
    "grace.study.responses: Response to_csv",
    "grace.web.pages: create_app",
    "grace.web.served: Served",
)  # what the documentation imports beside `grace`


def around(world: World) -> Iterator[Case]:
    """What else there is to do with an explainer and with answers."""
    explainer, rows = world.explainer, world.rows
    first = rows.iloc[0]

    def answered(given: Any, **how: Any) -> dict[str, Any]:
        return kept(explainer.explain(given, **how))

    def saved(background: bool) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            explainer.save(folder, background=background)
            files = {p.name: sha(p.read_bytes()) for p in sorted(Path(folder).iterdir())}
            head = json.loads((Path(folder) / "grace.json").read_text(encoding="utf-8"))
            return {"files": files, "head": head, **kept(grace.load(folder).explain(rows))}

    def measures() -> dict[str, Any]:
        batch = explainer.explain(rows)
        again = [grace.Explanation.from_json(e.to_json(backdrop=True)) for e in batch]
        return {
            "validity": [repr(v) for v in batch.validity(world.others)],
            "plausibility": [repr(v) for v in batch.plausibility()],
            "raw": {k: repr(v) for k, v in batch.metrics(raw=True).to_dict().items()},
            "read back": [e == f for e, f in zip(batch, again, strict=True)],
            "drawn from JSON": [sha(e.to_svg()) for e in again],
            "depends": [[d.feature, repr(d.r2)] for d in explainer.dependence()],
            "schema": json.loads(explainer.schema.to_json()),
            "printed": [repr(explainer), repr(explainer.schema)],
        }

    def suggested() -> dict[str, Any]:
        train = table("magic")[0]
        return {"rules": [str(s) for s in grace.rules.suggest(grace.Schema.infer(train), train)]}

    for what, given in {"dict": dict(first), "Series": first, "array": rows.to_numpy(), "list": [dict(first)]}.items():
        yield Case(f"around: rows as {what}", partial(answered, given))
    yield Case("around: rows with an id", partial(answered, rows.assign(customer=range(len(rows))), n=2))
    yield Case("around: a missing cell", partial(answered, rows.assign(age=np.nan), missing="fill"))
    yield Case("around: out of its range", partial(answered, rows.assign(age=300)))
    yield Case("around: saved", partial(saved, background=True))
    yield Case("around: saved without rows", partial(saved, background=False))
    yield Case("around: measures", measures)
    yield Case("around: suggested rules", suggested)


def misuses(world: World) -> Iterator[Case]:
    """What is refused, and in which words."""
    explainer, rows = world.explainer, world.rows
    calls: list[dict[str, Any]] = [
        {"method": "fastest"},
        {"max_features": 0},
        {"gamma": 2},
        {"confidence": 1.5},
        {"domain": "wide"},
        {"speed": 3},
        {"against": "healthy"},
        {"against": ["tested_negative"]},
        {"against": grace.above(3)},
        {"frozen": ["height"]},
        {"only": []},
        {"increase_only": ["age"], "decrease_only": ["age"]},
        {"ranges": {"age": (50, 20)}},
        {"costs": {"age": -1}},
        {"rules": ["age <="]},
        {"rules": ["age <= height"]},
        {"rules": ["pregnancies <= age"], "method": "gradient"},
        {"protected": ["age"], "method": "nearest"},
        {"among": "steady", "prefer": "nearest"},
        {"follow": ["height"]},
        {"memory": "much"},
        {"n": "two"},
        {"robust": [3]},
    ]
    for how in calls:
        yield Case(f"refused: {how}", partial(tried, partial(explainer.explain, rows, **how)))
    wrong: dict[str, Callable[[], Any]] = {
        "a column that is missing": lambda: explainer.explain(rows.drop(columns="age")),
        "a cell that is missing": lambda: explainer.explain(rows.assign(age=np.nan)),
        "a word for a number": lambda: explainer.explain(rows.assign(age="old")),
        "no rows": lambda: explainer.explain(rows.head(0)),
        "too few columns": lambda: explainer.explain(rows.to_numpy()[:, 1:]),
        "no table": lambda: grace.datasets.load("iris"),
        "no target": lambda: grace.training.fit(rows),
        "no schema": lambda: grace.Explainer(explainer.model.predict),
        "no folder": lambda: grace.load("nowhere"),
        "by nothing": lambda: grace.by(0),
        "within the wrong way": lambda: grace.within(3, 1),
        "a probability of no class": lambda: explainer.explain(rows)[0].probability("healthy"),
        "a style that there is not": lambda: explainer.explain(rows)[0].text("loud"),
        "a language that there is not": lambda: explainer.explain(rows)[0].text(language="xx"),
    }
    for name, call in wrong.items():
        yield Case(f"refused: {name}", partial(tried, call))


def tried(call: Callable[[], Any]) -> dict[str, Any]:
    return {"came back": type(call()).__name__}


def public_names() -> dict[str, Any]:
    """What can be imported, and how it is called."""
    found: dict[str, Any] = {"version": grace.__version__, "names": sorted(grace.__all__)}
    for name in sorted(grace.__all__):
        thing = getattr(grace, name)
        members = {name: thing} if callable(thing) else {}
        members |= {f"{name}.{k}": v for k, v in vars(thing).items() if inspect.isfunction(v) and k[0] != "_"}
        for said, member in members.items():
            parameters = inspect.signature(member).parameters.values()
            found[said] = [f"{p.kind.description} {p.name} {p.default!r}".split(" at 0x")[0] for p in parameters]
    for line in DOCUMENTED:
        module, _, names = line.partition(": ")
        for name in names.split():
            try:
                found[f"{module}.{name}"] = callable(getattr(import_module(module), name))
            except (ImportError, AttributeError) as reason:
                found[f"{module}.{name}"] = type(reason).__name__
    return found
