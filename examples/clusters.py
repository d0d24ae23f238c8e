"""Why this cluster rather than that one?

Run: python examples/clusters.py
"""

from sklearn.cluster import KMeans

import grace

table = grace.datasets.load("diabetes")
columns = table.frame.drop(columns=table.target)
model = KMeans(3, n_init=1, random_state=0).fit(columns)
explainer = grace.Explainer(model, columns)
print(explainer.explain(columns.head(1))[0])
# k-means is a linear model at heart, so that it can be proven that no fewer changes would do
print(explainer.explain(columns.head(1), against=int((model.labels_[0] + 2) % 3), prove=True, gamma=1.0)[0])
