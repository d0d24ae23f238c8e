"""Creates a study: chooses rows and explains them by both methods."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grace import datasets, training
from grace.errors import GraceError
from grace.explain import store
from grace.explain.explainer import Explainer
from grace.explain.explanation import Explanation
from grace.pictures import svg
from grace.schema.features import Value
from grace.study.design import DESIGN, METHODS, MINUTES, MODEL, RESPONSES, TASKS, Account, Arm, Item, Study
from grace.study.lime import WIDTH, Lime, LimeExplanation
from grace.study.store import Store

BESIDE_PICTURE = 2  # features in LIME's text beside a picture, as in the paper
PICTURES = {"no": (False,), "yes": (True,), "both": (False, True)}
TITLES = {"rate": "How clear is this explanation?", "adjust": "Can you change the computer's mind?"}


def embedded(name: str, seed: int = 0) -> tuple[Explainer, pd.DataFrame]:
    """An explainer for an embedded table, and test rows. For cancer95, the only row is the patient of the paper's
    studies."""
    table = datasets.load(name)
    frame = table.frame
    patient = datasets.is_case_study(frame) if name == "cancer95" else np.zeros(len(frame), dtype=bool)
    parts = datasets.split(frame[~patient], table.target, seed)
    recipe = training.RECIPES.get(name, training.Recipe())
    declared = training.with_categories(table.declared, frame, parts.train, table.target)
    model = training.fit(parts.train, schema=declared, recipe=recipe, validation=parts.validation, seed=seed)
    rows = frame[patient].head(1) if patient.any() else parts.test
    return Explainer(model, parts.train, seed=seed), model.impute(rows).drop(columns=table.target)


def make(
    explainer: Explainer,
    rows: pd.DataFrame,
    *,
    task: str,
    source: str,
    items: int = 1,
    pictures: str = "no",
    seed: int = 0,
    min_minutes: float | None = None,
    title: str = "",
    contact: str = "",
    consent: str = "",
    **settings: Any,
) -> Study:
    """A study of `items` random rows that GRACE can explain. `settings` are arguments of `Explainer.explain`."""
    if task not in TASKS:
        raise GraceError(f"task {task!r} is unknown; use {' or '.join(TASKS)}")
    if pictures not in PICTURES:
        raise GraceError(f"pictures={pictures!r} is unknown; use {', '.join(PICTURES)}")
    if not 1 <= items <= len(rows):
        raise GraceError(f"items={items}: there are {len(rows)} rows to choose from")
    order = np.random.default_rng(seed).permutation(len(rows)) if items < len(rows) else np.arange(len(rows))
    chosen: list[Item] = []
    schema = explainer.schema
    lime = Lime(explainer, seed=seed)
    for i in order:
        row = rows.iloc[[i]]
        batch = explainer.explain(row, **settings)
        e = batch[0]
        if e.success:
            schema = batch.schema  # with the call's ranges, so that participants can enter GRACE's values
            chosen.append(_item(e, lime.explain(row, label=e.original_class)[0]))
        if len(chosen) == items:
            break
    else:
        raise GraceError(f"only {len(chosen)} of {len(rows)} rows could be explained; ask for fewer items")
    return Study(
        task=task,
        source=source,
        seed=seed,
        schema=replace(schema, classes=explainer.model.classes),
        arms=tuple(Arm(method, picture) for picture in PICTURES[pictures] for method in METHODS),
        items=tuple(chosen),
        min_minutes=MINUTES[task] if min_minutes is None else min_minutes,
        title=title or TITLES[task],
        contact=contact,
        consent=consent,
    )


def _item(e: Explanation, lime_explanation: LimeExplanation) -> Item:
    accounts = {
        "grace": Account(e.text(), e.text(), svg(e, width=WIDTH)),
        "lime": Account(lime_explanation.text(), lime_explanation.text(BESIDE_PICTURE), lime_explanation.picture()),
    }
    row: dict[str, Value] = dict(e.row)
    return Item(row, e.original_class, e.probability(e.original_class) if e.sure else None, accounts)


def write(study: Study, explainer: Explainer, directory: str | Path) -> None:
    """Write a new study atomically; existing studies are never overwritten."""
    target = Path(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise GraceError(f"{target} exists and is not empty; choose another directory, so that no answers are lost")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            (fresh / DESIGN).write_text(study.to_json(), encoding="utf-8")
            store.save(explainer, fresh / MODEL, background=False)
            if study.task == "adjust":
                _check_loadable(fresh / MODEL)
            Store(fresh / RESPONSES).create()
            fresh.rename(target)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    except OSError as reason:
        raise GraceError(f"{target} cannot be written: {reason.strerror}") from reason


def _check_loadable(directory: Path) -> None:
    try:
        store.load(directory)
    except GraceError as reason:
        raise GraceError("task adjust needs a network trained by grace; a wrapped module cannot be served") from reason


def named_rows(frame: pd.DataFrame, numbers: Sequence[int], path: str) -> pd.DataFrame:
    """Rows of a table by number."""
    for number in numbers:
        if not 0 <= number < len(frame):
            raise GraceError(f"--row {number}: {path} has rows 0 to {len(frame) - 1}")
    return frame.iloc[list(numbers)]
