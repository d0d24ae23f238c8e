"""A perceptron of scikit-learn behind a scaler becomes exact layers: gradients, and proofs.

Run: python examples/perceptron.py
"""

from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import grace

table = grace.datasets.load("cancer92")
parts = table.split(seed=0)
columns, labels = parts.train.drop(columns=table.target), parts.train[table.target]
model = make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=500, random_state=0)).fit(columns, labels)

explainer = grace.Explainer(model, parts.train, target=table.target)
for explanation in explainer.explain(parts.test.head(3), prove=True):
    print(explanation, explanation.proof["verdict"])
