"""Models: any torch module read as it is, in float64, and left as it was."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import grace
from grace import Categorical, GraceError, Numeric, Schema
from grace.methods import METHODS
from grace.models import Network, TorchModel
from grace.problem.goal import Against, Flip, MarginFunction

pytestmark = pytest.mark.quick

RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"a": RANDOM.normal(0, 2, 80).round(2), "b": RANDOM.normal(5, 1, 80).round(2), "c": RANDOM.integers(0, 9, 80)}
)
ROWS = torch.as_tensor(FRAME.to_numpy())
MIXED = FRAME.assign(d=RANDOM.choice(["u", "v", "w"], 80))
MIXED_SCHEMA = Schema.infer(MIXED)
MIXED_ROWS = torch.as_tensor(MIXED_SCHEMA.encode(MIXED))
SHIFT, SCALE = torch.tensor([0.0, 5.0, 4.0]), torch.tensor([2.0, 1.0, 2.5])


def body(outputs: int, inputs: int = 3, last: nn.Module | None = None) -> nn.Sequential:
    """A small network that puts about as many rows into each class."""
    torch.manual_seed(outputs)
    module = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))
    sample = ROWS.float() if inputs == 3 else torch.randn(80, inputs)
    with torch.no_grad():
        module[2].weight.mul_(4)
        module[2].bias.sub_(module(sample).mean(dim=0))
    return module if last is None else module.append(last)


class Then(nn.Module):
    """A module, then a function of its output; or a function of its input first."""

    def __init__(self, inner: nn.Module, then: Callable[..., Any], first: Callable[..., Any] = lambda x: x) -> None:
        super().__init__()
        self.inner, self.then, self.first = inner, then, first

    def forward(self, x: Tensor) -> Any:
        return self.then(self.inner(self.first(x)))


def flat(x: Tensor) -> Tensor:
    return x[:, 0]


def names(count: int) -> list[str]:
    return [f"class {i}" for i in range(count)]


def bound(module: nn.Module, classes: int = 2, frame: pd.DataFrame = FRAME, **more: Any) -> TorchModel:
    """The module as a model that has met the data."""
    model = grace.wrap(module, classes=names(classes), **more)
    return grace.Explainer(model, frame).model  # type: ignore[return-value]


def reference(module: nn.Module, inputs: Tensor = ROWS) -> Tensor:
    """What the module says in float64."""
    with torch.no_grad():
        return copy.deepcopy(module).double().eval()(inputs)


def central(function: Callable[[Tensor], Tensor], at: Tensor, step: float = 1e-6) -> Tensor:
    """Derivatives (n, outputs, inputs) of a function of rows by central differences."""
    eye = torch.eye(at.shape[1], dtype=at.dtype) * step
    with torch.no_grad():
        return torch.stack([(function(at + e) - function(at - e)) / (2 * step) for e in eye], dim=2)


# -- outputs of every kind ------------------------------------------------------------------------

OUTPUTS: dict[str, tuple[nn.Module, int, Callable[[Tensor], Tensor]]] = {
    "two logits": (body(2), 2, lambda out: out.softmax(dim=1)),
    "five logits": (body(5), 5, lambda out: out.softmax(dim=1)),
    "log-probabilities": (body(3, last=nn.LogSoftmax(dim=1)), 3, torch.exp),
    "probabilities": (body(4, last=nn.Softmax(dim=1)), 4, lambda out: out),
    "one logit (n, 1)": (body(1), 2, lambda out: torch.cat([(-out).sigmoid(), out.sigmoid()], dim=1)),
    "one logit (n,)": (Then(body(1), flat), 2, lambda out: torch.stack([(-out).sigmoid(), out.sigmoid()], dim=1)),
    "one probability (n, 1)": (body(1, last=nn.Sigmoid()), 2, lambda out: torch.cat([1 - out, out], dim=1)),
    "one probability (n,)": (
        Then(body(1, last=nn.Sigmoid()), flat),
        2,
        lambda out: torch.stack([1 - out, out], dim=1),
    ),
}


@pytest.mark.parametrize("met", ["explainer", "schema"])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_predictions_are_those_of_the_module(kind: str, met: str) -> None:
    module, count, probabilities = OUTPUTS[kind]
    if met == "explainer":
        model = bound(module, count)
    else:  # the columns are known, but no data were seen yet
        model = grace.wrap(module, classes=names(count), schema=Schema.infer(FRAME))
    expected = probabilities(reference(module)).numpy()
    shuffled = FRAME[["c", "a", "b"]].set_index(FRAME.index + 7)
    found = model.predict_proba(shuffled)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert list(found.columns) == names(count)
    assert list(found.index) == list(shuffled.index)
    assert len(set(model.predict(FRAME))) > 1
    assert list(model.predict(shuffled)) == [names(count)[i] for i in expected.argmax(axis=1)]


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_outputs_can_be_declared(outputs: str) -> None:
    module = body(2, last=nn.Softmax(dim=1))
    expected = reference(module)
    expected = expected.softmax(dim=1) if outputs == "logits" else expected
    found = bound(module, outputs=outputs).predict_proba(FRAME)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_one_logit_between_0_and_1_is_not_taken_for_a_probability() -> None:
    """Without training rows there is little to tell them apart by."""
    module = nn.Linear(3, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 0.0, 0.0]]))
        module.bias.fill_(0.25)  # the logit of a row of zeros
    model = grace.wrap(module, classes=["no", "yes"])
    grace.Explainer(model, schema=Schema.infer(FRAME))
    assert list(model.predict(FRAME)) == ["yes" if a > -0.25 else "no" for a in FRAME["a"]]


@pytest.mark.parametrize("casts", [False, True], ids=["plain", "casts inside"])
@pytest.mark.parametrize("last", [None, nn.Softmax(dim=1)], ids=["logits", "probabilities"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_precision(dtype: torch.dtype, last: nn.Module | None, casts: bool) -> None:
    """A module is read in float64, or in its own precision where it insists on it."""
    inner = body(3, last=last).to(dtype)
    module = Then(inner, lambda x: x, lambda x: x.to(dtype)) if casts else inner
    model = bound(module, 3)
    with torch.no_grad():
        out = inner(ROWS.to(dtype)).double() if casts else reference(inner)
    expected = out.softmax(dim=1) if last is None else out / out.sum(dim=1, keepdim=True)
    np.testing.assert_allclose(model.predict_proba(FRAME), expected, rtol=1e-6 if casts else 1e-9, atol=1e-9)
    assert {p.dtype for p in module.parameters()} == {dtype}
    assert model.scores(ROWS).dtype == torch.float64
    scores, slopes = model.slopes(ROWS, lambda s: s)
    assert scores.dtype == slopes.dtype == torch.float64
    assert slopes.isfinite().all()


def test_a_row_does_not_depend_on_its_batch() -> None:
    model = bound(body(3), 3)
    alone = torch.cat([model.scores(row[None]) for row in ROWS])
    torch.testing.assert_close(model.scores(ROWS), alone, rtol=1e-12, atol=1e-12)


def test_a_module_may_keep_its_weights_in_buffers() -> None:
    class Frozen(nn.Module):
        weight: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.tensor([[1.0, -1.0], [0.1, 0.0], [0.0, 0.1]]))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight

    module = Frozen()
    np.testing.assert_allclose(bound(module).predict_proba(FRAME), reference(module).softmax(dim=1))


def test_weights_may_be_shared() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = self.first

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    module = Twice()
    np.testing.assert_allclose(bound(module, 3).predict_proba(FRAME), reference(module).softmax(dim=1))


# -- the module stays as it is --------------------------------------------------------------------


def busy(dtype: torch.dtype) -> nn.Sequential:
    """A module with something that behaves differently in training."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(3, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Sequential(nn.Dropout(0.5)),
        nn.Linear(16, 3),
    ).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mode", ["train", "eval", "mixed"])
def test_the_module_is_left_as_it_was(mode: str, dtype: torch.dtype) -> None:
    module = busy(dtype).train(mode != "eval")
    if mode == "mixed":
        module[1].eval()
        module[4].eval()
    module[0].weight.requires_grad_(False)
    modes = [m.training for m in module.modules()]
    state = {k: v.clone() for k, v in module.state_dict().items()}
    wanting = [p.requires_grad for p in module.parameters()]
    explainer = grace.Explainer(grace.wrap(module, classes=names(3)), FRAME, gamma=1, steps=5)
    for method in METHODS:
        explainer.explain(FRAME[:2], method=method)
    assert [m.training for m in module.modules()] == modes
    assert all(torch.equal(v, state[k]) for k, v in module.state_dict().items())
    assert [p.requires_grad for p in module.parameters()] == wanting
    assert all(p.grad is None for p in module.parameters())


def test_dropout_and_batch_statistics_do_not_act() -> None:
    module = busy(torch.float32).train()
    model = bound(module, 3)
    assert torch.equal(model.scores(ROWS), model.scores(ROWS))
    torch.testing.assert_close(model.scores(ROWS), reference(module))


def test_the_mode_comes_back_after_an_error() -> None:
    def fail(x: Tensor) -> Tensor:
        raise RuntimeError("no such layer\nat all")

    module = Then(busy(torch.float32), fail).train()
    module.inner[3].eval()
    modes = [m.training for m in module.modules()]
    with pytest.raises(GraceError, match=r"no such layer[^\n]*$"):
        bound(module, 3)
    assert [m.training for m in module.modules()] == modes


def by_adam(module: nn.Module) -> None:
    optimiser = torch.optim.Adam(module.parameters(), lr=0.1)
    nn.functional.cross_entropy(module(ROWS.to(next(module.parameters()).dtype)), ROWS[:, 2].long() % 2).backward()
    optimiser.step()


def by_loading(module: nn.Module) -> None:
    module.load_state_dict({k: v * 0.5 for k, v in module.state_dict().items()})


def by_data(module: nn.Module) -> None:
    for p in module.parameters():
        p.data.mul_(0.5)


def by_new_parameters(module: nn.Module) -> None:
    module[0] = nn.Linear(3, 8, dtype=module[0].weight.dtype)


@pytest.mark.parametrize("change", [by_adam, by_loading, by_data, by_new_parameters])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_module_trained_further_is_read_anew(change: Callable[[nn.Module], None], dtype: torch.dtype) -> None:
    module = body(2).to(dtype)
    model = bound(module)
    before = model.scores(ROWS)
    change(module)
    model.refresh()  # as every call of predict and explain does
    assert not torch.equal(model.scores(ROWS), before)
    torch.testing.assert_close(model.scores(ROWS), reference(module))


def test_explaining_works_under_no_grad() -> None:
    explainer = grace.Explainer(grace.wrap(body(2), classes=names(2)), FRAME)
    with torch.no_grad():
        quiet = explainer.explain(FRAME[:5])
    pd.testing.assert_frame_equal(quiet.contrast, explainer.explain(FRAME[:5]).contrast)


# -- encode ---------------------------------------------------------------------------------------


def test_encode_scales() -> None:
    module = body(2)
    model = bound(module, encode=lambda rows: (rows - SHIFT) / SCALE)
    np.testing.assert_allclose(model.predict_proba(FRAME), reference(module, (ROWS - SHIFT) / SCALE).softmax(dim=1))
    explained = grace.Explainer(model, FRAME).explain(FRAME[:10])
    assert explained.success.any()
    assert (model.predict(explained.contrast)[explained.success] == explained.contrast_class[explained.success]).all()


def one_hot(rows: Tensor) -> Tensor:
    return torch.cat([(rows[:, :3] - SHIFT) / SCALE, 5 * nn.functional.one_hot(rows[:, 3].long(), 3)], dim=1)


class Embedding(nn.Module):
    """Numbers as they are, the last column a code."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding.from_pretrained(4 * torch.randn(3, 2), freeze=False)
        self.body = body(2, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(torch.cat([(x[:, :3] - SHIFT) / SCALE, self.table(x[:, 3].long())], dim=1))


class Codes(nn.Module):
    """Nothing but codes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(3, 4)
        self.body = body(2, 4)

    def forward(self, codes: Tensor) -> Tensor:
        return self.body(self.table(codes).sum(dim=1))


CATEGORICAL: dict[str, tuple[nn.Module, Callable[[Tensor], Tensor] | None, list[str]]] = {
    "one-hot": (body(2, 6), one_hot, ["a", "b", "c", "d"]),
    "embedding": (Embedding(), None, ["a", "b", "c", "d"]),
    "codes alone": (Codes(), lambda rows: rows.long(), ["d", "e"]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", CATEGORICAL)
def test_categories_reach_the_module_as_positions(kind: str, dtype: torch.dtype) -> None:
    module, encode, columns = CATEGORICAL[kind]
    module = copy.deepcopy(module).to(dtype)
    frame = MIXED.assign(e=MIXED["d"].to_numpy()[::-1])[columns]
    explainer = grace.Explainer(grace.wrap(module, classes=names(2), encode=encode), frame, gamma=1)
    rows = torch.as_tensor(explainer.schema.encode(frame))
    expected = reference(module, rows if encode is None else encode(rows)).softmax(dim=1)
    np.testing.assert_allclose(explainer.model.predict_proba(frame), expected, rtol=1e-9)
    explained = explainer.explain(frame[:20])
    assert explained.success.any()
    assert explained.changed.loc[explained.success, "d"].any()
    after = explainer.model.predict(explained.contrast)
    assert (after[explained.success] == explained.contrast_class[explained.success]).all()
    assert (after != explained.original_class)[explained.success].all()


# -- gradients ------------------------------------------------------------------------------------


def differences(scores: Tensor) -> Tensor:
    """Some margins: not linear in the scores, and fewer than there are classes."""
    return torch.stack([scores[:, 0] - scores[:, 1], scores[:, 2] * scores[:, 0]], dim=1)


@pytest.mark.parametrize("margins", [lambda s: s, differences], ids=["scores", "margins"])
@pytest.mark.parametrize("last", [None, nn.Softmax(dim=1)], ids=["logits", "probabilities"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_slopes_are_derivatives(
    dtype: torch.dtype, last: nn.Module | None, margins: Callable[[Tensor], Tensor]
) -> None:
    module = body(3, last=last).to(dtype)
    model = bound(module, 3, encode=lambda rows: (rows - SHIFT) / SCALE)
    scores, slopes = model.slopes(ROWS, margins)
    torch.testing.assert_close(scores, model.scores(ROWS))
    torch.testing.assert_close(slopes, central(lambda x: margins(model.scores(x)), ROWS), rtol=1e-6, atol=1e-7)
    assert not slopes.requires_grad


@pytest.mark.parametrize("kind", ["one-hot", "embedding"])
def test_slopes_of_categories_are_what_the_margin_gains(kind: str) -> None:
    module, encode, _ = CATEGORICAL[kind]
    model = bound(module, frame=MIXED, encode=encode)
    moving = torch.arange(len(MIXED) * 4).reshape(-1, 4) % 3 > 0
    _, slopes = model.slopes(MIXED_ROWS, lambda s: s, moving)
    assert slopes.shape == (len(MIXED), 2, 3 + 3)

    def at(numbers: Tensor) -> Tensor:
        return model.scores(torch.cat([numbers, MIXED_ROWS[:, 3:]], dim=1))

    torch.testing.assert_close(slopes[:, :, :3], central(at, MIXED_ROWS[:, :3]), rtol=1e-6, atol=1e-7)
    for code in range(3):
        other = MIXED_ROWS.clone()
        other[:, 3] = code
        gain = model.scores(other) - model.scores(MIXED_ROWS)
        asked = moving[:, 3]
        torch.testing.assert_close(slopes[asked][:, :, 3 + code], gain[asked])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_slopes_of_the_own_network_reach_its_embeddings(dtype: torch.dtype) -> None:
    schema = Schema(
        features=(
            Categorical(name="d", categories=("u", "v", "w")),
            Numeric(name="a", observed=(-5.0, 5.0)),
            Categorical(name="e", categories=tuple("12345")),
            Numeric(name="b", observed=(0.0, 9.0)),
        )
    )
    network = Network(schema, (9, 7), 3)
    with torch.no_grad():
        network.initialise(torch.tensor([0.0, 5.0]), torch.tensor([2.0, 1.0]), torch.Generator().manual_seed(0))
    network = network.to(dtype)
    model = TorchModel(network, names(3), schema=schema)
    codes = torch.arange(80, dtype=torch.float64)
    rows = torch.stack([codes % 3, ROWS[:, 0], codes % 5, ROWS[:, 1]], dim=1)
    double = copy.deepcopy(network).double()
    scores, slopes = model.slopes(rows, lambda s: s)
    torch.testing.assert_close(scores, double(rows).detach())

    def at(point: Tensor) -> Tensor:
        moved = rows.clone()
        moved[:, [1, 3]] = point[:, :2]
        return double(moved, point[:, 2:])

    widths = sum(table.shape[1] for table in model.vectors().values())
    assert slopes.shape == (80, 3, 2 + widths)
    start = torch.cat([rows[:, [1, 3]], torch.zeros(80, widths, dtype=torch.float64)], dim=1)
    torch.testing.assert_close(slopes, central(at, start), rtol=1e-6, atol=1e-7)

    table, other = double.vectors()[0].detach(), rows.clone()
    other[:, 0] = (rows[:, 0] + 1) % 3
    shift = torch.zeros(80, widths, dtype=torch.float64)
    shift[:, : table.shape[1]] = table[other[:, 0].long()] - table[rows[:, 0].long()]
    torch.testing.assert_close(double(rows, shift), double(other))  # a shift is the way to another category


# -- modules that do not fit ----------------------------------------------------------------------


def nan(x: Tensor) -> Tensor:
    return x / 0 * 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bound(body(3), 2), r"\(80, 3\).* 2 classes"),
        (lambda: bound(body(2), 4), r"\(80, 2\).* 4 classes"),
        (lambda: bound(body(1), 3), r"\(80, 1\).* 3 classes"),
        (lambda: bound(Then(body(1), flat), 3), r"\(80,\).* 3 classes"),
        (lambda: bound(Then(body(2), lambda x: x[:7])), r"\(7, 2\).*80 rows"),
        (lambda: bound(Then(body(2), lambda x: x[None])), r"\(1, 80, 2\)"),
        (lambda: bound(Then(body(2), lambda x: x.sum())), r"shape \(\)"),
        (lambda: bound(Then(body(2), nan)), "NaN.*row 0"),
        (lambda: bound(Then(body(2), lambda x: (x, x))), "returned tuple"),
        (lambda: bound(Then(body(2), lambda x: {"logits": x})), "returned dict"),
        (lambda: bound(body(2), encode=lambda rows: rows.numpy()), "`encode` returned ndarray"),
        (lambda: bound(body(2), encode=lambda rows: rows[:, :2]), "80 rows of 3 features.*encode"),
        (lambda: bound(body(2).double(), encode=lambda rows: rows[:, :2]), "80 rows of 3 features"),
        (lambda: bound(body(2), encode=lambda rows: rows[:, 5]), "80 rows of 3 features.*index 5"),
        (lambda: bound(nn.Sequential(nn.Embedding(2, 2), nn.Flatten()), encode=lambda r: r.long()), "index out of"),
        (lambda: grace.wrap(body(2), classes=["a", "b", "a"]), "'a'.*twice"),
        (lambda: grace.wrap(body(2), classes=["a"]), "'a'.*two"),
        (lambda: grace.wrap(body(2), classes=2), "classes=2"),
        (lambda: grace.wrap(body(2), classes=["a", "b"], outputs="probs"), "'probs'.*'logits', 'probabilities'"),
        (lambda: grace.wrap(7, classes=["a", "b"]), "int cannot.*torch.nn.Module.*function"),
        (lambda: grace.wrap(body(2), classes=["a", "b"]).predict(FRAME), "schema="),
    ],
)
def test_a_module_that_does_not_fit_is_an_error(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraceError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_no_gradient_is_an_error_that_says_so() -> None:
    explainer = grace.Explainer(grace.wrap(body(2), classes=names(2), encode=lambda rows: rows.detach()), FRAME)
    with pytest.raises(GraceError, match="no gradient reaches the rows"):
        explainer.explain(FRAME[:2])


def test_an_explainer_that_failed_leaves_no_trace_in_the_model() -> None:
    frame = FRAME.assign(y=["no", "yes"] * 40)
    model = grace.wrap(body(2), classes=["no", "yes"])
    with pytest.raises(GraceError, match="4 features"):
        grace.Explainer(model, frame)  # the target was forgotten
    explainer = grace.Explainer(model, frame, target="y")
    assert explainer.schema.names == ["a", "b", "c"]
    torch.testing.assert_close(model.scores(ROWS), reference(model.module), rtol=1e-12, atol=1e-12)


def test_classes_may_come_from_numpy() -> None:
    frame = FRAME.assign(y=reference(body(2)).argmax(dim=1).numpy())
    model = grace.wrap(body(2), classes=np.unique(frame["y"]))
    explanation = grace.Explainer(model, frame, target="y").explain(frame[:1])[0]
    assert grace.Explanation.from_json(explanation.to_json()).classes == (0, 1)


# -- the order of the classes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "right"),
    [(["no", "yes"], ["yes", "no"]), (["r", "g", "b"], ["g", "b", "r"]), (["r", "g", "b"], ["g", "r", "b"])],
)
def test_a_wrong_order_of_classes_is_noticed(given: list[str], right: list[str]) -> None:
    module = nn.Linear(3, len(given))
    with torch.no_grad():
        module.weight.copy_(torch.eye(3)[: len(given)])
        module.bias.copy_(-ROWS.mean(dim=0)[: len(given)])
    predicted = reference(module).argmax(dim=1)
    assert len(set(predicted.tolist())) == len(given)
    frame = FRAME.assign(y=[right[i] for i in predicted])
    with pytest.warns(UserWarning, match="100%.*" + re.escape(f"order {right!r}")):
        grace.Explainer(grace.wrap(module, classes=given), frame, target="y")
    grace.Explainer(grace.wrap(module, classes=right), frame, target="y")  # no warning: warnings are errors


def test_the_warning_points_at_the_caller() -> None:
    frame = FRAME.assign(y=["no" if i else "yes" for i in reference(body(2)).argmax(dim=1)])
    with pytest.warns(UserWarning, match="order of classes=") as caught:
        grace.Explainer(grace.wrap(body(2), classes=["no", "yes"]), frame, target="y")
    assert [w.filename for w in caught] == [__file__]


def test_a_poor_model_is_not_suspected() -> None:
    frame = FRAME.assign(y=["no", "yes"] * 40)
    grace.Explainer(grace.wrap(body(2), classes=["no", "yes"]), frame, target="y")


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("wanted", [False, True])
def test_slopes_of_leads_are_those_that_recording_finds(classes: int, wanted: bool) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 5)), columns=list("abcde"))
    schema = grace.Schema.infer(frame)
    network = Network(schema, (9, 7), classes)
    network.initialise(torch.zeros(5), torch.full((5,), 1.5), torch.Generator().manual_seed(1))
    model = TorchModel(network.double().eval(), [f"c{i}" for i in range(classes)], outputs="logits", schema=schema)
    rows = torch.as_tensor(schema.encode(frame))
    original = model.scores(rows).argmax(dim=1)
    goal = Against((original + 1) % classes) if wanted else Flip(original)
    some = torch.zeros_like(original)[:, None] if wanted else ((original + 1) % classes)[:, None]
    for towards in (MarginFunction(goal), MarginFunction(goal, some)):
        scores, slopes = model.slopes(rows, towards)
        recorded = model.slopes(rows, lambda s, margins=towards: margins(s))
        torch.testing.assert_close(scores, recorded[0])
        torch.testing.assert_close(slopes, recorded[1])
        assert slopes.abs().sum() > 0
