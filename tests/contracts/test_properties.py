"""The promises, on random networks, rows and settings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import grace
from grace.models import Network, TorchModel
from promises import check

SETTINGS = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["gradient", "local"]),
        "max_features": st.integers(1, 6),
        "gamma": st.sampled_from([0.0, 0.2, 0.5, 1.0]),
        "domain": st.sampled_from(["central", "minmax", 0.8]),
    }
)


@st.composite
def explainers(draw: st.DrawFn) -> tuple[grace.Explainer, pd.DataFrame]:
    """A random network on a random table of numbers, whole numbers, categories, copies and constants."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = 60
    columns: dict[str, object] = {}
    for j, kind in enumerate(draw(st.lists(st.sampled_from("fficckw"), min_size=2, max_size=6))):
        name = f"{kind}{j}"
        if kind == "f":
            columns[name] = np.round(rng.normal(0, 10.0 ** rng.integers(-2, 4), n), int(rng.integers(0, 5)))
        elif kind == "i":
            columns[name] = rng.integers(-3, int(rng.integers(0, 60)), n)
        elif kind == "c":
            columns[name] = rng.choice([f"v{k}" for k in range(int(rng.integers(2, 6)))], n)
        elif kind == "k":
            columns[name] = np.full(n, 2.5)
        else:
            columns[name] = np.round(rng.exponential(3, n), 1)
    frame = pd.DataFrame(columns)
    schema = grace.Schema.infer(frame)
    classes = draw(st.integers(2, 4))
    network = Network(schema, (10, 6), classes)
    numeric = [f for f in schema.features if isinstance(f, grace.Numeric)]
    with torch.no_grad():
        network.initialise(
            torch.tensor([f.typical for f in numeric]),
            torch.tensor([f.spread for f in numeric]),
            torch.Generator().manual_seed(int(rng.integers(2**31))),
        )
    model = TorchModel(network.double().eval(), [f"c{k}" for k in range(classes)], outputs="logits", schema=schema)
    return grace.Explainer(model, frame), frame.head(draw(st.integers(1, 8)))


@given(explainers(), SETTINGS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_promises_hold(made: tuple[grace.Explainer, pd.DataFrame], chosen: dict) -> None:
    explainer, rows = made
    batch = explainer.explain(rows, **chosen)
    check(explainer, rows, batch, chosen["method"], polished=True)
    alone = np.concatenate([explainer.explain(rows.iloc[[i]], **chosen).answers.contrast for i in range(len(rows))])
    assert (alone == batch.answers.contrast).all()
    assert (explainer.explain(rows, **chosen).answers.contrast == batch.answers.contrast).all()
