"""Dates, and grades that can only get better.

Run: python examples/dates_and_grades.py
"""

import numpy as np
import pandas as pd

import grace

rng = np.random.default_rng(1)
n = 800
staff = pd.DataFrame({"hired": pd.Timestamp("2012-01-01") + pd.to_timedelta(rng.integers(0, 3600, n), unit="D")})
staff["grade"] = pd.Categorical(rng.choice(["C", "B", "A"], n), ["C", "B", "A"], ordered=True)
staff["courses"] = rng.integers(0, 6, n)
years = (pd.Timestamp("2023-01-01") - staff["hired"]).dt.days / 365
staff["decision"] = np.where(years + 2 * staff["grade"].cat.codes + staff["courses"] > 11, "promote", "wait")

model = grace.training.fit(staff, "decision", batch_size=64, max_epochs=60)
explainer = grace.Explainer(model, staff)
waiting = staff[staff["decision"] == "wait"].head(3)
for explanation in explainer.explain(waiting, increase_only=["grade", "courses"], frozen=["hired"]):
    print(explanation)
for explanation in explainer.explain(waiting.head(1), n=3):
    print(explanation.text(), *(other.text() for other in explanation.alternatives), sep="\n  or: ")
