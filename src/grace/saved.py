"""What a saved explainer says of itself, without loading it; `grace.store` writes and loads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grace.errors import GraceError

FORMAT = 1
HEAD = "grace.json"


def head_of(folder: Path) -> dict[str, Any]:
    """The settings of a saved explainer, of a format that this version reads."""
    if not (folder / HEAD).is_file():
        raise GraceError(f"{folder} is not a saved explainer: it has no {HEAD}")
    try:
        head: dict[str, Any] = json.loads((folder / HEAD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as reason:
        raise GraceError(f"{folder / HEAD} cannot be read: {reason}") from reason
    if not isinstance(head, dict):
        raise GraceError(f"{folder / HEAD} is damaged: not a JSON object")
    if head.get("format") != FORMAT:
        raise GraceError(f"{folder} has format {head.get('format')!r}; this version reads format {FORMAT}")
    for part in ("schemas", "classes", "network"):
        if part not in head:
            raise GraceError(f"{folder / HEAD} is damaged: it has no {part!r}")
    return head
