"""Results about the rows of a batch, one for each: a sequence with the labels of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from grace.explain.json_text import indented
from grace.schema.features import plain


class HasRecord(Protocol):
    def to_dict(self, *, language: str | None = None) -> dict[str, Any]: ...


T = TypeVar("T", bound=HasRecord)


class RowResults(Generic[T]):
    """One result for each row of a batch; `index` has the labels of the rows."""

    def __init__(self, results: Sequence[T], index: Sequence[Any]) -> None:
        self._results, self.index = tuple(results), tuple(index)

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, i: int) -> T:
        return self._results[i]

    def __iter__(self) -> Iterator[T]:
        return iter(self._results)

    def to_json(self, *, language: str | None = None) -> str:
        """All results; `language` is that of their texts."""
        records = (
            {"index": plain(label), **r.to_dict(language=language)} for label, r in zip(self.index, self, strict=True)
        )
        return "[\n " + ",\n ".join(indented(record, 1) for record in records) + "\n]"

    def __repr__(self) -> str:
        lines = [f"  {label}: {result!r}" for label, result in zip(self.index[:3], self, strict=False)]
        more = ["  ..."] if len(self) > 3 else []
        return "\n".join([f"<{len(self)} rows", *lines, *more]) + ">"
