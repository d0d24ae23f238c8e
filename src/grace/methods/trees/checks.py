"""Whether each change of an answer is needed, in compiled code: the trees' sums of all subsets of the changes."""

from __future__ import annotations

from grace.methods.compiled.checks import NEEDED, REDUCIBLE, UNSURE
from grace.methods.trees.margins import ACCEPTED, IN_DOUBT, Aims, verdict_of
from grace.models.compiled import Floats, Ints, compiled
from grace.models.trees.compiled import Trees, add_up


@compiled
def need_every_change(
    trees: Trees, aims: Aims, rows: Floats, found: Floats, begin: int, end: int, most: int, needed: Ints,
    changed: Ints, row: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Whether no proper subset of the changes to some rows, at most so many each, is decided as was asked for (n,):
    NEEDED, or REDUCIBLE, or UNSURE where rounding could decide. `changed` (most,), `row` (d,) and `sums` (k,) are room
    to work."""
    for i in range(begin, end):
        count = 0
        for f in range(len(row)):
            row[f] = rows[i, f]
            if found[i, f] != row[f]:
                if count < most:
                    changed[count] = f
                count += 1
        needed[i] = NEEDED if count <= most else UNSURE
        if not 2 <= count <= most:
            continue
        for subset in range(1, (1 << count) - 1):
            for place in range(count):
                f = changed[place]
                row[f] = found[i, f] if subset >> place & 1 else rows[i, f]
            add_up(trees, row, sums)
            verdict = verdict_of(aims, i, sums)
            if verdict == ACCEPTED:
                needed[i] = REDUCIBLE
                break
            if verdict == IN_DOUBT:
                needed[i] = UNSURE
