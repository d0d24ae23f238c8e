"""Sentences and notes of many answers at once, equal to `Explanation.text` and `notes` of each.

A sentence in the exact style is a pattern of words, which many rows share, filled with the numbers of a row; these are
computed and written by column. All other sentences are made one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.schema.columns import is_date
from grace.schema.features import Bools, Feature, Numeric
from grace.text import languages, sentence
from grace.text.exact_numbers import Integers, Scaled, is_short, stays_whole
from grace.text.precision import Delta, Replacement, style_of, value_pair
from grace.text.sentence import TextOptions, exact_statement, with_noun
from grace.text.sentence_patterns import GAPS, HAD, Shape, pattern_of, patterns_of
from grace.text.vocabulary import feature_in

if TYPE_CHECKING:
    from grace.explain.explanation import Explanation
    from grace.explain.ranked import Ranked

FEW = 8  # rows that are faster one by one
MAX_PATTERNS = 20_000
UNKNOWN = ""  # no sentence is empty


def texts(ranked: Ranked, rows: Sequence[int], how: TextOptions) -> list[str]:
    """The sentences of some rows."""
    for name in how.keys() - TextOptions.__annotations__.keys():
        raise TypeError(f"texts() got an unexpected keyword argument {name!r}")
    code = how.get("language") or ranked.batch.schema.language
    known = _by_patterns(ranked, rows, how.get("style"), code) if len(rows) >= FEW and _is_plain(ranked, how) else {}
    return [known[i] if i in known else ranked.explanation(i).text(**how) for i in rows]


def notes(ranked: Ranked, rows: Sequence[int], language: str | None) -> list[str]:
    """The notes of each of some rows as one cell."""
    if ranked.asked or is_limited(ranked):
        return [notes_cell(ranked.explanation(i), language) for i in rows]
    batch = ranked.batch
    said = Notes(ranked, language or batch.schema.language)
    brittle = batch.details.brittle(ranked.rank, ranked.answers)
    return [said.cell(ranked.remarks(i, brittle.get(i, ()))) for i in rows]


def notes_cell(e: Explanation, language: str | None = None) -> str:
    """The notes of an answer as one cell, in a language or in that of the explanation."""
    return "; ".join(sentence.notes(e, language or e.words.language)) if e.remarks or e.proof else ""


class Notes:
    """The words of remarks about the rows of a batch."""

    def __init__(self, ranked: Ranked, code: str) -> None:
        self.code, self.schema, self.task = code, ranked.batch.schema, ranked.batch.task
        self._language = languages.load(code)
        self._features: dict[str, Feature] = {}
        self._known: dict[tuple[Any, ...], str] = {}

    def cell(self, remarks: Sequence[Mapping[str, Any]]) -> str:
        """Remarks as one cell."""
        return "; ".join([self.text(remark) for remark in remarks]) if remarks else ""

    def text(self, remark: Mapping[str, Any]) -> str:
        if "value" in remark:
            return self._language.note(remark, self._feature(remark["feature"]))
        key = tuple(remark.values())  # names alone
        if key not in self._known:
            feature = self._feature(remark["feature"]) if "feature" in remark else None
            self._known[key] = self._language.note(remark, feature)
        return self._known[key]

    def _feature(self, name: str) -> Feature:
        if name not in self._features:
            own = feature_in(self.schema.features[self.schema.index(name)], self.schema.language, self.code)
            self._features[name] = with_noun(own, self.schema, self.task, self.code)
        return self._features[name]


def is_limited(ranked: Ranked) -> bool:
    """Whether the order matters in which a black box is asked about the rows."""
    return ranked.batch.calls_left is not None


def _is_plain(ranked: Ranked, how: TextOptions) -> bool:
    """Whether sentences state nothing but changes, by the first template."""
    first = how.get("template") in (None, HAD) and type(how.get("seed", 0)) is int and how.get("seed", 0) == 0
    added = how.get("hedge") or how.get("room") or ranked.asked or ranked.follow_on is not None
    numbers = ranked.batch.target_ranges is not None
    return first and not added and not numbers and how.get("style") in (None, "exact", "auto")


def _by_patterns(ranked: Ranked, rows: Sequence[int], style: str | None, code: str) -> dict[int, str]:
    """The sentences of those among the rows that have a pattern."""
    stated = stated_exactly(ranked, style, code)
    shared, changes, out = ranked.shared, ranked.changes, {}
    classes = shared.classes, tuple(map(type, shared.classes)), tuple(map(tuple, shared.common["cutoffs"]))
    patterns = patterns_of(ranked.batch.schema, code, ranked.batch.task, *classes)
    if len(patterns) > MAX_PATTERNS:
        patterns.clear()
    kinds, numbers, starts, singly = stated.kinds, stated.numbers, changes.starts, stated.singly.tolist()
    for i in rows:
        begin, end = starts[i], starts[i + 1]
        if singly[i] or begin == end or not ranked.success[i]:
            continue
        key = ranked.best[i], tuple(kinds[begin:end])
        pattern = patterns.get(key, UNKNOWN)
        if pattern is UNKNOWN:
            e = ranked.explanation(i, words=shared.words(i, ranked.predictions(i)))
            pattern = patterns[key] = pattern_of(e, [stated.shape(k) for k in range(begin, end)], code)
        if pattern is not None:
            out[i] = pattern.format(*numbers[GAPS * begin : GAPS * end])
    return out


@dataclass
class Stated:
    """The changes of the answers of a rank as they are stated in the exact style, one entry for each: the number of its
    kind, which all changes of the same shape share, and the text of its numbers, GAPS for each. `singly` are the rows
    (n,) with a change that is stated in another way."""

    ranked: Ranked
    pair: Bools
    about_old: Bools
    ones: tuple[Bools, Bools]
    up: Bools
    kinds: list[int]
    numbers: list[str]
    singly: Bools

    def shape(self, k: int) -> Shape:
        """The shape of a change."""
        changes = self.ranked.changes
        feature = changes.features[changes.columns[k]]
        if not isinstance(feature, Numeric):
            return Shape(feature, category=(changes.old[k], changes.new[k]))
        flags = bool(self.up[k]), bool(self.pair[k]), bool(self.about_old[k])
        return Shape(feature, *flags, (bool(self.ones[0][k]), bool(self.ones[1][k])))


def stated_exactly(ranked: Ranked, style: str | None, code: str) -> Stated:
    """How the changes of the answers of a rank are stated: as differences, but if one of a row has more digits than its
    value, all numbers of the row as pairs of values. See `sentence._changes`, which does the same for one row."""
    changes, source, language = ranked.changes, ranked.batch.schema.language, languages.load(code)
    features, row, column = changes.features, changes.row, changes.column
    numeric, exact, date, digits = (np.array(part) for part in zip(*(_traits(f, style) for f in features), strict=True))
    number, singly = numeric[column], np.zeros(len(ranked.success), dtype=bool)
    singly[row[~exact[column]]] = True
    old, new = (Scaled.of(codes) for codes in changes.codes)
    size = new.difference(old)
    short = ~number | is_short(size, new, digits[column])
    found: dict[int, Any] = {}  # what takes more than integers
    for k in np.flatnonzero(number & ~size.known & ~singly[row]).tolist():
        found[k] = exact_statement(_numeric(features, changes.columns[k], source, code), changes.old[k], changes.new[k])
        short[k] = isinstance(found[k], Delta)
    in_pairs = np.zeros_like(singly)
    in_pairs[row[~short]] = True
    pair = in_pairs[row] & number
    singly[row[pair & date[column]]] = True
    about_old = np.zeros_like(pair)
    for k in np.flatnonzero(pair & ~(old.known & new.known & stays_whole(old, new)) & ~singly[row]).tolist():
        feature = _numeric(features, changes.columns[k], source, code)
        found[k] = value_pair(feature, changes.old[k], changes.new[k])
    first = new.where(pair, size)
    ones, second = (first.are_one, old.are_one & pair), np.flatnonzero(pair)
    singly[row[pair & (new.are_minus_one | old.are_minus_one)]] = True  # the words around 1, with another sign
    numbers = [""] * (GAPS * len(row))
    numbers[::GAPS] = first.texts(language.MARKS)
    for k, text in zip(second.tolist(), old.at(second).texts(language.MARKS), strict=True):
        numbers[GAPS * k + 1] = text
    for k, stated in found.items():
        if isinstance(stated, Replacement) and pair[k]:
            sizes, about_old[k] = [stated.new, stated.old], stated.about_old
        elif isinstance(stated, Delta) and not pair[k]:
            sizes = [stated.size]
        else:
            continue
        for gap, value in enumerate(sizes):
            numbers[GAPS * k + gap], ones[gap][k] = language.number(value), value == Decimal(1)
            singly[row[k]] |= value == Decimal(-1)
    up = changes.codes[1] > changes.codes[0]
    kinds = _kinds(features, column, number, changes.codes, (up & ~pair & number, pair, about_old, *ones))
    return Stated(ranked, pair, about_old, ones, up, kinds, numbers, singly)


def _traits(feature: Feature, style: str | None) -> tuple[bool, bool, bool, int]:
    """Whether a feature is a number, stated exactly, and a date; and its digits."""
    if not isinstance(feature, Numeric):
        return False, True, False, 0
    return True, style_of(feature, style) == "exact", is_date(feature), feature.digits


def _numeric(features: Sequence[Feature], j: int, source: str, code: str) -> Numeric:
    feature = feature_in(features[j], source, code)
    assert isinstance(feature, Numeric)
    return feature


def _kinds(
    features: Sequence[Feature], column: Integers, number: Bools, codes: Sequence[Any], flags: Sequence[Bools]
) -> list[int]:
    """A number for each change, the same for those of the same shape, in any batch of a schema."""
    old, new = (np.where(number, 0, part).astype(np.int64) for part in codes)
    most = max((len(f.categories) for f in features if not isinstance(f, Numeric)), default=1)
    kinds = column.astype(np.int64)
    for flag in flags:
        kinds = 2 * kinds + (flag & number)
    out: list[int] = ((kinds * most + old) * most + new).tolist()
    return out
