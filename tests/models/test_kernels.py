"""The kernels beside plain operations. Where there is no GPU, Triton's interpreter runs them on the CPU."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import grace
from grace.methods import walk
from grace.methods.moves import moves_of
from grace.methods.ranking.gradient import nearest_alternative, rank_gradient
from grace.methods.walk import grow
from grace.models import Network, TorchModel, relu
from grace.models.relu import relu_network
from grace.problem.goal import Against, Between
from grace.problem.problem import Problem
from grace.problem.settings import Settings
from problems import MIXED, seeded_network
from subsets import but

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NETWORKS = [((50, 30), 2), ((20,), 2), ((), 3), ((12, 20, 9), 5), ((16, 16, 16, 16), 2)]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switches the kernels on and off; where there is no GPU, the code for GPUs runs on the CPU."""
    for module in ("grace.methods.search", "grace.methods.polish", "grace.methods.walk"):
        monkeypatch.setattr(sys.modules[module], "is_compiled", lambda problem: False)
    return lambda on: monkeypatch.setattr(relu, "usable", lambda device: on)


def numbers(n: int = 200, features: int = 9) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(n, features)).round(3), columns=[f"f{i}" for i in range(features)])
    return frame.assign(f2=rng.integers(0, 6, n), f5=rng.integers(-40, 40, n))


def explainer_of(hidden: tuple[int, ...], classes: int) -> grace.Explainer:
    frame = numbers()
    schema = grace.Schema.infer(frame)
    network = Network(schema, hidden, classes)
    generator = torch.Generator().manual_seed(len(hidden))
    network.initialise(torch.tensor(frame.mean().to_numpy()), torch.tensor(frame.std().to_numpy()), generator)
    network = network.double().eval()
    with torch.no_grad():  # every class is near
        network.layers[-1].bias -= network(torch.tensor(schema.encode(frame))).mean(dim=0)
    model = TorchModel(network, [f"c{i}" for i in range(classes)], outputs="logits", schema=schema)
    return grace.Explainer(model, frame, gamma=0.9, device=DEVICE)


def problem_of(explainer: grace.Explainer, frame: pd.DataFrame) -> Problem:
    rows = explainer.tensor(explainer.schema.encode(frame))
    return explainer._problem(rows, None, explainer.schema, Settings(method="gradient", max_features=3, steps=30))


def grown(problem: Problem) -> torch.Tensor:
    v, slope = nearest_alternative(problem)
    return grow(problem, rank_gradient(problem, slope), v)


@pytest.mark.parametrize(("hidden", "classes"), but([((12, 20, 9), 5)], NETWORKS))
@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_walks_of_the_kernel_are_those_of_plain_operations(
    kernels: Callable[[bool], None], hidden: tuple[int, ...], classes: int, asked: bool
) -> None:
    explainer = explainer_of(hidden, classes)
    problem = problem_of(explainer, numbers().head(12))
    near = torch.arange(12, device=DEVICE)[:, None] % 3 == 0  # rows with little room above
    problem = replace(problem, high=torch.where(near, problem.rows + 0.3, problem.high))
    if asked:
        wanted = (problem.goal.original + 1) % classes
        problem = replace(problem, goal=Against(wanted))
    kernels(False)
    plain = grown(problem)
    kernels(True)
    fast = grown(problem)
    walked = (plain != problem.rows).any(dim=1)
    assert walked.any()
    assert torch.equal(plain != problem.rows, fast != problem.rows)
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-9)
    assert problem.reached(fast)[walked].all()


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_walks_end_after_so_many_steps(kernels: Callable[[bool], None], steps: int) -> None:
    problem = replace(problem_of(explainer_of((50, 30), 2), numbers().head(12)), steps=steps)
    kernels(False)
    plain = grown(problem)
    kernels(True)
    torch.testing.assert_close(grown(problem), plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("hidden", "classes"), NETWORKS)
def test_scores_after_moves_are_those_of_the_moved_rows(
    kernels: Callable[[bool], None], hidden: tuple[int, ...], classes: int
) -> None:
    problem = problem_of(explainer_of(hidden, classes), numbers().head(5))
    check_moves(kernels, problem)


def test_categories_move_too(kernels: Callable[[bool], None]) -> None:
    explainer = grace.Explainer(seeded_network(), MIXED, device=DEVICE)
    problem = problem_of(explainer, MIXED.head(6))
    assert relu_network(problem.model).tables
    check_moves(kernels, problem)


def check_moves(kernels: Callable[[bool], None], problem: Problem) -> None:
    """All rows moving the same features, and each its own."""
    kernels(True)
    moves = moves_of(problem)
    assert moves.network.packed(problem.rows.device) is not None
    some = torch.rand(problem.rows.shape, generator=torch.Generator().manual_seed(0)) < 0.6
    for tried in (moves, moves.of_features(some.to(problem.rows.device))):
        rows = tried.apply(problem.rows)
        expected = problem.model.scores(rows.flatten(0, 1)).reshape(*rows.shape[:2], -1)
        torch.testing.assert_close(tried.scores(problem, problem.rows), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["search", "gradient"])
def test_the_answers_are_the_same(kernels: Callable[[bool], None], method: str) -> None:
    explainer = explainer_of((12, 8), 3)
    rows = numbers().tail(5)
    kernels(False)
    plain = explainer.explain(rows, method=method, max_features=2, steps=30)
    kernels(True)
    fast = explainer.explain(rows, method=method, max_features=2, steps=30)
    assert plain.success.any()
    np.testing.assert_array_equal(plain.changed, fast.changed)
    np.testing.assert_allclose(fast.answers.contrast, plain.answers.contrast, rtol=1e-9)


def test_what_kernels_do_not_know_is_left_to_plain_operations(kernels: Callable[[bool], None]) -> None:
    kernels(True)
    problem = problem_of(explainer_of((12, 8), 2), numbers().head(4))
    v, slope = nearest_alternative(problem)
    chosen = rank_gradient(problem, slope)[:, :2]
    assert walk.grown_at_once(problem, chosen, v) is not None
    zero = torch.zeros(4, dtype=torch.float64, device=DEVICE)
    sure = replace(problem.goal, confidence=0.8)
    for other in (
        replace(problem, as_printed=True),
        replace(problem, goal=Between(zero, zero + 1)),
        replace(problem, goal=sure),
    ):
        assert walk.grown_at_once(other, chosen, v) is None
    wide = relu_network(explainer_of((129, 65), 2).model)
    assert wide.packed(problem.rows.device) is None


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from grace.methods import polish_triton, single_triton, walk_triton
from grace.models import kernels

TYPES = {"whole_ptr": "*i1", "free_ptr": "*i1", "scaled_ptr": "*i1", "alive_ptr": "*i8", "count_ptr": "*i32",
         "taken_ptr": "*i32"}
WHOLE = ("chosen", "target", "own", "feature", "entry", "digits", "features", "key", "which", "line", "come", "go")
TYPES |= {name + "_ptr": "*i64" for name in WHOLE}
for layers, classes, a, b in ((1, 2, 32, 32), (2, 2, 64, 32), (2, 8, 32, 16), (3, 16, 32, 32)):
    shape = {"LAYERS": layers, "C": classes, "A": a, "B": b, "TOLERANCE": 1e-6, "FLIP": layers < 3}
    for kernel, more in (
        (walk_triton._walks, {"K": 5, "P": 8}),
        (kernels._moved_scores, {"TABLES": layers == 2, "BLOCK": 64}),
        (single_triton._bounded, {}),
        (single_triton._walked, {}),
        (polish_triton._polished, {"TABLES": layers == 2, "NORM": 1.0}),
    ):
        fixed = {name: value for name, value in {**shape, **more}.items() if name in kernel.arg_names}
        types = {name: "*fp64" if name.endswith("_ptr") else "i32" for name in kernel.arg_names}
        types |= {name: kind for name, kind in TYPES.items() if name in types} | dict.fromkeys(fixed, "constexpr")
        places = {(kernel.arg_names.index(name),): value for name, value in fixed.items()}
        arrays = {(k,): [["tt.divisibility", 16]] for k, name in enumerate(kernel.arg_names) if name.endswith("_ptr")}
        for aligned in (None, arrays):  # Triton lays aligned arrays out in other ways
            source = ASTSource(fn=kernel, signature=types, constexprs=places, attrs=aligned)
            built = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 1, "num_stages": 1})
            assert "f64" in built.asm["ptx"]
print("built")
"""


@pytest.mark.slow
def test_the_kernels_can_be_built_for_a_gpu(tmp_path: Path) -> None:
    """The interpreter takes what the compiler refuses."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=env, capture_output=True, text=True)
    assert done.stdout == "built\n", done.stderr


def test_where_kernels_fail_plain_operations_go_on(
    kernels: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    explainer = explainer_of((12, 8), 2)
    kernels(False)
    plain = explainer.explain(numbers().head(3))
    kernels(True)
    monkeypatch.setattr("grace.models.kernels.moved_scores", lambda *_: 1 / 0)
    monkeypatch.setattr("grace.methods.walk_triton.walks", lambda *_: 1 / 0)
    with pytest.warns(UserWarning, match="kernels do not work here.*division by zero"):
        failed = explainer.explain(numbers().head(3))
    np.testing.assert_array_equal(failed.answers.contrast, plain.answers.contrast)
