"""What a job asks about each row: as JSON, for the manifest and for other processes, and as arguments of `explain`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from grace.errors import GraceError
from grace.problem.target_range import TargetRange


@dataclass(frozen=True)
class JobQuestion:
    """The arguments of `explain`, whether missing cells are imputed, and the arguments of `Explanation.text` if
    sentences are written."""

    settings: Mapping[str, Any]
    impute: bool = False
    text: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], memory: int) -> JobQuestion:
        """From what `question_to_json` returns; `memory` is what a process may use for its rows, in bytes."""
        settings = {**data["settings"], "memory": memory}
        if isinstance(settings.get("against"), dict):
            settings["against"] = TargetRange(**settings["against"])
        if data["impute"]:
            settings["missing"] = "fill"
        return cls(settings, data["impute"], data["text"])


def question_to_json(
    settings: Mapping[str, Any], *, impute: bool = False, text: bool | Mapping[str, Any] = False
) -> dict[str, Any]:
    """A question as JSON has it; settings that are at their defaults are left out."""
    options = {} if isinstance(text, bool) else {k: v for k, v in text.items() if v not in (None, False)}
    return {"settings": _plain_settings(settings), "impute": impute, "text": None if text is False else options}


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    given = {k: v for k, v in settings.items() if v is not None}
    out = {k: v for k, v in given.items() if k in ("rules", "only") or not isinstance(v, list | tuple | dict) or v}
    if "robust" in out:
        raise GraceError("robust= is not for jobs, as other models are not saved with the explainer")
    against = out.get("against")
    if isinstance(against, TargetRange):
        out["against"] = asdict(against)
    elif isinstance(against, list | tuple) or hasattr(against, "__array__"):
        raise GraceError("against: a job contrasts every row with the same class")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(out, default=lambda v: v.item()))
    except (TypeError, AttributeError, ValueError) as reason:
        raise GraceError(f"a setting of a job must be plain values: {reason}") from reason
    return plain
