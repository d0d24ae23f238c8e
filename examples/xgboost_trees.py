"""XGBoost as it is, with categories of its own.

Run: python examples/xgboost_trees.py      (needs the extra boosting)
"""

import pandas as pd
import xgboost

import grace

table = grace.datasets.load("german_credit")
words = [f.name for f in table.schema.features if isinstance(f, grace.Categorical)]
frame = table.frame.astype(dict.fromkeys(words, "category"))
columns, labels = frame.drop(columns=table.target), pd.factorize(frame[table.target])
model = xgboost.XGBClassifier(n_estimators=40, max_depth=4, enable_categorical=True, n_jobs=1).fit(columns, labels[0])

explainer = grace.Explainer(grace.wrap(model, classes=list(labels[1])), columns)
for explanation in explainer.explain(columns.head(3), frozen=["age", "personal_status_sex", "foreign_worker"]):
    print(explanation)
