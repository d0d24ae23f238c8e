"""An explainer as a model in MLflow, from code and without pickle, and explanations as artifacts of a run.

Run: python examples/mlflow_model.py      (needs the extra mlflow; MLFLOW_TRACKING_URI says where runs are kept)

MLflow keeps this very file as the code of the model and runs it when the model is loaded; see docs/mlflow.md.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
from mlflow.models import infer_signature, set_model
from mlflow.pyfunc import PythonModel, PythonModelContext

import grace
from grace.explain.audit_record import record


class ExplainerModel(PythonModel):
    """Rows in, explanations out: the table of `Explanations.to_frame`. Parameters are those of `Explainer.explain`."""

    def load_context(self, context: PythonModelContext) -> None:
        self.explainer = grace.load(context.artifacts["explainer"])

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        return self.explainer.explain(model_input, **(params or {})).to_frame()


set_model(ExplainerModel())


def log(explainer: grace.Explainer, rows: pd.DataFrame) -> str:
    """Log the explainer as a model, and its explanations of some rows as artifacts; returns the model's address."""
    with mlflow.start_run(), tempfile.TemporaryDirectory() as temporary:
        folder = str(Path(temporary) / "explainer")
        explainer.save(folder, background=False)  # without training rows
        model = mlflow.pyfunc.log_model(
            name="explainer",
            python_model=__file__,
            artifacts={"explainer": folder},
            signature=infer_signature(rows, params={"max_features": 5}),
            pip_requirements=[f"grace-xai[mlflow]=={grace.__version__}"],
        )
        batch = grace.load(folder).explain(rows)  # by what was logged, so that the records are about that
        mlflow.log_metric("explained", float(batch.success.mean()))
        mlflow.log_text(batch.to_frame().to_csv(index_label="row"), "explanations/table.csv")
        mlflow.log_text(batch.to_html(), "explanations/report.html")
        for i in range(len(batch)):
            mlflow.log_text(json.dumps(record(batch, i), indent=1), f"explanations/records/{i}.json")
    return str(model.model_uri)


if __name__ == "__main__":
    table = grace.datasets.load("cancer95")
    parts = table.split(seed=0)
    explainer = grace.Explainer(grace.training.fit(table), parts.train)
    rows = parts.test.drop(columns=table.target).head(3).astype(float)  # MLflow's integers cannot be missing

    address = log(explainer, rows)
    loaded = mlflow.pyfunc.load_model(address)
    for sentence in loaded.predict(rows, params={"max_features": 2})["text"]:
        print(sentence)
    print("The model is", Path(address).name, "at", mlflow.get_tracking_uri())
