"""Participants and their answers in SQLite.

Every change is one transaction on a connection of its own, and is on the disk before the participant hears of it
(WAL with synchronous=FULL): whatever happens to the server, an answer that was accepted is kept, and kept once.
"""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grace.errors import GraceError
from grace.schema.features import Value
from grace.schema.parsing import fitted, read_json

HOLD = 3600.0  # seconds after which a participant who has not answered counts as gone
PATIENCE = 30.0  # seconds to wait for others who are writing

TABLES = """
CREATE TABLE participants (
  token TEXT PRIMARY KEY,
  arm INTEGER NOT NULL,
  item INTEGER NOT NULL,
  started REAL NOT NULL,
  withdrawn INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE responses (
  token TEXT PRIMARY KEY REFERENCES participants,
  submitted REAL NOT NULL,
  attention INTEGER NOT NULL,
  intuitive INTEGER CHECK (intuitive BETWEEN 1 AND 10),
  comprehensible INTEGER CHECK (comprehensible BETWEEN 1 AND 10),
  adjusted TEXT,
  predicted TEXT,
  correct INTEGER
) STRICT;
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a participant submitted: two ratings, or an adjusted row with the model's class for it and whether that
    is another one. `attention`: whether the question asked as a check was answered correctly."""

    attention: bool
    intuitive: int | None = None
    comprehensible: int | None = None
    adjusted: Mapping[str, Value] | None = None
    predicted: str | None = None
    correct: bool | None = None


@dataclass(frozen=True)
class Participant:
    """Who holds a token: where they were assigned, when, and what they have answered."""

    token: str
    arm: int
    item: int
    started: float
    withdrawn: bool = False
    submitted: float | None = None
    answer: Answer | None = None


class Store:
    """The answers of one study."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self.clock = Path(path), clock

    def create(self) -> None:
        """A new, empty file that only its owner can read."""
        self.path.touch(mode=0o600, exist_ok=False)
        connection = sqlite3.connect(self.path)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(TABLES)
        finally:
            connection.close()

    def begin(self, token: str, arms: int, items: int, seed: int) -> Participant:
        """Assign a participant, once: to the arm with the fewest people who have answered or still may, and
        there to the item with the fewest. Ties are drawn from the seed."""
        with self._change() as do:
            known = _participant(do, token)
            if known is not None:
                return known
            now = self.clock()
            query = """SELECT arm, item, count(*) FROM participants LEFT JOIN responses USING (token)
                WHERE NOT withdrawn AND (submitted IS NOT NULL OR started > ?) GROUP BY arm, item"""
            here = Counter({(arm, item): n for arm, item, n in do.execute(query, (now - HOLD,))})
            number = do.execute("SELECT count(*) FROM participants").fetchone()[0]
            draw = random.Random(f"{seed}/{number}")
            load = [sum(n for (a, _), n in here.items() if a == arm) for arm in range(arms)]
            arm = draw.choice([a for a in range(arms) if load[a] == min(load)])
            least = min(here[arm, i] for i in range(items))
            item = draw.choice([i for i in range(items) if here[arm, i] == least])
            do.execute(
                "INSERT INTO participants (token, arm, item, started) VALUES (?, ?, ?, ?)", (token, arm, item, now)
            )
            return Participant(token, arm, item, now)

    def participant(self, token: str) -> Participant | None:
        """Who holds the token."""
        with self._open() as do:
            return _participant(do, token)

    def submit(self, token: str, answer: Answer) -> bool:
        """Keep an answer; False if there was one already (which stands) or the participant has withdrawn."""
        adjusted = None if answer.adjusted is None else json.dumps(dict(answer.adjusted), ensure_ascii=False)
        with self._change() as do:
            known = _participant(do, token)
            if known is None:
                raise GraceError("an answer came from somebody who does not take part")
            if known.withdrawn or known.answer is not None:
                return False
            ratings = (answer.intuitive, answer.comprehensible)
            values = (token, self.clock(), answer.attention, *ratings, adjusted, answer.predicted, answer.correct)
            do.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            return True

    def withdraw(self, token: str) -> None:
        """Delete a participant's answer for good; the place becomes free."""
        with self._change() as do:
            do.execute("DELETE FROM responses WHERE token = ?", (token,))
            do.execute("UPDATE participants SET withdrawn = 1 WHERE token = ?", (token,))

    def participants(self) -> list[Participant]:
        """Everybody, in order of arrival."""
        try:
            with self._open() as do:
                return [_read(row) for row in do.execute(f"{EVERYBODY} ORDER BY participants.rowid")]
        except sqlite3.Error as reason:
            raise GraceError(f"{self.path} cannot be read: {reason}") from reason

    # -- connections --------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if not self.path.is_file():
            raise GraceError(f"{self.path} is missing: the study has no place for answers")
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA secure_delete=ON")  # what was withdrawn is overwritten
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """A transaction that has the file for itself from its first look on."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def completion_code(token: str) -> str:
    """What a participant shows to be paid; it does not lead back to their page."""
    return hashlib.sha256(token.encode()).hexdigest()[:10].upper()


EVERYBODY = """SELECT token, arm, item, started, withdrawn, submitted, attention, intuitive, comprehensible, adjusted,
    predicted, correct FROM participants LEFT JOIN responses USING (token)"""


def _participant(do: sqlite3.Connection, token: str) -> Participant | None:
    row = do.execute(f"{EVERYBODY} WHERE token = ?", (token,)).fetchone()
    return None if row is None else _read(row)


def _read(row: tuple[Any, ...]) -> Participant:
    token, arm, item, started, withdrawn, submitted, attention, *ratings, adjusted, predicted, correct = row
    if submitted is None:
        return Participant(token, arm, item, started, bool(withdrawn))
    answer = Answer(
        attention=bool(attention),
        intuitive=ratings[0],
        comprehensible=ratings[1],
        adjusted=None if adjusted is None else _row(adjusted),
        predicted=predicted,
        correct=None if correct is None else bool(correct),
    )
    return Participant(token, arm, item, started, bool(withdrawn), submitted, answer)


def _row(written: str) -> Mapping[str, Value]:
    found: Mapping[str, Value] = fitted(read_json(written, "an answer"), Mapping[str, Value], "an answer")
    return found
