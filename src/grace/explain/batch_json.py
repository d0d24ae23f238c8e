"""The JSON text of many answers at once, written by column; equal to that of `Explanation.record` of each.

What is the same for all answers is written once, into a template that is filled for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.explain.batch_texts import FEW, Notes, is_limited, texts
from grace.explain.explanation import Change, shared_feature, shared_words
from grace.explain.json_text import TEXTS, indented, template
from grace.explain.shared_parts import cell_reader
from grace.schema.features import Categorical, Floats, Numeric
from grace.text.exact_numbers import Scaled

if TYPE_CHECKING:
    from grace.explain.ranked import Changes, Ranked
    from grace.text.sentence import TextOptions

LEVEL = 1  # depth of a record in the document
CHANGE = ("feature", "old", "new", "difference", "span", "schema")
SAME = {"success", "reason", "miss", "proof", "follow_on", "classes", "task", "sure", "cutoffs", "wanted"}
SAME |= {"protected", "settings", "alternatives"}
"""Parts of a record that all answers of a batch have in common, where there is neither proof nor alternative."""


def is_by_column(ranked: Sequence[Ranked]) -> bool:
    """Whether the records of a batch can be written by column."""
    first = ranked[0]
    plain = len(ranked) == 1 and not first.asked and first.follow_on is None and first.batch.target_ranges is None
    return plain and not is_limited(first) and len(first.success) >= FEW and bool(np.isfinite(first.answers.rows).all())


def records_by_column(
    ranked: Ranked, rows: Sequence[int], example: dict[str, Any], labels: Sequence[Any], how: TextOptions
) -> dict[int, str]:
    """The JSON texts of some answers, without those that are missing; `example` is the record of one of them, and
    `labels` are the parts of each that come from its input: its index and extra columns."""
    columns = {**_columns(ranked, rows, how), **{name: [part[name] for part in labels] for name in labels[0]}}
    columns = {name: columns[name] for name in example if name in columns}
    if example.keys() - columns.keys() != SAME:
        return {}
    parts = ["%s" if k in columns else indented(v, LEVEL + 1).replace("%", "%%") for k, v in example.items()]
    whole = template(tuple(example), LEVEL) % tuple(parts)
    return {i: whole % cells for i, cells in zip(rows, zip(*columns.values(), strict=True), strict=True)}


def _columns(ranked: Ranked, rows: Sequence[int], how: TextOptions) -> dict[str, list[str]]:
    """The texts of the parts of records that differ from answer to answer."""
    batch, shared, level, changes = ranked.batch, ranked.shared, LEVEL + 1, ranked.changes
    brittle = batch.details.brittle(ranked.rank, ranked.answers)
    noted = [ranked.remarks(i, brittle.get(i, ())) for i in rows]
    said, none = Notes(ranked, batch.schema.language), shared_words(shared.words(0, ()))
    words = {(): indented(none, level)}  # by the remarks that mention features
    labels = [indented(label) for label in shared.classes]
    counts = [changes.starts[i + 1] - changes.starts[i] for i in rows]
    influence = {count: TEXTS[float](1.0 / count) for count in set(counts)}
    checks: dict[tuple[bool, ...], str] = {}
    for held in zip(*ranked.checks.values(), strict=True):
        if held not in checks:
            checks[held] = indented(dict(zip(ranked.checks, held, strict=True)), level)
    every_check = list(zip(*ranked.checks.values(), strict=True))

    def words_for(remarks: Sequence[Any]) -> str:
        names = tuple(remark.get("feature", "") for remark in remarks)
        if names not in words:
            words[names] = indented(shared_words(shared.words(0, (), *remarks)), level)
        return words[names]

    return {
        "text": list(map(encode_basestring, texts(ranked, rows, how))),
        "original_class": [labels[ranked.best[i][0]] for i in rows],
        "contrast_class": [labels[ranked.best[i][1]] for i in rows],
        "changes": _changes(ranked, rows),
        "predicate": list(map(encode_basestring, changes.predicates(rows))),
        "influence": [influence[count] for count in counts],
        "distance": [TEXTS[float](ranked.distance[i]) for i in rows],
        "before": _scores(ranked, ranked.before, rows),
        "after": _scores(ranked, ranked.after, rows),
        "checks": [checks[every_check[i]] for i in rows],
        "notes": [indented([said.text(r) for r in remarks], level) if remarks else "[]" for remarks in noted],
        "remarks": [indented(remarks, level) if remarks else "[]" for remarks in noted],
        "typical": _typical(ranked, rows),
        "row": _rows(ranked, rows),
        "words": [words_for(remarks) for remarks in noted],
    }


def _scores(ranked: Ranked, scores: Floats, rows: Sequence[int]) -> list[str]:
    """Probabilities of the classes."""
    if not ranked.shared.common["sure"]:
        return ["[]"] * len(rows)
    line = "\n" + " " * (LEVEL + 2)
    form = f"[{line}{f',{line}'.join(['%s'] * scores.shape[1])}{line[:-1]}]"
    write = TEXTS[float]
    return [form % tuple(map(write, row)) for row in scores[list(rows)].tolist()]


def _typical(ranked: Ranked, rows: Sequence[int]) -> list[str]:
    """Medians of the new class."""
    starts, columns, medians = ranked.medians
    names = ranked.shared.reader.names
    places = [range(starts[i], starts[i + 1]) for i in rows]
    return [indented({names[columns[k]]: medians[k] for k in here}, LEVEL + 1) if here else "{}" for here in places]


def _rows(ranked: Ranked, rows: Sequence[int]) -> list[str]:
    """The rows themselves."""
    codes, columns = ranked.answers.rows[list(rows)], []
    for j, feature in enumerate(ranked.batch.schema.features):
        read, cells = cell_reader(feature), codes[:, j]
        if read is None:
            columns.append(list(map(float.__repr__, cells.tolist())))
        elif isinstance(feature, Categorical):
            known = [indented(read(code)) for code in range(len(feature.categories))]
            columns.append([known[code] for code in cells.astype(np.int64).tolist()])
        else:
            columns.append([indented(read(cell)) for cell in cells.tolist()])
    form = template(tuple(ranked.batch.schema.names), LEVEL + 1)
    return [form % cells for cells in zip(*columns, strict=True)]


def _changes(ranked: Ranked, rows: Sequence[int]) -> list[str]:
    """The lists of changes."""
    changes, level = ranked.changes, LEVEL + 2
    spans = ranked.batch.details.spans_at(ranked.rank, ranked.answers, changes.row, changes.column).tolist()
    differences = _differences(changes)
    form, line = template(CHANGE, level), "\n" + " " * level
    heads = {j: (encode_basestring(changes.features[j].name), _schema(changes, j)) for j in set(changes.columns)}
    span, write = template_of_span(level + 1), TEXTS[float]
    parts = []
    for k, j in enumerate(changes.columns):
        (low, high), (name, schema), old, new = spans[k], heads[j], changes.old[k], changes.new[k]
        ends = "null" if low != low else span % (write(low), write(high))
        parts.append(form % (name, TEXTS[type(old)](old), TEXTS[type(new)](new), differences[k], ends, schema))
    bounds = [(changes.starts[i], changes.starts[i + 1]) for i in rows]
    return [f"[{line}{f',{line}'.join(parts[begin:end])}{line[:-1]}]" for begin, end in bounds]


def template_of_span(level: int) -> str:
    """The format string of a list of two at a depth."""
    line = "\n" + " " * (level + 1)
    return f"[{line}%s,{line}%s{line[:-1]}]"


def _schema(changes: Changes, j: int) -> str:
    return indented(shared_feature(changes.features[j]), LEVEL + 3)


def _differences(changes: Changes) -> list[str]:
    """`Change.difference` of each change."""
    old, new = changes.codes
    size = Scaled.of(new).difference(Scaled.of(old))
    exact = (np.where(new > old, 1.0, -1.0) * size.digits / 10.0**size.decimals).tolist()
    out = []
    for k, (j, known) in enumerate(zip(changes.columns, size.known.tolist(), strict=True)):
        feature = changes.features[j]
        if not isinstance(feature, Numeric):
            out.append("null")
        elif known:
            out.append(float.__repr__(exact[k]))
        else:
            out.append(indented(Change(feature, changes.old[k], changes.new[k]).difference))
    return out
