"""A pipeline of scikit-learn as it is: preprocessing inside, labels as text.

Run: python examples/pipeline.py
"""

from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import grace

table = grace.datasets.load("german_credit")
parts = table.split(seed=0)
columns, labels = parts.train.drop(columns=table.target), parts.train[table.target]
words = make_column_selector(dtype_exclude="number")
encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), words), remainder="passthrough")
model = make_pipeline(encode, RandomForestClassifier(50, random_state=0, n_jobs=1)).fit(columns, labels)

explainer = grace.Explainer(model, parts.train, target=table.target)
for explanation in explainer.explain(parts.test.head(3), max_calls=20_000):
    print(explanation)
