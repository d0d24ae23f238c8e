"""Networks that are not what their layers say: nothing is read off them, and nothing is proven."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import grace
from grace.errors import GraceError
from grace.models.network import Network, is_plain
from grace.models.predictor import Predictor
from grace.models.relu import check_layers, relu_network
from grace.models.torch import TorchModel

RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(RNG.normal(0, 2, (120, 4)).round(2), columns=list("abcd"))
YES = np.where(FRAME["a"] + FRAME["b"] - FRAME["c"] > 0, "yes", "no")
CLASSES = ["no", "yes"]


def plain() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).double().eval()


class Turned(nn.Sequential):
    def forward(self, rows: Tensor) -> Tensor:
        return -super().forward(rows)


class Shifted(nn.Linear):
    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows - 1)


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def subclass_of_sequential() -> nn.Module:
    return Turned(*plain()).double()


def subclass_of_linear() -> nn.Module:
    module = plain()
    module[0] = Shifted(4, 8).double()
    return module


def with_hook() -> nn.Module:
    module = plain()
    module[3].register_forward_hook(lambda layer, given, out: -out)
    return module


def with_early_hook() -> nn.Module:
    module = plain()
    module.register_forward_pre_hook(lambda layer, given: (given[0] - 1,))
    return module


def with_backward_hook() -> nn.Module:
    module = plain()
    module[0].register_full_backward_hook(lambda layer, given, out: None)
    return module


def with_parametrization() -> nn.Module:
    module = plain()
    nn.utils.parametrize.register_parametrization(module[0], "weight", Doubled())
    return module


def with_forward_of_its_own() -> nn.Module:
    module = plain()
    module[3].forward = lambda rows: torch.stack([rows[:, 0], rows[:, 1]], dim=1)
    return module


def with_buffer() -> nn.Module:
    module = plain()
    module.register_buffer("mean", torch.zeros(4, dtype=torch.float64))
    return module


DISGUISES = [
    subclass_of_sequential,
    subclass_of_linear,
    with_hook,
    with_early_hook,
    with_backward_hook,
    with_parametrization,
    with_forward_of_its_own,
    with_buffer,
]


@pytest.mark.parametrize("make", DISGUISES)
def test_a_module_in_disguise_is_any_module(make: Callable[[], nn.Module]) -> None:
    """The answers are those of the module itself, by its gradients, and a proof is refused."""
    module = make().eval()
    model = grace.wrap(module, classes=CLASSES)
    explainer = grace.Explainer(model, FRAME, gamma=1.0)
    assert relu_network(explainer.model) is None
    batch = explainer.explain(FRAME.head(30), domain="minmax")
    with torch.no_grad():
        before, after = (module(torch.tensor(f.to_numpy())).argmax(dim=1) for f in (FRAME.head(30), batch.contrast))
    assert (batch.original_class == np.array(CLASSES)[before]).all()
    assert batch.success.any()
    assert (batch.contrast_class[batch.success] == np.array(CLASSES)[after][batch.success]).all()
    with pytest.raises(GraceError, match="a proof needs a network"):
        explainer.explain(FRAME.head(1), prove=True)


def test_a_global_hook_is_seen() -> None:
    module = plain()
    assert is_plain(module)
    handle = nn.modules.module.register_module_forward_hook(lambda layer, given, out: None)
    try:
        assert not is_plain(module)
    finally:
        handle.remove()
    assert is_plain(module)


def test_a_hook_that_comes_later_is_seen() -> None:
    module = plain()
    explainer = grace.Explainer(grace.wrap(module, classes=CLASSES), FRAME, gamma=1.0)
    assert relu_network(explainer.model) is not None
    module.register_forward_hook(lambda layer, given, out: -out)
    explainer.model.refresh()
    assert relu_network(explainer.model) is None


def test_networks_of_ours_are_read_only_if_they_are_just_that(tmp_path: Any) -> None:
    """A subclass of Network with a forward of its own is no such network, neither when read nor when saved."""

    class Opposite(Network):
        def forward(self, rows: Tensor, shift: Tensor | None = None) -> Tensor:
            return -super().forward(rows, shift)

    fitted = grace.training.fit(FRAME.assign(label=YES), "label", max_epochs=3)
    assert is_plain(fitted.module)
    module = Opposite(fitted.schema, fitted.module.hidden, 2).double().eval()
    module.load_state_dict(fitted.module.state_dict())
    model = TorchModel(module, fitted.classes, outputs="logits", schema=fitted.schema)
    explainer = grace.Explainer(model, FRAME, gamma=1.0)
    assert explainer.model.layout is None
    assert (model.predict(FRAME) != fitted.predict(FRAME)).all()
    explainer.save(str(tmp_path))
    with pytest.raises(GraceError, match="was saved for the Opposite, which is not in it"):
        grace.load(str(tmp_path))


@pytest.fixture
def patched() -> Iterator[None]:
    """torch's own ReLU, replaced for every module: no type tells."""
    own = nn.ReLU.forward
    nn.ReLU.forward = lambda self, rows: rows.clamp(-1, 1)  # type: ignore[method-assign]
    yield
    nn.ReLU.forward = own  # type: ignore[method-assign]


@pytest.mark.usefixtures("patched")
def test_scores_that_differ_drop_the_layers_when_the_model_is_met() -> None:
    module = plain()
    with pytest.warns(UserWarning, match="the Sequential does not compute what its layers say"):
        explainer = grace.Explainer(grace.wrap(module, classes=CLASSES), FRAME, gamma=1.0)
    assert relu_network(explainer.model) is None
    with pytest.raises(GraceError, match="a proof needs a network"):
        explainer.explain(FRAME.head(1), prove=True)


def test_scores_that_differ_on_an_answer_drop_the_layers_and_solve_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no row showed when the model was met shows on an answer: the batch is solved again by the module itself."""
    module = plain()
    explainer = grace.Explainer(grace.wrap(module, classes=CLASSES), FRAME, gamma=1.0)
    own = nn.ReLU.forward
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, rows: own(self, rows).clamp_max(0.8))
    with pytest.warns(UserWarning, match="does not compute what its layers say"):
        batch = explainer.explain(FRAME.head(20), domain="minmax")
    after = module(torch.tensor(batch.contrast.to_numpy())).argmax(dim=1).numpy()
    assert (batch.contrast_class[batch.success] == np.array(CLASSES)[after][batch.success]).all()
    assert relu_network(explainer.model) is None
    explainer.explain(FRAME.head(2))  # said once


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rounding_is_no_difference(offset: float, scale: float) -> None:
    frame = (FRAME * scale + offset).assign(label=YES)
    model = grace.training.fit(frame, "label", max_epochs=3)
    explainer = grace.Explainer(model, frame, gamma=1.0)
    assert relu_network(explainer.model) is not None
    check_layers(explainer.model, explainer.tensor(explainer.background_rows))


# -- estimators -------------------------------------------------------------------------------------


class Contrary(LogisticRegression):
    def predict(self, rows: Any) -> Any:
        return np.where(super().predict(rows) == "yes", "no", "yes")


class Odd(StandardScaler):
    def transform(self, rows: Any, copy: bool | None = None) -> Any:
        return -super().transform(rows, copy)


Odd.__name__ = "StandardScaler"  # a name is not a type


class Reversed(Pipeline):
    def predict(self, rows: Any, **params: Any) -> Any:
        return np.where(super().predict(rows) == "yes", "no", "yes")


@pytest.mark.parametrize(
    "model",
    [
        Contrary(),
        make_pipeline(Odd(), LogisticRegression()),
        Reversed([("scale", StandardScaler()), ("last", LogisticRegression())]),
    ],
    ids=["subclass", "scaler", "pipeline"],
)
def test_an_estimator_in_disguise_is_a_black_box(model: Any) -> None:
    model.fit(FRAME, YES)
    explainer = grace.Explainer(model, FRAME, gamma=1.0)
    assert isinstance(explainer.model, Predictor)
    batch = explainer.explain(FRAME.head(10), domain="minmax")
    assert (batch.original_class == model.predict(FRAME.head(10))).all()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_a_replaced_predict_is_seen() -> None:
    model = LogisticRegression().fit(FRAME, YES)
    assert isinstance(grace.wrap(model), TorchModel)
    model.predict = lambda rows: np.repeat("yes", len(rows))
    assert isinstance(grace.wrap(model), Predictor)


def test_an_estimator_that_is_fitted_again_is_asked_itself() -> None:
    """Layers are read once; an estimator that has changed since is noticed on the first answer."""
    model = LogisticRegression().fit(FRAME, YES)
    explainer = grace.Explainer(model, FRAME, gamma=1.0)
    assert isinstance(explainer.model, TorchModel)
    model.fit(FRAME, np.where(YES == "yes", "no", "yes"))
    with pytest.warns(UserWarning, match="the LogisticRegression does not compute what its layers say"):
        batch = explainer.explain(FRAME.head(10), domain="minmax")
    assert isinstance(explainer.model, Predictor)
    assert (batch.original_class == model.predict(FRAME.head(10))).all()
    assert (model.predict(batch.contrast)[batch.success] == batch.contrast_class[batch.success]).all()


def test_probabilities_of_layers_are_those_of_the_estimator() -> None:
    """Some estimators make other probabilities of their scores than softmax does: then none are shown."""
    frame, labels = FRAME, np.array(["x", "y", "z"])[np.digitize(FRAME["a"] + FRAME["b"], [-1, 1])]
    huber = SGDClassifier(loss="modified_huber", random_state=0).fit(frame, labels)
    assert grace.wrap(huber).no_probabilities_because == "its predict_proba is not the softmax of its scores"
    sure = grace.Explainer(LogisticRegression().fit(frame, labels), frame)
    given = LogisticRegression().fit(frame, labels).predict_proba(frame)
    np.testing.assert_allclose(sure.model.predict_proba(frame), given, atol=1e-9)


def test_names_in_another_order_are_the_estimators_own() -> None:
    model = LogisticRegression().fit(FRAME, YES)
    for known in (model, FixedThresholdClassifier(model, threshold=0.3, pos_label="yes").fit(FRAME, YES)):
        turned = grace.Explainer(grace.wrap(known, classes=["yes", "no"]), FRAME, gamma=1.0)
        assert (turned.model.predict(FRAME) == known.predict(FRAME)).all()
    renamed = grace.Explainer(grace.wrap(model, classes=["bad", "good"]), FRAME, gamma=1.0)
    assert isinstance(renamed.model, TorchModel)
    assert (renamed.model.predict(FRAME) == np.where(model.predict(FRAME) == "yes", "good", "bad")).all()
