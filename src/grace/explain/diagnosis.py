"""Diagnosis of misses: which limit prevents an answer, found by explaining the row again with each limit lifted.

A `LimitChange` is a dict: the "limit" to lift and the "value" that would have sufficed.
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
"""Limits on features that are lifted. Protected features stay protected: changing them is never proposed."""
ORDER = ("against", "free", "domain", "gamma", "max_features", "confidence", "rules", "follow")
"""The order of limits whose lifting leads to equally many changes."""

LimitChange = dict[str, Any]
Found = dict[int, list[tuple[int, int, LimitChange]]]
"""For each row, what would lead to an answer: the number of changed features, the position in `ORDER`, the change."""


def diagnose(batch: Explanations) -> dict[int, list[LimitChange]]:
    """For each row without an answer, the limits whose lifting leads to one, the fewest changed features first."""
    left_out = False if batch.spent is None else batch.spent.left_out  # the query limit is reached
    rows = [int(i) for i in np.flatnonzero(~batch.success & ~batch.answers.trivial & ~np.asarray(left_out))]
    if not rows:
        return {}
    out: dict[int, list[LimitChange]] = {}
    if batch.call["method"] != "search" and may_query(batch, rows):
        by_search = batch.explain_again(rows, method="search", prove=False, n=1).success
        out = {i: [{"limit": "method", "value": "search"}] for i, ok in zip(rows, by_search, strict=True) if ok}
        rows = [i for i in rows if i not in out]
    found: Found = {i: [] for i in rows}
    for changes in relaxations(batch) if rows else []:
        solved = _try(batch, rows, changes, found)
        if LIMITS[0] in changes:
            _free_single_features(batch, solved, found)
    return out | {i: [change for *_, change in sorted(items, key=lambda x: x[:2])] for i, items in found.items()}


def _try(batch: Explanations, rows: list[int], changes: dict[str, Any], found: Found) -> list[int]:
    """Explain rows with a limit lifted; adds to `found`, and returns the rows that have an answer then."""
    if not rows or not may_query(batch, rows):
        return []
    again = batch.explain_again(rows, method="search", prove=False, n=1, **changes)
    solved = np.flatnonzero(again.success).tolist()
    for k in solved:
        change = limit_change(batch, again, k, changes)
        found[rows[k]].append((int(again.changed.iloc[k].sum()), ORDER.index(change["limit"]), change))
    return [rows[k] for k in solved]


def _free_single_features(batch: Explanations, rows: list[int], found: Found) -> None:
    """Lift the limits of single features where lifting those of all features helped; replaces the entry of all features
    if any single one suffices."""
    helpful = {n for i in rows for n in found[i][-1][2]["value"]}
    barred = set(barred_by_only(batch))  # possibly very many features: only those that changed are tried
    names = [n for n in limited(batch) if n not in barred or n in helpful]
    if len(names) < 2:
        return
    together = {i: found[i].pop() for i in rows}
    for name in names:
        _try(batch, rows, without(batch, [name]), found)
    for i, entry in together.items():
        if not any(change["limit"] == "free" for *_, change in found[i]):
            found[i].append(entry)


def limited(batch: Explanations) -> list[str]:
    """The features on which the call has limits that can be lifted."""
    named = [n for part in DIRECT for n in names_in(batch.call[part])]
    allowed = set(changeable(batch))
    return [n for n in dict.fromkeys([*named, *barred_by_only(batch)]) if n in allowed]


def barred_by_only(batch: Explanations) -> list[str]:
    """The features that may not change because `only` does not name them."""
    only = names_in(batch.call["only"])
    return [n for n in changeable(batch) if n not in only] if only else []


def changeable(batch: Explanations) -> list[str]:
    """The features that may change without the limits of the call: neither frozen in the explainer's schema nor
    protected."""
    schema = batch.explainer.schema
    return [f.name for f in batch.schema.features if not f.protected and not schema[f.name].frozen]


def without(batch: Explanations, names: Collection[str]) -> dict[str, Any]:
    """The limits of the call without those on some features. If any feature is protected, `only` names all that may
    change, so that protected features which the call names stay available."""
    out: dict[str, Any] = {
        part: [n for n in names_in(batch.call[part]) if n not in names]
        for part in ("frozen", "increase_only", "decrease_only")
    }
    out["ranges"] = {n: span for n, span in (batch.call["ranges"] or {}).items() if n not in names} or None
    only = names_in(batch.call["only"])
    if only or any(f.protected for f in batch.explainer.schema.features):
        allowed = [n for n in changeable(batch) if n not in out["frozen"] and (not only or n in only or n in names)]
        out["only"] = allowed or None
    else:
        out["only"] = None
    return out


def may_query(batch: Explanations, rows: list[int]) -> bool:
    """Whether the query limit of a black box leaves more than one query for each of the rows."""
    return batch.calls_left is None or batch.calls_left > len(rows)


def relaxations(batch: Explanations) -> list[dict[str, Any]]:
    """Changes of the call that each lift one limit, for all limits that apply."""
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


def limit_change(batch: Explanations, again: Explanations, k: int, changes: dict[str, Any]) -> LimitChange:
    """The limit that was lifted in `changes`, with the value that suffices for row k of the batch `again`."""
    changed = np.flatnonzero(again.changed.iloc[k].to_numpy())
    if "max_features" in changes:
        # a wider search may find an answer with as few changes as were allowed
        return {"limit": "max_features", "value": max(len(changed), batch.call["max_features"] + 1)}
    if "gamma" in changes:
        su = batch.explainer.su
        assert su is not None
        pairs = [su[i, j] for i in changed for j in changed if i < j]
        highest = float(np.ceil(max(pairs, default=0.0) * 100) / 100)
        # an answer may have no redundant pair, although the search for it needed one
        return {"limit": "gamma", "value": highest if highest > batch.call["gamma"] else changes["gamma"]}
    if "domain" in changes:
        return {"limit": "domain", "value": "minmax"}
    if "against" in changes:
        return {"limit": "against", "value": again.contrast_class[k]}
    if "confidence" in changes:
        return {"limit": "confidence"}
    if "rules" in changes:
        violated = broken_rules(batch.schema, again.answers.contrast[[k]])[0]
        names = [str(rule) for rule in batch.schema.rules]
        return {"limit": "rules", "value": [names[j] for j in np.flatnonzero(violated)] or names}
    if "follow" in changes:
        return {"limit": "follow"}
    names = [batch.schema.names[j] for j in changed]
    still = {part: names_in(changes[part]) for part in LIMITS}
    lifted = {n for part in DIRECT for n in names_in(batch.call[part]) if n not in still[part]}
    lifted |= {n for n in barred_by_only(batch) if n in still["only"]}
    lifted &= set(changeable(batch))
    return {"limit": "free", "value": [n for n in names if n in lifted] or sorted(lifted)}
