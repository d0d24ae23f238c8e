"""One run on one table: the network, its explainer, the test rows, and a cache of their explanations."""

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
    """One run (seed) of the experiments on a table. The network is trained once and saved in `folder`."""

    def __init__(self, table: Table, run: int, folder: Path | None = None) -> None:
        self.table, self.run, self.folder = table, run, folder
        self.parts = table.split(run)
        self._batches: dict[tuple[Any, ...], Explanations] = {}

    @cached_property
    def model(self) -> Model:
        if self.folder is not None and (self.folder / HEAD).exists():
            try:
                return store.load(self.folder).model
            except GraceError:
                pass  # damaged: train again
        model = training.fit(self.table, seed=self.run)
        if self.folder is None:
            return model
        fresh = self.folder.with_name(f".{self.folder.name}.part")
        shutil.rmtree(fresh, ignore_errors=True)
        store.save(Explainer(model, self.parts.train, among="nearest"), fresh, background=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        fresh.rename(self.folder)
        return store.load(self.folder).model

    @cached_property
    def explainer(self) -> Explainer:
        return Explainer(self.model, self.parts.train, among="nearest")

    @cached_property
    def test(self) -> pd.DataFrame:
        return self.model.impute(self.parts.test)

    def explain(self, method: str, *, max_rows: int | None = None, **settings: Any) -> Explanations:
        """Explain the first `max_rows` test rows in the paper's domain; cached."""
        rows = self.test if max_rows is None else self.test.head(max_rows)
        key = (method, len(rows), *sorted(settings.items()))
        if key not in self._batches:
            self._batches[key] = self.explainer.explain(rows, method=method, domain=DOMAIN, **settings)
        return self._batches[key]
