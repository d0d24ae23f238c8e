"""Answers as a CSV table, one line each."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from grace.errors import GraceError
from grace.schema.files import escape_formula, unescape_formula
from grace.study.design import METHODS, MINUTES, RESPONSES, load
from grace.study.store import Store, completion_code

BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True, kw_only=True)
class Response:
    """One answer, pseudonymous. None for what was not asked."""

    participant: str
    study: str = ""
    task: str = ""
    method: str
    picture: bool | None = None
    item: int | None = None
    minutes: float | None = None
    min_minutes: float | None = None
    attention: bool | None = None
    intuitive: float | None = None
    comprehensible: float | None = None
    correct: bool | None = None
    predicted: str = ""
    adjusted: str = ""


COLUMNS = [f.name for f in fields(Response)]


def responses_of(directory: str | Path) -> list[Response]:
    """The answers of a study, in order of arrival."""
    study = load(directory)
    out = []
    for participant in Store(Path(directory) / RESPONSES).participants():
        if participant.answer is None or participant.submitted is None:
            continue
        if not 0 <= participant.arm < len(study.arms):
            raise GraceError(f"{directory}: an answer is of arm {participant.arm}, and the study has {len(study.arms)}")
        answer, arm = participant.answer, study.arms[participant.arm]
        out.append(
            Response(
                participant=completion_code(participant.token),
                study=study.name,
                task=study.task,
                method=arm.method,
                picture=arm.picture,
                item=participant.item,
                minutes=(participant.submitted - participant.started) / 60,
                min_minutes=study.min_minutes,
                **{key: getattr(answer, key) for key in ("attention", "intuitive", "comprehensible", "correct")},
                predicted=answer.predicted or "",
                adjusted="" if answer.adjusted is None else json.dumps(dict(answer.adjusted), ensure_ascii=False),
            )
        )
    return out


def to_csv(responses: Iterable[Response]) -> str:
    """The answers as CSV; empty cells for what was not asked."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for response in responses:
        writer.writerow([_cell(getattr(response, column)) for column in COLUMNS])
    return out.getvalue()


def read_csv(path: str | Path) -> list[Response]:
    """Read answers from CSV. Required columns: `method`, and ratings (`intuitive`, `comprehensible`) or `correct`."""
    try:
        lines = list(csv.reader(Path(path).read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise GraceError(f"{path} cannot be read as a table of answers: {reason}") from reason
    if not lines:
        raise GraceError(f"{path} is empty")
    head = [name.strip() for name in lines[0]]
    for name in head:
        if name not in COLUMNS:
            raise GraceError(f"{path}: unknown column {name!r}; there may be {', '.join(COLUMNS)}")
    if "method" not in head:
        raise GraceError(f"{path} has no column 'method', which says {' or '.join(METHODS)}")
    out = []
    for number, line in enumerate(lines[1:], start=2):
        if not any(cell.strip() for cell in line):
            continue
        if len(line) != len(head):
            raise GraceError(f"{path}, line {number}: {len(line)} cells, but there are {len(head)} columns")
        cells = dict(zip(head, (unescape_formula(cell.strip()) for cell in line), strict=True))
        try:
            out.append(_response(cells, number))
        except ValueError as reason:
            raise GraceError(f"{path}, line {number}: {reason}") from reason
    return out


def _response(cells: dict[str, str], number: int) -> Response:
    def number_in(name: str, low: float, high: float) -> float | None:
        if not cells.get(name):
            return None
        try:
            value = float(cells[name])
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ValueError(f"{name} is {cells[name]!r}; it must be a number from {low:g} to {high:g}")
        return value

    def boolean(name: str) -> bool | None:
        if not cells.get(name):
            return None
        if cells[name].lower() not in BOOLEANS:
            raise ValueError(f"{name} is {cells[name]!r}; it must be yes or no")
        return BOOLEANS[cells[name].lower()]

    method = cells["method"].lower()
    if method not in METHODS:
        raise ValueError(f"method is {cells['method']!r}; it must be {' or '.join(METHODS)}")
    task = cells.get("task") or ("adjust" if cells.get("correct") else "rate")
    if task not in MINUTES:
        raise ValueError(f"task is {task!r}; it must be {' or '.join(MINUTES)}")
    item = number_in("item", 0, 1e9)
    return Response(
        participant=cells.get("participant") or f"line {number}",
        study=cells.get("study", ""),
        task=task,
        method=method,
        picture=boolean("picture"),
        item=None if item is None else int(item),
        minutes=number_in("minutes", 0, 1e9),
        min_minutes=number_in("min_minutes", 0, 1e9),
        attention=boolean("attention"),
        intuitive=number_in("intuitive", 1, 10),
        comprehensible=number_in("comprehensible", 1, 10),
        correct=boolean("correct"),
        predicted=cells.get("predicted", ""),
        adjusted=cells.get("adjusted", ""),
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(escape_formula(value))
