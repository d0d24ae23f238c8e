"""The process in which a function of a user's file answers: `python -m grace.experiments.child PLACE TASK ANSWERS`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grace.errors import GraceError
from grace.experiments.functions import call, load
from grace.experiments.task import Task


def main() -> None:
    place, folder, out = sys.argv[1:4]
    try:
        answers = call(load(place), Task.load(Path(folder)))
    except GraceError as reason:
        sys.exit(str(reason))
    Path(out).write_text(json.dumps(answers.to_dict()), encoding="utf-8")


if __name__ == "__main__":
    main()
