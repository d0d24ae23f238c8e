"""Rows in a frame of polars.

Run: python examples/polars_frame.py      (needs polars and the extra parquet)
"""

import polars

import grace

table = grace.datasets.load("cancer95")
parts = table.split(seed=0)
model = grace.training.fit(table, seed=0)
patients = polars.from_pandas(model.impute(parts.test)).filter(polars.col("clump_thickness") > 6).head(3)

explainer = grace.Explainer(model, polars.from_pandas(parts.train))
for explanation in explainer.explain(patients.drop("class")):
    print(explanation)
