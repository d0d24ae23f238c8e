"""Redo the figures of docs/pictures.md and docs/decisions.md: python docs/make_figures.py (half a minute)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import grace
from grace import datasets, training
from grace.explain.decisions.profile import Profile

HERE = Path(__file__).parent / "pictures"
LARGEST = 100_000  # bytes
GIVEN = ("capital_gain", "capital_loss", "fnlwgt", "sex", "race", "native_country", "relationship")


def case_study() -> grace.Explanation:
    """The patient of the paper's case study, whom the network has not seen."""
    table = datasets.load("cancer95")
    patient = datasets.is_case_study(table.frame)
    parts = datasets.split(table.frame[~patient], table.target, seed=0)
    recipe = training.RECIPES["cancer95"]
    model = training.fit(parts.train, schema=table.declared, recipe=recipe, validation=parts.validation)
    return grace.Explainer(model, parts.train).explain(table.frame[patient], prove=True, n=3)[0]


def unseen(name: str, frozen: Sequence[str] = ()) -> grace.Explanations:
    """The paper's network for a table, asked about test rows."""
    table = datasets.load(name)
    parts = table.split(seed=0)
    model = training.fit(table, seed=0)
    return grace.Explainer(model, parts.train).explain(model.impute(parts.test.head(200)), frozen=frozen)


def patient_alone() -> Profile:
    """What each feature of a patient does alone, as in docs/decisions.md."""
    table = datasets.load("diabetes")
    parts = table.split(seed=0)
    model = training.fit(table, seed=0)
    return grace.Explainer(model, parts.train).profile(parts.test.iloc[[1]])[0]


def with_changes(batch: grace.Explanations, count: int) -> grace.Explanation:
    """The first row of the batch that needs so many changes."""
    return batch[int(np.flatnonzero(batch.changed.sum(axis=1) == count)[0])]


def write(name: str, picture: str) -> None:
    (HERE / name).write_text(picture + "\n", encoding="utf-8")


def main() -> None:
    torch.set_num_threads(1)
    HERE.mkdir(exist_ok=True)
    patient = case_study()
    write("cancer95.svg", patient.to_svg(theme="light"))
    write("cancer95-dark.svg", patient.to_svg(theme="dark"))
    write("spam.svg", with_changes(unseen("spam"), 1).to_svg(theme="light"))
    write("profile.svg", patient_alone().to_svg(theme="light"))
    adult = unseen("adult", frozen=GIVEN)
    write("adult.svg", with_changes(adult, 3).to_svg(theme="light"))
    write("adult-changes.svg", adult.to_svg("changes", theme="light"))
    segment = unseen("segment")
    write("segment.svg", with_changes(segment, 1).to_svg(theme="light"))
    for kind in ("features", "heatmap"):
        write(f"segment-{kind}.svg", segment.to_svg(kind, theme="light"))
    for file in sorted(HERE.iterdir()):
        print(f"{file.name}: {file.stat().st_size:,} bytes")
        assert file.stat().st_size < LARGEST, file


if __name__ == "__main__":
    main()
