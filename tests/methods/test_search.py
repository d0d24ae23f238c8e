"""The default method: fewest features, nearest values, what may change, alternatives, confidence, reasons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import grace
from grace import datasets, training
from grace.methods import moves
from grids import explainer_of, grid
from problems import BOX, CASES, Case


@pytest.fixture(scope="module")
def credit() -> tuple[grace.Explainer, pd.DataFrame]:
    table = datasets.load("german_credit")
    parts = table.split(0)
    return grace.Explainer(training.fit(table, max_epochs=30), parts.train), parts.test.head(60)


@pytest.mark.parametrize("case", [c for c in CASES if c.fewest], ids=lambda c: c.name)
def test_finds_the_fewest(case: Case) -> None:
    batch = case.explainer(gamma=1.0).explain(case.rows)
    assert batch.changed.sum(axis=1).tolist() == list(case.fewest)


@pytest.mark.parametrize("name", ["cancer95", "german_credit", "segment"])
@pytest.mark.parametrize("domain", ["central", "minmax"])
def test_never_worse_than_the_walks(name: str, domain: str) -> None:
    table = datasets.load(name)
    model = training.fit(table, max_epochs=25)
    parts = table.split(0)
    explainer = grace.Explainer(model, parts.train, domain=domain, among="nearest")
    rows = model.impute(parts.test)
    mine = explainer.explain(rows)
    for method in ("gradient", "local"):
        theirs = explainer.explain(rows, method=method)
        assert (mine.success >= theirs.success).all()
        both = theirs.success
        few, many = (b.changed.sum(axis=1).to_numpy()[both] for b in (mine, theirs))
        near, far = (b.answers.distance[both] for b in (mine, theirs))
        assert (few <= many).all()
        assert (near[few == many] <= far[few == many] * (1 + 1e-9)).all()


def test_proofs_find_nothing_smaller(credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = credit
    plain, proven = explainer.explain(rows), explainer.explain(rows, prove=True, budget=2)
    certain = np.array([e.proof["verdict"] == "minimal" for e in proven])
    assert certain.mean() > 0.9
    few, fewest = (b.changed.sum(axis=1).to_numpy()[certain] for b in (plain, proven))
    assert few.sum() <= 1.02 * fewest.sum()


def test_prefer_nearest(credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = credit
    few, near = explainer.explain(rows), explainer.explain(rows, prefer="nearest")
    assert (near.success == few.success).all()
    assert (near.answers.distance <= few.answers.distance * (1 + 1e-9)).all()
    assert (near.changed.sum(axis=1) >= few.changed.sum(axis=1)).all()


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_distances(norm: str) -> None:
    case = CASES[0]
    explainer = case.explainer(distance=norm)
    batch = explainer.explain(case.rows)
    spread = np.array([f.spread for f in explainer.schema.features])
    steps = np.abs(batch.answers.contrast - batch.answers.rows) / spread
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    assert batch.answers.distance == pytest.approx(np.linalg.norm(steps, order, axis=1))


LIMITS = [
    {"frozen": ["duration_months", "credit_amount", "checking_status"]},
    {"increase_only": ["age", "duration_months"], "decrease_only": ["credit_amount"]},
    {"ranges": {"credit_amount": (1000, 3000), "purpose": ["education", "business"]}},
    {"ranges": {"age": (None, 30)}, "frozen": "purpose"},
]


@pytest.mark.parametrize("method", ["search", "gradient", "local"])
@pytest.mark.parametrize("limits", LIMITS)
def test_limits_hold(method: str, limits: dict, credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = credit
    batch = explainer.explain(rows, method=method, **limits)
    assert batch.success.any()
    contrast, changed = batch.contrast, batch.changed
    for name in [limits["frozen"]] if isinstance(limits.get("frozen"), str) else limits.get("frozen", []):
        assert not changed[name].any()
    for name in limits.get("increase_only", []):
        assert (contrast[name].to_numpy() >= rows[name].to_numpy()).all()
    for name in limits.get("decrease_only", []):
        assert (contrast[name].to_numpy() <= rows[name].to_numpy()).all()
    for name, span in limits.get("ranges", {}).items():
        new = contrast[name][changed[name]]
        if isinstance(span, list):
            assert set(new) <= set(span)
        else:
            assert new.between(span[0] or -np.inf, span[1]).all()


def test_limits_in_the_schema(credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = credit
    schema = explainer.schema.constrain(frozen=["age"], increase_only=["duration_months"], costs={"credit_amount": 5})
    own = grace.Explainer(explainer.model, datasets.load("german_credit").split(0).train, schema=schema)
    assert own.schema["age"].frozen
    batch, asked = (
        own.explain(rows),
        explainer.explain(rows, frozen=["age"], increase_only=["duration_months"], costs={"credit_amount": 5}),
    )
    assert (batch.answers.contrast == asked.answers.contrast).all()
    assert grace.Schema.from_json(own.schema.to_json()) == own.schema


def test_costs_steer() -> None:
    case = CASES[0]
    explainer, row = case.explainer(), case.rows.head(1)
    cheap = explainer.explain(row)[0].changes[0].name
    assert explainer.explain(row, costs={cheap: 100})[0].changes[0].name != cheap


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"frozen": ["nothing"]}, "'nothing'"),
        ({"increase_only": ["housing"]}, "'housing'.*category"),
        ({"ranges": {"age": (5,)}}, "'age'.*low, high"),
        ({"ranges": {"housing": ["castle"]}}, "'castle'"),
        ({"costs": {"age": 0}}, "'age'.*cost"),
        ({"increase_only": ["age"], "decrease_only": ["age"]}, "'age'.*frozen"),
        ({"confidence": 1}, "confidence"),
        ({"n": 0}, "n=0"),
        ({"budget": -1}, "budget"),
        ({"prefer": "prettiest"}, "fewest, nearest"),
        ({"distance": "l7"}, "l1, l2, linf"),
    ],
)
def test_bad_limits(limits: dict, said: str, credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = credit
    with pytest.raises(grace.GraceError, match=said) as caught:
        explainer.explain(rows, **limits)
    assert "\n" not in str(caught.value)


def test_alternatives_use_other_features(credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = credit
    batch = explainer.explain(rows, n=3)
    assert np.mean([len(e.alternatives) for e in batch]) > 1.5
    for e in batch:
        every = [e, *e.alternatives]
        sets = [frozenset(c.name for c in one.changes) for one in every]
        for i, first in enumerate(sets):
            for second in sets[i + 1 :]:
                assert not first <= second
                assert not second <= first
        for one in every:
            assert explainer.model.predict([one.contrast])[0] == one.contrast_class != one.original_class
        assert grace.Explanation.from_json(e.to_json()) == e


@pytest.mark.parametrize("settings", [{"method": "gradient"}, {"max_features": 1}], ids=str)
def test_alternatives_end_when_there_are_no_more(settings: dict, credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    """However many are asked for: the search ends for a row at its first failure, and the answers are those of n=4."""
    explainer, rows = credit
    batch = explainer.explain(rows, n=1_000_000, **settings)
    assert len(batch.answers.alternatives) <= len(explainer.schema)
    few = explainer.explain(rows, n=4, **settings)
    for every, some in zip(batch, few, strict=True):
        assert [e.contrast for e in every.alternatives][:3] == [e.contrast for e in some.alternatives]
        assert len({e.predicate for e in (every, *every.alternatives)}) == 1 + len(every.alternatives)


def test_rows_without_an_answer_are_searched_once(credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = credit
    asked: list[int] = []
    own = grace.wrap(lambda frame: (asked.append(len(frame)), explainer.model.predict_proba(frame).to_numpy())[1])
    box = grace.Explainer(own, schema=explainer.schema, gamma=1.0)
    counts = []
    for n in (2, 50):
        asked.clear()
        batch = box.explain(rows.head(2), n=n, frozen=explainer.schema.names[1:])
        counts.append(sum(asked))
    assert not batch.success.all()
    assert counts[0] == counts[1]


@pytest.mark.parametrize("wanted", [0.3, 0.6, 0.9])
def test_confidence(wanted: float, credit: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, rows = credit
    sure = explainer.explain(rows, confidence=wanted)
    assert sure.success.any()
    for e in sure:
        if e.success:
            assert e.probability(e.contrast_class, after=True) >= wanted
            assert max(e.after) == e.probability(e.contrast_class, after=True)


def test_confidence_with_three_classes() -> None:
    explainer = explainer_of(grid(4), 4)
    for e in explainer.explain(grid(4), confidence=0.6, gamma=1.0):
        assert not e.success or e.probability(e.contrast_class, after=True) >= 0.6


def test_reasons_are_tried() -> None:
    case = next(c for c in CASES if c.name == "kinked")
    explainer, row = case.explainer(gamma=1.0), case.rows.head(1)
    assert "possible with up to 2 changes" in explainer.explain(row, max_features=1)[0].reason
    frozen = explainer.explain(row, frozen=["a"])[0].reason
    assert "possible if a may change freely" in frozen
    narrow = explainer.explain(row, ranges={"a": (-3, -2)})[0].reason
    assert "possible if a may change freely" in narrow
    twins = next(c for c in CASES if c.name == "twins")
    assert (
        "possible if two features that say much the same may both change"
        in twins.explainer().explain(twins.rows.head(1))[0].reason
    )
    sure = explainer.explain(row, confidence=0.99)[0].reason
    assert "if a lower probability is enough" in sure
    four = next(c for c in CASES if c.name == "four classes")
    other = four.explainer().explain(four.rows.head(1), against="p", max_features=1)[0]
    assert other.success or "possible" in other.reason
    flat = next(c for c in CASES if c.name == "plateau")
    assert "nor with any one of the limits lifted" in flat.explainer().explain(flat.rows.head(1))[0].reason


def test_central_ranges_can_be_the_reason() -> None:
    case = CASES[0]
    row = pd.DataFrame([[-4.0, -4, 4]], columns=list("abc"))
    explainer = grace.Explainer(case.model(), BOX, domain=0.05)
    miss = explainer.explain(row, max_features=2)[0]
    assert not miss.success
    assert "possible with values from the whole range of the training data" in miss.reason


@pytest.mark.parametrize("cells", [1, 7, 100])
def test_moves_scored_in_blocks_have_the_margins_of_all_at_once(
    credit: tuple[grace.Explainer, pd.DataFrame], monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    """Blocks of a part of a row's moves, and of several rows, with categories among them."""
    explainer, rows = credit
    encoded = explainer.tensor(explainer.schema.encode(rows.head(4)[explainer.schema.names]))
    problem = explainer._problem(encoded, None, explainer.schema, explainer.settings)
    tried = moves.moves_of(problem)
    whole = tried.margins(problem, problem.rows)
    monkeypatch.setattr(moves, "CHUNK_BYTES", 8 * len(tried.network.bias) * cells)
    np.testing.assert_allclose(tried.margins(problem, problem.rows).numpy(), whole.numpy(), rtol=1e-9, atol=1e-9)
