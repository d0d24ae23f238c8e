"""The answers to a batch of rows, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from grace.schema.features import Bools, Floats

NOT_ASKED = -1


@dataclass(frozen=True)
class Answers:
    """What was found, one entry per row."""

    rows: Floats
    contrast: Floats
    success: Bools
    trivial: Bools  # asked for the class the row has already
    before: Floats  # scores
    after: Floats
    distance: Floats
    proof: npt.NDArray[np.int64]  # PROVEN that nothing smaller exists (a miss: nothing at all), OPEN or NOT_ASKED
    nearest: Floats  # proven: with these features nothing is nearer than this; NaN if not asked
    checks: Mapping[str, Bools]
    followed: Bools  # cells that differ because they follow others, see `requirements.consequences`
    alternatives: tuple[Answers, ...] = ()

    @property
    def changed(self) -> Bools:
        """The cells that were changed, without those that followed."""
        return np.asarray((self.contrast != self.rows) & ~self.followed)

    def select(self, places: npt.NDArray[np.int64]) -> Answers:
        """The first answers to some of the rows."""
        arrays = {name: getattr(self, name)[places] for name in ARRAYS}
        return Answers(**arrays, checks={k: v[places] for k, v in self.checks.items()})

    @classmethod
    def join(cls, parts: list[Answers]) -> Answers:
        """The answers to several chunks, one after another."""
        if len(parts) == 1:
            return parts[0]
        arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in ARRAYS}
        named = list(dict.fromkeys(k for p in parts for k in p.checks))
        checks = {k: np.concatenate([p.checks.get(k, np.zeros_like(p.success)) for p in parts]) for k in named}
        most = max(len(p.alternatives) for p in parts)
        padded = [(*p.alternatives, *(p.missed() for _ in range(most - len(p.alternatives)))) for p in parts]
        others = tuple(cls.join(list(same)) for same in zip(*padded, strict=True))
        return cls(**arrays, checks=checks, alternatives=others)

    def missed(self) -> Answers:
        """The same rows without any answer."""
        return replace(
            self,
            contrast=self.rows.copy(),
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


ARRAYS = tuple(f.name for f in fields(Answers) if f.name not in ("checks", "alternatives"))
