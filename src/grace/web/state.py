"""Everything a page shows, as the query of its address.

    model     which of several models
    row       the number of an example row, 0 for the first, or
    of        go through the examples of this class only
    is.NAME   the cells of a row of one's own
    fill      features whose cell is missing in it and filled in as in training
    now.NAME  a cell that was moved, to see what the model says then
    freeze, up, down       features that must not change, may only rise, may only fall
    low.NAME, high.NAME    the range of new values
    never.NAME             a category that must not be chosen
    against, k, n          the class to contrast with or what a number should have been, most changes, how many answers
    style, template, language    how it is said
    more      with proof and further answers at once

Forms send more than that (`from`, `step`, `explain`, `aim`, and unmoved cells); `State.query` has the shortest form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from grace.errors import GraceError
from grace.problem.target_range import target_range_of
from grace.schema.features import STYLES, Categorical, Feature, Numeric, Value
from grace.schema.frames import cell_reprs
from grace.schema.schema import Schema
from grace.text import languages
from grace.text.sentence import TextOptions
from grace.web.aims import USUAL_AIM, aim_of, read_aim
from grace.web.rows import Cells, cell, is_missing, plainly, read_row, written
from grace.web.service import BUDGET, RowQuestion, Served

T = TypeVar("T")
Pairs = Sequence[tuple[str, str]]
MOST_ANSWERS = 5
ANSWERS = 3
ALL_STYLES = (*STYLES, "auto")
WHOLE = {
    "row": "row={said!r}: give a whole number from {low} to {high}",
    "k": "k={said!r}: give a whole number from {low} to {high}",
    "n": "n={said!r}: give a whole number from {low} to {high}",
}


@dataclass(frozen=True, kw_only=True)
class State:
    """See above. `row` is whole, `example` its number if it is one, `filled` names the cells that were filled in;
    `moved` has what differs from it. `unfit` is why an example cannot be explained; its `row` is empty then."""

    model: str
    row: Mapping[str, Value | None]
    filled: tuple[str, ...] = ()
    example: int | None = None
    of: Value | None = None
    moved: Mapping[str, Value] = field(default_factory=dict)
    frozen: tuple[str, ...] = ()
    up: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    low: Mapping[str, Value] = field(default_factory=dict)
    high: Mapping[str, Value] = field(default_factory=dict)
    never: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    against: Value | None = None
    most: int | None = None
    answers: int = ANSWERS
    style: str = ""
    template: str = ""
    language: str = ""
    more: bool = False
    unfit: GraceError | None = field(default=None, compare=False)

    @property
    def now(self) -> Cells:
        """The row as moved."""
        return {**self.row, **self.moved}

    @property
    def saying(self) -> TextOptions:
        return {
            "style": self.style or None,
            "language": self.language or None,
            "template": self.template or None,
        }

    def question(self, served: Served, *, full: bool = False, prove: bool = True) -> RowQuestion:
        """What to ask the explainer; `full` asks for further answers too, and for a proof."""
        schema = served.schema
        ranges: dict[str, Any] = {
            name: (self.low.get(name), self.high.get(name)) for name in schema.names if name in {*self.low, *self.high}
        }
        for name, barred in self.never.items():
            feature = schema[name]
            assert isinstance(feature, Categorical)
            ranges[name] = tuple(c for c in feature.selectable if c not in barred)
        limits: dict[str, Any] = {
            "frozen": self.frozen,
            "increase_only": self.up,
            "decrease_only": self.down,
            "ranges": ranges or None,
            "against": target_range_of(str(self.against or USUAL_AIM)) if served.of_numbers else self.against,
        }
        if self.most is not None:
            limits["max_features"] = self.most
        if full:
            limits |= {"prove": prove and not served.of_numbers, "budget": BUDGET, "n": self.answers}
        return RowQuestion(self.row, limits, self.filled)

    def pairs(self, schema: Schema, several: bool) -> list[tuple[str, str]]:
        """The query, shortest form; the model is named if there are several."""
        out: list[tuple[str, str]] = [("model", self.model)] if several else []
        if self.example is not None:
            out += [("row", str(self.example)), *(("fill", name) for name in self.filled)]
        else:
            out += self.own(schema)
        if self.of is not None:
            out.append(("of", str(self.of)))
        out += [(f"now.{name}", written(schema[name], value)) for name, value in self.moved.items()]
        for key, names in (("freeze", self.frozen), ("up", self.up), ("down", self.down)):
            out += [(key, name) for name in names]
        for key, ends in (("low", self.low), ("high", self.high)):
            out += [(f"{key}.{name}", written(schema[name], end)) for name, end in ends.items()]
        out += [(f"never.{name}", plainly(c)) for name, barred in self.never.items() for c in barred]
        if self.against is not None:
            out.append(("against", str(self.against)))
        if self.most is not None:
            out.append(("k", str(self.most)))
        if self.answers != ANSWERS:
            out.append(("n", str(self.answers)))
        words = (("style", self.style), ("template", self.template), ("language", self.language))
        out += [(key, said) for key, said in words if said]
        return [*out, ("more", "yes")] if self.more else out

    def own(self, schema: Schema) -> list[tuple[str, str]]:
        """A row of one's own: its cells, and those that were filled in."""
        given = [(f"is.{n}", written(schema[n], value)) for n, value in self.row.items() if n not in self.filled]
        return [*given, *(("fill", name) for name in self.filled)]

    def query(self, schema: Schema, several: bool) -> str:
        return urlencode(self.pairs(schema, several))


def read_state(pairs: Pairs, models: Mapping[str, Served]) -> tuple[State, list[GraceError]]:
    """The state that a query describes, and what is wrong with the parts that had to be left out."""
    reader = Reader(pairs)
    name = reader.last("model") or next(iter(models))
    if name not in models:
        message = "there is no model {name!r}; there are {known}"
        reader.errors.append(GraceError(message, name=name, known=cell_reprs(models)))
        name = next(iter(models))
    return reader.state(models[name]), reader.errors


class Reader:
    """Reads a query part by part; what cannot be read is an error and is left out."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.errors: list[GraceError] = []

    def last(self, key: str) -> str:
        return next((value for k, value in reversed(self.pairs) if k == key), "").strip()

    def named(self, prefix: str) -> list[tuple[str, str]]:
        return [(k[len(prefix) :], v) for k, v in self.pairs if k.startswith(prefix)]

    def attempt(self, read: Callable[..., T], *given: Any) -> T | None:
        try:
            return read(*given)
        except GraceError as reason:
            self.errors.append(reason)
            return None

    def state(self, served: Served) -> State:
        schema = served.schema
        fresh, example, row, filled, unfit = self.row(served)
        moved: dict[str, Value] = {}
        if not fresh and unfit is None:
            for name, value in self.cells("now.", schema):
                if value != row[name]:
                    moved[name] = value
        if self.last("explain") == "moved" and moved:
            filled = tuple(n for n in filled if n not in moved)
            row, moved, example = {**row, **moved}, {}, None
        frozen = self.features("freeze", schema)
        state = State(
            model=served.name,
            row=row,
            filled=filled,
            example=example,
            moved=moved,
            frozen=frozen,
            low=self.ends("low.", schema),
            high=self.ends("high.", schema),
            up=tuple(n for n in self.features("up", schema, Numeric) if n not in frozen),
            down=tuple(n for n in self.features("down", schema, Numeric) if n not in frozen),
            never=self.never(schema),
            against=self.aim() if served.of_numbers else self.label("against", served),
            of=self.label("of", served),
            most=self.whole("k", 1, len(schema)),
            answers=self.whole("n", 1, MOST_ANSWERS) or ANSWERS,
            style=self.among("style", ALL_STYLES, usual_style(schema)),
            template=self.among("template", languages.FORMS, languages.FORMS[0]),
            language=self.among("language", languages.names(), schema.language),
            more=self.last("more") == "yes",
            unfit=unfit,
        )
        if state.most == served.most:
            state = replace(state, most=None)
        crossed = [n for n in state.low if n in state.high and float(state.low[n]) > float(state.high[n])]
        for name in crossed:
            message = "column {column!r}: the range begins above its end; swap the two"
            self.errors.append(GraceError(message, column=name))
        kept = {n: v for n, v in state.low.items() if n not in crossed}
        return replace(state, low=kept, up=tuple(n for n in state.up if n not in state.down))

    def row(self, served: Served) -> tuple[bool, int | None, Cells, tuple[str, ...], GraceError | None]:
        """Whether the row is another than the one the form was about, its number among the examples, the row, what was
        filled in, and of an example that does not fit the model, why."""
        asked, before = self.last("row"), self.last("from")
        own = self.named("is.")
        number = self.whole("row", 0, len(served.examples) - 1) if asked else None
        step = self.last("step")
        if step in ("next", "previous"):
            by = 1 if step == "next" else -1
            here = number if number is not None else (-1 if step == "next" else 0)
            return True, *self.example(served, served.after(here, self.label("of", served), by), ())
        fresh = any(k == "from" for k, _ in self.pairs) and asked != before
        fill = self.features("fill", served.schema)
        if (own or (fill and number is None)) and not (fresh and number is not None):
            found = self.attempt(read_row, served.schema, dict(own), fill)
            if found is not None:
                return False, None, *found, None
        return fresh, *self.example(served, number or 0, () if fresh else fill)

    def example(
        self, served: Served, number: int, fill: tuple[str, ...]
    ) -> tuple[int, Cells, tuple[str, ...], GraceError | None]:
        try:
            return number, *served.read(number, fill), None
        except GraceError as reason:
            return number, {}, (), reason

    def cells(self, prefix: str, schema: Schema) -> list[tuple[str, Value]]:
        out: dict[str, Value] = {}
        for name, sent in self.named(prefix):
            feature = self.attempt(schema.__getitem__, name)
            if feature is not None and not is_missing(feature, sent):
                value = self.attempt(cell, feature, sent)
                if value is not None:
                    out[name] = value
        return [(name, out[name]) for name in schema.names if name in out]

    def features(self, key: str, schema: Schema, kind: type[Feature] | None = None) -> tuple[str, ...]:
        asked = {v for k, v in self.pairs if k == key}
        for name in sorted(asked.difference(schema.names)):
            message = "there is no feature {name!r}; features: {known}"
            self.errors.append(GraceError(message, name=name, known=cell_reprs(schema.names)))
        return tuple(f.name for f in schema.features if f.name in asked and (kind is None or isinstance(f, kind)))

    def ends(self, prefix: str, schema: Schema) -> dict[str, Value]:
        return {n: v for n, v in self.cells(prefix, schema) if isinstance(schema[n], Numeric)}

    def never(self, schema: Schema) -> dict[str, tuple[Value, ...]]:
        asked: dict[str, list[Value]] = {}
        for name, sent in self.named("never."):
            feature = self.attempt(schema.__getitem__, name)
            if isinstance(feature, Categorical):
                value = self.attempt(cell, feature, sent)
                if value is not None:
                    asked.setdefault(name, []).append(value)
        out: dict[str, tuple[Value, ...]] = {}
        for feature in schema.features:
            if isinstance(feature, Categorical) and feature.name in asked:
                barred = tuple(c for c in feature.selectable if c in asked[feature.name])
                if len(barred) == len(feature.selectable):
                    message = "column {column!r}: every category is ruled out; leave one, or freeze it"
                    self.errors.append(GraceError(message, column=feature.name))
                elif barred:
                    out[feature.name] = barred
        return out

    def label(self, key: str, served: Served) -> Value | None:
        """A class."""
        said = self.last(key)
        found = next((c for c in served.classes if str(c) == said), None)
        if said and found is None:
            message = "unknown class {label!r}; the classes are {known}"
            self.errors.append(GraceError(message, label=said, known=cell_reprs(served.classes)))
        return found

    def whole(self, key: str, low: int, high: int) -> int | None:
        said = self.last(key)
        if not said:
            return None
        if said.isascii() and said.isdigit() and len(said) < 10 and low <= int(said) <= high:
            return int(said)
        self.errors.append(GraceError(WHOLE[key], said=said, low=low, high=high))
        return None

    def aim(self) -> str | None:
        """What a predicted number should have been, from the address or from the inputs of the form."""
        kind, said = self.last("aim"), self.last("against")
        if kind:
            found = self.attempt(aim_of, kind, self.last("aim.number"), self.last("aim.upper"))
        else:
            found = self.attempt(read_aim, said) if said else None
        return None if found is None or found.text == USUAL_AIM else found.text

    def among(self, key: str, known: Sequence[str], usual: str) -> str:
        """One of the known words; empty for the usual one."""
        said = self.last(key)
        if said and said not in known:
            message = "{key}={said!r} is unknown; use one of {known}"
            self.errors.append(GraceError(message, key=key, said=said, known=tuple(known)))
            return ""
        return "" if said == usual else said


def usual_style(schema: Schema) -> str:
    """The style that holds where none is asked for; empty if features have their own."""
    return "" if any(isinstance(f, Numeric) and f.style for f in schema.features) else STYLES[0]
