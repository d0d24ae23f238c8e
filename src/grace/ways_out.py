"""Reasons: which limit keeps a row from an answer, and what would help, found by really trying it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grace.text import listed

if TYPE_CHECKING:
    from grace.batch import Explanations

LIMITS = ("frozen", "increase_only", "decrease_only", "ranges")


def ways_out(batch: Explanations) -> dict[int, list[str]]:
    """For each row without an answer, what would make one possible, the fewest changes first."""
    rows = [int(i) for i in np.flatnonzero(~batch.success & ~batch.answers.trivial)]
    if not rows:
        return {}
    out: dict[int, list[str]] = {}
    if batch.call["method"] != "search":
        by_search = batch.ask_again(rows, method="search", prove=False, n=1).success
        out = {i: ["possible with method='search'"] for i, ok in zip(rows, by_search, strict=True) if ok}
        rows = [i for i in rows if i not in out]
    found: dict[int, list[tuple[int, str]]] = {i: [] for i in rows}
    for changes in relaxations(batch) if rows else []:
        again = batch.ask_again(rows, method="search", prove=False, n=1, **changes)
        for place, i in enumerate(rows):
            if again.success[place]:
                found[i].append((int(again.changed.iloc[place].sum()), said(batch, again, place, changes)))
    return out | {i: [words for _, words in sorted(ways)] for i, ways in found.items()}


def relaxations(batch: Explanations) -> list[dict[str, Any]]:
    """Each limit of the question lifted on its own, where it is one."""
    call = batch.call
    out: list[dict[str, Any]] = []
    if call["max_features"] < len(batch.schema):
        out.append({"max_features": min(2 * call["max_features"] + 5, len(batch.schema))})
    if call["gamma"] < 1:
        out.append({"gamma": 1.0})
    if call["domain"] != "minmax" and "minmax" in batch.explainer.schemas:
        out.append({"domain": "minmax"})
    if any(call[name] for name in LIMITS):
        out.append(dict.fromkeys(LIMITS[:3], ()) | {"ranges": None})
    if call["against"] is not None:
        out.append({"against": None})
    if call["confidence"] > 0:
        out.append({"confidence": 0.0})
    return out


def said(batch: Explanations, again: Explanations, place: int, changes: dict[str, Any]) -> str:
    """What helped, with the least that would have been enough."""
    changed = np.flatnonzero(again.changed.iloc[place].to_numpy())
    if "max_features" in changes:
        return f"possible with max_features={len(changed)}"
    if "gamma" in changes:
        su = batch.explainer.su
        assert su is not None
        most = max(su[i, j] for i in changed for j in changed if i < j)
        return f"possible with gamma={np.ceil(most * 100) / 100:.2f}"
    if "domain" in changes:
        return "possible with domain='minmax'"
    if "against" in changes:
        return f"possible against {again.contrast_class[place]!r}"
    if "confidence" in changes:
        return "possible without the demand for confidence"
    names = [batch.schema.names[j] for j in changed]
    limited = {n for part in LIMITS for n in (batch.call[part] or ())}
    return f"possible if {listed([n for n in names if n in limited])} may change freely"
