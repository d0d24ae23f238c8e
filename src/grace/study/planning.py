"""The plan of a study: its size for what it shall find, in words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from grace.errors import GraceError
from grace.study import power as sizes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`valid` answers a group give the `power`; to have them, `recruit` participants a group."""

    test: str
    effect: dict[str, float]
    alpha: float
    two_sided: bool
    valid: int
    power: float
    recruit: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        effect = ", ".join(f"{name} = {value:g}" for name, value in self.effect.items())
        tails = "two" if self.two_sided else "one"
        said = (
            f"{self.test}, {tails}-tailed, alpha = {self.alpha:g}, {effect}: {self.valid} valid answers a group "
            f"({2 * self.valid} in all) find it with power {self.power:.3f}."
        )
        return said if self.recruit == self.valid else f"{said} Recruit {self.recruit} a group."


def plan(
    *,
    d: float | None = None,
    p1: float | None = None,
    p2: float | None = None,
    n: int | None = None,
    alpha: float = sizes.ALPHA,
    power: float = sizes.POWER,
    two_sided: bool = False,
    lost: float = 0.0,
) -> Plan:
    """The size for an effect of d standard deviations, or of shares p1 against p2; with `n`, the power of that size.
    `lost` is the share of answers that will not count."""
    if not 0 <= lost < 1:
        raise GraceError(f"lost={lost}: it must be a share from 0 to below 1, such as 0.2")
    if n is not None and n < 2:
        raise GraceError(f"n={n}: a comparison needs at least two answers a group")
    sizes.check(alpha, power)
    if d is not None:
        test, effect = "t-test", {"d": d}
        valid = n or sizes.t_size(d, alpha=alpha, power=power, two_sided=two_sided)
        reached = sizes.t_power(d, valid, valid, alpha=alpha, two_sided=two_sided)
    elif p1 is not None and p2 is not None:
        test, effect = "Fisher's exact test", {"p1": p1, "p2": p2}
        valid = n or sizes.fisher_size(p1, p2, alpha=alpha, power=power, two_sided=two_sided)
        reached = sizes.fisher_power(p1, p2, valid, valid, alpha=alpha, two_sided=two_sided)
    else:
        raise GraceError("give d for ratings, or p1 and p2 for right and wrong answers")
    recruit = math.ceil(valid / (1 - lost) - 1e-9)
    return Plan(test=test, effect=effect, alpha=alpha, two_sided=two_sided, valid=valid, power=reached, recruit=recruit)
