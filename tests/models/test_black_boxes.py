"""Models known by their answers alone: exact answers where they are known, what is asked, and what is refused."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import grace
from grace.models import Predictor, TorchModel
from grace.problem.goal import Flip
from problems import BOX, uniform

CLASSES = ["no", "yes"]
LABELS = np.where(BOX["a"] + 0.8 * BOX["b"] - 0.5 * BOX["c"] > 0.3, "yes", "no")


def tree(frame: pd.DataFrame) -> np.ndarray:
    """A tree by hand: a >= 2.5 says yes; below, b >= 3 and c < -1 do."""
    yes = np.where(frame["a"] >= 2.5, 0.9, np.where((frame["b"] >= 3) & (frame["c"] < -1), 0.7, 0.2))
    return np.stack([1 - yes, yes], axis=1)


def explained(
    function: object, rows: pd.DataFrame, train: pd.DataFrame = BOX, **settings: object
) -> grace.Explanations:
    explainer = grace.Explainer(grace.wrap(function, classes=CLASSES), train, domain="minmax", gamma=1.0)
    return explainer.explain(rows, **settings)


# -- exact answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["search", "gradient", "local"])
def test_the_nearest_leaf_of_a_tree(method: str) -> None:
    rows = pd.DataFrame([[1.0, 0, 0], [3.0, 0, 0], [-4, 2.5, -1.5], [4, 4, -4]], columns=list("abc"))
    batch = explained(tree, rows, method=method)
    assert [e.predicate for e in batch][:3] == ["a = 2.5", "a = 2.49", "b = 3.0"]
    assert batch[3].success
    assert len(batch[3].changes) == 2  # out of one leaf without falling into the other


def test_a_narrow_step_is_found_among_observed_values() -> None:
    """Only 1.2 <= a < 1.25 says yes: no ladder of round distances would hit it, but a training row does."""
    train = uniform(400, -4, 4, "abc")
    assert train["a"].between(1.2, 1.24).any()

    def step(frame: pd.DataFrame) -> np.ndarray:
        return np.where((frame["a"] >= 1.2) & (frame["a"] < 1.25), 0.8, 0.3)

    e = explained(step, pd.DataFrame({"a": [-3.0], "b": [0.0], "c": [0.0]}), train)[0]
    assert [(c.name, c.new) for c in e.changes] == [("a", 1.2)]


def test_a_pair_with_one_value_of_a_number_that_does_is_found() -> None:
    """The number has 33 values and only one of them works, together with a category with which no training row has
    it."""
    rng = np.random.default_rng(5)
    train = pd.DataFrame({"n": np.arange(264) % 33, "k": rng.choice(list("pqrs"), 264)})
    train = train.assign(u=np.arange(264) % 2, v=np.arange(264) // 2 % 2)
    train = train[(train["n"] != 25) | (train["k"] != "s")]

    def both(frame: pd.DataFrame) -> np.ndarray:
        return np.where(frame["k"] != "s", 0.2, np.where(frame["n"] == 25, 0.8, 0.3))

    batch = explained(both, pd.DataFrame({"n": [2, 31], "k": ["p", "q"], "u": [0, 1], "v": [1, 0]}), train)
    assert [{c.name: c.new for c in e.changes} for e in batch] == [{"n": 25, "k": "s"}] * 2


def test_labels_alone_are_enough() -> None:
    """Both of two features are needed, and a model that only says a class shows no way there."""

    def both(frame: pd.DataFrame) -> np.ndarray:
        return np.where((frame["a"] > 1) & (frame["b"] > 1), "yes", "no")

    e = explained(both, pd.DataFrame({"a": [-2.0], "b": [-1.0], "c": [0.0]}))[0]
    assert {c.name: c.new for c in e.changes} == {"a": 1.01, "b": 1.01}
    assert e.contrast_class == "yes"


def test_a_line_has_its_exact_nearest_flip() -> None:
    def line(rows: np.ndarray) -> np.ndarray:
        assert rows.dtype == np.float64
        return 1 / (1 + np.exp(-(rows @ [1.0, 0.8, -0.5])))

    explainer = grace.Explainer(grace.wrap(line, classes=CLASSES, inputs="array"), BOX, domain="minmax", gamma=1.0)
    for method in ("search", "gradient", "local"):
        e = explainer.explain({"a": -1.0, "b": 0.0, "c": 0.0}, method=method)[0]
        assert [(c.name, c.new) for c in e.changes] == [("a", 0.01)]


def test_slopes_are_the_weights_of_a_line() -> None:
    model = grace.wrap(lambda rows: np.stack([0 * rows[:, 0], rows @ [1.0, 0.8, -0.5]], axis=1), classes=CLASSES,
                       inputs="array", outputs="logits")  # fmt: skip
    grace.Explainer(model, BOX, domain="minmax")
    rows = torch.tensor([[0.0, 0, 0], [4, -4, 2]], dtype=torch.float64)
    goal = Flip(model.scores(rows).argmax(dim=1))
    _, slopes = model.slopes(rows, goal.margins)
    toward = slopes[torch.arange(2), 1 - goal.original]
    sign = 1 - 2 * goal.original[:, None]
    assert torch.allclose(toward * sign, torch.tensor([1.0, 0.8, -0.5], dtype=torch.float64).expand(2, 3))


# -- what is asked ----------------------------------------------------------------------------------


def test_questions_are_counted_batched_and_never_repeated_in_a_batch() -> None:
    seen: list[pd.DataFrame] = []

    def counted(frame: pd.DataFrame) -> np.ndarray:
        seen.append(frame)
        return tree(frame)

    explainer = grace.Explainer(grace.wrap(counted, classes=CLASSES), BOX, domain="minmax")
    for method in ("search", "gradient", "local", "nearest", "deepfool"):
        seen.clear()
        batch = explainer.explain(BOX.head(20), method=method)
        assert batch.calls == sum(len(frame) for frame in seen)
        assert batch.spent.calls == len(seen)
        assert all(not frame.duplicated().any() for frame in seen)
        assert method == "nearest" or len(seen) < batch.calls / 4
    assert explainer.explain(BOX.head(1)).calls < 2000


def test_a_dear_row_does_not_cost_those_behind_it_their_answers() -> None:
    """The first row is cheap, the next ones need two changes: they are not all asked together on its word."""

    def both(frame: pd.DataFrame) -> np.ndarray:
        a, b = frame["a"] > 1, frame["b"] > 1
        return np.where(a & b, 0.8, 0.2 + 0.05 * a + 0.05 * b)

    rows = pd.DataFrame([[3.0, 0, 0], *[[-1.0, -1, 0]] * 5], columns=list("abc")).assign(c=np.arange(6) / 10)
    explainer = grace.Explainer(grace.wrap(both, classes=CLASSES), BOX, domain="minmax", gamma=1.0)
    first, last = (explainer.explain(rows.iloc[[i]]).calls for i in (0, 5))
    assert last > 2 * first
    limit = first + 3 * last
    batch = explainer.explain(rows, max_calls=limit)
    assert batch.calls <= limit
    assert batch.success.sum() >= 3


def test_a_limit_on_questions_is_kept_and_said() -> None:
    explainer = grace.Explainer(grace.wrap(tree, classes=CLASSES), BOX, domain="minmax")
    whole = explainer.explain(BOX.head(10))
    assert whole.success.all()
    some = explainer.explain(BOX.head(10), max_calls=whole.calls // 2, n=2)
    left = some.spent.left_out
    assert 0 < left.sum() < 10
    assert some.success[~left].all()
    assert not some.success[left].any()
    assert some.calls <= whole.calls // 2 + left.sum()
    i = int(np.flatnonzero(left)[0])
    assert re.search(r"the limit of \d+ questions to the model was reached", some[i].reason)
    assert "Fragen an das Modell" in some[i].text(language="de")
    assert (some.contrast.iloc[i] == BOX.iloc[i]).all()
    assert explainer.explain(BOX.head(10)).success.all()  # the limit was for one call


# -- networks at heart ------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("scaler", [None, StandardScaler(), MinMaxScaler((-1, 2)), RobustScaler()])
@pytest.mark.parametrize("classes", [2, 3])
def test_perceptrons_become_exact_layers(activation: str, scaler: object, classes: int) -> None:
    labels = LABELS if classes == 2 else np.where(BOX["c"] > 2, "other", LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = MLPClassifier((7, 5), activation=activation, max_iter=30, random_state=0)
        model = (net if scaler is None else make_pipeline(scaler, net)).fit(BOX[["c", "a", "b"]], labels)
    wrapped = grace.wrap(model)
    assert isinstance(wrapped, TorchModel)
    explainer = grace.Explainer(model, BOX, gamma=1.0)
    assert explainer.schema.names == ["c", "a", "b"]
    assert np.allclose(explainer.model.predict_proba(BOX), model.predict_proba(BOX[["c", "a", "b"]]))
    if activation == "relu":
        proven = explainer.explain(BOX.head(5), prove=True, domain="minmax", budget=5)
        assert {e.proof["verdict"] for e in proven} <= {"minimal", "impossible"}


@pytest.mark.parametrize("model", [LogisticRegression(), LinearSVC(), RidgeClassifier()], ids=str)
def test_linear_models_become_exact_layers(model: object) -> None:
    model.fit(BOX, LABELS)
    explainer = grace.Explainer(model, BOX)
    assert isinstance(explainer.model, TorchModel)
    assert (explainer.model.predict(BOX) == model.predict(BOX)).all()


def test_other_pipelines_stay_black_boxes() -> None:
    model = make_pipeline(PolynomialFeatures(), LogisticRegression(max_iter=1000)).fit(BOX, LABELS)
    explainer = grace.Explainer(model, BOX)
    assert isinstance(explainer.model, Predictor)
    batch = explainer.explain(BOX.head(5))
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


# -- what the model itself decides ------------------------------------------------------------------


def test_scores_agree_with_what_the_model_decides() -> None:
    """The probabilities of an SVC, or those behind a rule of one's own, do not decide; its predict does."""

    class Ruled(FixedThresholdClassifier):
        """A class of one's own is not read as a cut-off: it may decide by anything."""

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = SVC(probability=True, random_state=0, C=0.2).fit(BOX, LABELS)
    ruled = Ruled(GaussianNB(), threshold=0.95, pos_label="yes").fit(BOX, LABELS)
    for model, outputs in (
        (machine, "logits"),
        (ruled, "labels"),
        (GaussianNB().fit(BOX, LABELS), "probabilities"),
    ):
        assert ((model.predict_proba(BOX).argmax(axis=1) == 1) == (model.predict(BOX) == "yes")).all() == (
            outputs == "probabilities"
        )
        explainer = grace.Explainer(model, BOX, domain="minmax")
        assert explainer.model.reader.outputs == outputs
        batch = explainer.explain(BOX.head(12))
        assert (batch.original_class == model.predict(BOX.head(12))).all()
        assert batch.success.any()
        assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_outliers_are_classes_too() -> None:
    model = IsolationForest(n_estimators=20, random_state=0).fit(BOX)
    batch = grace.Explainer(model, BOX, domain="minmax").explain(BOX.head(6))
    assert set(batch.original_class) <= {-1, 1}
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_columns_reach_the_model_in_the_order_of_training() -> None:
    model = RandomForestClassifier(10, random_state=0).fit(BOX[["c", "b", "a"]], LABELS)
    explainer = grace.Explainer(model, BOX)
    assert explainer.schema.names == ["a", "b", "c"]
    assert (explainer.model.predict(BOX) == model.predict(BOX[["c", "b", "a"]])).all()
    array = DecisionTreeClassifier(random_state=0).fit(BOX.to_numpy(), LABELS)
    assert (grace.Explainer(array, BOX).model.predict(BOX) == array.predict(BOX.to_numpy())).all()


def test_probabilities_may_come_as_a_frame_with_named_columns() -> None:
    def named(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(tree(frame)[:, ::-1], columns=["yes", "no"])

    explainer = grace.Explainer(grace.wrap(named, classes=CLASSES), BOX)
    assert (explainer.model.predict(BOX) == np.where(tree(BOX)[:, 1] > 0.5, "yes", "no")).all()


def test_classes_of_a_function_may_come_from_the_target() -> None:
    frame = BOX.assign(y=LABELS)
    explainer = grace.Explainer(lambda rows: np.where(rows["a"] > 0, "yes", "no"), frame, target="y")
    assert explainer.model.classes == ("no", "yes")


def test_an_explainer_of_a_black_box_is_kept_without_it(tmp_path: Path) -> None:
    model = RandomForestClassifier(5, random_state=0).fit(BOX, LABELS)
    explainer = grace.Explainer(model, BOX)
    explainer.save(tmp_path / "kept")
    again = grace.load(tmp_path / "kept", model=model)
    assert (again.explain(BOX.head(5)).answers.contrast == explainer.explain(BOX.head(5)).answers.contrast).all()
    with pytest.raises(grace.GraceError, match="model="):
        grace.load(tmp_path / "kept")


# -- what is refused --------------------------------------------------------------------------------

FOREST = RandomForestClassifier(5, random_state=0).fit(BOX, LABELS)


def fails(frame: pd.DataFrame) -> np.ndarray:
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: grace.Explainer(RandomForestClassifier(), BOX), "RandomForestClassifier is not fitted"),
        (lambda: grace.Explainer(FOREST, BOX.assign(y=LABELS)), "not fitted on column 'y'.*target="),
        (lambda: grace.Explainer(FOREST, BOX.drop(columns="b")), "column 'b'.*missing"),
        (lambda: grace.Explainer(tree, BOX), "classes=.*target="),
        (lambda: grace.Explainer(grace.wrap(fails, classes=CLASSES), BOX), "function fails failed.*no such thing"),
        (lambda: explained(lambda f: np.full((len(f), 2), np.nan), BOX), "NaN for row 0"),
        (lambda: explained(lambda f: np.ones((len(f), 3)) / 3, BOX), "shape.*2 classes"),
        (lambda: explained(lambda f: ["maybe"] * len(f), BOX), "unknown class 'maybe'"),
        (lambda: grace.wrap(tree, classes="yes"), "classes='yes'"),
        (lambda: grace.wrap(tree, classes=["yes"]), "two classes"),
        (lambda: grace.wrap(tree, classes=["yes", "yes"]), "twice"),
        (lambda: grace.wrap(tree, classes=CLASSES, outputs="odds"), "'odds'.*'labels'"),
        (lambda: grace.wrap(tree, classes=CLASSES, inputs="list"), "'list'.*'array'"),
        (lambda: grace.wrap(tree, classes=CLASSES, task="guessing"), "'guessing'.*'regression'"),
        (lambda: grace.wrap(tree, classes=CLASSES, task="regression"), "no classes"),
        (lambda: grace.wrap(tree, classes=CLASSES, encode=lambda x: x), "encode="),
        (lambda: grace.wrap("nowhere.onnx", classes=CLASSES), "no file 'nowhere.onnx'"),
        (
            lambda: grace.Explainer(grace.wrap(tree, classes=CLASSES), BOX).explain(BOX.head(1), prove=True),
            "proof needs",
        ),
        (lambda: grace.Explainer(FOREST, BOX, max_calls=-1), "max_calls=-1"),
    ],
)
def test_errors_say_what_is_wrong(make: object, message: str) -> None:
    with pytest.raises(grace.GraceError, match=message):
        make()


@pytest.mark.parametrize("sure", [True, False])
def test_classes_may_be_named(sure: bool) -> None:
    """Boosted trees of XGBoost have numbers for classes, which say nothing."""
    codes = (LABELS == "yes").astype(int)
    model = RandomForestClassifier(5, random_state=0).fit(BOX, codes) if sure else SVC().fit(BOX, codes)
    batch = grace.Explainer(grace.wrap(model, classes=["small", "large"]), BOX).explain(BOX.head(5))
    assert batch.original_class.tolist() == ["large" if c else "small" for c in model.predict(BOX.head(5))]
    after = model.predict(batch.contrast)[batch.success]
    assert batch.contrast_class[batch.success].tolist() == ["large" if c else "small" for c in after]


def test_a_schema_that_says_little_is_filled_in_from_the_data() -> None:
    """The steps of slopes are in spreads, which a declared schema may not have."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(0, 500, 300).round(1), "b": rng.normal(0, 0.01, 300).round(4)})

    def sure(rows: pd.DataFrame) -> np.ndarray:
        z = np.sin(rows["b"] / 0.004) + rows["b"] / 0.01 + 0.1 * rows["a"] / 500
        return 1 / (1 + np.exp(-4 * z.to_numpy()))

    said = grace.Schema(features=(grace.Numeric(name="a"), grace.Numeric(name="b")))
    batches = [
        grace.Explainer(grace.wrap(sure, classes=["no", "yes"], schema=schema), frame, gamma=1.0).explain(
            frame.head(30), method="gradient"
        )
        for schema in (None, said)
    ]
    assert batches[0].success.any()
    np.testing.assert_array_equal(batches[0].answers.contrast, batches[1].answers.contrast)


def test_irreducible_goes_by_the_ties_of_the_model_itself() -> None:
    """Three votes of four are for "no"; each feature turns one vote. One turned vote is a tie, which the model decides
    for the first class, "yes": an answer with a margin needs both, but is not irreducible by the model's own word."""

    def votes(frame: pd.DataFrame) -> np.ndarray:
        yes = 1 + (frame["a"] > 5).to_numpy() * 1.0 + (frame["b"] > 5).to_numpy()
        return np.stack([yes, 4 - yes], axis=1) / 4

    frame = pd.DataFrame({"a": np.arange(100) % 10, "b": np.arange(100) // 10})
    tied = grace.Explainer(grace.wrap(votes, classes=["yes", "no"]), frame, gamma=1.0).explain({"a": 1, "b": 1})[0]
    assert tied.success
    assert len(tied.changes) == 2
    assert not tied.checks["irreducible"]
    assert tied.notes == ("fewer of these changes would do, but only by a tie between classes, or nearly one",)
    other = grace.wrap(lambda f: votes(f)[:, ::-1], classes=["no", "yes"])  # a tie stays with "no"
    clear = grace.Explainer(other, frame, gamma=1.0).explain({"a": 1, "b": 1})[0]
    assert len(clear.changes) == 2
    assert clear.checks["irreducible"]
    assert clear.notes == ()


def test_no_tie_is_claimed_of_changes_that_were_not_all_left_out() -> None:
    """Of more than ten changes, not every subset is tried: whether fewer would do is not known."""
    names = [f"x{j}" for j in range(12)]
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (200, 12)), columns=names)

    def votes(rows: pd.DataFrame) -> np.ndarray:
        return np.stack([rows.sum(axis=1) == 12, rows.sum(axis=1) < 12], axis=1) * 1.0

    explainer = grace.Explainer(grace.wrap(votes, classes=["all", "some"]), frame, gamma=1.0)
    answer = explainer.explain(dict.fromkeys(names, 0), max_features=12)[0]
    assert len(answer.changes) == 12
    assert not answer.checks["irreducible"]
    assert answer.notes == ()


class Threads:
    """A model that notes with how many OpenMP threads it was asked, and about how many rows."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        from threadpoolctl import ThreadpoolController

        runtimes = ThreadpoolController().select(user_api="openmp").info()
        self.seen.append((len(frame), max(one["num_threads"] for one in runtimes)))
        return (1 / (1 + np.exp(-frame["a"]))).to_numpy()


def test_few_rows_are_asked_about_in_one_thread() -> None:
    """On busy cores, a call waits for every thread of the model's own, however little there is to do."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        model = Threads()
        frame = pd.DataFrame({"a": np.linspace(-2, 2, 9000), "b": np.zeros(9000)})
        explainer = grace.Explainer(grace.wrap(model, classes=["no", "yes"]), frame)
        explainer.explain(frame.head(1))
        assert {threads for rows, threads in model.seen if rows <= 4096} == {1}
        assert max(threads for rows, threads in model.seen if rows > 4096) > 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
