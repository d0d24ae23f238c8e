"""Whether answers about a tree ensemble are what they claim to be, by the reference."""

from __future__ import annotations

from collections import Counter

import numpy as np

from grace.models.predictor import tree_ensemble
from grace.proofs.certificate import EXCEPT_TIES, OPEN, PROVEN
from tree_cases import Case
from tree_reference import Question, Truth, decided, question_of, reached, said, truth

VERDICTS = {OPEN: "open", PROVEN: "proven", EXCEPT_TIES: "except ties"}
CLOSE = 1e-6  # what neighbouring floats of single precision amount to, relative


def kept(case: Case) -> Counter[str]:
    """Compare all answers to a question with the reference; returns what was met."""
    assert tree_ensemble(case.explainer.model) is not None
    question = question_of(case.explainer, case.estimator, case.rows, case.call)
    answers = case.explainer.explain(case.rows, among="nearest", **case.call).answers
    steady = case.explainer.explain(case.rows, **{**case.call, "prove": False}).answers
    assert (steady.success == answers.success).all()
    assert tree_ensemble(case.explainer.model) is not None, "the model did not confirm what its trees say"
    met: Counter[str] = Counter()
    for i in range(len(case.rows)):
        if answers.trivial[i]:
            met["trivial"] += 1
            continue
        true = truth(question, i)
        changed = np.flatnonzero(answers.contrast[i] != answers.rows[i])
        if answers.success[i]:
            holds(question, i, answers.contrast[i])
            compare(question, true, len(changed), float(answers.distance[i]), case.call.get("prefer") == "nearest")
            holds(question, i, steady.contrast[i])
            assert (steady.contrast[i] != steady.rows[i]).sum() == len(changed)
            met["answers"] += 1
        else:
            assert true.fewest is None, (i, true)
            met["misses"] += 1
        if case.call.get("prove"):
            loosely = truth(question, i, decided)
            if answers.proof[i] == EXCEPT_TIES:
                assert true.fewest is None or true.fewest >= len(changed) > 0, (i, true)
            if answers.proof[i] == PROVEN:
                assert loosely.fewest is None or loosely.fewest >= len(changed) > 0, (i, loosely)
            met[VERDICTS[int(answers.proof[i])]] += 1
            if answers.success[i]:
                least = min(some.nearest(within=changed.tolist()) for some in (true, loosely))
                assert answers.nearest[i] <= least * (1 + CLOSE) + 1e-9, (i, answers.nearest[i], true)
                met["tight"] += bool(answers.nearest[i] >= least * (1 - CLOSE) - 1e-6)
    return met


def holds(question: Question, i: int, row: np.ndarray) -> None:
    """An answer reaches the goal, within its limits."""
    problem = question.problem
    assert reached(question, i, row[None])[0]
    changed = np.flatnonzero(row != problem.rows[i].numpy())
    assert 0 < len(changed) <= problem.max_features
    for j in changed:
        assert problem.free[i, j]
        assert problem.low[i, j] <= row[j] <= problem.high[i, j]
        assert not problem.space.is_integer[j] or row[j] == round(row[j])
        assert j not in problem.space.choices or row[j] in problem.space.choices[j]
        assert not problem.conflict[j, changed[changed != j]].any()


def compare(question: Question, true: Truth, count: int, far: float, nearest: bool) -> None:
    """An answer changes as few features as there is an answer with, and is as near as they say."""
    least = true.nearest(None if nearest else true.fewest)
    assert nearest or count == true.fewest, (count, true)
    most = question.problem.max_features if nearest else count
    assert least * (1 - CLOSE) - 1e-6 <= far <= least * (1 + CLOSE) + 2 * said(question, most) + 1e-6, (far, true)
