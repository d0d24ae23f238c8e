"""Participants and their answers in SQLite.

Every change is one transaction on its own connection, durable before the participant is told (WAL with
synchronous=FULL): an accepted answer survives a crash, and is stored once.
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

HOLD = 3600.0  # seconds after which a participant without an answer is no longer counted
BUSY_TIMEOUT = 30.0  # seconds

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
    """A submitted answer: two ratings, or an adjusted row with its predicted class and whether that differs from the
    original one (`correct`). `attention`: whether the attention check was passed."""

    attention: bool
    intuitive: int | None = None
    comprehensible: int | None = None
    adjusted: Mapping[str, Value] | None = None
    predicted: str | None = None
    correct: bool | None = None


@dataclass(frozen=True)
class Participant:
    """A participant's token, assignment, time of start, and answer."""

    token: str
    arm: int
    item: int
    started: float
    withdrawn: bool = False
    submitted: float | None = None
    answer: Answer | None = None

    @property
    def may_answer(self) -> bool:
        return self.answer is None and not self.withdrawn


class Store:
    """The answers of one study."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self.clock = Path(path), clock

    def create(self) -> None:
        """Create an empty file that only its owner can read."""
        self.path.touch(mode=0o600, exist_ok=False)
        connection = sqlite3.connect(self.path)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(TABLES)
        finally:
            connection.close()

    def begin(self, token: str, arms: int, items: int, seed: int) -> Participant:
        """Assign a new participant to the arm with the fewest participants who have answered or still may, and there to
        the item with the fewest. Ties are broken at random, by the seed."""
        with self._transaction() as connection:
            participant = _participant(connection, token)
            if participant is not None:
                return participant
            now = self.clock()
            query = """SELECT arm, item, count(*) FROM participants LEFT JOIN responses USING (token)
                WHERE NOT withdrawn AND (submitted IS NOT NULL OR started > ?) GROUP BY arm, item"""
            counts = Counter({(arm, item): n for arm, item, n in connection.execute(query, (now - HOLD,))})
            number = connection.execute("SELECT count(*) FROM participants").fetchone()[0]
            rng = random.Random(f"{seed}/{number}")
            totals = [sum(n for (a, _), n in counts.items() if a == arm) for arm in range(arms)]
            arm = rng.choice([a for a in range(arms) if totals[a] == min(totals)])
            fewest = min(counts[arm, i] for i in range(items))
            item = rng.choice([i for i in range(items) if counts[arm, i] == fewest])
            connection.execute(
                "INSERT INTO participants (token, arm, item, started) VALUES (?, ?, ?, ?)", (token, arm, item, now)
            )
            return Participant(token, arm, item, now)

    def participant(self, token: str) -> Participant | None:
        """The participant with this token."""
        with self._open() as connection:
            return _participant(connection, token)

    def submit(self, token: str, answer: Answer) -> bool:
        """Store an answer; False if there is one already or the participant has withdrawn."""
        adjusted = None if answer.adjusted is None else json.dumps(dict(answer.adjusted), ensure_ascii=False)
        with self._transaction() as connection:
            participant = _participant(connection, token)
            if participant is None:
                raise GraceError("an answer came from somebody who does not take part")
            if not participant.may_answer:
                return False
            ratings = (answer.intuitive, answer.comprehensible)
            values = (token, self.clock(), answer.attention, *ratings, adjusted, answer.predicted, answer.correct)
            connection.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            return True

    def withdraw(self, token: str) -> None:
        """Delete a participant's answer permanently; the assignment becomes free."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM responses WHERE token = ?", (token,))
            connection.execute("UPDATE participants SET withdrawn = 1 WHERE token = ?", (token,))

    def participants(self) -> list[Participant]:
        """All participants in order of arrival."""
        try:
            with self._open() as connection:
                return [_read(row) for row in connection.execute(f"{SELECT_ALL} ORDER BY participants.rowid")]
        except sqlite3.Error as reason:
            raise GraceError(f"{self.path} cannot be read: {reason}") from reason

    # -- connections --------------------------------------------------------------------------

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if not self.path.is_file():
            raise GraceError(f"{self.path} is missing: the study has no place for answers")
        connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA secure_delete=ON")  # overwrite withdrawn answers
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """An exclusive transaction (BEGIN IMMEDIATE)."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def completion_code(token: str) -> str:
    """A code with which participants prove their participation; the token cannot be derived from it."""
    return hashlib.sha256(token.encode()).hexdigest()[:10].upper()


SELECT_ALL = """SELECT token, arm, item, started, withdrawn, submitted, attention, intuitive, comprehensible, adjusted,
    predicted, correct FROM participants LEFT JOIN responses USING (token)"""


def _participant(connection: sqlite3.Connection, token: str) -> Participant | None:
    row = connection.execute(f"{SELECT_ALL} WHERE token = ?", (token,)).fetchone()
    return None if row is None else _read(row)


def _read(row: tuple[Any, ...]) -> Participant:
    token, arm, item, started, withdrawn, submitted, attention, *ratings, adjusted, predicted, correct = row
    if submitted is None:
        return Participant(token, arm, item, started, bool(withdrawn))
    answer = Answer(
        attention=bool(attention),
        intuitive=ratings[0],
        comprehensible=ratings[1],
        adjusted=None if adjusted is None else _adjusted_row(adjusted),
        predicted=predicted,
        correct=None if correct is None else bool(correct),
    )
    return Participant(token, arm, item, started, bool(withdrawn), submitted, answer)


def _adjusted_row(text: str) -> Mapping[str, Value]:
    row: Mapping[str, Value] = fitted(read_json(text, "an answer"), Mapping[str, Value], "an answer")
    return row
