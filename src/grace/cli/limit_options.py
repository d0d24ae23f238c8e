"""Options that limit what may change, and lists of columns as typed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from grace.cli.terminal import grouped_options
from grace.errors import GraceError

if TYPE_CHECKING:
    from grace.schema.features import Feature, Value
    from grace.schema.schema import Schema

Texts = tuple[str, ...]


@dataclass(frozen=True)
class LimitOptions:
    """The options as typed; `of` parses them for the columns of a schema."""

    frozen: Texts
    only: Texts
    protected: Texts
    increase_only: Texts
    decrease_only: Texts
    range: Texts
    cost: Texts

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def of(self, schema: Schema) -> dict[str, Any]:
        """The limits as keywords of `Explainer.explain`, without those not given. They are validated here, before a job
        starts its workers."""
        out: dict[str, Any] = {}
        for part in ("frozen", "only", "protected", "increase_only", "decrease_only"):
            given = getattr(self, part)
            if given:
                out[part] = column_list(given, schema.names, f"--{part.replace('_', '-')}")
        ranges = _pairs(self.range, schema.names, "--range", "column=low:high, or column=a|b of categories")
        if ranges:
            out["ranges"] = {name: _range(schema[name], text) for name, text in ranges.items()}
        costs = _pairs(self.cost, schema.names, "--cost", "column=2")
        if costs:
            out["costs"] = {name: _cost(name, text) for name, text in costs.items()}
        schema.constrain(**out)
        return out


LIMITS = (
    click.option("--frozen", multiple=True, metavar="COLUMNS", help="Columns that must not change: a,b or repeated."),
    click.option("--only", multiple=True, metavar="COLUMNS", help="Columns that may change, and no others."),
    click.option("--protected", multiple=True, metavar="COLUMNS", help="Further columns to protect, beside the saved."),
    click.option("--increase-only", multiple=True, metavar="COLUMNS", help="Columns that may only go up."),
    click.option("--decrease-only", multiple=True, metavar="COLUMNS", help="Columns that may only go down."),
    click.option("--range", multiple=True, metavar="COLUMN=LOW:HIGH", help="New values; of categories COLUMN=A|B."),
    click.option("--cost", multiple=True, metavar="COLUMN=COST", help="What a change of one spread costs; 1 is usual."),
)

limit_options = grouped_options("limits", [f.name for f in fields(LimitOptions)], LimitOptions, *LIMITS)


def column_list(given: Iterable[str], known: Sequence[str], option: str) -> list[str]:
    """Columns given by repeated options or separated by commas; a name that contains a comma has to be given alone."""
    names = [n for text in given for n in ([text] if text in known else map(str.strip, text.split(","))) if n]
    if not names:
        raise click.BadParameter(f"{option}: name at least one column")
    return list(dict.fromkeys(names))


def _pairs(given: Iterable[str], known: Sequence[str], option: str, form: str) -> dict[str, str]:
    """Pairs column=value, repeated or separated by commas; names may contain "=", values commas."""
    from grace.schema.frames import join_first

    out: dict[str, str] = {}
    for text in given:
        starts = [0, *(i + 1 for i, c in enumerate(text) if c == "," and _split(text[i + 1 :], known) is not None)]
        for start, end in zip(starts, [*(b - 1 for b in starts[1:]), len(text)], strict=True):
            pair = _split(text[start:end], known)
            if pair is None:
                raise GraceError(f"{option} {text[start:end]!r}: write it as {form}; columns: {join_first(known)}")
            name, value = pair
            if name in out:
                raise GraceError(f"{option}: column {name!r} is given twice")
            out[name] = value
    return out


def _split(pair: str, known: Sequence[str]) -> tuple[str, str] | None:
    """Split at the first "=" that follows a known column."""
    for i in (i for i, c in enumerate(pair) if c == "="):
        name = next((n for n in (pair[:i], pair[:i].strip()) if n in known), None)
        if name is not None:
            return name, pair[i + 1 :].strip()
    return None


def _range(feature: Feature, text: str) -> list[Value | None]:
    """[low, high] with None for an omitted end, or the allowed categories."""
    from grace.schema.features import Categorical
    from grace.web.rows import parse_cell

    if isinstance(feature, Categorical):
        is_category = any(str(c) == text for c in feature.categories)
        return [parse_cell(feature, part.strip()) for part in ([text] if is_category else text.split("|"))]
    what = f"--range {feature.name}={text}"
    ranges: list[list[Value | None]] = []
    error = GraceError(f"{what}: write it as {feature.name}=low:high; either end may be left out")
    for i in (i for i, c in enumerate(text) if c == ":"):  # times contain colons too
        try:
            ends = (text[:i].strip(), text[i + 1 :].strip())
            ranges.append([parse_cell(feature, end) if end else None for end in ends])
        except GraceError as reason:
            error = reason
    if not ranges:
        raise error
    if len(ranges) > 1:
        raise GraceError(f"{what}: it can be read in several ways; write times with seconds, as in 2020-12-31 10:00:00")
    if ranges[0] == [None, None]:
        raise GraceError(f"{what}: give at least one end of the range")
    return ranges[0]


def _cost(name: str, text: str) -> float:
    try:
        cost = float(text)
    except ValueError:
        cost = math.nan
    if not 0 < cost < math.inf:
        raise GraceError(f"--cost {name}={text}: give a positive number, as in {name}=2")
    return cost
