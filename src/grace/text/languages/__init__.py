"""The languages of the sentences: one package each, named by its code, found by being here.

`Language` lists what such a package has. All grammar is in it; what is said is decided before (`Facts`), and
nothing outside names a language, but for `words.DEFAULT`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from grace.errors import GraceError
from grace.schema import words
from grace.schema.features import Categorical, Feature, Numeric, Value
from grace.schema.formatting import decimal
from grace.text.precision import Difference

FORMS = ("had", "because", "typical")
MOST_NAMED = 3  # features that a condition names; more are counted


@dataclass(frozen=True)
class Words:
    """What a language says where the schema has no words of its own. In `verb`, {row} and {class} are filled in, and in
    `tasks`, the verbs for other tasks than classes; `missing` is the category of a missing cell; `numbered` is a class
    of which only a number is known; `there` is a phrase that names nothing ("there were 3 nuclei"); `date` has the unit
    and the comparatives of dates."""

    row: str
    rows: str
    verb: str
    been: str
    more: str
    less: str
    missing: str
    numbered: str
    there: str
    tasks: Mapping[str, str]
    cluster: str
    date: Mapping[str, str]


@dataclass(frozen=True)
class ChangedFeature:
    """A changed feature, with its words in the language, and the degree of the change."""

    feature: Feature
    said: Difference


@dataclass(frozen=True)
class Facts:
    """What a sentence has to say. `before` and `after` are the words for the classes X and Y; `along` are the features
    that move along with the changed ones."""

    row: str
    rows: str
    verb: str
    before: str
    after: str
    parts: tuple[ChangedFeature, ...]
    along: tuple[ChangedFeature, ...] = ()


@dataclass(frozen=True)
class Limits:
    """What a proof depends on. `fixed`, `rising` and `falling` are the features that may not change, only grow or only
    shrink; `categories` is whether some may not be chosen; `distinct`, whether redundant features may not change
    together; `confidence`, the least probability asked for; `towards`, the words for the class asked for, where a
    change to any other would not do. `count` is the most changes that were looked at. `protected` are the features that
    stay as they are whatever limit is lifted."""

    count: int
    fixed: tuple[Feature, ...] = ()
    rising: tuple[Feature, ...] = ()
    falling: tuple[Feature, ...] = ()
    categories: bool = False
    distinct: bool = False
    confidence: float = 0.0
    towards: str = ""
    protected: tuple[Feature, ...] = ()


class Language(Protocol):
    """What the package of a language has."""

    WORDS: Words
    TEMPLATES: Mapping[str, Sequence[Callable[[Facts], str]]]
    """The sentences of each of FORMS, without the full stop; the first is the usual one. "had": what would
    have had to be different. "because": what was the case instead. "typical": how the row differs from
    what is typical of the other class; there, a part says how the row's value differs from the typical one."""
    NAME: str
    """What the language calls itself."""
    SCREEN: Mapping[str, str]
    """Headings: feature, is, would, or, note, along."""
    PICTURES: Mapping[str, str]
    """The words of pictures and reports, by what they are about; {…} is filled in."""
    PAGE: Mapping[str, str]
    """The words of the page, likewise."""
    ERRORS: Mapping[str, str]
    """What a visitor of the page may have done wrong: format strings of GraceError, each with its translation."""

    def named(self, name: str) -> str:
        """What to call a feature of which only the name is known."""

    def label(self, value: Value) -> str:
        """A class or category of which only the value is known."""

    def number(self, size: Decimal) -> str: ...

    def figure(self, low: Decimal | None, high: Decimal | None, *, about: bool) -> str:
        """A number of which only limits are known, or where both are the same, the number itself."""

    def amount(self, feature: Numeric, size: Decimal) -> str:
        """A difference with its unit."""

    def measured(self, feature: Numeric, size: Decimal) -> str:
        """A value with its unit."""

    def is_plural(self, words: str) -> bool:
        """Whether a name, as `named` says it, takes a verb in the plural."""

    def has_ratios(self, feature: Numeric) -> bool:
        """Whether "twice as high" can be said with the feature's words."""

    def sure(self, probability: float, *, then: bool) -> str:
        """How sure the model is of the class X, or (`then`) would have been of Y; a clause to append."""

    def cutoff(self, share: str, named: str, *, reached: bool, then: bool) -> str:
        """On which side of its cut-off the probability of a class was, or (`then`) would have been; a clause to append.
        Without a class: that each has a cut-off."""

    def one_change(self, limits: Limits, feature: Feature, size: str) -> str:
        """A note that a proven answer changes one feature, which is the fewest there can be; and, if there is a size,
        that no change of it by less is an answer."""

    def minimum(self, limits: Limits, form: str) -> str:
        """That no change of so few features would have done under these limits: a sentence."""

    def failed(self, facts: Facts, reason: str) -> str:
        """The sentence for a row without an answer, without the full stop."""

    def reason(self, miss: Mapping[str, Any], limits: Limits) -> str:
        """Why there is no answer, see `diagnosis`; features and classes in the ways are given in words. `limits`
        are those of a proof, else what was asked for."""

    def note(self, remark: Mapping[str, Any], feature: Feature | None) -> str:
        """Something about the row, or a feature of it, that a reader should know; see `Explanation.remarks`."""


def names() -> tuple[str, ...]:
    """The languages there are."""
    return words.languages()


@cache
def load(code: str) -> Language:
    """A language by its code."""
    if code not in names():
        raise GraceError(f"there is no language {code!r}; there are {', '.join(names())}")
    return cast(Language, import_module(f"{__name__}.{code}"))


def listed(parts: Sequence[str], last: str) -> str:
    """ "a", "a and b", "a, b and c"; with semicolons where a part has a comma of its own."""
    if len(parts) == 1:
        return parts[0]
    comma, before = ("; ", ";") if any(", " in p for p in parts) else (", ", "")
    return f"{comma.join(parts[:-1])}{before} {last} {parts[-1]}"


def grouped(
    parts: Sequence[ChangedFeature], key: Callable[[ChangedFeature], str]
) -> list[tuple[str, list[ChangedFeature]]]:
    """The parts that share a verb together, in the order of the first of each."""
    groups: dict[str, list[ChangedFeature]] = {}
    for part in parts:
        groups.setdefault(key(part), []).append(part)
    return list(groups.items())


def some_of(names: Sequence[str]) -> Sequence[str]:
    """The names, or none where there are more than a reader would want to hear."""
    return names if len(names) <= MOST_NAMED else ()


def with_unit(feature: Numeric, size: Decimal, said: str) -> str:
    """A number, already in digits, with its unit."""
    word = feature.unit_one if abs(size) == 1 and feature.unit_one else feature.unit
    return f"{said} {word}" if word else said


def percent(share: float) -> tuple[str, int]:
    """In whole per cent, but on the right side of the marks at 0, 50 and 100: with a sign "<" or ">" where the
    share lies beyond the number, or "just <" and "just >"."""
    whole = int(share * 100 + 0.5)
    if whole in (0, 100):
        return (">", 99) if whole else ("<", 1)
    if whole == 50 and share != 0.5:
        return "just >" if share > 0.5 else "just <", 50
    return "", whole


def shown(number: Callable[[Decimal], str], value: Value) -> str:
    """A number in the digits of a language; a date, which is text, as it is."""
    return value if isinstance(value, str) else number(decimal(value))


def category(feature: Feature, value: Value) -> str:
    """A category as a person says it; a date, which is text, as it is."""
    return feature.label(value) if isinstance(feature, Categorical) else str(value)


def upper(sentence: str) -> str:
    """With a capital letter in front."""
    return sentence[:1].upper() + sentence[1:]
