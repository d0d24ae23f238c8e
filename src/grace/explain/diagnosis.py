"""Reasons: which limit keeps a row from an answer, and what would help, found by really trying it.

What helps is a dict that any language can say: the "limit" to lift and the "value" that would have been enough.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from grace.problem.requirements.dependence import asked_for
from grace.schema.limits import names_in
from grace.schema.rules.keeping import broken_rules

if TYPE_CHECKING:
    from grace.explain.explanations import Explanations

DIRECT = ("frozen", "increase_only", "decrease_only", "ranges")
LIMITS = (*DIRECT, "only")
"""Limits on features that are lifted. Protected features stay protected: that they be changed is never proposed."""
ORDER = ("against", "free", "domain", "gamma", "max_features", "confidence", "rules", "follow")
"""Which comes first of ways with as many changes."""

LimitChange = dict[str, Any]


def diagnose(batch: Explanations) -> dict[int, list[LimitChange]]:
    """For each row without an answer, what would make one possible, the fewest changes first."""
    left_out = False if batch.spent is None else batch.spent.left_out  # the model may not be asked about these
    rows = [int(i) for i in np.flatnonzero(~batch.success & ~batch.answers.trivial & ~np.asarray(left_out))]
    if not rows:
        return {}
    out: dict[int, list[LimitChange]] = {}
    if batch.call["method"] != "search" and may_ask(batch, rows):
        by_search = batch.ask_again(rows, method="search", prove=False, n=1).success
        out = {i: [{"limit": "method", "value": "search"}] for i, ok in zip(rows, by_search, strict=True) if ok}
        rows = [i for i in rows if i not in out]
    found: dict[int, list[tuple[int, int, LimitChange]]] = {i: [] for i in rows}
    for changes in relaxations(batch) if rows else []:
        some = _try(batch, rows, changes, found)
        if LIMITS[0] in changes:
            _each_alone(batch, some, found)
    return out | {i: [way for *_, way in sorted(ways, key=lambda w: w[:2])] for i, ways in found.items()}


def _try(
    batch: Explanations, rows: list[int], changes: dict[str, Any], found: dict[int, list[tuple[int, int, LimitChange]]]
) -> list[int]:
    """Note for each row whether a limit, lifted, leads to an answer; the rows where it does."""
    if not rows or not may_ask(batch, rows):
        return []
    again = batch.ask_again(rows, method="search", prove=False, n=1, **changes)
    helped = [(place, i) for place, i in enumerate(rows) if again.success[place]]
    for place, i in helped:
        way = limit_change(batch, again, place, changes)
        found[i].append((int(again.changed.iloc[place].sum()), ORDER.index(way["limit"]), way))
    return [i for _, i in helped]


def _each_alone(batch: Explanations, rows: list[int], found: dict[int, list[tuple[int, int, LimitChange]]]) -> None:
    """Free each limited feature on its own where freeing all of them helped; that all do is no news if one does."""
    helpful = {n for i in rows for n in found[i][-1][2]["value"]}
    barred = set(barred_by_only(batch))  # there may be very many that would not help
    names = [n for n in limited(batch) if n not in barred or n in helpful]
    if len(names) < 2:
        return
    together = {i: found[i].pop() for i in rows}
    for name in names:
        _try(batch, rows, without(batch, [name]), found)
    for i, way in together.items():
        if not any(w["limit"] == "free" for *_, w in found[i]):
            found[i].append(way)


def limited(batch: Explanations) -> list[str]:
    """The features on which the call has limits that can be lifted."""
    named = [n for part in DIRECT for n in names_in(batch.call[part])]
    able = set(changeable(batch))
    return [n for n in dict.fromkeys([*named, *barred_by_only(batch)]) if n in able]


def barred_by_only(batch: Explanations) -> list[str]:
    """The features that may not change because `only` does not name them."""
    only = names_in(batch.call["only"])
    return [n for n in changeable(batch) if n not in only] if only else []


def changeable(batch: Explanations) -> list[str]:
    """The features that may change if no limit of the call holds: all that are neither frozen in the explainer's schema
    nor protected."""
    own = batch.explainer.schema
    return [f.name for f in batch.schema.features if not f.protected and not own[f.name].frozen]


def without(batch: Explanations, names: Collection[str]) -> dict[str, Any]:
    """The limits of the call without those on some features. All that may change is named where something is protected,
    so that what the call has asked for by name stays asked for."""
    out: dict[str, Any] = {
        part: [n for n in names_in(batch.call[part]) if n not in names]
        for part in ("frozen", "increase_only", "decrease_only")
    }
    out["ranges"] = {n: span for n, span in (batch.call["ranges"] or {}).items() if n not in names} or None
    only = names_in(batch.call["only"])
    if only or any(f.protected for f in batch.explainer.schema.features):
        able = [n for n in changeable(batch) if n not in out["frozen"] and (not only or n in only or n in names)]
        out["only"] = able or None
    else:
        out["only"] = None
    return out


def may_ask(batch: Explanations, rows: list[int]) -> bool:
    """Whether a black box may still be asked about so many rows, and more."""
    return batch.calls_left is None or batch.calls_left > len(rows)


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
    if limited(batch):
        out.append(without(batch, batch.schema.names))
    if call["against"] is not None and batch.explainer.model.task != "regression":
        out.append({"against": None})
    if call["confidence"] > 0:
        out.append({"confidence": 0.0})
    if batch.schema.rules:
        out.append({"rules": ()})
    if asked_for(call["follow"]):
        out.append({"follow": ()})
    return out


def limit_change(batch: Explanations, again: Explanations, place: int, changes: dict[str, Any]) -> LimitChange:
    """What helped, with the least that would have been enough."""
    changed = np.flatnonzero(again.changed.iloc[place].to_numpy())
    if "max_features" in changes:
        return {"limit": "max_features", "value": len(changed)}
    if "gamma" in changes:
        su = batch.explainer.su
        assert su is not None
        pairs = [su[i, j] for i in changed for j in changed if i < j]
        most = float(np.ceil(max(pairs, default=0.0) * 100) / 100)
        # what is redundant on the way to an answer need not be in it
        return {"limit": "gamma", "value": most if most > batch.call["gamma"] else changes["gamma"]}
    if "domain" in changes:
        return {"limit": "domain", "value": "minmax"}
    if "against" in changes:
        return {"limit": "against", "value": again.contrast_class[place]}
    if "confidence" in changes:
        return {"limit": "confidence"}
    if "rules" in changes:
        wrong = broken_rules(batch.schema, again.answers.contrast[[place]])[0]
        names = [str(rule) for rule in batch.schema.rules]
        return {"limit": "rules", "value": [names[k] for k in np.flatnonzero(wrong)] or names}
    if "follow" in changes:
        return {"limit": "follow"}
    names = [batch.schema.names[j] for j in changed]
    still = {part: names_in(changes[part]) for part in LIMITS}
    lifted = {n for part in DIRECT for n in names_in(batch.call[part]) if n not in still[part]}
    lifted |= {n for n in barred_by_only(batch) if n in still["only"]}
    lifted &= set(changeable(batch))
    return {"limit": "free", "value": [n for n in names if n in lifted] or sorted(lifted)}
