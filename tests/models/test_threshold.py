"""Cut-offs on probabilities: the class that is decided, and everything that rests on it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from torch import nn

import grace
from grace.cli import main
from grace.errors import GraceError
from grace.experiments import task_of
from grace.experiments.task import Task
from grace.explain.explanation import Explanation
from grace.models.predictor import Predictor
from grace.models.relu import relu_network
from grace.models.threshold import cutoffs_of, lines, typed
from grace.models.torch import TorchModel
from grace.problem.goal import Against, logit, surplus
from grace.proofs.certificate import PROVEN
from grace.web.pages import create_app
from grace.web.service import Served

RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(RNG.normal(0, 2, (150, 3)).round(1), columns=list("abc"))
SUM = FRAME["a"] + FRAME["b"] - FRAME["c"] + RNG.normal(0, 1, 150)
ILL = np.where(SUM > 0, "ill", "healthy")
THREE = np.array(["x", "y", "z"])[np.digitize(SUM, [-2, 2])]
FIRST = FRAME.head(25)


def network(classes: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, classes)).double().eval()


def shares_of(module: nn.Module, frame: pd.DataFrame) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(module(torch.tensor(frame.to_numpy(dtype=float))).softmax(dim=1).numpy())


# -- the rule ---------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.02, 0.98), st.booleans())
def test_the_class_is_the_positive_one_from_the_cutoff_on(seed: int, share: float, second: bool) -> None:
    """By the user's own rule on the user's own probabilities, for every row and every contrastive row."""
    module = network(2, seed)
    positive = ["no", "yes"][second]
    model = grace.wrap(module, classes=["no", "yes"], threshold=share if second else {"no": share})
    explainer = grace.Explainer(model, FRAME, gamma=1.0)

    def rule(frame: pd.DataFrame) -> np.ndarray:
        return np.where(shares_of(module, frame)[:, int(second)] >= share, positive, "no" if second else "yes")

    assert (explainer.model.predict(FRAME) == rule(FRAME)).all()
    batch = explainer.explain(FIRST, domain="minmax", max_features=3)
    assert (batch.original_class == rule(FIRST)).all()
    assert (rule(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()
    np.testing.assert_allclose(explainer.model.predict_proba(FRAME), shares_of(module, FRAME), atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.floats(0.05, 0.95), min_size=3, max_size=3))
def test_of_several_classes_the_one_with_most_of_its_cutoff(seed: int, shares: list[float]) -> None:
    module = network(3, seed)
    model = grace.wrap(module, classes=list("xyz"), threshold=dict(zip("xyz", shares, strict=True)))
    explainer = grace.Explainer(model, FRAME, gamma=1.0)

    def rule(frame: pd.DataFrame) -> np.ndarray:
        return np.array(list("xyz"))[(shares_of(module, frame) / shares).argmax(axis=1)]

    assert (explainer.model.predict(FRAME) == rule(FRAME)).all()
    batch = explainer.explain(FIRST, domain="minmax", max_features=3)
    assert (rule(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7])
def test_a_vote_at_the_cutoff_is_for_the_positive_class(share: float) -> None:
    """Ten trees vote in tenths: 3 of 10 is at least 0.3, before and after changes."""
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(FRAME, ILL)
    fixed = FixedThresholdClassifier(FrozenEstimator(forest), threshold=share, pos_label="ill").fit(FRAME, ILL)
    model = grace.wrap(forest, threshold=share)
    explainer = grace.Explainer(model, FRAME, gamma=1.0)
    assert (explainer.model.predict(FRAME) == fixed.predict(FRAME)).all()
    assert (
        explainer.model.predict(FRAME) == np.where(forest.predict_proba(FRAME)[:, 1] >= share, "ill", "healthy")
    ).all()
    batch = explainer.explain(FIRST, domain="minmax")
    assert (fixed.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()
    np.testing.assert_allclose(explainer.model.predict_proba(FRAME), forest.predict_proba(FRAME), atol=1e-5)


def test_a_network_of_zeros_at_one_half_is_positive() -> None:
    module = nn.Sequential(nn.Linear(3, 2)).double()
    nn.init.zeros_(module[0].weight), nn.init.zeros_(module[0].bias)
    model = grace.wrap(module, classes=["no", "yes"], outputs="logits", threshold=0.5)
    explainer = grace.Explainer(model, FRAME, gamma=1.0)
    assert set(explainer.model.predict(FRAME)) == {"yes"}


# -- what rests on it -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained() -> TorchModel:
    return grace.training.fit(FRAME.assign(y=ILL), "y", max_epochs=15, threshold={"ill": 0.3})


@pytest.fixture(scope="module")
def explainer(trained: TorchModel) -> grace.Explainer:
    return grace.Explainer(trained, FRAME.assign(y=ILL), gamma=1.0)


def test_proofs_are_about_the_rule(explainer: grace.Explainer) -> None:
    """The folded network decides by the cut-off, and no single value of a grid flips what was proven to need two."""
    folded = relu_network(explainer.model)
    rows = explainer.tensor(FRAME.to_numpy().copy())
    torch.testing.assert_close(folded.scores(rows), explainer.model.scores(rows))
    batch = explainer.explain(FRAME, prove=True)
    low, high = explainer.schema.bounds()
    checked = 0
    for i in np.flatnonzero((batch.changed.sum(axis=1) > 1) & (batch.answers.proof == PROVEN)):
        for j, name in enumerate(FRAME.columns):
            tried = pd.concat([FRAME.iloc[[i]]] * 101).assign(**{name: np.linspace(low[j], high[j], 101)})
            shares = explainer.model.predict_proba(tried)["ill"]
            assert ((shares >= 0.3) == (batch.original_class[i] == "ill")).all()
            checked += 1
    assert batch[0].proof["cutoffs"] == [["ill", 0.3]]
    assert batch[0].proof["weights"] != explainer.model.with_cutoffs(None).fingerprint()


@pytest.mark.parametrize("confidence", [0.4, 0.8])
def test_confidence_is_about_the_probability_itself(explainer: grace.Explainer, confidence: float) -> None:
    batch = explainer.explain(FIRST, confidence=confidence, prove=True)
    assert batch.success.any()
    for e in batch:
        if e.success:
            assert e.probability(e.contrast_class, after=True) >= confidence
            assert explainer.model.predict(pd.DataFrame([e.contrast]))[0] == e.contrast_class


@given(st.integers(0, 1000), st.floats(0.1, 0.95), st.lists(st.floats(0.05, 0.9), min_size=3, max_size=3))
def test_the_offset_of_a_proof_is_necessary(seed: int, confidence: float, shares: list[float]) -> None:
    """Whoever reaches the confidence beats each rival by at least the offset."""
    cutoffs = cutoffs_of(dict(zip("xyz", shares, strict=True)), list("xyz"))
    shift = cutoffs.tensor(torch.device("cpu"))
    raw = torch.randn(200, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 4
    scores = raw - shift
    reached = surplus(scores, confidence, shift) >= 0
    assert (raw.softmax(dim=1)[reached] >= confidence - 1e-9).all()
    assert (scores.argmax(dim=1)[reached.any(dim=1)] == reached.int().argmax(dim=1)[reached.any(dim=1)]).all()
    for winner in range(3):
        goal = Against(torch.full((200,), winner), confidence, shift)
        rivals = torch.tensor([k for k in range(3) if k != winner]).expand(200, 2)
        least = goal.offset(torch.full((200, 1), winner), rivals, scores)
        assert (least >= max(0.0, logit(confidence) - 5)).all()
        ahead = scores[:, [winner]] - scores.gather(1, rivals)
        assert (ahead - least >= -1e-9)[reached[:, winner]].all()


def test_sentences_say_the_cutoff(explainer: grace.Explainer) -> None:
    batch = explainer.explain(FRAME.head(40))
    for e in batch:
        side = "at or above" if e.contrast_class == "ill" else "below"
        assert e.text().endswith(f"(the probability of ill would then have been {side} the cut-off of 30 %).")
        now = "at or above" if e.original_class == "ill" else "below"
        assert e.text(template="because").endswith(f"(the probability of ill was {now} the cut-off of 30 %).")
        assert "die Schwelle von 30 %" in e.text(language="de")
        assert (e.probability("ill") >= 0.3) == (e.original_class == "ill")
    assert {e.original_class for e in batch} == {"ill", "healthy"}
    frame = batch.to_frame()
    assert frame["probability_before"].tolist() == [e.probability(e.original_class) for e in batch]


def test_a_long_cutoff_is_said_to_be_about_that() -> None:
    model = grace.wrap(network(2), classes=["no", "yes"], threshold=0.4123456789)
    e = next(e for e in grace.Explainer(model, FRAME, gamma=1.0).explain(FRAME, domain="minmax") if e.success)
    assert "the cut-off of about 41.23 %" in e.text()


def test_pictures_and_files_have_the_line_at_the_cutoff(explainer: grace.Explainer) -> None:
    e = next(e for e in explainer.explain(FRAME) if len(e.changes) == 1)
    drawn = e.to_svg()
    assert drawn.count("cut-off 30 %") >= 2
    assert ">50 %<" not in drawn
    again = Explanation.from_dict(json.loads(e.to_json()))
    assert again.cutoffs == (("ill", 0.3),)
    assert again.text() == e.text()
    older = {k: v for k, v in e.to_dict().items() if k != "cutoffs"}
    assert Explanation.from_dict(older).cutoffs == ()


def test_the_cutoff_is_saved(explainer: grace.Explainer, tmp_path: Any) -> None:
    explainer.save(str(tmp_path))
    again = grace.load(str(tmp_path))
    assert again.model.cutoffs == explainer.model.cutoffs
    assert (again.model.predict(FRAME) == explainer.model.predict(FRAME)).all()
    head = json.loads((tmp_path / "grace.json").read_text())
    del head["threshold"]
    (tmp_path / "grace.json").write_text(json.dumps(head))
    assert grace.load(str(tmp_path)).model.cutoffs is None


def test_a_model_that_is_given_again_gets_the_saved_cutoff(tmp_path: Any) -> None:
    module = network(2)
    model = grace.wrap(module, classes=["no", "yes"], threshold=0.2)
    grace.Explainer(model, FRAME, gamma=1.0).save(str(tmp_path))
    again = grace.load(str(tmp_path), grace.wrap(module, classes=["no", "yes"]))
    assert again.model.cutoffs == model.cutoffs


def test_robust_answers_hold_by_the_rule_of_each_model(explainer: grace.Explainer) -> None:
    other = grace.training.fit(FRAME.assign(y=ILL), "y", max_epochs=15, seed=1, threshold={"ill": 0.6})
    batch = explainer.explain(FIRST, robust=[other], confidence=0.5)
    found = batch.success
    assert found.any()
    assert (other.predict(batch.contrast)[found] == batch.contrast_class[found]).all()
    for model in (explainer.model, other):
        shares = model.predict_proba(batch.contrast).to_numpy()
        own = [list(model.classes).index(c) for c in batch.contrast_class[found]]
        assert (shares[found][np.arange(found.sum()), own] >= 0.5 - 1e-9).all()
    assert batch.validity([other])[found].tolist() == [1.0] * int(found.sum())


def test_peers_of_a_benchmark_decide_by_the_same_rule(trained: TorchModel, tmp_path: Any) -> None:
    task = task_of("ill", trained, FRAME.assign(y=ILL), FRAME, target="y", most=6)
    task.save(tmp_path)
    rows = FRAME.to_numpy().copy()
    assert (Task.load(tmp_path).classes_of(rows) == task.classes_of(rows)).all()


# -- scikit-learn's own -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inner", "how", "kind"),
    [
        (LogisticRegression(), {}, TorchModel),
        (make_pipeline(StandardScaler(), LogisticRegression()), {}, TorchModel),
        (LogisticRegression(), {"response_method": "decision_function", "threshold": -0.7}, TorchModel),
        (LogisticRegression(), {"pos_label": "healthy", "threshold": 0.8}, TorchModel),
        (LogisticRegression(), {"threshold": "auto"}, TorchModel),
        (LinearSVC(), {"threshold": 0.4}, TorchModel),
        (SVC(), {"threshold": 0.4}, Predictor),
        (SVC(), {"threshold": 0.4, "pos_label": "healthy"}, Predictor),
        (GaussianNB(), {"threshold": 0.9}, Predictor),
        (CalibratedClassifierCV(GaussianNB()), {}, Predictor),
        (LogisticRegression(), {"threshold": 0.0}, Predictor),
    ],
)
def test_a_fixed_threshold_is_read(inner: Any, how: dict[str, Any], kind: type) -> None:
    fixed = FixedThresholdClassifier(inner, **{"threshold": 0.3, "pos_label": "ill", **how}).fit(FRAME, ILL)
    explainer = grace.Explainer(fixed, FRAME, gamma=1.0)
    assert type(explainer.model) is kind
    batch = explainer.explain(FIRST, domain="minmax", max_features=3)
    assert (batch.original_class == fixed.predict(FIRST)).all()
    assert (fixed.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()
    if explainer.model.has_probabilities:
        np.testing.assert_allclose(explainer.model.predict_proba(FRAME), fixed.predict_proba(FRAME), atol=1e-5)
    if kind is TorchModel:
        assert relu_network(explainer.model) is not None
    if how.get("threshold") != 0.0:
        assert batch.success.any()


def test_a_tuned_threshold_is_read_also_at_the_end_of_a_pipeline() -> None:
    tuned = TunedThresholdClassifierCV(LogisticRegression(), scoring="balanced_accuracy")
    pipeline = make_pipeline(StandardScaler(), tuned).fit(FRAME, (ILL == "ill").astype(int))
    explainer = grace.Explainer(pipeline, FRAME, gamma=1.0)
    assert type(explainer.model) is TorchModel
    assert explainer.model.cutoffs.named == ((1, pipeline[-1].best_threshold_),)
    batch = explainer.explain(FIRST, domain="minmax")
    assert (batch.original_class == pipeline.predict(FIRST)).all()
    assert (pipeline.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_what_is_asked_for_wins_over_what_was_read() -> None:
    fixed = FixedThresholdClassifier(LogisticRegression(), threshold=0.3, pos_label="ill").fit(FRAME, ILL)
    assert grace.wrap(fixed, threshold=0.6).cutoffs.named == (("ill", 0.6),)


# -- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "classes", "words"),
    [
        (0.3, "xyz", "a single number is for two classes; of 3, give one for each"),
        (1.0, "xy", "threshold=1.0: it must be a probability between 0 and 1"),
        ("0.3", "xy", "threshold='0.3': it must be"),
        ({"w": 0.3}, "xy", "unknown class 'w'; the classes are"),
        ({"x": 0.3}, "xyz", "class 'y' has none; of 3 classes, give one for each"),
        ({"x": True, "y": 0.2}, "xy", "threshold=True"),
    ],
)
def test_bad_cutoffs(threshold: Any, classes: str, words: str) -> None:
    with pytest.raises(GraceError, match=words):
        grace.wrap(network(len(classes)), classes=list(classes), threshold=threshold)


def test_cutoffs_need_probabilities() -> None:
    with pytest.raises(GraceError, match="threshold= needs probabilities"):
        grace.Explainer(grace.wrap(LinearSVC().fit(FRAME, ILL), threshold=0.3), FRAME)
    with pytest.raises(GraceError, match="leave it out for a regression"):
        grace.wrap(network(1), task="regression", threshold=0.3)
    with pytest.raises(GraceError, match="leave it out for a regression"):
        grace.training.fit(FRAME.assign(y=SUM), "y", threshold=0.3, max_epochs=1)


def test_cutoffs_as_typed() -> None:
    assert typed((), []) is None
    assert typed(("0.3",), []) == 0.3
    assert typed(("1=0.3", "0=0.5"), [0, 1]) == {1: 0.3, 0: 0.5}
    with pytest.raises(GraceError, match="--threshold high: give a probability"):
        typed(("high",), [])


def test_lines_are_for_two_classes() -> None:
    assert lines((("b", 0.3),), ("a", "b")) == {"a": 0.7, "b": 0.3}
    assert lines((("a", 0.2), ("b", 0.6)), ("a", "b")) == pytest.approx({"a": 0.25, "b": 0.75})
    assert lines((("a", 0.2), ("b", 0.6), ("c", 0.1)), ("a", "b", "c")) == {}


# -- the command and the page -----------------------------------------------------------------------


def test_the_command_trains_with_a_cutoff_and_the_page_says_it(tmp_path: Any) -> None:
    table, out = tmp_path / "ill.csv", tmp_path / "model"
    FRAME.assign(y=ILL).to_csv(table, index=False)
    how = ["--hidden", "8", "--threshold", "ill=0.3"]
    done = CliRunner().invoke(main, ["train", str(table), "--target", "y", "-o", str(out), *how])
    assert done.exit_code == 0, done.output
    said = CliRunner().invoke(main, ["explain", str(out), str(table), "--row", "0", "--json"])
    assert json.loads(said.output)[0]["cutoffs"] == [["ill", 0.3]]
    explainer = grace.load(str(out))
    with TestClient(create_app([Served("ill", explainer)]), base_url="http://localhost") as client:
        assert "The class is ill from a probability of 30 % on." in client.get("/").text
        for row in FRAME.head(10).to_dict(orient="records"):
            told = client.post("/api/predict", json={"row": row}).json()
            shares = {each["class"]: each["probability"] for each in told["probabilities"]}
            assert (told["class"] == "ill") == (shares["ill"] >= 0.3)
    wrong = CliRunner().invoke(
        main, ["train", str(table), "--target", "y", "-o", str(out), "--force", "--threshold", "sick=0.3"]
    )
    assert wrong.exit_code != 0
    assert "unknown class 'sick'" in wrong.output
