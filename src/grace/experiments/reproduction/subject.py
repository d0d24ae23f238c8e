"""A table and a run: the network, its explainer, its test rows, and what was asked about them already."""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from grace import training
from grace.datasets import Table
from grace.errors import GraceError
from grace.explain import store
from grace.explain.explainer import Explainer
from grace.explain.explanations import Explanations
from grace.explain.saved_header import HEAD
from grace.models.base import Model

DOMAIN = "minmax"  # the paper's


class Subject:
    """What one run of the paper's experiments is about. The network is trained once and kept in `place`."""

    def __init__(self, table: Table, run: int, place: Path | None = None) -> None:
        self.table, self.run, self.place = table, run, place
        self.parts = table.split(run)
        self._asked: dict[tuple[Any, ...], Explanations] = {}

    @cached_property
    def model(self) -> Model:
        if self.place is not None and (self.place / HEAD).exists():
            try:
                return store.load(self.place).model
            except GraceError:
                pass  # damaged: trained again
        model = training.fit(self.table, seed=self.run)
        if self.place is None:
            return model
        fresh = self.place.with_name(f".{self.place.name}.part")
        shutil.rmtree(fresh, ignore_errors=True)
        store.save(Explainer(model, self.parts.train), fresh, background=False)
        shutil.rmtree(self.place, ignore_errors=True)
        fresh.rename(self.place)
        return store.load(self.place).model

    @cached_property
    def explainer(self) -> Explainer:
        return Explainer(self.model, self.parts.train)

    @cached_property
    def test(self) -> pd.DataFrame:
        return self.model.impute(self.parts.test)

    def ask(self, method: str, *, most: int | None = None, **settings: Any) -> Explanations:
        """Explain the first `most` test rows in the paper's domain; the same question is asked once."""
        rows = self.test if most is None else self.test.head(most)
        key = (method, len(rows), *sorted(settings.items()))
        if key not in self._asked:
            self._asked[key] = self.explainer.explain(rows, method=method, domain=DOMAIN, **settings)
        return self._asked[key]
