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
    followed: Bools  # cells that differ because they follow others, see `requirements.consequences`
    alternatives: tuple[Answers, ...] = ()

    @cached_property
    def contrast(self) -> Floats:
        """The contrastive rows, the original one where there is none."""
        return self.differing.placed_in(self.rows)

    @property
    def changed(self) -> Bools:
        """The cells that were changed, without those that followed."""
        return np.asarray((self.contrast != self.rows) & ~self.followed)

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
        return Answers(**arrays, differing=differing, checks=checks).keep(contrast)

    @classmethod
    def join(cls, parts: list[Answers], rows: Floats | None = None) -> Answers:
        """The answers to several chunks, one after another; `rows` are those of all chunks, if they are known."""
        if len(parts) == 1:
            return parts[0]
        whole = np.concatenate([p.rows for p in parts]) if rows is None else rows
        arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in ARRAYS if name != "rows"}
        starts = np.cumsum([0, *(len(p.rows) for p in parts)])
        cells = Cells(
            np.concatenate([p.differing.row + start for p, start in zip(parts, starts[:-1], strict=True)]),
            np.concatenate([p.differing.column for p in parts]),
            np.concatenate([p.differing.value for p in parts]),
        )
        named = list(dict.fromkeys(k for p in parts for k in p.checks))
        checks = {k: np.concatenate([p.checks.get(k, np.zeros_like(p.success)) for p in parts]) for k in named}
        most = max(len(p.alternatives) for p in parts)
        padded = [(*p.alternatives, *(p.missed() for _ in range(most - len(p.alternatives)))) for p in parts]
        others = tuple(cls.join(list(same), whole) for same in zip(*padded, strict=True))
        return cls(rows=whole, differing=cells, **arrays, checks=checks, alternatives=others)

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
            proof=np.full_like(self.proof, NOT_ASKED),
            nearest=np.full_like(self.nearest, np.nan),
            checks={k: np.zeros_like(v) for k, v in self.checks.items()},
            followed=np.zeros_like(self.followed),
            alternatives=(),
        )


ARRAYS = tuple(f.name for f in fields(Answers) if f.name not in ("differing", "checks", "alternatives"))
