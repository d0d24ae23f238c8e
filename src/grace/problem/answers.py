"""The answers to a batch of rows, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from grace.schema.features import Bools, Floats

NOT_ASKED = -1

Entries = npt.NDArray[Any]


def repeated(value: Any, shape: int | tuple[int, ...]) -> Entries:
    """An array of the same value everywhere, which takes no memory and cannot be written to."""
    return np.broadcast_to(value, shape)


@dataclass(frozen=True)
class Cells:
    """Cells of rows and their new values, in the order of the rows."""

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    value: Floats

    @classmethod
    def between(cls, rows: Floats, others: Floats) -> Cells:
        """Where rows differ from others, and the values of the others."""
        row, column = np.nonzero(rows != others)
        return cls(row, column, others[row, column])

    def placed_in(self, rows: Floats) -> Floats:
        """A copy of the rows with the new values."""
        out = rows.copy()
        out[self.row, self.column] = self.value
        return out


NO_CELLS = Cells(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


@dataclass(frozen=True)
class Answers:
    """What was found, one entry per row. Contrastive rows are given by the cells in which they differ."""

    rows: Floats
    differing: Cells
    success: Bools
    trivial: Bools  # asked for the class the row has already
    before: Floats  # scores
    after: Floats
    distance: Floats
    proof: npt.NDArray[np.int64]  # PROVEN that nothing smaller exists (a miss: nothing at all), also EXCEPT_TIES; OPEN
    #                               or NOT_ASKED
    nearest: Floats  # proven: with these features nothing is nearer than this; NaN if not asked
    checks: Mapping[str, Bools]
    following: Bools | None = None  # cells that differ because they follow others, see `requirements.consequences`
    alternatives: tuple[Answers, ...] = ()

    @cached_property
    def contrast(self) -> Floats:
        """The contrastive rows, the original one where there is none."""
        return self.differing.placed_in(self.rows)

    @property
    def followed(self) -> Bools:
        """The cells that differ because they follow others; not to be written to."""
        return repeated(False, self.rows.shape) if self.following is None else self.following

    @property
    def changed(self) -> Bools:
        """The cells that were changed, without those that followed."""
        cells = np.zeros(self.rows.shape, dtype=bool)
        cells[self.differing.row, self.differing.column] = True
        return cells if self.following is None else cells & ~self.following

    @property
    def moved(self) -> Floats:
        """The rows after the intervention alone, without its consequences."""
        return self.contrast if self.following is None else np.where(self.following, self.rows, self.contrast)

    def with_contrast(self, contrast: Floats, **others: Any) -> Answers:
        """The same with other contrastive rows."""
        return replace(self, differing=Cells.between(self.rows, contrast), **others).keep(contrast)

    def keep(self, contrast: Floats) -> Answers:
        """Keep the contrastive rows, which need not be made of the differing cells then."""
        vars(self)["contrast"] = contrast
        return self

    def select(self, places: npt.NDArray[np.int64]) -> Answers:
        """The first answers to some of the rows."""
        arrays = {name: getattr(self, name)[places] for name in ARRAYS}
        contrast = self.contrast[places]
        differing = Cells.between(arrays["rows"], contrast)
        checks = {k: v[places] for k, v in self.checks.items()}
        following = None if self.following is None else self.following[places]
        return Answers(**arrays, differing=differing, checks=checks, following=following).keep(contrast)

    @classmethod
    def join(cls, parts: list[Answers], rows: Floats | None = None) -> Answers:
        """The answers to several chunks, one after another; `rows` are those of all chunks, if they are known."""
        if len(parts) == 1:
            return parts[0]
        whole = np.concatenate([p.rows for p in parts]) if rows is None else rows
        arrays = {name: _joined([getattr(p, name) for p in parts]) for name in ARRAYS if name != "rows"}
        cells = _joined_cells([p.differing for p in parts], [len(p.rows) for p in parts])
        known = any(p.following is not None for p in parts)
        following = np.concatenate([p.followed for p in parts]) if known else None
        named = list(dict.fromkeys(k for p in parts for k in p.checks))
        checks = {k: np.concatenate([p.checks.get(k, np.zeros_like(p.success)) for p in parts]) for k in named}
        most = max(len(p.alternatives) for p in parts)
        padded = [(*p.alternatives, *(p.missed() for _ in range(most - len(p.alternatives)))) for p in parts]
        others = tuple(cls.join(list(same), whole) for same in zip(*padded, strict=True))
        return cls(rows=whole, differing=cells, **arrays, checks=checks, following=following, alternatives=others)

    def missed(self) -> Answers:
        """The same rows without any answer."""
        return replace(
            self,
            differing=NO_CELLS,
            success=np.zeros_like(self.success),
            trivial=self.trivial.copy(),
            before=self.before.copy(),
            after=self.before.copy(),
            distance=np.zeros_like(self.distance),
            proof=repeated(NOT_ASKED, len(self.rows)),
            nearest=repeated(np.nan, len(self.rows)),
            checks={k: np.zeros_like(v) for k, v in self.checks.items()},
            following=None,
            alternatives=(),
        )


ARRAYS = tuple(f.name for f in fields(Answers) if f.name not in ("differing", "checks", "following", "alternatives"))


def _joined(parts: list[Entries]) -> Entries:
    """Arrays one after another; if all repeat the same value, so does the result."""
    first = parts[0]
    if all(p.strides == (0,) for p in parts) and len({p[:1].tobytes() for p in parts}) == 1:
        return repeated(first[0], sum(len(p) for p in parts))
    return np.concatenate(parts)


def _joined_cells(parts: list[Cells], lengths: list[int]) -> Cells:
    """The cells of several chunks of so many rows, as those of all rows."""
    row, column, value = (np.concatenate([getattr(p, name) for p in parts]) for name in ("row", "column", "value"))
    ends = np.cumsum([len(p.row) for p in parts])
    for rows, start in zip(np.split(row, ends[:-1]), np.cumsum([0, *lengths[:-1]]), strict=True):
        rows += start
    return Cells(row, column, value)
