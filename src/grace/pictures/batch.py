"""Pictures of a batch: how often each feature changes, its typical change, and a heatmap of all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from grace.errors import GraceError
from grace.pictures.drawing import (
    Axis,
    Dot,
    Drawing,
    Group,
    Mark,
    Rect,
    Text,
    fit,
    line,
    paragraph,
    text_width,
    thinned,
    tick,
)
from grace.schema.features import Bools, Categorical, Floats, Numeric
from grace.schema.schema import Schema
from grace.text import sentence

MARGIN = 24.0
STEP = 26.0
MAX_FEATURES = 15
MAX_ROWS = 240  # of the heatmap
NARROW_WIDTH = 520.0


@dataclass(frozen=True)
class Overview:
    """The changes of the explained rows of a batch, sorted by pair of classes, the most frequent first."""

    schema: Schema
    total: int  # rows of the batch
    pairs: tuple[tuple[str, str, int], ...]  # captions of both classes, and the number of rows
    pair: npt.NDArray[np.int64]  # index into `pairs` per explained row
    changed: Bools
    moves: Floats  # signed, in spreads; 0 for a category
    chosen: Floats  # encoded new values

    @classmethod
    def of(
        cls, schema: Schema, classes: Sequence[str], rows: Floats, contrast: Floats, success: Bools, best: Floats
    ) -> Overview:
        """From encoded rows and contrasts (n, features) and both classes' positions (n, 2)."""
        codes = [tuple(map(int, c)) for c in best[success]]
        ranked = [pair for pair, _ in sorted(Counter(codes).items(), key=lambda item: (-item[1], item[0]))]
        pair = np.array([ranked.index(c) for c in codes], dtype=np.int64)
        order = np.argsort(pair, kind="stable")
        old, new = rows[success][order], contrast[success][order]
        spread = np.array([(f.spread or 1.0) if isinstance(f, Numeric) else np.inf for f in schema.features])
        counts = Counter(codes)
        named = tuple((classes[a], classes[b], counts[a, b]) for a, b in ranked)
        return cls(schema, len(rows), named, pair[order], old != new, (new - old) / spread, new)

    def __repr__(self) -> str:
        pairs = ", ".join(f"{x} → {y} ({count})" for x, y, count in self.pairs[:3]) + (", ..." * (len(self.pairs) > 3))
        often = ", ".join(f"{self.name(j)} in {int(self.changed[:, j].sum())}" for j in self.top(5))
        parts = (f"{len(self.pair)} of {self.total} rows explained", pairs, often and f"changed: {often}")
        return f"<Overview: {'; '.join(filter(None, parts))}>"

    def top(self, max_n: int = MAX_FEATURES) -> list[int]:
        """Indices of the features that change most often."""
        often = self.changed.sum(axis=0)
        return [int(j) for j in np.argsort(-often, kind="stable")[:max_n] if often[j]]

    def name(self, j: int) -> str:
        feature = self.schema.features[j]
        return feature.name.replace("_", " ") if feature.phrase == self.schema.row else sentence.phrase(feature)

    def columns(self, width: float) -> list[tuple[str, str, Bools]]:
        """Two heading lines and a row mask per column that fits: the most frequent pairs, the others together."""
        max_n = 2 if width < NARROW_WIDTH else 4
        shown = self.pairs if len(self.pairs) <= max_n else self.pairs[: max_n - 1]
        out = [(x, y, self.pair == k) for k, (x, y, _) in enumerate(shown)]
        left = len(self.pairs) - len(shown)
        return out + ([(f"{left} other", "pairs of classes", self.pair >= len(shown))] if left else [])


@dataclass(frozen=True)
class RowLayout:
    """The layout of one line per feature: its name to the left, or above in a narrow picture."""

    gutter: float
    above: float

    @classmethod
    def of(cls, o: Overview, top: list[int], width: float) -> RowLayout:
        if width < NARROW_WIDTH:
            return cls(0.0, 18.0)
        longest = max(text_width(o.name(j), 12) for j in top) + 14
        return cls(min(longest, (width - 2 * MARGIN) * 0.36), 0.0)

    @property
    def step(self) -> float:
        return STEP + self.above

    def name(self, text: str, y: float, inner: float) -> Text:
        if self.above:
            return Text(0, y + 15, fit(text, inner, 12), 12)
        return Text(0, y + STEP / 2 + 4, fit(text, self.gutter - 12, 12), 12)


def empty_drawing(title: str, width: float) -> Drawing:
    """The picture of a batch without explanations."""
    marks, y = paragraph(title, MARGIN - 8, width - 2 * MARGIN, 17, bold=True)
    note_marks, y = paragraph("No row of this batch has an explanation.", y + 4, width - 2 * MARGIN, 13, "soft")
    return Drawing(width, y + MARGIN, title, "No row has an explanation.", (Group(MARGIN, 0, (*marks, *note_marks)),))


Cell = Callable[[int, Bools, float, float, float], list[Mark]]


def table(o: Overview, title: str, note: str, width: float, cell: Cell, foot: Cell | None = None) -> Drawing:
    """A table with a line per feature and a column per pair of classes."""
    inner = width - 2 * MARGIN
    top = o.top()
    if not top:
        return empty_drawing(title, width)
    marks, y = paragraph(title, MARGIN - 8, inner, 17, bold=True)
    lines = RowLayout.of(o, top, width)
    columns = o.columns(width)
    column_width = (inner - lines.gutter) / len(columns)
    for k, (x, y_word, rows) in enumerate(columns):
        left, room = lines.gutter + k * column_width, column_width - 14
        other = y_word == "pairs of classes"
        marks.append(Text(left, y + 18, fit(x, room, 11.5, True), 11.5, "soft" if other else "old", bold=True))
        second = y_word if other else f"→ {y_word}"
        marks.append(Text(left, y + 33, fit(second, room, 11.5, True), 11.5, "soft" if other else "new", bold=True))
        marks.append(Text(left, y + 48, f"{int(rows.sum())} rows", 11, "soft"))
    y += 58
    for j in top:
        marks += [lines.name(o.name(j), y, inner), line(0, y + lines.step, inner, y + lines.step, width=0.5)]
        for k, (_, _, rows) in enumerate(columns):
            marks += cell(j, rows, lines.gutter + k * column_width, y + lines.above, column_width - 14)
        y += lines.step
    if foot is not None:
        for k, (_, _, rows) in enumerate(columns):
            marks += foot(-1, rows, lines.gutter + k * column_width, y, column_width - 14)
        y += 16
    left_out = int(o.changed.any(axis=0).sum()) - len(top)
    note += f" {left_out} more features change less often." if left_out else ""
    note_marks, y = paragraph(note, y + 8, inner, 11.5, "soft")
    words = "; ".join(f"{o.name(j)} in {int(o.changed[:, j].sum())}" for j in top)
    words = f"Of {len(o.pair)} explained rows, these features change: {words}."
    return Drawing(width, y + MARGIN - 8, title, words, (Group(MARGIN, 0, (*marks, *note_marks)),))


def features_picture(o: Overview, width: float) -> Drawing:
    """How often each feature changes, by pair of classes."""
    top = max((int(o.changed[rows].sum(axis=0).max(initial=0)) for *_, rows in o.columns(width)), default=1)

    def cell(j: int, rows: Bools, x: float, y: float, room: float) -> list[Mark]:
        count = int(o.changed[rows, j].sum())
        if not count:
            return []
        length = max(1.5, count / top * (room - 30))
        bar = Rect(x, y + 7, length, STEP - 14, "new", 0.6, 1.5)
        return [bar, Text(x + length + 5, y + STEP / 2 + 4, str(count), 11, "soft")]

    return table(o, "Which features matter", "How many rows change the feature.", width, cell)


def changes_picture(o: Overview, width: float) -> Drawing:
    """The typical change of each feature, by pair of classes."""
    reach = 1.0
    for j in o.top():
        for *_, rows in o.columns(width):
            moves = o.moves[rows & o.changed[:, j], j]
            if len(moves):
                reach = max(reach, float(np.abs(np.quantile(moves, [0.25, 0.75])).max()))

    def cell(j: int, rows: Bools, x: float, y: float, room: float) -> list[Mark]:
        at = rows & o.changed[:, j]
        axis = Axis(-reach, reach, x + 6, x + room - 6)
        middle = y + STEP / 2
        marks: list[Mark] = [line(axis(0), y + 4, axis(0), y + STEP - 4)]
        feature = o.schema.features[j]
        if not at.any():
            return marks
        if isinstance(feature, Categorical):
            code, count = Counter(o.chosen[at, j].tolist()).most_common(1)[0]
            text = f"→ {feature.label(feature.categories[int(code)])}"
            more = f" ({count} of {int(at.sum())})" if count < at.sum() else ""
            text = text + more if text_width(text + more, 11) <= room else fit(text, room, 11)
            return [Text(x, middle + 4, text, 11, "new")]
        low, median, high = np.quantile(o.moves[at, j], [0.25, 0.5, 0.75]).tolist()
        marks.append(line(axis(low), middle, axis(high), middle, "new", 3))
        return [*marks, Dot(axis(median), middle, 5.5, "up" if median > 0 else "down", "new", "paper", 1)]

    mark = max(v for v in (p * m for p in (0.1, 1.0, 10.0, 100.0) for m in (1, 2, 5)) if v <= reach)

    def foot(_: int, rows: Bools, x: float, y: float, room: float) -> list[Mark]:
        axis = Axis(-reach, reach, x + 6, x + room - 6)
        shown = ((-mark, tick(-mark)), (0.0, "0"), (mark, f"+{tick(mark)}"))
        return [Text(axis(v), y + 13, text, 11, "soft", "middle") for v, text in shown]

    note = (
        "Change in spreads (standard deviations in training): a triangle at the median, pointing the way of the "
        "change, and a line over the middle half. Of a category, the one most often chosen."
    )
    return table(o, "How they typically change", note, width, cell, foot)


def heatmap_picture(o: Overview, width: float) -> Drawing:
    """A column per row: bars up or down for numbers, diamonds for categories."""
    shown = np.array(thinned(range(len(o.pair)), MAX_ROWS), dtype=np.int64)
    inner = width - 2 * MARGIN
    top = o.top()
    if not top:
        return empty_drawing("Row by row", width)
    marks, y = paragraph("Row by row", MARGIN - 8, inner, 17, bold=True)
    lines = RowLayout.of(o, top, width)
    gutter = lines.gutter
    step = (inner - gutter) / len(shown)
    marks += pair_headings(o, shown, gutter, step, y, len(top) * lines.step)
    y += 42
    moves = o.moves[shown][:, top]
    used = np.abs(moves[moves != 0])
    full_height = float(np.quantile(used, 0.95)) if len(used) else 1.0
    for column, j in enumerate(top):
        marks.append(lines.name(o.name(j), y, inner))
        middle = y + lines.above + STEP / 2
        marks.append(line(gutter, middle, inner, middle, width=0.6))
        for k in np.flatnonzero(o.changed[shown, j]).tolist():
            x, move = gutter + k * step, float(moves[k, column])
            bar = max(0.8, min(step - 0.4, 14))
            if isinstance(o.schema.features[j], Categorical):
                marks.append(Dot(x + step / 2, middle, min(4.0, max(1.5, step / 2)), "diamond", "soft", "", 0))
            else:
                high = max(1.5, min(1.0, abs(move) / full_height) * (STEP / 2 - 2))
                at = middle - high if move > 0 else middle
                marks.append(Rect(x + (step - bar) / 2, at, bar, high, "new" if move > 0 else "old", 0.85))
        y += lines.step
    rows_shown = f"{len(shown)} of the {len(o.pair)}" if len(shown) < len(o.pair) else f"the {len(o.pair)}"
    note = (
        f"Each column is one of {rows_shown} explained rows. Bars: up for a higher value, down for a lower one; full "
        f"height is {tick(float(f'{full_height:.2g}'))} spreads or more. Diamonds: another category."
    )
    note_marks, y = paragraph(note, y + 8, inner, 11.5, "soft")
    ups, downs = int((o.moves > 0).sum()), int((o.moves < 0).sum())
    words = f"{len(o.pair)} explained rows by {len(top)} features: {ups} values go up, {downs} go down."
    return Drawing(width, y + MARGIN - 8, "Row by row", words, (Group(MARGIN, 0, (*marks, *note_marks)),))


def pair_headings(
    o: Overview, shown: npt.NDArray[np.int64], x: float, step: float, y: float, high: float
) -> list[Mark]:
    """The classes above their rows, where they fit, and lines between pairs."""
    marks: list[Mark] = []
    for k, (original, contrast, _) in enumerate(o.pairs):
        at = np.flatnonzero(o.pair[shown] == k)
        if not len(at):
            continue
        left, room = x + at[0] * step, len(at) * step - 6
        if at[0] and room > 4:
            marks.append(line(left - 0.5, y + 8, left - 0.5, y + 42 + high))
        if room > 44:
            marks.append(Text(left + 3, y + 18, fit(original, room, 11.5, True), 11.5, "old", bold=True))
            marks.append(Text(left + 3, y + 33, fit(f"→ {contrast}", room, 11.5, True), 11.5, "new", bold=True))
    return marks


KINDS: dict[str, Callable[[Overview, float], Drawing]] = {
    "features": features_picture,
    "changes": changes_picture,
    "heatmap": heatmap_picture,
}


def batch_picture(o: Overview, kind: str, *, width: float = 760.0) -> Drawing:
    """A picture of a batch: "features", "changes" or "heatmap"."""
    if kind not in KINDS:
        raise GraceError(f"kind={kind!r} is unknown; use one of {', '.join(KINDS)}")
    return KINDS[kind](o, width)
