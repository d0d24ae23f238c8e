"""Everything a page shows, as the query of its address.

    model     which of several models
    row       the number of an example row, or
    of        go through the examples of this class only
    is.NAME   the cells of a row of one's own
    fill      features whose cell is missing in it and filled in as in training
    now.NAME  a cell that was moved, to see what the model says then
    freeze, up, down       features that must not change, may only rise, may only fall
    low.NAME, high.NAME    the range of new values
    never.NAME             a category that must not be chosen
    against, k, n          the class to contrast with, most changes, how many answers
    style, template, language    how it is said
    more      with proof and further answers at once

Forms send more than that (`from`, `step`, `explain`, and unmoved cells); `State.query` has the shortest form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from grace import languages
from grace.errors import GraceError
from grace.features import STYLES, Categorical, Feature, Numeric, Value
from grace.frames import some
from grace.schema import Schema
from grace.text import Saying
from grace.web.rows import Cells, cell, is_missing, plainly, read_row, written
from grace.web.served import BUDGET, Question, Served

T = TypeVar("T")
Pairs = Sequence[tuple[str, str]]
MOST_ANSWERS = 5
ANSWERS = 3
ALL_STYLES = (*STYLES, "auto")


@dataclass(frozen=True, kw_only=True)
class State:
    """See above. `row` is whole, `example` its number if it is one, `filled` names the cells that were filled in;
    `moved` has what differs from it."""

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

    @property
    def now(self) -> Cells:
        """The row as moved."""
        return {**self.row, **self.moved}

    @property
    def saying(self) -> Saying:
        return {
            "style": self.style or None,
            "language": self.language or None,
            "template": self.template or None,
        }

    def question(self, schema: Schema, *, full: bool = False, prove: bool = True) -> Question:
        """What to ask the explainer; `full` asks for further answers too, and for a proof."""
        ranges: dict[str, Any] = {
            name: (self.low.get(name), self.high.get(name)) for name in schema.names if name in {*self.low, *self.high}
        }
        for name, barred in self.never.items():
            feature = schema[name]
            assert isinstance(feature, Categorical)
            ranges[name] = tuple(c for c in feature.open if c not in barred)
        limits: dict[str, Any] = {
            "frozen": self.frozen,
            "increase_only": self.up,
            "decrease_only": self.down,
            "ranges": ranges or None,
            "against": self.against,
        }
        if self.most is not None:
            limits["max_features"] = self.most
        if full:
            limits |= {"prove": prove, "budget": BUDGET, "n": self.answers}
        return Question(self.row, limits, self.filled)

    def pairs(self, schema: Schema, several: bool) -> list[tuple[str, str]]:
        """The query, shortest form; the model is named if there are several."""
        out: list[tuple[str, str]] = [("model", self.model)] if several else []
        if self.example is not None:
            out.append(("row", str(self.example)))
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


def read_state(pairs: Pairs, models: Mapping[str, Served]) -> tuple[State, list[str]]:
    """The state that a query describes, and what is wrong with the parts that had to be left out."""
    reader = Reader(pairs)
    name = reader.last("model") or next(iter(models))
    if name not in models:
        reader.errors.append(f"there is no model {name!r}; there are {some(models)}")
        name = next(iter(models))
    return reader.state(models[name]), reader.errors


class Reader:
    """Reads a query part by part; what cannot be read is an error and is left out."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.errors: list[str] = []

    def last(self, key: str) -> str:
        return next((value for k, value in reversed(self.pairs) if k == key), "").strip()

    def named(self, prefix: str) -> list[tuple[str, str]]:
        return [(k[len(prefix) :], v) for k, v in self.pairs if k.startswith(prefix)]

    def attempt(self, read: Callable[..., T], *given: Any) -> T | None:
        try:
            return read(*given)
        except GraceError as reason:
            self.errors.append(str(reason))
            return None

    def state(self, served: Served) -> State:
        schema = served.schema
        fresh, example, row, filled = self.row(served)
        moved: dict[str, Value] = {}
        if not fresh:
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
            against=self.label("against", served),
            of=self.label("of", served),
            most=self.whole("k", 1, len(schema)),
            answers=self.whole("n", 1, MOST_ANSWERS) or ANSWERS,
            style=self.among("style", ALL_STYLES, usual_style(schema)),
            template=self.among("template", languages.FORMS, languages.FORMS[0]),
            language=self.among("language", languages.names(), schema.language),
            more=self.last("more") == "yes",
        )
        if state.most == served.most:
            state = replace(state, most=None)
        crossed = [n for n in state.low if n in state.high and float(state.low[n]) > float(state.high[n])]
        for name in crossed:
            self.errors.append(f"column {name!r}: the range begins above its end; swap the two")
        kept = {n: v for n, v in state.low.items() if n not in crossed}
        return replace(state, low=kept, up=tuple(n for n in state.up if n not in state.down))

    def row(self, served: Served) -> tuple[bool, int | None, Cells, tuple[str, ...]]:
        """Whether the row is another than the one the form was about, its number among the examples, the row, and what
        was filled in."""
        asked, before = self.last("row"), self.last("from")
        own = self.named("is.")
        number = self.whole("row", 1, len(served.examples)) if asked else None
        step = self.last("step")
        if step in ("next", "previous"):
            here = number or (0 if step == "next" else 1)
            number = served.after(here, self.label("of", served), 1 if step == "next" else -1)
            return True, number, served.example(number), ()
        fresh = any(k == "from" for k, _ in self.pairs) and asked != before
        fill = self.features("fill", served.schema)
        if (own or fill) and not (fresh and number):
            found = self.attempt(read_row, served.schema, dict(own), fill)
            if found is not None:
                return False, None, *found
        return fresh, number or 1, served.example(number or 1), ()

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
            self.errors.append(f"there is no feature {name!r}; features: {some(schema.names)}")
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
                barred = tuple(c for c in feature.open if c in asked[feature.name])
                if len(barred) == len(feature.open):
                    self.errors.append(f"column {feature.name!r}: every category is ruled out; leave one, or freeze it")
                elif barred:
                    out[feature.name] = barred
        return out

    def label(self, key: str, served: Served) -> Value | None:
        """A class."""
        said = self.last(key)
        found = next((c for c in served.classes if str(c) == said), None)
        if said and found is None:
            self.errors.append(f"unknown class {said!r}; the classes are {some(served.classes)}")
        return found

    def whole(self, key: str, low: int, high: int) -> int | None:
        said = self.last(key)
        if not said:
            return None
        if said.isascii() and said.isdigit() and len(said) < 10 and low <= int(said) <= high:
            return int(said)
        self.errors.append(f"{key}={said!r}: give a whole number from {low} to {high}")
        return None

    def among(self, key: str, known: Sequence[str], usual: str) -> str:
        """One of the known words; empty for the usual one."""
        said = self.last(key)
        if said and said not in known:
            self.errors.append(f"{key}={said!r} is unknown; use one of {', '.join(known)}")
            return ""
        return "" if said == usual else said


def usual_style(schema: Schema) -> str:
    """The style that holds where none is asked for; empty if features have their own."""
    return "" if any(isinstance(f, Numeric) and f.style for f in schema.features) else STYLES[0]
