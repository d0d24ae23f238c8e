"""Rules between features, which contrastive rows have to satisfy.

Rules are written as text:

    average <= longest + 3                            a sum is at most another one
    total = a + b                                     a number is a sum, and changes with its terms
    if pregnant == 'yes' then sex == 'female'         a condition implies another one
    education_num follows education                   a category determines the value, as in training

A function from a DataFrame to one bool per row is a rule too. reading parses rules, keeping measures by how much a row
violates one, and suggesting finds rules that hold in a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pandas as pd

from grace.errors import GraceError
from grace.schema.features import Value
from grace.schema.formatting import decimal
from grace.schema.parsing import fitted

if TYPE_CHECKING:
    from grace.schema.rules.suggesting import Suggestion
    from grace.schema.schema import Schema

WORDS = ("if", "then", "and", "in", "follows", "true", "false")
PLAIN = re.compile(r"[^\W\d][\w.]*")


def named(name: str) -> str:
    """A feature's name in a rule: in backticks if it is not a plain word."""
    return name if PLAIN.fullmatch(name) and name.lower() not in WORDS else f"`{name}`"


def literal(value: Value) -> str:
    """A number or category in a rule."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return format(decimal(value).normalize(), "f")


def _times(factor: float, name: str) -> str:
    """ "2 * a"; with a fraction if the factor is not a short decimal: "2 * a / 3"."""
    share = Fraction(factor).limit_denominator(100)
    whole = len(literal(factor)) <= 8 or float(share) != factor
    above, below = (factor, 1) if whole else (float(share.numerator), share.denominator)
    term = name if above == 1 else f"{literal(above)} * {name}"
    return term if below == 1 else f"{term} / {below}"


@dataclass(frozen=True)
class Sum:
    """A linear combination of features, plus a constant."""

    terms: tuple[tuple[str, float], ...]
    constant: float = 0.0

    def __str__(self) -> str:
        parts = [(c, _times(abs(c), named(n))) for n, c in self.terms]
        if self.constant or not parts:
            parts.append((self.constant, literal(abs(self.constant))))
        first = ("-" if parts[0][0] < 0 else "") + parts[0][1]
        return first + "".join(f" {'-' if c < 0 else '+'} {term}" for c, term in parts[1:])

    def minus(self, other: Sum) -> Sum:
        """The difference, with like terms combined."""
        terms = dict(self.terms)
        for name, factor in other.terms:
            terms[name] = terms.get(name, 0.0) - factor
        return Sum(tuple((n, c) for n, c in terms.items() if c), self.constant - other.constant)


@dataclass(frozen=True)
class AtMost:
    """`left` <= `right`; if `strict`, <."""

    left: Sum
    right: Sum
    strict: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.right.minus(self.left).terms)

    def __str__(self) -> str:
        return f"{self.left} {'<' if self.strict else '<='} {self.right}"


@dataclass(frozen=True)
class Equal:
    """A number equals a sum of others, and changes with them."""

    feature: str
    right: Sum

    @property
    def features(self) -> tuple[str, ...]:
        return (self.feature, *(n for n, _ in self.right.terms))

    def __str__(self) -> str:
        return f"{named(self.feature)} = {self.right}"


@dataclass(frozen=True)
class Condition:
    """A number compared with a value, or a category that is one of several (`in`) or not the given one (`!=`)."""

    feature: str
    sign: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        if self.sign == "in":
            return f"{named(self.feature)} in ({', '.join(map(literal, self.values))})"
        return f"{named(self.feature)} {self.sign} {literal(self.values[0])}"


@dataclass(frozen=True)
class IfThen:
    """If all conditions of `when` hold, so do all of `then`."""

    when: tuple[Condition, ...]
    then: tuple[Condition, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.feature for c in (*self.when, *self.then)))

    def __str__(self) -> str:
        when, then = (" and ".join(map(str, part)) for part in (self.when, self.then))
        return f"if {when} then {then}"


@dataclass(frozen=True)
class Follows:
    """A category determines the value of another feature: `values` holds the pairs, learnt from training rows if not
    given."""

    feature: str
    of: str
    values: tuple[tuple[Value, Value], ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        return self.feature, self.of

    def __str__(self) -> str:
        return f"{named(self.feature)} follows {named(self.of)}"


@dataclass(frozen=True)
class Holds:
    """A user's function from a DataFrame to one bool per row."""

    check: Callable[[pd.DataFrame], Any]
    name: str

    features: tuple[str, ...] = ()  # unknown

    def __str__(self) -> str:
        return self.name


Rule = AtMost | Equal | IfThen | Follows | Holds
Ruling = Rule | str | Callable[[pd.DataFrame], Any]
"""The accepted forms of a rule."""


def rule_of(given: Ruling | Mapping[str, Any]) -> Rule:
    """A rule from its text, its JSON or a function."""
    from grace.schema.rules.reading import read

    if isinstance(given, Rule):
        return given
    if isinstance(given, str):
        return read(given)
    if isinstance(given, Mapping):
        return _from_dict(given)
    if callable(given):
        return Holds(given, getattr(given, "__name__", type(given).__name__))
    raise GraceError(f"{given!r} is no rule; write one as text, such as 'a <= b', or give a function of a DataFrame")


def rules_of(given: str | Iterable[Ruling]) -> tuple[Rule, ...]:
    """Distinct rules in order; a single text is one rule."""
    return tuple(dict.fromkeys(rule_of(r) for r in ([given] if isinstance(given, str) else given)))


def rule_to_json(rule: Rule) -> str | dict[str, Any]:
    """The text of a rule; an object if it has values."""
    if isinstance(rule, Holds):
        raise GraceError(
            f"rule {rule.name!r} is a function, which is not saved in JSON; leave it out of the schema and give it to "
            "explain(..., rules=[...]), or write it as text"
        )
    if isinstance(rule, Follows) and rule.values:
        return {"rule": str(rule), "values": [list(pair) for pair in rule.values]}
    return str(rule)


def rules_from(data: Any) -> tuple[Rule, ...]:
    """The inverse of `rule_to_json`."""
    return rules_of(fitted(data, tuple[str | Mapping[str, Any], ...], "schema: rules"))


def _from_dict(data: Mapping[str, Any]) -> Rule:
    from grace.schema.rules.reading import read

    rule = read(str(data.get("rule", "")))
    if not isinstance(rule, Follows) or set(data) - {"rule", "values"}:
        raise GraceError(f"rule {dict(data)!r}: an object is for a rule such as 'a follows b' and its values")
    what = f"rule {str(rule)!r}: values, pairs of a category and what it decides,"
    return Follows(rule.feature, rule.of, fitted(data.get("values", ()), tuple[tuple[Value, Value], ...], what))


def suggest(schema: Schema, frame: Any, *, most: int = 20) -> list[Suggestion]:
    """Rules that no row of the frame breaks, the most surprising first; see `grace.schema.rules.suggesting`."""
    from grace.schema.rules.suggesting import suggest as search

    return search(schema, frame, most=most)
