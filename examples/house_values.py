"""A network that predicts a number, trained here: what would make a district worth more?

Run: python examples/house_values.py
"""

import grace

table = grace.datasets.load("california_housing")
parts = table.split(seed=0)
model = grace.training.fit(table, seed=0, max_epochs=20)
explainer = grace.Explainer(model, parts.train)
district = parts.test.head(1)
where = ["longitude", "latitude"]  # a district stays where it is
print(explainer.explain(district, against=grace.by("+20 %"), frozen=where)[0])
print(explainer.explain(district, against=grace.below(120_000), frozen=where)[0])
