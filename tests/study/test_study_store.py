"""Answers are kept, kept once, and people are spread evenly whatever they do."""

from __future__ import annotations

import sqlite3
import stat
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grace import GraceError
from grace.study.store import HOLD, Answer, Store, completion_code

RATED = Answer(attention=True, intuitive=7, comprehensible=9)


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "responses.sqlite", Clock())
    store.create()
    return store


def test_only_its_owner_can_read_the_file(store: Store) -> None:
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_an_answer_comes_back_as_it_was(store: Store) -> None:
    assert store.participant("a") is None
    who = store.begin("a", 2, 1, seed=0)
    assert who.answer is None
    adjusted = Answer(attention=False, adjusted={"<x>": 1.5, "é": "ü"}, predicted="benign", correct=True)
    store.clock.now += 100  # type: ignore[attr-defined]
    assert store.submit("a", adjusted)
    back = store.participant("a")
    assert back is not None
    assert (back.answer, back.submitted) == (adjusted, who.started + 100)
    assert store.participants() == [back]


def test_begin_and_submit_are_done_once(store: Store) -> None:
    who = store.begin("a", 4, 3, seed=0)
    store.clock.now += 9  # type: ignore[attr-defined]
    assert store.begin("a", 4, 3, seed=0) == who
    assert store.submit("a", RATED)
    assert not store.submit("a", Answer(attention=False, intuitive=1, comprehensible=1))
    assert store.begin("a", 4, 3, seed=0) == store.participant("a")
    assert [p.answer for p in store.participants()] == [RATED]


def test_the_same_answer_from_many_threads_is_kept_once(store: Store) -> None:
    store.begin("a", 2, 1, seed=0)
    with ThreadPoolExecutor(12) as pool:
        kept = list(pool.map(lambda _: store.submit("a", RATED), range(24)))
    assert sum(kept) == 1


@pytest.mark.parametrize("items", [1, 3])
@pytest.mark.parametrize("arms", [2, 4])
def test_people_who_come_at_once_are_spread_evenly(store: Store, arms: int, items: int) -> None:
    with ThreadPoolExecutor(16) as pool:
        people = list(pool.map(lambda i: store.begin(f"p{i}", arms, items, seed=5), range(50)))
    by_arm = Counter(p.arm for p in people)
    assert len(by_arm) == arms
    assert max(by_arm.values()) - min(by_arm.values()) <= 1
    for arm in range(arms):
        by_item = Counter(dict.fromkeys(range(items), 0) | Counter(p.item for p in people if p.arm == arm))
        assert max(by_item.values()) - min(by_item.values()) <= 1


EVENTS = st.lists(
    st.one_of(
        st.just(("arrive", 0)),
        st.tuples(st.sampled_from(["answer", "withdraw"]), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(1, int(HOLD))),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None)
@given(EVENTS, st.integers(1, 3), st.integers(1, 3), st.integers(0, 3))
def test_each_arrival_goes_where_fewest_are(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]], arms: int, items: int, seed: int
) -> None:
    """Beside a literal account of who is there: those who answered, and those who came less than HOLD ago."""
    clock = Clock()
    store = Store(tmp_path_factory.mktemp("s") / "r.sqlite", clock)
    store.create()
    people: list[dict[str, object]] = []
    for what, number in events:
        if what == "wait":
            clock.now += number
        elif what == "arrive":
            live = [
                (p["arm"], p["item"])
                for p in people
                if p["state"] == "answered" or (p["state"] == "open" and p["started"] > clock.now - HOLD)  # type: ignore[operator]
            ]
            who = store.begin(f"t{len(people)}", arms, items, seed)
            load = [sum(a == arm for a, _ in live) for arm in range(arms)]
            assert load[who.arm] == min(load)
            within = [live.count((who.arm, item)) for item in range(items)]
            assert within[who.item] == min(within)
            people.append({"arm": who.arm, "item": who.item, "state": "open", "started": clock.now})
        elif people:
            k = number % len(people)
            if what == "answer":
                assert store.submit(f"t{k}", RATED) == (people[k]["state"] == "open")
                people[k]["state"] = "answered" if people[k]["state"] == "open" else people[k]["state"]
            else:
                store.withdraw(f"t{k}")
                people[k]["state"] = "withdrawn"
    kept = {p.token for p in store.participants() if p.answer is not None}
    assert kept == {f"t{k}" for k, p in enumerate(people) if p["state"] == "answered"}


def test_the_seed_decides_among_equals(tmp_path: Path) -> None:
    def order(name: str, seed: int) -> list[int]:
        store = Store(tmp_path / name)
        store.create()
        return [store.begin(f"t{i}", 2, 1, seed).arm for i in range(20)]

    assert order("a", 1) == order("b", 1)
    assert len({tuple(order(str(seed), seed)) for seed in range(4)}) > 1


def test_withdrawn_answers_are_gone(store: Store) -> None:
    store.begin("a", 2, 1, seed=0)
    secret = {"x": "a value that must not stay"}
    store.submit("a", Answer(attention=True, adjusted=secret, predicted="no", correct=False))
    assert b"must not stay" in store.path.read_bytes()
    store.withdraw("a")
    who = store.participant("a")
    assert who is not None
    assert (who.withdrawn, who.answer) == (True, None)
    assert not store.submit("a", RATED)
    left = b"".join(p.read_bytes() for p in store.path.parent.iterdir())
    assert b"must not stay" not in left


def test_what_cannot_be_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(GraceError, match="does not take part"):
        store.submit("stranger", RATED)
    store.begin("a", 2, 1, seed=0)
    with pytest.raises(sqlite3.IntegrityError):
        store.submit("a", Answer(attention=True, intuitive=11, comprehensible=1))
    who = store.participant("a")
    assert who is not None
    assert who.answer is None
    with pytest.raises(GraceError, match="missing"):
        Store(tmp_path / "none").participants()
    with pytest.raises(FileExistsError):
        store.create()


def test_answers_are_on_the_disk_when_they_are_accepted(store: Store) -> None:
    with store._open() as do:
        assert do.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert do.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert do.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_codes_tell_people_apart() -> None:
    codes = {completion_code(str(i)) for i in range(1000)}
    assert len(codes) == 1000
    assert all(len(code) == 10 for code in codes)
