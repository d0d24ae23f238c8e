"""Trained explainers of the embedded tables, and explanations made by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pandas as pd

import grace
from grace import Change, Explanation, Schema, datasets, training
from grace.text import languages
from grace.text import sentence as text


def templates(e: Explanation, code: str) -> list[tuple[str, int]]:
    """The templates that fit the explanation."""
    forms = [f for f in languages.FORMS if f != "typical" or text.comparable(e)]
    return [(form, place) for form in forms for place in range(len(languages.load(code).TEMPLATES[form]))]


@cache
def explainer_of(name: str) -> tuple[grace.Explainer, pd.DataFrame]:
    table = datasets.load(name)
    parts = table.split(0)
    train = parts.train.head(2000)
    epochs = 8 if len(train) > 1500 else 40
    model = training.fit(train, schema=table.declared, recipe=training.RECIPES.get(name), max_epochs=epochs)
    return grace.Explainer(model, train), model.impute(parts.test)


def made(
    schema: Schema, row: dict, changes: tuple[Change, ...], classes: tuple[str, str], typical: dict[str, float]
) -> Explanation:
    return Explanation(
        row=row,
        changes=changes,
        classes=classes,
        original_class=classes[1],
        contrast_class=classes[0],
        before=(0.2, 0.8),
        after=(0.6, 0.4),
        success=True,
        miss=None,
        proof=None,
        checks={},
        distance=1.0,
        remarks=(),
        settings={},
        words=replace(schema, features=()),
        typical=typical,
    )
