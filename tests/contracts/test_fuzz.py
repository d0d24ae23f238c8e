"""Random questions, every claim about them checked from outside: see `fuzz_cases`, `fuzz_review` and `milp_checker`.

A failure names its family and seed; `review(case_of(family, seed))` repeats it.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import grace
from fuzz_cases import FAMILIES, Case, case_of
from fuzz_parts import codes, question, sequential, table
from fuzz_review import Model, Report, answer_problems, check_proof, question_of, review, tried
from grace import datasets, training
from grace.models.relu import ReluNetwork
from grace.problem.goal import Against
from grace.problem.problem import Problem
from grace.proofs.compiled.aims import aims_of
from grace.proofs.compiled.rows import Aims
from subsets import first

SEEDS = 6
BLOCKS, ENOUGH = 50, 100  # 5,000 decided verdicts
PROVEN = sorted(set(FAMILIES) - {"voting", "disguised"})


def checked(case: Case, seconds: float = 20.0) -> Report:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about modules in disguise, and ranges that few values lie in
        return review(case, seconds)


@pytest.mark.parametrize("seed", first(2, range(SEEDS)))
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_false_is_said(family: str, seed: int) -> None:
    assert not checked(case_of(family, seed)).false


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_false_among_thousands_of_proofs(block: int) -> None:
    """Each block goes on until enough proofs are decided: no shorter change, none at all, or none nearer."""
    total, seed = Report(), 1000 * (block + 1)
    while total.decided < ENOUGH:
        for family in PROVEN:
            report = checked(case_of(family, seed))
            report.false = [f"{family} {seed}: {problem}" for problem in report.false]
            total.add(report)
        seed += 1
    assert not total.false
    assert total.unclear <= 0.1 * total.decided


@pytest.mark.slow
@pytest.mark.parametrize("family", ["disguised", "voting"])
@pytest.mark.parametrize("block", range(1, 11))
def test_nothing_false_about_what_is_no_network(family: str, block: int) -> None:
    for seed in range(1000 * block, 1000 * block + 30):
        assert not checked(case_of(family, seed)).false, (family, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["diabetes", "cancer95", "phoneme", "segment", "german_credit"])
def test_the_networks_of_tables(name: str) -> None:
    """Larger networks on some test rows; what the MILP does not decide in time is not counted."""
    data = datasets.load(name)
    parts = data.split(0)
    model = training.fit(data, seed=0)
    explainer = grace.Explainer(model, parts.train)
    rows = model.impute(parts.test).drop(columns=data.target).head(20)
    total = Report()
    calls: list[dict[str, object]] = [
        {"method": "search", "domain": "central"},
        {"method": "gradient", "domain": 0.9, "confidence": 0.9},
        {"method": "gradient", "domain": "central", "against": model.classes[0], "confidence": 0.95, "max_features": 1},
        {"method": "local", "domain": 0.9, "gamma": 1.0, "distance": "l2"},
    ]
    for call in calls:
        asked = {"prove": True, "max_features": 2, "gamma": 0.5, "distance": "l1", **call}
        total.add(checked(Case(explainer, rows, asked, model.module), seconds=3.0))
    assert not total.false
    assert total.decided > 20


# -- the fuzz itself: what is false is objected to ----------------------------------------------------


def a_case() -> tuple[Case, Model]:
    """Two numbers that are both needed, and a third that does nothing."""
    frame = table(np.random.default_rng(0), ["number", "number", "number"])
    x = codes(frame)
    module = nn.Sequential(nn.Linear(3, 2)).double()
    with torch.no_grad():
        weights = torch.tensor([1.0, 1.0, 0.0]) / x.std(dim=0)
        module[0].weight.copy_(torch.stack([0 * weights, weights]))
        module[0].bias.copy_(torch.stack([torch.tensor(3.0), -weights @ x.mean(dim=0)]))
    explainer = grace.Explainer(grace.wrap(module, classes=["c0", "c1"], outputs="logits"), frame)
    call = {"prove": True, "max_features": 3, "gamma": 1.0, "distance": "l1", "domain": "minmax"}
    middle = frame.median().to_frame().T
    case = Case(explainer, middle, call, module)
    return case, Model(case)


def objections(case: Case, model: Model, e: grace.Explanation) -> list[str]:
    x, report = model.encode(case.rows.iloc[0].to_dict()), Report()
    known = question_of(case, model, x, e)
    report.false += answer_problems(case, model, known, x, e)
    if e.proof is not None:
        check_proof(case, model, known, e, report, "row 0")
    return report.false


def test_true_words_are_not_objected_to() -> None:
    case, model = a_case()
    e = case.explainer.explain(case.rows, **case.call)[0]
    assert e.proof["verdict"] == "minimal"
    assert len(e.changes) == 2
    assert objections(case, model, e) == []


def test_false_words_are_objected_to() -> None:
    case, model = a_case()
    e = case.explainer.explain(case.rows, **case.call)[0]
    third = grace.Change(model.schema.features[2], e.row["c"], e.row["c"] + 0.5)
    far = replace(e.changes[0], new=e.changes[0].new + 100.0)
    less = replace(e.changes[0], new=e.changes[0].old + 0.9 * (e.changes[0].new - e.changes[0].old))
    lost = {"contrast_class": None, "success": False, "miss": {"why": "none"}, "changes": ()}
    nothing = {**e.proof, "verdict": "impossible", "distance_at_least": None}
    lies = {
        "proven that 2 changes": replace(e, changes=(*e.changes, third)),
        "not irreducible": replace(e, changes=(*e.changes, third)),
        "breaks K, gamma or the domain": replace(e, changes=(far, *e.changes[1:])),
        "does not reach the goal": replace(e, changes=(less, *e.changes[1:])),
        "found and lost": replace(e, **lost, checks={**e.checks, "flip": True}),
        "proven impossible": replace(e, **lost, checks={**e.checks, "flip": False}, proof=nothing),
        "nothing is nearer": replace(e, proof={**e.proof, "distance_at_least": 1.05 * e.distance}),
        "the distance is": replace(e, distance=1.1 * e.distance),
        "original class": replace(e, original_class="c1"),
        "contrast class": replace(e, contrast_class="c0"),
        "not the one that was asked about": replace(e, row={**e.row, "b": e.row["b"] + 1e-12}),
    }
    for word, lie in lies.items():
        assert any(word in problem for problem in objections(case, model, lie)), word
    pair = replace(case, call={**case.call, "gamma": 0.0})
    assert any("gamma" in problem for problem in objections(pair, model, e)) == bool(case.explainer.su[0, 1] > 0)


def test_no_class_to_win_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proofs for which nothing was bounded, as the class asked for is the row's own."""

    def without_own(problem: Problem, network: ReluNetwork) -> Aims:
        aims = aims_of(problem, network)
        if not isinstance(problem.goal, Against):
            return aims
        own = problem.scores(problem.rows).argmax(dim=1) == problem.goal.wanted
        return aims._replace(constant=np.where(own.numpy()[:, None], -1e9, aims.constant))

    monkeypatch.setattr("grace.proofs.compiled.aims_of", without_own)
    total = Report()
    for seed in range(12):
        total.add(checked(case_of("confident", seed)))
    assert total.false


def test_a_module_in_disguise_read_by_its_layers_is_noticed() -> None:
    """What is said of the plain network does not hold for the module."""
    missed = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        frame = table(rng, ["number", "number"])
        plain = sequential(rng, frame, 2, [4])
        explainer = grace.Explainer(grace.wrap(plain, classes=["c0", "c1"], outputs="logits"), frame)
        call = {**question(rng, frame, 2), "confidence": 0.0, "against": None}
        shift = 2 * codes(frame).std(dim=0)
        other = Shifted(plain, shift)
        case = Case(explainer, frame.head(4), call, other, plain=False)
        missed += not checked(case).false
    assert missed < 5


class Shifted(nn.Module):
    def __init__(self, module: nn.Module, shift: torch.Tensor) -> None:
        super().__init__()
        self.module, self.shift = module, shift

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.module(rows + self.shift)


def test_trying_out_finds_what_one_and_two_changes_do() -> None:
    case, model = a_case()
    e = case.explainer.explain(case.rows, **case.call)[0]
    known = question_of(case, model, model.encode(e.row), e)
    assert tried(model.scores, replace(known, most=1)) is None
    found = tried(model.scores, replace(known, most=2))
    assert found is not None
    assert known.allows(found)
