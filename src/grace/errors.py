"""The one exception a user of GRACE has to catch, and the remedy for an optional package that is missing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

MORE = ", ... ({count} in all)"
MOST_NAMED = 8
MOST = 1200  # characters of a message; names and values from files may be of any length

EXTRAS: dict[str, tuple[str, ...]] = {
    "boosting": ("lightgbm", "xgboost-cpu"),
    "catboost": ("catboost",),
    "frames": ("narwhals", "polars", "pyarrow"),
    "interpret": ("interpret-core",),
    "keras": ("keras",),
    "lime": ("lime",),
    "mlflow": ("mlflow-skinny",),
    "onnx": ("onnx", "onnxruntime"),
    "parquet": ("pyarrow",),
    "plot": ("matplotlib",),
    "ray": ("pyarrow", "ray[data]"),
    "reproduce": ("lime", "matplotlib", "shap"),
    "study": ("fastapi", "lime", "matplotlib", "python-multipart", "statsmodels", "uvicorn"),
    "web": ("fastapi", "python-multipart", "uvicorn"),
}
"""The packages of each extra, as in pyproject.toml without versions."""


class GraceError(ValueError):
    """Bad input; the message names the culprit and the remedy in one line.

    With `parts` the message is a format string that they are filled into, a tuple of names as a list of the first few.
    A language may have a translation of the format string (`grace.text.languages.Language.ERRORS`), see `translated`.
    """

    def __init__(self, message: str = "", **parts: Any) -> None:
        super().__init__(_one_line(_filled(message, parts, MORE) if parts else message))
        self.template, self.parts = message, parts

    def translated(self, catalogue: Mapping[str, str]) -> str | None:
        """The message by a catalogue of translated format strings; None where it does not have this one."""
        found = catalogue.get(self.template)
        if found is None or not self.parts:
            return found
        return _one_line(_filled(found, self.parts, catalogue.get(MORE, MORE)))


def shortened(names: Sequence[str], more: str = MORE, most: int = MOST_NAMED) -> str:
    """The first few of many names."""
    return ", ".join(names[:most]) + (more.format(count=len(names)) if len(names) > most else "")


def _filled(template: str, parts: Mapping[str, Any], more: str) -> str:
    shown = {name: shortened(part, more) if isinstance(part, tuple) else part for name, part in parts.items()}
    return template.format(**shown)


def _one_line(message: str) -> str:
    """Without line breaks, and cut in the middle where it is very long."""
    line = " ".join(message.splitlines())
    return line if len(line) <= MOST else f"{line[: MOST // 2]} ... {line[-MOST // 2 :]}"


def pip_install(extra: str) -> str:
    """The command that installs the packages of an extra. It names them one by one, as GRACE itself may come from a
    checkout or a wheel, which pip does not find by name."""
    return shlex.join(["pip", "install", *EXTRAS[extra]])
