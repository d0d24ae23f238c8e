"""Other libraries that a benchmark can run: pinned requirements, runner script and variants of each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grace.errors import GraceError
from grace.experiments.process import ask_peer, environment
from grace.experiments.task import Answers, Task

RUNNERS = Path(__file__).parent / "runners"


@dataclass(frozen=True)
class Library:
    """A library: its runner script, all packages of its virtual environment with versions, and its variants."""

    runner: str
    requirements: tuple[str, ...]
    variants: tuple[str, ...]
    torch_too: bool = False


COMMON = (
    "joblib==1.5.2",
    "python-dateutil==2.9.0.post0",
    "pytz==2025.2",
    "six==1.17.0",
    "tqdm==4.67.1",
    "tzdata==2025.2",
)

DICE = Library(
    "run_dice.py",
    (
        *COMMON,
        "dice-ml==0.12",
        "attrs==25.3.0",
        "jsonschema==4.25.1",
        "jsonschema-specifications==2025.9.1",
        "numpy==2.2.6",
        "pandas==2.3.3",
        "raiutils==0.4.2",
        "certifi==2025.8.3",
        "charset-normalizer==3.4.3",
        "idna==3.10",
        "referencing==0.36.2",
        "requests==2.32.5",
        "rpds-py==0.27.1",
        "scikit-learn==1.7.2",
        "scipy==1.15.3",
        "threadpoolctl==3.6.0",
        "typing_extensions==4.16.0",
        "urllib3==2.5.0",
    ),
    ("random", "genetic", "gradient"),
    torch_too=True,
)
NICE = Library(
    "run_nice.py",
    (  # it requires numpy below 2, but runs unchanged on 2
        "NICEx==0.2.3",
        "joblib==1.5.2",
        "numpy==2.2.6",
        "scikit-learn==1.7.2",
        "scipy==1.15.3",
        "threadpoolctl==3.6.0",
    ),
    ("sparsity", "proximity", "plausibility"),
)
CFNOW = Library(
    "run_cfnow.py",
    (
        *COMMON,
        "cfnow==0.0.6",
        "click==8.2.1",
        "contourpy==1.3.3",
        "counterplots==0.0.7",
        "cycler==0.12.1",
        "fonttools==4.60.1",
        "imageio==2.37.0",
        "kiwisolver==1.4.9",
        "lazy_loader==0.4",
        "matplotlib==3.10.6",
        "networkx==3.4.2",
        "nltk==3.9.1",
        "numpy==2.2.6",
        "opencv-python-headless==4.12.0.88",
        "packaging==25.0",
        "pandas==2.3.3",
        "pillow==11.3.0",
        "pyparsing==3.2.5",
        "regex==2025.9.18",
        "scikit-image==0.25.2",
        "scipy==1.15.3",
        "tifffile==2025.9.30",
    ),
    ("greedy", "random"),
)
TORCHATTACKS = Library("run_torchattacks.py", ("torchattacks==3.5.1",), ("sparsefool", "jsma"), torch_too=True)
TREECF = Library("run_treecf.py", ("treecf==0.3.2", "numpy==2.2.6"), ("genetic", "exact"))

LIBRARIES = {"dice": DICE, "nice": NICE, "cfnow": CFNOW, "torchattacks": TORCHATTACKS, "treecf": TREECF}


@dataclass(frozen=True)
class Peer:
    """One variant of a library, as a method of a benchmark."""

    library: str
    variant: str

    @property
    def name(self) -> str:
        return self.variant if self.library == "torchattacks" else f"{self.library}-{self.variant}"

    def ask(self, task: Task, environments: Path, *, total: float = math.inf) -> Answers:
        """Its answers, computed in a virtual environment that is created on first use. After `total` seconds it is not
        restarted for further rows."""
        library = LIBRARIES[self.library]
        python = environment(self.library, library.requirements, environments, torch_too=library.torch_too)
        return ask_peer(task, [str(python), str(RUNNERS / library.runner)], self.variant, total=total)

    def fingerprint(self) -> str:
        """A hash of the pinned versions and the scripts."""
        digest = hashlib.sha256(repr((LIBRARIES[self.library], self.variant)).encode())
        for script in (LIBRARIES[self.library].runner, "protocol.py", "unit.py"):
            digest.update((RUNNERS / script).read_bytes())
        return digest.hexdigest()


PEERS = {p.name: p for p in (Peer(name, v) for name, lib in LIBRARIES.items() for v in lib.variants)}


def find(names: Sequence[str]) -> list[Peer]:
    """The peers of some names: a variant such as dice-random, or a library for all of its variants."""
    found: dict[str, Peer] = {}
    for name in names:
        chosen = [p for p in PEERS.values() if name in (p.name, p.library)]
        if not chosen:
            raise GraceError(
                f"there is no peer {name!r}; there are {', '.join((*LIBRARIES, *PEERS))}, "
                "or your own as path/to/file.py:function"
            )
        found |= {p.name: p for p in chosen}
    return list(found.values())
