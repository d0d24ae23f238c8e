"""Options of the command that limit what may change, and lists of columns as people type them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from grace.errors import GraceError

if TYPE_CHECKING:
    from grace.schema.features import Feature, Value
    from grace.schema.schema import Schema

Texts = tuple[str, ...]


@dataclass(frozen=True)
class GivenLimits:
    """What was typed; `of` is what it means for the columns of a table."""

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
        """The limits as `Explainer.explain` takes them, in plain values; those that were not given are left out. What
        is wrong with them is an error at once, before a job starts its workers."""
        out: dict[str, Any] = {}
        for part in ("frozen", "only", "protected", "increase_only", "decrease_only"):
            given = getattr(self, part)
            if given:
                out[part] = column_list(given, schema.names, f"--{part.replace('_', '-')}")
        ranges = _assigned(self.range, schema.names, "--range", "column=low:high, or column=a|b of categories")
        if ranges:
            out["ranges"] = {name: _span(schema[name], said) for name, said in ranges.items()}
        costs = _assigned(self.cost, schema.names, "--cost", "column=2")
        if costs:
            out["costs"] = {name: _cost(name, said) for name, said in costs.items()}
        schema.constrain(**out)
        return out


def limit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options that limit what may change, given to the command as `limits`."""

    @click.option("--frozen", multiple=True, metavar="COLUMNS", help="Columns that must not change: a,b or repeated.")
    @click.option("--only", multiple=True, metavar="COLUMNS", help="Columns that may change, and no others.")
    @click.option("--protected", multiple=True, metavar="COLUMNS", help="Further columns to protect, beside the saved.")
    @click.option("--increase-only", multiple=True, metavar="COLUMNS", help="Columns that may only go up.")
    @click.option("--decrease-only", multiple=True, metavar="COLUMNS", help="Columns that may only go down.")
    @click.option("--range", multiple=True, metavar="COLUMN=LOW:HIGH", help="New values; of categories COLUMN=A|B.")
    @click.option("--cost", multiple=True, metavar="COLUMN=COST", help="What a change of one spread costs; 1 is usual.")
    @wraps(command)
    def wrapped(**given: Any) -> None:
        limits = GivenLimits(**{f.name: given.pop(f.name) for f in fields(GivenLimits)})
        command(limits=limits, **given)

    return wrapped


def column_list(given: Iterable[str], known: Sequence[str], option: str) -> list[str]:
    """Columns that were given one by one or with commas between; a name that has a comma itself stands alone."""
    names = [n for text in given for n in ([text] if text in known else map(str.strip, text.split(","))) if n]
    if not names:
        raise click.BadParameter(f"{option}: name at least one column")
    return list(dict.fromkeys(names))


def _assigned(given: Iterable[str], known: Sequence[str], option: str, form: str) -> dict[str, str]:
    """Column=value pairs, one by one or with commas between; a name may have "=" in it, and a value commas."""
    out: dict[str, str] = {}
    for text in given:
        begins = [0, *(i + 1 for i, c in enumerate(text) if c == "," and _split(text[i + 1 :], known) is not None)]
        for begin, end in zip(begins, [*(b - 1 for b in begins[1:]), len(text)], strict=True):
            pair = _split(text[begin:end], known)
            if pair is None:
                raise GraceError(f"{option} {text[begin:end]!r}: write it as {form}; columns: {_some(known)}")
            name, value = pair
            if name in out:
                raise GraceError(f"{option}: column {name!r} is given twice")
            out[name] = value
    return out


def _split(pair: str, known: Sequence[str]) -> tuple[str, str] | None:
    """The column before the first "=" that has one before it, and what stands behind."""
    for i in (i for i, c in enumerate(pair) if c == "="):
        name = next((n for n in (pair[:i], pair[:i].strip()) if n in known), None)
        if name is not None:
            return name, pair[i + 1 :].strip()
    return None


def _span(feature: Feature, said: str) -> list[Value | None]:
    """The ends of a range, either of which may be left out; the categories to choose from."""
    from grace.schema.features import Categorical
    from grace.web.rows import parse_cell

    if isinstance(feature, Categorical):
        whole = any(str(c) == said for c in feature.categories)
        return [parse_cell(feature, part.strip()) for part in ([said] if whole else said.split("|"))]
    what = f"--range {feature.name}={said}"
    found: list[list[Value | None]] = []
    failed = GraceError(f"{what}: write it as {feature.name}=low:high; either end may be left out")
    for i in (i for i, c in enumerate(said) if c == ":"):  # times of day have colons too
        try:
            found.append(
                [parse_cell(feature, end.strip()) if end.strip() else None for end in (said[:i], said[i + 1 :])]
            )
        except GraceError as reason:
            failed = reason
    if not found:
        raise failed
    if len(found) > 1:
        raise GraceError(f"{what}: it can be read in several ways; write times with seconds, as in 2020-12-31 10:00:00")
    if found[0] == [None, None]:
        raise GraceError(f"{what}: give at least one end of the range")
    return found[0]


def _cost(name: str, said: str) -> float:
    try:
        cost = float(said)
    except ValueError:
        cost = math.nan
    if not 0 < cost < math.inf:
        raise GraceError(f"--cost {name}={said}: give a positive number, as in {name}=2")
    return cost


def _some(names: Iterable[str]) -> str:
    from grace.schema.frames import join_first

    return join_first(names)
