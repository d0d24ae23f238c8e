"""Boosted trees with columns of every type: numbers, ordered and other categories, booleans, dates, missing cells.

Run: python examples/boosted_trees.py      (needs the extra boosting)
"""

import lightgbm
import numpy as np
import pandas as pd

import grace

rng = np.random.default_rng(0)
n = 600
loans = pd.DataFrame(
    {
        "income": rng.normal(50, 15, n).round(1),
        "children": rng.integers(0, 5, n),
        "job": pd.Categorical(rng.choice(["clerk", "cook", "nurse"], n)),
        "rating": pd.Categorical(rng.choice(["C", "B", "A"], n), ["C", "B", "A"], ordered=True),
        "owner": rng.random(n) < 0.4,
        "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D"),
    }
)
score = loans["income"] / 10 + loans["rating"].cat.codes + 2 * loans["owner"] - loans["children"]
paid = np.where(score - (loans["since"] > "2020-01-01") > 4, "repaid", "defaulted")
loans.loc[rng.random(n) < 0.1, "income"] = np.nan  # the model takes missing cells as they are, and so does GRACE


def days(frame: pd.DataFrame) -> pd.DataFrame:
    """LightGBM takes no dates."""
    return frame.assign(since=(frame["since"] - pd.Timestamp("2015-01-01")).dt.days)


model = lightgbm.LGBMClassifier(n_estimators=40, verbose=-1, n_jobs=1).fit(days(loans), paid)
function = grace.wrap(lambda frame: model.predict_proba(days(frame)), classes=list(model.classes_))
explainer = grace.Explainer(function, loans)
batch = explainer.explain(loans.head(5), frozen=["children"])
for explanation in batch:
    print(explanation)
print(f"The model was asked about {batch.calls} rows.")
