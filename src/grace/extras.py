"""The optional packages: what each extra of the distribution brings, and the command that installs it."""

from __future__ import annotations

import shlex

EXTRAS: dict[str, tuple[str, ...]] = {  # as in pyproject.toml, without versions
    "boosting": ("lightgbm", "xgboost-cpu"),
    "catboost": ("catboost",),
    "frames": ("narwhals", "polars", "pyarrow"),
    "keras": ("keras",),
    "lime": ("lime",),
    "mlflow": ("mlflow-skinny",),
    "onnx": ("onnx", "onnxruntime"),
    "parquet": ("pyarrow",),
    "plot": ("matplotlib",),
    "ray": ("pyarrow", "ray[data]"),
    "reproduce": ("lime", "matplotlib", "shap"),
    "study": ("fastapi", "jinja2", "lime", "matplotlib", "python-multipart", "uvicorn"),
    "web": ("fastapi", "jinja2", "python-multipart", "uvicorn"),
}


def pip_install(extra: str) -> str:
    """The command that installs the packages of an extra. It names them one by one, as GRACE itself may come from a
    checkout or a wheel, which pip does not find by name."""
    return shlex.join(["pip", "install", *EXTRAS[extra]])
