"""A rule book that names a class and says nothing more: no probabilities, no slopes.

Run: python examples/labels_alone.py
"""

import numpy as np
import pandas as pd

import grace

rng = np.random.default_rng(0)
trips = pd.DataFrame({"distance": rng.integers(1, 60, 400), "luggage": rng.choice(["none", "bag", "trunk"], 400)})
trips["rain"] = rng.random(400) < 0.3


def advice(trip: pd.DataFrame) -> np.ndarray:
    """What to travel by."""
    far, heavy = trip["distance"] > 25, trip["luggage"] == "trunk"
    return np.select([far | heavy, trip["rain"] | (trip["distance"] > 8)], ["car", "bus"], "bicycle")


model = grace.wrap(advice, classes=["bicycle", "bus", "car"])
batch = grace.Explainer(model, trips).explain(trips.head(4), max_calls=5000)
for explanation in batch:
    print(explanation)
print(f"The model was asked about {batch.calls} rows.")
