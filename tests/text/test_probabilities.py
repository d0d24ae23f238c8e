"""No probability that the model did not give, in any output; and warnings about models that answer oddly."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fastapi.testclient import TestClient
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC
from torch import Tensor, nn

import grace
from grace.errors import GraceError
from grace.explain.explanation import Explanation
from grace.models.ensemble import Together
from grace.models.grouped import Grouped
from grace.study.making import make
from grace.web.pages import create_app
from grace.web.service import Served

RNG = np.random.default_rng(8)
FRAME = pd.DataFrame(RNG.normal(0, 2, (120, 3)).round(2), columns=list("abc")).assign(
    kind=pd.Categorical(RNG.choice(["u", "v"], 120))
)
NUMBERS = FRAME[["a", "b", "c"]]
YES = np.where(NUMBERS.sum(axis=1) + (FRAME["kind"] == "u") > 0, "yes", "no")
PER_CENT = re.compile(r"\d+ ?%")


def named(frame: pd.DataFrame) -> np.ndarray:
    """Names classes alone."""
    return np.where(frame[["a", "b", "c"]].sum(axis=1) + 2 * (frame["kind"] == "u") > 0, "yes", "no")


class Contrary(RandomForestClassifier):
    """Decides otherwise than by the most probable class."""

    def predict(self, rows: Any) -> Any:
        return np.where(self.predict_proba(rows)[:, 1] >= 0.2, "yes", "no")


UNSURE = {
    "labels": lambda: (grace.wrap(named, classes=["no", "yes"]), FRAME),
    "decision function": lambda: (SVC().fit(NUMBERS, YES), NUMBERS),
    "layers of a decision function": lambda: (LinearSVC().fit(NUMBERS, YES), NUMBERS),
    "predict disagrees": lambda: (Contrary(20, max_depth=3, random_state=0).fit(NUMBERS, YES), NUMBERS),
}


@pytest.fixture(scope="module", params=UNSURE)
def unsure(request: pytest.FixtureRequest) -> tuple[grace.Explainer, pd.DataFrame]:
    model, frame = UNSURE[request.param]()
    explainer = grace.Explainer(model, frame, gamma=1.0)
    if request.param == "predict disagrees":  # its second way of being asked is labels
        assert explainer.model.reader.outputs == "labels"
    return explainer, frame


def test_no_output_shows_a_probability(unsure: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, frame = unsure
    batch = explainer.explain(frame.head(12), domain="minmax")
    assert batch.success.any()
    for e in (*batch, *(Explanation.from_json(e.to_json(backdrop=True)) for e in batch)):
        assert not e.sure
        assert e.before == e.after == ()
        for said in (e.text(hedge=True), e.text(hedge=True, language="de"), e.to_html(), e.to_svg()):
            shown = re.sub(r"<style>.*?</style>|style=\"[^\"]*\"|width=\"100%\"", "", said, flags=re.DOTALL)
            assert not PER_CENT.search(shown)
        with pytest.raises(GraceError, match="gives no probability of its classes"):
            e.probability("yes")
        written = json.loads(e.to_json(backdrop=True))
        assert written["before"] == written["after"] == []
        for curve in written.get("backdrop", {}).get("curves", {}).values():
            assert curve["original"] == curve["contrast"] == curve["other"] == []
    assert batch.to_frame()[["probability_before", "probability_after"]].isna().all(axis=None)
    with pytest.raises(GraceError, match="a probability needs a model that gives probabilities"):
        explainer.model.predict_proba(frame)


def test_a_confidence_is_refused_with_the_reason(unsure: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, frame = unsure
    with pytest.raises(GraceError, match=r"confidence= needs a model that gives probabilities, .*: (it|a|its|what) "):
        explainer.explain(frame.head(2), confidence=0.8)


def test_the_page_and_its_api_show_none(unsure: tuple[grace.Explainer, pd.DataFrame]) -> None:
    explainer, frame = unsure
    row = json.loads(frame.head(1).to_json(orient="records"))[0]
    with TestClient(create_app([Served("it", explainer)]), base_url="http://localhost") as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "This model gives no probabilities." in page.text
        shown = re.sub(r"<style.*?</style>", "", page.text, flags=re.DOTALL)
        assert not re.search(r"\d ?% sure|&gt; 99 %", shown)
        said = client.post("/api/predict", json={"row": row}).json()
        assert said["probabilities"] is None
        assert said["class"] == explainer.model.predict(frame.head(1))[0]
        told = client.post("/api/explain", json={"row": row}).json()
        assert told["before"] == told["after"] == []


def test_files_of_before_are_read_without_stand_ins() -> None:
    explainer = grace.Explainer(SVC().fit(NUMBERS, YES), NUMBERS, gamma=1.0)
    older = {**explainer.explain(NUMBERS.head(1))[0].to_dict(), "before": [0.999, 0.001], "after": [0.001, 0.999]}
    assert Explanation.from_dict(older).before == Explanation.from_dict(older).after == ()


def test_a_study_of_a_model_that_names_classes_alone() -> None:
    explainer = grace.Explainer(LinearSVC().fit(NUMBERS, YES), NUMBERS, gamma=1.0)
    study = make(explainer, NUMBERS.head(8), task="rate", items=2, source="a test")
    assert [item.probability for item in study.items] == [None, None]
    assert type(study).from_json(study.to_json()).items[0].probability is None


def test_logits_of_a_module_are_probabilities_by_softmax() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 2)).double()
    explainer = grace.Explainer(grace.wrap(module, classes=["no", "yes"]), NUMBERS, gamma=1.0)
    e = explainer.explain(NUMBERS.head(1))[0]
    assert e.sure
    expected = module(torch.tensor(NUMBERS.head(1).to_numpy().copy())).softmax(dim=1)[0].tolist()
    assert e.before == pytest.approx(expected)


def test_models_around_a_model_are_as_sure_as_it() -> None:
    frame = NUMBERS.assign(u=(FRAME["kind"] == "u").astype(int), v=(FRAME["kind"] == "v").astype(int))
    schema = grace.Schema.infer(frame).group("kind", ["u", "v"])
    explainer = grace.Explainer(LinearSVC().fit(frame, YES), frame, schema=schema, gamma=1.0)
    assert isinstance(explainer.model, Grouped)
    assert not explainer.model.has_probabilities
    sure = grace.Explainer(LogisticRegression().fit(NUMBERS, YES), NUMBERS, gamma=1.0)
    other = LinearSVC().fit(NUMBERS, YES)
    assert not Together(sure.model, [grace.wrap(other)]).has_probabilities
    sure.explain(NUMBERS.head(2), robust=[other])
    with pytest.raises(GraceError, match="confidence= with robust= needs"):
        sure.explain(NUMBERS.head(2), robust=[other], confidence=0.8)


# -- models that answer oddly -----------------------------------------------------------------------


def test_a_model_that_answers_differently_is_named() -> None:
    rng = np.random.default_rng(0)

    def drawn(frame: pd.DataFrame) -> np.ndarray:
        return rng.random(len(frame))

    with pytest.warns(
        UserWarning, match=r"the function drawn gives other scores when it is asked twice .*row 0"
    ) as said:
        grace.Explainer(grace.wrap(drawn, classes=["no", "yes"], outputs="probabilities"), NUMBERS, gamma=1.0)
    assert len(said) == 1


def test_dropout_that_is_never_off_is_noticed() -> None:
    class Restless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(3, 2).double()

        def forward(self, rows: Tensor) -> Tensor:
            return self.last(nn.functional.dropout(rows, 0.5, training=True))

    with pytest.warns(UserWarning, match="the Restless gives other scores"):
        grace.Explainer(grace.wrap(Restless(), classes=["no", "yes"]), NUMBERS, gamma=1.0)


@pytest.mark.parametrize("outputs", ["probabilities", None])
def test_probabilities_that_do_not_sum_to_one_are_named(outputs: str | None) -> None:
    def half(frame: pd.DataFrame) -> np.ndarray:
        p = 1 / (1 + np.exp(-frame["a"].to_numpy()))
        return np.stack([1 - p, p], axis=1) / 2

    with pytest.warns(UserWarning, match=r"probabilities of the function half sum to 0\.5 in row 0, not to 1") as said:
        explainer = grace.Explainer(grace.wrap(half, classes=["no", "yes"], outputs=outputs), NUMBERS, gamma=1.0)
    assert len(said) == 1
    e = explainer.explain(NUMBERS.head(1), domain="minmax")[0]
    assert not e.sure
    with pytest.raises(GraceError, match="its probabilities do not sum to 1"):
        explainer.explain(NUMBERS.head(1), confidence=0.6)


def test_sigmoids_of_a_module_are_named() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid()).double()
    with pytest.warns(UserWarning, match="the probabilities of the Sequential sum to"):
        explainer = grace.Explainer(grace.wrap(module, classes=list("xyz")), NUMBERS, gamma=1.0)
    assert not explainer.model.has_probabilities


def test_what_is_not_a_number_is_an_error_that_names_the_row() -> None:
    def broken(frame: pd.DataFrame) -> np.ndarray:
        return np.where(frame["a"] > 1, np.nan, 0.4)

    first = int((NUMBERS["a"] > 1).to_numpy().argmax())
    with pytest.raises(GraceError, match=f"the function broken returned NaN for row {first}; check"):
        grace.Explainer(grace.wrap(broken, classes=["no", "yes"], outputs="probabilities"), NUMBERS)


def test_being_asked_twice_costs_one_call_that_does_not_count() -> None:
    model = LogisticRegression().fit(NUMBERS, YES)
    asked: list[int] = []

    def counted(frame: pd.DataFrame) -> np.ndarray:
        asked.append(len(frame))
        return model.predict_proba(frame)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explainer = grace.Explainer(grace.wrap(counted, classes=["no", "yes"]), NUMBERS, gamma=1.0)
    assert asked == [120, 120, 120]  # to meet it, once more, and for what is learnt from all training rows
    begun = sum(asked)
    batch = explainer.explain(NUMBERS.head(2), max_calls=1000)
    assert batch.calls <= 1000
    assert batch.spent.rows == sum(asked) - begun
