"""Served models of every kind that the page shows differently, small enough to be made at once."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from torch import nn

import grace
from grace.web.service import Served

N = 200


def homes(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": rng.integers(40, 200, n), "kind": rng.choice(["flat", "house"], n)})
    return frame.assign(built=rng.integers(1950, 2020, n))


def price(rows: pd.DataFrame) -> np.ndarray:
    return np.asarray(1500.0 * rows["area"] + 40_000.0 * (rows["kind"] == "house") + 500.0 * (rows["built"] - 1950))


def explained_homes() -> grace.Explainer:
    return grace.Explainer(grace.wrap(price, outputs="numbers", task="regression"), homes())


@cache
def homes_model() -> Served:
    """A number to predict."""
    return Served("homes", explained_homes())


def big(rows: pd.DataFrame) -> np.ndarray:
    return np.clip((rows["area"] - 40) / 160 * 0.7 + 0.3 * (rows["kind"] == "house"), 0.01, 0.99).to_numpy()


@cache
def cutoff_model() -> Served:
    """A class that is decided from a probability on."""
    model = grace.wrap(big, classes=["klein", "groß"], outputs="probabilities", threshold=0.375)
    return Served("cutoff", grace.Explainer(model, homes()))


@cache
def labels_model() -> Served:
    """Classes without probabilities."""
    model = grace.wrap(lambda rows: np.where(big(rows) > 0.5, "groß", "klein"), classes=["klein", "groß"])
    return Served("labels", grace.Explainer(model, homes()))


@cache
def clusters_model() -> Served:
    numbers = homes().drop(columns="kind")
    return Served("clusters", grace.Explainer(KMeans(3, n_init=1, random_state=0).fit(numbers), numbers))


@cache
def curved_model() -> Served:
    """No proofs."""
    import torch

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    numbers = homes().drop(columns="kind") / 100
    return Served("curved", grace.Explainer(grace.wrap(network, classes=["a", "b"]), numbers))


@cache
def dated_model() -> Served:
    rng = np.random.default_rng(0)
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), unit="D")
    frame = pd.DataFrame({"since": since, "area": rng.integers(40, 200, N)})
    model = grace.wrap(lambda rows: np.where(rows["since"] > "2021-06-01", 0.9, 0.1), classes=["früh", "spät"])
    return Served("dated", grace.Explainer(model, frame))


@cache
def gappy_model() -> Served:
    """Missing cells that the model takes."""
    frame = homes().astype({"area": float, "kind": "category"})
    frame.loc[::7, "area"] = np.nan
    frame.loc[1::7, "kind"] = np.nan
    asked = lambda rows: np.where(rows["area"].isna() | (rows["area"].astype(float) > 120), 0.9, 0.2)  # noqa: E731
    return Served("gappy", grace.Explainer(grace.wrap(asked, classes=["klein", "groß"]), frame))


@cache
def following_model() -> Served:
    """Features that move along with others."""
    frame = homes().drop(columns="kind")
    frame["rooms"] = (frame["area"] // 25).astype(int)
    model = grace.wrap(lambda rows: np.where(rows["area"] > 120, 0.9, 0.1), classes=["klein", "groß"])
    return Served("following", grace.Explainer(model, frame, follow=["rooms"]))


def own_table() -> pd.DataFrame:
    """A table as people have it: an id, rows that do not fit, missing cells."""
    return pd.DataFrame(
        {
            "kunde": ["C-17", "C-18", "C-19", "C-20"],
            "area": ["80", "viel", None, "150"],
            "kind": ["flat", "house", "house", "Zelt"],
            "built": [1990, 1991, 1992, 1993],
        }
    )


@cache
def browsed_model() -> Served:
    """A table of the user's own."""
    return Served("browsed", cutoff_model().quick.explainer, rows=own_table())
